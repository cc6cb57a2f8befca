"""How angles are held is named by the model that gives the very same values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import posenc_ref as pr
from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance import check
from posenc_ref.conformance.harness.probes import GENERIC
from posenc_ref.conformance.phases.precision import classify, models, reduced, rounded

AT = np.unique(np.r_[np.arange(1, 17), GENERIC])
SHORT = [reduced(pi) for pi in (3.14, 3.1416, 3.14159, 3.141593)]
HALF = [*SHORT, *(model for model in models() if model.code)]
HONEST = [model for model in models() if not model.code]
SCHEDULES = [(64, 10000.0), (128, 500000.0), (32, 10000.0)]


def theta(dim, base):
    return base ** (-np.arange(0, dim, 2) / dim)


def noisy(values, seed, dtype="float32"):
    """A few float32 roundings more, then one to ``dtype``."""
    errors = np.random.default_rng(seed).uniform(-1, 1, values.shape)
    return rounded(values * (1 + 2 * ROUNDOFF["float32"] * errors), dtype)


@pytest.mark.parametrize("dim_base", SCHEDULES, ids=str)
@pytest.mark.parametrize("model", HALF, ids=lambda m: m.name)
def test_every_model_is_recognised_in_float32(model, dim_base):
    w = theta(*dim_base)
    cos, sin = model.cos_sin(AT, w)
    if model.table is None:  # values of a coarse table have no float32 noise left in them
        cos, sin = noisy(cos, 1), noisy(sin, 2)
    at = np.isfinite(cos).all(axis=1)
    seen = classify(AT[at], cos[at], sin[at], w, "float32")
    assert seen is not None
    assert (seen.code, seen.name) == (model.code, model.name)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("model", [m for m in HALF if m.table is None], ids=lambda m: m.name)
def test_every_model_is_found_behind_a_half_precision_output(model, dtype):
    w = theta(128, 500000.0)
    cos, sin = (rounded(t, dtype) for t in model.cos_sin(AT, w))
    at = np.isfinite(cos).all(axis=1)
    seen = classify(AT[at], cos[at], sin[at], w, dtype)
    assert seen is not None
    assert seen.code in ("angle-precision", "position-precision", "range-reduction")
    assert (seen.code == "range-reduction") is model.exact


@given(
    base=st.floats(100.0, 1e7),
    half=st.sampled_from([8, 16, 32, 64]),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
    style=st.sampled_from(["power", "exp", "float64", "complex"]),
    top=st.sampled_from([64, 2048, 131071]),
)
def test_float32_and_float64_angles_are_never_called_half(base, half, dtype, style, top):
    w = theta(2 * half, base)
    p = AT[top >= AT]
    k = np.arange(half, dtype=np.float32)
    if style == "power":
        w32 = 1.0 / np.float32(base) ** (k / half)
    elif style == "exp":
        w32 = np.exp(-np.log(np.float32(base)) * (k / half))
    else:
        w32 = w if style == "float64" else w.astype(np.float32)
    angle = p.astype(w32.dtype)[:, None] * w32
    assert style == "float64" or angle.dtype == np.float32
    turn = np.exp(1j * angle) if style == "complex" else np.cos(angle) + 1j * np.sin(angle)
    cos, sin = (rounded(t.astype(np.float64), dtype) for t in (turn.real, turn.imag))
    seen = classify(p, cos, sin, w, dtype)
    assert seen is not None
    assert seen.code == ""
    assert style != "float64" or seen.name == "float64 angles"


def test_float32_and_float64_angles_are_told_apart_in_float32():
    w = theta(64, 10000.0)
    for model in HONEST:
        cos, sin = (rounded(t, "float32") for t in model.cos_sin(AT, w))
        seen = classify(AT, cos, sin, w, "float32")
        assert seen is not None
        assert seen.name == model.name


def test_other_frequencies_and_other_positions_are_no_model():
    w = theta(64, 10000.0)
    for angle in (AT[:, None] * w * 1.01, (AT[:, None] + 1) * w, np.minimum(AT, 2047)[:, None] * w):
        assert classify(AT, np.cos(angle), np.sin(angle), w, "float32") is None


def test_an_origin_is_part_of_the_positions():
    w = theta(64, 10000.0)
    angle = rounded((AT[:, None] + 1) * w, "float32")
    seen = classify(AT, np.cos(angle), np.sin(angle), w, "float32", origin=1.0)
    assert seen is not None
    assert seen.code == ""


def test_nan_meets_no_model():
    w = theta(64, 10000.0)
    cos, sin = models()[0].cos_sin(AT, w)
    cos[3, 4] = np.nan
    assert classify(AT, cos, sin, w, "float32") is None


@pytest.mark.parametrize("turns", [np.trunc, np.rint])
@pytest.mark.parametrize(
    "pi",
    [22 / 7, 3.1415, 3.141592, 3.1415926, 3.1415927, 3.14159265, float(np.float32(np.pi))],
)  # fmt: skip
def test_any_short_pi_is_fitted(pi, turns):
    w = theta(64, 10000.0)
    cos, sin = (noisy(t, 1) for t in reduced(pi, turns).cos_sin(AT, w))
    seen = classify(AT, cos, sin, w, "float32")
    assert seen is not None
    assert seen.code == "range-reduction"
    told = seen.name.removeprefix("angles reduced with pi = ")
    assert told == "22/7" if pi == 22 / 7 else f"{float(told):.9g}" == f"{pi:.9g}"


def test_a_position_scale_in_float32_is_no_short_pi():
    w = theta(64, 10000.0)
    angle = AT[:, None] * float(np.float32(1 / 3)) * w
    cos, sin = (rounded(t, "float32") for t in (np.cos(angle), np.sin(angle)))
    seen = classify(AT, cos, sin, w / 3, "float32")
    assert seen is not None
    assert seen.name == "float32 angles"


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_positions_that_half_precision_holds_exactly_are_not_blamed(half):
    """A table of 2048 rows in float16: its positions are exact, its numbers are not."""
    at = AT[{"float16": 2048, "bfloat16": 256}[half] > AT]
    w = theta(64, 10000.0)
    cos, sin = (rounded(f(at[:, None] * w), half) for f in (np.cos, np.sin))
    seen = classify(at, cos, sin, w, "float32")
    assert seen is not None
    assert (seen.code, seen.name) == ("table-precision", f"cos and sin tables in {half}")


@pytest.mark.parametrize(
    ("highest", "expected"),
    [(64, "float32 angles or better"), (None, "float64 angles")],
)
def test_small_positions_do_not_tell_float32_from_float64(highest, expected):
    """Functions of small grids were said to compute angles in float64, whatever they did."""
    rope = pr.RoPE(64, layout="half")

    def cos_sin(positions):
        if highest is not None and positions.max(initial=0) >= highest:
            raise ValueError(f"positions must be below {highest}")
        angles = positions[:, None] * np.tile(rope.frequencies(), 2)
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    report = check(cos_sin, rope, "cos_sin")
    assert report.passed
    assert report.accuracy.precision == expected
