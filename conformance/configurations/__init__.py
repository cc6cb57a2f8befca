"""What configurations mean: two of them compared, and one at a length of the context."""
