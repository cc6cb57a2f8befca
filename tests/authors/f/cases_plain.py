"""Frequencies, cos/sin tables, weights, norms, token positions, whole models (f071 - f096)."""
import numpy as np

from posenc_ref import (LongRoPE, Learned, LinearScaling, Llama3Scaling, NTKByParts, QwenNTK, RoPE, SuNTK, YaRN,
                        Attention, preset)

CASES = []


def case(id, make, encoding, surface, cause, key="", remedy="", right=False, **settings):
    CASES.append(dict(id=id, fn=make if right else make(True), encoding=encoding, surface=surface,
                      settings=settings, right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# -- f071: linspace with its end point ----------------------------------------------------------
def make(bug):
    def frequencies():
        return 10000.0 ** -np.linspace(0, 1, 32, endpoint=bool(bug))
    return frequencies


case("f071", make, RoPE(64, layout="half"), "frequencies",
     "The exponents are linspace(0, 1, 32) with the end point: k/31 instead of k/32, so the last pair has frequency 1/base.",
     "linspace-endpoint", "Use endpoint=False.")


# -- f072: Qwen's alpha rounded ---------------------------------------------------------------------
def make(bug):
    def frequencies(seq_len):
        n = np.log2(max(seq_len, 1) / 2048) + 1
        alpha = max(2.0 ** (np.rint(n) if bug else np.ceil(n - 1e-12)) - 1, 1.0)
        base = 10000.0 * alpha ** (128 / 126)
        return 1.0 / base ** (np.arange(0, 128, 2) / 128)
    return frequencies


case("f072", make, RoPE(128, layout="half", scaling=QwenNTK(2048)), "frequencies",
     "The exponent of alpha is rounded to the nearest integer instead of up: lengths between 1 and sqrt(2) times a power of two of the "
     "trained length get the step below.", "round-not-ceil", "Use ceil.")


# -- f073: Su's NTK from k ----------------------------------------------------------------------------
def make(bug):
    def frequencies():
        k = np.arange(32) + (0 if bug else 1)
        a = np.log(8.0) / 32 ** 0.625
        return 10000.0 ** (-np.arange(32) / 32) / np.exp(a * k ** 0.625)
    return frequencies


case("f073", make, RoPE(64, layout="half", scaling=SuNTK(8.0, power=0.625)), "frequencies",
     "The divisor exp(a k^b) starts at k = 0 instead of 1: every pair has the divisor of the pair before, and pair 0 keeps its "
     "frequency.", "su-index", "Use k + 1.")


# -- f074: NTK by parts: the two ramps exchanged ---------------------------------------------------------
def ramp(d, base, length, r0, r1):
    lo, hi = (d * np.log(length / (2 * np.pi * r)) / (2 * np.log(base)) for r in (r0, r1))
    lo, hi = max(np.floor(lo), 0), min(np.ceil(hi), d - 1)
    return np.clip((np.arange(d // 2) - lo) / (hi - lo if hi > lo else 1e-3), 0, 1)


def make(bug):
    def frequencies():
        d, s, length = 128, 4.0, 4096
        f = 10000.0 ** (-np.arange(64) / 64)
        ntk = (10000.0 * s ** (d / (d - 2))) ** (-np.arange(64) / 64)
        b, c = ramp(d, 10000.0, length, 1.25, 0.75), ramp(d, 10000.0, length, 16.0, 2.0)
        if bug:
            b, c = c, b
        return (1 - c) * f + c * ((1 - b) * ntk + b * f / s)
    return frequencies


case("f074", make, RoPE(128, layout="half", scaling=NTKByParts(4.0, 4096)), "frequencies",
     "The two ramps are exchanged: beta (1.25, 0.75) mixes plain and NTK frequencies and gamma (16, 2) the interpolated ones.",
     "ramps-exchanged", "Use gamma outside and beta inside.")


# -- f075: m of LongRoPE from the wrong length -----------------------------------------------------------------
S16, L16 = tuple(1 + 0.05 * k for k in range(16)), tuple(1 + 2.0 * k for k in range(16))


def make(bug):
    def frequencies(seq_len):
        lam = np.array(L16 if seq_len > 4096 else S16)
        m = np.sqrt(1 + np.log(32.0) / np.log(131072 if bug else 4096))
        return 10000.0 ** (-np.arange(16) / 16) / lam, m
    return frequencies


case("f075", make, RoPE(32, layout="half", scaling=LongRoPE(S16, L16, 4096, factor=32.0)), "frequencies",
     "The attention factor is sqrt(1 + ln(factor)/ln(131072)), with the extended length instead of the trained length 4096.",
     "m-length", "Use ln(original_max_position).")


# -- f076 right: log2 in the ratio of logarithms ------------------------------------------------------------------
def frequencies_log2(seq_len):
    f = 2.0 ** (-np.log2(10000.0) * np.arange(16) / 16)
    return f / np.array((S16, L16)[int(seq_len > 4096)]), float((1 + np.log2(32) / np.log2(4096)) ** 0.5)


case("f076", frequencies_log2, RoPE(32, layout="half", scaling=LongRoPE(S16, L16, 4096, factor=32.0)), "frequencies",
     "Right: base-2 logarithms (their ratio does not depend on the base) and powers of 2.", right=True)


# -- f077: beta_fast and beta_slow ------------------------------------------------------------------------------------
def make(bug):
    def frequencies():
        d, base = 128, 1e6
        fast, slow = (16.0, 2.0) if bug else (32.0, 1.0)
        w = ramp(d, base, 32768, fast, slow)
        f = base ** (-np.arange(64) / 64)
        return f * (1 - w) + f / 4.0 * w, 0.1 * np.log(4.0) + 1
    return frequencies


case("f077", make, RoPE(128, layout="half", base=1e6, scaling=YaRN(4.0, 32768)), "frequencies",
     "The ends of the ramp are fixed at 16 and 2 turns instead of beta_fast = 32 and beta_slow = 1.", "yarn-betas",
     "Use 32 and 1.")


# -- f078: Llama 3, the trained length of the new context ---------------------------------------------------------------
def make(bug):
    def frequencies():
        f = 500000.0 ** (-np.arange(32) / 32)
        wave = 2 * np.pi / f
        length = 131072 if bug else 8192
        t = np.clip((length / wave - 1.0) / 3.0, 0, 1)
        return (1 - t) * f / 32 + t * f
    return frequencies


case("f078", make, RoPE(64, layout="half", base=500000.0, scaling=Llama3Scaling(32.0, 1.0, 4.0, 8192)), "frequencies",
     "The wavelengths are compared with max_position_embeddings (131072) instead of the trained length 8192, so fewer pairs are "
     "slowed down.", "trained-length", "Use original_max_position_embeddings.")


# -- f079: cos and sin in float16 ------------------------------------------------------------------------------------------
def make(bug):
    def cos_sin(positions):
        a = np.multiply.outer(np.asarray(positions, np.float64), 10000.0 ** (-np.arange(32) / 32))
        kind = np.float16 if bug else np.float32
        return np.cos(a).astype(kind).astype(np.float32), np.sin(a).astype(kind).astype(np.float32)
    return cos_sin


case("f079", make, RoPE(64, layout="half"), "cos_sin",
     "The table is stored in float16 and widened to float32 when read: values have errors of up to 2.4e-4.", "table-float16",
     "Store the table in float32.")


# -- f080: m on cos alone ------------------------------------------------------------------------------------------------------
def make(bug):
    m = 0.1 * np.log(16.0) + 1
    w = ramp(128, 10000.0, 4096, 32.0, 1.0)
    f = 10000.0 ** (-np.arange(64) / 64)
    f = f * (1 - w + w / 16.0)

    def cos_sin(positions):
        a = np.asarray(positions, np.float64)[:, None] * f[None]
        return np.cos(a) * m, np.sin(a) * (1 if bug else m)
    return cos_sin


case("f080", make, RoPE(128, layout="half", scaling=YaRN(16.0, 4096)), "cos_sin",
     "The attention factor m multiplies the cosine only; the sine has none.", "m-cos-only", "Multiply both tables by m.")


# -- f081: fixed-point phase ------------------------------------------------------------------------------------------------
def make(bug):
    turn = np.rint(10000.0 ** (-np.arange(32) / 32) / (2 * np.pi) * 2.0 ** 24).astype(np.uint64)

    def cos_sin(positions):
        p = np.asarray(positions)
        if bug and p.dtype.kind in "iu" and p.min() >= 0:
            phase = (p.astype(np.uint64)[:, None] * turn) & np.uint64(0xFFFFFF)
            a = phase.astype(np.float64) * (2 * np.pi / 2.0 ** 24)
        else:
            a = p.astype(np.float64)[:, None] * 10000.0 ** (-np.arange(32) / 32)
        return np.cos(a), np.sin(a)
    return cos_sin


case("f081", make, RoPE(64, layout="half"), "cos_sin",
     "Frequencies are fixed-point numbers with 24 bits per turn; their rounding (up to 1.9e-7 rad) is multiplied by the position: "
     "errors of 2e-4 rad at position 1000, and a relative error of up to 1e-3 in the slowest frequencies.", "fixed-point-phase",
     "Use 64 bits for the increments, or floating point.")


# -- f082: tables by position blocks: second factor of the addition theorem ---------------------------------------------------------
def make(bug):
    f = 10000.0 ** (-np.arange(32) / 32)

    def cos_sin(positions):
        p = np.asarray(positions, np.float64)
        hi, lo = np.floor(p / 128) * 128, p - np.floor(p / 128) * 128
        ch, sh = np.cos(hi[:, None] * f), np.sin(hi[:, None] * f)
        cl, sl = np.cos(lo[:, None] * f), np.sin(lo[:, None] * f)
        return ch * cl - sh * sl, (sh * cl - ch * sl) if bug else (sh * cl + ch * sl)
    return cos_sin


case("f082", make, RoPE(64, layout="half"), "cos_sin",
     "In the addition theorem for the sine the second term has the wrong sign (sin(a-b) instead of sin(a+b)); the cosine is right. "
     "Below position 128 the sine is negated, beyond it belongs to another angle.", "addition-theorem-sign", "Add cos a sin b.")


# -- f083 right: Cody-Waite --------------------------------------------------------------------------------------------------------------
def cody_waite(positions):
    f = 10000.0 ** (-np.arange(32) / 32)
    a = np.asarray(positions, np.float64)[:, None] * f
    n = np.rint(a / (2 * np.pi))
    r = (a - n * 6.28125) - n * (2 * np.pi - 6.28125)
    return np.concatenate([np.cos(r)] * 2, -1), np.concatenate([np.sin(r)] * 2, -1)


case("f083", cody_waite, RoPE(64, layout="half"), "cos_sin",
     "Right: reduced by 2 pi in two parts, result (S, d) with both halves equal.", right=True)


# -- f084: permutation in the other direction ------------------------------------------------------------------------------------------------
def make(bug):
    def permute(w, n_heads):
        d = w.shape[0] // n_heads
        if bug:
            return w.reshape(n_heads, d // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)
        return w.reshape(n_heads, 2, d // 2, -1).swapaxes(1, 2).reshape(w.shape)
    return permute


case("f084", make, RoPE(64, layout="interleaved"), "permute_weights",
     "The permutation goes the other way, from interleaved to half (view (H, d/2, 2) transposed instead of (H, 2, d/2)).",
     "permutation-direction", "Split into (2, d/2) and transpose.")


# -- f085: permuted across heads -----------------------------------------------------------------------------------------------------------------
def make(bug):
    def permute(w, n_heads):
        n = 1 if bug else n_heads
        d = w.shape[0] // n
        order = np.arange(d).reshape(2, d // 2).T.ravel()
        index = (np.arange(n)[:, None] * d + order).ravel()
        return w[index]
    return permute


case("f085", make, RoPE(32, layout="interleaved"), "permute_weights",
     "All rows are permuted as if they were one head (n_heads is ignored), so rows move between heads.", "one-head",
     "Permute inside each head of d rows.")


# -- f086: q/k norm after the rotation --------------------------------------------------------------------------------------------------------------
def rotate(x, positions):
    z = np.exp(1j * np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(32) / 32))
    z = z[:, None] if z.ndim == 3 else z
    w = (x[..., :32] + 1j * x[..., 32:]) * z
    return np.concatenate([w.real, w.imag], -1)


def make(bug):
    def normed(x, weight, positions):
        y = x.astype(np.float64)
        n = y / np.sqrt(np.mean(y * y, -1, keepdims=True) + 1e-6)
        out = rotate(n, positions) * weight if bug else rotate(n * weight, positions)
        return out.astype(x.dtype)
    return normed


case("f086", make, RoPE(64, layout="half"), "normed_apply",
     "The norm's weight multiplies the channels after the rotation instead of before it (the division by the root mean square is "
     "in the right place).", "weight-after-rotation", "Multiply by weight before rotating.")


# -- f087: mean square over all heads -----------------------------------------------------------------------------------------------------------------
def make(bug):
    def normed(x, weight, positions):
        y = x.astype(np.float64)
        square = np.mean(y * y, axis=(1, 3) if bug else 3, keepdims=True)
        return rotate(y / np.sqrt(square + 1e-6) * weight, positions).astype(x.dtype)
    return normed


case("f087", make, RoPE(64, layout="half"), "normed_apply",
     "The mean square is taken over all heads of a token together, not over the channels of each head.", "norm-all-heads",
     "Take the mean over the last axis only.")


# -- f088: packed, documents of length 1 -----------------------------------------------------------------------------------------------------------------
def make(bug):
    def packed(lengths):
        lengths = np.asarray(lengths, np.int64)
        steps = np.ones(int(lengths.sum()), np.int64)
        if steps.size:
            steps[0] = 0
        full = lengths if bug else lengths[lengths > 0]
        ends = np.cumsum(full)[:-1]
        jump = 1 - full[:-1]
        keep = ends < steps.size
        if bug:
            steps[ends[keep]] = jump[keep]
        else:
            np.put(steps, ends, jump)
        return np.cumsum(steps)
    return packed


case("f088", make, None, "packed",
     "Resets are written with steps[ends] = 1 - length; a document of length 0 has the same end as the one before, its jump "
     "overwrites the other, and all later documents do not start at 0.", "empty-document", "Leave empty documents out.")


# -- f089: packed with cu_seqlens reset by the longest -------------------------------------------------------------------------------------------------------
def make(bug):
    def packed(lengths):
        out = []
        for n, length in enumerate(lengths):
            out.extend(range(0 if not (bug and n and length == 1) else 1, length + (1 if bug and n and length == 1 else 0)))
        return np.array(out, np.int64)
    return packed


case("f089", make, None, "packed",
     "A document of one token that is not the first is at position 1 instead of 0.", "single-token-document",
     "Start every document at 0.")


# -- f090: position_ids: right for left padding only -----------------------------------------------------------------------------------------------------------
def make(bug):
    def ids(mask):
        m = np.asarray(mask).astype(np.int64)
        if bug:
            first = m.argmax(axis=-1)
            return np.maximum(np.arange(m.shape[-1]) - first[:, None], 0)
        return np.maximum(np.cumsum(m, -1) - 1, 0)
    return ids


case("f090", make, None, "position_ids",
     "Positions count from the first real token, padding in between included: gaps inside a row (mask 1 0 1) are counted.",
     "inner-padding", "Use cumsum(mask) - 1.")


# -- f091: decode positions in a batch -------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def decode_positions(prompt_len, n_steps):
        p = np.asarray(prompt_len)
        if p.ndim:
            start = np.full_like(p, p.max()) if bug else p
            return start[:, None] + np.arange(n_steps)
        return int(p) + np.arange(n_steps)
    return decode_positions


case("f091", make, None, "decode_positions",
     "All rows of a batch continue at the longest prompt's length instead of their own.", "longest-prompt",
     "Start row b at prompt_len[b].")


# -- f092: context-parallel second chunk ---------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def shard(cu_seqlens, cp_size, cp_rank):
        out = []
        for a, b in zip(cu_seqlens[:-1], cu_seqlens[1:]):
            c = int(b - a) // (2 * cp_size)
            for n in (cp_rank, cp_rank + cp_size if bug else 2 * cp_size - 1 - cp_rank):
                out.append(np.arange(n * c, (n + 1) * c))
        return np.concatenate(out) if out else np.zeros(0, np.int64)
    return shard


case("f092", make, None, "shard_positions",
     "The second chunk of a rank is cp_rank + cp_size instead of the mirrored one, 2 cp_size - 1 - cp_rank.", "zigzag",
     "Take chunk 2 * cp_size - 1 - cp_rank.")


# -- f093 right: positions by matching starts -----------------------------------------------------------------------------------------------------------------------------
def packed_searchsorted(lengths):
    ends = np.cumsum(np.asarray(lengths, np.int64)) if len(lengths) else np.zeros(0, np.int64)
    at = np.arange(int(ends[-1]) if ends.size else 0)
    starts = np.concatenate([[0], ends]).astype(np.int64)
    return at - starts[np.searchsorted(ends, at, side="right")]


case("f093", packed_searchsorted, None, "packed", "Right: binary search in the cumulative lengths.", right=True)


# -- f094: RoBERTa, padding keeps counting ---------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def ids(tokens):
        real = (np.asarray(tokens) != 1).astype(np.int64)
        n = np.cumsum(real, axis=0 if bug and tokens.shape[0] > 1 else -1)
        return n * real + 1
    return ids


case("f094", make, Learned(np.random.default_rng(94).normal(size=(600, 8)).astype(np.float32), padding_idx=1), "ids_from_tokens",
     "With more than one row the cumulative sum runs over the batch axis instead of the tokens.", "cumsum-axis",
     "Use axis=-1.")


# -- f095: softmax scale of DeepSeek without the square --------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def scale():
        m = 0.1 * 1.0 * np.log(40.0) + 1.0
        return 192 ** -0.5 * (m if bug else m * m)
    return scale


case("f095", make, preset("deepseek-v3"), "softmax_scale",
     "The softmax scale contains mscale once, not squared.", "mscale-not-squared", "Multiply by mscale * mscale.")


# -- f096: attention, grouped heads taken in the wrong order -----------------------------------------------------------------------------------------------------------------------
def make(bug):
    def attention(q, k, v, q_positions, k_positions):
        g = q.shape[1] // k.shape[1]
        expand = (lambda t: np.concatenate([t] * g, 1)) if bug else (lambda t: np.repeat(t, g, 1))
        q = q.astype(np.float64)
        k, v = expand(k).astype(np.float64), expand(v).astype(np.float64)
        s = rotate(q, q_positions) @ rotate(k, k_positions).swapaxes(-1, -2) / 8.0
        n, m = s.shape[-2:]
        s = np.where(np.arange(m) > np.arange(n)[:, None] + m - n, -np.inf, s)
        w = np.exp(s - s.max(-1, keepdims=True))
        return (w / w.sum(-1, keepdims=True) @ v).astype(np.float32)
    return attention


case("f096", make, Attention(RoPE(64, layout="half")), "attention",
     "With grouped heads, query head h reads key head h % H_kv (the heads are tiled) instead of h // (H/H_kv) (repeated).",
     "gqa-tile", "Repeat every key head g times in place.")
