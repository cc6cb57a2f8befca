"""Key caches, offsets, shifts, cos/sin tables and frequency schedules."""

import math

import numpy as np

from posenc_ref import (
    DynamicNTK,
    Llama3Scaling,
    LongRoPE,
    NTKByParts,
    NTKScaling,
    Proportional,
    QwenNTK,
    RIFLEx,
    RoPE,
    YaRN,
)


def _inv(base, d):
    return base ** (-np.arange(0, d, 2, dtype=np.float64) / d)


def _half(x, angle, m=1.0):
    n = angle.shape[-1]
    a, b = x[..., :n].astype(np.float64), x[..., n : 2 * n].astype(np.float64)
    c, s = m * np.cos(angle), m * np.sin(angle)
    y = np.concatenate([a * c - b * s, b * c + a * s, x[..., 2 * n :]], -1)
    return y.astype(x.dtype)


# --- e021: a table that grows by doubling -----------------------------------------------------------
class Growing:
    def __init__(self, slip):
        self.inv = _inv(10000.0, 64)
        self.slip = slip
        self.angles = np.arange(64)[:, None] * self.inv
        self.seen = 0

    def step(self, x):
        end = self.seen + x.shape[-2]
        while end > len(self.angles):
            old = len(self.angles)
            more = np.arange(old, 2 * old) + self.slip
            self.angles = np.concatenate([self.angles, more[:, None] * self.inv])
        y = _half(x, self.angles[self.seen : end])
        self.seen = end
        return y


def _growing(slip):
    def decode(x, chunks):
        one, out, at = Growing(slip), [], 0
        for n in chunks:
            out.append(one.step(x[..., at : at + n, :]))
            at += n
        return np.concatenate(out, -2)

    return decode


# --- e022: the counter after the second call ----------------------------------------------------------
class Counting:
    def __init__(self, by_one):
        self.calls, self.start, self.by_one = 0, 0, by_one
        self.inv = _inv(500000.0, 128)

    def __call__(self, x):
        n = x.shape[-2]
        y = _half(x, (self.start + np.arange(n))[:, None] * self.inv)
        self.calls += 1
        self.start += 1 if (self.by_one and self.calls >= 2) else n
        return y


def _counting(by_one):
    def decode(x, chunks):
        rope = Counting(by_one)
        parts = np.split(x, np.cumsum(chunks)[:-1], axis=-2)
        return np.concatenate([rope(part) for part in parts], axis=-2)

    return decode


# --- e023 (right): a ring of complex turns ---------------------------------------------------------
def ring_decode(x, chunks):
    inv = _inv(10000.0, 64)
    ring = np.exp(1j * np.arange(32)[:, None] * inv)  # one lap
    lap = np.exp(32j * inv)
    out, p = [], 0
    for n in chunks:
        z = x[..., p : p + n, 0::2] + 1j * x[..., p : p + n, 1::2].astype(np.float64)
        at = np.arange(p, p + n)
        z = z * (ring[at % 32] * lap ** (at // 32)[:, None])
        out.append(np.stack([z.real, z.imag], -1).reshape(*z.shape[:-1], 64))
        p += n
    return np.concatenate(out, -2).astype(x.dtype)


# --- e024: the path for one token has the other layout ----------------------------------------------
def _single(adjacent):
    inv = _inv(10000.0, 64)

    def decode(x, chunks):
        y, p = x.copy(), 0
        for n in chunks:
            part = x[..., p : p + n, :]
            if n == 1 and adjacent:
                a, b = part[..., ::2], part[..., 1::2]
                c, s = np.cos(p * inv), np.sin(p * inv)
                y[..., p : p + 1, ::2], y[..., p : p + 1, 1::2] = a * c - b * s, a * s + b * c
            else:
                y[..., p : p + n, :] = _half(part, np.arange(p, p + n)[:, None] * inv)
            p += n
        return y

    return decode


# --- e025: rows sorted by offset, sorted back with the same permutation ------------------------------
def _sorted_rows(inverse):
    inv = _inv(10000.0, 64)

    def apply_offset(x, offset):
        order = np.argsort(offset, kind="stable")
        rows, starts = x[order], np.asarray(offset)[order]
        p = starts[:, None] + np.arange(x.shape[-2])
        y = _half(rows, (p[..., None] * inv)[:, None])
        return y[np.argsort(order)] if inverse else y[order]

    return apply_offset


# --- e026: pages of 16 slots ------------------------------------------------------------------------
def _paged(carry):
    inv = _inv(10000.0, 128)

    def apply_offset(x, offset):
        offset = np.asarray(offset)
        s = np.arange(x.shape[-2])
        if carry:
            slot = offset[:, None] + s
            page, inside = slot // 16, slot % 16
        else:
            page = offset[:, None] // 16 + s // 16
            inside = (offset[:, None] + s) % 16
        p = page * 16 + inside
        return _half(x, (p[..., None] * inv)[:, None])

    return apply_offset


# --- e027: tables kept by the number of tokens ---------------------------------------------------------
class KeptTables:
    def __init__(self, by_length_only):
        self.kept, self.by_length_only = {}, by_length_only

    def __call__(self, calls):
        out = []
        for x, offset in calls:
            n = x.shape[-2]
            key = n if self.by_length_only else (n, str(offset))
            if key not in self.kept:
                p = np.asarray(offset, np.float64)[..., None] + np.arange(n)
                e = p[..., None] * _inv(10000.0, 64)
                self.kept[key] = e[:, None] if e.ndim == 3 else e
            out.append(_half(x, self.kept[key]))
        return out


def _kept(by_length_only):
    return lambda calls: KeptTables(by_length_only)(calls)


# --- e028: dynamic NTK, the base stays after a long call -------------------------------------------
DYN = RoPE(64, layout="half", scaling=DynamicNTK(4.0, 256))


def _dyn_base(length):
    alpha = 4.0 * max(length, 256) / 256 - 3.0
    return 10000.0 * alpha ** (64 / 62)


def _sticky(reset):
    def calls(pairs):
        longest, out = 256, []
        for x, offset in pairs:
            p = np.asarray(offset)[..., None] + np.arange(x.shape[-2])
            length = int(p.max()) + 1
            longest = max(length, 256) if reset else max(longest, length)
            e = p[..., None] * _inv(_dyn_base(longest), 64)
            out.append(_half(x, e[:, None] if e.ndim == 3 else e))
        return out

    return calls


# --- e029: LongRoPE, cached keys keep the short list ------------------------------------------------
_SHORT = tuple(1.0 + 0.01 * k for k in range(32))
_LONG = tuple(1.0 + 0.5 * k for k in range(32))
LONG = RoPE(64, layout="half", scaling=LongRoPE(_SHORT, _LONG, 256, factor=4.0))


def _long_cache(again):
    m = math.sqrt(1 + math.log(4.0) / math.log(256))

    def turn(k, p, total):
        lam = np.array(_LONG if total > 256 else _SHORT)
        return _half(k, p[:, None] * (_inv(10000.0, 64) / lam), m)

    def key_cache(k, chunks):
        raw, cache, total = k[..., :0, :], [], 0
        for n in chunks:
            new = k[..., total : total + n, :]
            raw = np.concatenate([raw, new], -2)
            cache.append(turn(new, np.arange(total, total + n), total + n))
            total += n
        return turn(raw, np.arange(total), total) if again else np.concatenate(cache, -2)

    return key_cache


# --- e030 (right): raw keys, rotated when they are read; e031: only after doubling --------------------
def raw_cache(k, chunks):
    n = sum(chunks)
    return _half(k, np.outer(np.arange(n), _inv(_dyn_base(n), 64)))


def _hysteresis(lazy):
    def key_cache(k, chunks):
        base, made, total = _dyn_base(0), 256, 0
        for n in chunks:
            total += n
            if total > made and (not lazy or total >= 2 * made):
                base, made = _dyn_base(total), total
        return _half(k, np.outer(np.arange(total), _inv(base, 64)))

    return key_cache


# --- e032: m again in the shift; e033: the shift without the scaling --------------------------------
YARN = RoPE(64, layout="half", scaling=YaRN(16.0, 4096))


def _yarn_shift(again):
    m = 0.1 * math.log(16.0) + 1.0

    def shift_keys(rotated_k, delta):
        e = np.asarray(delta, np.float64)[..., None] * YARN.frequencies()
        return _half(rotated_k, e, m if again else 1.0)

    return shift_keys


LLAMA = RoPE(128, layout="interleaved", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))


def _llama_shift(scaled):
    def shift_keys(rotated_k, delta):
        inv = LLAMA.frequencies() if scaled else _inv(500000.0, 128)
        z = rotated_k[..., ::2] + 1j * rotated_k[..., 1::2].astype(np.float64)
        z = z * np.exp(1j * np.asarray(delta, np.float64)[..., None] * inv)
        return np.stack([z.real, z.imag], -1).reshape(rotated_k.shape).astype(rotated_k.dtype)

    return shift_keys


# --- e034: eviction moves by the number of kept keys -------------------------------------------------
def _evict(by):
    def evict_keys(rotated_k, kept, dropped):
        tail = rotated_k[..., kept + dropped :, :]
        moved = _half(tail, -float(kept if by == "kept" else dropped) * _inv(10000.0, 64))
        return np.concatenate([rotated_k[..., :kept, :], moved], -2)

    return evict_keys


# --- e035: m on cos alone; e036 (right) ---------------------------------------------------------------
def _yarn_tables(both):
    m = 0.1 * math.log(16.0) + 1.0

    def cos_sin(positions):
        e = np.asarray(positions, np.float64)[:, None] * YARN.frequencies()
        return (m * np.cos(e)).astype(np.float32), ((m if both else 1.0) * np.sin(e)).astype(np.float32)

    return cos_sin


def wide_tables(positions):
    z = np.exp(1j * np.multiply.outer(np.asarray(positions, np.float64), _inv(10000.0, 64)))
    z = np.concatenate([z, z], axis=1)
    return np.ascontiguousarray(z.real, np.float32), np.ascontiguousarray(z.imag, np.float32)


# --- frequencies -----------------------------------------------------------------------------------
def _llama3(pi):
    def frequencies():
        out = []
        for f in _inv(500000.0, 128):
            wave = 2 * pi / f
            if wave < 8192 / 4.0:
                out.append(f)
            elif wave > 8192 / 1.0:
                out.append(f / 8.0)
            else:
                t = (8192 / wave - 1.0) / 3.0
                out.append((1 - t) * f / 8.0 + t * f)
        return np.array(out)

    return frequencies


PARTIAL = RoPE(128, layout="half", rotary_dim=64, base=10000.0, scaling=YaRN(40.0, 4096))


def _yarn_partial(dim):
    def frequencies():
        f = _inv(10000.0, 64)
        edge = [dim * math.log(4096 / (r * 2 * math.pi)) / (2 * math.log(10000.0)) for r in (32, 1)]
        low, high = max(math.floor(edge[0]), 0), min(math.ceil(edge[1]), dim - 1)
        w = np.clip((np.arange(32) - low) / (high - low), 0, 1)
        return f / 40.0 * w + f * (1 - w), 0.1 * math.log(40.0) + 1.0

    return frequencies


def _yarn_round(nearest):
    def frequencies():
        f = _inv(10000.0, 128)
        def c(r):
            return 128 * math.log(2048 / (r * 2 * math.pi)) / (2 * math.log(10000.0))
        low, high = (round(c(32)), round(c(1))) if nearest else (math.floor(c(32)), math.ceil(c(1)))
        w = np.clip((np.arange(64) - low) / (high - low), 0, 1)
        return f * (1 - w) + f / 4.0 * w, 0.1 * math.log(4.0) + 1.0

    return frequencies


def _longrope(at_border):
    def frequencies(seq_len):
        n = 256 if seq_len is None else seq_len
        far = n >= 256 and seq_len is not None if at_border else n > 256
        return _inv(10000.0, 64) / np.array(_LONG if far else _SHORT)

    return frequencies


def _qwen(step):
    def frequencies(seq_len):
        n = 512 if seq_len is None else seq_len
        alpha = max(2 ** step(math.log2(n / 512) + 1) - 1, 1)
        return _inv(10000.0 * alpha ** (128 / 126), 128)

    return frequencies


def _ntk(power):
    return lambda: _inv(10000.0 * 8.0**power, 96)


def _dynamic(clamped):
    def frequencies(seq_len):
        n = 256 if seq_len is None else seq_len
        if clamped:
            n = max(n, 256)
        alpha = 4.0 * n / 256 - 3.0
        return _inv(10000.0 * max(alpha, 0.25) ** (64 / 62), 64)

    return frequencies


def p_rope():
    """The last 48 of 64 pairs stand still."""
    f = np.zeros(64)
    f[:16] = np.power(1000000.0, -np.arange(16) / 64)
    return f


def _by_parts(exchanged):
    def ramp(fast, slow):
        def c(r):
            return 128 * math.log(2048 / (2 * math.pi * r)) / (2 * math.log(10000.0))
        low, high = max(math.floor(c(fast)), 0), min(math.ceil(c(slow)), 127)
        return np.clip((np.arange(64) - low) / (high - low), 0, 1)

    def frequencies():
        f = _inv(10000.0, 128)
        n = f / 4.0 ** (np.arange(0, 128, 2) / 126)
        b, c = ramp(1.25, 0.75), ramp(16.0, 2.0)
        if exchanged:
            b, c = c, b
        return (1 - c) * f + c * ((1 - b) * n + b * f / 4.0)

    return frequencies


def _riflex(first):
    def frequencies():
        f = _inv(256.0, 16)
        f[4 - first] = 0.9 * 2 * math.pi / 200
        return f

    return frequencies


H64 = RoPE(64, layout="half")
CASES = [
    dict(id="e021", fn=_growing(1), encoding=H64, surface="decode", settings={}, right=False, cause="When the table grows (64 rows, then doubled), the new rows start at old + 1 instead of old: tokens at positions 64 and beyond are rotated as p + 1.", cause_key="grown-table-off-by-one", remedy="append arange(old, new)", mended=_growing(0)),
    dict(id="e022", fn=_counting(True), encoding=RoPE(128, layout="half", base=500000.0), surface="decode", settings={}, right=False, cause="From the second call on the instance's position grows by 1 per call instead of by the number of tokens of the chunk, so from the third chunk on positions are too small if the second or a later chunk had more than one token.", cause_key="counter-plus-one-per-call", remedy="add the chunk's length", mended=_counting(False)),
    dict(id="e023", fn=ring_decode, encoding=RoPE(64, layout="interleaved"), surface="decode", settings={}, right=True, cause="A ring of 32 complex turns multiplied by the power of a whole lap.", cause_key="right-ring", remedy="", mended=None),
    dict(id="e024", fn=_single(True), encoding=H64, surface="decode", settings={}, right=False, cause="Chunks of one token take a fast path that rotates adjacent channels (2k, 2k+1), while longer chunks rotate half-split pairs (k, k + 32) as declared.", cause_key="layout-one-token", remedy="use half-split pairs in the one-token path", mended=_single(False)),
    dict(id="e025", fn=_sorted_rows(False), encoding=H64, surface="apply_offset", settings={}, right=False, cause="Rows are sorted by offset and put back with the same permutation instead of its inverse: the rows of the result are in the wrong order whenever the sorting permutation is not its own inverse (three or more rows).", cause_key="unsort-same-permutation", remedy="index with argsort(order)", mended=_sorted_rows(True)),
    dict(id="e026", fn=_paged(False), encoding=RoPE(128, layout="half"), surface="apply_offset", settings={}, right=False, cause="The page of a slot is offset//16 + s//16 without the carry: where offset % 16 + s % 16 reaches 16, the position is 16 too small.", cause_key="page-carry", remedy="page = (offset + s) // 16", mended=_paged(True)),
    dict(id="e027", fn=_kept(True), encoding=H64, surface="calls", settings={}, right=False, cause="Tables are cached by the number of tokens alone: a later call with the same length and another offset gets the angles of the first such call.", cause_key="cache-key-without-offset", remedy="put the offset in the key", mended=_kept(False)),
    dict(id="e028", fn=_sticky(False), encoding=DYN, surface="calls", settings={}, right=False, cause="Dynamic NTK keeps the longest length seen: after a call longer than 256, later shorter calls still use the enlarged base instead of the base of their own length.", cause_key="dynamic-ntk-not-reset", remedy="compute the base from the length of each call", mended=_sticky(True)),
    dict(id="e029", fn=_long_cache(False), encoding=LONG, surface="key_cache", settings={}, right=False, cause="Keys cached in calls that ended at or before 256 tokens keep the short factors when the sequence grows beyond 256; they are not rotated again with the long factors.", cause_key="longrope-cache-stale", remedy="rotate all raw keys with the list of the final length", mended=_long_cache(True)),
    dict(id="e030", fn=raw_cache, encoding=DYN, surface="key_cache", settings={}, right=True, cause="Keys are kept raw and rotated once with the base of the final length.", cause_key="right-raw-cache", remedy="", mended=None),
    dict(id="e031", fn=_hysteresis(True), encoding=DYN, surface="key_cache", settings={}, right=False, cause="The dynamic base is recomputed only when the length has at least doubled since the last time (256, 512, ...): at lengths between, e.g. 300, the keys have the base of an earlier length.", cause_key="dynamic-ntk-hysteresis", remedy="recompute the base at every length beyond 256", mended=_hysteresis(False)),
    dict(id="e032", fn=_yarn_shift(True), encoding=YARN, surface="shift_keys", settings={}, right=False, cause="Shifting rotated keys multiplies them by YaRN's attention factor m again, so moved keys have m squared.", cause_key="shift-factor-twice", remedy="shift with m = 1", mended=_yarn_shift(False)),
    dict(id="e033", fn=_llama_shift(False), encoding=LLAMA, surface="shift_keys", settings={}, right=False, cause="The shift rotates by delta times the unscaled frequencies base**(-2k/d); the keys were rotated with Llama 3's scaled frequencies, so slow pairs move up to 8 times too far.", cause_key="shift-unscaled-frequencies", remedy="use the scaled frequencies in the shift", mended=_llama_shift(True)),
    dict(id="e034", fn=_evict("kept"), encoding=H64, surface="evict_keys", settings={}, right=False, cause="The keys after the gap are moved back by `kept` positions instead of by `dropped`.", cause_key="evict-kept-for-dropped", remedy="rotate by -dropped", mended=_evict("dropped")),
    dict(id="e035", fn=_yarn_tables(False), encoding=YARN, surface="cos_sin", settings={}, right=False, cause="YaRN's attention factor m = 0.1 ln 16 + 1 multiplies the cosines but not the sines.", cause_key="m-on-cos-only", remedy="multiply the sines by m too", mended=_yarn_tables(True)),
    dict(id="e036", fn=wide_tables, encoding=H64, surface="cos_sin", settings={}, right=True, cause="cos and sin of full width (S, d), both halves equal, as real and imaginary parts of one complex array.", cause_key="right-full-width", remedy="", mended=None),
    dict(id="e037", fn=_llama3(3.14), encoding=RoPE(128, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)), surface="frequencies", settings={}, right=False, cause="Wavelengths are computed with pi = 3.14, so the smooth factor of the medium pairs (between low and high) is off by 0.05 %; fast and slow pairs are right.", cause_key="pi-few-digits", remedy="use math.pi", mended=_llama3(math.pi)),
    dict(id="e038", fn=_yarn_partial(128), encoding=PARTIAL, surface="frequencies", settings={}, right=False, cause="The ends of YaRN's ramp are computed with head_dim = 128 instead of rotary_dim = 64, so the ramp begins and ends at twice the pair number.", cause_key="yarn-ramp-head-dim", remedy="compute the correction range with rotary_dim", mended=_yarn_partial(64)),
    dict(id="e039", fn=_yarn_round(True), encoding=RoPE(128, layout="half", scaling=YaRN(4.0, 2048)), surface="frequencies", settings={}, right=False, cause="Both ends of YaRN's ramp are rounded to the nearest pair instead of down (low) and up (high).", cause_key="yarn-ramp-round", remedy="floor the low end, ceil the high end", mended=_yarn_round(False)),
    dict(id="e040", fn=_longrope(True), encoding=LONG, surface="frequencies", settings={}, right=False, cause="The long factors are already used at exactly 256 = original_max_position tokens (>= instead of >).", cause_key="longrope-switch-border", remedy="switch for seq_len > original_max_position", mended=_longrope(False)),
    dict(id="e041", fn=_qwen(round), encoding=RoPE(128, layout="half", scaling=QwenNTK(512)), surface="frequencies", settings={}, right=False, cause="Qwen's alpha rounds log2(L / 512) + 1 to the nearest integer instead of up, so alpha is one step too small at lengths just above 512, 1024, ...", cause_key="qwen-alpha-round", remedy="use ceil", mended=_qwen(math.ceil)),
    dict(id="e042", fn=_ntk(94 / 96), encoding=RoPE(96, layout="half", scaling=NTKScaling(8.0)), surface="frequencies", settings={}, right=False, cause="The base is multiplied by factor ** ((d-2)/d) instead of factor ** (d/(d-2)), so the last pair is not fully interpolated.", cause_key="ntk-exponent-inverted", remedy="exponent d / (d - 2)", mended=_ntk(96 / 94)),
    dict(id="e043", fn=_dynamic(False), encoding=DYN, surface="frequencies", settings={}, right=False, cause="Dynamic NTK is also applied below the trained length 256: there alpha is below 1 (no max(seq_len, 256)) and the base shrinks; above 256 it is right.", cause_key="dynamic-ntk-below-length", remedy="L = max(seq_len, max_position)", mended=_dynamic(True)),
    dict(id="e044", fn=p_rope, encoding=RoPE(128, layout="half", base=1000000.0, scaling=Proportional(0.25)), surface="frequencies", settings={}, right=True, cause="p-RoPE: 16 pairs with exponents of the whole head, the other 48 have frequency 0.", cause_key="right-p-rope", remedy="", mended=None),
    dict(id="e045", fn=_by_parts(True), encoding=RoPE(128, layout="half", scaling=NTKByParts(4.0, 2048)), surface="frequencies", settings={}, right=False, cause="The two ramps of NTK-by-parts are exchanged: the blend with the plain frequencies runs from beta_0 to beta_1 and that with the interpolated ones from gamma_0 to gamma_1.", cause_key="by-parts-ramps-exchanged", remedy="use gamma for the outer blend and beta for the inner one", mended=_by_parts(False)),
    dict(id="e046", fn=_riflex(0), encoding=RoPE(16, layout="half", base=256.0, scaling=RIFLEx(4, 200, periods=0.9)), surface="frequencies", settings={}, right=False, cause="RIFLEx counts pairs from 1, but the code replaces the frequency at index 4 instead of index 3.", cause_key="riflex-pair-from-zero", remedy="replace index pair - 1", mended=_riflex(1)),
]
