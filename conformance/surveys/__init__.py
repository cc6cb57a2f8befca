"""Judge many implementations in one run: backends, libraries, all of transformers."""
