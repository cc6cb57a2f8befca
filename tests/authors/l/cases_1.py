import numpy as np, math
from posenc_ref import *
from .common import freqs, ang, hd, rot_half, rot_pair
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))
# ---- l001
def make(bug):
    TILE = 128
    def apply(x, positions):
        f = freqs(64)
        p = np.broadcast_to(np.asarray(positions, np.float64), (x.shape[0], x.shape[2]))
        out = np.empty_like(x)
        for s0 in range(0, x.shape[2], TILE):
            pt = p[:, s0:s0+TILE]
            if bug and s0: pt = p[:, s0-1:s0-1+pt.shape[1]]
            a = (pt[..., None]*f)[:, None]
            out[:, :, s0:s0+TILE] = rot_half(x[:, :, s0:s0+TILE], np.cos(a), np.sin(a))
        return out
    return apply
case("l001", make, RoPE(64, layout="half"), "apply", "From the second tile of 128 tokens on, the positions are read one row too early (tile start minus one), so tokens 128 and later get the position of the token before.", "tile-position-off-by-one", "read the positions at the tile's own start")
# ---- l002
def make(bug):
    def apply(x, positions):
        B, H, S, D = x.shape
        p = np.broadcast_to(np.asarray(positions, np.float64), (B, S))
        y = np.array(x)
        n = D//2
        for h in range(H):
            for b in range(B):
                src = 0 if (bug and h == H-1) else b
                th = np.outer(p[src], freqs(D, 500000.0))
                z = (x[b, h, :, 0::2].astype(np.float64) + 1j*x[b, h, :, 1::2]) * np.exp(1j*th)
                y[b, h, :, 0::2], y[b, h, :, 1::2] = z.real, z.imag
        return y
    return apply
case("l002", make, RoPE(128, layout="interleaved", base=500000.0), "apply", "The last head of every row uses the positions of batch row 0 instead of its own row's.", "last-head-row0-positions", "index the positions by the batch row in every head")
# ---- l003
def make(bug):
    inv = freqs(80)
    if bug: inv = 10000.0 ** (-np.arange(40) / 40 * 2 * 40 / 80) ; 
    if bug: inv = 10000.0 ** (-np.arange(0, 80, 2) / 79)
    def apply(x, positions):
        a = hd(ang(positions, inv)); return rot_half(x, np.cos(a), np.sin(a))
    return apply
case("l003", make, RoPE(80, layout="half"), "apply", "The exponent's denominator is head_dim - 1 (79) instead of head_dim (80), as in a linspace that includes the end point.", "denominator-d-minus-1", "divide the channel index by head_dim")
# ---- l004
def make(bug):
    f = freqs(32)
    def apply(x, positions):
        a = hd(ang(positions, f))
        if bug:
            return np.concatenate([rot_half(x[..., -32:], np.cos(a), np.sin(a)), x[..., :-32]], -1)
        return np.concatenate([x[..., :-32], rot_half(x[..., -32:], np.cos(a), np.sin(a))], -1)
    return apply
case("l004", make, RoPE(96, layout="half", rotary_dim=32, rotary_start=64), "apply", "The rotated trailing 32 channels are concatenated before the 64 unrotated ones (pe, nope) instead of after them, so all channels of the result are moved.", "concat-order-rope-nope", "concatenate the unrotated channels first")
# ---- l005
def make(bug):
    def apply(x, positions):
        f = freqs(64)
        B, H, S, D = x.shape
        p = np.broadcast_to(np.asarray(positions, np.float64), (B, S))
        a = p[:, None, :, None]*f
        c, s = np.cos(a), np.sin(a)
        # even/odd lanes, vector width 16, with tail
        y = np.array(x); w = x.astype(np.float64)
        for k in range(0, 32, 16):
            lo = slice(k, k+16); hi = slice(32+k, 48+k)
            y[..., lo] = w[..., lo]*c[..., lo] - w[..., hi]*s[..., lo]
            if bug and k == 16:
                y[..., hi] = w[..., hi]*c[..., lo] + y[..., lo]*s[..., lo]
            else:
                y[..., hi] = w[..., hi]*c[..., lo] + w[..., lo]*s[..., lo]
        return y
    return apply
case("l005", make, RoPE(64, layout="half"), "apply", "In the second vector block (pairs 16-31) the second channel is computed from the already rotated first channel, because the first was overwritten in place.", "inplace-overwritten-first-half", "keep the old first half in a temporary before overwriting it")
# ---- l006
def make(bug):
    class Cache:
        def __init__(self): self.n = 0
        def grow(self, n):
            if n > self.n:
                self.n = max(n, 2*self.n)
                a = np.outer(np.arange(self.n), freqs(64))
                self.c, self.s = np.cos(a), np.sin(a)
    k = Cache()
    def apply(x, positions):
        p = np.asarray(positions)
        if not np.issubdtype(p.dtype, np.integer) or (p.size and (p.min() < 0 or p.max() > 300000)):
            a = hd(ang(p, freqs(64))); return rot_pair(x, np.cos(a), np.sin(a))
        k.grow(int(p.max())+1 if p.size else 1)
        idx = np.minimum(p, 4095) if bug else p
        return rot_pair(x, hd(k.c[idx]), hd(k.s[idx]))
    return apply
case("l006", make, RoPE(64, layout="interleaved"), "apply", "Positions are clamped to 4095, the last row of the originally sized table, although the table has grown: all later tokens get position 4095.", "clamp-positions-4095", "do not clamp; look up the grown table")
# ---- l007
def make(bug):
    def apply(x, positions):
        f = freqs(128, 1e6)
        p = np.asarray(positions, np.float64)
        a = p[..., None]*f
        if bug: a = a.astype(np.float16).astype(np.float64)
        c, s = hd(np.cos(a)), hd(np.sin(a))
        return rot_half(x, c, s)
    return apply
case("l007", make, RoPE(128, layout="half", base=1e6), "apply", "The angles are rounded to float16 before cos and sin.", "angles-float16", "compute the angles in float32 or wider")
# ---- l008
def make(bug):
    def apply(x, positions):
        f = freqs(64).astype(np.float32)
        if bug:
            import ml_dtypes
            f = f.astype(ml_dtypes.bfloat16).astype(np.float64)
        else: f = freqs(64)
        a = hd(ang(positions, f))
        return rot_pair(x, np.cos(a), np.sin(a))
    return apply
case("l008", make, RoPE(64, layout="interleaved"), "apply", "The inverse frequencies are stored in bfloat16 (a model.to(bfloat16) casts the buffer), so every frequency has 8 bits.", "inv-freq-bf16", "keep inv_freq in float32 when the model is cast")
# ---- l009
def make(bug):
    def apply(x, positions):
        w = x.astype(np.float64); d = x.shape[-1]
        a = hd(ang(positions, freqs(d)))
        c, s = np.repeat(np.cos(a), 2, -1), np.repeat(np.sin(a), 2, -1)
        if bug:
            r = np.concatenate([-w[..., d//2:], w[..., :d//2]], -1)
        else:
            r = np.stack([-w[..., 1::2], w[..., 0::2]], -1).reshape(w.shape)
        return (w*c + r*s).astype(x.dtype)
    return apply
case("l009", make, RoPE(64, layout="interleaved"), "apply", "The tables are repeat-interleaved for adjacent pairs but the partner channel comes from the half-split rotate_half, a mixture of the two layouts.", "mixed-layout-rotate-half", "use rotate_every_two with repeat-interleaved tables")
# ---- l010
def make(bug):
    def apply(x, positions):
        a = hd(ang(positions, freqs(64)))
        c, s = np.cos(a), np.sin(a)
        if bug and x.shape[2] == 1: s = -s
        return rot_half(x, c, s)
    return apply
case("l010", make, RoPE(64, layout="half"), "apply", "The fast path for a single token (S = 1) rotates by the opposite sign of the angle.", "single-token-sign", "use the same sign in the single-token path")
# ---- l011
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        f = freqs(40) if not bug else freqs(160)[:20]
        a = hd(ang(p, f))
        return rot_half(x, np.cos(a), np.sin(a))
    return apply
case("l011", make, RoPE(160, layout="half", rotary_dim=40), "apply", "The frequencies of the 40 rotated channels are the first 20 of the whole head's 80 (denominator head_dim = 160 instead of rotary_dim = 40).", "partial-denominator-head-dim", "use rotary_dim in the exponent")
# ---- l012
def make(bug):
    def apply(x, positions):
        y = np.array(x); w = x.astype(np.float64); a = hd(ang(positions, freqs(64)))
        for k in range(32):
            if bug and k == 31: continue
            c, s = np.cos(a[..., k]), np.sin(a[..., k])
            y[..., k] = w[..., k]*c - w[..., k+32]*s
            y[..., k+32] = w[..., k+32]*c + w[..., k]*s
        return y
    return apply
case("l012", make, RoPE(64, layout="half"), "apply", "The loop over pairs stops one early: pair 31 (channels 31 and 63) is never rotated.", "last-pair-skipped", "loop over all 32 pairs")
# ---- l013
def make(bug):
    def apply(x, positions):
        B, H, S, D = x.shape
        p = np.broadcast_to(np.asarray(positions, np.float64), (B, S))
        th = p[:, :, None]*freqs(D)
        c = np.concatenate([np.cos(th)]*2, -1); s = np.concatenate([np.sin(th)]*2, -1)
        R = np.zeros((D, D)); n = D//2
        R[np.arange(n), np.arange(n)+n] = -1; R[np.arange(n)+n, np.arange(n)] = 1
        if bug and S == H: c, s = c[:, :, None], s[:, :, None]   # broadcast over wrong axis
        else: c, s = c[:, None], s[:, None]
        w = x.astype(np.float64)
        return (w*c + np.einsum('ij,bhsj->bhsi', R, w)*s).astype(x.dtype)
    return apply
def makeX(bug):
    def apply(x, positions):
        B, H, S, D = x.shape
        p = np.asarray(positions, np.float64)
        if p.ndim == 2 and bug and B == S: p = p.T
        th = p[..., None]*freqs(D)
        th = hd(th)
        return rot_half(x, np.cos(th), np.sin(th))
    return apply
case("l013", make, RoPE(64, layout="half"), "apply", "When the number of tokens equals the number of heads, the tables are broadcast along the head axis: every token of head h gets the position of token h.", "broadcast-head-axis-when-equal", "insert the head axis explicitly, never by matching sizes")
# ---- l014
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        a = hd(ang(p, freqs(64)))
        c, s = np.cos(a), np.sin(a)
        if x.dtype.itemsize == 2:
            c, s = c.astype(x.dtype), s.astype(x.dtype)
            if bug:
                h = 32; u, v = x[..., :h], x[..., h:]
                return np.concatenate([(u*c).astype(np.float16)*1 - v*s, v*c + u*s], -1).astype(x.dtype)
        a = hd(ang(p, freqs(64)))
        return rot_half(x, np.cos(a), np.sin(a))
    return apply
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if bug and p.ndim == 2: p = p - p[:, :1]
        a = hd(ang(p, freqs(64)))
        return rot_half(x, np.cos(a), np.sin(a))
    return apply
case("l014", make, RoPE(64, layout="half"), "apply", "With positions of shape (B, S) each row is shifted so that its first token has position 0 (the offset of the row is subtracted).", "rows-rebased-to-zero", "use the positions as given")
# ---- l015
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        a = hd(ang(p, freqs(256)))
        c, s = np.cos(a), np.sin(a)
        if bug:   # lane of 64 pairs: second block reads table column modulo 64
            c, s = np.concatenate([c[..., :64]]*2, -1), np.concatenate([s[..., :64]]*2, -1)
        return rot_pair(x, c, s)
    return apply
case("l015", make, RoPE(256, layout="interleaved"), "apply", "For pairs 64-127 the kernel indexes the cos/sin table modulo 64, so they reuse the frequencies of pairs 0-63.", "table-column-mod-64", "index the table with the whole pair number")
# ---- l016 right
def make(bug):
    def apply(x, positions):
        w = x.astype(np.float64); a = hd(ang(positions, freqs(64)))
        t = np.tan(a/2); h = 32   # lifting steps
        u, v = w[..., :h], w[..., h:]
        s = np.sin(a)
        u1 = u - v*t; v1 = v + u1*s; u2 = u1 - v1*t
        flip = np.abs(t) > 1e3
        e = np.where(flip, u*np.cos(a)-v*s, u2); g = np.where(flip, v*np.cos(a)+u*s, v1)
        return np.concatenate([e, g], -1).astype(x.dtype)
    return apply
case("l016", make, RoPE(64, layout="half"), "apply", "", "right")
# ---- l017 right
def make(bug):
    import torch
    def apply(x, positions):
        p = torch.as_tensor(np.asarray(positions)).double()
        a = p[..., None]*torch.from_numpy(freqs(64, 5e5))
        if a.ndim == 3: a = a[:, None]
        xc = torch.view_as_complex(x.double().reshape(*x.shape[:-1], 32, 2).contiguous())
        return torch.view_as_real(xc*torch.polar(torch.ones_like(a), a)).flatten(-2).to(x.dtype)
    return apply
case("l017", make, RoPE(64, layout="interleaved", base=5e5), "apply", "", "right", backend="torch")
# ---- l018 right: permute to half layout, rotate, and permute back
def make(bug):
    perm = np.concatenate([np.arange(0, 64, 2), np.arange(1, 64, 2)]); back = np.argsort(perm)
    def apply(x, positions):
        a = hd(ang(positions, freqs(64)))
        return rot_half(x[..., perm], np.cos(a), np.sin(a))[..., back]
    return apply
case("l018", make, RoPE(64, layout="interleaved"), "apply", "", "right")
# ---- l019 right: explicit matrices for each distinct position
def make(bug):
    def apply(x, positions):
        f = freqs(32); p = np.asarray(positions, np.float64)
        B, H, S, D = x.shape
        p = np.broadcast_to(p, (B, S))
        uniq, inv = np.unique(p, return_inverse=True); inv = inv.reshape(B, S)
        M = np.zeros((len(uniq), D, D)); M[:, np.arange(D), np.arange(D)] = 1.0
        for k in range(16):
            c, s = np.cos(uniq*f[k]), np.sin(uniq*f[k])
            M[:, 2*k, 2*k] = c; M[:, 2*k+1, 2*k+1] = c; M[:, 2*k, 2*k+1] = -s; M[:, 2*k+1, 2*k] = s
        return np.einsum('bsij,bhsj->bhsi', M[inv], x.astype(np.float64)).astype(x.dtype)
    return apply
case("l019", make, RoPE(32, layout="interleaved"), "apply", "", "right")
# ---- l020
def make(bug):
    import torch
    def apply(x, positions):
        p = torch.as_tensor(np.asarray(positions))
        dt = torch.float32 if bug else torch.float64
        if bug: p = p.to(x.dtype)
        a = p.to(torch.float64)[..., None] * torch.from_numpy(freqs(64))
        if a.ndim == 3: a = a[:, None]
        c, s = a.cos(), a.sin()
        x1, x2 = x.double().chunk(2, -1)
        return torch.cat([x1*c - x2*s, x2*c + x1*s], -1).to(x.dtype)
    return apply
case("l020", make, RoPE(64, layout="half"), "apply", "The integer positions are cast to the dtype of x (bfloat16) before the multiplication, so positions above 256 are rounded.", "positions-bf16", "keep positions integer or float32", backend="torch", dtype="bfloat16")
