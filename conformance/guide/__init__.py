"""The text of ``posenc explain``: it needs NumPy only, so it also works from Python."""
