"""The conformance suite."""

if __name__ != "posenc_ref.conformance":
    raise ImportError("import posenc_ref.conformance, not the folder: the package maps it")
