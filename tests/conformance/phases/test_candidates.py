"""The frequencies that a mistake would give, against formulas written here or in the encodings."""

from types import SimpleNamespace

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import BUDGET, Truth
from posenc_ref.conformance import check
from posenc_ref.conformance.phases.formula_mistakes import LLAMA3_SHAPES, YARN_SHAPES
from posenc_ref.conformance.phases.frequencies import FrequencyMistake, _unfilled
from posenc_ref.conformance.phases.measure import Phases
from posenc_ref.conformance.phases.multi_axis_mistakes import multi_axis_mistakes
from posenc_ref.conformance.phases.schedule_mistakes import scaling_mistakes
from posenc_ref.conformance.phases.start import origin_of

PLAIN = 10000.0 ** (-np.arange(8) / 8)
ROPE = pr.RoPE(16, layout="half")


def close(actual, expected):
    """Whether frequencies agree, relative to the largest numbers that are added to give them."""
    truth = Truth(np.asarray(expected), np.maximum(expected, PLAIN), np.zeros(len(expected)))
    return (truth.score(np.asarray(actual)) <= BUDGET["float64"]).all()


def predicted(mistakes, words):
    """Return what the only mistake whose message has these words predicts."""
    (found,) = (one.predicted for one in mistakes if words in one.message)
    return found


def test_forms_of_yarn():
    declared = ROPE.replace(scaling=pr.YaRN(4.0, 4096))
    shapes = {text: shape(declared, declared.scaling) for text, shape in YARN_SHAPES.items()}
    ramp = (1 - declared.frequencies() / PLAIN) / (1 - 1 / 4)
    assert ((ramp > 0.05) & (ramp < 0.95)).any()
    expected = {
        "as declared": declared.frequencies(),
        "frequencies are blended geometrically": PLAIN * 4.0**-ramp,
        "periods are blended, not frequencies": 1 / ((1 - ramp) / PLAIN + ramp * 4 / PLAIN),
    }
    for text, frequencies in expected.items():
        assert close(shapes[text], frequencies), text


def test_llama_3_blended_by_wavelength():
    scaling = pr.Llama3Scaling(8.0, 2.0, 16.0, 1024)
    shape = LLAMA3_SHAPES["the blend is linear in the wavelength, not in the frequency"]
    wavelength = 2 * np.pi / PLAIN
    smooth = np.clip((1024 / 2 - wavelength) / (1024 / 2 - 1024 / 16), 0, 1)
    assert ((smooth > 0) & (smooth < 1)).any()
    expected = PLAIN / 8 + smooth * (PLAIN - PLAIN / 8)
    assert close(shape(ROPE.replace(scaling=scaling), scaling), expected)


def test_mistakes_of_one_axis():
    scaled = [
        ROPE.replace(scaling=scaling)
        for scaling in (
            pr.LongRoPE(np.arange(1.0, 9.0), np.arange(11.0, 19.0), 4096, factor=8.0),
            pr.YaRN(4.0, 64),
            pr.Proportional(0.5),
        )
    ]
    long, yarn, part = (list(scaling_mistakes(encoding)) for encoding in scaled)
    for words, factors in (("short", np.arange(1.0, 9.0)), ("long", np.arange(11.0, 19.0))):
        found = predicted(long, f"multiplied by the {words} factors")
        assert close(found, PLAIN * factors)
    assert close(predicted(yarn, "the scaling is LinearScaling(4"), PLAIN / 4)
    slow = predicted(part, "exponents are divided by the 8 channels that turn")
    assert close(slow, [*(10000.0 ** (-np.arange(4) / 4)), 0, 0, 0, 0])


def test_mistakes_of_several_axes():
    doubled = pr.MultiAxisRoPE(16, sections=(4, 4), layout="half", position_scale=2.0)
    assert close(predicted(multi_axis_mistakes(doubled), "multiplied by"), PLAIN)
    assert not [m for m in multi_axis_mistakes(doubled.replace(position_scale=1.0))
                if "positions" in m.message]  # fmt: skip


def test_frequencies_of_zero_have_no_origin():
    run = SimpleNamespace(budget=128.0, coarse="float32")
    nothing = np.zeros(2)
    phases = Phases(nothing, nothing, nothing, np.ones(2))
    declared = SimpleNamespace(origin=3.0, sign=1)
    assert origin_of(run, phases, declared, nothing) == 3.0


@pytest.mark.parametrize(
    ("code", "target", "reported"),
    [
        ("frequency-spacing", PLAIN, "uninitialised"),
        ("frequency-spacing", PLAIN[::-1], "frequency-spacing"),  # a declared order of its own
        ("base", PLAIN, "base"),
    ],
)
def test_frequencies_without_an_order_were_never_set(code, target, reported):
    found = FrequencyMistake(code, "another spacing", PLAIN)
    noise = np.array([0.3, 7.0, 0.0, 2.0, 0.2, 9.0, 3.0, 4.0])
    assert _unfilled(found, noise, target).code == reported


def test_an_amplitude_that_grows_and_where_it_is_first_seen():
    def grows(positions):
        size = 1 + 0.02 * np.maximum(np.asarray(positions) - 4, 0)[..., None]
        return tuple(np.float32(size * t) for t in ROPE.cos_sin(positions, dtype="float64"))

    (finding,) = check(grows, ROPE, "cos_sin").findings
    assert finding.code == "amplitude"
    assert finding.evidence.startswith("pair 0 at position 5: cos 0.289")


def test_small_angles_are_right_and_larger_ones_are_not():
    def bent(positions):
        angle = np.asarray(positions)[..., None] * ROPE.frequencies()
        angle = np.where(angle > np.pi / 4, angle + 0.3 * np.sin(7 * angle), angle)
        return np.float32(np.cos(angle)), np.float32(np.sin(angle))

    assert check(bent, ROPE, "cos_sin").codes == ["range-reduction"]


def test_half_tables_where_exact_angles_are_required_are_called_half():
    def half(positions):
        tables = ROPE.cos_sin(positions, dtype="float64")
        return tuple(t.astype(np.float16).astype(np.float64) for t in tables)

    assert check(half, ROPE, "cos_sin", dtype="float64").codes == ["table-precision"]
