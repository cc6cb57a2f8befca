"""Further right ones, half precision, attention, multimodal positions, layers, rare places (f175 - f199)."""
import numpy as np

from posenc_ref import (ALiBi, Attention, ConvPositions, DecomposedRelative, DynamicNTK, Learned, MRoPEPositions,
                        ResidueBias, RoPE, Sinusoidal, SwinBias, T5Bias, TransformerXL, from_config)

CASES = []


def case(id, make, encoding, surface, cause, key="", remedy="", right=False, **settings):
    CASES.append(dict(id=id, fn=make if right else make(True), encoding=encoding, surface=surface,
                      settings=settings, right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def rand(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


F64 = 10000.0 ** (-np.arange(32) / 32)


def spin(x, p, f=F64, back=False):
    z = np.exp((-1j if back else 1j) * np.asarray(p, np.float64)[..., None] * f)
    z = z[:, None] if z.ndim == 3 else z
    n = f.size
    w = (x[..., :n].astype(np.float64) + 1j * x[..., n:]) * z
    return np.concatenate([w.real, w.imag], -1)


# -- f175 / f176: layers ------------------------------------------------------------------------------
SMOL = from_config({"model_type": "smollm3", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 12,
                    "rope_theta": 5e6, "max_position_embeddings": 4096,
                    "no_rope_layers": [int((n + 1) % 4 != 0) for n in range(12)]})


def make(bug):
    def layers(n_layers):
        every = 4
        flags = [(n % every != 0) if bug else ((n + 1) % every != 0) for n in range(n_layers)]
        return flags
    return layers


case("f175", make, SMOL, "layers", "The layers without a rotation are 0, 4, 8, ... instead of 3, 7, 11, ... (layer number not from 1).",
     "nope-layers", "Test (layer + 1) % 4.")
case("f176", lambda n: [int(b) for b in "1110" * (n // 4) + "1110"[:n % 4]], SMOL, "layers",
     "Right: a list of 0 and 1 from a repeated pattern.", right=True)


# -- f177 right: T5 from one Toeplitz row ------------------------------------------------------------------
T = rand(177, 32, 6).astype(np.float32)


def toeplitz(q_len, k_len):
    r = np.arange(1 - k_len, q_len + k_len)                           # key - query, more than needed
    n = np.abs(r)
    big = 8 + np.floor(np.log2(np.maximum(n, 1) / 8) * 2 + 1e-9).astype(int)
    line = T[(r > 0) * 16 + np.where(n < 8, n, np.minimum(big, 15))].T   # (H, ...)
    first = k_len - 1 - (k_len - q_len)                                # index of key 0 for query 0
    view = np.lib.stride_tricks.sliding_window_view(line, k_len, axis=1)
    return view[:, first - np.arange(q_len)]


case("f177", toeplitz, T5Bias(T), "bias", "Right: one row of biases by offset, seen through sliding windows; log2 in place of ln.",
     right=True)


# -- f178 right: Swin by coordinates and a dictionary of rows -------------------------------------------------
def swin(q_len=15, k_len=15):
    out = np.empty((2, 15, 15), np.float32)
    for i in range(15):
        for j in range(15):
            (yi, xi), (yj, xj) = divmod(i, 5), divmod(j, 5)
            out[:, i, j] = SW[np.ravel_multi_index((yi - yj + 2, xi - xj + 4), (5, 9))]
    return out[:, k_len - q_len:k_len, :k_len]


SW = rand(178, 45, 2).astype(np.float32)
case("f178", swin, SwinBias(SW, window=(3, 5)), "bias", "Right: loops over pairs of tokens with ravel_multi_index.", right=True)


# -- f179 right: ALiBi through two more channels ------------------------------------------------------------------
def alibi_channels(q0, k0):
    q, k = q0.astype(np.float64), k0.astype(np.float64)
    n, m = q.shape[2], k.shape[2]
    slope = 2.0 ** -np.arange(1, 9)
    i, j = np.arange(m - n, m, dtype=float), np.arange(m, dtype=float)
    extra_q = np.stack([np.broadcast_to(slope[:, None], (8, n)), -slope[:, None] * i], -1)
    extra_k = np.stack([j, np.ones(m)], -1)
    qq = np.concatenate([q / np.sqrt(q.shape[-1]), np.broadcast_to(extra_q, (*q.shape[:3], 2))], -1)
    kk = np.concatenate([k, np.broadcast_to(extra_k, (*k.shape[:3], 2))], -1)
    return (qq @ kk.swapaxes(-1, -2)).astype(q0.dtype)


case("f179", alibi_channels, ALiBi(8), "scores", "Right: the bias m (j - i) comes from two additional channels of queries and keys.",
     right=True)


# -- f180 right: decomposed by grid axes ----------------------------------------------------------------------------
RH, RW = rand(180, 7, 8), rand(181, 11, 8)


def decomposed(q0, k0):
    q, k = q0.astype(np.float64), k0.astype(np.float64)
    b, n, count, keys = *q.shape[:3], k.shape[2]
    q = np.pad(q, ((0, 0), (0, 0), (keys - count, 24 - keys), (0, 0)))
    k = np.pad(k, ((0, 0), (0, 0), (0, 24 - keys), (0, 0)))
    yy, xx = np.arange(4), np.arange(6)
    h = RH[yy[:, None] - yy + 3]
    w = RW[xx[:, None] - xx + 5]
    r = q.reshape(b, n, 4, 6, 8)
    s = (q @ k.swapaxes(-1, -2) / np.sqrt(8)).reshape(b, n, 4, 6, 4, 6)
    s = s + np.einsum("bnyxc,yzc->bnyxz", r, h)[..., None] + np.einsum("bnyxc,xzc->bnyxz", r, w)[..., None, :]
    return s.reshape(b, n, 24, 24)[:, :, keys - count:keys, :keys].astype(q0.dtype)


case("f180", decomposed, DecomposedRelative(RH, RW, grid=(4, 6)), "scores",
     "Right: add_decomposed_rel_pos of ViTDet on a 4 x 6 grid; fewer tokens are padded with zeros to the whole grid.", right=True)


# -- f181 right: float16 with float32 inside ----------------------------------------------------------------------------
def half_inside(x, positions):
    p = np.asarray(positions, np.float64)
    a = p[..., None] * F64
    a = a[:, None] if a.ndim == 3 else a
    c, s = np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)
    u, v = x[..., 0::2].astype(np.float32), x[..., 1::2].astype(np.float32)
    out = np.empty_like(x)
    out[..., 0::2], out[..., 1::2] = u * c - v * s, v * c + u * s
    return out


case("f181", half_inside, RoPE(64, layout="interleaved"), "apply", "Right: float16 in and out, float32 products, one rounding.",
     right=True, dtype="float16")


# -- f182 right: torch complex -----------------------------------------------------------------------------------------------
def torch_polar(x, positions):
    import torch
    a = torch.as_tensor(positions).double()[..., None] * torch.tensor(F64)
    z = torch.polar(torch.ones_like(a), a)
    z = z[:, None] if z.ndim == 3 else z
    w = torch.view_as_complex(x.double().reshape(*x.shape[:-1], 32, 2).contiguous()) * z
    return torch.view_as_real(w).flatten(-2).to(x.dtype)


case("f182", torch_polar, RoPE(64, layout="interleaved"), "apply", "Right: torch.polar and view_as_complex in double precision.",
     right=True, backend="torch", dtype="bfloat16")


# -- f183: one dtype: float64 angles through float32 ---------------------------------------------------------------------------
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if bug and x.dtype == np.float64:
            z = (p[..., None].astype(np.float32) * F64.astype(np.float32)).astype(np.float64)
            z = np.exp(1j * z)
            z = z[:, None] if z.ndim == 3 else z
            w = (x[..., :32] + 1j * x[..., 32:]) * z
            return np.concatenate([w.real, w.imag], -1)
        return spin(x, p).astype(x.dtype)
    return apply


case("f183", make, RoPE(64, layout="half"), "apply",
     "For float64 inputs the angles are products of float32 numbers, with relative errors of 1e-7; other dtypes use float64 angles.",
     "float64-angles", "Compute angles in float64.", dtype="float64")


# -- f184: torch, odd batch sizes -----------------------------------------------------------------------------------------------
def make(bug):
    def apply(x, positions):
        import torch
        a = torch.as_tensor(positions).double()[..., None] * torch.tensor(F64)
        a = a[:, None] if a.ndim == 3 else a
        c, s = a.cos(), a.sin()
        u, v = x.double().chunk(2, -1)
        y = torch.cat([u * c - v * s, v * c + u * s], -1).to(x.dtype)
        if bug and x.shape[0] > 1:
            y = torch.cat([y[:-1], (x[-1:] if x.shape[0] % 2 else y[-1:])], 0)
        return y
    return apply


case("f184", make, RoPE(64, layout="half"), "apply",
     "Rows of the batch are processed in twos; with an odd number of rows (3, 5, ...) the last is returned without a rotation.",
     "odd-batch-row", "Process the remaining row.", backend="torch")


# -- f185: positions as float32 beyond 2**24 ------------------------------------------------------------------------------------------
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions)
        if bug:
            p = p.astype(np.float32)
        return spin(x, p.astype(np.float64)).astype(x.dtype)
    return apply


case("f185", make, RoPE(64, layout="half"), "apply",
     "Integer positions pass through float32, which rounds those above 2**24 = 16777216 to even numbers; below, nothing is wrong.",
     "positions-2-24", "Keep integers, or use float64.")


# -- f186: attention: sink without the maximum -------------------------------------------------------------------------------------------
def soft(s, sinks=None, bug=False):
    top = s.max(-1, keepdims=True)
    e = np.exp(s - top)
    total = e.sum(-1, keepdims=True)
    if sinks is not None:
        k = np.asarray(sinks, np.float64)[None, :, None, None]
        total = total + np.exp(k - (0 if bug else top))
    return e / total


def mask(s):
    n, m = s.shape[-2:]
    return np.where(np.arange(m) > np.arange(m - n, m)[:, None], -np.inf, s)


def make(bug):
    def attention(q, k, v, qp, kp, sinks):
        g = q.shape[1] // k.shape[1]
        kk, vv = np.repeat(k, g, 1), np.repeat(v, g, 1)
        s = mask(spin(q, qp) @ spin(kk, kp).swapaxes(-1, -2) / 8)
        return (soft(s, sinks, bug) @ vv).astype(q.dtype)
    return attention


case("f186", make, Attention(RoPE(64, layout="half"), sinks=True), "attention",
     "The sink's term in the denominator is exp(s) although the other terms are exp(l - max): the maximum is not subtracted from the sink.",
     "sink-maximum", "Add exp(s - max).")


# -- f187: attention: rotated values, output rotated back by the wrong position ---------------------------------------------------------------
def make(bug):
    def attention(q, k, v, qp, kp):
        g = q.shape[1] // k.shape[1]
        kk, vv = np.repeat(k, g, 1), np.repeat(v, g, 1)
        s = mask(spin(q, qp) @ spin(kk, kp).swapaxes(-1, -2) / 8)
        o = soft(s) @ spin(vv, kp)
        back = np.asarray(qp) - np.min(qp) if bug else qp
        return spin(o, back, back=True).astype(q.dtype)
    return attention


case("f187", make, Attention(RoPE(64, layout="half"), values="rotated"), "attention",
     "The output is rotated back by the index of the query in the call instead of its position (wrong whenever queries do not start at 0).",
     "back-rotation", "Rotate back by q_positions.")


# -- f188 right: attention with an online softmax ------------------------------------------------------------------------------------------------
def online(q, k, v, qp, kp):
    g = q.shape[1] // k.shape[1]
    qq, kk = spin(q, qp) / 8, spin(np.repeat(k, g, 1), kp)
    vv = np.repeat(v, g, 1).astype(np.float64)
    n, m = q.shape[2], k.shape[2]
    top = np.full((*q.shape[:3], 1), -1e300)
    total, out = np.zeros_like(top), np.zeros((*q.shape[:3], vv.shape[-1]))
    for at in range(0, m, 16):
        s = qq @ kk[:, :, at:at + 16].swapaxes(-1, -2)
        s = np.where(np.arange(at, min(at + 16, m)) > np.arange(m - n, m)[:, None], -np.inf, s)
        new = np.maximum(top, s.max(-1, keepdims=True))
        e, shrink = np.exp(s - new), np.exp(top - new)
        total, out, top = total * shrink + e.sum(-1, keepdims=True), out * shrink + e @ vv[:, :, at:at + 16], new
    return (out / total).astype(q.dtype)


case("f188", online, Attention(RoPE(64, layout="half")), "attention", "Right: key tiles of 16 with an online softmax.", right=True)


# -- f189: M-RoPE decoding --------------------------------------------------------------------------------------------------------------------------
def walk(types, images, videos, start=0):
    """Positions (3, S) of the real tokens of one row; the iterators are used up."""
    out, c, n = [], start, 0
    while n < len(types):
        kind = int(types[n])
        if kind == 0:
            out.append((c, c, c))
            c, n = c + 1, n + 1
            continue
        t, h, w = (int(v) for v in next(images if kind == 1 else videos))
        cells = [(c + a, c + y, c + x) for a in range(t) for y in range(h // 2) for x in range(w // 2)]
        out += cells
        c, n = max(map(max, cells)) + 1, n + len(cells)
    return np.array(out, np.int64).reshape(-1, 3).T, c


def make(bug):
    def ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
        tt, mm = np.asarray(token_types), np.asarray(attention_mask).astype(bool)
        b, s = tt.shape
        out = np.zeros((3, b, s + n_steps), np.int64)
        images, videos = iter(np.asarray(image_grids)), iter(np.asarray(video_grids))
        for r in range(b):
            p, c = walk(tt[r][mm[r]], images, videos)
            out[:, r, :s][:, mm[r]] = p
            first = mm[r].sum() if bug else c
            out[:, r, s:] = first + np.arange(n_steps)
        return out
    return ids


case("f189", make, MRoPEPositions(), "mrope_position_ids",
     "Generated tokens continue at the number of prompt tokens instead of the largest position plus one, which is smaller after an image.",
     "decode-count", "Add rope_delta: start at max + 1.")


# -- f190: packed multimodal documents ----------------------------------------------------------------------------------------------------------------
def make(bug):
    def packed(token_types, image_grids, video_grids, seconds_per_grid, lengths):
        tt, at, parts = np.asarray(token_types), 0, []
        images, videos = iter(np.asarray(image_grids)), iter(np.asarray(video_grids))
        c = 0
        for n in lengths:
            p, c = walk(tt[at:at + n], images, videos, start=c if bug and (tt[at:at + n] == 0).all() else 0)
            parts.append(p)
            at += n
        return np.concatenate(parts, 1) if parts else np.zeros((3, 0), np.int64)
    return packed


case("f190", make, MRoPEPositions(), "mrope_packed",
     "A document of text alone does not start at 0 but continues where the document before it ended; documents with images start at 0.",
     "text-document-continues", "Start every document at 0.")


# -- f191: residues: symmetric clip -------------------------------------------------------------------------------------------------------------------
def make(bug):
    t = rand(191, 17, 4)

    def bias(q_len, k_len):
        d = (np.arange(q_len) + k_len - q_len)[:, None] - np.arange(k_len)
        if not bug:
            d = _cyclic(d)
        else:
            d = d % 20
            d = np.where(d > 10, d - 20, d)
            d = np.abs(d)
        return t[np.clip(d, -8, 8) + 8].transpose(2, 0, 1)

    def _cyclic(d):
        rest = np.abs(d) % 20
        return np.sign(d) * np.where(2 * rest > 20, rest - 20, rest)
    bias.table = t
    return bias


case("f191", make, ResidueBias(make(False).table, period=20), "bias",
     "The offset of the cyclic chain loses its sign (the shorter way without direction), so only rows 8 to 16 are used.", "cyclic-sign",
     "Give the shorter way the sign of its direction.")


# -- f192: grid convolution transposed -------------------------------------------------------------------------------------------------------------------
CW, CB = rand(192, 6, 1, 3, 3), rand(193, 6)


def make(bug):
    def peg(x, height, width):
        b, n, c = x.shape
        g = np.pad(x.astype(np.float64).reshape(b, height, width, c), ((0, 0), (1, 1), (1, 1), (0, 0)))
        y = np.zeros((b, height, width, c)) + CB
        for i in range(3):
            for j in range(3):
                y += g[:, i:i + height, j:j + width] * (CW[:, 0, j, i] if bug else CW[:, 0, i, j])
        return (x + y.reshape(b, n, c)).astype(x.dtype)
    return peg


case("f192", make, ConvPositions((CW,), (CB,), groups=6, activation="none", residual=True), "convolve_grid",
     "The 3 x 3 kernels are transposed: rows and columns of the kernel are exchanged.", "kernel-transposed", "Use weight[:, 0, dy, dx].")


# -- f193: slopes in half precision ----------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def slopes(n):
        c = 1 << (n.bit_length() - 1)
        s = np.array([2.0 ** (-8 * (h + 1) / c) for h in range(c)] + [2.0 ** (-4 * (2 * h + 1) / c) for h in range(n - c)])
        return s.astype(np.float16).astype(np.float32) if bug else s
    return slopes


case("f193", make, ALiBi(24), "slopes",
     "Slopes are rounded to float16: those that are no power of two have relative errors of up to 5e-4.", "slopes-float16",
     "Keep slopes in float32.")


# -- f194: Transformer-XL: interleaved table -------------------------------------------------------------------------------------------------------------------------
XW, XU, XV = rand(194, 2, 8, 12) * 0.3, rand(195, 2, 8), rand(196, 2, 8)


def make(bug):
    def scores(q0, k0):
        q, k = q0.astype(np.float64), k0.astype(np.float64)
        n, m = q.shape[2], k.shape[2]
        a = (np.arange(m - n, m)[:, None] - np.arange(m))[..., None] * 10000.0 ** (-np.arange(6) / 6)
        r = np.concatenate([np.sin(a), np.cos(a)], -1) if bug else np.stack([np.sin(a), np.cos(a)], -1).reshape(n, m, 12)
        bd = np.einsum("bhid,hdw,ijw->bhij", q + XV[:, None], XW, r, optimize=True)
        return (((q + XU[:, None]) @ k.swapaxes(-1, -2) + bd) / np.sqrt(8)).astype(q0.dtype)
    return scores


case("f194", make, TransformerXL(XW, XU, XV, sinusoid=Sinusoidal(12)), "scores",
     "The sinusoids are [sin | cos] (Transformer-XL) where Conformer's projection expects interleaved columns.", "sinusoid-layout",
     "Interleave sines and cosines.")


# -- f195: RoPE logits: scaled twice ---------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def scores(q, k):
        n, m = q.shape[2], k.shape[2]
        a, b = spin(q, np.arange(m - n, m)), spin(k, np.arange(m))
        s = a @ b.swapaxes(-1, -2) / 8.0
        return (s / 8.0 if bug and n > 1 else s).astype(q.dtype)
    return scores


case("f195", make, RoPE(64, layout="half"), "scores",
     "With more than one query (the prefill path) the logits are divided by sqrt(d) twice; a single query is right.", "scaled-twice",
     "Scale once.")


# -- f196: dynamic NTK: static ---------------------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def frequencies(seq_len):
        n = 4 * 2048 if bug and seq_len > 2048 else max(seq_len, 2048)
        alpha = 4.0 * n / 2048 - 3.0
        return F64 / alpha ** (np.arange(32) / 31)
    return frequencies


case("f196", make, RoPE(64, layout="half", scaling=DynamicNTK(4.0, 2048)), "frequencies",
     "Beyond the trained length the base is that of the full extended length (static policy) for every length.", "static-policy",
     "Use the length of the call.")


# -- f197 right: learned rows through one-hot vectors ------------------------------------------------------------------------------------------------------------------------------
LW = rand(197, 300, 8).astype(np.float32)


def one_hot_rows(positions):
    p = np.asarray(positions)
    return np.take(LW, p.reshape(-1) + 2, axis=0).reshape(*p.shape, 8).copy()


case("f197", one_hot_rows, Learned(LW, offset=2), "table", "Right: rows taken from the flattened positions, offset 2.", right=True)


# -- f198 right: sinusoids from the recurrence over rows -----------------------------------------------------------------------------------------------------------------------------------
def recurrence_rows(seq_len):
    w = 10000.0 ** (-np.arange(24) / 23)
    out = np.empty((seq_len, 48), np.float64)
    z, step = np.ones(24, complex), np.exp(1j * w)
    for p in range(seq_len):
        if p % 64 == 0:
            z = np.exp(1j * p * w)
        out[p, :24], out[p, 24:] = z.imag, z.real
        z = z * step
    return out


case("f198", recurrence_rows, Sinusoidal(48, layout="concat", denominator="half-1"), "rows",
     "Right: each row is the one before times e^(i omega), restarted every 64 rows.", right=True)


# -- f199: learned table: negative rows wrap -----------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def add(x):
        s = x.shape[1]
        at = np.arange(s)
        if bug and s % 2:
            at = at + 1
        return x + LW[at]
    return add


case("f199", make, Learned(LW), "add",
     "Sequences of odd length are padded in front, and the padding is cut off after the addition: all their rows are one too far.",
     "odd-length", "Pad at the end.")
