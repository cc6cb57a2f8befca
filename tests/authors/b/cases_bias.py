"""Biases of sequences: ALiBi, KERPLE, Sandwich, FIRE, dynamic and forgetting biases."""

import math

import numpy as np

from posenc_ref import ALiBi, DynamicBias, FIRE, ForgettingBias, Kerple, Sandwich

CASES = []


def case(id, fn, encoding, surface, cause, key, remedy="", mended=None, right=False, settings=None):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings or {},
            right=right,
            cause=cause,
            cause_key=key,
            remedy=remedy,
            mended=mended,
        )
    )


def positions(q_len, k_len):
    return np.arange(k_len - q_len, k_len), np.arange(k_len)


# ---------------------------------------------------------------- slopes
def powers(n, most=8.0):
    start = 2.0 ** (-most / n)
    return [start ** (i + 1) for i in range(n)]


def true_slopes(n, most=8.0):
    c = 2 ** int(math.floor(math.log2(n)))
    return powers(c, most) + powers(2 * c, most)[0::2][: n - c]


# b001: tiles of keys
def tiled_alibi(fixed):
    def bias(q_len, k_len):
        m = np.array(true_slopes(8))[:, None, None]
        i = np.arange(k_len - q_len, k_len)
        out = np.zeros((8, q_len, k_len), np.float32)
        for t, lo in enumerate(range(0, k_len, 16)):
            start = lo
            if lo + 16 > k_len and k_len >= 16:  # move the last tile back so that it is full
                start = k_len - 16
            column = (start if fixed else lo) + np.arange(min(16, k_len))
            out[:, :, start : start + 16] = -m * np.abs(i[:, None] - column)
        return out

    return bias


case(
    "b001",
    tiled_alibi(False),
    ALiBi(8),
    "bias",
    "The last, partial tile of 16 keys is moved back so that it is full, but its distances are still computed "
    "from the unmoved tile start, so the last 16 keys get distances of keys up to 15 places later (only if k_len "
    "is not a multiple of 16).",
    "tile-remainder-start",
    "compute the columns of the tile from the moved start",
    tiled_alibi(True),
)


# b002: extra heads from the wrong half
def slopes_extra(fixed):
    def slopes(num_heads):
        c = 1 << (num_heads.bit_length() - 1)
        found = powers(c)
        if c < num_heads:
            found += powers(2 * c)[(0 if fixed else 1) :: 2][: num_heads - c]
        return np.array(found, np.float32)

    return slopes


case(
    "b002",
    slopes_extra(False),
    ALiBi(12),
    "slopes",
    "For head counts that are no power of two the extra heads take slopes 2, 4, 6, ... of the 2c-head recipe "
    "instead of 1, 3, 5, ..., so they repeat the slopes of the first heads.",
    "slopes-extra-parity",
    "slice the doubled recipe with [0::2]",
    slopes_extra(True),
)


# b003: sorted
def slopes_sorted(fixed):
    def slopes(num_heads):
        s = np.asarray(true_slopes(num_heads))
        return s if fixed else -np.sort(-s)

    return slopes


case(
    "b003",
    slopes_sorted(False),
    ALiBi(24),
    "slopes",
    "The slopes of the extra heads (head count no power of two) are merged into descending order instead of being "
    "appended, so slopes are assigned to other heads.",
    "slopes-order",
    "append, do not sort",
    slopes_sorted(True),
)


# b004: max_bias on the first heads only
def mpt_bias(fixed):
    def bias(q_len, k_len):
        n, most = 12, 16.0
        first = powers(8, most)
        extra = powers(16, most if fixed else 8.0)[0::2][:4]
        m = np.array(first + extra)
        q, k = positions(q_len, k_len)
        return (-m[:, None, None] * np.abs(q[:, None] - k)).astype(np.float32)

    return bias


case(
    "b004",
    mpt_bias(False),
    ALiBi(12, max_bias=16.0),
    "bias",
    "alibi_bias_max = 16 is used for the first 8 heads only; the 4 extra heads (8 .. 11) have the slopes of the "
    "default maximum 8.",
    "max-bias-extra-heads",
    "pass max_bias to the second recipe too",
    mpt_bias(True),
)


# b005: ranks
def rank_slopes(fixed):
    def of_rank(num_heads, tp_size, tp_rank):
        s = np.array(true_slopes(num_heads))
        if fixed:
            return np.split(s, tp_size)[tp_rank]
        return s[tp_rank::tp_size]

    return of_rank


case(
    "b005",
    rank_slopes(False),
    ALiBi(16),
    "rank_slopes",
    "A tensor-parallel rank takes every tp_size-th slope (strided) instead of the contiguous block of its heads.",
    "rank-strided",
    "slice [rank * H/tp : (rank+1) * H/tp]",
    rank_slopes(True),
)


def rank_recomputed(fixed):
    def of_rank(num_heads, tp_size, tp_rank):
        if tp_size == 1 or fixed:
            s = true_slopes(num_heads)
            per = num_heads // tp_size
            return np.array(s[tp_rank * per : (tp_rank + 1) * per])
        per = num_heads // tp_size
        base = 2.0 ** (-8.0 / num_heads)
        return np.array([base ** (tp_rank * per + h + 1) for h in range(per)])

    return of_rank


case(
    "b006",
    rank_recomputed(False),
    ALiBi(12),
    "rank_slopes",
    "With tp_size > 1 the rank evaluates 2**(-8h/n) for its global heads directly, which ignores the rule for head "
    "counts that are no power of two; right without tensor parallelism and for powers of two.",
    "rank-non-power",
    "slice the full list of slopes",
    rank_recomputed(True),
)


# b007: not causal, signed distance
def encoder_alibi(fixed):
    def bias(q_len, k_len):
        q, k = positions(q_len, k_len)
        r = (k[None, :] - q[:, None]).astype(np.float32)
        if fixed:
            r = -np.abs(r)
        return np.float32(true_slopes(4))[:, None, None] * r[None]

    return bias


case(
    "b007",
    encoder_alibi(False),
    ALiBi(4, causal=False),
    "bias",
    "In a bidirectional encoder the bias is slope * (key - query) without the absolute value, so later keys are "
    "rewarded by their distance instead of penalised.",
    "symmetric-abs-missing",
    "use -abs(key - query)",
    encoder_alibi(True),
)


# b008: slopes in half precision
def bf16(x):
    u = np.asarray(x, np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def brain_bias(fixed):
    def bias(q_len, k_len):
        m = np.float32(true_slopes(16))[:, None, None]
        q, k = positions(q_len, k_len)
        if not fixed:
            m = bf16(m)
        return -m * np.abs(q[:, None] - k).astype(np.float32)

    return bias


case(
    "b008",
    brain_bias(False),
    ALiBi(16),
    "bias",
    "The slopes are a buffer in bfloat16, so the slopes 2**-(h/2) with odd h (1, 3, ... counted from 1) are "
    "0.011 % too small; those with a whole power of two are exact.",
    "slopes-bfloat16",
    "keep the slopes in float32",
    brain_bias(True),
)


# b009 right: broadcast form
def per_key(q_len, k_len):
    m = np.array(true_slopes(8), np.float32)
    return (m[:, None] * np.arange(1 - k_len, 1, dtype=np.float32))[:, None, :]


case(
    "b009",
    per_key,
    ALiBi(8),
    "bias",
    "Right: BLOOM's form, slope times (j - last key) of shape (H, 1, K), which differs from the definition by a "
    "constant for each query only.",
    "right",
    right=True,
)


# b010: Falcon scale
def falcon(fixed):
    def logits(q, k):
        s = np.float32(1 / math.sqrt(q.shape[-1]))
        i, j = positions(q.shape[2], k.shape[2])
        b = np.float32(-np.array(true_slopes(8))[:, None, None] * np.abs(i[:, None] - j))
        dot = np.matmul(q, np.swapaxes(k, -1, -2))
        return (dot + b) * s if fixed else dot * s + b

    return logits


case(
    "b010",
    falcon(False),
    ALiBi(8, bias_inside_scale=True),
    "scores",
    "Falcon-RW divides the sum of q.k and the bias by sqrt(d); here the bias is added after the division, so it is "
    "sqrt(d) times too large.",
    "bias-scale-side",
    "add the bias before the scale",
    falcon(True),
)


# b011: query position in decode, one-token step only
def decode_scores(fixed):
    m = np.array(true_slopes(4), np.float32)

    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        out = np.einsum("bhid,bhjd->bhij", q, k) / np.float32(np.sqrt(q.shape[-1]))
        first = K - Q
        if Q == 1 and not fixed:
            first = 0
        for i in range(Q):
            out[:, :, i] -= m[:, None] * np.abs(np.arange(K, dtype=np.float32) - (first + i))
        return out

    return logits


case(
    "b011",
    decode_scores(False),
    ALiBi(4),
    "scores",
    "With a single query (a decoding step) the query is taken to be at position 0 instead of K - 1, so the newest "
    "keys get the largest penalty; longer query blocks are right.",
    "single-query-position",
    "use K - Q for Q = 1 too",
    decode_scores(True),
)


# b012/13 Kerple
R1, R2 = (0.5, 1.0, 2.0, 0.1), (0.03, 0.5, 1.0, 4.0)


def kerple_log(fixed):
    def bias(q_len, k_len):
        q, k = positions(q_len, k_len)
        out = np.empty((4, q_len, k_len), np.float32)
        for h, (a, b) in enumerate(zip(R1, R2)):
            d = np.abs(q[:, None] - k)
            out[h] = -a * np.log1p(b * d) if fixed else -a * b * np.log1p(d)
        return out

    return bias


case(
    "b012",
    kerple_log(False),
    Kerple(R1, R2),
    "bias",
    "r2 stands in front of the logarithm instead of inside it: -r1 r2 log(1 + d) instead of -r1 log(1 + r2 d); "
    "right for the head with r2 = 1 only.",
    "factor-outside-log",
    "log1p(r2 * d)",
    kerple_log(True),
)

P1, P2 = (0.2, 0.05, 0.3, 0.01), (0.5, 1.0, 1.4, 1.9)


def kerple_power(fixed):
    top = 2.0 if fixed else 1.0

    def bias(q_len, k_len):
        q, k = positions(q_len, k_len)
        d = np.abs(q[:, None] - k).astype(np.float64)
        return np.float32([-max(a, 0.01) * d ** min(max(b, 0.01), top) for a, b in zip(P1, P2)])

    return bias


case(
    "b013",
    kerple_power(False),
    Kerple(P1, P2, form="power"),
    "bias",
    "The exponent r2 of the power form is clamped to at most 1 instead of 2, so heads with r2 > 1 (heads 2 and 3) "
    "are linear in the distance.",
    "wrong-clamp",
    "clamp r2 to (0.01, 2)",
    kerple_power(True),
)


def kerple_exp(q_len, k_len):
    q, k = positions(q_len, k_len)
    d = np.abs(q[:, None] - k).astype(np.float64)
    with np.errstate(divide="ignore"):
        logs = np.log(d)
    return np.stack([-np.exp(np.log(a) + b * logs) for a, b in zip(P1, P2)]).astype(np.float32)


case(
    "b014",
    kerple_exp,
    Kerple(P1, P2, form="power"),
    "bias",
    "Right: the power is computed as exp(log r1 + r2 log d) in float64, with log 0 = -inf for distance 0.",
    "right",
    right=True,
)


# Sandwich
def sandwich(first, head=None, dim=32, heads=4):
    def bias(q_len, k_len):
        q, k = positions(q_len, k_len)
        d = (q[:, None] - k).astype(np.float64)
        total = np.zeros_like(d)
        for n in range(first, first + dim // 2):
            total += np.cos(d / 10000.0 ** (2 * n / dim))
        total -= dim / 2
        ratio = np.array([8 * h / heads for h in range(1, heads + 1)])
        if head == "reversed":
            ratio = ratio[::-1]
        return np.float32(total[None] / ratio[:, None, None])

    return bias


case(
    "b015",
    sandwich(0),
    Sandwich(4, 32),
    "bias",
    "The sum over the cosines runs over k = 0 .. dim/2 - 1 as in the Transformer's sinusoids, not over "
    "k = 1 .. dim/2.",
    "sum-start",
    "start the exponents at k = 1",
    sandwich(1),
)
case(
    "b016",
    sandwich(1, "reversed"),
    Sandwich(4, 32),
    "bias",
    "The compression ratios 8h/H are assigned to the heads in reversed order (head 0 gets 8 instead of 8/H).",
    "heads-reversed",
    "ratio of head h (from 1) is 8h/H",
    sandwich(1),
)


def sandwich_gram(q_len, k_len):
    q, k = positions(q_len, k_len)
    w = 10000.0 ** (-2 * np.arange(1, 17) / 32)

    def table(p):
        a = p[:, None] * w
        return np.concatenate([np.sin(a), np.cos(a)], axis=1)

    gram = table(q) @ table(k).T
    return np.float32(gram[None] / (8 * np.arange(1, 5) / 4)[:, None, None])


case(
    "b017",
    sandwich_gram,
    Sandwich(4, 32),
    "bias",
    "Right: the Gram matrix of two sinusoidal tables, without the constant dim/2, which softmax ignores.",
    "right",
    right=True,
)

# FIRE
_r = np.random.default_rng(11)
F = dict(
    hidden=_r.standard_normal((8, 1)),
    hidden_bias=_r.standard_normal(8),
    output=_r.standard_normal((4, 8)),
    output_bias=_r.standard_normal(4),
)
FIRE24 = FIRE(F["hidden"], F["hidden_bias"], F["output"], F["output_bias"], c=0.7, length=24.0)


def fire(mode):
    def bias(q_len, k_len):
        q, k = positions(q_len, k_len)
        d = np.maximum(q[:, None] - k, 0).astype(np.float64)
        place = {
            "query": q[:, None],
            "key": k[None, :],
            "last": np.full((q_len, 1), k_len - 1),
        }.get(mode, q[:, None])
        limit = np.minimum(place, 24.0) if mode == "min" else np.maximum(place, 24.0)
        x = np.log1p(0.7 * d) / (np.log1p(0.7 * limit) + 1e-6)
        h = np.maximum(x[..., None] @ F["hidden"].T + F["hidden_bias"], 0)
        return np.float32(np.moveaxis(h @ F["output"].T + F["output_bias"], -1, 0))

    return bias


case(
    "b018",
    fire("key"),
    FIRE24,
    "bias",
    "The normaliser psi(max(., L)) uses the position of the key instead of the query; visible for queries beyond "
    "L = 24.",
    "normaliser-of-key",
    "normalise by the query's position",
    fire("query"),
)
case(
    "b019",
    fire("last"),
    FIRE24,
    "bias",
    "Every query is normalised by the last position of the call (K - 1) instead of its own position, so all rows "
    "but the last are wrong once K - 1 > L = 24.",
    "normaliser-of-length",
    "normalise row i by max(i, L)",
    fire("query"),
)

# Dynamic position bias
DW = (_r.standard_normal((6, 1)), _r.standard_normal((6, 6)) / 2, _r.standard_normal((3, 6)))
DB = (_r.standard_normal(6), _r.standard_normal(6), _r.standard_normal(3))
DG, DS = (
    (1 + 0.1 * _r.standard_normal(6), 1 + 0.1 * _r.standard_normal(6)),
    (np.zeros(6), 0.1 * _r.standard_normal(6)),
)
DYN_LOG = DynamicBias(DW, DB, log_distance=True)
DYN_NORM = DynamicBias(DW, DB, gains=DG, shifts=DS)


def mlp(x, norm=None):
    for n, (w, b) in enumerate(zip(DW, DB)):
        x = x @ w.T + b
        if n == len(DW) - 1:
            return x
        if norm is not None:
            var = x.var(-1, keepdims=True, ddof=norm)
            x = (x - x.mean(-1, keepdims=True)) / np.sqrt(var + 1e-5) * DG[n] + DS[n]
        x = x / (1 + np.exp(-x))


def dyn_log(fixed):
    def bias(q_len, k_len):
        q, k = positions(q_len, k_len)
        r = (q[:, None] - k).astype(np.float64)
        x = np.log1p(np.abs(r))
        if fixed:
            x = np.sign(r) * x
        return np.float32(np.moveaxis(mlp(x[..., None]), -1, 0))

    return bias


case(
    "b020",
    dyn_log(False),
    DYN_LOG,
    "bias",
    "The logarithmic distance loses its sign: log(1 + |i - j|) instead of sign(i - j) log(1 + |i - j|), so keys "
    "after the query get the bias of keys before it.",
    "sign-lost",
    "multiply by sign(i - j)",
    dyn_log(True),
)


def dyn_norm(ddof):
    def bias(q_len, k_len):
        q, k = positions(q_len, k_len)
        return np.float32(np.moveaxis(mlp((q[:, None] - k)[..., None] * 1.0, ddof), -1, 0))

    return bias


case(
    "b021",
    dyn_norm(1),
    DYN_NORM,
    "bias",
    "The LayerNorm in the bias network divides by the unbiased variance (n - 1 instead of n channels).",
    "layernorm-unbiased",
    "divide by n",
    dyn_norm(0),
)


def dyn_table(q_len, k_len):
    n = q_len + k_len - 1
    table = mlp(
        (np.arange(n) - (q_len - 1.0))[::-1, None], 0
    )  # offsets i - j from k_len-1 ... down
    # row t of the reversed list belongs to i - j = k_len - 1 - t
    i, j = np.arange(k_len - q_len, k_len)[:, None], np.arange(k_len)
    return np.float32(table[(k_len - 1) - (i - j)].transpose(2, 0, 1))


case(
    "b022",
    dyn_table,
    DYN_NORM,
    "bias",
    "Right: the network is evaluated once for each of the Q + K - 1 offsets and gathered.",
    "right",
    right=True,
)

# Forgetting Transformer
GATES = -np.log1p(np.exp(-_r.standard_normal((3, 200)) - 1.0))
FOX = ForgettingBias(GATES)


def fox_exclusive(fixed):
    def bias(q_len, k_len):
        c = np.cumsum(GATES[:, :k_len], axis=1)
        if not fixed:
            c = c - GATES[:, :k_len]
        return np.float32(c[:, k_len - q_len :, None] - c[:, None, :])

    return bias


case(
    "b023",
    fox_exclusive(False),
    FOX,
    "bias",
    "The cumulative sum is exclusive: the bias sums the log gates of tokens j .. i-1 (key included, query excluded) "
    "instead of j+1 .. i.",
    "exclusive-sum",
    "use the inclusive cumulative sum",
    fox_exclusive(True),
)


def fox_blocks(fixed):
    def bias(q_len, k_len):
        g = GATES[:, :k_len]
        out = np.empty_like(g)
        carry = np.zeros(3)
        for lo in range(0, k_len, 32):
            part = np.cumsum(g[:, lo : lo + 32], axis=1)
            out[:, lo : lo + 32] = part + carry[:, None]
            carry = carry + part[:, -1] if fixed else part[:, -1]
        return np.float32(out[:, k_len - q_len :, None] - out[:, None, :])

    return bias


case(
    "b024",
    fox_blocks(False),
    FOX,
    "bias",
    "The blockwise scan (32 tokens) carries only the sum of the previous block, not the running total, so pairs "
    "that touch the third block (token 64) or later are wrong.",
    "scan-carry",
    "accumulate the carry",
    fox_blocks(True),
)


def fox_scan(q_len, k_len):
    """Direct accumulation away from the diagonal, row by row."""
    out = np.zeros((3, q_len, k_len))
    for a, i in enumerate(range(k_len - q_len, k_len)):
        acc = np.zeros(3)
        for j in range(i - 1, -1, -1):
            acc = acc + GATES[:, j + 1]
            out[:, a, j] = acc
    return np.float32(out)


case(
    "b025",
    fox_scan,
    FOX,
    "bias",
    "Right: a double loop that walks from the query back to each key; keys after the query stay 0.",
    "right",
    right=True,
)


# ALiBi: one more, the future of a chunk
def chunked_prefill(fixed):
    m = np.array(true_slopes(8), np.float64)

    def bias(q_len, k_len):
        out = np.zeros((8, q_len, k_len), np.float32)
        past = k_len - q_len
        for lo in range(0, q_len, 32):
            hi = min(lo + 32, q_len)
            rows = past + np.arange(lo, hi) if fixed or not lo else past + np.arange(lo, hi) - 1
            out[:, lo:hi] = -m[:, None, None] * np.abs(rows[:, None] - np.arange(k_len))
        return out

    return bias


case(
    "b026",
    chunked_prefill(False),
    ALiBi(8, causal=False),
    "bias",
    "In every chunk of 32 queries after the first the query positions start one too low, so distances to earlier "
    "keys are one too small and to later keys one too large (a constant per row on the causal side only).",
    "chunk-start-off-by-one",
    "start the chunk at past + lo",
    chunked_prefill(True),
)
