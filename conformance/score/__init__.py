"""Judge and diagnose attention logits."""
