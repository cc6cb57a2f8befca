"""Judge the attention of whole models of the installed transformers."""
