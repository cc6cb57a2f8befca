"""Rotary encodings with state: queries and keys, offsets, calls, decoding, caches, gradients, weights."""

import numpy as np

from posenc_ref import (
    DynamicNTK,
    LongRoPE,
    QwenNTK,
    RoPE,
    XPos,
    YaRN,
)

CASES = []


def _case(id, surface, fn, encoding, key, cause, remedy, mended, **settings):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=False,
            cause=cause,
            cause_key=key,
            remedy=remedy,
            mended=mended,
        )
    )


def _right(id, surface, fn, encoding, cause, **settings):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=True,
            cause=cause,
            cause_key="right",
            remedy="",
            mended=None,
        )
    )


def _over(x, positions):
    """Positions in float64 with axes that broadcast to x.shape[:-1]."""
    p = np.asarray(positions).astype(np.float64)
    while 1 < p.ndim < x.ndim - 1:
        p = np.expand_dims(p, 1)
    return p


def _inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def _half(x, angles, m=1.0):
    n = angles.shape[-1]
    a, b = x[..., :n].astype(np.float64), x[..., n : 2 * n].astype(np.float64)
    c, s = m * np.cos(angles), m * np.sin(angles)
    out = np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(x.dtype)
    return np.concatenate([out, x[..., 2 * n :]], axis=-1)


def _inter(x, angles):
    z = (x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)) * np.exp(1j * angles)
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape).astype(x.dtype)


# -- queries and keys ---------------------------------------------------------------------------

_YQ = RoPE(64, layout="half", scaling=YaRN(8.0, 2048))
_YQF, _YQM = _YQ.frequencies(), 0.1 * np.log(8.0) + 1


def _q_only(m_key):
    def rotate_qk_yarn(q, k, q_positions, k_positions):
        a, b = _over(q, q_positions)[..., None] * _YQF, _over(k, k_positions)[..., None] * _YQF
        return _half(q, a, _YQM), _half(k, b, m_key)

    return rotate_qk_yarn


_case(
    "c031",
    "apply_qk",
    _q_only(1.0),
    _YQ,
    "m-on-queries-only",
    "the attention factor multiplies the queries only, so logits contain m once instead of m squared",
    "multiply cos and sin of the keys by m too",
    _q_only(_YQM),
)


def _xpos(key_power, half_ramp=False, centre=None):
    """xPos with zeta ** (key_power * n) in keys."""

    def xpos_qk(q, k, q_positions, k_positions):
        d = q.shape[-1]
        ramp = np.arange(0, d, 2) / (2 * d if half_ramp else d)
        zeta = (ramp + 0.4) / 1.4
        out = []
        for x, p, power in ((q, q_positions, 1.0), (k, k_positions, key_power)):
            p = _over(x, p)
            middle = (p.min() + p.max()) / 2 if centre == "own" else (centre or 0.0)
            size = zeta ** (power * (p - middle)[..., None] / 512.0)
            z = (x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)) * np.exp(
                1j * p[..., None] * _inv(d)
            )
            z = z * size
            out.append(np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype))
        return tuple(out)

    return xpos_qk


_XP = XPos(64, layout="interleaved")
_case(
    "c032",
    "apply_qk",
    _xpos(1.0),
    _XP,
    "key-decay-sign",
    "keys are multiplied by zeta ** n like queries instead of zeta ** -n, so the decay depends on the sum "
    "of the positions",
    "use the negative exponent for keys",
    _xpos(-1.0),
)
_case(
    "c033",
    "apply_qk",
    _xpos(-1.0, centre="own"),
    _XP,
    "centre-of-each-call",
    "queries and keys are each centred on the middle of their own positions: with a cache their centres "
    "differ, and logits get a factor zeta ** (difference / 512)",
    "use one fixed centre",
    _xpos(-1.0),
)
_case(
    "c034",
    "apply_qk",
    _xpos(-1.0, half_ramp=True),
    _XP,
    "ramp-over-half",
    "the ramp in zeta is k/d instead of 2k/d, so it ends at 0.64 instead of nearly 1: too much decay in all "
    "pairs but the first",
    "divide the even channel numbers by d",
    _xpos(-1.0),
)
_right(
    "c035",
    "apply_qk",
    _xpos(-1.0, centre=64.0),
    _XP,
    "centred on position 64 in queries and keys alike, which no logit shows",
)


def _shared(when_equal):
    def gqa_rotate(q, k, q_positions, k_positions):
        cos_p = _over(q, q_positions)
        same = when_equal and q.shape[-2] == k.shape[-2]
        kp = cos_p if same else _over(k, k_positions)  # one table for both if lengths agree
        return _inter(q, cos_p[..., None] * _inv(128)), _inter(k, kp[..., None] * _inv(128))

    return gqa_rotate


_case(
    "c036",
    "apply_qk",
    _shared(True),
    RoPE(128, layout="interleaved"),
    "query-table-for-keys",
    "if there are as many keys as queries, keys are rotated to the queries' positions instead of their own",
    "look up cos and sin for the keys' positions",
    _shared(False),
)


def _vision_qk(swap):
    def rotate_vision(q, k, q_positions, k_positions):
        inv = 10000.0 ** (-np.arange(8) / 8)

        def turn(x, p, flip):
            p = np.asarray(p, np.float64)
            p = np.stack([p, p]) if p.ndim == 1 else p
            a, b = (p[1], p[0]) if flip else (p[0], p[1])
            angle = np.concatenate([a[..., None] * inv, b[..., None] * inv], -1)
            return _half(x, angle[:, None] if angle.ndim == 3 and x.ndim == 4 else angle)

        return turn(q, q_positions, False), turn(k, k_positions, swap)

    return rotate_vision


# -- offsets ------------------------------------------------------------------------------------


def _tiles_offset(forget):
    def rope_with_offset(x, offset, T=32):
        y = np.empty_like(x)
        for b in range(x.shape[0]):
            for t in range(0, x.shape[-2], T):
                n = min(T, x.shape[-2] - t)
                base = t if (t and forget) else t + int(offset[b])
                y[b, ..., t : t + n, :] = _half(
                    x[b, ..., t : t + n, :],
                    (base + np.arange(n, dtype=np.float64))[:, None] * _inv(64),
                )
        return y

    return rope_with_offset


_case(
    "c038",
    "apply_offset",
    _tiles_offset(True),
    RoPE(64, layout="half"),
    "offset-in-first-tile-only",
    "the offset is added in the first tile of 32 tokens only; tokens 32, 33, ... of a chunk have their "
    "index in the chunk as position",
    "add the offset in every tile",
    _tiles_offset(False),
)

_PAGE = np.outer(np.arange(2**16 + 4096), _inv(64, 5e5))


def _clamped(rows):
    def rope_table_lookup(x, offset):
        p = np.asarray(offset).reshape(-1, 1) + np.arange(x.shape[-2])
        a = _PAGE[np.minimum(p, rows - 1)]
        return _inter(x, a[:, None] if x.ndim == 4 else a)

    return rope_table_lookup


def rope_lookup_any(x, offset):
    p = (np.asarray(offset).reshape(-1, 1) + np.arange(x.shape[-2])).astype(np.float64)
    a = p[..., None] * _inv(64, 5e5)
    return _inter(x, a[:, None] if x.ndim == 4 else a)


_case(
    "c039",
    "apply_offset",
    _clamped(4096),
    RoPE(64, layout="interleaved", base=5e5),
    "table-clamped",
    "the table of angles has 4096 rows and the index is clamped: every position from 4096 on is treated as "
    "4095",
    "make the table longer, or refuse",
    rope_lookup_any,
)


def _widest(f):
    def rope_int16_start(x, offset):
        start = np.asarray(offset).astype(f).astype(np.float64).reshape(-1, *[1] * (x.ndim - 2))
        p = start + np.arange(x.shape[-2])
        return _half(x, p[..., None] * _inv(32))

    return rope_int16_start


_ROWS = {}


def rope_ragged(x, offset):
    y = np.empty_like(x)
    for b, start in enumerate(np.asarray(offset).tolist()):
        key = (start, x.shape[-2])
        if key not in _ROWS:
            _ROWS.clear()
            _ROWS[key] = np.exp(1j * (start + np.arange(x.shape[-2]))[:, None] * _inv(64))
        z = (x[b, ..., :32] + 1j * x[b, ..., 32:].astype(np.float64)) * _ROWS[key]
        y[b] = np.concatenate([z.real, z.imag], -1)
    return y


_right(
    "c041",
    "apply_offset",
    rope_ragged,
    RoPE(64, layout="half"),
    "row by row, with a dictionary of complex tables keyed by start and length that keeps one entry",
)

# -- calls --------------------------------------------------------------------------------------


def _by_length(with_offset):
    def run(calls):
        cache, ys = {}, []
        for x, offset in calls:
            key = (x.shape[-2], int(offset)) if with_offset else x.shape[-2]
            if key not in cache:
                cache[key] = (np.arange(x.shape[-2]) + float(offset))[:, None] * _inv(64)
            ys.append(_half(x, cache[key]))
        return ys

    return run


_case(
    "c042",
    "calls",
    _by_length(False),
    RoPE(64, layout="half"),
    "cache-key-without-offset",
    "cos and sin are cached by the length of the call alone: a later call of equal length with another "
    "offset gets the positions of the earlier one",
    "add the offset to the key of the cache",
    _by_length(True),
)


class _TwoSlots:
    def __init__(self, keep_key):
        self.keys, self.tables, self.keep_key = [], [], keep_key

    def table(self, key):
        if key in self.keys:
            return self.tables[self.keys.index(key)]
        t = 1.0 * key * _inv(64)  # the angles of the first token
        if len(self.keys) < 2:
            self.keys.append(key)
            self.tables.append(t)
        else:
            self.tables[0] = t
            if not self.keep_key:
                self.keys[0] = key
        return t

    def __call__(self, x, offset):
        return _inter(x, self.table(int(offset)) + np.arange(x.shape[-2])[:, None] * _inv(64))


def _two_slots(keep_key):
    def run(calls):
        instance = _TwoSlots(keep_key)
        return [instance(x, offset) for x, offset in calls]

    return run


def rope_calls_plain(calls):
    return [_inter(x, (np.arange(x.shape[-2]) + float(o))[:, None] * _inv(64)) for x, o in calls]


_case(
    "c043",
    "calls",
    _two_slots(True),
    RoPE(64, layout="interleaved"),
    "evicted-slot-keeps-key",
    "a cache of the start angles of two offsets replaces the angles of slot 0 but not its key: after calls at "
    "three different offsets, a call at the first one starts at the third one's position",
    "replace the key together with the table",
    _two_slots(False),
)

_DYN = RoPE(64, layout="half", scaling=DynamicNTK(4.0, 64))


def _dynamic(reset):
    def run(calls):
        longest, ys = 64, []
        for x, offset in calls:
            length = x.shape[-2] + int(offset)
            longest = max(64, length) if reset else max(longest, length)
            alpha = 4.0 * longest / 64 - 3.0
            inv = _inv(64, 10000.0 * alpha ** (64 / 62))
            ys.append(_half(x, (np.arange(x.shape[-2]) + float(offset))[:, None] * inv))
        return ys

    return run


_case(
    "c044",
    "calls",
    _dynamic(False),
    _DYN,
    "dynamic-never-reset",
    "after one call beyond the trained length of 64, shorter calls keep the enlarged base: dynamic NTK is "
    "never reset",
    "reset the frequencies if the length is at most the trained one",
    _dynamic(True),
)


def _scaled_table(copy):
    def run(calls):
        table = np.exp(1j * np.outer(np.arange(4096), _YQF))
        ys = []
        for x, offset in calls:
            cut = table[int(offset) : int(offset) + x.shape[-2]]
            cut = cut * _YQM if copy else np.multiply(cut, _YQM, out=cut)
            z = (x[..., :32] + 1j * x[..., 32:].astype(np.float64)) * cut
            ys.append(np.concatenate([z.real, z.imag], -1).astype(x.dtype))
        return ys

    return run


_case(
    "c045",
    "calls",
    _scaled_table(False),
    _YQ,
    "m-accumulates",
    "the attention factor is multiplied into the cached rows in place, so a row's factor is m, m squared, "
    "m cubed ... at its first, second, third use",
    "multiply a copy, or the whole table once",
    _scaled_table(True),
)

# -- decoding -----------------------------------------------------------------------------------


def _feed(step, layout="half"):
    def run(x, chunks):
        at, seen, ys = 0, 0, []
        for i, n in enumerate(chunks):
            part = x[..., at : at + n, :]
            angles = (step(i, seen, at) + np.arange(n, dtype=np.float64))[:, None] * _inv(
                x.shape[-1]
            )
            ys.append((_half if layout == "half" else _inter)(part, angles))
            seen, at = n, at + n
        return np.concatenate(ys, axis=-2)

    return run


_case(
    "c046",
    "decode",
    _feed(lambda i, last, at: last),
    RoPE(64, layout="half"),
    "start-assigned-not-added",
    "the start of a chunk is the length of the previous chunk instead of the sum of all earlier chunks: "
    "wrong from the third chunk on",
    "pos += n instead of pos = n",
    _feed(lambda i, last, at: at),
)
_case(
    "c047",
    "decode",
    _feed(lambda i, last, at: max(at - 1, 0), "interleaved"),
    RoPE(64, layout="interleaved"),
    "chunk-starts-one-early",
    "every chunk after the first starts one position too early, so the last position of the prompt occurs "
    "twice",
    "start at the number of tokens seen",
    _feed(lambda i, last, at: at, "interleaved"),
)


class PagedDecoder:
    """Blocks of eight tokens; a new block begins when the last one is full."""

    def __init__(self):
        self.blocks, self.fill = 0, 0

    def push(self, x):
        out = []
        for t in range(x.shape[-2]):
            p = 8 * self.blocks + self.fill
            out.append(_inter(x[..., t : t + 1, :], np.array([[float(p)]]) * _inv(64)))
            self.fill += 1
            if self.fill == 8:
                self.blocks, self.fill = self.blocks + 1, 0
        return np.concatenate(out, -2)


def paged_decode(x, chunks):
    decoder, at, out = PagedDecoder(), 0, []
    for n in chunks:
        out.append(decoder.push(x[..., at : at + n, :]))
        at += n
    return np.concatenate(out, -2) if out else x


_right(
    "c048",
    "decode",
    paged_decode,
    RoPE(64, layout="interleaved"),
    "token by token, with positions from block number and fill of a paged cache",
)

# -- caches of keys -----------------------------------------------------------------------------

_DYN2 = RoPE(64, layout="half", scaling=DynamicNTK(2.0, 128))


def _dyn_inv(length):
    alpha = 2.0 * max(length, 128) / 128 - 1.0
    return _inv(64, 10000.0 * alpha ** (64 / 62))


def _cached(again):
    def run(k, chunks):
        at, parts = 0, []
        for n in chunks:
            p = at + np.arange(n, dtype=np.float64)
            parts.append(_half(k[..., at : at + n, :], p[:, None] * _dyn_inv(at + n)))
            at += n
        if again:
            return _half(k, np.arange(float(at))[:, None] * _dyn_inv(at))
        return np.concatenate(parts, -2)

    return run


_case(
    "c049",
    "key_cache",
    _cached(False),
    _DYN2,
    "stale-keys",
    "keys stay as they were rotated when they arrived; keys of earlier chunks keep the frequencies of the "
    "shorter length once the cache exceeds the trained length",
    "store keys unrotated and rotate all at use",
    _cached(True),
)

_LONG = RoPE(
    16,
    layout="half",
    scaling=LongRoPE([1.0] * 8, [1.0, 1.5, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0], 128, factor=16.0),
)


def _switch(at_least):
    m = np.sqrt(1 + np.log(16.0) / np.log(128))

    def run(k, chunks):
        n = int(sum(chunks))
        long = n >= 128 if at_least else n > 128
        lam = np.array([1.0, 1.5, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0]) if long else np.ones(8)
        return _half(k, np.arange(float(n))[:, None] * (_inv(16) / lam), m)

    return run


_case(
    "c050",
    "key_cache",
    _switch(True),
    _LONG,
    "long-list-one-token-early",
    "the long factors are used from exactly 128 keys on; the short ones still hold at the original length "
    "(length 128), the long ones only above it",
    "compare with >, not >=",
    _switch(False),
)

_QWEN = RoPE(64, layout="half", scaling=QwenNTK(64))


def _qwen(rounding):
    def run(k, chunks):
        n = int(sum(chunks))
        alpha = max(2 ** int(rounding(np.log2(n / 64) + 1)) - 1, 1)
        return _half(k, np.arange(float(n))[:, None] * _inv(64, 10000.0 * alpha ** (64 / 62)))

    return run


_case(
    "c051",
    "key_cache",
    _qwen(np.floor),
    _QWEN,
    "floor-for-ceil",
    "Qwen's alpha takes floor(log2(L / 64) + 1) instead of ceil, so between 64 * 2**n and the next "
    "doubling it is one step too small",
    "use ceil",
    _qwen(np.ceil),
)

# -- shifts, gradients, norms, weights ------------------------------------------------------------


def _moved(limit, m=1.0, enc="half"):
    def k_shift(rotated, delta):
        step = float(np.clip(delta, -limit, limit))
        f = _YQF if enc == "yarn" else _inv(rotated.shape[-1])
        return _half(rotated, np.full((rotated.shape[-2], 1), step) * f, m)

    return k_shift


_case(
    "c052",
    "shift_keys",
    _moved(512),
    RoPE(64, layout="half"),
    "delta-clipped",
    "the shift is clipped to -512 .. 512 positions",
    "shift by the whole delta",
    _moved(2.0**60),
)


def _shift_partial(width):
    def shift_partial(rotated, delta):
        inv = 10000.0 ** (-np.arange(0, 32, 2) / 32)
        inv = np.concatenate([inv, np.zeros(width // 2 - 16)])
        z = (rotated[..., 0:width:2] + 1j * rotated[..., 1:width:2].astype(np.float64)) * np.exp(
            1j * float(delta) * inv
        )
        if width > 32:
            z[..., 16:] *= np.exp(1j * float(delta) * inv[-17])
        head = np.stack([z.real, z.imag], -1).reshape(*rotated.shape[:-1], width)
        return np.concatenate([head.astype(rotated.dtype), rotated[..., width:]], -1)

    return shift_partial


_case(
    "c054",
    "shift_keys",
    _shift_partial(64),
    RoPE(64, layout="interleaved", rotary_dim=32),
    "shift-turns-rest",
    "the shift also rotates the 32 channels that have no position (by a fixed frequency); they must stay",
    "shift the rotary channels only",
    _shift_partial(32),
)


def _vjp(forward):
    def rope_backward(x, positions, dy):
        a = _over(dy, positions)[..., None] * _inv(dy.shape[-1])
        return _inter(dy, a if forward else -a)

    return rope_backward


_case(
    "c055",
    "apply_vjp",
    _vjp(True),
    RoPE(64, layout="interleaved"),
    "forward-in-backward",
    "the backward pass rotates dy by +angle like the forward pass, instead of by the transpose (-angle)",
    "negate sin in the backward pass",
    _vjp(False),
)


def _vjp_m(m):
    def yarn_backward(x, positions, dy):
        return _half(dy, -_over(dy, positions)[..., None] * _YQF, m)

    return yarn_backward


_case(
    "c056",
    "apply_vjp",
    _vjp_m(1 / _YQM),
    _YQ,
    "inverse-for-adjoint",
    "the gradient is divided by the attention factor m, as the inverse would be; the transpose is "
    "multiplied by it",
    "multiply by m",
    _vjp_m(_YQM),
)


def _vjp_rest(keep):
    def partial_backward(x, positions, dy):
        dx = np.zeros_like(dy)
        dx[..., :16] = _half(dy[..., :16], -_over(dy, positions)[..., None] * _inv(16))
        if keep:
            dx[..., 16:] = dy[..., 16:]
        return dx

    return partial_backward


_case(
    "c057",
    "apply_vjp",
    _vjp_rest(False),
    RoPE(48, layout="half", rotary_dim=16),
    "no-gradient-of-rest",
    "the gradient of the channels that pass through (16 .. 47) is zero instead of dy",
    "copy dy there",
    _vjp_rest(True),
)


def _normed(kind):
    def qk_norm_rope(x, weight, positions):
        w, wide = np.asarray(weight, np.float64), x.astype(np.float64)
        a = _over(x, positions)[..., None] * _inv(x.shape[-1])
        d = x.shape[-1]
        n = wide / np.sqrt(
            (wide**2).sum(-1, keepdims=True) / (d - 1 if kind == "unbiased" else d) + 1e-6
        )
        if kind == "after":
            return (w * _half(n, a)).astype(x.dtype)
        if kind == "gemma":
            w = 1 + w
        return _half(n * w, a).astype(x.dtype)

    return qk_norm_rope


_case(
    "c058",
    "normed_apply",
    _normed("after"),
    RoPE(64, layout="half"),
    "weight-after-rotation",
    "the norm's weight multiplies the rotated vector; it belongs before the rotation, which mixes channels "
    "with different weights",
    "multiply by the weight first",
    _normed("right"),
)
_case(
    "c059",
    "normed_apply",
    _normed("gemma"),
    RoPE(32, layout="half"),
    "gemma-weight",
    "the weight is applied as 1 + weight (Gemma's convention) though it is the factor itself",
    "multiply by weight",
    _normed("right"),
)
_case(
    "c060",
    "normed_apply",
    _normed("unbiased"),
    RoPE(128, layout="half"),
    "mean-over-d-1",
    "the mean square divides by d - 1 = 127 instead of d = 128",
    "divide by d",
    _normed("right"),
)


def _permuted(kind):
    def permute(w, n_heads):
        rest = w.shape[1:]
        if kind == "inverse":
            return w.reshape(n_heads, -1, 2, *rest).swapaxes(1, 2).reshape(w.shape)
        if kind == "flat":
            return w.reshape(2, -1, *rest).swapaxes(0, 1).reshape(w.shape)
        return w.reshape(n_heads, 2, -1, *rest).swapaxes(1, 2).reshape(w.shape)

    return permute


_case(
    "c061",
    "permute_weights",
    _permuted("inverse"),
    None,
    "inverse-permutation",
    "the permutation goes from interleaved to half-split; half-split to interleaved is asked for",
    "view(n_heads, 2, d/2).transpose(1, 2)",
    _permuted("right"),
)


def permute_by_list(w, n_heads):
    d = w.shape[0] // n_heads
    rows = [
        h * d + k + half * (d // 2)
        for h in range(n_heads)
        for k in range(d // 2)
        for half in (0, 1)
    ]
    return np.stack([w[r] for r in rows])


_right("c063", "permute_weights", permute_by_list, None, "a list of row numbers, row by row")
