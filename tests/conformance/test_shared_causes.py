"""First findings on key heads that query heads share, query scales, kept biases and moved entries.

On each of these functions the first finding was vague once.
"""

import numpy as np
import pytest

from posenc_ref import (
    FIRE,
    ALiBi,
    Attention,
    AxialLearned,
    DeBERTa,
    DynamicBias,
    Kerple,
    LogNScale,
    LogTemperature,
    PowerTemperature,
    QueryTemperature,
    RoPE,
    SwinBias,
    T5Bias,
    Time2Vec,
    resize_table,
    scores,
)
from posenc_ref.conformance import check
from tests.night import by_day


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


ALIBI, ROPE = ALiBi(8), RoPE(16, layout="half")


def shares(logits):
    n, n_k = logits.shape[-2:]
    logits = np.where(np.tri(n, n_k, n_k - n, dtype=bool), logits, -np.inf)
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attend(logits):
    """Return an attention with ``logits`` of queries, repeated keys, positions and the group."""

    def fn(q, k, v, q_at, k_at):
        group = q.shape[1] // k.shape[1]
        q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
        k, v = (np.repeat(x, group, axis=1) for x in (k, v))
        return (shares(logits(q, k, np.asarray(q_at), np.asarray(k_at), group)) @ v).astype("f4")

    return fn


def scaled(factor):
    """Return an attention with a factor of the positions of queries and keys."""

    def logits(q, k, q_at, k_at, group):
        by = np.broadcast_to(factor(q_at.astype(float), k_at.astype(float)), q_at.shape)
        return (q * by[:, None]) @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5

    return attend(logits)


def slopes_of_key_heads(q, k, q_at, k_at, group):
    slopes = np.repeat(ALiBi(q.shape[1] // group).slopes(), group)
    distance = np.abs(q_at[:, None] - k_at)
    return q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5 - slopes[:, None, None] * distance


def keys_in_place(q, k, q_at, k_at, group):
    for m in range(group):
        k[:, m::group] = ROPE.apply(k[:, m::group], (m + 1) * k_at)
    return ROPE.apply(q, q_at) @ k.swapaxes(-1, -2) / 4


def scaled_in_place(q, k, q_at, k_at, group):
    q, k = ROPE.apply(q, q_at), ROPE.apply(k, k_at)
    k[:, group - 1 :: group] *= 0.25 ** (group > 1)
    return q @ k.swapaxes(-1, -2) / 4


def logits_in_place(q, k):
    group, n, n_k = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    q, k = q.astype(np.float64), np.repeat(k.astype(np.float64), group, axis=1)
    return keys_in_place(q, k, np.arange(n_k - n, n_k), np.arange(n_k), group).astype(np.float32)


class FirstTable:
    """Factors for the first call, of which later positions get the last."""

    def __init__(self, factor):
        self.factor, self.table = factor, None

    def __call__(self, q_at, k_at):
        if self.table is None:
            self.table = self.factor(np.arange(k_at.max() + 1))
        return self.table[np.minimum(q_at.astype(int), self.table.size - 1)]


POWER = PowerTemperature(0.5, 4)
SWIN, T5 = SwinBias(numbers(1, 35, 4), window=(3, 4)), T5Bias(numbers(2, 32, 4))
DYNAMIC = DynamicBias((numbers(3, 6, 1), numbers(4, 3, 6)), (numbers(5, 6), numbers(6, 3)))
KERPLE, FIRES = (
    Kerple((1.0, 0.4), (0.5, 2.0)),
    FIRE(numbers(7, 8, 1), numbers(8, 8), numbers(15, 3, 8), c=0.3, length=20.0),
)
DEBERTA = DeBERTa(numbers(9, 2, 12, 8), numbers(10, 2, 12, 8))
TIME = Time2Vec(numbers(11, 12) / 4, numbers(12, 12), function="cos", linear="last")


def viewed(n, n_k):
    bias = np.asarray(SWIN.bias(np.arange(n_k - n, n_k), np.arange(n_k)))
    return np.moveaxis(bias, 0, -1).reshape(bias.shape)


def divided(of, e):
    """Return a bias of offsets that ``of(Q, K)`` divides."""

    def fn(n, n_k):
        r = (np.arange(n_k - n, n_k)[:, None] - np.arange(n_k)) / of(n, n_k)
        if isinstance(e, Kerple):
            return np.stack([-a * np.log1p(b * abs(r)) for a, b in zip(e.r1, e.r2, strict=True)])
        x = r[..., None] * np.asarray(e.weights[0], float)[:, 0] + np.asarray(e.biases[0], float)
        x = x / (1 + np.exp(-x))
        return np.moveaxis(x @ np.asarray(e.weights[1], float).T + e.biases[1], -1, 0)

    return fn


def not_transposed(q, k):
    n, n_k = q.shape[2], k.shape[2]
    at = np.arange(n_k - n, n_k), np.arange(n_k)
    found = np.asarray(scores(DEBERTA, q.astype(float), k.astype(float), *at))
    if n != n_k:
        return found.astype(np.float32)
    row = np.clip(at[0][:, None] - at[1] + 6, 0, 11)
    by_row = k.astype(float) @ np.asarray(DEBERTA.relative_queries, float).swapaxes(-1, -2)
    plain = np.asarray(scores(DEBERTA.replace(relative_queries=None), q.astype(float),
                              k.astype(float), *at)) * (16 / 24) ** 0.5  # fmt: skip
    part = np.take_along_axis(by_row, np.broadcast_to(row, (*by_row.shape[:-1], n)), -1)
    return (plain + part / 24**0.5).astype(np.float32)


def shifted_tile(q, k):
    n, n_k, bias = q.shape[2], k.shape[2], ALiBi(4, causal=False)
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    at = np.arange(n_k)
    start = n_k // 16 * 16
    at = np.where((at >= start) & (start > 0), at - 1, at)
    dot = q.astype(float) @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    return (dot + np.asarray(bias.bias(np.arange(n_k - n, n_k), at))).astype(np.float32)


class Strip:
    """A strip of biases by offset, read around the middle of a shorter one."""

    def __init__(self):
        self.longest = 0

    def __call__(self, n, n_k):
        self.longest = max(self.longest, n_k)
        q = np.arange(n_k - n, n_k) + self.longest - n_k
        return np.asarray(T5.bias(q, np.arange(n_k)))


class Threshold:
    """The longest call so far as the threshold."""

    def __init__(self):
        self.length = FIRES.length

    def __call__(self, n, n_k):
        self.length = max(self.length, n_k - 1.0)
        at = np.arange(n_k - n, n_k), np.arange(n_k)
        return np.asarray(FIRES.replace(length=self.length).bias(*at))


def rolled(t):
    w, b = (np.roll(np.asarray(x, float), 1) for x in (TIME.weight, TIME.bias))
    return np.asarray(TIME.replace(weight=w, bias=b).table(t))


def axes(**how):
    sides = ((numbers(13, 7, 16), 12), (numbers(14, 9, 16), 18))
    return AxialLearned(
        tuple(np.asarray(resize_table(t, (len(t),), (n,), mode="bilinear", **how))
              for t, n in sides),
        combine="sum",
    )  # fmt: skip


def corners(positions):
    return np.asarray(axes(align_corners=True).table(np.asarray(positions)))


def attention(scale):
    return Attention(None, query_scale=scale)


CASES = {
    "slopes": (attend(slopes_of_key_heads), Attention(ALIBI), "attention",
               "of key head h // (H / H_kv), computed for H_kv heads"),
    "in place": (attend(keys_in_place), Attention(ROPE), "attention",
                 "keys are rotated m + 1 times, not once, for query head m of each group"),
    "scaled": (attend(scaled_in_place), Attention(ROPE), "attention",
               "multiplied by the softmax scale twice, not once, for the last query head of each"),
    "logits": (logits_in_place, ROPE, "scores", "keys are rotated m + 1 times, not once"),
    "floor": (scaled(lambda q, k: 1 + 0.3 * np.log1p(q / 16)),
              attention(QueryTemperature(0.3, 16)), "attention", "floor is left out"),
    "last": (scaled(lambda q, k: LogNScale(12).factor(0 * q + k.max())),
             attention(LogNScale(12)), "attention", "of all queries is that of the last one"),
    "sibling": (scaled(lambda q, k: 1 + 0.5 * np.log1p((q + 1) / 8)),
                attention(LogTemperature(0.5, 8)), "attention",
                "1 + beta ln(1 + (p + 1) / length)"),
    "index": (scaled(lambda q, k: QueryTemperature(0.3, 4).factor(np.arange(len(q)))),
              attention(QueryTemperature(0.3, 4)), "attention", "of the query's index in the call"),
    "bounded": (scaled(lambda q, k: np.maximum(1, (q + 1) / 4) ** 0.5), attention(POWER),
                  "attention", "is max(1, (p + 1) / length) ** exponent"),
    "table of ones": (scaled(FirstTable(LogNScale(8).factor)), attention(LogNScale(8)),
                      "attention", "or is read from a table as long as a short first call"),
    "first table": (scaled(FirstTable(POWER.factor)), attention(POWER), "attention",
                    "is that of position 4 at most: consistent with a table of 5 factors"),
    "viewed": (viewed, SWIN, "bias", "is made as (Q, K, H) and viewed as (H, Q, K)"),
    "K - 1": (divided(lambda n, n_k: max(n_k - 1, 1), DYNAMIC), DYNAMIC, "bias",
              "is divided by K - 1"),
    "Q": (divided(lambda n, n_k: n, KERPLE), KERPLE, "bias", "is divided by Q"),
    "square": (not_transposed, DEBERTA, "scores",
               "where Q = K, the term position-content is gathered as (K, Q) and not transposed"),
    "tile": (shifted_tile, ALiBi(4, causal=False), "scores",
             "in the last, incomplete tile of 16, after whole ones, are one too small"),
    "strip": (Strip(), T5, "bias", "or with a kept strip of its offsets, read at offsets "),
    "threshold": (Threshold(), FIRES, "bias", "with the threshold length = 4098 of the longest"),
    "rolled": (rolled, TIME, "table", "of the line are the last ones, not the first"),
    "corners": (corners, axes(), "table",
                'tables[0] and tables[1] are resized with mode="bilinear", align_corners=True'),
}  # fmt: skip
#: Cases of half a second or more.
SLOW = CASES.keys() - {"square"}


@pytest.mark.parametrize("name", by_day(CASES, CASES.keys() - SLOW))
def test_the_first_finding_names_the_cause(name):
    fn, encoding, surface, words = CASES[name]
    report = check(fn, encoding, surface)
    assert report.verdict == "deviates"
    assert words in report.findings[0].message, report
