"""Plain RoPE, in the styles of several libraries."""
import numpy as np
import torch


# ---- tile kernel, GPT-J pairs -------------------------------------------------------------
BLOCK_S = 16


def tile_kernel(x, positions):
    """Emulates a Triton program per (batch, block of tokens); pairs are adjacent."""
    B, H, S, D = x.shape
    pos = np.broadcast_to(np.asarray(positions, dtype=np.float64), (B, S))
    inv = 10000.0 ** (-np.arange(0, D, 2) / D)
    out = np.empty_like(x)
    for b in range(B):
        for s0 in range(0, S, BLOCK_S):
            s1 = min(s0 + BLOCK_S, S)
            start = pos[b, s0]  # one scalar load per block
            p = start + np.arange(s1 - s0)
            a = p[:, None] * inv
            c, s = np.cos(a), np.sin(a)
            even, odd = x[b, :, s0:s1, 0::2], x[b, :, s0:s1, 1::2]
            out[b, :, s0:s1, 0::2] = even * c - odd * s
            out[b, :, s0:s1, 1::2] = odd * c + even * s
    return out


# ---- head groups as in a fused training kernel ----------------------------------------------
HEADS_PER_PROGRAM = 4


def grouped_heads(x, positions):
    B, H, S, D = x.shape
    half = D // 2
    ang = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(half) / half)
    cos, sin = np.cos(ang), np.sin(ang)
    if ang.ndim == 3:
        cos, sin = cos[:, None], sin[:, None]
    y = x.copy()
    n_groups = max(H // HEADS_PER_PROGRAM, 1)
    for g in range(n_groups):
        hs = slice(g * HEADS_PER_PROGRAM, (g + 1) * HEADS_PER_PROGRAM)
        a, b = x[:, hs, :, :half], x[:, hs, :, half:]
        y[:, hs, :, :half] = a * cos - b * sin
        y[:, hs, :, half:] = b * cos + a * sin
    return y


# ---- "no temporaries": halves of one buffer ---------------------------------------------------
def inplace_halves(x, positions):
    half = x.shape[-1] // 2
    ang = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(half) / half)
    if ang.ndim == 3:
        ang = ang[:, None]
    cos, sin = np.cos(ang).astype(x.dtype), np.sin(ang).astype(x.dtype)
    y = np.array(x)
    y1, y2 = y[..., :half], y[..., half:]
    y1 *= cos
    y1 -= y2 * sin
    y2 *= cos
    y2 += y1 * sin
    return y


# ---- gather from a table with the semantics of jnp.take(mode="clip") ---------------------------
class TableRope:
    def __init__(self, dim, max_position_embeddings=4096, theta=10000.0):
        inv = theta ** -(np.arange(0, dim, 2, dtype=np.float64) / dim)
        ang = np.outer(np.arange(max_position_embeddings), inv)
        self.cos, self.sin = np.cos(ang), np.sin(ang)

    def __call__(self, x, positions):
        pos = np.asarray(positions).astype(np.int64)
        c = np.take(self.cos, pos, axis=0, mode="clip")
        s = np.take(self.sin, pos, axis=0, mode="clip")
        if pos.ndim == 2:
            c, s = c[:, None], s[:, None]
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate((a * c - b * s, b * c + a * s), -1).astype(x.dtype)


_table = TableRope(64)


def clipped_gather(x, positions):
    return _table(x, positions)


# ---- start offsets per row ----------------------------------------------------------------------
def offsets_flat_rows(x, offset):
    """The kernel wants (rows, S, D), so batch and heads are merged."""
    x = torch.as_tensor(x)
    B, H, S, D = x.shape
    flat = x.reshape(B * H, S, D)
    off = torch.as_tensor(offset).to(torch.float64).repeat(H)
    pos = off[:, None] + torch.arange(S, dtype=torch.float64)
    inv = 10000.0 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    a = pos[..., None] * inv
    cos, sin = a.cos().to(x.dtype), a.sin().to(x.dtype)
    x1, x2 = flat.chunk(2, dim=-1)
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), -1).view(B, H, S, D)




# ---- backward passes -------------------------------------------------------------------------------


# ---- q and k of different lengths -------------------------------------------------------------------
def k_counts_itself(q, k, q_positions, k_positions):
    """Keys are the whole cache, so they are numbered by their slots."""
    def rot(t, p):
        d = t.shape[-1]
        a = p.to(torch.float64)[..., None] * 1e6 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        if a.dim() == 3:
            a = a[:, None]
        c = torch.cat((a.cos(), a.cos()), -1).to(t.dtype)
        s = torch.cat((a.sin(), a.sin()), -1).to(t.dtype)
        return t * c + torch.cat((-t[..., d // 2:], t[..., : d // 2]), -1) * s

    return rot(q, q_positions), rot(k, torch.arange(k.shape[-2]))


# ---- per-layer bases with one table cache -------------------------------------------------------------
_tables = {}


def _cos_sin(dim, n, base):
    key = (dim, n)
    if key not in _tables:
        a = np.outer(np.arange(n), base ** (-np.arange(0, dim, 2) / dim))
        _tables[key] = np.cos(a), np.sin(a)
    return _tables[key]


def gemma_global_layer(x, positions):
    """Five sliding layers (base 1e4), then the full layer (base 1e6), whose rotation is returned."""
    pos = np.asarray(positions).astype(np.int64)
    n = int(pos.max()) + 1
    half = x.shape[-1] // 2
    out = None
    for base in (10000.0,) * 5 + (1000000.0,):
        cos, sin = (t[pos] for t in _cos_sin(x.shape[-1], n, base))
        if pos.ndim == 2:
            cos, sin = cos[:, None], sin[:, None]
        out = np.concatenate([x[..., :half] * cos - x[..., half:] * sin,
                              x[..., half:] * cos + x[..., :half] * sin], -1)
    return out.astype(x.dtype)


# ---- memo on the first position and the length ----------------------------------------------------------
class Memo:
    def __init__(self, d, base):
        self.inv = base ** (-np.arange(0, d, 2) / d)
        self.memo = {}

    def tables(self, pos):
        key = (pos.shape, float(pos.flat[0]))
        if key not in self.memo:
            a = pos[..., None] * self.inv
            self.memo[key] = (np.cos(a), np.sin(a))
        return self.memo[key]


_memo = Memo(64, 10000.0)


def memo_first_position(x, positions):
    pos = np.asarray(positions, np.float64)
    cos, sin = _memo.tables(pos)
    if pos.ndim == 2:
        cos, sin = cos[:, None], sin[:, None]
    x1, x2 = x[..., :32], x[..., 32:]
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1).astype(x.dtype)
