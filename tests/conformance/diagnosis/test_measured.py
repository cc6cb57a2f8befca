"""Mistakes whose numbers are measured: bounds, tiles, constants, factors, heads and rows."""

import numpy as np
import pytest

from posenc_ref import (
    FIRE,
    CoPE,
    FourierFeatures,
    Kerple,
    Learned,
    LeViTBias,
    LogCPB,
    Sandwich,
    Shaw,
    Sinusoidal,
    Sinusoidal2D,
    SwinBias,
    Time2Vec,
)
from posenc_ref.conformance import check
from tests.night import by_day

RNG = np.random.default_rng(5)
R1, R2 = np.array([0.5, 1.25, 1.5, 2.0]), np.array([1.75, 0.5, 1.25, 0.25])
KERPLE = Kerple(R1, R2)
SWIN = RNG.standard_normal((15, 4))
LEVIT = RNG.standard_normal((20, 2))
SHAW = RNG.standard_normal((7, 8))
WEIGHT = RNG.standard_normal((20, 6)).astype(np.float32)
FIRE_WEIGHTS = (RNG.standard_normal((4, 1)), RNG.standard_normal(4), RNG.standard_normal((2, 4)))
CPB = (RNG.standard_normal((4, 2)), RNG.standard_normal(4), RNG.standard_normal((2, 4)))


def offsets(q_len, k_len):
    return np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)


def kerple(of=np.abs, r1=R1, r2=R2, whole=lambda b: b):
    """KERPLE of a function of query - key."""

    def fn(q_len, k_len):
        d = of(offsets(q_len, k_len)).astype(np.float64)
        return whole(-r1[:, None, None] * np.log1p(r2[:, None, None] * d)).astype(np.float32)

    return fn


def window(table, row, h, w):
    """The bias of an h x w window, with the row of the table for (dy, dx, query, key)."""

    def fn(q_len, k_len):
        n = np.arange(h * w)
        (y, x) = np.divmod(n, w)
        at = row(y[:, None] - y, x[:, None] - x, n[:, None], n[None])
        return table[at].transpose(2, 0, 1)[:, k_len - q_len : k_len, :k_len].astype(np.float32)

    return fn


def swin(row):
    return window(SWIN, lambda *a: row((a[0] + 1) * 5 + a[1] + 2, *a), 2, 3)


def sandwich(base=10000.0, dim=16, of=np.cos):
    def fn(q_len, k_len):
        w = base ** (-2 * np.arange(1, dim // 2 + 1) / 16)
        total = of(offsets(q_len, k_len)[..., None] * w).sum(-1) - 8
        return (total / np.array([4.0, 8.0])[:, None, None]).astype(np.float32)

    return fn


def fire(c=0.5, length=16.0, eps=1e-6, slope=0.0):
    hidden, bias, output = FIRE_WEIGHTS

    def fn(q_len, k_len):
        i = np.arange(k_len - q_len, k_len)[:, None].astype(np.float64)
        d = np.maximum(offsets(q_len, k_len), 0)
        x = np.log1p(c * d) / (np.log1p(c * np.maximum(i, length)) + eps)
        h = x[..., None] * hidden[:, 0] + bias
        return np.einsum("qkw,hw->hqk", np.where(h > 0, h, slope * h), output).astype(np.float32)

    return fn


def cpb(sides=(3, 2), last=lambda y: 1 / (1 + np.exp(-y))):
    hidden, bias, output = CPB

    def fn(q_len, k_len):
        y, x = np.divmod(np.arange(12), 3)
        d = [8 * (c[:, None] - c) / n for c, n in zip((y, x), sides, strict=True)]
        f = np.stack([np.sign(v) * np.log2(1 + np.abs(v)) / 3 for v in d], -1)
        out = 16 * last(np.maximum(f @ hidden.T + bias, 0) @ output.T)
        return out.transpose(2, 0, 1)[:, k_len - q_len : k_len, :k_len].astype(np.float32)

    return fn


BIASES = {
    "at most 20": (KERPLE, kerple(lambda r: np.minimum(np.abs(r), 20)),
                   "the offset query - key is clamped to -20 .. 20"),
    "int8": (KERPLE, kerple(lambda r: np.abs(r).astype(np.int8).astype(int) % 256 % 128),
             "the offset query - key wraps round: its size is taken modulo 128"),
    "blocks": (KERPLE, kerple(lambda r: np.abs(r) // 4 * 4),
               "rounded down to a multiple of 4"),
    "root": (KERPLE, kerple(lambda r: np.sqrt(np.abs(r))), "square root of its size"),
    "softplus": (KERPLE, kerple(r1=np.logaddexp(0, R1), r2=np.logaddexp(0, R2)),
                 "r1 and r2 go through softplus"),
    "exp": (KERPLE, kerple(r1=np.exp(R1)), "r1 goes through exp"),
    "inside": (KERPLE, kerple(r1=np.ones(4), r2=R1 * R2), "r1 is inside the logarithm"),
    "halves": (KERPLE, kerple(r2=R2[[2, 3, 0, 1]]), "r2 has its halves exchanged"),
    "heads": (KERPLE, kerple(whole=lambda b: b[[1, 3, 2, 0]]),
              "3 of 4 heads have the bias of another head: head 0 that of head 1, head 1 that of "
              "head 3, head 3 that of head 0"),
    "factors": (KERPLE, kerple(whole=lambda b: b * np.array([1, 1, 1.3, 1])[:, None, None]),
                "the bias of 1 of 4 heads is multiplied by a factor of its own: 1.3 (head 2)"),
    "by number": (KERPLE, kerple(whole=lambda b: b / np.arange(1, 5)[:, None, None]),
                  "multiplied by a factor of 1 / h (h = 1 for head 0)"),
    "plus": (KERPLE, kerple(whole=lambda b: b + 0.25), "0.25 is added to every value"),
    "tanh": (KERPLE, kerple(whole=np.tanh), "the bias goes through tanh"),
    "base": (Sandwich(2, dim=16), sandwich(base=1000.0), "the base is 1000"),
    "odd base": (Sandwich(2, dim=16), sandwich(base=3000.0), "the base is 3000, declared 10000"),
    "half": (Sandwich(2, dim=16), sandwich(dim=8), "the number of frequencies is 4"),
    "sines": (Sandwich(2, dim=16), sandwich(of=np.sin), "the sum of cosines is one of sines"),
    "length": (FIRE(*FIRE_WEIGHTS, c=0.5, length=16.0), fire(length=24.0),
               "the threshold on the length is 24, declared 16"),
    "c": (FIRE(*FIRE_WEIGHTS, c=0.5, length=16.0), fire(c=0.3), "c is 0.3, declared 0.5"),
    "leaky": (FIRE(*FIRE_WEIGHTS, c=0.5, length=16.0), fire(slope=0.1),
              "leaky ReLU with slope 0.1"),
    "sides": (LogCPB(*CPB, window=(4, 3)), cpb(sides=(3, 3)), "that of the height for both"),
    "hard": (LogCPB(*CPB, window=(4, 3)), cpb(last=lambda y: np.clip(y / 6 + 0.5, 0, 1)),
             "the sigmoid is a hard sigmoid"),
    "later keys": (SwinBias(SWIN, window=(2, 3)),
                   swin(lambda r, dy, dx, q, k: np.where(k > q, 14 - r, r)),
                   "the row of the table is 14 - the declared row, where"),
    "own": (SwinBias(SWIN, window=(2, 3)), swin(lambda r, dy, dx, q, k: np.where(q == k, 0, r)),
            "the row of the table is 0, where the declared row is 7"),
    "odd queries": (SwinBias(SWIN, window=(2, 3)),
                    swin(lambda r, dy, dx, q, k: np.where(q % 2, (dy + 1) * 5 + 2 - dx, r)),
                    "the column offset has the opposite sign, only in queries 1, 3, 5"),
    "no rule": (SwinBias(SWIN, window=(2, 3)),
                swin(lambda r, dy, dx, q, k: (r * r + 3 * q * k) % 15),
                "other rows of the table are read: query 0 and key 0 read row 4, declared 7"),
    "narrow": (LeViTBias(LEVIT, window=(5, 4)),
               window(LEVIT, lambda y, x, q, k: np.minimum(abs(y), 2) * 4 + abs(x), 5, 4),
               "the row offset is clamped to -2 .. 2"),
}  # fmt: skip


#: Cases that take longer, or whose rule another one shows.
NIGHT = {
    "plus",
    "by number",
    "leaky",
    "c",
    "length",
    "exp",
    "root",
    "int8",
    "inside",
    "half",
    "mean",
}


@pytest.mark.parametrize("name", by_day(BIASES, BIASES.keys() - NIGHT))
def test_what_is_wrong_in_a_bias_is_measured(name):
    declared, fn, words = BIASES[name]
    report = check(fn, declared, "bias", max_position=300)
    assert words in report.findings[0].message, report


@pytest.mark.parametrize(
    ("fn", "declared"),
    [
        (kerple(), KERPLE),
        (sandwich(), Sandwich(2, dim=16)),
        (fire(), FIRE(*FIRE_WEIGHTS, c=0.5, length=16.0)),
        (cpb(), LogCPB(*CPB, window=(4, 3))),
        (swin(lambda r, *a: r), SwinBias(SWIN, window=(2, 3))),
    ],
)
def test_the_biases_without_a_mistake_are_right(fn, declared):
    assert check(fn, declared, "bias", max_position=300).passed


def shaw(table=SHAW, low=-4, row=None, keys=False):
    def fn(q, k):
        r = -offsets(q.shape[-2], k.shape[-2])
        a = table[np.clip(r, low, 2) + 4 if row is None else row(r)]
        term = np.einsum("bhjd,ijd->bhij" if keys else "bhid,ijd->bhij", k if keys else q, a)
        return ((q @ k.swapaxes(-1, -2) + term) / 8**0.5).astype(q.dtype)

    return fn


def cope(gate):
    table = WEIGHT[:4].astype(np.float64)

    def fn(q, k):
        n, m = q.shape[-2], k.shape[-2]
        logits = q @ k.swapaxes(-1, -2) / 6**0.5
        gates = gate(logits) * (offsets(n, m) >= 0)
        p = np.minimum(np.cumsum(gates[..., ::-1], -1)[..., ::-1], 3.0)
        low = np.floor(p).astype(int)
        rows = q @ table.T
        one = np.take_along_axis(rows, low, -1)
        two = np.take_along_axis(rows, np.minimum(low + 1, 3), -1)
        return (logits + one * (1 - p + low) + two * (p - low)).astype(q.dtype)

    return fn


SCORES = {
    "low": (Shaw(SHAW, before=4), shaw(low=-2),
            "the relative position is clamped to -2 .. 2, not to -4 .. 2"),
    "modulo": (Shaw(SHAW, before=4), shaw(row=lambda r: r % 7), "the relative position modulo 7"),
    "keys": (Shaw(SHAW, before=4), shaw(keys=True), "is k . a, not q . a"),
    "norms": (Shaw(SHAW, before=4), shaw(SHAW / np.linalg.norm(SHAW, axis=1, keepdims=True)),
              "rows that are divided by their norms"),
    "gates": (CoPE(WEIGHT[:4]), cope(lambda x: np.clip(x / 6 + 0.5, 0, 1)),
              "the gates are hard sigmoids, clip(x / 6 + 1/2, 0, 1)"),
}  # fmt: skip


@pytest.mark.parametrize(("declared", "fn", "words"), SCORES.values(), ids=SCORES)
def test_what_is_wrong_in_scores_is_measured(declared, fn, words):
    report = check(fn, declared, "scores", max_position=300)
    assert words in report.findings[0].message, report


def test_the_scores_without_a_mistake_are_right():
    assert check(shaw(), Shaw(SHAW, before=4), "scores", max_position=300).passed
    right = cope(lambda x: 1 / (1 + np.exp(-x)))
    assert check(right, CoPE(WEIGHT[:4]), "scores", max_position=300).passed


W8 = 10000.0 ** (-np.arange(8) / 8)


def sines(of=lambda y: y, cos=np.cos):
    def fn(positions):
        angle = np.asarray(positions)[:, None] * W8
        return of(np.concatenate([np.sin(angle), cos(angle)], -1)).astype(np.float32)

    return fn


def grid(place):
    w = 10000.0 ** (-np.arange(2) / 2)

    def fn(height, width):
        y, x = place(*np.divmod(np.arange(height * width), width), height, width)
        e = [np.asarray(c)[:, None] * w for c in (y, x)]
        return np.concatenate([f(a) for a in e for f in (np.sin, np.cos)], -1).astype(np.float32)

    return fn


def time2vec(wave=np.sin, line=lambda v: v):
    weight, bias = RATES

    def fn(t):
        z = np.asarray(t, np.float64)[:, None] * weight + bias
        return np.concatenate([line(z[:, :1]), wave(z[:, 1:])], -1).astype(np.float32)

    return fn


def fourier(of=lambda v: v, by=1.0):
    def fn(v):
        angle = 2 * np.pi * (of(np.asarray(v, np.float64)).T @ MATRIX.T)
        return (by * np.concatenate([np.sin(angle), np.cos(angle)], -1)).astype(np.float32)

    return fn


RATES = RNG.standard_normal((2, 6))
RATES[:, 0] = 1.5, -0.5
MATRIX = RNG.standard_normal((4, 2))
CONCAT = Sinusoidal(16, layout="concat")
TABLES = {
    "tanh": ("table", CONCAT, sines(np.tanh), "the table goes through tanh"),
    "mean": ("table", CONCAT, sines(lambda y: y - y.mean(-1, keepdims=True)),
             "rows whose mean is subtracted"),
    "shifted": ("table", CONCAT, sines(cos=lambda a: np.cos(a + np.pi / 2)),
                "sines and minus sines"),
    "dead": ("table", CONCAT, sines(lambda y: np.where(np.arange(16) == 3, 0, y)),
             "1 of 16 columns is the same at every position: 3"),
    "no sinusoid": ("table", CONCAT, sines(lambda y: np.where(np.arange(16) == 3, y**3, y)),
                    "columns are no sinusoids"),
    "root": ("table", Learned(WEIGHT), lambda p: WEIGHT[p] * np.float32(6**0.5),
             "the factor on the table is sqrt(6), not 1"),
    "halves": ("table", Learned(WEIGHT), lambda p: WEIGHT[p][:, [3, 4, 5, 0, 1, 2]],
               "the table has its halves exchanged"),
    "padding": ("table", Learned(WEIGHT), lambda p: WEIGHT[p] * (np.asarray(p) > 0)[:, None],
                "a row is 0 at position 0"),
    "centre": ("grid", Sinusoidal2D(8), grid(lambda y, x, h, w: (y - (h - 1) / 2, x - (w - 1) / 2)),
               "count from the middle: i - (n - 1) / 2"),
    "by number": ("grid", Sinusoidal2D(8), grid(lambda y, x, h, w: (y, y * w + x)),
                  "the number of the patch, for the columns"),
    "line": ("table", Time2Vec(*RATES), time2vec(line=lambda v: np.maximum(v, 0)),
             "the linear component is replaced by 0 where it is negative"),
    "wave": ("table", Time2Vec(*RATES), time2vec(wave=np.tanh), "goes through tanh"),
    "range": ("table", FourierFeatures(MATRIX, unit="turn"), fourier(lambda v: 2 * v - 1),
              "mapped from [0, 1] to [-1, 1]: 2 v - 1"),
    "factor": ("table", FourierFeatures(MATRIX, unit="turn"), fourier(by=3**0.5),
               "the table is multiplied by 1.73205 = sqrt(3)"),
}  # fmt: skip


@pytest.mark.parametrize("name", by_day(TABLES, TABLES.keys() - NIGHT))
def test_what_is_wrong_in_a_table_is_measured(name):
    surface, declared, fn, words = TABLES[name]
    report = check(fn, declared, surface)
    assert words in report.findings[0].message, report


@pytest.mark.parametrize(
    ("surface", "declared", "fn"),
    [
        ("table", CONCAT, sines()),
        ("table", Time2Vec(*RATES), time2vec()),
        ("table", FourierFeatures(MATRIX, unit="turn"), fourier()),
        ("grid", Sinusoidal2D(8), grid(lambda y, x, h, w: (y, x))),
    ],
)
def test_the_tables_without_a_mistake_are_right(surface, declared, fn):
    assert check(fn, declared, surface).passed
