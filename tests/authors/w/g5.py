"""State between calls: caches, decoding, rewinds; xPos."""
import numpy as np
import torch


def _rot(x, pos, base=10000.0, scale=1.0):
    d = x.shape[-1]
    a = np.asarray(pos, np.float64)[..., None] / scale * base ** (-np.arange(0, d, 2) / d)
    if a.ndim == 3:
        a = a[:, None]
    u, v = x[..., : d // 2], x[..., d // 2:]
    return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1).astype(x.dtype)


class SpeculativeRope:
    """Draft tokens may be rejected: then the next call starts at a smaller offset."""

    def __init__(self):
        self.end = 0

    def __call__(self, x, offset):
        start = max(offset, self.end) if self.end and offset < self.end else offset
        self.end = start + x.shape[-2]
        return _rot(x, np.arange(start, self.end))


def rewound_calls(calls):
    rope = SpeculativeRope()
    return [rope(x, int(offset)) for x, offset in calls]


class LastRows:
    """Table that grows on demand; a single decoded token reads its last row."""

    def __init__(self, d):
        self.inv, self.n = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d), 0

    def grow(self, n):
        if n > self.n:
            self.n = n
            a = torch.outer(torch.arange(n, dtype=torch.float64), self.inv)
            self.cos, self.sin = torch.cat((a.cos(),) * 2, -1), torch.cat((a.sin(),) * 2, -1)

    def __call__(self, x, offset):
        s, d = x.shape[-2:]
        self.grow(offset + s)
        rows = slice(-1, None) if s == 1 else slice(offset, offset + s)
        c, n = self.cos[rows].to(x.dtype), self.sin[rows].to(x.dtype)
        return x * c + torch.cat((-x[..., d // 2:], x[..., : d // 2]), -1) * n


def last_row_calls(calls):
    rope = LastRows(64)
    return [rope(x, int(o)) for x, o in calls]


def multi_token_decode(x, chunks):
    """Prefill, then steps; the counter was written for one token per step."""
    pos, i, out = 0, 0, []
    for n, c in enumerate(chunks):
        out.append(_rot(x[..., i: i + c, :], np.arange(pos, pos + c)))
        pos += c if n == 0 else 1
        i += c
    return np.concatenate(out, -2)


WINDOW = 32


def ring_slots(x, chunks):
    """Sliding-window cache of 32 slots; the slot of a token is its position."""
    out, n = [], 0
    for c in chunks:
        slots = torch.arange(n, n + c) % WINDOW
        out.append(torch.from_numpy(_rot(x[..., n: n + c, :].numpy(), slots.numpy())))
        n += c
    return torch.cat(out, -2)


PAGE = 16


def paged_keys(k, chunks):
    """Pages of 16 keys; a chunk is cut at page borders and every piece is rotated and stored."""
    cache, n = np.zeros_like(k), 0
    for c in chunks:
        done = 0
        while done < c:
            at = n + done
            piece = min(PAGE - at % PAGE, c - done)
            cache[..., at: at + piece, :] = _rot(k[..., at: at + piece, :], n + np.arange(piece))
            done += piece
        n += c
    return cache[..., :n, :]


def shift_unscaled(rotated_k, delta):
    """K-shift of a model with linear scaling 4."""
    d = rotated_k.shape[-1]
    a = float(delta) * 10000.0 ** (-np.arange(0, d, 2) / d)
    u, v = rotated_k[..., : d // 2], rotated_k[..., d // 2:]
    c, s = np.cos(a), np.sin(a)
    return np.concatenate([u * c - v * s, v * c + u * s], -1).astype(rotated_k.dtype)


def evict_all_moved(rotated_k, kept, dropped):
    """StreamingLLM: the sinks stay, the rest moves to follow them."""
    sinks, rest = rotated_k[..., :kept, :], rotated_k[..., kept + dropped:, :]
    return np.concatenate([sinks, _rot(rest, np.full(rest.shape[-2], -(kept + dropped)))], -2)


# ---- xPos ------------------------------------------------------------------------------------
def _xpos(t, pos, sign, centre=0.0, zeta=None):
    d = t.shape[-1]
    k = np.arange(0, d, 2)
    zeta = (k + 0.4 * d) / (1.4 * d) if zeta is None else zeta
    pos = np.asarray(pos, np.float64)
    a = pos[..., None] * 10000.0 ** (-k / d)
    sc = zeta ** (sign * (pos[..., None] - centre) / 512.0)
    if a.ndim == 3:
        a, sc = a[:, None], sc[:, None]
    y = np.empty_like(t)
    y[..., ::2] = (t[..., ::2] * np.cos(a) - t[..., 1::2] * np.sin(a)) * sc
    y[..., 1::2] = (t[..., 1::2] * np.cos(a) + t[..., ::2] * np.sin(a)) * sc
    return y


def xpos_own_centres(q, k, q_positions, k_positions):
    """n = (positions - length // 2) / scale_base keeps the powers small."""
    return (_xpos(q, q_positions, 1, q.shape[-2] // 2), _xpos(k, k_positions, -1, k.shape[-2] // 2))


def xpos_pair_count(q, k, q_positions, k_positions):
    d = q.shape[-1]
    zeta = (np.arange(d // 2) + 0.4 * d) / (1.4 * d)
    return _xpos(q, q_positions, 1, zeta=zeta), _xpos(k, k_positions, -1, zeta=zeta)
