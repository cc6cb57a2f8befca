"""Serving code that is right, but written in unusual ways."""

import math

import numpy as np
import torch

W = 10000.0 ** -(np.arange(0, 64, 2) / 64)


def rotate(x, p, w=W, m=1.0):
    ang = np.asarray(p, dtype=np.float64)[..., None] * w
    ang = ang[:, None] if ang.ndim == 3 else ang
    z = m * np.exp(1j * ang) * (x[..., : len(w)] + 1j * x[..., len(w) : 2 * len(w)].astype(np.float64))
    return np.concatenate([z.real, z.imag, x[..., 2 * len(w) :]], axis=-1).astype(x.dtype)


# -- apply_qk ---------------------------------------------------------------------------------------
def xpos_log_domain(q, k, q_positions, k_positions, scale_base=512.0, gamma=0.4):
    """The decay as a complex frequency: exp(n ln zeta + i p theta)."""
    d = q.shape[-1]
    lnz = np.log((2 * np.arange(d // 2) / d + gamma) / (1 + gamma)) / scale_base
    out = []
    for x, p, sign in ((q, q_positions, 1), (k, k_positions, -1)):
        p = np.asarray(p, float)[..., None]
        e = np.exp(p * (sign * lnz + 1j * W))
        e = e[:, None] if e.ndim == 3 else e
        z = (x[..., : d // 2] + 1j * x[..., d // 2 :]) * e
        out.append(np.concatenate([z.real, z.imag], -1).astype(x.dtype))
    return tuple(out)


class OneTableForBoth(torch.nn.Module):
    """Tables of the distinct positions of q and k, looked up by the inverse index."""

    def __init__(self, dim=64, base=10000.0):
        super().__init__()
        self.register_buffer("w", base ** (-torch.arange(0, dim, 2).double() / dim))

    def forward(self, q, k, q_positions, k_positions):
        both = torch.cat([q_positions.flatten(), k_positions.flatten()]).double()
        distinct, back = torch.unique(both, return_inverse=True)
        cis = torch.polar(torch.ones(1, dtype=torch.float64), torch.outer(distinct, self.w))
        cut = q_positions.numel()

        def rot(x, index, p):
            t = cis[index].reshape(*p.shape, -1)
            t = t.unsqueeze(1) if t.dim() == 3 else t
            z = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous()) * t
            return torch.view_as_real(z).flatten(-2).to(x.dtype)

        return rot(q, back[:cut], q_positions), rot(k, back[cut:], k_positions)


one_table_for_both = OneTableForBoth()


# -- apply_offset -----------------------------------------------------------------------------------
def rows_one_by_one(x, offset):
    """Every row alone: the rotation of row 0's tokens times one constant phase."""
    out = np.empty(x.shape, x.dtype)
    h = x.shape[-1] // 2
    t = np.exp(1j * np.arange(x.shape[-2])[:, None] * W)
    for b in range(x.shape[0]):
        phase = np.exp(1j * float(offset[b]) * W)
        z = (x[b, ..., :h] + 1j * x[b, ..., h:]) * (t * phase)
        out[b, ..., :h], out[b, ..., h:] = z.real, z.imag
    return out


# -- calls ------------------------------------------------------------------------------------------
class GrowingCache:
    """Doubles the table; hands out views of it."""

    def __init__(self):
        self.cos = self.sin = np.zeros((0, 32))

    def table(self, end):
        if end > len(self.cos):
            new = max(end, 2 * len(self.cos))
            ang = np.arange(len(self.cos), new)[:, None] * W
            self.cos = np.concatenate([self.cos, np.cos(ang)])
            self.sin = np.concatenate([self.sin, np.sin(ang)])
        return self.cos, self.sin

    def __call__(self, x, offset):
        end = offset + x.shape[-2]
        cos, sin = (t[offset:end] for t in self.table(end))
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def growing_calls(calls):
    rope = GrowingCache()
    return [rope(x, offset) for x, offset in calls]


# -- decode, key_cache ------------------------------------------------------------------------------
def decode_by_recurrence(x, chunks):
    """No positions: the phase of the last token times e^{i theta}, in float64."""
    step, phase, out, at = np.exp(1j * W), np.ones(32, complex), np.empty(x.shape, x.dtype), 0
    for n in chunks:
        for t in range(at, at + n):
            z = (x[..., t, :32] + 1j * x[..., t, 32:]) * phase
            out[..., t, :32], out[..., t, 32:] = z.real, z.imag
            phase = phase * step
        at += n
    return out


def dynamic_raw_cache(k, chunks, factor=2.0, trained=16):
    """Keeps raw keys; rotates all of them with the base of the final length."""
    kept = []
    for a, b in zip(np.cumsum([0, *chunks[:-1]]), np.cumsum(chunks)):
        kept.append(k[..., int(a) : int(b), :])
    keys = np.concatenate(kept, axis=-2)
    n, d = keys.shape[-2], keys.shape[-1]
    alpha = factor * max(n, trained) / trained - (factor - 1)
    base = 10000.0 * alpha ** (d / (d - 2))
    return rotate(keys, np.arange(n), base ** -(np.arange(0, d, 2) / d))


# -- shift_keys, evict_keys -------------------------------------------------------------------------
def yarn_shift_unit(rotated_k, delta):
    """Shift without m, frequencies as the reference implementation of gpt-oss."""
    d, s, L0, base = rotated_k.shape[-1], 16.0, 4096, 10000.0
    freq = base ** (np.arange(0, d, 2) / d)
    low = math.floor(d / 2 * math.log(L0 / (32 * 2 * math.pi)) / math.log(base))
    high = math.ceil(d / 2 * math.log(L0 / (1 * 2 * math.pi)) / math.log(base))
    mask = 1 - np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
    w = 1.0 / (s * freq) * (1 - mask) + 1.0 / freq * mask
    p = np.broadcast_to(np.asarray(delta, float), rotated_k.shape[-2:-1])
    return rotate(rotated_k, p, w)


def evict_by_matrix(rotated_k, kept, dropped):
    """One constant matrix for all keys that move."""
    c, s = np.diag(np.cos(dropped * W)), np.diag(np.sin(dropped * W))
    R = np.block([[c, s], [-s, c]])
    moved = rotated_k[..., kept + dropped :, :].astype(np.float64) @ R.T
    return np.concatenate([rotated_k[..., :kept, :], moved.astype(rotated_k.dtype)], axis=-2)


# -- cos_sin, frequencies ---------------------------------------------------------------------------
def interleaved_width(positions, dim=64, base=10000.0):
    """Both tables (S, 64), each value for both channels of its pair (2k, 2k+1)."""
    p = torch.as_tensor(np.asarray(positions)).double()
    w = torch.exp(torch.arange(0, dim, 2).double() * (-math.log(base) / dim))
    ang = torch.einsum("s,k->sk", p, w).repeat_interleave(2, dim=-1)
    return ang.cos().numpy(), ang.sin().numpy()


def qwen_alpha_loop(seq_len):
    """alpha 1, 3, 7, ... by doubling, without logarithms."""
    length, alpha = 64, 1
    while length < seq_len:
        length, alpha = 2 * length, 2 * alpha + 1
    theta = 10000.0 * alpha ** (64 / 62)
    return np.array([math.exp(-2 * k / 64 * math.log(theta)) for k in range(32)])


# -- permute_weights --------------------------------------------------------------------------------
def permute_by_index(w, n_heads):
    """Row r of a head goes to 2r (first half) or 2(r - d/2) + 1."""
    d = w.shape[0] // n_heads
    out = np.empty_like(w)
    for h in range(n_heads):
        block = out[h * d : (h + 1) * d]
        block[0::2] = w[h * d : h * d + d // 2]
        block[1::2] = w[h * d + d // 2 : (h + 1) * d]
    return out


# -- scores, attention ------------------------------------------------------------------------------
def scores_by_distance(q, k):
    """No rotated vectors: sum over pairs of products with cos and sin of (i - j) theta."""
    d, Q, K = q.shape[-1], q.shape[-2], k.shape[-2]
    zq = q[..., : d // 2] + 1j * q[..., d // 2 :].astype(np.float64)
    zk = k[..., : d // 2] + 1j * k[..., d // 2 :].astype(np.float64)
    dist = (np.arange(K - Q, K)[:, None] - np.arange(K)[None]).astype(float)
    out = np.zeros((*q.shape[:-2], Q, K))
    for n in range(d // 2):
        pair = zq[..., :, None, n] * np.conj(zk[..., None, :, n])
        out += (pair * np.exp(1j * dist * W[n])).real
    return (out / math.sqrt(d)).astype(q.dtype)


def flash_attention(q, k, v, q_positions, k_positions, tile=8):
    """Online softmax by tiles of keys; key heads by reshaping queries to groups."""
    B, H, Q, D = q.shape
    Hk, K = k.shape[1], k.shape[2]
    qr = rotate(q.astype(np.float64), q_positions).reshape(B, Hk, H // Hk, Q, D) / math.sqrt(D)
    kr, v64 = rotate(k.astype(np.float64), k_positions), v.astype(np.float64)
    top = np.full((B, Hk, H // Hk, Q), -np.inf)
    total = np.zeros_like(top)
    acc = np.zeros((B, Hk, H // Hk, Q, v.shape[-1]))
    row = np.arange(K - Q, K)
    for a in range(0, K, tile):
        b = min(a + tile, K)
        s = np.einsum("bhgqd,bhkd->bhgqk", qr, kr[:, :, a:b])
        s = np.where(np.arange(a, b)[None] <= row[:, None], s, -np.inf)
        new = np.maximum(top, s.max(-1))
        safe = np.where(np.isfinite(new), new, 0.0)
        w, old = np.exp(s - safe[..., None]), np.exp(top - safe)
        total = total * old + w.sum(-1)
        acc = acc * old[..., None] + np.einsum("bhgqk,bhkd->bhgqd", w, v64[:, :, a:b])
        top = new
    return (acc / total[..., None]).reshape(B, H, Q, -1).astype(q.dtype)


# -- position ids -----------------------------------------------------------------------------------
def packed_by_differences(lengths):
    """cumsum of ones with a negative jump where a document starts."""
    lengths = np.asarray(lengths, dtype=np.int64)
    lengths = lengths[lengths > 0]
    step = np.ones(int(lengths.sum()), dtype=np.int64)
    if len(step):
        step[0] = 0
        step[np.cumsum(lengths)[:-1]] = 1 - lengths[:-1]
    return np.cumsum(step)


def zigzag_shard(cu_seqlens, cp_size, cp_rank):
    pieces = []
    for n in np.diff(np.asarray(cu_seqlens)):
        chunks = np.arange(n).reshape(2 * cp_size, -1)
        pieces.append(chunks[[cp_rank, -1 - cp_rank]].ravel())
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)
