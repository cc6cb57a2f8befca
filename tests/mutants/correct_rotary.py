"""Correct implementations, to be written."""
