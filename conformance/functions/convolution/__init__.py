"""Convolutional positions: their calls, the formula in steps, and what is kept between calls."""
