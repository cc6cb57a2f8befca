"""Causes of values that are only rounded, scaled or 0, and their words."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS, significant
from posenc_ref.conformance.harness.plural import ordinal


def test_a_declared_scale_of_0_conforms():
    encoding = pr.Sinusoidal(8, scale=0.0)
    assert (
        check(lambda p: np.zeros((len(p), 8), np.float32), encoding, "table").verdict == "conforms"
    )
    (found,) = check(lambda p: np.ones((len(p), 8), np.float32), encoding, "table").findings
    assert found.code == "amplitude"


def test_a_factor_alone_is_one_mistake():
    encoding = pr.T5Bias(np.ones((32, 4)))
    (found,) = check(
        lambda q, k: np.full((4, q, k), 1.5, np.float32), encoding, "bias", max_position=130
    ).findings
    assert found.message == "the bias is multiplied by 1.5"


@pytest.mark.parametrize("causal", [True, False])
def test_the_remedy_of_the_sign_has_the_declared_distance(causal):
    encoding = pr.ALiBi(4, causal=causal)

    def wrong(q, k):
        return -np.asarray(encoding.bias(np.arange(k - q, k), np.arange(k)))

    (found,) = check(wrong, encoding, "bias", max_position=130).findings
    assert ("|query - key|" in found.remedy) == (not causal)


def test_a_result_that_is_only_rounded_is_called_rounded():
    encoding = pr.CoPE(np.random.default_rng(0).normal(size=(12, 16)))

    def wrong(q, k):
        n_q, n_k = q.shape[2], k.shape[2]
        whole = pr.scores(encoding, q, k, np.arange(n_k - n_q, n_k), np.arange(n_k))
        return significant(np.asarray(whole, np.float64), SIGNIFICANT_BITS["bfloat16"])

    (found,) = check(wrong, encoding, "scores").findings
    assert found.message == "the logit is the declared one, rounded to bfloat16, in every call"


def test_ordinals():
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 22, 103, 112)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "103rd", "112th",
    ]  # fmt: skip


def biased(change, surface, encoding):
    """Return the findings about ALiBi with ``change(slopes, distances)`` as its bias."""

    def bias(n_q, n_k):
        distance = np.arange(n_k - n_q, n_k)[:, None] - np.arange(n_k)
        return change(encoding.slopes()[:, None, None], np.abs(distance))

    def logits(q, k):
        scaled = q @ np.swapaxes(k, -1, -2) * q.shape[3] ** -0.5
        return scaled + bias(q.shape[2], k.shape[2])

    fn = bias if surface == "bias" else logits
    return [one.message for one in check(fn, encoding, surface, max_position=300).findings]


def test_a_clamped_and_scaled_distance_is_no_shift():
    found = biased(lambda m, d: -m / 8 * np.minimum(d, 64), "bias", pr.ALiBi(6))
    assert found == [
        "the bias is multiplied by 0.125 = 1/sqrt(64)", "distances are clamped at 64",
    ]  # fmt: skip


def test_heads_without_a_bias_are_listed():
    kept = np.arange(6)[:, None, None] < 4
    (found,) = biased(lambda m, d: -m * kept * d, "bias", pr.ALiBi(6))
    assert "heads 4-5 have no bias: the slope is 0; the other slopes are right" in found
    encoding = pr.ALiBi(6, causal=False)
    assert biased(lambda m, d: -m * kept * d, "scores", encoding) == ["heads 4-5 have no bias"]


def test_the_order_and_the_size_of_slopes_are_measured_together():
    (found,) = biased(lambda m, d: -2 * m[::-1] * d, "bias", pr.ALiBi(6))
    assert "2 = sqrt(4) times the declared slopes in the order of heads [5, 4, 3" in found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: np.maximum(r, 0), "the offset query - key is taken as 0 where it is negative"),
        (lambda r: np.clip(r, -64, 64), "the offset query - key is clamped to -64 .. 64"),
        (np.abs, "the offset query - key is replaced by its absolute value"),
        (lambda r: 0 * r, "logits do not depend on positions: the encoding is missing, or the "
         "head index is used as the position"),
    ],
)  # fmt: skip
def test_another_function_of_the_offset_of_rope_is_named(change, words):
    encoding = pr.RoPE(16, layout="half")

    def wrong(q, k):
        n_q, n_k = q.shape[2], k.shape[2]
        r = change(np.arange(n_k - n_q, n_k)[:, None] - np.arange(n_k))
        turned = (encoding.apply(q, np.full(n_q, at)) for at in range(r.min(), r.max() + 1))
        by_offset = np.stack([x @ np.swapaxes(k, -1, -2) / 4 for x in turned], axis=-1)
        at = np.broadcast_to(r - r.min(), by_offset.shape[:-1])
        return np.take_along_axis(by_offset, at[..., None], -1)[..., 0]

    (found,) = check(wrong, encoding, "scores", max_position=130).findings
    assert found.message == words
