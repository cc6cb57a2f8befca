"""Logits of windows and of sequences of one length, judged whole: no other size has a meaning."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check

RNG = np.random.default_rng(7)


def numbers(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


GRID = (3, 4)
SWIN = pr.SwinBias(numbers(RNG, 35, 3), window=GRID)
KERPLE = pr.Kerple([0.5, 1.5, 0.25], [0.1, 0.7, 2.0])
BIASES = [
    SWIN,
    pr.BEiTBias(numbers(RNG, 38, 3), window=GRID),
    pr.LeViTBias(numbers(RNG, 12, 3), window=GRID),
    pr.LogCPB(numbers(RNG, 5, 2), numbers(RNG, 5), numbers(RNG, 3, 5), window=GRID),
    pr.DynamicWindowBias(
        (numbers(RNG, 5, 2), numbers(RNG, 3, 5)), (numbers(RNG, 5), numbers(RNG, 3)), window=GRID
    ),
    pr.ChainBias(
        numbers(RNG, 3, 11), residue_index=range(8), asym_id=(0,) * 5 + (1,) * 3,
        entity_id=(0,) * 8, sym_id=(1,) * 5 + (2,) * 3, max_offset=2, max_chain=1,
    ),
    pr.ForgettingBias(-np.abs(numbers(RNG, 3, 30))),
]  # fmt: skip


def attention(encoding, sign=1):
    """Float32 logits of a module that knows one size."""
    n = encoding.tokens
    bias = np.asarray(encoding.bias(range(n), range(n)), np.float32)

    def fn(q, k):
        if (q.shape[2], k.shape[2]) != (n, n):
            raise ValueError(f"a window has {n} tokens, got {q.shape[2]}")
        scale = np.float32(encoding.own_scale(q.shape[-1]))
        return q @ k.swapaxes(-1, -2) * scale + np.float32(sign) * bias

    return fn


@pytest.mark.parametrize("encoding", BIASES, ids=lambda e: type(e).__name__)
def test_a_window_is_judged_as_a_whole(encoding):
    report = check(attention(encoding), encoding, "scores")
    assert report.verdict == "conforms", report
    assert report.executed["logits"] >= 2
    assert check(attention(encoding, -1), encoding, "scores").codes == ["bias-sign"]


@pytest.mark.parametrize(
    ("declared", "wrong", "code"),
    [
        (SWIN, SWIN.replace(table=SWIN.table[::-1]), "bucket-sign"),
        (KERPLE, KERPLE.replace(r1=KERPLE.r2, r2=KERPLE.r1), "wrong-row"),
    ],
    ids=["SwinBias", "Kerple"],
)
def test_what_is_wrong_with_a_bias_is_named_in_logits_too(declared, wrong, code):
    def logits(q, k):
        at = np.arange(k.shape[2])
        bias = wrong.bias(at[-q.shape[2] :], at)
        return q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5) + bias.astype(np.float32)

    assert check(logits, declared, "scores").codes == [code]


FORGETTING = BIASES[-1]


def forgets(q_len, k_len):
    return FORGETTING.bias(range(k_len - q_len, k_len), range(k_len)).astype(np.float32)


DECODED_WRONGLY = {
    "no bias while decoding": lambda q, k: forgets(q, k) * (q == k),
    "queries at the start": lambda q, k: forgets(k, k)[:, :q],
}


def with_bias(bias):
    """Logits with a bias of (q_len, k_len)."""

    def fn(q, k):
        scale = np.float32(q.shape[-1] ** -0.5)
        return q @ k.swapaxes(-1, -2) * scale + bias(q.shape[2], k.shape[2])

    return fn


@pytest.mark.parametrize("surface", ["bias", "scores"])
def test_a_sequence_is_decoded_too(surface):
    def report(bias, **how):
        fn = bias if surface == "bias" else with_bias(bias)
        return check(fn, FORGETTING, surface, **how)

    assert report(forgets).verdict == "conforms"
    for name, wrong in DECODED_WRONGLY.items():
        assert report(wrong).verdict == "deviates", name
    short = report(forgets, max_position=9)
    assert short.verdict == "conforms"
    assert short.accuracy.highest == 9


@pytest.mark.parametrize("surface", ["bias", "scores"])
def test_a_window_that_max_position_cuts_is_not_judged(surface):
    fn = attention(SWIN) if surface == "scores" else lambda q, k: SWIN.bias(range(q), range(k))
    assert check(fn, SWIN, surface, max_position=5).verdict == "inconclusive"


@pytest.mark.nightly
def test_a_long_sequence_is_not_asked_as_a_square(rng):
    long = pr.ForgettingBias(-np.abs(numbers(rng, 2, 5000)))
    sizes = []

    def fn(q_len, k_len):
        sizes.append(q_len * k_len)
        return long.bias(range(k_len - q_len, k_len), range(k_len)).astype(np.float32)

    report = check(fn, long, "bias")
    assert report.verdict == "conforms"
    assert report.accuracy.highest == long.tokens - 1
    assert max(sizes) * long.num_heads <= 2**23
