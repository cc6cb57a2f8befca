"""Each property, with the oracle withheld, catches a function that no other one catches."""

from dataclasses import replace

import numpy as np
import pytest

from posenc_ref import ALiBi, T5Bias, accuracy
from posenc_ref.conformance.bias import judge_buckets
from posenc_ref.conformance.bias import judge_slopes as slopes
from posenc_ref.conformance.bias import properties as bias
from posenc_ref.conformance.bias.cases import BiasCase, Ruler

TABLE = np.random.default_rng(0).standard_normal((32, 3))
SHARED = np.full(3, 0.25)
LENGTHS = ((5, 5), (1, 7), (150, 300))
CAUSAL = [bias.TRANSLATION, bias.LINEAR, bias.FARTHER, bias.HEADS]
SYMMETRIC = [*CAUSAL, bias.SYMMETRIC, bias.OWN]
T5 = [bias.TRANSLATION, bias.saturated(91), bias.ONE_RUN]
SLOPES = [slopes.POSITIVE, slopes.DISTINCT, slopes.PREFIX, slopes.GEOMETRIC]


def offsets(q_len, k_len):
    return np.arange(k_len) - np.arange(k_len - q_len, k_len)[:, None]


def cases(values, causal):
    """What `values(r, k_len)` gives for r = key - query (Q, K), as the judge sees it."""
    found = []
    for q_len, k_len in LENGTHS:
        r = offsets(q_len, k_len)
        judged = r <= 0 if causal else np.ones(r.shape, bool)
        found.append(BiasCase(q_len, k_len, values(r, k_len), judged, causal))
    return found


def alibi(distance, slope=None):
    m = ALiBi(3).slopes() if slope is None else slope
    return -m[:, None, None] * distance


def t5(bucket):
    return np.moveaxis(TABLE[bucket], -1, 0)


def declared(r, **fields):
    return T5Bias(TABLE, **fields).bucket(r)


ONLY = {
    "translation": (CAUSAL, 0, lambda r, n: alibi(-r * (2.0 if n == 7 else 1.0))),
    "linear": (CAUSAL, 1, lambda r, n: alibi(r**2)),
    "farther is less": (CAUSAL, 2, lambda r, n: alibi(r)),
    "heads": (CAUSAL, 3, lambda r, n: alibi(-r, SHARED)),
    "symmetric": (SYMMETRIC, 4, lambda r, n: alibi(np.where(r > 0, 2 * r, -r))),
    "own": (SYMMETRIC, 5, lambda r, n: alibi(np.abs(r)) + 1.0),
    "t5 translation": (T5, 0, lambda r, n: t5(declared(r)) + (n == 7)),
    "t5 saturated": (T5, 1, lambda r, n: t5(declared(r, max_distance=256))),
    "t5 one run": (T5, 2, lambda r, n: t5(np.where(np.abs(r) == 20, 3, declared(r)))),
}


def violated(properties, data):
    ruler = Ruler("float32")
    return [n for n, item in enumerate(properties) if item.violation(data, ruler)]


@pytest.mark.parametrize("name", ONLY)
def test_one_property_of_biases_catches(name):
    properties, number, values = ONLY[name]
    assert violated(properties, cases(values, causal=properties is CAUSAL)) == [number]


@pytest.mark.parametrize("properties", [CAUSAL, SYMMETRIC, T5], ids=["causal", "symmetric", "t5"])
def test_right_biases_have_every_property_and_lose_it(properties):
    right = (lambda r, n: t5(declared(r))) if properties is T5 else (lambda r, n: alibi(np.abs(r)))
    data = cases(right, causal=properties is CAUSAL)
    assert violated(properties, data) == []
    ruler = Ruler("float32")
    assert all(p.violation(p.spoil(data, ruler), ruler) for p in properties)


def test_rounding_breaks_no_property():
    data = cases(lambda r, n: alibi(-r.astype(np.float32), np.float32([0.3, 0.7, 0.1])), True)
    assert violated(CAUSAL, data) == []
    half = accuracy.ROUNDOFF["bfloat16"]
    spoiled = [replace(c, actual=c.actual * (1 + half)) if c.k_len == 7 else c for c in data]
    assert violated(CAUSAL, spoiled) == [0]
    assert not any(p.violation(spoiled, Ruler("bfloat16")) for p in CAUSAL)


COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)
WRONG_SLOPES = {
    "positive": (0, lambda n: -ALiBi(n).slopes()),
    "distinct": (1, lambda n: np.full(n, 0.5)),
    "prefix": (2, lambda n: 2.0 ** (-8 * np.arange(1, n + 1) / n)),
    "geometric": (3, lambda n: ALiBi(n).slopes() * (1 + ALiBi(n).slopes())),
}


@pytest.mark.parametrize("name", WRONG_SLOPES)
def test_one_property_of_slopes_catches(name):
    number, make = WRONG_SLOPES[name]
    assert violated(SLOPES, {n: make(n) for n in COUNTS}) == [number]


def test_right_slopes_have_every_property_and_lose_it():
    data = {n: ALiBi(n).slopes() for n in COUNTS}
    assert violated(SLOPES, data) == []
    ruler = Ruler("float32")
    assert all(p.violation(p.spoil(data, ruler), ruler) for p in SLOPES)


WINDOW = np.arange(-400, 401)


def unclamped(r):
    n = np.abs(r)
    far = 8 + (np.log(np.maximum(n, 1) / 8) / np.log(16) * 8).astype(int)
    return np.where(n < 8, n, far) + 16 * (r > 0)


WRONG_BUCKETS = {
    "own": (True, 0, lambda r: declared(r) + (r == 0)),
    "inside": (True, 1, unclamped),
    "monotone": (True, 2, lambda r: declared(r) + 3 * (np.abs(r) == 20)),
    "exact": (True, 3, lambda r: declared(np.where(np.abs(r) < 8, np.sign(r), r))),
    "mirrored": (True, 4, lambda r: np.where(r > 0, declared(r, max_distance=64), declared(r))),
    "later": (False, 4, lambda r: declared(-np.abs(r), bidirectional=False)),
}


@pytest.mark.parametrize("name", WRONG_BUCKETS)
def test_one_property_of_buckets_catches(name):
    bidirectional, number, make = WRONG_BUCKETS[name]
    properties = judge_buckets.properties_of(32, bidirectional)
    data = judge_buckets.Buckets(WINDOW, make(WINDOW).astype(float))
    assert violated(properties, data) == [number]


@pytest.mark.parametrize("bidirectional", [True, False])
def test_right_buckets_have_every_property_and_lose_it(bidirectional):
    properties = judge_buckets.properties_of(32, bidirectional)
    bucket = declared(WINDOW, bidirectional=bidirectional).astype(float)
    data = judge_buckets.Buckets(WINDOW, bucket)
    assert violated(properties, data) == []
    ruler = Ruler("float32")
    assert all(p.violation(p.spoil(data, ruler), ruler) for p in properties)
