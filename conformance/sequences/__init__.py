"""Judge rotary surfaces other than ``apply``: offsets, chunks, caches, q with k, gradients."""
