"""Judge many implementations in one run: backends, libraries, or all of transformers."""
