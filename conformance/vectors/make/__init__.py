"""Make the golden vectors: recipes, and two independent routes to their values."""
