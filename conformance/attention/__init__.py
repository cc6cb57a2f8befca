"""Judge the outputs of whole attentions."""
