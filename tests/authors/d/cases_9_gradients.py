"""Cases d059-d064: gradients and norms."""

import numpy as np

from posenc_ref import RoPE, YaRN

CASES = []


def W(id, make, encoding, surface, key, cause, remedy, **settings):
    CASES.append(
        dict(
            id=id,
            fn=make(True),
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=False,
            cause=cause,
            cause_key=key,
            remedy=remedy,
            mended=make(False),
        )
    )


def R(id, fn, encoding, surface, cause, **settings):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=True,
            cause=cause,
            cause_key="right",
            remedy="",
            mended=None,
        )
    )


def freqs(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def half(x, p, w, m=1.0):
    a = np.asarray(p, np.float64)[..., None] * w
    a = a[:, None] if a.ndim == 3 else a
    c, s = (m * np.cos(a)).astype(x.dtype), (m * np.sin(a)).astype(x.dtype)
    u, v = np.split(x, 2, -1)
    return np.concatenate([u * c - v * s, v * c + u * s], -1)


def inter(x, p, w, m=1.0):
    a = np.asarray(p, np.float64)[..., None] * w
    a = a[:, None] if a.ndim == 3 else a
    c, s = (m * np.cos(a)).astype(x.dtype), (m * np.sin(a)).astype(x.dtype)
    y = np.empty_like(x)
    y[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
    y[..., 1::2] = x[..., 1::2] * c + x[..., 0::2] * s
    return y


# ---------------------------------------------------------------- apply_vjp


def d059(bug):
    enc = RoPE(64, layout="half", scaling=YaRN(8.0, 4096))
    m = enc.attention_factor()

    def vjp(x, positions, dy):
        return half(dy, -np.asarray(positions), enc.frequencies(), 1 / m if bug else m)

    return vjp


W(
    "d059",
    d059,
    RoPE(64, layout="half", scaling=YaRN(8.0, 4096)),
    "apply_vjp",
    "inverse-for-transpose",
    "The gradient is the inverse of the scaled rotation, R(-p) dy / m, instead of its transpose, "
    "m R(-p) dy: it is too small by m squared = 1.46.",
    "Multiply by m in the backward pass.",
)


def d060(bug):
    def vjp(x, positions, dy):
        dx = np.zeros_like(dy)
        dx[..., :32] = inter(dy[..., :32], -np.asarray(positions), freqs(32))
        if not bug:
            dx[..., 32:] = dy[..., 32:]
        return dx

    return vjp


W(
    "d060",
    d060,
    RoPE(80, layout="interleaved", rotary_dim=32),
    "apply_vjp",
    "lost-gradient",
    "The gradient of the 48 channels that pass through is zero instead of dy.",
    "Copy dy of the unrotated channels.",
)


def d061(bug):
    def vjp(x, positions, dy):
        a = np.asarray(positions, np.float64)[..., None] * freqs(64)
        a = a[:, None] if a.ndim == 3 else a
        c, s = np.cos(a).astype(dy.dtype), np.sin(a).astype(dy.dtype)
        u, v = np.split(dy, 2, -1)
        return np.concatenate([u * c + v * s, v * c + u * s if bug else v * c - u * s], -1)

    return vjp


W(
    "d061",
    d061,
    RoPE(64, layout="half"),
    "apply_vjp",
    "half-transposed",
    "Only the first channel of a pair has the sign of sin reversed in the backward pass; the second "
    "still has that of the forward pass (dy2 cos + dy1 sin).",
    "dx2 = dy2 cos - dy1 sin",
)


def d062(x, positions, dy):
    return half(dy.astype(np.float64), -np.asarray(positions, float), freqs(64)).astype(dy.dtype)


R(
    "d062",
    d062,
    RoPE(64, layout="half"),
    "apply_vjp",
    "The backward pass is the forward pass at negated positions, in float64.",
)

# ---------------------------------------------------------------- normed_apply


def norm(x, eps=1e-6):
    y = x.astype(np.float64)
    return y / np.sqrt(np.mean(y * y, -1, keepdims=True) + eps)


def d063(bug):
    def normed(x, weight, positions):
        w, g = freqs(64), weight.astype(np.float64)
        if bug:
            y = g * half(norm(x), positions, w)
        else:
            y = half(g * norm(x), positions, w)
        return y.astype(x.dtype)

    return normed


W(
    "d063",
    d063,
    RoPE(64, layout="half"),
    "normed_apply",
    "weight-after-rotation",
    "The norm's weight multiplies the channels after the rotation instead of before it; the "
    "normalisation itself is in the right place.",
    "rotate(weight * normalised)",
)


def d064(bug):
    def normed(x, weight, positions):
        y = x.astype(np.float64)
        size = np.sqrt(np.mean(y * y, axis=(1, 3) if bug else -1, keepdims=True) + 1e-6)
        return half(weight.astype(np.float64) * y / size, positions, freqs(64)).astype(x.dtype)

    return normed


W(
    "d064",
    d064,
    RoPE(64, layout="half"),
    "normed_apply",
    "norm-over-heads",
    "The mean of squares is taken over all heads of a token, not over each head: heads of different "
    "size are wrong (right for one head).",
    "mean over the last axis only",
)


# More cases than asked for; chosen by their nature, before any run of the judge.
SURPLUS = set("d060 d061 d063".split())
EXTRA = [c for c in CASES if c["id"] in SURPLUS]
CASES = [c for c in CASES if c["id"] not in SURPLUS]
