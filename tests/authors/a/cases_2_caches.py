"""Rotary embedding with queries and keys, offsets, caches, gradients, norms."""

import math

import numpy as np

from posenc_ref import DynamicNTK, LinearScaling, LongRoPE, RoPE, XPos, YaRN

CASES = []


def wrong(id, make, encoding, surface, cause, key, remedy, **settings):
    CASES.append(
        dict(
            id=id,
            fn=make(True),
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=False,
            cause=cause,
            cause_key=key,
            remedy=remedy,
            mended=make(False),
        )
    )


def good(id, fn, encoding, surface, cause, **settings):
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


def freqs(d, base=10000.0):
    return base ** (-np.arange(0, d, 2, dtype=np.float64) / d)


def cis(p, w, x):
    t = np.exp(1j * np.asarray(p, np.float64)[..., None] * w)
    return t[:, None] if t.ndim == 3 and x.ndim == 4 else t


def spin(x, z, layout="half", scale=1.0):
    """Multiply the pairs of x, as complex numbers, by z."""
    v = x.astype(np.float64)
    n = v.shape[-1] // 2
    c = v[..., :n] + 1j * v[..., n:] if layout == "half" else v[..., 0::2] + 1j * v[..., 1::2]
    c = c * z * scale
    if layout == "half":
        out = np.concatenate([c.real, c.imag], -1)
    else:
        out = np.stack([c.real, c.imag], -1).reshape(v.shape)
    return out.astype(x.dtype)


# --- queries and keys -------------------------------------------------------------------------
def keys_by_queries(bug):
    w = freqs(64)

    def fn(q, k, qp, kp):
        qp, kp = np.asarray(qp), np.asarray(kp)
        if bug:  # one table, sliced by the first query position
            kp = np.arange(k.shape[-2]) + (qp[..., :1] if qp.size else 0)
        return spin(q, cis(qp, w, q)), spin(k, cis(kp, w, k))

    return fn


wrong(
    "a031",
    keys_by_queries,
    RoPE(64, layout="half"),
    "apply_qk",
    "Keys are rotated at the first query position + 0, 1, 2, ... instead of at k_positions, which differs whenever queries and "
    "keys have different positions (cached keys, cross attention)",
    "keys-at-query-positions",
    "pass k_positions for the keys",
)


def ignore_given(bug):
    w = freqs(64, 1e6)

    def fn(q, k, qp, kp):
        if bug:  # suffix alignment: queries are the last Q of the K tokens
            K, Q = k.shape[-2], q.shape[-2]
            kp = np.arange(K)
            qp = np.arange(K - Q, K)
        return spin(q, cis(qp, w, q), "interleaved"), spin(k, cis(kp, w, k), "interleaved")

    return fn


wrong(
    "a032",
    ignore_given,
    RoPE(64, layout="interleaved", base=1e6),
    "apply_qk",
    "The given positions are ignored: keys get 0 .. K-1 and queries the last Q of these, so padded, packed or offset positions "
    "are wrong",
    "positions-ignored",
    "index the table by q_positions and k_positions",
)


def q_factor(bug):
    w = RoPE(64, layout="half", scaling=YaRN(32.0, 4096)).frequencies()
    m = 0.1 * math.log(32.0) + 1

    def fn(q, k, qp, kp):
        return spin(q, cis(qp, w, q), scale=m), spin(k, cis(kp, w, k), scale=1.0 if bug else m)

    return fn


wrong(
    "a033",
    q_factor,
    RoPE(64, layout="half", scaling=YaRN(32.0, 4096)),
    "apply_qk",
    "YaRN's attention factor 1.347 is applied to queries only, so logits have the factor m instead of m squared",
    "m-on-q-only",
    "multiply the keys by m as well",
)


def xpos(bug, kind, layout="half", d=64):
    w, k_ = freqs(d), np.arange(d // 2)
    zeta = (2 * k_ / d + 0.4) / 1.4
    if bug and kind == "gamma":
        zeta = (2 * (k_ + 1) / d + 0.4) / 1.4

    def fn(q, k, qp, kp):
        qp, kp = np.asarray(qp, np.float64), np.asarray(kp, np.float64)
        cq = ck = 0.0
        if bug and kind == "centre":
            cq, ck = (float(np.mean([np.min(p), np.max(p)])) for p in (qp, kp))
        nq, nk = (qp - cq) / 512, (kp - ck) / 512
        sk = 1.0 if bug and kind == "inverse" else -1.0
        return (
            spin(q, cis(qp, w, q) * decay(zeta, nq, q), layout),
            spin(k, cis(kp, w, k) * decay(zeta, sk * nk, k), layout),
        )

    return fn


def decay(zeta, n, x):
    t = zeta ** n[..., None]
    return t[:, None] if t.ndim == 3 and x.ndim == 4 else t


wrong(
    "a034",
    lambda b: xpos(b, "inverse"),
    XPos(64, layout="half"),
    "apply_qk",
    "Keys are multiplied by zeta ** n like queries instead of by zeta ** -n, so logits decay with i + j and not with i - j",
    "xpos-key-decay",
    "use the inverse decay for keys",
)
wrong(
    "a035",
    lambda b: xpos(b, "centre", "interleaved"),
    XPos(64, layout="interleaved"),
    "apply_qk",
    "The decay is centred on the middle of the query positions for queries and on the middle of the key positions for keys, "
    "so where the two differ logits have a factor that depends on the centres",
    "xpos-two-centres",
    "use one fixed centre for queries and keys",
)
wrong(
    "a036",
    lambda b: xpos(b, "gamma", "half", 32),
    XPos(32, layout="half"),
    "apply_qk",
    "zeta of pair k is that of pair k + 1 ((2(k+1)/d + gamma) / (1 + gamma)): the index starts at 1 instead of 0, so the last "
    "pair does not decay",
    "xpos-index-from-1",
    "start k at 0",
)


def tile_repeat(bug):
    w = freqs(64)

    def fn(q, k, qp, kp):
        out = []
        for x, p in ((q, qp), (k, kp)):
            B, H, S, D = x.shape
            t = np.exp(1j * np.asarray(p, np.float64)[..., None] * w)
            t = np.broadcast_to(t, (B, S, D // 2))
            t = np.tile(t, (H, 1, 1)) if bug else np.repeat(t, H, 0)  # to (B * H, S, P)
            out.append(spin(x.reshape(B * H, S, D), t).reshape(x.shape))
        return tuple(out)

    return fn


wrong(
    "a037",
    tile_repeat,
    RoPE(64, layout="half"),
    "apply_qk",
    "Tables of positions (B, S) are tiled over heads (row order b, b+1, ...) while x is flattened with heads inside the batch, so "
    "head h of row b is rotated by the positions of row (b H + h) mod B; positions that are the same in all rows are right",
    "tile-for-repeat",
    "repeat every row H times (np.repeat) before flattening",
)


def mqa_right(q, k, qp, kp):
    w = freqs(128, 500000.0)
    return tuple(spin(x, cis(p, w, x)) for x, p in ((q, qp), (k, kp)))


good(
    "a038",
    mqa_right,
    RoPE(128, layout="half", base=500000.0),
    "apply_qk",
    "complex product on the half-split pairs, any number of key heads",
)


def xpos_right(q, k, qp, kp):
    lz = np.log((np.arange(0, 48, 2) + 0.4 * 48) / (1.4 * 48))
    out = []
    for x, p, s in ((q, qp, 1), (k, kp, -1)):
        e = np.asarray(p, np.float64)[..., None] * (1j * freqs(48) + s * lz / 512)
        e = np.exp(e[:, None] if e.ndim == 3 else e)
        out.append(spin(x, e, "interleaved"))
    return tuple(out)


good(
    "a039",
    xpos_right,
    XPos(48, layout="interleaved"),
    "apply_qk",
    "decay and rotation as one complex exponential exp(p (i theta +- ln(zeta) / 512))",
)


# --- gradients --------------------------------------------------------------------------------
def vjp(bug, kind):
    m = 0.1 * math.log(8.0) + 1
    w = RoPE(64, layout="half", scaling=YaRN(8.0, 1024)).frequencies() if kind == "m" else freqs(64)

    def fn(x, positions, dy):
        z = np.conj(cis(positions, w, dy))
        if kind == "m":
            return spin(dy, z, scale=1 / m if bug else m)
        if kind == "forward":
            return spin(dy, np.conj(z) if bug else z, "interleaved")
        g = np.array(dy)
        if not bug:
            g[..., :64] = spin(dy[..., :64], z)
        else:
            g[..., :64] = spin(dy[..., :64], z)
            g[..., 64:] = 0
        return g

    return fn


wrong(
    "a040",
    lambda b: vjp(b, "m"),
    RoPE(64, layout="half", scaling=YaRN(8.0, 1024)),
    "apply_vjp",
    "The gradient is divided by the attention factor (the inverse map) instead of multiplied by it (the transpose)",
    "inverse-for-transpose",
    "multiply by m in the backward pass as in the forward pass",
)
wrong(
    "a041",
    lambda b: vjp(b, "forward"),
    RoPE(64, layout="interleaved"),
    "apply_vjp",
    "The backward pass rotates dy forward by +angle instead of back by -angle",
    "vjp-sign",
    "negate sin in the backward pass",
)
wrong(
    "a042",
    lambda b: vjp(b, "pass"),
    RoPE(96, layout="half", rotary_dim=64),
    "apply_vjp",
    "The gradient of the 32 channels that pass through is zero instead of dy",
    "vjp-passthrough-zero",
    "copy dy to the channels that are not rotated",
)


def vjp_right(x, positions, dy):
    p = np.asarray(positions, np.float64)
    th = p[..., None] * freqs(16)
    th = th[:, None] if th.ndim == 3 and x.ndim == 4 else th
    g = np.zeros(dy.shape)
    for k in range(8):
        a, b = dy[..., 2 * k].astype(np.float64), dy[..., 2 * k + 1].astype(np.float64)
        g[..., 2 * k] = np.cos(th[..., k]) * a + np.sin(th[..., k]) * b
        g[..., 2 * k + 1] = np.cos(th[..., k]) * b - np.sin(th[..., k]) * a
    return g.astype(dy.dtype)


good(
    "a043",
    vjp_right,
    RoPE(16, layout="interleaved"),
    "apply_vjp",
    "a loop over the pairs with the transposed 2x2 block",
)


# --- offsets ----------------------------------------------------------------------------------
def offsets(bug, kind, layout="half"):
    w = freqs(64)

    def fn(x, offset):
        off = np.asarray(offset).astype(np.int64).reshape(-1)
        S = x.shape[-2]
        s = np.arange(S)
        if bug and kind == "row0":
            off = np.full_like(off, off[0])
        if bug and kind == "int16":
            off = off.astype(np.int16).astype(np.int64)
        p = off[:, None] + s
        if bug and kind == "tile":
            p = np.where(s < 32, p, s)
        if bug and kind == "one":
            p = np.where((off > 0)[:, None], p + 1, p)
        return spin(x, cis(p, w, x), layout)

    return fn


wrong(
    "a044",
    lambda b: offsets(b, "row0"),
    RoPE(64, layout="half"),
    "apply_offset",
    "All batch rows start at the offset of row 0; rows with another offset are wrong",
    "offset-of-row-0",
    "use offset[b] for row b",
)
wrong(
    "a045",
    lambda b: offsets(b, "tile", "interleaved"),
    RoPE(64, layout="interleaved"),
    "apply_offset",
    "The offset is added only in the first tile of 32 tokens; from token 32 on positions are s instead of offset + s",
    "offset-first-tile",
    "add the offset in every tile",
)
wrong(
    "a046",
    lambda b: offsets(b, "int16"),
    RoPE(64, layout="half"),
    "apply_offset",
    "Offsets are stored as int16: from 32768 on they wrap round to negative positions",
    "offset-int16",
    "store offsets as int32",
)
wrong(
    "a047",
    lambda b: offsets(b, "one"),
    RoPE(64, layout="half"),
    "apply_offset",
    "With an offset above 0, positions are one too large (offset + 1 + s): the counter was advanced before use; offset 0 is "
    "right",
    "offset-post-increment",
    "use the offset before advancing it",
)
good(
    "a048",
    lambda x, offset: np.stack(
        [
            spin(r, np.exp(1j * (int(o) + np.arange(x.shape[-2]))[:, None] * freqs(128, 1e6)))
            for r, o in zip(x, np.asarray(offset).reshape(-1))
        ]
    ),
    RoPE(128, layout="half", base=1e6),
    "apply_offset",
    "a loop over batch rows, each with its own offset",
)


# --- independent calls of one instance --------------------------------------------------------
class Growing:
    """A table that grows on demand."""

    def __init__(self, bug, kind):
        self.bug, self.kind, self.rows, self.inv = bug, kind, 0, freqs(64)
        self.count, self.slots = 0, {}
        if kind == "linear":
            self.inv = freqs(64)

    def grow(self, n):
        if self.kind == "linear":
            self.inv = self.inv / 2.0 if self.bug or self.rows == 0 else self.inv
        self.rows = max(16, n)
        self.table = np.exp(1j * np.arange(self.rows)[:, None] * self.inv)

    def one(self, x, offset):
        off, S = int(np.asarray(offset).reshape(-1)[0]), x.shape[-2]
        self.count += 1
        if self.kind == "by_len":
            if not self.bug or S not in self.slots:
                self.slots[S] = np.exp(1j * (off + np.arange(S))[:, None] * self.inv)
            return spin(x, self.slots[S])
        if self.kind == "third" and self.bug and self.count >= 3:
            off = (
                off - off % 2
            )  # the ring has two slots: the third call reads a recycled, even start
        if off < 0 or off + S > 65536:
            return spin(
                x,
                np.exp(
                    1j
                    * (off + np.arange(S))[:, None]
                    * (self.inv if self.rows or self.kind != "linear" else self.inv / 2)
                ),
            )
        if off + S > self.rows:
            self.grow(off + S)
        return spin(x, self.table[off : off + S])


def calls_of(kind):
    def make(bug):
        def fn(calls):
            g = Growing(bug, kind)
            return [g.one(x, o) for x, o in calls]

        return fn

    return make


wrong(
    "a049",
    calls_of("linear"),
    RoPE(64, layout="half", scaling=LinearScaling(2.0)),
    "calls",
    "Every time the table grows, the already scaled inv_freq is divided by 2 again: after the first growth beyond the first "
    "table positions are scaled by 4, then 8, ...",
    "scaling-on-every-growth",
    "scale the original inv_freq, once",
)
wrong(
    "a050",
    calls_of("by_len"),
    RoPE(64, layout="half"),
    "calls",
    "Tables are cached under the number of tokens only: a later call with the same length and another offset gets the first "
    "call's angles",
    "cache-key-length",
    "add the offset to the cache key",
)
wrong(
    "a051",
    calls_of("third"),
    RoPE(64, layout="half"),
    "calls",
    "From the third call on, odd offsets are rounded down to even ones, so these calls are rotated one position too early",
    "third-call-offset",
    "use the offset of the call",
)


class DynState:
    def __init__(self, bug):
        self.bug, self.longest = bug, 0

    def one(self, x, offset):
        off, S, d, L0 = int(np.asarray(offset).reshape(-1)[0]), x.shape[-2], 32, 64
        n = off + S
        if self.bug:
            self.longest = n = max(self.longest, n)
        alpha = 4.0 * max(n, L0) / L0 - 3.0
        w = freqs(d) / alpha ** (np.arange(0, d, 2) / (d - 2))
        return spin(x, np.exp(1j * (off + np.arange(S))[:, None] * w))


def dyn_calls(bug):
    def fn(calls):
        s = DynState(bug)
        return [s.one(x, o) for x, o in calls]

    return fn


wrong(
    "a052",
    dyn_calls,
    RoPE(32, layout="half", scaling=DynamicNTK(4.0, 64)),
    "calls",
    "The instance keeps the longest length it has seen: after a long call, shorter calls still use the long call's frequencies "
    "instead of those of their own length",
    "dynamic-not-reset",
    "compute alpha from the length of the present call",
)
good(
    "a053",
    calls_of("right")(False),
    RoPE(64, layout="half"),
    "calls",
    "one growing complex table, sliced by offset",
)


# --- decoding ---------------------------------------------------------------------------------
def decoder(kind, layout="half", base=10000.0):
    def make(bug):
        w = freqs(64, base)

        def fn(x, chunks):
            out, at, seen = [], 0, 0
            for i, n in enumerate(chunks):
                s = np.arange(n)
                p = seen + s
                if bug and kind == "same" and i:
                    p = np.full(n, seen)
                if bug and kind == "page":  # pages of 16; the slot is rounded up at the boundary
                    p = np.where(p % 16 == 0, np.maximum(p - 1, 0), p)
                if bug and kind == "mid" and i:
                    p = np.where(s >= 8, p - s + s % 8, p)
                out.append(spin(x[..., at : at + n, :], np.exp(1j * p[:, None] * w), layout))
                at += n
                seen += 1 if bug and kind == "step" and i else n
                if bug and kind == "prefill" and i == 0:
                    seen -= 1
            return np.concatenate(out, -2)

        return fn

    return make


wrong(
    "a054",
    decoder("same"),
    RoPE(64, layout="half"),
    "decode",
    "After the first chunk, all tokens of a chunk get the position of its first token (a scalar position, written for chunks of "
    "one token)",
    "chunk-one-position",
    "use start + arange(n)",
)
wrong(
    "a055",
    decoder("page", "interleaved"),
    RoPE(64, layout="interleaved"),
    "decode",
    "The first token of every page of 16 (positions 16, 32, 48, ...) gets the position of the token before it",
    "page-boundary",
    "compute the slot as page * 16 + p % 16 with floor division",
)
wrong(
    "a056",
    decoder("step"),
    RoPE(64, layout="half"),
    "decode",
    "After every chunk but the first, the cache position advances by 1 instead of by the length of the chunk",
    "advance-by-one",
    "advance by the number of tokens of the chunk",
)
wrong(
    "a057",
    decoder("prefill", "half", 500000.0),
    RoPE(64, layout="half", base=500000.0),
    "decode",
    "The chunk after the prefill starts at the prefill's last position instead of the next: all later tokens are one position "
    "too early",
    "prefill-off-by-one",
    "start at the length of the prefill",
)
wrong(
    "a058",
    decoder("mid"),
    RoPE(64, layout="half"),
    "decode",
    "In chunks after the first, positions of the tokens past the 8th of a chunk start again from the chunk's start (the block "
    "index within the chunk is dropped)",
    "block-in-chunk",
    "add 8 * block to the position",
)
good(
    "a059",
    decoder("right", "interleaved")(False),
    RoPE(64, layout="interleaved"),
    "decode",
    "a running count of tokens",
)


# --- key caches with length-dependent frequencies ---------------------------------------------
def dyn_w(n, d=64, L0=128, s=2.0):
    alpha = s * max(n, L0) / L0 - (s - 1)
    return freqs(d) / alpha ** (np.arange(0, d, 2) / (d - 2))


def cached_keys(bug):
    def fn(k, chunks):
        total = sum(chunks)
        if not bug:
            return spin(k, np.exp(1j * np.arange(total)[:, None] * dyn_w(total)))
        out, at = [], 0
        for n in chunks:
            p = np.arange(at, at + n)
            out.append(spin(k[..., at : at + n, :], np.exp(1j * p[:, None] * dyn_w(at + n))))
            at += n
        return np.concatenate(out, -2)

    return fn


wrong(
    "a060",
    cached_keys,
    RoPE(64, layout="half", scaling=DynamicNTK(2.0, 128)),
    "key_cache",
    "Keys keep the rotation of the call in which they were cached: after the length passes 128, older keys have frequencies of "
    "a shorter length instead of those of the whole sequence",
    "stale-keys",
    "cache raw keys and rotate them all in each call",
)

SH, LG = tuple(1 + 0.02 * k for k in range(16)), tuple(2 + 0.5 * k for k in range(16))


def cached_long(bug):
    m = math.sqrt(1 + math.log(8) / math.log(96))

    def fn(k, chunks):
        total = sum(chunks)
        n = chunks[-1] if bug else total
        w = freqs(32) / np.array(LG if n > 96 else SH)
        return spin(k, np.exp(1j * np.arange(total)[:, None] * w), scale=m)

    return fn


wrong(
    "a061",
    cached_long,
    RoPE(32, layout="half", scaling=LongRoPE(SH, LG, 96, factor=8.0)),
    "key_cache",
    "The list of factors is chosen by the number of tokens in the last chunk instead of by the length of the whole cache, so a "
    "long cache fed in short chunks has the short factors",
    "length-of-last-chunk",
    "choose by past length + new tokens",
)
good(
    "a062",
    lambda k, chunks: RoPE(64, layout="half", scaling=DynamicNTK(4.0, 256)).apply(
        k, np.arange(sum(chunks))
    ),
    RoPE(64, layout="half", scaling=DynamicNTK(4.0, 256)),
    "key_cache",
    "raw keys, rotated at the end by the reference",
)


# --- shifted keys -----------------------------------------------------------------------------
def shifted(bug, kind):
    m = 0.1 * math.log(4.0) + 1
    w = {
        "m": RoPE(64, layout="half", scaling=YaRN(4.0, 2048)).frequencies(),
        "pi": freqs(64) / (1 if bug else 8.0),
    }.get(kind, freqs(64))

    def fn(k, delta):
        dl = float(np.asarray(delta).reshape(-1)[0]) if np.size(delta) == 1 else np.asarray(delta)
        if bug and kind == "abs":
            dl = np.abs(dl)
        z = np.exp(1j * np.asarray(dl)[..., None] * w)
        layout = "interleaved" if kind == "out" and bug else "half"
        return spin(k, z, layout, m if kind == "m" and bug else 1.0)

    return fn


wrong(
    "a063",
    lambda b: shifted(b, "m"),
    RoPE(64, layout="half", scaling=YaRN(4.0, 2048)),
    "shift_keys",
    "Shifting cached keys multiplies them by the attention factor 1.139 again; they already have it",
    "m-again-on-shift",
    "shift with cos and sin without m",
)
wrong(
    "a064",
    lambda b: shifted(b, "abs"),
    RoPE(64, layout="half"),
    "shift_keys",
    "A negative delta (tokens were evicted) is taken as its absolute value, so keys move forward instead of back",
    "negative-shift",
    "keep the sign of delta",
)
wrong(
    "a065",
    lambda b: shifted(b, "pi"),
    RoPE(64, layout="half", scaling=LinearScaling(8.0)),
    "shift_keys",
    "The shift uses unscaled frequencies: keys move by 8 * delta interpolated positions instead of delta",
    "shift-unscaled",
    "divide the shift's frequencies by the factor too",
)
wrong(
    "a066",
    lambda b: shifted(b, "out"),
    RoPE(64, layout="interleaved", output_layout="half"),
    "shift_keys",
    "Rotated keys are stored half-split (output_layout), but the shift pairs adjacent channels, the layout of the input",
    "shift-input-layout",
    "pair the channels of the output layout",
)


# --- norm and rotation ------------------------------------------------------------------------
def normed(bug, kind):
    w = freqs(64, 1e6)

    def fn(x, weight, positions):
        v, g = x.astype(np.float64), weight.astype(np.float64)
        z = cis(positions, w, x)
        axes = (-1, -3) if bug and kind == "heads" and x.ndim == 4 else -1
        r = 1 / np.sqrt(np.mean(v * v, axis=axes, keepdims=True) + 1e-6)
        if bug and kind == "after":
            return (spin(v * r, z) * g).astype(x.dtype)
        if bug and kind == "gemma":
            g = 1 + g
        return spin(v * r * g, z).astype(x.dtype)

    return fn


enc = RoPE(64, layout="half", base=1e6)
wrong(
    "a067",
    lambda b: normed(b, "after"),
    enc,
    "normed_apply",
    "The norm's weight multiplies the rotated vector instead of the vector before the rotation",
    "weight-after-rotation",
    "apply the weight, then rotate",
)
wrong(
    "a068",
    lambda b: normed(b, "gemma"),
    enc,
    "normed_apply",
    "The weight is taken as Gemma's 1 + weight; here it is the factor itself",
    "weight-plus-one",
    "multiply by weight",
)
wrong(
    "a069",
    lambda b: normed(b, "heads"),
    enc,
    "normed_apply",
    "The mean square is taken over all heads together instead of over the channels of each head",
    "norm-over-heads",
    "take the mean over the last axis only",
)
