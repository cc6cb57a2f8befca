"""Judge rotary encodings called with offsets, in chunks, on queries and keys, and backwards."""
