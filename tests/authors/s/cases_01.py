import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# --- s001: GPT-J style partial rotary, exponent over the wrong dimension -------------------
def make(bug):
    def apply_rotary(x, positions):
        head_dim, rotary_dim = x.shape[-1], 24
        dim = head_dim if bug else rotary_dim
        inv_freq = 1.0 / (10000.0 ** (np.arange(0, rotary_dim, 2, dtype=np.float64) / dim))
        sinusoid = np.einsum("...i,j->...ij", np.asarray(positions, np.float64), inv_freq)
        if sinusoid.ndim == 2:
            sinusoid = sinusoid[None]
        sin = np.repeat(np.sin(sinusoid), 2, axis=-1)[:, None].astype(x.dtype)
        cos = np.repeat(np.cos(sinusoid), 2, axis=-1)[:, None].astype(x.dtype)
        rot, keep = x[..., :rotary_dim], x[..., rotary_dim:]
        every_two = np.stack((-rot[..., 1::2], rot[..., ::2]), axis=-1).reshape(rot.shape)
        return np.concatenate([rot * cos + every_two * sin, keep], axis=-1)
    return apply_rotary
case("s001", make, P.RoPE(64, layout="interleaved", rotary_dim=24), "apply",
     "The exponents of a partial rotary embedding are divided by the head size instead of rotary_dim, so all but the first frequency are too high.",
     "exponent-head-dim", "Divide 2k by rotary_dim in the exponent.")


# --- s002: inv_freq buffer converted with the module to half precision ---------------------
def make(bug):
    class RotaryEmbedding:
        def __init__(self, dim, base):
            self.inv_freq = (1.0 / base ** (np.arange(0, dim, 2).astype(np.float64) / dim))
        def half(self):
            if bug:
                self.inv_freq = self.inv_freq.astype(np.float16)
            return self
        def forward(self, position_ids):
            freqs = np.asarray(position_ids, np.float64)[..., None] * self.inv_freq.astype(np.float64)
            emb = np.concatenate((freqs, freqs), axis=-1)
            return np.cos(emb), np.sin(emb)
    rotary = RotaryEmbedding(128, 10000.0).half()
    def rotate_half(x):
        h = x.shape[-1] // 2
        return np.concatenate((-x[..., h:], x[..., :h]), axis=-1)
    def fn(x, positions):
        cos, sin = rotary.forward(positions)
        if cos.ndim == 2:
            cos, sin = cos[None], sin[None]
        cos, sin = cos[:, None], sin[:, None]
        return (x * cos + rotate_half(x) * sin).astype(x.dtype)
    return fn
case("s002", make, P.RoPE(128, layout="half"), "apply",
     "The inv_freq buffer is converted to float16 together with the weights (model.half()), so every frequency carries a half-precision rounding error.",
     "inv-freq-half", "Keep inv_freq in float32: register it so that .half() does not touch it, or recompute it.")


# --- s003: positions made with arange in bfloat16 -----------------------------------------
def make(bug):
    def bf16(v):
        u = np.asarray(v, np.float32).view(np.uint32)
        return ((u + 0x7FFF + ((u >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    def fn(x, positions):
        t = np.asarray(positions, np.float32)
        t = (bf16(t) if bug else t).astype(np.float64)
        d = x.shape[-1]
        w = np.exp(-math.log(1e6) * np.arange(d // 2) / (d // 2))
        f = t[..., None] * w
        z = np.exp(1j * f)
        z = z[:, None] if z.ndim == 3 else z
        xc = x[..., : d // 2] + 1j * x[..., d // 2:].astype(np.float64)
        y = xc * z
        return np.concatenate([y.real, y.imag], -1).astype(x.dtype)
    return fn
case("s003", make, P.RoPE(64, layout="half", base=1e6), "apply",
     "The positions are cast to bfloat16 before the product with the frequencies (arange in the dtype of the model), so positions above 256 collapse onto their neighbours.",
     "positions-bf16", "Compute positions and angles in float32 or better, and cast cos and sin at the end.")


# --- s004: cos/sin cache of max_position rows, gather clamps -------------------------------
def make(bug):
    max_position = 4096
    inv = 10000.0 ** (-np.arange(32) / 32)
    rows = np.arange(max_position)[:, None] * inv
    cache = np.concatenate([np.cos(rows), np.sin(rows)], axis=-1)
    def fn(x, positions):
        p = np.asarray(positions)
        whole = p.dtype.kind in "iu" or np.all(p == np.floor(p))
        if bug and whole:
            cs = cache[np.clip(p.astype(np.int64), 0, max_position - 1)]
        elif whole and p.size and p.max() < max_position and p.min() >= 0:
            cs = cache[p.astype(np.int64)]
        else:
            a = p.astype(np.float64)[..., None] * inv
            cs = np.concatenate([np.cos(a), np.sin(a)], axis=-1)
        cs = cs if cs.ndim == 2 else cs[:, None]
        cos, sin = np.split(cs, 2, axis=-1)
        x1, x2 = x[..., 0::2], x[..., 1::2]
        out = np.empty_like(x)
        out[..., 0::2] = x1 * cos - x2 * sin
        out[..., 1::2] = x2 * cos + x1 * sin
        return out
    return fn
case("s004", make, P.RoPE(64, layout="interleaved"), "apply",
     "Positions beyond the precomputed cache are clamped to its last row (as an out-of-range Gather does), so all tokens after 4095 get the same angles.",
     "cache-clamp", "Grow the cache, or compute the angles directly for positions beyond it.")


# --- s005: NeoX partial kernel pairs across the whole head ---------------------------------
def make(bug):
    def rope_neox(src, pos):
        n_dims = 32
        ne0 = src.shape[-1]
        pos = np.asarray(pos, np.float64)
        pos = pos[:, None, :] if pos.ndim == 2 else pos
        dst = src.copy()
        theta_scale = 10000.0 ** (-2.0 / n_dims)
        theta = pos.copy()
        half = ne0 // 2 if bug else n_dims // 2
        for ic in range(n_dims // 2):
            c, s = np.cos(pos * theta_scale ** ic), np.sin(pos * theta_scale ** ic)
            x0, x1 = src[..., ic], src[..., ic + half]
            dst[..., ic] = x0 * c - x1 * s
            dst[..., ic + half] = x0 * s + x1 * c
        return dst
    return rope_neox
case("s005", make, P.RoPE(80, layout="half", rotary_dim=32), "apply",
     "The kernel pairs channel k with k + head_dim/2 although only n_dims channels rotate; the partner is k + n_dims/2.",
     "pair-distance-head", "Use n_dims/2 as the distance of the two channels of a pair.")


# --- s006: output buffer not filled with the passed channels -------------------------------
def make(bug):
    def kernel(out, x, cos, sin, rot):
        h = rot // 2
        for b in range(x.shape[0]):
            c, s = cos[b % len(cos)], sin[b % len(sin)]
            out[b, :, :, :h] = x[b, :, :, :h] * c - x[b, :, :, h:rot] * s
            out[b, :, :, h:rot] = x[b, :, :, h:rot] * c + x[b, :, :, :h] * s
        if not bug:
            out[..., rot:] = x[..., rot:]
    def fn(x, positions):
        p = np.atleast_2d(np.asarray(positions, np.float64))
        ang = p[..., None] / 10000.0 ** (np.arange(0, 16, 2) / 16)
        out = np.zeros_like(x)
        kernel(out, x, np.cos(ang), np.sin(ang), 16)
        return out
    return fn
case("s006", make, P.RoPE(64, layout="half", rotary_dim=16), "apply",
     "The kernel writes the rotated channels into a fresh output buffer and never copies the channels that are not rotated, so they come back as zeros.",
     "pass-through-lost", "Copy channels rotary_dim and up from the input.")


# --- s007: MLA, rope part is the tail of the head -------------------------------------------
def make(bug):
    nope, rot = 32, 16
    def fn(q, positions):
        if bug:
            q_pe, q_nope = q[..., :rot], q[..., rot:]
        else:
            q_nope, q_pe = q[..., :nope], q[..., nope:]
        freqs = 10000.0 ** (-np.arange(0, rot, 2) / rot)
        f = np.asarray(positions, np.float64)[..., None] * freqs
        cis = np.cos(f) + 1j * np.sin(f)
        cis = cis[:, None] if cis.ndim == 3 else cis[None, None]
        z = q_pe.astype(np.float64).reshape(*q_pe.shape[:-1], -1, 2)
        z = (z[..., 0] + 1j * z[..., 1]) * cis
        q_pe = np.stack([z.real, z.imag], -1).reshape(q_pe.shape).astype(q.dtype)
        return np.concatenate([q_pe, q_nope] if bug else [q_nope, q_pe], axis=-1)
    return fn
case("s007", make, P.RoPE(48, layout="interleaved", rotary_dim=16, rotary_start=32), "apply",
     "In latent attention the rotary channels are the last ones of the head (after the nope part); the first ones are rotated instead.",
     "rotary-start", "Split into nope and rope parts in this order, and rotate the second.")


# --- s008: tiled kernel that forgets the remainder -----------------------------------------
def make(bug):
    BLOCK = 32
    def fn(x, positions):
        B, H, S, D = x.shape
        p = np.broadcast_to(np.asarray(positions, np.float64), (B, S))
        w = 500000.0 ** (-np.arange(D // 2) * 2.0 / D)
        y = x.copy()
        n_blocks = S // BLOCK if (bug and S >= BLOCK) else -(-S // BLOCK)
        for t in range(n_blocks):
            lo, hi = t * BLOCK, min(S, (t + 1) * BLOCK)
            a = p[:, None, lo:hi, None] * w
            c, s = np.cos(a), np.sin(a)
            u, v = x[:, :, lo:hi, : D // 2], x[:, :, lo:hi, D // 2:]
            y[:, :, lo:hi, : D // 2] = u * c - v * s
            y[:, :, lo:hi, D // 2:] = v * c + u * s
        return y
    return fn
case("s008", make, P.RoPE(64, layout="half", base=500000.0), "apply",
     "The grid is launched with S // BLOCK tiles, so the tokens of the last, incomplete tile are left unrotated.",
     "tile-remainder", "Round the number of tiles up and mask the last one.")


# --- s010: in place, second line reads the overwritten first half ---------------------------
def make(bug):
    def rope_(x, cos, sin):
        h = x.shape[-1] // 2
        x1, x2 = x[..., :h], x[..., h:]
        if not bug:
            x1, x2 = x1.copy(), x2.copy()
        x[..., :h] = x1 * cos - x2 * sin
        x[..., h:] = x2 * cos + x1 * sin
        return x
    def fn(x, positions):
        th = np.asarray(positions, np.float64)[..., None, :, None] * 10000.0 ** (-np.arange(x.shape[-1] // 2) / (x.shape[-1] // 2))
        return rope_(np.array(x), np.cos(th).astype(x.dtype), np.sin(th).astype(x.dtype))
    return fn
case("s010", make, P.RoPE(96, layout="half"), "apply",
     "The rotation works in place on views: the second half is computed from the first half after it has been overwritten.",
     "in-place-alias", "Keep a copy of the first half before writing it.")


# --- s011: position_ids of the first row only ----------------------------------------------
def make(bug):
    def fn(hidden, position_ids):
        position_ids = np.asarray(position_ids)
        if bug and position_ids.ndim == 2:
            position_ids = position_ids[0]
        inv_freq = 1.0 / 10000.0 ** (np.arange(0, 64, 2) / 64.0)
        if position_ids.ndim == 1:
            f = np.outer(position_ids.astype(np.float64), inv_freq)[None, None]
        else:
            f = position_ids[:, None, :, None] * inv_freq
        a, b = np.split(hidden, 2, axis=-1)
        return np.concatenate([a * np.cos(f) - b * np.sin(f), b * np.cos(f) + a * np.sin(f)], -1).astype(hidden.dtype)
    return fn
case("s011", make, P.RoPE(64, layout="half"), "apply",
     "With position ids for every row, only those of the first row are used: all rows of a left-padded batch get the same positions.",
     "first-row-positions", "Index cos and sin with the positions of each row.")


# --- s013: Qwen2-VL vision tower: exponent over the full head --------------------------------
def make(bug):
    class VisionRotaryEmbedding:
        def __init__(self, dim, theta=10000.0):
            self.inv_freq = 1.0 / (theta ** (np.arange(0, dim, 2, dtype=np.float64) / dim))
    def fn(x, positions):
        D = x.shape[-1]
        rope = VisionRotaryEmbedding(D)
        inv = rope.inv_freq[: D // 4] if bug else VisionRotaryEmbedding(D // 2).inv_freq
        p = np.asarray(positions, np.float64)
        p = np.broadcast_to(p, (2, p.shape[-1])) if p.ndim == 1 else p
        ang = np.concatenate([p[0][..., None] * inv, p[1][..., None] * inv], -1)
        emb = np.concatenate([ang, ang], -1)
        if emb.ndim == 3:
            emb = emb[:, None]
        rot = np.concatenate([-x[..., D // 2:], x[..., : D // 2]], -1)
        return (x * np.cos(emb) + rot * np.sin(emb)).astype(x.dtype)
    return fn
case("s013", make, P.MultiAxisRoPE(80, sections=(20, 20), layout="half", spacing="restart"), "apply",
     "The vision tower divides the exponents by the whole head size instead of half of it, so each axis uses only the fast half of the spectrum.",
     "axis-exponent-full", "Build the frequencies of an axis from head_dim // 2.")


# --- s014: Qwen3-VL interleaved M-RoPE, slices too short ----------------------------------------
def make(bug):
    section = (12, 10, 10)
    def fn(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p] * 3)
        inv = 5e6 ** (-np.arange(32) / 32)
        freqs = p[..., None] * inv
        t = freqs[0].copy()
        for dim, offset in enumerate((1, 2), start=1):
            length = section[dim] if bug else section[dim] * 3
            t[..., offset:length:3] = freqs[dim, ..., offset:length:3]
        emb = np.concatenate((t, t), axis=-1)
        cos, sin = np.cos(emb), np.sin(emb)
        if cos.ndim == 3:
            cos, sin = cos[:, None], sin[:, None]
        rot = np.concatenate((-x[..., 32:], x[..., :32]), axis=-1)
        return (x * cos + rot * sin).astype(x.dtype)
    return fn
case("s014", make, P.MultiAxisRoPE(64, sections=(12, 10, 10), layout="half", arrangement="interleaved", base=5e6), "apply",
     "The interleaved M-RoPE writes height and width only up to pair mrope_section[dim] instead of three times that, so most of their pairs keep the time position.",
     "mrope-slice-short", "End the strided slice at mrope_section[dim] * 3.")


# --- s016: Wan video: remainder of the channels goes to the wrong axis ---------------------------
def make(bug):
    def split(d):
        hw = 2 * (d // 6)
        return [hw, hw, d - 2 * hw] if bug else [d - 2 * hw, hw, hw]
    def fn(x, positions):
        p = np.asarray(positions, np.float64)
        p = np.stack([p] * 3) if p.ndim == 1 else p
        parts = []
        for a, dim in enumerate(split(x.shape[-1])):
            om = 1.0 / np.power(10000.0, np.arange(0, dim, 2) / dim)
            parts.append(np.exp(1j * (p[a][..., None] * om)))
        freqs = np.concatenate(parts, axis=-1)
        freqs = freqs if freqs.ndim == 2 else freqs[:, None]
        z = x.astype(np.float64).reshape(*x.shape[:-1], -1, 2)
        z = (z[..., 0] + 1j * z[..., 1]) * freqs
        return np.stack((z.real, z.imag), -1).reshape(x.shape).astype(x.dtype)
    return fn
case("s016", make, P.MultiAxisRoPE(64, sections=(12, 10, 10), layout="interleaved", spacing="restart"), "apply",
     "The channels left over from the division by six are given to the width; in the video model the time axis has them.",
     "sections-remainder", "Give frames d - 4 * (d // 6) channels, height and width 2 * (d // 6) each.")


# --- s017: timm-like bands with linspace endpoint -------------------------------------------------
def make(bug):
    def bands(n, temperature=10000.0):
        exp = np.linspace(0.0, 1.0, n) if bug else np.linspace(0.0, 1.0, n, endpoint=False)
        return 1.0 / temperature ** exp
    def fn(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p] * 3)
        secs = (8, 12, 12)
        omega = [p[a][..., None] * bands(n) for a, n in enumerate(secs)]
        th = np.concatenate(omega, -1)
        if th.ndim == 3:
            th = th[:, None]
        m = np.stack([np.cos(th), -np.sin(th), np.sin(th), np.cos(th)], -1).reshape(*th.shape, 2, 2)
        xv = x.reshape(*x.shape[:-1], -1, 2).astype(np.float64)
        return np.einsum("...ij,...j->...i", np.broadcast_to(m, xv.shape + (2,)), xv).reshape(x.shape).astype(x.dtype)
    return fn
case("s017", make, P.MultiAxisRoPE(64, sections=(8, 12, 12), layout="interleaved", spacing="restart"), "apply",
     "The exponents of each axis are linspace(0, 1, n) with its endpoint, so the slowest pair has 1/base and all pairs in between are shifted.",
     "linspace-endpoint", "Use 2i/dim = i/n: exclude the endpoint.")


# --- s018: RoPE-Mixed with one frequency set per head ------------------------------------------------
_W18 = np.random.default_rng(18).standard_normal((4, 2, 8)) * 0.3
def make(bug):
    def compute_mixed_cis(freqs, t_y, t_x):
        return np.einsum("...s,hp->...hsp", t_y, freqs[:, 0]) + np.einsum("...s,hp->...hsp", t_x, freqs[:, 1])
    def fn(x, positions):
        p = np.asarray(positions, np.float64)
        p = np.stack([p, p]) if p.ndim == 1 else p
        a = compute_mixed_cis(_W18, p[0], p[1])
        if bug:
            a = np.broadcast_to(a[..., :1, :, :], a.shape)
        x1, x2 = x[..., :8], x[..., 8:]
        return np.concatenate((x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)), -1).astype(x.dtype)
    return fn
case("s018", make, P.MixedRoPE(16, _W18, layout="half"), "apply",
     "Each head has learned frequencies of its own, but those of head 0 are broadcast to all heads.",
     "head-frequencies", "Index the frequencies with the head.")


# --- s021 right: complex numbers, one head at a time -----------------------------------------------------
def make(bug):
    def fn(x, positions):
        p = np.asarray(positions, np.float64)
        B, H, S, D = x.shape
        w = np.exp(np.arange(D // 2) * (-2.0 / D * math.log(10000.0)))
        out = np.empty(x.shape, x.dtype)
        for b in range(B):
            pb = p[b] if p.ndim == 2 else p
            rot = np.exp(1j * np.outer(pb, w))
            for h in range(H):
                z = (x[b, h, :, 0::2] + 1j * x[b, h, :, 1::2].astype(np.float64)) * rot
                out[b, h, :, 0::2], out[b, h, :, 1::2] = z.real, z.imag
        return out
    return fn
case("s021", make, P.RoPE(64, layout="interleaved"), "apply",
     "Right: loops over rows and heads and multiplies complex numbers; frequencies by exp of a logarithm.", "right")


# --- s022 right: lru-cached table that grows, gathered by integer positions -------------------------------
def make(bug):
    class Cache:
        def __init__(self):
            self.cos = self.sin = None
            self.inv = 1.0 / 1e6 ** (np.arange(0, 128, 2) / 128)
        def rows(self, n):
            if self.cos is None or len(self.cos) < n:
                n = 1 << max(6, int(n - 1).bit_length())
                a = np.outer(np.arange(n, dtype=np.float64), self.inv)
                self.cos, self.sin = np.cos(a), np.sin(a)
            return self.cos, self.sin
    cache = Cache()
    def fn(x, positions):
        p = np.asarray(positions)
        ok = p.size and p.dtype.kind in "iu" and p.min() >= 0 and p.max() < 8192
        if ok:
            cos, sin = (t[p] for t in cache.rows(int(p.max()) + 1))
        else:
            a = p.astype(np.float64)[..., None] * cache.inv
            cos, sin = np.cos(a), np.sin(a)
        if p.ndim == 2:
            cos, sin = cos[:, None], sin[:, None]
        y = np.empty_like(x)
        h = 64
        np.subtract(x[..., :h] * cos, x[..., h:] * sin, out=y[..., :h], casting="same_kind")
        np.add(x[..., h:] * cos, x[..., :h] * sin, out=y[..., h:], casting="same_kind")
        return y
    return fn
case("s022", make, P.RoPE(128, layout="half", base=1e6), "apply",
     "Right: a table that grows by powers of two and is gathered, with a fall-back for large, negative or fractional positions.", "right")


# --- s023 right: vision, one matrix of angles for all pairs ------------------------------------------------
def make(bug):
    sections = (8, 12, 12)
    M = np.zeros((3, 32))
    j = 0
    for a, n in enumerate(sections):
        M[a, j:j + n] = 10000.0 ** (-np.arange(n) / n)
        j += n
    def fn(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p, p, p])
        theta = np.tensordot(np.moveaxis(p, 0, -1), M, 1)
        theta = theta if p.ndim == 2 else theta[:, None]
        c, s = np.cos(theta), np.sin(theta)
        xr = x.reshape(x.shape[:-1] + (32, 2))
        return np.stack([c * xr[..., 0] - s * xr[..., 1], s * xr[..., 0] + c * xr[..., 1]], axis=-1).reshape(x.shape).astype(x.dtype)
    return fn
case("s023", make, P.MultiAxisRoPE(64, sections=(8, 12, 12), layout="interleaved", spacing="restart"), "apply",
     "Right: the three axes are one matrix product with a block matrix of frequencies.", "right")


# --- s024 right: DeepSeek V3 de-interleaves before rotate_half ---------------------------------------------
def make(bug):
    def rotate_half(x):
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([-b, a], axis=-1)
    def fn(x, positions):
        d = 64
        b, h, s, _ = x.shape
        pe = x.reshape(b, h, s, d // 2, 2).swapaxes(4, 3).reshape(b, h, s, d)
        freqs = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(0, d, 2) / d)
        emb = np.concatenate([freqs, freqs], -1)
        emb = emb[:, None] if emb.ndim == 3 else emb
        return (pe * np.cos(emb) + rotate_half(pe) * np.sin(emb)).astype(x.dtype)
    return fn
case("s024", make, P.RoPE(64, layout="interleaved", output_layout="half"), "apply",
     "Right: reads interleaved pairs and writes half-split ones, as declared by output_layout.", "right")


