"""A short pi is recognised in angles with float32 roundings, and no rounding is taken for one."""

import numpy as np
import pytest

from posenc_ref import Sinusoidal
from posenc_ref.conformance import check
from posenc_ref.conformance.harness.probes import TELLING
from posenc_ref.conformance.phases.precision import classify

f32 = np.float32
EXPONENTS = np.arange(0, 64, 2, dtype=f32)
BASES = [1e4, 5e5]

FREQUENCIES = {
    "float64": lambda b: (b ** (-np.arange(32) / 32)).astype(f32),
    "power": lambda b: f32(1) / f32(b) ** (EXPONENTS / f32(64)),
    "exp": lambda b: np.exp(-f32(np.log(b)) * (EXPONENTS / f32(64))),
    "exp of a step": lambda b: np.exp(EXPONENTS * f32(-np.log(b) / 64)),
    "products": lambda b: np.cumprod(np.r_[1, np.full(31, b ** (-1 / 32))], dtype=f32),
}
#: Ways to reduce float32 angles modulo 2 pi with some value of pi.
REDUCTIONS = {
    "fmod": lambda a, pi: np.fmod(a, f32(2 * pi)),
    "fmod in float64": lambda a, pi: np.fmod(a.astype(float), 2 * pi).astype(f32),
    "floor": lambda a, pi: a - np.floor(a / f32(2 * pi)) * f32(2 * pi),
    "nearest": lambda a, pi: a - np.rint(a * f32(0.5 / pi)) * f32(2 * pi),
    "turns": lambda a, pi: (lambda t: (t - np.floor(t)) * f32(2 * pi))(a * f32(0.5 / pi)),
}


def cody_waite(a):
    """The angles minus whole turns, in two parts."""
    n = np.rint(a * f32(0.5 / np.pi))
    return (a - n * f32(6.28125)) - n * f32(2 * np.pi - 6.28125)


def found(w, reduce, base, divide=False):
    """The class of angles with the frequencies ``w``, in float32."""
    at = TELLING[:, None].astype(f32)
    angle = reduce(at / (f32(1) / w) if divide else at * w)
    exact = base ** (-np.arange(32) / 32)
    model = classify(TELLING, np.cos(angle), np.sin(angle), exact, "float32")
    return None if model is None else model.name


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("how", REDUCTIONS)
@pytest.mark.parametrize(
    ("pi", "name"), [(3.14159, "3.14159"), (3.1416, "3.1416"), (3.14, "3.14"), (22 / 7, "22/7")]
)
def test_a_short_pi_is_recognised_in_float32_angles(pi, name, how, base):
    for w in FREQUENCIES.values():
        angles = found(w(base), lambda a: REDUCTIONS[how](a, pi), base)
        assert angles == f"angles reduced with pi = {name}"


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("frequencies", FREQUENCIES)
@pytest.mark.parametrize("divide", [False, True])
def test_no_correct_float32_angles_are_accused(frequencies, base, divide):
    w = FREQUENCIES[frequencies](base)
    for reduce in (lambda a: a, cody_waite):
        assert found(w, reduce, base, divide) == "float32 angles"
    for how in REDUCTIONS.values():
        for pi in (np.pi, 3.1415927):
            name = found(w, lambda a, how=how, pi=pi: how(a, pi), base, divide)
            assert name == "float32 angles"


def test_the_report_says_from_which_position_on_a_short_pi_shows():
    """Brute force over every position finds 2430."""

    def table(p):
        angle = np.fmod(p[:, None].astype(f32) * FREQUENCIES["float64"](1e4), f32(2 * 3.14159))
        return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(p.size, 64)

    report = check(table, Sinusoidal(64), "table")
    (finding,) = (f for f in report.findings if f.severity == "error")
    assert finding.code == "range-reduction"
    assert finding.message == "angles reduced with pi = 3.14159"
    assert finding.evidence.endswith("first error over 2**-9 at position 2430")
