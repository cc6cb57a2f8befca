"""Tables and biases over the patches of an image."""
