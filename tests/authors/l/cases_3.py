import numpy as np, math
from posenc_ref import *
from .common import freqs, ang, hd, rot_half, rot_pair
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))
# ================= state: decode, calls, caches, offsets, shifts
def feed(cls, *a):
    def fn(x, chunks):
        inst = cls(*a); out = []; at = 0
        for n in chunks:
            out.append(inst(x[:, :, at:at+n])); at += n
        return np.concatenate(out, 2)
    return fn
# ---- l051
class D1:
    def __init__(s, bug): s.bug, s.n = bug, 0
    def __call__(s, x):
        S = x.shape[2]; p = s.n + np.arange(S)
        s.n += S if not (s.bug and S == 1) else 1
        if s.bug and S == 1: p = np.array([s.n])
        a = ang(p, freqs(64)); return rot_half(x, np.cos(a), np.sin(a))
case("l051", lambda b: feed(D1, b), RoPE(64, layout="half"), "decode", "In single-token steps the position is read after the counter was increased, so generated tokens are one too far.", "decode-after-increment", "read the position before increasing the counter")
# ---- l052
class D2:
    def __init__(s, bug): s.bug, s.n = bug, 0
    def __call__(s, x):
        S = x.shape[2]
        if s.bug and s.n > 0 and S > 1: p = np.arange(S)
        else: p = s.n + np.arange(S)
        s.n += S
        a = ang(p, freqs(64)); return rot_pair(x, np.cos(a), np.sin(a))
case("l052", lambda b: feed(D2, b), RoPE(64, layout="interleaved"), "decode", "A chunk of several tokens is always treated as a new prompt: its positions start at 0 even when the cache holds tokens (chunked prefill).", "chunked-prefill-restarts", "add the length of the cache to every chunk")
# ---- l053
class D3:
    def __init__(s, bug): s.bug, s.n, s.prev = bug, 0, 0
    def __call__(s, x):
        S = x.shape[2]; p = s.n + np.arange(S)
        if s.bug: s.n = S + s.prev; s.prev = S
        else: s.n += S
        a = ang(p, freqs(128)); return rot_half(x, np.cos(a), np.sin(a))
case("l053", lambda b: feed(D3, b), RoPE(128, layout="half"), "decode", "The offset is the length of the last two chunks only, not of all chunks so far: from the fourth chunk on (third step after) it is too small.", "offset-last-two-chunks", "accumulate all chunk lengths")
# ---- l054
class D4:
    def __init__(s, bug): s.bug, s.n, s.size = bug, 0, 0
    def __call__(s, x):
        S = x.shape[2]; end = s.n + S
        if end > s.size:
            new = max(end, 2*s.size, 16)
            a = np.outer(np.arange(s.size, new) - (s.size if s.bug and s.size else 0), freqs(64))
            if s.size: s.c, s.s = np.concatenate([s.c, np.cos(a)]), np.concatenate([s.s, np.sin(a)])
            else: s.c, s.s = np.cos(a), np.sin(a)
            s.size = new
        y = rot_half(x, s.c[s.n:end], s.s[s.n:end]); s.n = end
        return y
case("l054", lambda b: feed(D4, b), RoPE(64, layout="half"), "decode", "When the table grows, the appended rows are computed for positions from 0 again instead of from the old size on.", "grown-rows-from-zero", "append rows for positions old_size .. new_size - 1")
# ---- l055 right
case("l055", lambda b: feed(D4, False), RoPE(64, layout="half"), "decode", "", "right")
# ---- l056
class D6:
    def __init__(s, bug): s.bug, s.n = bug, 0
    def __call__(s, x):
        S = x.shape[2]; L = s.n + S
        p = s.n + np.arange(S); s.n = L
        n = S if s.bug else L
        al = max(2.0*n/16 - 1, 1.0)
        a = ang(p, freqs(64, 10000.0*al**(64/62))); return rot_half(x, np.cos(a), np.sin(a))
case("l056", lambda b: feed(D6, b), RoPE(64, layout="half", scaling=DynamicNTK(2.0, 16)), "decode", "The length of the dynamic NTK scaling is that of the chunk instead of the whole sequence so far.", "dynamic-ntk-chunk-length", "use cache length plus chunk length")
# ---- l057
class D7:
    def __init__(s, bug): s.bug, s.n, s.top = bug, 0, 0
    def __call__(s, x):
        S = x.shape[2]; p = s.n + np.arange(S); s.n += S
        lam = np.array(LO if s.n > (20 if not s.bug else 20) and not (s.bug and S == 1) else SH)
        a = ang(p, freqs(64)/lam); m = math.sqrt(1+math.log(4)/math.log(20))
        return rot_half(x, m*np.cos(a), m*np.sin(a))
SH = tuple(1 + .02*i for i in range(32)); LO = tuple(2 + .5*i for i in range(32))
case("l057", lambda b: feed(D7, b), RoPE(64, layout="half", scaling=LongRoPE(SH, LO, 20, factor=4.0)), "decode", "Single-token steps always use the short list, because the switch looks at the step and not at the length so far.", "longrope-short-list-in-steps", "choose the list by the total length")
# ---- calls
def serve(make_inst):
    def fn(reqs):
        inst = make_inst(); return [inst(x, o) for x, o in reqs]
    return fn
# ---- l058
class C1:
    def __init__(s, bug): s.bug, s.key = bug, None
    def __call__(s, x, o):
        S = x.shape[2]; key = S if s.bug else (S, o)
        if key != s.key:
            a = ang(o + np.arange(S), freqs(64)); s.c, s.s, s.key = np.cos(a), np.sin(a), key
        return rot_half(x, s.c, s.s)
case("l058", lambda b: serve(lambda: C1(b)), RoPE(64, layout="half"), "calls", "The cached tables are keyed by the number of tokens only, so a call of the same length at another offset reuses the tables of the call before.", "cache-key-without-offset", "put the offset into the key")
# ---- l059
class C2:
    def __init__(s, bug): s.bug, s.n = bug, 0
    def __call__(s, x, o):
        end = o + x.shape[2]
        if end > s.n:
            dt = np.float32 if s.bug else np.float64
            if s.bug and x.dtype == np.float16: dt = np.float16
            a = np.outer(np.arange(end), freqs(64)); s.c, s.s, s.n = np.cos(a), np.sin(a), end
            if s.bug and s.n > 0: s.c, s.s = s.c.astype(np.float16), s.s.astype(np.float16)
        return rot_half(x, s.c[o:end].astype(float), s.s[o:end].astype(float))
case("l059", lambda b: serve(lambda: C2(b)), RoPE(64, layout="half"), "calls", "The tables of the instance are cached as float16 although calls are in float32.", "cache-tables-float16", "cache the tables in float32")
# ---- l060
class C3:
    def __init__(s, bug): s.bug, s.top = bug, 0
    def __call__(s, x, o):
        L = o + x.shape[2]
        if s.bug: s.top = max(s.top, L); L = s.top
        al = max(2.0*L/64 - 1, 1.0)
        a = ang(o + np.arange(x.shape[2]), freqs(64, 10000.0*al**(64/62)))
        return rot_pair(x, np.cos(a), np.sin(a))
case("l060", lambda b: serve(lambda: C3(b)), RoPE(64, layout="interleaved", scaling=DynamicNTK(2.0, 64)), "calls", "After a long call the enlarged base stays: later short calls use the longest length ever seen.", "dynamic-ntk-never-reset", "compute alpha for the length of each call")
# ---- l061
class C4:
    def __init__(s, bug): s.bug, s.last = bug, 0
    def __call__(s, x, o):
        if s.bug and o == 0 and s.last: o = 0 if x.shape[2] > 1 else s.last
        s.last = o + x.shape[2]
        a = ang(o + np.arange(x.shape[2]), freqs(64)); return rot_half(x, np.cos(a), np.sin(a))
class C4b:
    def __init__(s, bug): s.bug, s.f = bug, freqs(64)
    def __call__(s, x, o):
        a = ang(o + np.arange(x.shape[2]), s.f); y = rot_half(x, np.cos(a), np.sin(a))
        if s.bug: s.f = s.f/1.0 if x.shape[2] < 2 else s.f*0.5
        return y
class C4c:
    def __init__(s, bug): s.bug, s.p = bug, np.arange(4096)
    def __call__(s, x, o):
        S = x.shape[2]
        if o + S > len(s.p): p = o + np.arange(S)
        else:
            p = s.p[:S]
            if s.bug: p += o
            else: p = p + o
        a = ang(p, freqs(64)); return rot_half(x, np.cos(a), np.sin(a))
case("l061", lambda b: serve(lambda: C4c(b)), RoPE(64, layout="half"), "calls", "The offset is added in place to a view of the instance's own arange buffer, so offsets of earlier calls remain in it.", "offset-added-in-place-to-buffer", "add out of place")
# ---- l062 right
class C5:
    def __init__(s): s.blocks = {}
    def __call__(s, x, o):
        p = np.arange(o, o+x.shape[2]); f = freqs(64); rows = []
        for q in p:
            b = int(q)//64
            if b not in s.blocks: s.blocks[b] = np.exp(1j*np.outer(np.arange(64*b, 64*b+64), f))
            rows.append(s.blocks[b][int(q) % 64])
        z = np.array(rows).reshape(len(p), 32); return rot_half(x, z.real, z.imag)
case("l062", lambda b: serve(C5), RoPE(64, layout="half"), "calls", "", "right")
# ---- l063
class C6:
    def __init__(s, bug): s.bug, s.n = bug, 0
    def __call__(s, x, o):
        S = x.shape[2]; end = o+S
        if s.n == 0 or (end > s.n and not s.bug) or (s.bug and S > s.n):
            s.n = max(end, 2048); a = np.outer(np.arange(s.n), freqs(64)); s.c, s.s = np.cos(a), np.sin(a)
        i = np.minimum(np.arange(o, end), s.n-1)
        return rot_half(x, s.c[i], s.s[i])
case("l063", lambda b: serve(lambda: C6(b)), RoPE(64, layout="half"), "calls", "The table grows only if the number of tokens of the call exceeds it, not if offset plus tokens does; rows beyond it are clamped to the last one.", "cache-growth-ignores-offset", "compare offset + length with the size")
# ---- apply_offset
def make(bug):
    def fn(x, offset):
        o = np.asarray(offset).astype(np.int64)
        if bug: o = np.full_like(o, o.max())
        a = ang(o[:, None] + np.arange(x.shape[2]), freqs(64))[:, None]
        return rot_half(x, np.cos(a), np.sin(a))
    return fn
case("l064", make, RoPE(64, layout="half"), "apply_offset", "Every row starts at the largest offset of the batch (a scalar start taken from the longest cache).", "offset-max-of-batch", "use the offset of each row")
# ---- l065
def make(bug):
    def fn(x, offset):
        B, H, S, D = x.shape; o = np.asarray(offset, np.float64)
        y = x.reshape(B*H, S, D)
        p = (np.tile(o, H) if bug else np.repeat(o, H))[:, None] + np.arange(S)
        a = p[..., None]*freqs(D)
        return rot_pair(y, np.cos(a), np.sin(a)).reshape(x.shape)
    return fn
case("l065", make, RoPE(32, layout="interleaved"), "apply_offset", "With batch and heads folded into one axis (b * H + h), the offsets are tiled instead of repeated, so row b * H + h gets offset[(b H + h) mod B].", "tile-instead-of-repeat", "repeat each offset H times")
# ---- l066
def make(bug):
    def fn(x, offset):
        out = []
        for b, o in enumerate(np.asarray(offset).tolist()):
            p = np.arange(o, o + x.shape[2], dtype=np.float64)
            if bug: p = np.where(p >= 2048, p - 2048, p)
            a = np.outer(p, freqs(64)); out.append(rot_half(x[b], np.cos(a), np.sin(a)))
        return np.stack(out) if out else x.copy()
    return fn
case("l066", make, RoPE(64, layout="half"), "apply_offset", "Positions from 2048 on are wrapped by subtracting 2048, as in a ring buffer's slot number.", "ring-slot-as-position", "use the absolute position, not the slot")
# ---- l067
def make(bug):
    def fn(x, offset):
        o = np.asarray(offset, np.float64); f = freqs(64)
        # phase of the start times phase of the step
        z0 = np.exp(1j*o[:, None]*f)[:, None, None]
        zs = np.exp(1j*np.outer(np.arange(x.shape[2]), f))
        z = z0*zs if not (bug) else np.where(np.arange(x.shape[2])[:, None] < 64, z0*zs, zs)
        return rot_half(x, z.real, z.imag)
    return fn
case("l067", make, RoPE(64, layout="half"), "apply_offset", "The phase of the row's offset is applied in the first block of 64 tokens only; later tokens count from 0.", "offset-first-block-only", "apply the start phase in every block")
# ---- l068 right
case("l068", lambda b: make(False), RoPE(64, layout="half"), "apply_offset", "", "right")
# ---- key_cache
def make(bug):
    def fn(k, chunks):
        raw = []; at = 0; out = None
        for n in chunks:
            c = k[:, :, at:at+n]; at += n
            al = max(2.0*at/16 - 1, 1.0); f = freqs(64, 10000.0*al**(64/62))
            if bug:
                a = ang(np.arange(at-n, at), f); raw.append(rot_half(c, np.cos(a), np.sin(a)))
            else: raw.append(c)
        al = max(2.0*at/16 - 1, 1.0)
        a = ang(np.arange(at), freqs(64, 10000.0*al**(64/62)))
        allk = np.concatenate(raw, 2)
        return allk if bug else rot_half(allk, np.cos(a), np.sin(a))
    return fn
case("l069", make, RoPE(64, layout="half", scaling=DynamicNTK(2.0, 16)), "key_cache", "Keys are cached rotated with the frequencies of the length at which they arrived and never rotated again.", "keys-cached-rotated", "cache raw keys and rotate them for the present length")
# ---- l070
def make(bug):
    def fn(k, chunks):
        n = sum(chunks); last = chunks[-1] if len(chunks) else 0
        L = n if not bug else n - last if n - last > 0 else n
        lam = np.array(LO if L > 20 else SH); m = math.sqrt(1+math.log(4)/math.log(20))
        a = ang(np.arange(n), freqs(64)/lam); return rot_half(k[:, :, :n], m*np.cos(a), m*np.sin(a))
    return fn
case("l070", make, RoPE(64, layout="half", scaling=LongRoPE(SH, LO, 20, factor=4.0)), "key_cache", "The list is chosen by the cache length before the last chunk, so the switch to the long list comes one call late.", "longrope-switch-one-call-late", "choose by the length after the chunk")
# ---- l071
def make(bug):
    def fn(k, chunks):
        out = np.zeros_like(k); at = 0
        for i, n in enumerate(chunks):
            w = at
            a = ang(np.arange(at, at+n), freqs(64))
            y = rot_half(k[:, :, at:at+n], np.cos(a), np.sin(a))
            if bug and i >= 2: w = at - 1
            out[:, :, w:w+n] = y; at += n
        return out
    return fn
case("l071", make, RoPE(64, layout="half"), "key_cache", "From the third chunk on, keys are written one slot too early, over the last key of the chunk before; the last slot stays zero.", "cache-slot-off-by-one", "write at the number of keys held")
# ---- shift
def make(bug):
    def fn(k, delta):
        a = delta*freqs(64); 
        if bug: a = abs(delta)*freqs(64)
        return rot_half(k, np.cos(a), np.sin(a))
    return fn
case("l072", make, RoPE(64, layout="half"), "shift_keys", "Negative shifts are taken as positive: the absolute value of delta is used.", "shift-abs-delta", "keep the sign of delta")
# ---- l073
def make(bug):
    def fn(k, delta):
        w = freqs(64); g = np.clip((32-np.arange(32))/32., 0, 1)*0
        a = delta*w/(8 if not bug else 1); return rot_half(k, np.cos(a), np.sin(a))
    return fn
case("l073", make, RoPE(64, layout="half", scaling=LinearScaling(8.0)), "shift_keys", "The shift uses the unscaled frequencies (no division by the factor 8), unlike the rotation of the keys.", "shift-without-scaling", "use the scaled frequencies")
# ---- l074
def make(bug):
    def fn(k, delta):
        g = yr(); m = 0.1*math.log(16)+1
        a = delta*(freqs(64)*(1-g)+freqs(64)/16*g); mm = m if bug else 1
        return rot_half(k, mm*np.cos(a), mm*np.sin(a))
    return fn
def yr():
    c = lambda r: 64*math.log(2048/(r*2*math.pi))/(2*math.log(1e4))
    lo, hi = max(math.floor(c(32)), 0), min(math.ceil(c(1)), 63)
    return np.clip((np.arange(32)-lo)/(hi-lo), 0, 1)
case("l074", make, RoPE(64, layout="half", scaling=YaRN(16, 2048)), "shift_keys", "The YaRN attention factor is multiplied into the cached keys again at every shift.", "shift-factor-twice", "leave the factor out of the shift")
# ---- evict
def make(bug):
    def fn(k, kept, dropped):
        out = np.concatenate([k[:, :, :kept], k[:, :, kept+dropped:]], 2).copy()
        a = -dropped*freqs(64)
        f = 0 if bug else kept
        out[:, :, f:] = rot_half(out[:, :, f:], np.cos(a), np.sin(a)); return out
    return fn
case("l075", make, RoPE(64, layout="half"), "evict_keys", "The kept first keys (attention sinks) are moved back too.", "sinks-shifted-too", "shift only the keys after the gap")
# ---- l076
def make(bug):
    def fn(k, kept, dropped):
        a = -(dropped if not bug else dropped + kept)*freqs(64)
        return np.concatenate([k[:, :, :kept], rot_pair(k[:, :, kept+dropped:], np.cos(a), np.sin(a))], 2)
    return fn
case("l076", make, RoPE(64, layout="interleaved"), "evict_keys", "The later keys are moved back by dropped + kept, as if they should start at 0 rather than after the kept keys.", "evict-shift-includes-kept", "move back by dropped only")
# ---- l077
def make(bug):
    def fn(k, kept, dropped):
        rest = k[:, :, kept+dropped:] if not bug else k[:, :, kept:k.shape[2]-dropped]
        a = -dropped*freqs(64)
        return np.concatenate([k[:, :, :kept], rot_half(rest, np.cos(a), np.sin(a))], 2)
    return fn
case("l077", make, RoPE(64, layout="half"), "evict_keys", "The newest keys at the end are dropped instead of the oldest after the kept ones.", "evict-newest", "drop the keys right after the kept ones")
# ---- l078 right
def make(bug):
    def fn(k, kept, dropped):
        S = k.shape[2]; p = np.where(np.arange(S) < kept, 0, -dropped).astype(float)
        z = np.exp(1j*np.outer(p, freqs(64)))
        return np.delete(rot_half(k, z.real, z.imag), np.s_[kept:kept+dropped], axis=2)
    return fn
case("l078", make, RoPE(64, layout="half"), "evict_keys", "", "right")
# ---- vjp
def make(bug):
    def fn(x, positions, dy):
        a = hd(ang(positions, freqs(64))); c, s = np.cos(a), np.sin(a)
        return rot_half(dy, c, s if bug else -s)
    return fn
case("l079", make, RoPE(64, layout="half"), "apply_vjp", "The backward pass rotates forward, with the same sign as the forward pass.", "backward-forward-sign", "negate sin in the backward pass")
# ---- l080
def make(bug):
    def fn(x, positions, dy):
        m = 0.1*math.log(16)+1; g = yr(); w = freqs(64)*(1-g)+freqs(64)/16*g
        a = hd(ang(positions, w)); m = 1/m if bug else m
        return rot_half(dy, m*np.cos(a), -m*np.sin(a))
    return fn
case("l080", make, RoPE(64, layout="half", scaling=YaRN(16, 2048)), "apply_vjp", "The gradient is divided by the attention factor (the inverse map) instead of multiplied by it (the transposed map).", "backward-inverse-factor", "multiply by the factor")
# ---- l081
def make(bug):
    def fn(x, positions, dy):
        a = hd(ang(positions, freqs(32))); 
        out = rot_half(dy, np.cos(a), -np.sin(a))
        if bug: out[..., 32:] = 0
        return out
    return fn
case("l081", make, RoPE(64, layout="half", rotary_dim=32), "apply_vjp", "The gradient of the channels that pass through is zero, because the backward buffer is only written for rotated channels.", "passthrough-gradient-zero", "copy dy for the unrotated channels")
# ---- normed_apply
def make(bug):
    def fn(x, weight, positions):
        w = x.astype(np.float64); n = w/np.sqrt((w*w).mean(-1, keepdims=True)+1e-6)
        a = hd(ang(positions, freqs(64))); c, s = np.cos(a), np.sin(a); g = weight.astype(np.float64)
        return ((rot_half(n, c, s)*g) if bug else rot_half(n*g, c, s)).astype(x.dtype)
    return fn
case("l082", make, RoPE(64, layout="half"), "normed_apply", "The weight of the norm is multiplied after the rotation instead of before it.", "weight-after-rotation", "multiply by weight before rotating")
# ---- l083
def make(bug):
    def fn(x, weight, positions):
        w = x.astype(np.float64); B, H, S, D = x.shape
        ms = (w*w).mean((1, 3), keepdims=True) if bug else (w*w).mean(-1, keepdims=True)
        n = w/np.sqrt(ms+1e-6)*weight.astype(np.float64)
        a = hd(ang(positions, freqs(64))); return rot_half(n, np.cos(a), np.sin(a)).astype(x.dtype)
    return fn
case("l083", make, RoPE(64, layout="half"), "normed_apply", "The mean square runs over all heads and channels of a token instead of each head's own channels.", "norm-over-all-heads", "normalise each head")
# ---- l084
def make(bug):
    def fn(x, weight, positions):
        w = x.astype(np.float64)
        n = w/np.sqrt((w*w).mean(-1, keepdims=True)+1e-6)*(weight.astype(np.float64)+(1 if bug else 0))
        a = hd(ang(positions, freqs(64))); return rot_half(n, np.cos(a), np.sin(a)).astype(x.dtype)
    return fn
case("l084", make, RoPE(64, layout="half"), "normed_apply", "The norm multiplies by 1 + weight (Gemma's convention) although the weight is the factor itself.", "norm-one-plus-weight", "multiply by weight")
