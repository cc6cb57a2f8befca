"""Judge every table, bias and score of the installed transformers."""
