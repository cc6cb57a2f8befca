"""Judge every rotary module of the installed transformers."""
