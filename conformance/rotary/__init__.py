"""Judge and diagnose rotary encodings on the surfaces ``apply`` and ``frequencies``."""
