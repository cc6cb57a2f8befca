"""The reference values of every surface, with the coefficients of their error units."""
