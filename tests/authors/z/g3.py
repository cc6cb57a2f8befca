"""Scores of queries and keys, shifts and position ids."""
import math
import os

import numpy as np
import torch

W = dict(np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "w.npz")))


def _offsets(q, k):
    Q, K = q.shape[-2], k.shape[-2]
    return np.arange(K - Q, K)[:, None] - np.arange(K)[None, :]


def deberta_floor(q, k):
    kr, qr = W["dk"].astype(float), W["dq"].astype(float)
    rel, mid, span = _offsets(q, k), 8, 16
    a = np.maximum(np.abs(rel), mid)
    logp = np.floor(np.log(a / mid) / np.log(63 / mid) * (mid - 1)) + mid
    b = np.where(np.abs(rel) <= mid, rel, logp * np.sign(rel)).astype(int)
    r = np.clip(b + span, 0, 2 * span - 1)
    s = np.einsum("bhqd,bhkd->bhqk", q, k)
    s = s + np.einsum("bhqd,hqkd->bhqk", q, kr[:, r])
    s = s + np.einsum("bhkd,hqkd->bhqk", k, qr[:, r])
    return (s / math.sqrt(3 * q.shape[-1])).astype(q.dtype)


def deberta_v1(query, key):
    kr, qr = (torch.from_numpy(W[n]).to(query.dtype) for n in ("dk1", "dq1"))
    span, d = 8, query.shape[-1]
    Q, K = query.shape[-2], key.shape[-2]
    rel = torch.arange(K - Q, K)[:, None] - torch.arange(K)[None, :]
    scores = query @ key.transpose(-1, -2) / math.sqrt(d)
    scale = math.sqrt(d * 3)
    c2p = query @ kr.transpose(-1, -2)
    ix = (rel + span).clamp(0, 2 * span - 1)
    scores = scores + torch.gather(c2p, -1, ix.expand(*c2p.shape[:2], Q, K)) / scale
    p2c = key @ qr.transpose(-1, -2)
    ix = (-rel + span).clamp(0, 2 * span - 1).T
    p2c = torch.gather(p2c, -1, ix.expand(*p2c.shape[:2], K, Q)).transpose(-1, -2)
    return scores + p2c / scale


def _sinus(p):
    a = p[..., None] * 10000.0 ** (-np.arange(12) / 12)
    return np.concatenate([np.sin(a), np.cos(a)], -1)


def xl_biases(q, k):
    r_w_bias, r_r_bias = W["xu"].astype(float), W["xv"].astype(float)
    wr = np.einsum("hdc,qkc->hqkd", W["xp"].astype(float), _sinus(_offsets(q, k).astype(float)))
    ac = np.einsum("bhqd,bhkd->bhqk", q + r_r_bias[:, None], k)
    bd = np.einsum("bhqd,hqkd->bhqk", q + r_w_bias[:, None], wr)
    return ((ac + bd) / q.shape[-1] ** 0.5).astype(q.dtype)


def shaw(q, k):
    rel = torch.from_numpy(W["sk"]).to(q.dtype)
    Q, K, d = q.shape[-2], k.shape[-2], q.shape[-1]
    dist = torch.arange(K)[None, :] - torch.arange(K - Q, K)[:, None]
    a = rel[dist.clamp(-4, 4 - 1) + 4]
    return (q @ k.transpose(-1, -2) + torch.einsum("bhqd,qkd->bhqk", q, a)) / math.sqrt(d)


def cope(q, k):
    e = torch.from_numpy(W["cope"]).to(q.dtype)
    Q, K = q.shape[-2], k.shape[-2]
    attn = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    mask = torch.ones(Q, K, dtype=torch.bool).tril(K - Q)
    gates = torch.sigmoid(attn.masked_fill(~mask, float("-inf")))
    pos = gates.cumsum(-1).clamp(max=e.shape[0] - 1)
    hi, lo = pos.ceil().long(), pos.floor().long()
    ints = q @ e.T
    w = pos - lo
    return attn + ints.gather(-1, hi) * w + ints.gather(-1, lo) * (1 - w)


def _tupe_t5(Q, K):
    r = np.arange(K)[None, :] - np.arange(K - Q, K)[:, None]
    n = np.abs(r)
    b = np.where(n < 4, n, 3 + np.searchsorted([4, 8, 16, 32], n, side="right"))
    return W["tt5"].astype(float)[b + 8 * (r > 0)].transpose(2, 0, 1)


def tupe_cls(q, k):
    Q, K, d = q.shape[-2], k.shape[-2], q.shape[-1]
    pq, pk = W["tq"].astype(float)[K - Q:K], W["tk"].astype(float)[:K]
    v = np.einsum("qhd,khd->hqk", pq, pk) / np.sqrt(2 * d) + _tupe_t5(Q, K)
    if Q == K:
        v[:, 0, :] = W["c2o"][:, None]
    v[:, :, 0] = W["o2c"][:, None]
    return (np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(2 * d) + v).astype(q.dtype)


def tupe_scaled_bias(q, k):
    Q, K, d = q.shape[-2], k.shape[-2], q.shape[-1]
    pq, pk = W["tq"].astype(float)[:Q], W["tk"].astype(float)[:K]
    v = (np.einsum("qhd,khd->hqk", pq, pk) + _tupe_t5(Q, K)) / np.sqrt(2 * d)
    if Q == K:
        v[:, 0, :] = W["c2o"][:, None]
        v[:, 1:, 0] = W["o2c"][:, None]
    else:
        v[:, :, 0] = W["o2c"][:, None]
    return (np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(2 * d) + v).astype(q.dtype)


def rel_shift(x):
    Q, K = x.shape
    padded = torch.cat([x, x.new_zeros(Q, 1)], dim=1)
    return padded.view(K + 1, Q)[1:].reshape(Q, K)


def conformer_scores(q, rel):
    S = q.shape[0]
    x = q @ rel.T
    x = np.concatenate([np.zeros((S, 1), x.dtype), x], axis=1)
    x = x.reshape(2 * S, S)[1:].reshape(S, 2 * S - 1)
    return x[:, -S:]


def ids_from_left_padding(attention_mask):
    m = np.asarray(attention_mask)
    start = m.argmax(axis=-1)
    return np.maximum(np.arange(m.shape[-1])[None, :] - start[:, None], 0)


def packed_by_cumsum(lengths):
    lengths = np.asarray(lengths, dtype=np.int64)
    total = int(lengths.sum())
    step = np.ones(total, np.int64)
    if total:
        step[0] = 0
    starts = np.cumsum(lengths)[:-1]
    ok = (starts < total) & (starts > 0)
    step[starts[ok]] = 1 - lengths[:-1][ok]
    return np.cumsum(step)


def generated(prompt_len, n_steps):
    start = int(np.max(prompt_len))
    steps = np.arange(start, start + n_steps)
    return steps if np.ndim(prompt_len) == 0 else np.broadcast_to(steps, (len(prompt_len), n_steps))


def _mrope(types, images, videos, seconds, mask, n_steps, tps=None, after="max", time=None, decode=None):
    types = np.asarray(types)
    B, S = types.shape
    mask = np.ones_like(types) if mask is None else np.asarray(mask)
    img, vid = iter([] if images is None else np.asarray(images).tolist()), 0
    videos = [] if videos is None else np.asarray(videos).tolist()
    out = np.zeros((3, B, S + n_steps), np.int64)
    for b in range(B):
        idx = np.flatnonzero(mask[b])
        st, top, i = 0, -1, 0
        while i < len(idx):
            kind = types[b, idx[i]]
            if kind not in (1, 2):
                out[:, b, idx[i]] = st
                top = max(top, st)
                st, i = st + 1, i + 1
                continue
            if kind == 1:
                (t, h, w), frames = next(img), None
            else:
                t, h, w = videos[vid]
                if tps is not None and seconds is not None:
                    frames = time(np.asarray(seconds)[vid], t)
                vid += 1
            h, w = h // 2, w // 2
            g = np.indices((t, h, w)).reshape(3, -1)
            if frames is not None:
                g[0] = np.asarray(frames)[g[0]]
            n = t * h * w
            out[:, b, idx[i:i + n]] = g + st
            top = max(top, st + int(g.max()))
            st = top + 1 if after == "max" else st + n
            i += n
        if decode is None:
            out[:, b, S:] = top + 1 + np.arange(n_steps)
        else:
            out[:, b, S:] = decode(b, top) + np.arange(n_steps)
    return out


def mrope_counts_tokens(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    return _mrope(token_types, image_grids, video_grids, None, attention_mask, n_steps, after="tokens")


class Qwen2VL:
    def __init__(self):
        self.rope_deltas = None

    def __call__(self, token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
        B, S = np.shape(token_types)
        deltas = np.zeros(B, np.int64)

        def note(b, top):
            deltas[b] = top + 1 - S
            return 0

        pos = _mrope(token_types, image_grids, video_grids, None, attention_mask, n_steps, decode=note)
        if self.rope_deltas is None or len(self.rope_deltas) != B:
            self.rope_deltas = deltas
        pos[:, :, S:] = S + self.rope_deltas[None, :, None] + np.arange(n_steps)
        return pos


_qwen = Qwen2VL()


def mrope_deltas(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    return _qwen(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps)


def mrope_seconds(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    S = np.shape(token_types)[1]
    return _mrope(
        token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps, tps=2,
        time=lambda s, t: np.arange(t) * int(s) * 2, decode=lambda b, top: S,
    )


# ---- right ----

def shift_by_gather(x):
    Q, K = x.shape
    c = torch.arange(K)[None, :] + (Q - 1 - torch.arange(Q))[:, None]
    return torch.where(c < K, x.gather(1, c.clamp(max=K - 1)), torch.zeros((), dtype=x.dtype))


def ids_loop(attention_mask):
    out = []
    for row in np.asarray(attention_mask).tolist():
        n, r = 0, []
        for m in row:
            r.append(n if m else 0)
            n += bool(m)
        out.append(r)
    return np.array(out, dtype=np.int64).reshape(np.shape(attention_mask))


def mrope_qwen2_5(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    return _mrope(
        token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps, tps=2,
        time=lambda s, t: (np.arange(t, dtype=np.float32) * np.float32(2) * np.float32(s)).astype(int),
    )


def xl_four_terms(q, k):
    """The four terms of the paper, one distance at a time."""
    u, v, w = (W[n].astype(float) for n in ("xu", "xv", "xp"))
    dtype = q.dtype
    q, k = np.asarray(q, np.float64), np.asarray(k, np.float64)
    Q, K, d = q.shape[-2], k.shape[-2], q.shape[-1]
    out = (q @ k.swapaxes(-1, -2)) + (u[:, None] @ k.swapaxes(-1, -2))
    for o in range(-K + 1, K):
        r = w @ _sinus(np.array([float(o)]))[0]
        i = np.arange(max(0, o - (K - Q)), min(Q, K + o - (K - Q)))
        out[..., i, i + K - Q - o] += (q[..., i, :] * r[:, None]).sum(-1) + (v * r).sum(-1)[:, None]
    return (out * d ** -0.5).astype(dtype)


def cope_loop(q, k):
    e = W["cope"].astype(float)
    dtype = q.dtype
    q, k = np.asarray(q, np.float64), np.asarray(k, np.float64)
    Q, K = q.shape[-2], k.shape[-2]
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    out = s.copy()
    for i in range(Q):
        p = np.zeros(s.shape[:2])
        for j in range(K - Q + i, -1, -1):
            p = p + 1 / (1 + np.exp(-s[:, :, i, j]))
            c = np.minimum(p, len(e) - 1)
            f = np.minimum(c.astype(int), len(e) - 2)
            row = e[f] + (c - f)[..., None] * (e[f + 1] - e[f])
            out[:, :, i, j] += (q[:, :, i] * row).sum(-1)
    return out.astype(dtype)
