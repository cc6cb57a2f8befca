"""Surfaces that are identified as another one, with the function adapted to it."""
