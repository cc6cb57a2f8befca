"""Plain rotary embeddings in NumPy, several ports of the same thing."""
import numpy as np


def _inv(dim, base=10000.0):
    return 1.0 / base ** (np.arange(0, dim, 2, dtype=np.float64) / dim)


def _angles(positions, inv):
    p = np.asarray(positions).astype(np.float64)
    a = p[..., None] * inv
    return a if p.ndim == 1 else a[:, None]          # (S, P) or (B, 1, S, P)


def _rot_half(x, cos, sin):
    h = x.shape[-1] // 2
    return np.concatenate([x[..., :h] * cos - x[..., h:] * sin, x[..., h:] * cos + x[..., :h] * sin], -1).astype(x.dtype)


def _rot_pairs(x, cos, sin):
    out = np.empty(x.shape, x.dtype)
    out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    out[..., 1::2] = x[..., 1::2] * cos + x[..., 0::2] * sin
    return out


def complex_rope(x, positions):
    """Meta style: view pairs as complex numbers."""
    z = x[..., 0::2].astype(np.complex128) + 1j * x[..., 1::2]
    z = z * np.exp(1j * _angles(positions, _inv(x.shape[-1], 500000.0)))
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)


def matrix_rope(x, positions):
    """2 x 2 rotation matrices of each pair, one einsum."""
    d = x.shape[-1]
    a = np.asarray(positions, np.float64)[..., None] * _inv(d)
    R = np.stack([np.cos(a), -np.sin(a), np.sin(a), np.cos(a)], -2)
    R = R.reshape(*a.shape[:-1], 2, 2, d // 2)
    v = x.astype(np.float64).reshape(*x.shape[:-1], 2, d // 2)
    sub = "sijp,bhsjp->bhsip" if R.ndim == 4 else "bsijp,bhsjp->bhsip"
    return np.einsum(sub, R, v).reshape(x.shape).astype(x.dtype)


def ggml_loop(x, positions):
    """llama.cpp style: running theta over the pairs, NORM mode."""
    p = np.asarray(positions, np.float64)
    p = p[None, None] if p.ndim == 1 else p[:, None]
    d = x.shape[-1]
    scale = 10000.0 ** (-2.0 / d)
    theta = np.ones(()) * p
    dst = np.array(x)
    for i0 in range(0, d, 2):
        c, s = np.cos(theta), np.sin(theta)
        x0, x1 = x[..., i0].astype(np.float64), x[..., i0 + 1].astype(np.float64)
        dst[..., i0] = x0 * c - x1 * s
        dst[..., i0 + 1] = x0 * s + x1 * c
        theta = theta * scale
    return dst


# ------------------------------------------------------------------------------------------------


def short_positions(x, positions):
    p = np.asarray(positions).astype(np.int16)
    a = _angles(p, _inv(x.shape[-1]))
    return _rot_pairs(x, np.cos(a), np.sin(a))


def per_row_guess(x, positions):
    p = np.asarray(positions)
    if p.ndim == 1 and p.shape[0] == x.shape[0]:     # one position for each row (decode)
        p = p[:, None]
    a = _angles(p, _inv(x.shape[-1]))
    return _rot_half(x, np.cos(a), np.sin(a))


def moved_back_block(x, positions, BLOCK=128):
    S = x.shape[2]
    p = np.broadcast_to(np.asarray(positions, np.float64), (x.shape[0], S))
    out = np.array(x)
    if S <= BLOCK:
        starts, size = ([0] if S else []), S
    else:
        starts, size = list(range(0, S - BLOCK + 1, BLOCK)), BLOCK
        if S % BLOCK:
            starts.append(S - BLOCK)
    for s in starts:
        a = p[:, None, s:s + size, None] * _inv(x.shape[-1])
        out[:, :, s:s + size] = _rot_half(out[:, :, s:s + size], np.cos(a), np.sin(a))
    return out


_BY_LENGTH = {}


def keyed_by_shape(x, positions):
    p = np.asarray(positions)
    if p.shape not in _BY_LENGTH:
        a = _angles(p, _inv(x.shape[-1]))
        _BY_LENGTH[p.shape] = np.cos(a), np.sin(a)
    return _rot_half(x, *_BY_LENGTH[p.shape])


def overwrites_input(x, positions):
    a = _angles(positions, _inv(x.shape[-1]))
    c, s = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
    h = x.shape[-1] // 2
    x1, x2 = x[..., :h], x[..., h:]
    y1, y2 = x1 * c - x2 * s, x2 * c + x1 * s
    x1[...] = y1
    x2[...] = y2
    return x


def reduced_angles(x, positions):
    a = np.mod(_angles(positions, _inv(x.shape[-1])), 6.2832)
    return _rot_half(x, np.cos(a), np.sin(a))


def powered(x, positions):
    p = np.asarray(positions).astype(np.int64)
    w = np.exp(1j * _inv(x.shape[-1])).astype(np.complex64)
    w = np.broadcast_to(w, p.shape + w.shape).copy()
    n = np.abs(p)[..., None].copy()
    w = np.where(p[..., None] < 0, np.conj(w), w)
    r = np.ones_like(w)
    while (n > 0).any():
        r = np.where(n & 1, r * w, r)
        w = (w * w).astype(np.complex64)
        n >>= 1
    r = r if p.ndim == 1 else r[:, None]
    return _rot_half(x, r.real, r.imag)


def decode_shortcut(x, positions):
    p = np.asarray(positions)
    if x.shape[2] == 1:
        a = float(p.ravel()[0]) * _inv(x.shape[-1])
    else:
        a = _angles(p, _inv(x.shape[-1]))
    return _rot_half(x, np.cos(a), np.sin(a))


def row_minimum(x, positions):
    p = np.asarray(positions)
    if p.shape[-1]:
        p = p - p.min(-1, keepdims=True)
    a = _angles(p, _inv(x.shape[-1]))
    return _rot_half(x, np.cos(a), np.sin(a))


def even_last_head(x, positions):
    a = _angles(positions, _inv(x.shape[-1]))
    y = np.array(x)
    for h in range(0, x.shape[1] - x.shape[1] % 4 or x.shape[1], 1):
        c, s = (np.cos(a), np.sin(a)) if a.ndim == 2 else (np.cos(a)[:, 0], np.sin(a)[:, 0])
        y[:, h] = _rot_half(x[:, h], c, s)
    return y
