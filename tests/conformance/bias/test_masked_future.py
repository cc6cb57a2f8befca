"""Masks over keys that the declaration has, or has not: the same on both surfaces."""

import numpy as np
import pytest

from posenc_ref import ALiBi, RoPE, Sinusoidal, SwinBias, T5Bias, TransformerXL, scores
from posenc_ref.conformance import check


def numbers(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


TABLE = numbers(32, 4)
#: Encodings that say whether later keys are theirs, and whether they are.
DECLARED = [
    (ALiBi(2, causal=False), True),
    (ALiBi(2), False),
    (T5Bias(TABLE), True),
    (T5Bias(TABLE, bidirectional=False), False),
    (SwinBias(numbers(15, 4), window=(2, 3)), True),
]
#: Masks as they are written: the last is for float16.
MASKS = (-np.inf, -1e9, -1e4, -65504.0)


def bias(encoding, mask, first=1):
    """The encoding with ``mask`` over the keys from ``first`` after the query on."""

    def fn(q_len, k_len):
        at = np.arange(k_len - q_len, k_len)
        value = encoding.bias(at, np.arange(k_len))
        return np.where(np.arange(k_len) >= at[:, None] + first, mask, value).astype(np.float32)

    return fn


def logits(encoding, mask, first=1):
    def fn(q, k):
        product = np.einsum("bhid,bhjd->bhij", q, k) * encoding.own_scale(q.shape[-1])
        return (product + bias(encoding, mask, first)(q.shape[2], k.shape[2])).astype(np.float32)

    return fn


@pytest.mark.parametrize(("encoding", "theirs"), DECLARED, ids=str)
@pytest.mark.parametrize(("surface", "fn"), [("bias", bias), ("scores", logits)])
def test_a_mask_is_an_error_where_later_keys_are_declared(surface, fn, encoding, theirs):
    for mask in MASKS[:2] if not isinstance(encoding, ALiBi) or not theirs else MASKS:
        report = check(fn(encoding, mask), encoding, surface)
        assert report.codes == (["future-keys"] if theirs else []), report
        assert not theirs or report.findings[0].message == "keys after the query are masked"


@pytest.mark.nightly
def test_no_mask_but_one_wrong_key_is_something_else():
    encoding = ALiBi(2, causal=False)
    for first in (2, 3):
        for fn, surface in ((bias, "bias"), (logits, "scores")):
            report = check(fn(encoding, -1e9, first), encoding, surface)
            assert all(f.message != "keys after the query are masked" for f in report.findings)
            assert report.verdict == "deviates"


@pytest.mark.nightly
@pytest.mark.parametrize("surface", ["bias", "scores"])
def test_what_is_wrong_beside_the_mask_is_named_too(surface):
    encoding, other = ALiBi(6, causal=False), ALiBi(6, causal=False, max_bias=4.0)
    report = check((bias if surface == "bias" else logits)(other, -np.inf), encoding, surface)
    assert "future-keys" in report.codes
    if surface == "bias":
        assert set(report.codes) == {"future-keys", "slopes"}


def test_later_keys_that_are_not_finite_are_no_mask():
    encoding = ALiBi(2, causal=False)
    for value in (np.nan, np.inf):
        assert "nonfinite" in check(bias(encoding, value), encoding, "bias").codes
        assert "nonfinite" in check(logits(encoding, value), encoding, "scores").codes


@pytest.mark.parametrize(
    "encoding",
    [
        RoPE(8, layout="half"),
        TransformerXL(numbers(2, 8, 6), sinusoid=Sinusoidal(6)),
        Sinusoidal(8),
    ],
    ids=lambda e: type(e).__name__,
)
def test_where_nothing_is_declared_the_other_keys_are_judged(encoding):
    """Masking is the caller's: rotations, tables and terms have no word about later keys."""

    def masked(q, k):
        n_q, n_k = q.shape[2], k.shape[2]
        at = np.arange(n_k - n_q, n_k)
        value = scores(encoding, q, k, at, np.arange(n_k))
        return np.where(np.arange(n_k) > at[:, None], -np.inf, value).astype(np.float32)

    report = check(masked, encoding, "scores")
    assert report.passed, report
    assert any("are masked: the others are judged" in limit for limit in report.limits)
