"""Judge rotary encodings with offsets, in chunks, for queries and keys, and for gradients."""
