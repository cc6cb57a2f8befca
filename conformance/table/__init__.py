"""Judge and diagnose tables of positions: cos and sin, sinusoids, learned rows, features."""
