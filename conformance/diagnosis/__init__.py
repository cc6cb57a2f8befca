"""Name a mistake by comparing its predicted output with the actual one, for any encoding."""
