"""The code that computes the fast paths: loops on the host and kernels on devices.

Its functions take arrays, cos and sin tables and slices of channels, not encodings.
"""
