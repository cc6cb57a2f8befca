"""Functions of libraries that `tools/libraries.py` judges in environments of their own."""
