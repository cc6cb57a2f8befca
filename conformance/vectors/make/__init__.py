"""Make the golden vectors: recipes, and the 50-digit arithmetic of their expected outputs."""
