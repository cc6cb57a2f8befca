"""Scores that depend on the content of queries and keys."""
import math

import numpy as np
import scipy.linalg
import torch

from posenc_ref import (
    TUPE, CoPE, DeBERTa, DecomposedRelative, DualChunk, ESPnetLegacy, FoPE, GatedBias, LieRE, PaTH,
    PoPE, PRoPE, ReRoPE, RoPE, SelfExtend, Shaw, Sinusoidal, T5Bias, TransformerXL, XLNet,
)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface,
                      settings=settings, right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def rand(seed, *shape, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def wide(*xs):
    return [np.asarray(x, np.float64) for x in xs]


def at(q, k):
    Q, K = q.shape[-2], k.shape[-2]
    return np.arange(K - Q, K), np.arange(K)


def qk(q, k):
    return q @ np.swapaxes(k, -1, -2)


def sig(x):
    return 1 / (1 + np.exp(-x))


# ---- i063
Kr, Qr = rand(63, 2, 64, 16), rand(631, 2, 64, 16)
def make(bug):
    span, last = 32, 127
    def log_bucket(r):
        mid = span // 2
        sign, a = np.sign(r), np.where((r < mid) & (r > -mid), mid - 1, np.abs(r))
        x = np.log(a / mid) / np.log(last / mid) * (mid - 1)
        lp = (np.floor(x + 1e-9) if bug else np.ceil(x - 1e-9)) + mid
        return np.where(a <= mid, r, lp * sign).astype(int)
    def scores(q, k):
        q, k, kr, qr = wide(q, k, Kr, Qr)
        i, j = at(q, k)
        r = np.clip(log_bucket(i[:, None] - j) + span, 0, 2 * span - 1)
        s = qk(q, k)
        c2p = np.einsum("bhid,hrd->bhir", q, kr)
        s = s + np.take_along_axis(c2p, np.broadcast_to(r, s.shape), -1)
        p2c = np.einsum("bhjd,hrd->bhrj", k, qr)
        s = s + np.take_along_axis(p2c, np.broadcast_to(r, s.shape), -2)
        return (s / math.sqrt(3 * 16)).astype(np.float32)
    return scores
case("i063", make, DeBERTa(Kr, Qr, buckets=32, max_position=128), "scores",
     "The logarithmic buckets are rounded down (floor) where DeBERTa rounds up (ceil), so most "
     "offsets beyond the middle are one bucket too near.", "deberta-floor",
     "mid + ceil(...).")


# ---- i064
Kr64, Qr64 = rand(64, 3, 20, 8), rand(641, 3, 20, 8)
def make(bug):
    def scores(q, k):
        q, k = torch.from_numpy(q).double(), torch.from_numpy(k).double()
        kr, qr = torch.from_numpy(Kr64).double(), torch.from_numpy(Qr64).double()
        att_span = 10
        i = torch.arange(k.shape[-2] - q.shape[-2], k.shape[-2])
        r = i[:, None] - torch.arange(k.shape[-2])[None]
        r = (r + att_span).clamp(0, att_span * 2 - (2 if bug else 1))
        s = torch.einsum("bhid,bhjd->bhij", q, k)
        s = s + torch.einsum("bhid,hijd->bhij", q, kr[:, r])
        s = s + torch.einsum("bhjd,hijd->bhij", k, qr[:, r])
        return (s / math.sqrt(8 * 3)).float().numpy()
    return scores
case("i064", make, DeBERTa(Kr64, Qr64), "scores",
     "The row is clamped to 2 span - 2 instead of 2 span - 1, so the last row of both tables is never "
     "used: keys span - 1 or more before the query get the row before.", "deberta-last-row",
     "clamp(r + span, 0, 2 span - 1).")


# ---- i065
A65 = rand(65, 12, 16)
def make(bug):
    left, right = 8, 3
    def scores(q, k):
        q, k, a = wide(q, k, A65)
        i, j = at(q, k)
        dist = np.clip(j[None] - i[:, None], -left, right)
        e = a[dist + (right if bug else left)]
        return ((qk(q, k) + np.einsum("bhid,ijd->bhij", q, e)) / 4.0).astype(np.float32)
    return scores
case("i065", make, Shaw(A65, before=8), "scores",
     "The clipped distance is moved by the number of rows after (right = 3) instead of before "
     "(left = 8); negative indices wrap to the end of the table without an error.",
     "shaw-offset-right", "Add left_max_position_embeddings.")


# ---- i066
A66 = rand(66, 9, 8)
def make(bug):
    def scores(q, k):
        q, k = torch.from_numpy(q).double(), torch.from_numpy(k).double()
        e = torch.from_numpy(A66).double()
        Q, K = q.shape[-2], k.shape[-2]
        i, j = torch.arange(K - Q, K)[:, None], torch.arange(K)[None]
        r = (j - i).clamp(-4, 4) + 4
        s = q @ k.transpose(-1, -2)
        rel = torch.einsum("bhid,ijd->bhij", q, e[r])
        s = s / math.sqrt(8) + rel if bug else (s + rel) / math.sqrt(8)
        return s.float().numpy()
    return scores
case("i066", make, Shaw(A66, before=4), "scores",
     "The relative term q . a is added after the scaling, without the factor 1/sqrt(d).",
     "relative-term-unscaled", "(q . k + q . a) / sqrt(d).")


# ---- i067
P67, u67, v67 = rand(67, 2, 8, 32, scale=0.3), rand(671, 2, 8), rand(672, 2, 8)
def table(p, D, concat):
    w = 10000.0 ** (-np.arange(0, D, 2) / D)
    a = np.asarray(p, float)[..., None] * w
    if concat:
        return np.concatenate([np.sin(a), np.cos(a)], -1)
    return np.stack([np.sin(a), np.cos(a)], -1).reshape(*a.shape[:-1], D)
def txl(bug, W, u, v, concat, off=0):
    def scores(q, k):
        q, k, w, uu, vv = wide(q, k, W, u, v)
        i, j = at(q, k)
        H, d, D = w.shape
        if bug:
            uu, vv = vv, uu
        R = table(i[:, None] - j, D, concat)
        rk = np.einsum("hdD,ijD->hijd", w, R)
        ac = qk(q + uu[:, None], k)
        bd = np.einsum("bhid,hijd->bhij", q + vv[:, None], rk)
        return ((ac + bd) / math.sqrt(d)).astype(np.float32)
    return scores
make = lambda bug: txl(bug, P67, u67, v67, True)
case("i067", make, TransformerXL(P67, u67, v67, sinusoid=Sinusoidal(32, layout="concat")), "scores",
     "The two biases are exchanged: v (r_r_bias) is added to the query of the content term, u "
     "(r_w_bias) to that of the position term.", "u-v-exchanged", "(q + u) . k + (q + v) . W R.")


# ---- i068
def make(bug):
    clamp_len = 12
    def scores(q, k):
        q, k, w, u, v = (torch.from_numpy(x).double() for x in (q, k, P67, u67, v67))
        K, Q = k.shape[-2], q.shape[-2]
        pos = torch.arange(K - 1, -K, -1.0, dtype=torch.float64)
        pos = pos.clamp(max=clamp_len) if bug else pos.clamp(min=-clamp_len, max=clamp_len)
        inv = 1 / 10000 ** (torch.arange(0, 32, 2, dtype=torch.float64) / 32)
        s = torch.outer(pos, inv)
        r = torch.cat([s.sin(), s.cos()], -1)
        rh = torch.einsum("pD,hdD->hpd", r, w)
        bd = torch.einsum("bhid,hpd->bhip", q + v[:, None], rh)
        i = torch.arange(K - Q, K)[:, None]
        col = K - 1 - (i - torch.arange(K)[None])
        bd = bd.gather(-1, col.expand(*bd.shape[:2], Q, K))
        ac = torch.einsum("bhid,bhjd->bhij", q + u[:, None], k)
        return ((ac + bd) / math.sqrt(8)).float().numpy()
    return scores
case("i068", make, TransformerXL(P67, u67, v67, sinusoid=Sinusoidal(32, layout="concat"), clamp=12),
     "scores", "Distances are clamped only from above (clamp(max=clamp_len)); the negative distances "
     "of keys far after the query are not clamped to -clamp_len.", "clamp-one-side",
     "clamp(-clamp_len, clamp_len).")


# ---- i069
def make(bug):
    def rel_shift_bnij(x, klen):
        b, h, i, j = x.shape
        x = x.reshape(b, h, j, i)[:, :, 1:, :].reshape(b, h, i, j - 1)
        return x[..., 1:1 + klen] if bug else x[..., :klen]
    def scores(q, k):
        q, k, w, u, v = wide(q, k, P67, u67, v67)
        K, Q = k.shape[-2], q.shape[-2]
        # columns: distance K .. -(Q - 1), as XLNet's relative_positional_encoding("bi")
        pos = np.arange(K, -Q - 1, -1)
        r = table(pos, 32, True)
        bd = np.einsum("bhid,hdD,pD->bhip", q + v[:, None], w, r, optimize=True)
        bd = rel_shift_bnij(bd, K)
        return ((qk(q + u[:, None], k) + bd) / math.sqrt(8)).astype(np.float32)
    return scores
case("i069", make, XLNet(P67, u67, v67, sinusoid=Sinusoidal(32, layout="concat")), "scores",
     "After the relative shift one column too many is dropped, so every key gets the position term "
     "of the key after it (distance i - j - 1).", "shift-one-more",
     "Keep columns 0 .. klen - 1 of the shifted scores.")


# ---- i070
E70 = rand(70, 12, 8)
def make(bug):
    def scores(q, k):
        q, k, e = wide(q, k, E70)
        i, j = at(q, k)
        s = qk(q, k) / math.sqrt(8)
        g = sig(s) * (j[None] <= i[:, None])
        p = np.minimum(np.cumsum(g[..., ::-1], -1)[..., ::-1], 11)
        lo, hi = np.floor(p).astype(int), np.ceil(p).astype(int)
        l = q @ e.T
        a, b = np.take_along_axis(l, lo, -1), np.take_along_axis(l, hi, -1)
        w = p - lo
        return (s + (a * w + b * (1 - w) if bug else b * w + a * (1 - w))).astype(np.float32)
    return scores
case("i070", make, CoPE(E70), "scores",
     "The weights of the interpolation are exchanged: the row floor(p) gets p - floor(p) and the row "
     "above gets the rest.", "cope-weights", "ceil * w + floor * (1 - w) with w = p - floor(p).")


# ---- i071
E71 = rand(71, 20, 16)
def make(bug):
    def scores(q, k):
        q, k, e = (torch.from_numpy(x).double() for x in (q, k, E71))
        Q, K = q.shape[-2], k.shape[-2]
        s = q @ k.transpose(-1, -2) / 4.0
        mask = torch.ones(Q, K, dtype=torch.bool).tril(K - Q)
        g = torch.sigmoid(s).masked_fill(~mask, 0)
        p = g.flip(-1).cumsum(-1).flip(-1)
        if bug:
            p = p - g
        p = p.clamp(max=19)
        f, c = p.floor().long(), p.ceil().long()
        l = q @ e.T
        w = p - f
        return (s + l.gather(-1, c) * w + l.gather(-1, f) * (1 - w)).float().numpy()
    return scores
case("i071", make, CoPE(E71), "scores",
     "The sum of the gates is exclusive: the key's own gate is subtracted, so p_ij runs from j + 1 to i.",
     "cope-exclusive", "Include the gate of key j.")


# ---- i072
pq, pk = rand(72, 400, 3, 8), rand(721, 400, 3, 8)
tb = rand(722, 32, 3)
c0, c1 = rand(723, 3), rand(724, 3)
def t5b(r):
    n = np.abs(r)
    return np.searchsorted([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91], n, side="right") + 16 * (r > 0)
def make(bug):
    def scores(q, k):
        q, k, a, b = wide(q, k, pq, pk)
        i, j = at(q, k)
        v = np.einsum("ihd,jhd->hij", a[i], b[j]) / 4.0
        v = v + np.moveaxis(tb[t5b(j[None] - i[:, None])], -1, 0)
        row, col = np.broadcast_to(i[:, None] == 0, v.shape), np.broadcast_to(j[None] == 0, v.shape)
        x, y = np.broadcast_to(c0[:, None, None], v.shape), np.broadcast_to(c1[:, None, None], v.shape)
        v = v.copy()
        if bug:
            v[row] = x[row]; v[col] = y[col]
        else:
            v[col] = y[col]; v[row] = x[row]
        return (qk(q, k) / 4.0 + v).astype(np.float32)
    return scores
case("i072", make, TUPE(pq, pk, bias=T5Bias(tb), cls_to_others=c0, others_to_cls=c1), "scores",
     "The column of [CLS] is written after its row, so the pair ([CLS], [CLS]) has others_to_cls "
     "instead of cls_to_others.", "cls-cls-order", "Write the row of position 0 last.")


# ---- i073
def make(bug):
    def scores(q, k):
        q, k, a, b = wide(q, k, pq, pk)
        i, j = at(q, k)
        rel = np.moveaxis(tb[t5b(j[None] - i[:, None])], -1, 0)
        rows = a[: len(i)] if bug else a[i]
        pos = np.einsum("ihd,jhd->hij", rows, b[: len(j)])
        return ((qk(q, k) + pos) / 4.0 + rel).astype(np.float32)
    return scores
case("i073", make, TUPE(pq, pk, bias=T5Bias(tb)), "scores",
     "The untied position term takes the rows 0 .. Q - 1 for the queries, also if they are the last of "
     "K > Q tokens (the relative bias has the right positions).", "tupe-query-rows",
     "Take the rows of positions K - Q .. K - 1.")


# ---- i074
V74, be74 = rand(74, 2, 80, 8), 2 * sig(rand(741, 2, 80))
def make(bug):
    def scores(q, k):
        q, k, w, be = wide(q, k, V74, be74)
        w = w / np.linalg.norm(w, axis=-1, keepdims=True)
        i, j = at(q, k)
        out = qk(q, k)
        eye = np.eye(8)
        Hs = eye - be[..., None, None] * w[..., :, None] * w[..., None, :]
        for a, p in enumerate(i):
            M = np.broadcast_to(eye, (2, 8, 8))
            for t in range(p, -1, -1):
                out[:, :, a, t] = np.einsum("bhd,hde,bhe->bh", k[:, :, t], M, q[:, :, a])
                M = M @ Hs[:, t] if bug else Hs[:, t] @ M
        return (out / math.sqrt(8)).astype(np.float32)
    return scores
case("i074", make, PaTH(V74, be74.astype(np.float32)), "scores",
     "The matrices are multiplied in the reverse order, H_i ... H_(j+1) instead of "
     "H_(j+1) ... H_i, so the query meets the key's side first.", "path-order",
     "Multiply each earlier matrix from the left: M = H_t M.")


# ---- i075
def make(bug):
    def scores(q, k):
        q, k, w = (torch.from_numpy(x).double() for x in (q, k, V74))
        be = torch.from_numpy(be74).double()
        w = w if bug else torch.nn.functional.normalize(w, dim=-1)
        if bug:
            w = w / w.norm(dim=-1).mean(dim=-1)[:, None, None]
        K, Q = k.shape[-2], q.shape[-2]
        cols, kk = [], k.clone()
        out = torch.einsum("bhid,bhjd->bhij", q, k)
        for t in range(K):
            if t > 0:
                past = kk[:, :, :t]
                kk = kk.clone()
                wt = w[:, t, None, :]
                kk[:, :, :t] = past - be[:, t, None, None] * (past * wt).sum(-1, keepdim=True) * wt
            a = t - (K - Q)
            if a >= 0:
                out[:, :, a, :t + 1] = torch.einsum("bhd,bhjd->bhj", q[:, :, a], kk[:, :, :t + 1])
        return (out / math.sqrt(8)).float().numpy()
    return scores
case("i075", make, PaTH(V74, be74.astype(np.float32)), "scores",
     "The directions are divided by the mean length of the head's directions instead of each by its "
     "own length, so w has no unit length.", "w-not-normalised", "Normalise every w_t.")


# ---- i076
cc, sc = rand(76, 2, 8, 8), rand(761, 2, 8, 8)
def make(bug):
    w = 10000.0 ** (-2 * np.arange(8) / 16)
    def scores(q, k):
        i, j = at(q, k)
        def f(x, p):
            x = x.astype(np.float64)
            a = p[:, None] * w
            eq = "sk,hdk->hsd" if bug else "sk,hkd->hsd"
            C, S = np.einsum(eq, np.cos(a), cc), np.einsum(eq, np.sin(a), sc)
            x1, x2 = x[..., :8], x[..., 8:]
            return np.concatenate([x1 * C - x2 * S, x2 * C + x1 * S], -1)
        return (qk(f(q, i), f(k, j)) / 4).astype(np.float32)
    return scores
case("i076", make, FoPE(16, cc, sc, dropped_sin=0), "scores",
     "The coefficients are transposed: the sum runs over the channels of the table instead of over "
     "its frequencies (both are 8, so nothing raises).", "fope-transposed",
     "einsum over k: cos(p theta_k) coef[h, k, d].")


# ---- i077
ph = rand(77, 4, 8)
def make(bug):
    th = 10000.0 ** (-np.arange(8) / 8)
    def scores(q, k):
        i, j = at(q, k)
        sp = lambda x: np.logaddexp(0, x.astype(np.float64))
        da, db = (ph[:, None], 0) if bug else (0, ph[:, None])
        qa, ka = i[:, None] * th + da, j[:, None] * th + db
        qq = np.concatenate(np.broadcast_arrays(sp(q) * np.cos(qa), sp(q) * np.sin(qa)), -1)
        kk = np.concatenate(np.broadcast_arrays(sp(k) * np.cos(ka), sp(k) * np.sin(ka)), -1)
        return (qk(qq, kk) / math.sqrt(8)).astype(np.float32)
    return scores
case("i077", make, PoPE(8, ph), "scores",
     "The phases delta are added to the angles of the queries instead of the keys, which gives "
     "cos((j - i) theta - delta).", "pope-phase-side", "Add delta to the keys' angles.")


# ---- i078
def make(bug):
    d = 16
    th = torch.tensor([10000.0 ** (-c / d) for c in range(d)], dtype=torch.float64)
    if bug:
        th = torch.tensor([10000.0 ** (-2 * (c // 2) / d) for c in range(d)], dtype=torch.float64)
    def scores(q, k):
        sp = lambda x: torch.log1p(torch.exp(torch.from_numpy(x).double()))
        K, Q = k.shape[-2], q.shape[-2]
        a = torch.arange(K, dtype=torch.float64)[:, None] * th
        kz, qz = torch.polar(sp(k), a.expand(k.shape)), torch.polar(sp(q), a[K - Q:].expand(q.shape))
        return (torch.einsum("bhid,bhjd->bhij", qz, kz.conj()).real / 4).float().numpy()
    return scores
case("i078", make, PoPE(16), "scores",
     "The frequencies are those of RoPE, d/2 of them with each repeated for two channels, instead of "
     "one for each of the d channels, base ** (-c/d).", "pope-paired-frequencies",
     "theta_c = base ** (-c/d), c = 0 .. d - 1.")


# ---- i079
def rope_half(x, p, base=10000.0):
    d = x.shape[-1]
    a = np.asarray(p, np.float64)[..., None] * base ** (-np.arange(0, d, 2) / d)
    x1, x2 = x[..., :d // 2], x[..., d // 2:]
    return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1)
def make(bug):
    w, f = 12, 4.0
    def scores(q, k):
        q, k = wide(q, k)
        i, j = at(q, k)
        near = qk(rope_half(q, i), rope_half(k, j))
        qi = i / f + (w if bug else w * (f - 1) / f)
        far = qk(rope_half(q, qi), rope_half(k, j / f))
        return (np.where(i[:, None] - j < w, near, far) / math.sqrt(q.shape[-1])).astype(np.float32)
    return scores
case("i079", make, ReRoPE(RoPE(16, layout="half"), window=12, factor=4.0), "scores",
     "Far queries are at i/factor + window instead of (i + window (factor - 1)) / factor, so the "
     "distance jumps by window/factor at the edge of the window.", "leaky-shift",
     "Shift by window (factor - 1) / factor.")


# ---- i080
def make(bug):
    g, w = 4, 10
    def scores(q, k):
        q, k = wide(q, k)
        i, j = at(q, k)
        near = qk(rope_half(q, i), rope_half(k, j))
        far = qk(rope_half(q, i // g + w - w // g), rope_half(k, j // g))
        d = i[:, None] - j
        return (np.where(d <= w if bug else d < w, near, far) / math.sqrt(q.shape[-1])).astype(np.float32)
    return scores
case("i080", make, SelfExtend(RoPE(16, layout="half"), group=4, window=10), "scores",
     "The key at distance exactly window counts as near (<= instead of <): it keeps its true distance.", "self-extend-edge",
     "Near keys have i - j < window.")


# ---- i081
def make(bug):
    size, local = 24, 8
    C = size - local
    def scores(q, k):
        q, k = (torch.from_numpy(x).double() for x in (q, k))
        K, Q = k.shape[-2], q.shape[-2]
        i, j = torch.arange(K - Q, K), torch.arange(K)
        R = lambda x, p: torch.from_numpy(rope_half(x.numpy(), p.numpy()))
        kk = R(k, j % C).transpose(-1, -2)
        intra = R(q, i % C) @ kk
        succ = R(q, (i % C + C).clamp(max=size)) @ kk
        last = (i % C + C).clamp(max=size) if bug else torch.full_like(i, min(2 * C - 1, size))
        inter = R(q, last) @ kk
        n = (i // C)[:, None] - (j // C)[None]
        s = torch.where(n <= 0, intra, torch.where(n == 1, succ, inter))
        return (s / math.sqrt(q.shape[-1])).float().numpy()
    return scores
case("i081", make, DualChunk(RoPE(16, layout="half"), chunk_size=24, local_size=8), "scores",
     "Queries meet chunks two or more before with their successive position, min(i mod C + C, "
     "chunk_size), instead of the constant min(2C - 1, chunk_size).", "inter-chunk-position",
     "Use min(2C - 1, chunk_size) for all queries.")


# ---- i082
Rh, Rw = rand(82, 2 * 5 - 1, 8), rand(821, 2 * 7 - 1, 8)
def make(bug):
    h, w = 5, 7
    iy, ix = np.arange(h), np.arange(w)
    RH = Rh[iy[:, None] - iy + h - 1].astype(float)
    RW = Rw[(ix[None] - ix[:, None] if bug else ix[:, None] - ix) + w - 1].astype(float)
    def scores(q, k):
        q, k = wide(q, k)
        i, j = at(q, k)
        rh = np.einsum("bhid,ijd->bhij", q, RH[i // w][:, j // w])
        rw = np.einsum("bhid,ijd->bhij", q, RW[i % w][:, j % w])
        return (qk(q, k) / math.sqrt(8) + rh + rw).astype(np.float32)
    return scores
case("i082", make, DecomposedRelative(Rh, Rw, grid=(5, 7)), "scores",
     "The offset of the width is key minus query, while that of the height is query minus key, so the "
     "width table is read backwards.", "width-offset-sign", "x_i - x_j + w - 1.")


# ---- i083
def make(bug):
    h, w, d = 5, 7, 8
    def scores(q, k):
        q, k = (torch.from_numpy(x).double() for x in (q, k))
        K, Q = k.shape[-2], q.shape[-2]
        qs = q * d ** -0.5
        s = qs @ k.transpose(-2, -1)
        i, j = torch.arange(K - Q, K), torch.arange(K)
        use = qs if bug else q
        for tab, a, b, n in ((Rh, i // w, j // w, h), (Rw, i % w, j % w, w)):
            r = torch.from_numpy(tab).double()[a[:, None] - b[None] + n - 1]
            s = s + torch.einsum("bhid,ijd->bhij", use, r)
        return s.float().numpy()
    return scores
case("i083", make, DecomposedRelative(Rh, Rw, grid=(5, 7)), "scores",
     "The position terms use the query after its scaling by 1/sqrt(d); MViTv2 and SAM use the "
     "unscaled query.", "decomposed-scaled-query", "Take the query before the scaling.")


# ---- i084
G84 = T5Bias(rand(84, 32, 2)), rand(841, 2, 8), rand(842, 2), rand(843, 2)
def make(bug):
    t5, w, c, const = G84
    def scores(q, k):
        q, k = wide(q, k)
        i, j = at(q, k)
        qs = q / math.sqrt(8)
        z = sig((qs if bug else q) @ w.T.astype(float) + c)
        gate = z[..., 0] * (z[..., 1] * const[:, None] - 1.0) + 2.0
        bias = np.moveaxis(t5.table[t5b(j[None] - i[:, None])], -1, 0)
        return (qk(qs, k) + gate[..., None] * bias).astype(np.float32)
    return scores
case("i084", make, GatedBias(*G84), "scores",
     "The gates are computed from the query after its scaling by 1/sqrt(d).", "gate-scaled-query",
     "Compute the gates from the unscaled query.")


# ---- i085
def make(bug):
    t5, w, c, const = G84
    def scores(q, k):
        q, k = wide(q, k)
        i, j = at(q, k)
        z = sig(q @ w.T.astype(float) + c)
        gate = z[..., 0] * (z[..., 1] * const[:, None] - 1.0) + (1.0 if bug else 2.0)
        bias = np.moveaxis(t5.table[t5b(j[None] - i[:, None])], -1, 0)
        return (qk(q, k) / math.sqrt(8) + gate[..., None] * bias).astype(np.float32)
    return scores
case("i085", make, GatedBias(*G84), "scores",
     "The gate ends with + 1 instead of + 2, so the bias is multiplied by g - 1.", "gate-plus-one",
     "a (scale r - 1) + 2.")


# ---- i086
rng = np.random.default_rng(86)
def cameras(n):
    out = []
    for _ in range(n):
        m = np.eye(4)
        m[:3, :3] = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        m[:3, 3] = rng.standard_normal(3)
        K = np.eye(4)
        K[0, 0], K[1, 1], K[0, 2], K[1, 2] = 0.9, 1.3, 0.1, -0.05
        out.append(K @ m)
    return np.array(out)
cams = cameras(3)
def make(bug):
    d, (gh, gw) = 16, (2, 3)
    n = gh * gw
    inv = np.linalg.inv(cams)
    def parts(x, mats, p):
        cam = p % len(cams) if bug else p // n
        y, z = (p // gw) % gh, p % gw
        M = mats[cam]
        first = x[..., :8].reshape(*x.shape[:-1], 2, 4)
        first = np.einsum("sij,bhsgj->bhsgi", M, first).reshape(*x.shape[:-1], 8)
        return np.concatenate([first, rot(x[..., 8:12], z), rot(x[..., 12:], y)], -1)
    def rot(x, p):
        return rope_half(x, -p.astype(float), 100.0)
    def scores(q, k):
        q, k = wide(q, k)
        i, j = at(q, k)
        return (qk(parts(q, cams.transpose(0, 2, 1), i), parts(k, inv, j)) / 4).astype(np.float32)
    return scores
case("i086", make, PRoPE(16, cams, grid=(2, 3)), "scores",
     "The matrices of the cameras are tiled over the tokens (camera = token mod C) instead of each "
     "repeated for all patches of its image.", "camera-tiled", "camera = token // (patches of an image).")


# ---- i087
def make(bug):
    d, (gh, gw) = 16, (2, 5)
    n = gh * gw
    freqs = 100.0 ** (-np.arange(2) / (4 if bug else 2))
    def turn(x, p):
        z = (x[..., :2] + 1j * x[..., 2:]) * np.exp(-1j * p[:, None] * freqs)
        return np.concatenate([z.real, z.imag], -1)
    def scores(q, k):
        q, k = wide(q, k)
        i, j = at(q, k)
        def f(x, mats, p):
            row, col = p % n // gw, p % n % gw
            a = np.stack([mats[t // n] @ x[:, :, s, :8].reshape(*x.shape[:2], 2, 4).swapaxes(-1, -2)
                          for s, t in enumerate(p)], 2)
            a = a.swapaxes(-1, -2).reshape(*x.shape[:-1], 8)
            return np.concatenate([a, turn(x[..., 8:12], col), turn(x[..., 12:], row)], -1)
        T = [m.T for m in cams]
        return (qk(f(q, T, i), f(k, [np.linalg.inv(m) for m in cams], j)) / 4).astype(np.float32)
    return scores
case("i087", make, PRoPE(16, cams, grid=(2, 5)), "scores",
     "The frequencies of the patch rotations are base ** (-4k/d) instead of base ** (-8k/d): the "
     "exponent is divided by all 4 channels of a rotation, not by its 2 pairs.", "prope-exponent",
     "base ** (-k / (d/8)).")


# ---- i088
g88 = rand(88, 2, 2, 2, 4, 4).astype(float)
xy = np.stack(np.meshgrid(np.linspace(0, 1, 5), np.linspace(0, 1, 4), indexing="ij"), -1).reshape(-1, 2)
def make(bug):
    up = np.triu(g88, 1)
    G = up - up.swapaxes(-1, -2)
    X = np.einsum("sa,ahbij->shbij", xy, G)
    if bug:
        R = term = np.eye(4) + 0 * X
        for n in range(1, 13):
            term = term @ X / n
            R = R + term
    else:
        R = np.stack([scipy.linalg.expm(m) for m in X.reshape(-1, 4, 4)]).reshape(X.shape)
    def scores(q, k):
        q, k = wide(q, k)
        i, j = at(q, k)
        def f(x, p):
            b = x[..., :8].reshape(*x.shape[:-1], 2, 4)
            y = np.einsum("shbij,nhsbj->nhsbi", R[p], b).reshape(*x.shape[:-1], 8)
            return np.concatenate([y, x[..., 8:]], -1)
        return (qk(f(q, i), f(k, j)) / math.sqrt(q.shape[-1])).astype(np.float32)
    return scores
case("i088", make, LieRE(10, g88, xy), "scores",
     "The matrix exponential is a Taylor series cut after the 12th power, which is not a rotation "
     "for coordinates far from 0.", "expm-truncated", "Use scaling and squaring, such as "
     "torch.matrix_exp.")


# ---- i089
def make(bug):
    U = g88 if bug else np.triu(g88, 1)
    G = U - U.swapaxes(-1, -2)
    X = np.einsum("sa,ahbij->shbij", xy, G)
    R = torch.matrix_exp(torch.from_numpy(X)).numpy()
    def scores(q, k):
        q, k = wide(q, k)
        i, j = at(q, k)
        def f(x, p):
            y = np.matmul(R[p].transpose(1, 0, 2, 3, 4), x[..., :8].reshape(*x.shape[:-1], 2, 4, 1))
            return np.concatenate([y.reshape(*x.shape[:-1], 8), x[..., 8:]], -1)
        return (qk(f(q, i), f(k, j)) / math.sqrt(q.shape[-1])).astype(np.float32)
    return scores
case("i089", make, LieRE(8, g88, xy), "scores",
     "The generators are A - A^T of the whole learned matrix; only the part of A above the diagonal is "
     "a parameter, the stored numbers below it must not count.", "generator-whole-matrix",
     "G = triu(A, 1) - triu(A, 1)^T.")


# ---- i090
def make(bug):
    D, L = 32, 64
    def scores(q, k):
        q, k, w, u, v = wide(q, k, P67, u67, v67)
        i, j = at(q, k)
        K = len(j)
        n = max(L, K)
        d = i[:, None] - j
        R = table(np.where(d >= 0, d + n - K, d + n + 1), D, False)
        nxt = np.concatenate([q[..., 1:, :], np.zeros_like(q[..., :1, :])], -2)
        own = np.einsum("bhid,hdD,ijD->bhij", q + v[:, None], w, R, optimize=True)
        nextq = own if bug else np.einsum("bhid,hdD,ijD->bhij", nxt + v[:, None], w, R, optimize=True)
        bd = np.where(d >= 0, own, np.where(d == -1, 0, nextq))
        return ((qk(q + u[:, None], k) + bd) / math.sqrt(8)).astype(np.float32)
    return scores
case("i090", make, ESPnetLegacy(P67, u67, v67, sinusoid=Sinusoidal(32), max_len=64), "scores",
     "Keys after the next one take the position term of the query's own row; ESPnet's reshape puts "
     "there the values of the next row's query.", "legacy-next-query",
     "Use q_(i+1) + v for keys j > i + 1.")

# =============================== right ones

# ---- i122
def make(bug):
    """pad and reshape over 2S - 1 offsets, square and not"""
    def scores(q, k):
        q, k, w, u, v = (torch.from_numpy(x).double() for x in (q, k, P67, u67, v67))
        K, Q = k.shape[-2], q.shape[-2]
        pos = torch.arange(K - 1, -K, -1, dtype=torch.float64)
        inv = torch.exp(torch.arange(0, 32, 2, dtype=torch.float64) * -(math.log(10000.0) / 32))
        pe = torch.zeros(2 * K - 1, 32, dtype=torch.float64)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(pos[:, None] * inv), torch.cos(pos[:, None] * inv)
        full = torch.cat([torch.zeros(*q.shape[:2], K - Q, q.shape[-1], dtype=torch.float64), q], 2)
        bd = (full + v[:, None]) @ (pe @ w.transpose(-1, -2)).transpose(-2, -1)
        b, h, n, m = bd.shape
        bd = torch.nn.functional.pad(bd, (1, 0)).view(b, h, m + 1, n)[:, :, 1:].reshape(b, h, n, m)
        bd = bd[..., : m // 2 + 1][:, :, K - Q:]
        ac = (q + u[:, None]) @ k.transpose(-2, -1)
        return ((ac + bd) / math.sqrt(8)).float().numpy()
    return scores
case("i122", make, TransformerXL(P67, u67, v67, sinusoid=Sinusoidal(32)), "scores",
     "right: ESPnet's reshape over 2K - 1 offsets, with queries padded to K rows", "right")


# ---- i123
def make(bug):
    """two accumulations over sorted thresholds; DeBERTa with exact integer thresholds"""
    enc = DeBERTa(Kr, Qr, buckets=32, max_position=128)
    th = np.array(enc.thresholds)
    def scores(q, k):
        q, k, kr, qr = wide(q, k, Kr, Qr)
        i, j = at(q, k)
        x = i[:, None] - j
        b = np.sign(x) * (np.minimum(np.abs(x), 16) + np.searchsorted(th, np.abs(x), side="right"))
        r = np.clip(b + 32, 0, 63)
        s = np.empty((*q.shape[:3], len(j)))
        for h in range(2):
            for a in range(len(i)):
                keys = k[:, h] + kr[h, r[a]]
                s[:, h, a] = np.einsum("bd,bjd->bj", q[:, h, a], keys) + np.einsum("bjd,jd->bj", k[:, h], qr[h, r[a]])
        return (s / math.sqrt(48)).astype(np.float32)
    return scores
case("i123", make, DeBERTa(Kr, Qr, buckets=32, max_position=128), "scores",
     "right: keys plus their relative vectors, row by row", "right")


# ---- i124
def make(bug):
    """Music Transformer: one table for each head, skew"""
    def scores(q, k):
        q, k, e = wide(q, k, M124)
        Q, K = q.shape[-2], k.shape[-2]
        i, j = at(q, k)
        row = np.clip(j[None] - i[:, None], -15, 0) + 15
        qe = np.einsum("bhid,hrd->bhir", q, e)
        rel = np.take_along_axis(qe, np.broadcast_to(row, (*qe.shape[:2], Q, K)), axis=-1)
        return ((qk(q, k) + rel) * 8 ** -0.5).astype(np.float32)
    return scores
M124 = rand(124, 3, 16, 8)
case("i124", make, Shaw(M124, before=15), "scores", "right: all rows first, then gathered", "right")


# ---- i125
def make(bug):
    """floor and the row above, gates from one matrix product with a triangle"""
    def scores(q, k):
        q, k, e = (torch.from_numpy(x).double() for x in (q, k, E70))
        Q, K = q.shape[-2], k.shape[-2]
        s = q @ k.mT / 8 ** 0.5
        vis = torch.ones(Q, K).tril(K - Q).double()
        p = ((s.sigmoid() * vis) @ torch.ones(K, K).tril().double()).clamp(max=11)
        lo = p.floor()
        hi = (lo + 1).clamp(max=11)
        l = q @ e.T
        out = torch.lerp(l.gather(-1, lo.long()), l.gather(-1, hi.long()), p - lo)
        return (s + out).float().numpy()
    return scores
case("i125", make, CoPE(E70), "scores", "right: lerp between a row and the next", "right")


# ---- i126
def make(bug):
    """the key side: transformed keys kept in a cache, as in decoding"""
    def scores(q, k):
        q, k, w, be = wide(q, k, V74, be74)
        w = w / np.sqrt((w * w).sum(-1, keepdims=True))
        K, Q = k.shape[-2], q.shape[-2]
        out, cache = qk(q, k), k.copy()
        for t in range(K):
            if t:
                c = cache[:, :, :t]
                c -= be[:, t, None, None] * (c @ w[:, t, :, None]) * w[:, t, None, :]
            if t >= K - Q:
                out[:, :, t - K + Q, :t + 1] = (cache[:, :, :t + 1] @ q[:, :, t - K + Q, :, None])[..., 0]
        return (out * 8 ** -0.5).astype(np.float32)
    return scores
case("i126", make, PaTH(V74, be74.astype(np.float32)), "scores", "right: keys transformed in place, "
     "step by step", "right")


# ---- i127
def make(bug):
    """near and far attention merged by a mask, rotation by complex numbers"""
    g, w, d = 8, 20, 32
    th = 10000.0 ** (-np.arange(16) / 16)
    def z(x, p):
        x = x.astype(np.float64)
        return (x[..., :16] + 1j * x[..., 16:]) * np.exp(1j * p[:, None] * th)
    def scores(q, k):
        i, j = at(q, k)
        one = lambda a, b: (z(q, a) @ z(k, b).conj().swapaxes(-1, -2)).real
        s = one(i, j)
        far = np.tri(len(i), len(j), len(j) - len(i) - w, dtype=bool)
        s[..., far] = one(i // g + (w - w // g), j // g)[..., far]
        return (s / math.sqrt(d)).astype(np.float32)
    return scores
case("i127", make, SelfExtend(RoPE(32, layout="half"), group=8, window=20), "scores",
     "right: group does not divide the window; complex numbers", "right")


# ---- i128
def make(bug):
    """block-diagonal matrices, solved instead of inverted"""
    n, gw, gh = 6, 3, 2
    def D(t):
        m = np.zeros((16, 16))
        m[:4, :4] = m[4:8, 4:8] = cams[t // n]
        for s, p in ((8, t % gw), (12, t // gw % gh)):
            for c, f in enumerate(100.0 ** (-np.arange(2) / 2.0)):
                a = p * f
                m[s + c, s + c] = m[s + 2 + c, s + 2 + c] = np.cos(a)
                m[s + c, s + 2 + c], m[s + 2 + c, s + c] = -np.sin(a), np.sin(a)
        return m
    def scores(q, k):
        q, k = wide(q, k)
        i, j = at(q, k)
        qq = np.stack([q[:, :, a] @ D(t) for a, t in enumerate(i)], 2)
        kk = np.stack([np.linalg.solve(D(t), k[:, :, a, :, None])[..., 0] for a, t in enumerate(j)], 2)
        return (qk(qq, kk) / 4).astype(np.float32)
    return scores
case("i128", make, PRoPE(16, cams, grid=(2, 3)), "scores", "right: whole block-diagonal matrices and "
     "solve", "right")


# ---- i129
def make(bug):
    """DualChunk with t^2: loops over chunks"""
    size, local, trained = 20, 6, 32
    C = size - local
    def scores(q, k):
        q, k = wide(q, k)
        i, j = at(q, k)
        t = max(1.0, 0.1 * math.log(len(j) / trained) + 1)
        kk = rope_half(k, j % C)
        out = np.empty((*q.shape[:3], len(j)))
        for a, p in enumerate(i):
            for c in range(0, len(j), C):
                n = p // C - c // C
                place = p % C if n <= 0 else min(p % C + C, size) if n == 1 else min(2 * C - 1, size)
                row = rope_half(q[:, :, a:a + 1], np.array([place]))
                out[:, :, a, c:c + C] = (row @ kk[:, :, c:c + C].swapaxes(-1, -2))[:, :, 0]
        return (out * t * t / math.sqrt(q.shape[-1])).astype(np.float32)
    return scores
case("i129", make, DualChunk(RoPE(16, layout="half"), chunk_size=20, local_size=6,
                             original_max_position=32), "scores",
     "right: chunk by chunk, with the factor t**2", "right")
