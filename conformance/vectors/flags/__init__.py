"""Flags of golden vectors: why a case exists, recomputed from the case."""
