import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

# ---- several axes, mixed, LieRE, FoPE, Selective: apply -------------------------------------

def per_axis(x, positions, A):
    """positions as float (A, B or 1, 1, S)"""
    p = np.asarray(positions, np.float64)
    if p.ndim == 1:
        p = np.broadcast_to(p, (A,) + p.shape)
    if p.ndim == 2:
        p = p[:, None]
    return p[:, :, None]

def make(bug):
    sections = (8, 12, 12)
    def apply(x, positions):
        p = per_axis(x, positions, 3)
        f = 1.0 / 1e6 ** (np.arange(0, 64, 2) / 64)
        emb = p[..., None] * f
        emb = np.concatenate([emb, emb], -1)                       # (3, B, 1, S, D)
        cos, sin = np.cos(emb), np.sin(emb)
        sizes = [2 * n for n in sections] if bug else list(sections) * 2
        cuts = np.cumsum(sizes)[:-1]
        cos, sin = (np.concatenate([part[i % 3] for i, part in enumerate(np.split(t, cuts, -1))], -1)
                    for t in (cos, sin))
        w = x.astype(np.float64)
        rot = np.concatenate([-w[..., 32:], w[..., :32]], -1)
        return (w * cos + rot * sin).astype(x.dtype)
    return apply
case("n016", make, P.MultiAxisRoPE(64, sections=(8, 12, 12), layout="half", base=1e6), "apply",
     "M-RoPE: the doubled table is split by sections times two as sizes (16, 24, 24), not by the sections repeated twice, "
     "so the two channels of a pair may follow different axes.",
     "mrope-split-doubled-sizes", "split by sections repeated")

def make(bug):
    sections = (20, 10, 2)
    def apply(x, positions):
        p = per_axis(x, positions, 3)
        f = 5e6 ** (-np.arange(32) / 32)
        ang = p[..., None] * f
        t = ang[0].copy()
        for dim, off in ((1, 1), (2, 2)):
            length = sections[1 if bug else dim] * 3
            idx = slice(off, length, 3)
            t[..., idx] = ang[dim][..., idx]
        c, s = np.cos(t), np.sin(t)
        a, b = x[..., :32].astype(np.float64), x[..., 32:].astype(np.float64)
        return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)
    return apply
case("n017", make, P.MultiAxisRoPE(64, sections=(20, 10, 2), layout="half", arrangement="interleaved", base=5e6), "apply",
     "Interleaved M-RoPE: the width axis is spread over as many pairs as the height axis (sections[1] used for both).",
     "interleaved-length-of-other-axis", "use the section of the axis itself")

def make(bug):
    bases = (100.0, 10000.0)
    def apply(x, positions):
        B, H, S, D = x.shape
        p = per_axis(x, positions, 2)
        y = np.array(x)
        for a in range(2):
            lo, n = 24 * a, 12
            f = bases[1 - a if bug else a] ** (-np.arange(n) / n)
            c, s = np.cos(p[a][..., None] * f), np.sin(p[a][..., None] * f)
            u = x[..., lo:lo + n].astype(np.float64)
            v = x[..., lo + n:lo + 24].astype(np.float64)
            y[..., lo:lo + n] = u * c - v * s
            y[..., lo + n:lo + 24] = v * c + u * s
        return y
    return apply
case("n018", make, P.MultiAxisRoPE(48, sections=(12, 12), layout="blockwise", spacing="restart", base=(100.0, 10000.0)), "apply",
     "The bases of the two axes are swapped: the rows turn with the base of the columns.",
     "axis-bases-swapped", "bases in the order of the axes")

def make(bug):
    def apply(x, positions):
        p = per_axis(x, positions, 2)
        freqs = 1.0 / (10000.0 ** (np.arange(0, 64, 2) / 64))
        h, w = freqs[::2], freqs[::2] if bug else freqs[1::2]
        ang = np.concatenate([p[0][..., None] * h, p[1][..., None] * w], -1)
        rot = np.cos(ang) + 1j * np.sin(ang)
        z = x.astype(np.float64)
        z = (z[..., 0::2] + 1j * z[..., 1::2]) * rot
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)
    return apply
case("n019", make, P.MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="strided"), "apply",
     "Pixtral's strided frequencies: the columns take freqs[::2] as the rows do, not freqs[1::2].",
     "strided-second-axis", "freqs[1::2] for the columns")

def make(bug):
    def apply(x, positions):
        p = per_axis(x, positions, 2).copy()
        if bug:
            p[0] += 1.0
        else:
            p += 1.0
        f = 10000.0 ** (-np.arange(8) / 8)
        ang = np.concatenate([p[a][..., None] * f for a in (0, 1)], -1)
        ang[..., :] = np.stack([p[0][..., None] * f, p[1][..., None] * f], -1).reshape(ang.shape)
        a, b = x[..., ::2].astype(float), x[..., 1::2].astype(float)
        y = np.empty(x.shape)
        y[..., ::2], y[..., 1::2] = a * np.cos(ang) - b * np.sin(ang), b * np.cos(ang) + a * np.sin(ang)
        return y.astype(x.dtype)
    return apply
case("n020", make, P.MultiAxisRoPE(32, sections=(8, 8), layout="interleaved", spacing="restart", arrangement=(0, 1) * 8, offset=1.0),
     "apply", "The offset of 1 (places counted from 1, as in Llama 4's vision tower) is added to the rows only.",
     "offset-one-axis", "add it to both axes")

def make(bug):
    def apply(x, positions):
        p = per_axis(x, positions, 2)
        f = 2 * np.pi / 100.0 ** (np.arange(8) / (16 if bug else 8))
        ang = np.concatenate([p[0][..., None] * f, p[1][..., None] * f], -1)
        ang = np.concatenate([ang, ang], -1)
        w = x.astype(np.float64)
        rot = np.roll(w, 16, -1) * np.where(np.arange(32) < 16, -1.0, 1.0)
        return (w * np.cos(ang) + rot * np.sin(ang)).astype(x.dtype)
    return apply
case("n021", make, P.MultiAxisRoPE(32, sections=(8, 8), layout="half", spacing="restart", base=100.0, position_scale=2 * math.pi),
     "apply", "DINOv3-like: the exponent of a pair is divided by the pairs of both axes (16), not by the 8 of its own axis.",
     "restart-exponent-all-pairs", "divide by the pairs of the axis")

def make(bug):
    def apply(x, positions):
        p = per_axis(x, positions, 3)
        parts = []
        for a, n in enumerate((8, 12, 12)):
            f = 256.0 ** (-np.arange(n) / n)
            if a == 0 or bug:
                f[1] = 0.9 * 2 * np.pi / 40
            parts.append(p[a][..., None] * f)
        ang = np.concatenate(parts, -1)
        z = x[..., 0::2].astype(float) + 1j * x[..., 1::2].astype(float)
        z = z * np.exp(1j * ang)
        return np.stack((z.real, z.imag), -1).reshape(x.shape).astype(x.dtype)
    return apply
case("n022", make, P.MultiAxisRoPE(64, sections=(8, 12, 12), layout="interleaved", spacing="restart", base=256.0,
                                   scaling=P.RIFLEx(2, 40, periods=0.9), scaled_axes=(0,)), "apply",
     "RIFLEx replaces the frequency of pair 2 on the time axis and on both image axes.",
     "riflex-all-axes", "time axis only")

def make(bug):
    rng = np.random.default_rng(5)
    raw = rng.normal(size=(3, 4, 8)) * 0.3          # Mochi: (A, H, P)
    w = raw.reshape(4, 3, 8) if bug else raw.transpose(1, 0, 2)
    def apply(x, positions):
        p = per_axis(x, positions, 3)               # (A, B, 1, S)
        ang = sum(p[a][..., None] * w[:, a][None, :, None, :] for a in range(3))
        c, s = np.cos(ang), np.sin(ang)
        u, v = x[..., ::2].astype(float), x[..., 1::2].astype(float)
        return np.stack([u * c - v * s, u * s + v * c], -1).reshape(x.shape).astype(x.dtype)
    return apply
W3 = np.random.default_rng(5).normal(size=(3, 4, 8)) * 0.3
case("n023", make, P.MixedRoPE(16, W3.transpose(1, 0, 2), layout="interleaved"), "apply",
     "The checkpoint's weight (axes, heads, pairs) is brought to (heads, axes, pairs) by reshape, not by transposing.",
     "reshape-for-transpose", "transpose(1, 0, 2)")

W2 = np.random.default_rng(6).normal(size=(2, 12)) * 0.5
def make(bug):
    def apply(x, positions):
        p = per_axis(x, positions, 2)
        ax, ay = (p[a][..., None] * W2[a] for a in (0, 1))
        cx, sx, cy, sy = np.cos(ax), np.sin(ax), np.cos(ay), np.sin(ay)
        c = cx * cy - sx * sy
        s = sx * cy - cx * sy if bug else sx * cy + cx * sy
        u, v = x[..., 4:16].astype(float), x[..., 16:28].astype(float)
        return np.concatenate([x[..., :4], (u * c - v * s).astype(x.dtype), (v * c + u * s).astype(x.dtype), x[..., 28:]], -1)
    return apply
case("n024", make, P.MixedRoPE(32, W2, layout="half", rotary_start=4), "apply",
     "Angle addition over the two axes: the sine is sx cy - cx sy, that of the difference, while the cosine is that of the sum.",
     "addition-theorem-sign", "sx cy + cx sy")

W4 = np.random.default_rng(7).normal(size=(2, 2, 16)) * 0.7
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions)
        if bug:
            p = p.astype(np.int32)                  # "positions are indices"
        p = per_axis(x, p, 2)
        ang = np.einsum("abns,hap->bhsp", p, W4)
        z = (x[..., :16].astype(float) + 1j * x[..., 16:].astype(float)) * (np.cos(ang) + 1j * np.sin(ang))
        return np.concatenate((z.real, z.imag), -1).astype(x.dtype)
    return apply
case("n025", make, P.MixedRoPE(32, W4, layout="half"), "apply",
     "Positions are cast to integers, so the fractional places of patches are cut off.",
     "fraction-cut", "keep floats")

GEN = np.random.default_rng(8).normal(size=(2, 3, 2, 4, 4)) * 2
COO = np.random.default_rng(9).uniform(0, 1, (9, 2))
def expm(a):
    """scaling and squaring with a Taylor series"""
    n = max(0, int(np.ceil(np.log2(max(np.abs(a).sum(-1).max(), 1e-30)))) + 4)
    a = a / 2.0 ** n
    term = out = np.broadcast_to(np.eye(a.shape[-1]), a.shape)
    for i in range(1, 14):
        term = term @ a / i
        out = out + term
    for _ in range(n):
        out = out @ out
    return out
def lie(x, r):
    """r (H, N, B, n, n), x (..., H, N, d)"""
    n, k = r.shape[-1], r.shape[-3]
    w = x[..., :n * k].astype(np.float64).reshape(*x.shape[:-1], k, n)
    y = np.einsum("hsbij,...hsbj->...hsbi", np.broadcast_to(r, (x.shape[-3],) + r.shape[1:]), w)
    return np.concatenate([y.reshape(*x.shape[:-1], n * k).astype(x.dtype), x[..., n * k:]], -1)
def skew(g):
    u = np.triu(g, 1)
    return u - np.swapaxes(u, -1, -2)

def make(bug):
    G = skew(GEN)
    def apply(x, positions):
        p = COO[np.asarray(positions)]
        if bug:
            r = expm(p[:, 0, None, None, None, None] * G[0]) @ expm(p[:, 1, None, None, None, None] * G[1])
        else:
            r = expm(np.einsum("sa,ahbij->shbij", p, G))
        return lie(x, np.moveaxis(r, 0, 1))
    return apply
case("n026", make, P.LieRE(10, GEN, COO), "apply",
     "exp(p0 G0) exp(p1 G1) is used for exp(p0 G0 + p1 G1); the generators do not commute.",
     "product-of-exponentials", "exponentiate the sum")

def make(bug):
    G = skew(GEN)
    eye = np.eye(4)
    def apply(x, positions):
        a = np.einsum("sa,ahbij->hsbij", COO[np.asarray(positions)], G)
        r = np.linalg.solve(eye - a / 2, eye + a / 2) if bug else expm(a)
        return lie(x, r)
    return apply
case("n027", make, P.LieRE(8, GEN, COO), "apply",
     "The Cayley transform stands in for the matrix exponential: also orthogonal, but equal only to second order.",
     "cayley-for-exp", "use the exponential")

GEN1 = np.random.default_rng(10).normal(size=(1, 1, 3, 3, 3)) * 3
COO1 = np.linspace(0, 1, 12)[:, None]
def make(bug):
    tables = {}
    def apply(x, positions):
        p = np.asarray(positions)
        key = len(p) if bug else p.tobytes()
        if key not in tables:
            tables[key] = expm(np.moveaxis(COO1[p, 0, None, None, None, None] * skew(GEN1)[0], 0, 1))
        return lie(x, tables[key])
    return apply
case("n028", make, P.LieRE(9, GEN1, COO1), "apply",
     "The matrices are cached by the number of tokens; another selection of as many tokens gets those of the first.",
     "cache-by-token-count", "key by the positions")

CC = np.random.default_rng(11).normal(size=(2, 12, 10)) * 0.3
SC = np.random.default_rng(12).normal(size=(2, 12, 10)) * 0.3
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        f = 10000.0 ** (-np.arange(12) * 2 / 32)
        a = p[..., None] * f
        if a.ndim == 2:
            a = a[None]
        C = np.einsum("bsk,hkd->bhsd", np.cos(a), CC)
        S_ = np.einsum("bsk,hkd->bhsd", np.sin(a), SC)
        one = np.ones(C.shape[:-1] + (6,))
        C, S_ = np.concatenate([C, one], -1), np.concatenate([S_, 0 * one], -1)
        N = x.shape[1]
        C, S_ = (np.tile(t, (1, N // 2, 1, 1)) if bug else np.repeat(t, N // 2, 1) for t in (C, S_))
        u, v = x[..., :16].astype(float), x[..., 16:].astype(float)
        return np.concatenate([u * C - v * S_, v * C + u * S_], -1).astype(x.dtype)
    return apply
case("n029", make, P.FoPE(32, CC, SC, dropped_sin=0), "apply",
     "Query heads are mapped to coefficient heads by tiling (0, 1, 0, 1), not by groups (0, 0, 1, 1).",
     "groups-tiled", "repeat each head of the coefficients")

CD = np.random.default_rng(13).normal(size=(3, 8, 6)) * 0.3
SD = np.random.default_rng(14).normal(size=(3, 8, 6)) * 0.3
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        p = p[None] if p.ndim == 1 else p
        n = 7 if bug else 8                              # the zero-frequency floor, as in the paper's code
        f = np.zeros(8)
        f[:n] = 10000.0 ** (-np.arange(n) / 8)
        a = p[:, None, :, None] * f
        C, S_ = np.cos(a) @ CD, np.sin(a) @ SD
        pad = ((0, 0),) * 3 + ((0, 2),)
        C, S_ = np.pad(C, pad, constant_values=1.0), np.pad(S_, pad, constant_values=1.0)
        g = x.shape[1] // 3
        z = (x[..., :8].astype(float) + 0j, x[..., 8:].astype(float))
        C, S_ = np.repeat(C, g, 1), np.repeat(S_, g, 1)
        return np.concatenate([z[0].real * C - z[1] * S_, z[1] * C + z[0].real * S_], -1).astype(x.dtype)
    return apply
case("n030", make, P.FoPE(16, CD, SD, dropped_sin=1), "apply",
     "The last of the 8 kept frequencies is set to 0 (a floor one entry too early), so its terms do not depend on the position.",
     "fope-last-frequency-zero", "keep all K frequencies")

PHI = np.abs(np.random.default_rng(15).normal(size=(2, 40, 6)))
def make(bug):
    acc = np.zeros((2, 40, 6))
    CH = 16
    for h in range(2):
        carry = np.zeros(6)
        for lo in range(0, 40, CH):
            block = np.cumsum(PHI[h, lo:lo + CH], 0)
            acc[h, lo:lo + CH] = block + carry
            carry = block[-1] if bug else acc[h, min(lo + CH, 40) - 1]
    def apply(x, positions):
        a = acc[:, np.asarray(positions)]
        u, v = x[..., :6].astype(float), x[..., 6:12].astype(float)
        c, s = np.cos(a), np.sin(a)
        return np.concatenate([(u * c - v * s).astype(x.dtype), (v * c + u * s).astype(x.dtype), x[..., 12:]], -1)
    return apply
case("n031", make, P.SelectiveRoPE(14, PHI, layout="half"), "apply",
     "Chunked cumulative sum: the carry into a chunk is the sum of the previous chunk alone, so it is wrong from the third chunk on.",
     "carry-of-one-chunk", "carry the running total")
