"""Lines fitted to a bias."""

from types import SimpleNamespace

import numpy as np

from posenc_ref import ALiBi, T5Bias
from posenc_ref.conformance import check
from posenc_ref.conformance.bias.diagnose_buckets import words
from posenc_ref.conformance.bias.diagnose_slopes import _series
from posenc_ref.conformance.bias.formulas import truth_of
from posenc_ref.conformance.bias.model import _line


def test_a_slope_needs_two_keys_on_its_side():
    offsets = np.arange(3)[None] - 1
    actual = np.array([[[5.0, 0.0, 2.0]], [[7.0, 1.0, 4.0]]])  # (H, 1, K)
    case = SimpleNamespace(q_len=1, judged=np.ones((1, 3), bool), offsets=offsets, actual=actual)
    assert _line(case, lambda r: r > 0) is None
    assert _line(case, lambda r: r >= 0).tolist() == [2.0, 3.0]


def test_the_slopes_of_clamped_distances_are_those_of_near_keys():
    encoding = ALiBi(8)

    def clamped(q_len, k_len):
        back = np.arange(q_len)[:, None] + k_len - q_len - np.arange(k_len)
        return -encoding.slopes()[:, None, None] * np.clip(back, 0, 1000)

    assert check(clamped, encoding, "bias").measured.startswith("slopes of the heads: 0.5, 0.25,")


def test_the_rounding_of_slopes_is_no_start_of_a_series():
    slopes = 2.0 ** (-0.5 * np.arange(1, 13)) * (1 + 2.4e-10 * np.array([1, *[0] * 11]))
    ((words, _),) = _series(slopes)
    assert words == "one series 2 ** -(0 + 0.5 h), h = 1 .. 12"


def test_buckets_of_which_all_distances_share_one_have_no_starts():
    """The words ended with "starting at distances "."""
    encoding = T5Bias(np.zeros((32, 6)), bidirectional=False)
    r = np.arange(-516, 517)
    said = words(encoding, r, encoding.bucket(r))
    assert said.endswith("; later keys: buckets 0..0")
    assert "earlier keys: buckets 1..31, starting at distances 1..16, 19" in said


def test_a_logarithm_written_with_few_digits():
    encoding = T5Bias(np.zeros((320, 2)), num_buckets=320, max_distance=800)

    def bucket(r):
        r = np.asarray(r)
        n = np.abs(r)
        far = 80 + np.floor(np.log(np.maximum(n, 1) / 80) / 2.3 * 80 + 1e-9).astype(int)
        return np.where(r > 0, 160, 0) + np.where(n < 80, n, np.minimum(far, 159))

    (finding,) = check(bucket, encoding, "bucket").findings
    assert finding.message == "log(800 / 80) is taken as 2.3, not as 2.30259"


def test_later_keys_with_the_slopes_of_other_heads():
    """The message gave the median of the ratios as the ratio of all heads."""
    encoding = ALiBi(12, causal=False)

    def rolled(q_len, k_len):
        r = np.arange(k_len) - np.arange(k_len - q_len, k_len)[:, None]
        own, other = (m[:, None, None] for m in (encoding.slopes(), np.roll(encoding.slopes(), 6)))
        return -np.abs(r) * np.where(r > 0, other, own)

    (finding,) = check(rolled, encoding, "bias").findings
    assert finding.message == (
        "keys after the query have slopes of their own: 12 of 12 slopes are wrong; measured: the "
        "declared slopes in the order of heads [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5]"
    )


def test_a_factor_that_is_another_start_of_the_slopes():
    encoding = ALiBi(8)

    def bias(q_len, k_len):
        back = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)
        return -(2.0 ** -np.arange(8.0))[:, None, None] * np.maximum(back, 0)

    (finding,) = check(bias, encoding, "bias").findings
    assert finding.message == (
        "the bias is multiplied by 2 = sqrt(4); or the slopes are 0.5 ** h, h = 0, ..., 7, not 1, "
        "..., 8: the same slopes"
    )


def test_another_kind_of_buckets_in_calls_with_one_query():
    """The message said that a shift of queries explains a part of the results."""
    table = np.random.default_rng(3).normal(size=(32, 3))
    encoding, causal = T5Bias(table), T5Bias(table, bidirectional=False)

    def bias(q_len, k_len):
        of = causal if q_len == 1 else encoding
        return of.bias(np.arange(k_len - q_len, k_len), np.arange(k_len), dtype="float64")

    (finding,) = check(bias, encoding, "bias").findings
    assert finding.message == (
        "buckets are causal, declared bidirectional, only in calls with Q = 1"
    )
    assert "Use bidirectional=True in every call." in finding.remedy


def test_the_declared_bias_of_a_small_call_is_computed_once():
    truth, q = truth_of(ALiBi(8)), np.arange(4)
    assert truth(q, q) is truth(q, q.copy())
    far = np.arange(300)
    assert truth(far, far) is not truth(far, far)
    assert np.array_equal(truth(q, q).value, ALiBi(8).truth(q, q).value)
