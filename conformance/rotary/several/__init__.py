"""Find two mistakes that a function makes at once."""
