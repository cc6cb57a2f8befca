"""Surfaces of functions without an encoding, or whose result is a number or a list of flags."""
