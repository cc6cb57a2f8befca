"""Real numbers that are rounded to integers on the way to a bias: the report names the step."""

import numpy as np
import pytest

from posenc_ref import FIRE, ALiBi, BEiTBias, Kerple, LogCPB, T5Bias
from posenc_ref.conformance import check
from posenc_ref.conformance.bias.distance_formulas import t5_bucket
from posenc_ref.conformance.bias.formulas import changed, step_changes
from posenc_ref.conformance.diagnosis.steps import computed, plain_steps
from posenc_ref.conformance.phases.precision import rounded


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


HIDDEN, SHIFTS, OUT = numbers(1, 5, 2), numbers(2, 5), numbers(3, 2, 5)
WINDOW = LogCPB(HIDDEN, SHIFTS, OUT, window=(3, 4))


def log_cpb(inside=lambda v: v, logged=lambda v: v, both=lambda v: v, whole=lambda v: v):
    def fn(q_len, k_len):
        at = np.arange(12)
        d = np.stack([at[:, None] // 4 - at // 4, at[:, None] % 4 - at % 4], -1)
        v = inside(8 * d / (2, 3))
        v = both(np.sign(v) * logged(np.log2(1 + np.abs(v))) / 3)
        y = np.maximum(v @ HIDDEN.T + SHIFTS, 0) @ OUT.T
        return np.moveaxis(whole(16 / (1 + np.exp(-y))), -1, 0).astype(np.float32)

    return fn


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (log_cpb(inside=np.floor), "8 d / (n - 1), the argument of the logarithm, is rounded down"),
        (log_cpb(inside=np.trunc), "logarithm, is rounded towards 0 to integers (trunc)"),
        (log_cpb(logged=np.ceil), "the logarithm is rounded up to integers (ceil)"),
        (log_cpb(both=np.floor), "the network's input, is rounded down to integers (floor)"),
        (log_cpb(whole=np.rint), "the bias is rounded to the nearest integers"),
    ],
)
@pytest.mark.nightly
def test_a_rounded_step_of_a_window_is_named(fn, words):
    message = check(fn, WINDOW, "bias").findings[0].message
    assert words in message


@pytest.mark.parametrize(
    ("e", "fn", "words"),
    [
        (Kerple((0.5, 1.0), (0.3, 0.5)),
         lambda d: -np.array([0.5, 1.0])[:, None, None]
         * np.floor(np.log1p(np.array([0.3, 0.5])[:, None, None] * d)),
         "the logarithm is rounded down to integers (floor)"),
        (Kerple((0.5, 1.0), (0.3, 0.5), form="power"),
         lambda d: -np.array([0.5, 1.0])[:, None, None]
         * np.ceil(d ** np.array([0.3, 0.5])[:, None, None]),
         "the power distance ** r2 is rounded up to integers (ceil)"),
    ],
)  # fmt: skip
@pytest.mark.nightly
def test_a_rounded_step_of_distances_is_named(e, fn, words):
    def bias(q_len, k_len):
        q = np.arange(k_len - q_len, k_len)
        return fn(np.abs(q[:, None] - np.arange(k_len)) * 1.0).astype(np.float32)

    assert words in check(bias, e, "bias").findings[0].message


def test_right_numbers_have_no_rounded_step_where_they_are_whole():
    def formula(steps):
        return steps.number("the offset", np.arange(4)) + steps.real("half", np.arange(4) / 2)

    named = {name for name, words in plain_steps(formula).codes if "integers" in words}
    assert named == {"half"}
    change = ("half", "is rounded up to integers (ceil)")
    assert computed(formula, change).tolist() == [0, 2, 3, 5]


def test_a_logarithm_without_its_divisor_is_named_and_starts_are_listed_as_measured():
    e = T5Bias(numbers(7, 32, 2))

    def fn(relative_position):
        r = np.asarray(relative_position).astype(int)
        n = np.abs(r)
        with np.errstate(divide="ignore"):
            far = 8 + np.floor(np.log(np.maximum(n, 1)) / np.log(128) * 8 + 1e-9)
        return np.where(n < 8, n, np.minimum(far, 15)).astype(int) + 16 * (r > 0)

    report = check(fn, e, "bucket")
    assert "is log(distance) / log(max_distance), without" in report.findings[0].message
    assert "starting at distances 1..8, 8, 8, 8, 12, 21, 39, 70;" in report.measured


def test_the_change_of_a_bucket_is_the_declared_one_where_nothing_is_changed():
    e = T5Bias(numbers(7, 32, 2))
    r = np.arange(-200, 201)
    assert np.array_equal(computed(lambda s: t5_bucket(e, r, s), ("", "")), e.bucket(r))


def test_each_rounded_step_is_a_change_of_the_formula():
    messages = [message for _, message, _, _ in step_changes(WINDOW)]
    for words in ("8 d / (n - 1), the argument of the logarithm, is rounded towards 0 to integers",
                  "the logarithm is rounded up to integers (ceil)",
                  "the network's input, is rounded down to integers (floor)",
                  "the bias is rounded to the nearest integers"):  # fmt: skip
        assert any(words in message for message in messages)
    name = "8 d / (n - 1), the argument of the logarithm,"
    at = np.arange(12)
    got = changed(WINDOW, (name, "is rounded down to integers (floor)"))(at, at).value
    expected = log_cpb(inside=np.floor)(12, 12)
    assert np.abs(got - expected).max() <= 1e-6 * np.abs(expected).max()


def test_biases_of_the_class_token_that_are_zero_are_named():
    e = BEiTBias(numbers(8, 18, 2), window=(2, 3))

    def fn(q_len, k_len):
        bias = np.array(e.bias(range(7), range(7)), np.float32)
        bias[:, 0] = bias[:, :, 0] = 0
        return bias

    (finding,) = check(fn, e, "bias").findings
    assert finding.message.startswith("the bias of [CLS] is 0 in both directions")


def test_the_threshold_of_fire_is_not_called_the_position_of_query_0():
    e = FIRE(numbers(4, 3, 1), numbers(5, 3), numbers(6, 2, 3), length=8.0)
    messages = [message for _, message, _, _ in step_changes(e)]
    assert "the position in the denominator is the threshold for every query" in messages
    assert not any("that of query 0" in message for message in messages)


def test_buckets_from_float16_distances():
    """Each step is rounded; distances past 65504 are infinite, and their buckets undefined."""
    encoding = T5Bias(np.cos(np.arange(320.0))[:, None], num_buckets=320, max_distance=800)

    @np.errstate(all="ignore")
    def buckets(r):
        n, half = np.abs(r), np.float16
        log = np.log(n.astype(half) / half(80)) / half(np.log(10)) * half(80)
        far = np.minimum((half(80) + log).astype(np.int64), 159)
        return np.where(n < 80, n, far) + 160 * (r > 0)

    report = check(buckets, encoding, "bucket")
    assert [f.message for f in report.findings] == ["the logarithm is evaluated in float16"]


@pytest.mark.parametrize("of_keys", [False, True])
def test_every_step_in_bfloat16(of_keys):
    """Slopes, distances or key positions, and their products."""
    encoding = ALiBi(16)

    def fn(q_len, k_len):
        query, key = np.arange(k_len - q_len, k_len)[:, None], np.arange(k_len)[None]
        factor = rounded(encoding.slopes(), "bfloat16")[:, None, None]
        at = rounded((key + 0 * query if of_keys else key - query).astype(float), "bfloat16")
        return rounded(factor * at, "bfloat16").astype(np.float32)

    what = "key positions" if of_keys else "distances"
    [finding] = check(fn, encoding, "bias").findings
    assert finding.message == f"slopes, {what} and their product are rounded to bfloat16"
