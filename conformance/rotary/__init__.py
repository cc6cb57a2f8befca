"""Judge and diagnose rotary encodings through ``apply`` and ``frequencies``."""
