"""Make the golden vectors: recipes, and the 50-digit arithmetic that computes their truth."""
