"""First findings on attentions, convolutions, resized tables and narrow results.

On each of these functions the first finding was vague, or misleading, once.
"""

import numpy as np
import pytest
from scipy.special import erf

from posenc_ref import (
    ALiBi,
    Attention,
    BEiTBias,
    ConvPositions,
    DeBERTa,
    DecomposedRelative,
    Learned,
    Proportional,
    RoPE,
    Sinusoidal,
    Sinusoidal2D,
    SwinBias,
    T5Bias,
    TransformerXL,
    resize_table,
    scores,
)
from posenc_ref.conformance import check
from tests.night import by_day


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


ALIBI, ROPE = ALiBi(4), RoPE(16, layout="half")
BIASED, ROTATED = Attention(ALIBI), Attention(ROPE)


def shares(logits, axis=-1):
    e = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def causal(logits, more=0):
    n, n_k = logits.shape[-2:]
    return np.tri(n, n_k, n_k - n + more, dtype=bool)


def attend(weights, output=lambda p, v: p @ v, rotated=False):
    """Return an attention: ``weights`` of (q . k, bias, query heads per key head)."""

    def fn(q, k, v, q_at, k_at):
        group = q.shape[1] // k.shape[1]
        q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
        k, v = (np.repeat(x, group, axis=1) for x in (k, v))
        bias = np.zeros(()) if rotated else np.asarray(ALIBI.bias(q_at, k_at))
        if rotated:
            q, k = ROPE.apply(q, q_at), ROPE.apply(k, k_at)
        logits = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
        return output(weights(logits, bias, group), v).astype(np.float32)

    return fn


def hidden(logits, seen=None):
    return np.where(causal(logits) if seen is None else seen, logits, -np.inf)


def own(logits, bias, _=1):
    return shares(hidden(logits + bias))


def after_the_softmax(logits, bias, _):
    return shares(hidden(logits)) + np.where(causal(logits), bias, 0)


def over_queries(logits, bias, _):
    return np.nan_to_num(shares(np.where(causal(logits), logits + bias, -1e30), -2)) * causal(
        logits
    )


def last_keys(logits, bias, _):
    return shares(hidden(logits + bias, causal(logits) & ~causal(logits, -64)))


def without_the_last_tile(logits, bias, _):
    whole = logits.shape[-1] // 16 * 16
    seen = (np.arange(logits.shape[-1]) < whole) | (whole == 0)
    return shares(hidden(logits + bias, causal(logits) & seen))


def of_key_heads(logits, bias, group):
    return own(logits, bias[np.arange(4) // group])


def in_halves(logits, bias, _):
    half = logits.shape[-1] // 2
    if logits.shape[-2] > 1 or not half:
        return own(logits, bias)
    return np.concatenate([shares(logits[..., :half]), shares(logits[..., half:])], -1) / 2


def narrow(logits, bias, _):
    return own(logits, bias).astype(np.float16).astype(np.float64)


class KeptBias:
    """Keeps the bias of the first call with as many queries and keys."""

    def __init__(self):
        self.kept = {}

    def __call__(self, q, k, v, q_at, k_at):
        bias = self.kept.setdefault((len(q_at), len(k_at)), np.asarray(ALIBI.bias(q_at, k_at)))
        return attend(lambda logits, *_: own(logits, bias))(q, k, v, q_at, k_at)


def overflowing(logits, bias, _):
    with np.errstate(all="ignore"):
        e = np.exp(hidden(logits + bias).astype(np.float32))
        return (e / e.sum(-1, keepdims=True)).astype(np.float64)


def reshaped(p, v):
    return (p @ v).swapaxes(1, 2).reshape(*p.shape[:3], -1)


def half_product(p, v):
    return (p.astype(np.float16) @ v.astype(np.float16)).astype(np.float64)


CONV = ConvPositions((numbers(1, 8, 2, 6),), (numbers(2, 8),), groups=4)
GRID = ConvPositions((numbers(3, 4, 1, 3, 3),), (numbers(4, 4),), groups=4, activation="none",
                     residual=True)  # fmt: skip


def plain_sum(x, weight):
    """The sums of ``CONV``, without the bias and GELU."""
    one = CONV.replace(weights=(weight,), biases=(np.zeros(8),), activation="none")
    return np.asarray(one.convolve(np.asarray(x, np.float64)))


def gelu(y):
    return y * (1 + erf(y / 2**0.5)) / 2


def of_sums(change):
    return lambda x: change(plain_sum(x, CONV.weights[0].astype(np.float64))).astype(np.float32)


def dilated(x):
    wide = np.zeros((8, 2, 11))
    wide[..., ::2] = CONV.weights[0]
    return gelu(plain_sum(x, wide) + CONV.biases[0]).astype(np.float32)


def in_chunks(x):
    parts = [x[:, n : n + 16] for n in range(0, x.shape[1], 16)]
    return np.concatenate([CONV.convolve(part) for part in parts], axis=1)


def joined_rows(x):
    return np.asarray(CONV.convolve(x.reshape(1, -1, 8))).reshape(x.shape)


def in_half(x):
    sums = plain_sum(x.astype(np.float16), CONV.weights[0].astype(np.float16).astype(np.float64))
    return gelu(sums + CONV.biases[0]).astype(np.float32)


def causal_columns(x, height, width):
    g = np.pad(x.reshape(-1, height, width, 4), ((0, 0), (1, 1), (2, 0), (0, 0)))
    taps = [(a, b) for a in range(3) for b in range(3)]
    w = GRID.weights[0][:, 0]
    y = sum(g[:, a : a + height, b : b + width] * w[:, a, b] for a, b in taps) + GRID.biases[0]
    return x + y.reshape(x.shape)


SMALL, ROWS, OFFSETS = numbers(5, 37, 12), numbers(6, 9, 16), numbers(7, 25, 3)
CLS = numbers(8, 3, 3)


def learned(**how):
    return Learned(resize_table(SMALL, (6, 6), (9, 11), kept=1, **how))


def rows_of(**how):
    return lambda p: np.asarray(learned(**how).weight)[np.asarray(p)]


def turned(p):
    rows = np.asarray(resize_table(SMALL[1:], (6, 6), (11, 9)))
    return np.concatenate([SMALL[:1], rows])[np.asarray(p)]


def swin(**how):
    return SwinBias(resize_table(OFFSETS, (5, 5), (7, 9), **how), window=(4, 5))


def beit(**how):
    return BEiTBias(np.concatenate([swin(**how).table, CLS]), window=(4, 5))


def window_bias(e):
    return lambda n, n_k: np.asarray(e.bias(np.arange(n_k - n, n_k), np.arange(n_k)))


def decomposed(**how):
    sides = (resize_table(ROWS, (9,), (n,), **how) for n in (13, 15))
    return DecomposedRelative(*sides, grid=(7, 8))


def nearest_rows(q, k):
    n, n_k = q.shape[2], k.shape[2]
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    return np.asarray(scores(decomposed(mode="nearest"), q, k, range(n_k - n, n_k), range(n_k)))


def logits_of(change, group=lambda n, n_kv: np.arange(n) // (n // n_kv)):
    def fn(q, k):
        n, n_k = q.shape[2], k.shape[2]
        k = k[:, group(q.shape[1], k.shape[1])]
        q, k = (np.asarray(ROPE.apply(x.astype(np.float64), p))
                for x, p in ((q, np.arange(n_k - n, n_k)), (k, np.arange(n_k))))  # fmt: skip
        return change(q, k).astype(np.float32)

    return fn


def float16_logits(q, k):
    q, k = q.astype(np.float16).astype(float), k.astype(np.float16).astype(float)
    return (q @ k.swapaxes(-1, -2) / 4).astype(np.float16)


DEBERTA = DeBERTa(numbers(9, 2, 20, 8), numbers(10, 2, 20, 8))


def one_term_fewer(q, k):
    n, n_k = q.shape[2], k.shape[2]
    found = scores(DEBERTA, q.astype(np.float64), k.astype(np.float64), range(n_k - n, n_k),
                   range(n_k))  # fmt: skip
    return (np.asarray(found) * 1.5**0.5).astype(np.float32)


def ascending(q, k):
    n, n_k = q.shape[2], k.shape[2]
    r = np.arange(n_k - n, n_k)[:, None] - np.arange(n_k)
    table = np.asarray(XL.sinusoid.table(n_k - 1 - r))
    q, k = q.astype(np.float64), k.astype(np.float64)
    places = np.einsum("bhid,hdc,ijc->bhij", q, XL.projection, table, optimize=True)
    return ((q @ k.swapaxes(-1, -2) + places) / 8**0.5).astype(np.float32)


def of_head_0(q, k):
    n, n_k = q.shape[2], k.shape[2]
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    at, e = (range(n_k - n, n_k), range(n_k)), decomposed()
    content = (q - q[:, :1]) @ k.swapaxes(-1, -2) / 4
    first = np.broadcast_to(q[:, :1], q.shape).astype(np.float64)
    return (content + scores(e, first, k.astype(np.float64), *at)).astype(np.float32)


def backwards(n, n_k):
    return np.asarray(T5.bias(np.arange(n_k - n, n_k), np.arange(n_k)))[..., ::-1].copy()


def of_the_larger_side(height, width):
    token, n = np.arange(height * width), max(height, width)
    return PATCHES.table(np.stack([token // n, token % n])).astype(np.float32)


def clamped_rows(q, rel):
    n = len(q)
    at = np.clip(np.arange(n) - np.arange(n)[:, None] + n - 1, 1, 2 * n - 2)
    return np.einsum("id,ijd->ij", q, rel[at])


def other_padding(ids):
    return np.cumsum(ids != 0, -1) * (ids != 0) + 1


XL = TransformerXL(numbers(11, 2, 8, 16), None, None, sinusoid=Sinusoidal(16))
T5, PATCHES = T5Bias(numbers(12, 32, 2)), Sinusoidal2D(16)
PADDED = Learned(numbers(13, 60, 4), padding_idx=1)

CASES = {
    "late bias": (attend(after_the_softmax), BIASED, "attention", "added to the weights, after th"),
    "queries": (attend(over_queries), BIASED, "attention", "the softmax runs over the queries, n"),
    "window": (attend(last_keys), BIASED, "attention", "see their last keys only, i - j < 64: a"),
    "next key": (attend(lambda x, b, _: shares(hidden(x + b, causal(x, 1)))), BIASED, "attention",
                 "queries see the key after their own"),
    "last tile": (attend(without_the_last_tile), BIASED, "attention", "tile of 16 keys is left"),
    "key heads": (attend(of_key_heads), BIASED, "attention", "has the bias of its key head, h // "),
    "halves": (attend(in_halves, rotated=True), ROTATED, "attention", "of the two halves of the k"),
    "capped": (attend(lambda x, b, _: own(50 * np.tanh(x / 50), b), rotated=True), ROTATED,
               "attention", "logits are capped: 50 * tanh(x / 50)"),
    "narrow": (attend(narrow), BIASED, "attention", "the weights are rounded to float16"),
    "half": (attend(own, half_product), BIASED, "attention", "the result is a float16 number in e"),
    "overflow": (attend(overflowing), BIASED, "attention", "overflow where logits are large: cons"),
    "reshaped": (attend(own, reshaped), BIASED, "attention", "the output is reshaped, not transpo"),
    "reversed": (attend(own, lambda p, v: p @ v[:, :, ::-1]), BIASED, "attention",
                 "the values stand in the reverse order"),
    "kept": (KeptBias(), BIASED, "attention", "values that are kept by Q and K alone"),
    "dilated": (dilated, CONV, "convolve", "the kernel is dilated: its taps are 2 tokens apart"),
    "chunks": (in_chunks, CONV, "convolve", "every tile of 16 tokens too: tiles are convolved s"),
    "joined": (joined_rows, CONV, "convolve", "tokens of the neighbouring rows of the batch"),
    "bias": (of_sums(lambda y: gelu(y) + CONV.biases[0]), CONV, "convolve", "added after the act"),
    "twice": (of_sums(lambda y: gelu(gelu(y + CONV.biases[0]))), CONV, "convolve",
              "the activation is applied twice"),
    "half sums": (in_half, CONV, "convolve", "the input and the kernels are rounded to float16"),
    "columns": (causal_columns, GRID, "convolve_grid", "before the first column of patches, and a"),
    "bilinear": (rows_of(mode="bilinear"), learned(), "table",
                 'resized from 6 x 6 to 9 x 11 with mode="bilinear", not with mode="bicubic"'),
    "corners": (rows_of(align_corners=True), learned(), "table", "align_corners=True, not with mo"),
    "nearest": (lambda p: np.asarray(learned(mode="nearest").weight)[np.asarray(p)],
                learned(mode="bilinear"), "table", 'mode="nearest", not with mode="bilinear"'),
    "turned": (turned, learned(), "table", "resized to 11 x 9, not to 9 x 11"),
    "offsets": (window_bias(swin(mode="bilinear")), swin(), "bias", '5 x 5 to 7 x 9 with mode='),
    "beit": (window_bias(beit(antialias=True)), beit(), "bias", "antialias=True, not with mode="),
    "sides": (nearest_rows, decomposed(mode="bilinear"), "scores", 'are resized with mode="n'),
    "by H_kv": (logits_of(lambda q, k: q @ k.swapaxes(-1, -2) / 4,
                          lambda n, n_kv: np.minimum(np.arange(n) // n_kv, n_kv - 1)), ROPE,
                "scores", "query head h uses the key head h // H_kv, not h // (H / H_kv)"),
    "float16": (logits_of(float16_logits), ROPE, "scores", "the logit is a float16 number in ev"),
    "ascending": (ascending, XL, "scores", "offset r is taken for K - 1 - r, as where a table"),
    "head 0": (of_head_0, decomposed(), "scores", "use the queries of the first head, in every"),
    "backwards": (backwards, T5, "bias", "keys stand in the reverse order"),
    "larger": (of_the_larger_side, PATCHES, "grid", "are split by the larger side, not by the wi"),
    "clamped": (clamped_rows, None, "relative_scores", "rel are clamped: row 0 is never read"),
    "padding": (other_padding, PADDED, "ids_from_tokens", "the padding id is 0, not 1"),
    "fewer": (one_term_fewer, DEBERTA, "scores", "is 1/sqrt(2 d), or 1/sqrt(H d) with H = 2, w"),
}  # fmt: skip
#: Cases of half a second or more.
SLOW = {
    "late bias", "queries", "window", "last tile", "narrow", "half", "overflow", "reshaped",
    "reversed", "capped", "float16", "sides", "by H_kv", "kept", "ascending", "backwards", "head 0",
    "key heads", "halves",
}  # fmt: skip


@pytest.mark.parametrize("name", by_day(CASES, CASES.keys() - SLOW))
def test_the_first_finding_names_the_cause(name):
    fn, encoding, surface, words = CASES[name]
    report = check(fn, encoding, surface)
    assert report.verdict == "deviates"
    assert words in report.findings[0].message, report


def test_a_base_that_no_length_gives_is_not_named():
    """A base above the declared one is none of a length below the trained one."""
    declared = RoPE(128, layout="half", base=1e6, scaling=Proportional(0.25))
    k = np.arange(64)
    report = check(lambda: np.where(k < 16, 1e6 ** (-k / 16), 0.0), declared, "frequencies")
    assert "not scaled" not in report.findings[0].message, report
