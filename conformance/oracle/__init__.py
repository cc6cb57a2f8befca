"""The reference values of every surface, with A and B of their error units."""
