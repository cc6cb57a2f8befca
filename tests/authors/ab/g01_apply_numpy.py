"""Rotary embedding on NumPy arrays, x (B, H, S, D)."""
import numpy as np


# ---------------------------------------------------------------- small helpers of this file
def _freq(d, base=10000.0):
    return base ** -(np.arange(0, d, 2, dtype=np.float64) / d)


def _cs(positions, w):
    """cos and sin, (1, 1, S, P) or (B, 1, S, P), in float64."""
    p = np.asarray(positions, dtype=np.float64)
    a = p[..., None] * w
    a = a[:, None] if p.ndim == 2 else a[None, None]
    return np.cos(a), np.sin(a)


def _half(x, c, s):
    n = x.shape[-1] // 2
    a, b = x[..., :n].astype(np.float64), x[..., n:].astype(np.float64)
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(x.dtype)


def _inter(x, c, s):
    a, b = x[..., 0::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    out = np.empty(x.shape, np.float64)
    out[..., 0::2] = a * c - b * s
    out[..., 1::2] = b * c + a * s
    return out.astype(x.dtype)


# ---------------------------------------------------------------- tiled kernels
def tiled_tail(x, positions):
    tile = 64
    c, s = _cs(positions, _freq(64))
    out = x.copy()
    total = x.shape[2]
    starts = list(range(0, total - tile + 1, tile)) if total >= tile else [0]
    if total > tile and total % tile:
        starts.append(total - tile)  # a full tile for the rest
    for t in starts:
        rows = slice(t, min(t + tile, total))
        out[:, :, rows] = _half(out[:, :, rows], c[:, :, rows], s[:, :, rows])
    return out


def head_groups(x, positions):
    c, s = _cs(positions, _freq(128, 500000.0))
    out = x.copy()
    heads = x.shape[1]
    group = min(8, heads)
    for g in range(heads // group):
        hs = slice(g * group, (g + 1) * group)
        out[:, hs] = _half(x[:, hs], c, s)
    return out


def overwritten_half(x, positions):
    c, s = _cs(positions, _freq(64))
    y = x.astype(np.float64)
    first, second = y[..., :32], y[..., 32:]
    first[...] = first * c - second * s
    second[...] = second * c + first * s
    return y.astype(x.dtype)


def single_token_path(x, positions):
    w = _freq(96)
    p = np.asarray(positions, np.float64)
    if x.shape[2] == 1:  # decoding
        a = p.flat[0] * w
        return _half(x, np.cos(a), np.sin(a))
    return _half(x, *_cs(p, w))


def guess_axis(x, positions):
    """Takes (B, H, S, D) and (B, S, H, D)."""
    p = np.asarray(positions, np.float64)
    a = p[..., None] * _freq(32)
    if x.shape[1] == p.shape[-1]:
        a = a[:, :, None] if p.ndim == 2 else a[None, :, None]
    else:
        a = a[:, None] if p.ndim == 2 else a[None, None]
    return _inter(x, np.cos(a), np.sin(a))


class _ByLength:
    def __init__(self, d):
        self.w = _freq(d)
        self.tables = {}

    def __call__(self, x, positions):
        key = np.shape(positions)
        if key not in self.tables:
            self.tables[key] = _cs(positions, self.w)
        return _inter(x, *self.tables[key])


_by_length = _ByLength(64)


def cached_by_shape(x, positions):
    return _by_length(x, positions)


def inclusive_spacing(x, positions):
    w = 1.0 / 10000.0 ** np.linspace(0.0, 1.0, 32)
    return _half(x, *_cs(positions, w))


def int16_ids(x, positions):
    p = np.asarray(positions).astype(np.int64)
    p = (p & 0xFFFF).astype(np.uint16).view(np.int16)
    return _half(x, *_cs(p, _freq(64, 1e6)))


def unrolled_pairs(x, positions):
    """Four pairs at a time; what does not fill four goes to the scalar loop."""
    c, s = _cs(positions, _freq(100))
    pairs = 50
    y = x.astype(np.float64)
    out = y.copy()
    k = 0
    while k + 4 <= pairs:
        j = slice(k, k + 4)
        i = slice(50 + k, 54 + k)
        out[..., j] = y[..., j] * c[..., j] - y[..., i] * s[..., j]
        out[..., i] = y[..., i] * c[..., j] + y[..., j] * s[..., j]
        k += 4
    for t in range(k, pairs):
        out[..., t] = y[..., t] * c[..., k] - y[..., 50 + t] * s[..., k]
        out[..., 50 + t] = y[..., 50 + t] * c[..., k] + y[..., t] * s[..., k]
    return out.astype(x.dtype)


def restarted_blocks(x, positions):
    """Long inputs are cut into blocks, each with a table of its own."""
    p = np.asarray(positions, np.float64)
    w = _freq(64)
    block = 512
    parts = []
    for t in range(0, x.shape[2], block):
        q = p[..., t:t + block]
        c, s = _cs(q - q[..., :1] + (p[..., :1] if t else q[..., :1]), w)
        parts.append(_half(x[:, :, t:t + block], c, s))
    return np.concatenate(parts, axis=2)


def sine_of_next_pair(x, positions):
    """Interleaved; the sine of the second channel comes from the next pair."""
    c, s = _cs(positions, _freq(64))
    sin2 = np.repeat(s, 2, axis=-1)
    cos2 = np.repeat(c, 2, axis=-1)
    swapped = np.empty_like(x)
    swapped[..., 0::2] = -x[..., 1::2]
    swapped[..., 1::2] = x[..., 0::2]
    sin2[..., 1:-1] = sin2[..., 2:]
    return (x * cos2 + swapped * sin2).astype(x.dtype)


# ---------------------------------------------------------------- other styles


def coarse_and_fine(x, positions):
    w = _freq(128, 500000.0)
    p = np.asarray(positions, np.float64)
    hi = np.floor(p / 256.0) * 256.0
    lo = p - hi
    ch, sh = _cs(hi, w)
    cl, sl = _cs(lo, w)
    return _half(x, ch * cl - sh * sl, sh * cl + ch * sl)


def rotation_matrices(x, positions):
    d = x.shape[-1]
    w = _freq(d)
    p = np.asarray(positions, np.float64)
    p2 = np.broadcast_to(p, (x.shape[0], x.shape[2]))
    k = np.arange(d // 2)
    out = np.empty(x.shape, np.float64)
    for b in range(x.shape[0]):
        for t in range(0, x.shape[2], 128):
            a = p2[b, t:t + 128, None] * w
            r = np.zeros((a.shape[0], d, d))
            r[:, k, k] = r[:, k + d // 2, k + d // 2] = np.cos(a)
            r[:, k, k + d // 2] = -np.sin(a)
            r[:, k + d // 2, k] = np.sin(a)
            out[b, :, t:t + 128] = np.einsum("sij,hsj->hsi", r, x[b, :, t:t + 128])
    return out.astype(x.dtype)


def bits_of_position(x, positions):
    """exp(i p w) as a product over the bits of p."""
    w = _freq(64, 1e6)
    p = np.asarray(positions)
    n = np.floor(np.abs(p)).astype(np.int64)
    z = np.exp(1j * np.multiply.outer(np.abs(p) - n, w))
    bit = 0
    while (n >> bit).any():
        one = np.exp(1j * (w * float(1 << bit)))
        z = np.where(((n >> bit) & 1)[..., None] == 1, z * one, z)
        bit += 1
    z = np.where((p < 0)[..., None], z.conj(), z)
    z = z[:, None] if p.ndim == 2 else z[None, None]
    return _inter(x, z.real, z.imag)
