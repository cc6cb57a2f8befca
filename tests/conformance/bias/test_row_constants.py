"""Constants of rows, which softmax does not see, and what of the bias is left beside them."""

import numpy as np
import pytest

from posenc_ref import ALiBi, Sandwich
from posenc_ref.conformance import check
from tests.night import by_day

PAST = ALiBi(8)


def added(encoding, constant, dtype="float32"):
    """The bias with ``constant(i)`` added to the row of the query at i, as ``bias``."""

    def bias(q_len, k_len):
        at = np.arange(k_len - q_len, k_len)
        return (encoding.bias(at, range(k_len)) + constant(at)[:, None]).astype(dtype)

    return bias


def logits(encoding, constant):
    """The same as ``scores``."""
    bias = added(encoding, constant, "float64")

    def scores(q, k):
        product = np.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
        return (product + bias(q.shape[2], k.shape[2])).astype(np.float32)

    return scores


SURFACES = {"bias": added, "scores": logits}


@pytest.mark.parametrize(
    ("surface", "encoding"),
    [("bias", PAST), ("scores", PAST), ("scores", Sandwich(4, dim=128))],
    ids=str,
)
@pytest.mark.parametrize(
    "constant",
    [
        lambda i: 1e6 * i,
        pytest.param(lambda i: 0.0 * i + 1e6, marks=pytest.mark.nightly),
        pytest.param(lambda i: 1e6 * (i == 3), marks=pytest.mark.nightly),
    ],
    ids=["grows", "same", "one row"],
)
def test_a_bias_that_is_rounded_away_beside_its_constant(surface, encoding, constant):
    report = check(SURFACES[surface](encoding, constant), encoding, surface)
    assert report.codes == ["inaccurate"], report
    assert report.findings[0].message.startswith("constants of up to ")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("surface", "encoding"),
    [("bias", PAST), pytest.param("scores", Sandwich(4, dim=128), marks=pytest.mark.nightly)],
    ids=str,
)
def test_small_constants_are_nothing(surface, encoding):
    for constant in (lambda i: 0.0 * i, lambda i: 0.0 * i + 100, lambda i: 0.01 * i):
        assert check(SURFACES[surface](encoding, constant), encoding, surface).passed


@pytest.mark.parametrize("surface", SURFACES)
def test_constants_are_said_and_fail_a_strict_check(surface):
    for constant, said in ((lambda i: 0.0 * i, 0), (lambda i: 0.01 * i, 1)):
        fn = SURFACES[surface](PAST, constant)
        report = check(fn, PAST, surface, max_position=255)
        assert report.passed
        assert [f.code for f in report.findings] == ["harmless-convention"] * said
        strict = check(fn, PAST, surface, max_position=255, strict=True)
        assert strict.codes == ["harmless-convention"] * said
        if said:
            assert "by a constant in each row" in strict.findings[0].message


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kept", by_day([0, 8192, 131072], {0, 131072}))
def test_keys_may_be_counted_from_any_end(dtype, kept):
    """``m (j - last)`` for every query, of the call or of a table kept for so many keys."""
    slopes = PAST.slopes()[:, None, None]

    def bias(q_len, k_len):
        row = slopes * (np.arange(k_len) - (kept or k_len) + 1)
        return np.broadcast_to(row, (8, q_len, k_len)).astype(dtype)

    report = check(bias, PAST, "bias", dtype=dtype)
    assert report.passed, report


@pytest.mark.nightly
def test_other_mistakes_keep_their_names_beside_a_constant():
    naive = 2.0 ** (-8 * np.arange(1, 13) / 12)

    def bias(q_len, k_len):
        at = np.arange(k_len - q_len, k_len)[:, None]
        return (-naive[:, None, None] * np.abs(np.arange(k_len) - at) + 1000).astype(np.float32)

    assert check(bias, ALiBi(12), "bias").codes == ["slopes"]


def test_a_base_and_an_exponent_that_give_the_same_numbers():
    declared, wrong = Sandwich(4, dim=128), Sandwich(4, dim=128, base=100.0)
    report = check(
        lambda q, k: wrong.bias(np.arange(k - q, k), np.arange(k)).astype(np.float32),
        declared,
        "bias",
    )
    assert report.findings[0].message == (
        "the base is 100; or the exponent is k/128, not 2k/128: the same numbers"
    )
