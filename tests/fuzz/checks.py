"""Values that accepted inputs must give, from formulas written here."""

import mpmath

import posenc_ref as pr

mpmath.mp.dps = 50


def used(model):
    """Compute the frequencies, scale and text of a model, as every use of it does."""
    str(model)
    model.to_dict()
    for encoding in model.encodings.values():
        if hasattr(encoding, "frequencies"):
            encoding.frequencies(4096)


def config(given, found):
    """Compare Llama's plain or linear RoPE with ``base ** (-2k/d)`` in 50 digits."""
    nested = any(isinstance(v, dict) and k.endswith("_config") for k, v in given.items())
    if nested or given.get("model_type") not in ("llama", "mistral", "qwen2"):
        return
    parameters = given.get("rope_parameters") or given.get("rope_scaling") or {}
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    encodings = [e for e in found.model.encodings.values() if e is not None]
    if kind not in ("default", "linear") or len(encodings) != 1:
        return
    encoding = encodings[0]
    heads = given.get("num_attention_heads") or 32
    width = given.get("hidden_size") or 4096
    dim = given.get("head_dim") or width // heads
    base = given.get("rope_theta") or parameters.get("rope_theta") or 10000.0
    base = given.get("rope_theta") if base is None else base
    factor = parameters["factor"] if kind == "linear" else 1
    close(encoding, base, dim, factor)


def close(encoding, base, dim, factor=1):
    """Require frequencies ``base ** (-2k/dim) / factor``, to the last bit of float64."""
    assert encoding.head_dim == dim, (encoding, dim)
    actual = encoding.frequencies()
    assert len(actual) == dim // 2, (encoding, dim)
    for k in {0, 1, len(actual) // 2, len(actual) - 1} & set(range(len(actual))):
        want = mpmath.mpf(float(base)) ** (mpmath.mpf(-2 * k) / dim) / mpmath.mpf(factor)
        assert abs(mpmath.mpf(float(actual[k])) - want) <= abs(want) * 2.0**-53 + 5e-324, (
            k,
            actual[k],
        )


def gguf_metadata(given, found):
    """Compare a plain Llama with ``base ** (-2k/d)`` in 50 digits."""
    if given.get("general.architecture") != "llama" or any("scaling" in key for key in given):
        return
    (encoding,) = found.model.encodings.values()
    base = given.get("llama.rope.freq_base")
    dim = given.get("llama.attention.key_length")
    if dim is None or any("scale_linear" in k for k in given) or encoding.rotary_dim != dim:
        return
    close(encoding, 10000.0 if base is None else base, dim)


def value(given, found):
    """Require that what was read is what ``to_dict`` writes, and that plain RoPE is right."""
    assert pr.from_dict(found.to_dict()) == found
    if type(found) is pr.RoPE and found.scaling is None and found.rotary_dim == found.head_dim:
        close(found, given.get("base", 10000.0), given["head_dim"])


def shown_report(recorded):
    """Show a recorded report as the command does: nothing foreign but printable characters."""
    from posenc_ref.conformance.surveys.ndjson_markdown import markdown

    for text in (str(recorded.result), markdown([recorded])):
        text.encode()
        bad = [c for c in text if not (c.isprintable() or c == "\n")]
        assert not bad, f"unprintable {bad[:3]}"
