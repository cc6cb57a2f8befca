import math
import functools
import itertools

import numpy as np

import posenc_ref as P

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


_rng = np.random.default_rng(41)


def _pos(q_len, k_len):
    return np.arange(k_len - q_len, k_len)[:, None], np.arange(k_len)[None]


_R1, _R2 = _rng.uniform(0.1, 2, 4), _rng.uniform(0.1, 1.9, 4)


# ---- m076 kerple: log base / r1 inside
def make(bug):
    r1, r2 = _R1[:, None, None], _R2[:, None, None]
    def bias(q_len, k_len):
        i, j = _pos(q_len, k_len)
        d = np.abs(i - j)
        return -np.log1p(r1 * r2 * d) if bug else -r1 * np.log1p(r2 * d)
    return bias
case("m076", make, P.Kerple(_R1, _R2), "bias",
     "r1 is multiplied inside the logarithm instead of multiplying the logarithm.", "kerple-r1-inside", "-r1 * log(1 + r2 d)")


# ---- m077 kerple power: exponent on the product
def make(bug):
    def bias(q_len, k_len):
        i, j = _pos(q_len, k_len)
        out = []
        for a, p in zip(_R1, _R2):
            d = np.abs(i - j).astype(float)
            out.append(-((a * d) ** p) if bug else -a * d ** p)
        return np.array(out)
    return bias
case("m077", make, P.Kerple(_R1, _R2, form="power"), "bias",
     "The power is taken of r1 |i - j| instead of |i - j| alone.", "kerple-power-of-product", "multiply by r1 after the power")


# ---- m078 kerple: parameters clamped from above at 1
def make(bug):
    r1 = np.clip(_R1, 0.01, 1.0 if bug else None)[:, None, None]
    r2 = np.clip(_R2, 0.01, None)[:, None, None]
    def bias(q_len, k_len):
        i, j = _pos(q_len, k_len)
        return -r1 * np.log(1 + r2 * np.abs(i - j))
    return bias
case("m078", make, P.Kerple(_R1, _R2), "bias",
     "r1 is clamped to at most 1, which changes the heads with a larger r1.", "kerple-clamp-above", "clamp from below at 0.01 only")


# ---- m079 FIRE
_FH, _FB, _FO = _rng.standard_normal((12, 1)), _rng.standard_normal(12), _rng.standard_normal((3, 12))
_FOB = _rng.standard_normal(3)
def _fire(i, j, c=0.1, L=512.0, eps=1e-6, norm=None):
    d = np.maximum(i - j, 0)
    n = np.log1p(c * np.maximum(i if norm is None else norm, L)) + eps
    x = np.log1p(c * d) / n
    return (np.maximum(x[..., None] * _FH[:, 0] + _FB, 0) @ _FO.T + _FOB).transpose(2, 0, 1)
def make(bug):
    def bias(q_len, k_len):
        i, j = _pos(q_len, k_len)
        return _fire(i, j, L=8.0, norm=np.full_like(i, k_len - 1) if bug else None)
    return bias
case("m079", make, P.FIRE(_FH, _FB, _FO, _FOB, length=8.0), "bias",
     "The distances are normalised by the last position of the sequence instead of the query's own position.",
     "fire-norm-last", "use max(i, length) of each query")


# ---- m080 FIRE: threshold omitted
def make(bug):
    def bias(q_len, k_len):
        i, j = _pos(q_len, k_len)
        return _fire(i, j, L=0.0 if bug else 32.0, eps=1e-6)
    return bias
case("m080", make, P.FIRE(_FH, _FB, _FO, _FOB, length=32.0), "bias",
     "The threshold is missing: queries before position `length` are normalised by their own position instead of `length`.",
     "fire-threshold-missing", "use max(i, length)")


# ---- m081 FIRE: positions from 1
def make(bug):
    def bias(q_len, k_len):
        i, j = _pos(q_len, k_len)
        return _fire(i, j, L=16.0, c=0.5, norm=i + 1 if bug else i)
    return bias
case("m081", make, P.FIRE(_FH, _FB, _FO, _FOB, c=0.5, length=16.0), "bias",
     "The normaliser takes the query's position counted from 1 instead of from 0.", "fire-position-from-1", "count from 0")


# ---- m082 sandwich: k from 0
def make(bug):
    def bias(q_len, k_len):
        i, j = _pos(q_len, k_len)
        k = np.arange(0, 16) if bug else np.arange(1, 17)
        s = np.cos((i - j)[..., None] / 10000.0 ** (2 * k / 32)).sum(-1) - 16
        return s / (8 * np.arange(1, 9)[:, None, None] / 8)
    return bias
case("m082", make, P.Sandwich(8, 32), "bias",
     "The frequencies count k from 0, as in the Transformer's sinusoids, instead of from 1.", "sandwich-k0", "sum over k = 1 .. dim/2")


# ---- m083 sandwich: head divisor from 0-based / multiplied
def make(bug):
    def bias(q_len, k_len):
        i, j = _pos(q_len, k_len)
        w = 10000.0 ** (-2 * np.arange(1, 9) / 16)
        s = np.einsum("qkw->qk", np.cos(np.multiply.outer(i - j, w))) - 8
        h = np.arange(1, 5)
        if bug:
            h = h[::-1]
        return s[None] * (4 / (8.0 * h))[:, None, None]
    return bias
case("m083", make, P.Sandwich(4, 16), "bias",
     "The divisors of the heads are in reversed order: head 1 has that of the last.", "sandwich-head-order", "divide head h by 8h/H")


# ---- m084 dynamic bias: log distance sign lost
_W = (_rng.standard_normal((6, 1)), _rng.standard_normal((6, 6)) / 2, _rng.standard_normal((4, 6)) / 2)
_B = tuple(_rng.standard_normal(n) for n in (6, 6, 4))
def _mlp(x, act=lambda v: v / (1 + np.exp(-v))):
    for w, b in zip(_W[:-1], _B[:-1]):
        x = act(x @ w.T + b)
    return x @ _W[-1].T + _B[-1]
def make(bug):
    def bias(q_len, k_len):
        i, j = _pos(q_len, k_len)
        r = (i - j).astype(float)
        x = np.log1p(np.abs(r)) * (1 if bug else np.sign(r))
        return np.moveaxis(_mlp(x[..., None]), -1, 0)
    return bias
case("m084", make, P.DynamicBias(_W, _B, log_distance=True), "bias",
     "The sign of the offset is lost in the logarithm, so keys before and after the query have the same bias.",
     "dyn-log-sign", "multiply by sign(i - j)")


# ---- m085 dynamic bias: index window of table built with n keys but gathered i-j + n with q offset
def make(bug):
    def bias(q_len, k_len):
        n = k_len
        t = _mlp(np.arange(-n + 1, n, dtype=float)[:, None])
        i, j = _pos(q_len, k_len)
        row = i - j + n - 1
        return t[row[:, ::-1] if bug and q_len != k_len else row].transpose(2, 0, 1)
    return bias
case("m085", make, P.DynamicBias(_W, _B), "bias",
     "With a cache (fewer queries than keys), the columns are gathered in reversed order, so the first key gets the bias of the last.",
     "dyn-decode-reversed", "keep the order of the keys in the cached branch")


# ---- m086 dynamic bias: ReLU instead of SiLU
def make(bug):
    def bias(q_len, k_len):
        i, j = _pos(q_len, k_len)
        return _mlp((i - j)[..., None].astype(float), **(dict(act=lambda v: np.maximum(v, 0)) if bug else {})).transpose(2, 0, 1)
    return bias
case("m086", make, P.DynamicBias(_W, _B), "bias",
     "The network uses ReLU instead of SiLU between its layers.", "dyn-relu", "use SiLU")


# ---- m087 residue bias: transposed
_RT = _rng.standard_normal((17, 5)).astype(np.float32)
def make(bug):
    def bias(q_len, k_len):
        i, j = _pos(q_len, k_len)
        row = np.clip(i - j + 8, 0, 16)
        if bug:
            row = np.clip(i - j, -8, 7) + 8
        return _RT.T[:, row]
    return bias
case("m087", make, P.ResidueBias(_RT), "bias",
     "Offsets are clipped to r - 1 = 7 from above instead of r = 8, so the last row is never used.", "residue-clip-upper", "clip to -r .. r")


# ---- m088 residue bias cyclic
def make(bug):
    def bias(q_len, k_len):
        i, j = _pos(q_len, k_len)
        d = i - j
        m = np.abs(d) % 11
        m = np.where(2 * m > 11, (11 - m) if bug else m - 11, m)
        return _RT[np.clip(np.sign(d) * m, -8, 8) + 8].transpose(2, 0, 1)
    return bias
case("m088", make, P.ResidueBias(_RT, period=11), "bias",
     "Offsets that are shorter round the ring get the wrong sign: the last residue counts as after the first instead of before.",
     "cyclic-sign", "use m - period there, with the sign of the offset")


# ---- m089 forgetting: includes the key's gate
_LG = -np.abs(_rng.standard_normal((4, 24)))
def make(bug):
    def bias(q_len, k_len):
        c = np.cumsum(_LG, -1)
        before = c - _LG
        q = (c)[:, k_len - q_len:k_len, None]
        return q - (before if bug else c)[:, None, :k_len]
    return bias
case("m089", make, P.ForgettingBias(_LG), "bias",
     "The sum includes the key's own gate (t = j .. i instead of j + 1 .. i).", "forget-key-gate", "subtract the inclusive sum at the key")


# ---- m090 forgetting: decode rows from start
def make(bug):
    def bias(q_len, k_len):
        c = np.cumsum(_LG, -1)
        q0 = 0 if bug else k_len - q_len
        return c[:, q0:q0 + q_len, None] - c[:, None, :k_len]
    return bias
case("m090", make, P.ForgettingBias(_LG), "bias",
     "The cumulative sums of the queries are taken from token 0 on instead of from the last q_len tokens.", "forget-query-offset", "slice [k_len - q_len : k_len]")


# ---- m091 right: FIRE float64 vectorised by query loop
def make(bug):
    def bias(q_len, k_len):
        rows = []
        for i in range(k_len - q_len, k_len):
            d = np.clip(i - np.arange(k_len), 0, None)
            x = np.log1p(0.1 * d) / (np.log1p(0.1 * max(i, 64)) + 1e-6)
            rows.append(_FO @ np.maximum(np.outer(_FH[:, 0], x) + _FB[:, None], 0) + _FOB[:, None])
        return np.stack(rows, 1)
    return bias
case("m091", make, P.FIRE(_FH, _FB, _FO, _FOB, length=64.0), "bias", "Right: FIRE row by row.", "right")


# ---- m092 right: forgetting by masked matmul of segment sums
def make(bug):
    def bias(q_len, k_len):
        S = k_len
        low = np.tril(np.ones((S, S)), 0)
        seg = np.zeros((4, S, S))
        for j in range(S):
            seg[:, j + 1:, j] = np.cumsum(_LG[:, j + 1:S], axis=-1)
        return (seg * low)[:, S - q_len:]
    return bias
case("m092", make, P.ForgettingBias(_LG), "bias", "Right: one cumulative sum for each key, zero after the query.", "right")


# ---- m093 right: Sandwich by complex powers, without constant
def make(bug):
    w = 10000.0 ** (-2 * np.arange(1, 17) / 32)
    def bias(q_len, k_len):
        z = np.exp(1j * np.outer(np.arange(k_len), w))
        s = (z[k_len - q_len:] @ z.conj().T).real
        return s[None] / np.arange(1, 9)[:, None, None]
    return bias
case("m093", make, P.Sandwich(8, 32), "bias", "Right: inner products of complex sinusoids, without the constant dim/2.", "right")
