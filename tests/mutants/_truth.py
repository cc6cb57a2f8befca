"""Expected values of a case in plain float64 arithmetic, for tests of the corpus itself.

They share no code with the corpus or the package: the formulas are written pair by pair from their
papers.
"""

import math

import numpy as np

ROUNDING = 2.0**-24  # of float32


def length_dependent(encoding):
    """Return whether the frequencies depend on the longest position of a call."""
    scaling = encoding.get("scaling") or {}
    return (
        scaling.get("scaling") in ("DynamicNTK", "LongRoPE")
        and scaling.get("policy", "current") == "current"
    )


def frequencies(encoding, seq_len=None):
    """(rad per position of each pair, factor on cos and sin)."""
    base = encoding.get("base", 10000.0)
    if encoding["encoding"] == "RoPE":
        d = encoding.get("rotary_dim") or encoding["head_dim"]
        return _scaled(encoding.get("scaling"), base, d, seq_len)
    sections = encoding["sections"]
    spacing = encoding.get("spacing", "global")
    if spacing == "global":
        return _scaled(encoding.get("scaling"), base, 2 * sum(sections), seq_len)
    count = [0] * len(sections)
    w = []
    for a in axes(encoding):
        i = count[a]
        count[a] += 1
        own = base[a] if isinstance(base, list) else base
        if spacing == "restart":
            w.append(own ** -(i / sections[a]))
        else:
            w.append(own ** -((len(sections) * i + a) / sum(sections)))
    return np.array(w), 1.0


def axes(encoding):
    """The axis each pair follows."""
    if encoding["encoding"] == "RoPE":
        return [0] * ((encoding.get("rotary_dim") or encoding["head_dim"]) // 2)
    sections = encoding["sections"]
    arrangement = encoding.get("arrangement", "chunked")
    if arrangement == "chunked":
        return [a for a, n in enumerate(sections) for _ in range(n)]
    if arrangement == "interleaved":
        taken = {a + len(sections) * i: a for a, n in enumerate(sections) if a for i in range(n)}
        return [taken.get(j, 0) for j in range(sum(sections))]
    return list(arrangement)


def pairs(encoding, layout):
    """Channels (first, second) of each pair in a layout."""
    n = len(axes(encoding))
    if layout == "interleaved":
        first = [2 * j for j in range(n)]
        second = [2 * j + 1 for j in range(n)]
    elif layout == "half":
        first = list(range(n))
        second = [j + n for j in range(n)]
    else:
        first, second, start = [], [], 0
        for size in encoding["sections"]:
            first += [start + i for i in range(size)]
            second += [start + size + i for i in range(size)]
            start += 2 * size
    origin = encoding.get("rotary_start", 0)
    return np.array(first) + origin, np.array(second) + origin


def apply(encoding, x, positions, seq_len=None):
    """(result, unit): the rotated x and the size of one rounding in each of its elements."""
    x = np.asarray(x, np.float64)
    _, m, turn = _angles(encoding, positions, seq_len)
    i, k = pairs(encoding, encoding["layout"])
    u, v = x[..., i], x[..., k]
    cos, sin = m * np.cos(turn), m * np.sin(turn)
    y, terms, bend = x.copy(), np.zeros_like(x), np.zeros_like(x)
    i, k = pairs(encoding, encoding.get("output_layout") or encoding["layout"])
    y[..., i], y[..., k] = u * cos - v * sin, v * cos + u * sin
    terms[..., i] = np.abs(u * cos) + np.abs(v * sin)
    terms[..., k] = np.abs(v * cos) + np.abs(u * sin)
    bend[..., i] = bend[..., k] = np.abs(turn) * m * np.hypot(u, v)
    return y, (terms, bend)


def cos_sin(encoding, positions, seq_len=None):
    """((cos, sin), (terms, bend)) of shape (S, P)."""
    _, m, turn = _angles(encoding, positions, seq_len)
    turn = turn.reshape(turn.shape[-2:])
    cos, sin = m * np.cos(turn), m * np.sin(turn)
    return (cos, sin), (m * np.ones_like(turn), m * np.abs(turn))


def _angles(encoding, positions, seq_len):
    """Frequencies, factor, and angles that broadcast against (B, H, S, P)."""
    p = np.asarray(positions, np.float64)
    if seq_len is None and length_dependent(encoding):
        seq_len = int(p.max(initial=-1.0)) + 1
    w, m = frequencies(encoding, seq_len)
    if encoding["encoding"] == "RoPE":
        turn = encoding.get("sign", 1) * p[..., None] * w
        return w, m, turn[:, None] if turn.ndim == 3 else turn
    scale = encoding.get("position_scale", 1.0)
    scale = np.array(scale if isinstance(scale, list) else [scale] * len(p))
    p = (p + encoding.get("offset", 0.0)) * scale[:, None, None]
    turn = np.stack([p[a] * f for a, f in zip(axes(encoding), w, strict=True)], axis=-1)
    return w, m, encoding.get("sign", 1) * turn[:, None]


def _scaled(scaling, base, d, seq_len):
    """Frequencies and factor of a schedule."""
    j = np.arange(d // 2)
    f = float(base) ** (-2.0 * j / d)
    if scaling is None:
        return f, 1.0
    rest = {name: value for name, value in scaling.items() if name != "scaling"}
    return _SCHEDULES[scaling["scaling"]](f, float(base), d, seq_len, **rest)


def _linear(f, base, d, seq_len, factor):
    return f / factor, 1.0


def _ntk(f, base, d, seq_len, factor):
    return f * factor ** (-2.0 * np.arange(d // 2) / (d - 2)), 1.0


def _dynamic(f, base, d, seq_len, factor, max_position, policy="current"):
    length = max(seq_len or max_position, max_position)
    if policy == "static":
        length = factor * max_position
    return _ntk(f, base, d, seq_len, factor * length / max_position - factor + 1)


def _mask(d, base, length, fast, slow, truncate=True):
    """1 where a pair turns at least `fast` times in `length`, 0 from `slow` down."""
    low, high = (
        d * (math.log(length) - math.log(2 * math.pi * r)) / (2 * math.log(base))
        for r in (fast, slow)
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, d - 1)
    if low == high:
        high += 0.001
    return np.array([1 - min(max((j - low) / (high - low), 0.0), 1.0) for j in range(d // 2)])


def _yarn(
    f,
    base,
    d,
    seq_len,
    factor,
    original_max_position,
    beta_fast=32.0,
    beta_slow=1.0,
    truncate=True,
    attention_factor=None,
    mscale=None,
    mscale_all_dim=None,
):
    keep = _mask(d, base, original_max_position, beta_fast, beta_slow, truncate)
    m = attention_factor
    if m is None:
        m = 1 + 0.1 * (mscale if mscale and mscale_all_dim else 1.0) * math.log(factor)
        if mscale and mscale_all_dim:
            m /= 1 + 0.1 * mscale_all_dim * math.log(factor)
    return f * keep + f * (1 - keep) / factor, m


def _by_parts(
    f,
    base,
    d,
    seq_len,
    factor,
    original_max_position,
    beta_0=1.25,
    beta_1=0.75,
    gamma_0=16.0,
    gamma_1=2.0,
):
    ntk, _ = _ntk(f, base, d, seq_len, factor)
    first = _mask(d, base, original_max_position, beta_0, beta_1)
    second = _mask(d, base, original_max_position, gamma_0, gamma_1)
    return second * f + (1 - second) * (first * ntk + (1 - first) * f / factor), 1.0


def _llama3(f, base, d, seq_len, factor, low_freq_factor, high_freq_factor, original_max_position):
    out = []
    for w in f:
        rotations = original_max_position * w / (2 * math.pi)
        if rotations >= high_freq_factor:
            out.append(w)
        elif rotations <= low_freq_factor:
            out.append(w / factor)
        else:
            t = (rotations - low_freq_factor) / (high_freq_factor - low_freq_factor)
            out.append(t * w + (1 - t) * w / factor)
    return np.array(out), 1.0


def _longrope(
    f,
    base,
    d,
    seq_len,
    short_factor,
    long_factor,
    original_max_position,
    factor=None,
    attention_factor=None,
    policy="current",
):
    long = policy == "long" or (policy == "current" and (seq_len or 0) > original_max_position)
    m = attention_factor
    if m is None:
        m = math.sqrt(1 + math.log(factor) / math.log(original_max_position))
    return f / np.array(long_factor if long else short_factor), m


def _proportional(f, base, d, seq_len, fraction, factor=1.0):
    kept = int(fraction * d) // 2
    return np.where(np.arange(d // 2) < kept, f / factor, 0.0), 1.0


_SCHEDULES = {
    "LinearScaling": _linear,
    "NTKScaling": _ntk,
    "DynamicNTK": _dynamic,
    "YaRN": _yarn,
    "NTKByParts": _by_parts,
    "Llama3Scaling": _llama3,
    "LongRoPE": _longrope,
    "Proportional": _proportional,
}
