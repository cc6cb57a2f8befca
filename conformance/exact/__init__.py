"""Reference values in 50-digit arithmetic, which shares no code with ``posenc_ref``."""
