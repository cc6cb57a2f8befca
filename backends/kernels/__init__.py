"""The loops and device kernels, for plain arrays, tables and slices of channels."""
