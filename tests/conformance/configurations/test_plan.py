"""Plans of a length, against mpmath, published numbers and arithmetic written here."""

import math
import re

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

from posenc_ref import (
    ALiBi,
    DynamicNTK,
    Learned,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    MultiAxisRoPE,
    Proportional,
    RoPE,
    T5Bias,
    YaRN,
)
from posenc_ref.conformance.configurations.angle_errors import angle_errors
from posenc_ref.conformance.configurations.plan import NEW, SEEN, plan
from posenc_ref.conformance.configurations.plan_text import other_plan, plan_text
from posenc_ref.conformance.configurations.plot import plot
from tests.conformance.configurations.close import close

LLAMA2 = RoPE(128, layout="half")


def planned(rope, length, trained=None, context=None, window=None):
    return plan(rope, length, trained=trained, context=context, window=window)


@pytest.mark.parametrize(("trained", "critical"), [(4096, 92), (16384, 110)])
def test_critical_dimension_of_llama_2(trained, critical):
    """Liu et al. 2023, arXiv:2310.05209, definition 1: 92 for 4096; d 2 ceil(d/2 log(T/2pi))."""
    assert 2 * planned(LLAMA2, 2 * trained, context=trained).count(SEEN) == critical
    assert critical == 2 * math.ceil(64 * math.log(trained / (2 * math.pi), 10000))


def test_pairs_against_mpmath():
    rope = RoPE(64, layout="half", base=500000.0, scaling=LinearScaling(3.0))
    found = planned(rope, 30000, trained=7000)
    with mp.workdps(40):
        for p in found.pairs:
            w = mpf(500000) ** (-mpf(2 * p.pair) / 64) / 3
            assert close(p.wavelength, 2 * mp.pi / w)
            assert p.trained_wavelength == p.wavelength
            assert close(p.turns, 30000 * w / (2 * mp.pi))
            assert close(p.trained_turns, 7000 * w / (2 * mp.pi))
            assert (p.state == SEEN) == (7000 * w >= 2 * mp.pi)
            assert p.state in (SEEN, NEW)


def test_a_scaling_states_the_trained_length():
    rope = RoPE(128, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))
    inside = planned(rope, 65536)
    assert (inside.trained, inside.count(NEW)) == (8192, 0)
    assert close(inside.pairs[0].trained_wavelength, 2 * math.pi)
    assert "65536 is within factor * original length = 8 * 8192 = 65536" in inside.notes
    beyond = planned(rope, 65537)
    assert beyond.count(NEW) == 64 - beyond.count(SEEN) > 0
    assert "65537 is beyond factor * original length" in plan_text(beyond)
    given = planned(rope, 131072, trained=131072)
    assert given.count(NEW) == 0
    # The slowest pair as trained: divided by 8.
    slowest = 2 * math.pi * 8 * 500000 ** (126 / 128)
    assert close(given.pairs[-1].trained_wavelength, slowest)


def test_a_longer_context_was_trained_with_the_scaling():
    """Llama 3.1 states 131072, and was trained on 8192 tokens before the scaling."""
    rope = RoPE(128, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))
    found = planned(rope, 131072, context=131072)
    text = plan_text(found)
    assert (found.trained, found.count(NEW), found.options) == (131072, 0, [])
    assert "trained   131072 tokens (its context, with its own scaling" in text
    assert "--trained N states another" in text
    assert "no pair reaches an angle that never occurred in training" in text
    # The pairs that turn less than once in 8192 tokens are divided by 8, and planned 16 times.
    slow = [k for k in range(64) if 8192 * 500000 ** (-k / 64) < 2 * math.pi]
    assert (slow[0], slow[-1], len(slow)) == (35, 63, 29)
    assert (
        "before the scaling (original length 8192), 29 pairs turned less than once and less far "
        "than planned: 35-63, now up to 2 times as far"
    ) in text
    within = planned(rope, 65536, context=131072)
    assert "every pair turned at least once or as far as planned" in plan_text(within)
    longer = planned(rope, 262144, context=131072)
    turned = sum(131072 * 500000 ** (-k / 64) / 8 >= 2 * math.pi for k in range(64))
    assert longer.count(NEW) == 64 - turned == 25
    fits = {o.scaling: o.unseen for o in longer.options}
    assert fits["Llama3Scaling(8.0, 1.0, 4.0, 8192)"] == fits["no scaling"] == 25
    assert fits["Llama3Scaling(16.0, 1.0, 4.0, 8192)"] == 0
    assert len(fits) == len(longer.options) == 3


def test_a_context_of_the_original_length_says_nothing_of_the_scaling():
    """Qwen2.5 states 32768, and YaRN is set by the user."""
    rope = RoPE(128, layout="half", base=1e6, scaling=YaRN(4.0, 32768))
    found = planned(rope, 131072, context=32768)
    assert (found.trained, found.count(NEW)) == (32768, 0)
    assert "before the scaling; --trained N states the length with it" in found.basis


def test_shorter_calls_were_trained_with_their_own_frequencies():
    """LongRoPE divides by other factors in calls of up to 4096 tokens: none of them is new."""
    rope = RoPE(8, layout="half", scaling=LongRoPE((1.0,) * 4, (64.0,) * 4, 4096, factor=32.0))
    for length in (4096, 5000, 131072):
        assert planned(rope, length, context=131072).count(NEW) == 0, length
    # The last pair, with frequency 1/1000, turns 4096 / 1000 or 131072 / 64000 radians.
    (*_, last) = planned(rope, 200000, context=131072).pairs
    assert close(last.trained_turns, 4.096 / (2 * math.pi))
    assert (last.state, planned(rope, 300000, context=131072).pairs[-1].state) == (
        "interpolated", NEW,
    )  # fmt: skip


def test_a_scaling_without_a_factor_is_not_extended():
    scaling = LongRoPE((1.0,) * 4, (64.0,) * 4, 4096, attention_factor=1.0)
    found = planned(RoPE(8, layout="half", scaling=scaling), 262144, context=131072)
    assert [option.scaling for option in found.options] == [repr(scaling), "no scaling"]


def test_the_model_was_trained_without_the_override():
    shipped = RoPE(64, layout="half", base=10000.0)
    tried = RoPE(64, layout="half", base=80000.0, scaling=LinearScaling(2.0))
    found = plan(tried, 16384, trained=None, context=8192, window=None, shipped=shipped)
    plain = planned(shipped, 16384, context=8192)
    assert found.trained == 8192
    for p, own, w in zip(found.pairs, plain.pairs, 80000.0 ** (-np.arange(32) / 32), strict=True):
        assert (p.trained_turns, p.trained_wavelength) == (own.trained_turns, own.wavelength)
        assert close(p.wavelength, 4 * math.pi / w)
    assert (found.options[0].scaling, found.options[0].unseen) == (repr(tried), 0)
    assert found.options[1] == plain.options[0]


def test_the_trained_length_is_needed():
    with pytest.raises(ValueError, match=r"does not state the trained length.*--trained"):
        planned(LLAMA2, 8192)
    scaled = RoPE(128, layout="half", scaling=LinearScaling(4.0))
    with pytest.raises(ValueError, match="give it in tokens with --trained"):
        planned(scaled, 8192, context=16384)
    with pytest.raises(ValueError, match="lengths must be at least 1"):
        planned(LLAMA2, 0, context=4096)


def reach(base, dim, learned, length, k, divisor):
    """Whether pair k, divided, reaches an angle that it did not see in training."""
    w = base ** (-2 * k / dim)
    return learned * w < 2 * math.pi and length > learned * divisor


def test_settings_that_fit():
    found = planned(LLAMA2, 16384, context=4096)
    by_name = {o.scaling: o for o in found.options}
    never = sum(reach(10000, 128, 4096, 16384, k, 1) for k in range(64))
    assert by_name["no scaling"].unseen == never == 18
    ntk = sum(reach(10000, 128, 4096, 16384, k, 4 ** (2 * k / 126)) for k in range(64))
    assert by_name["NTKScaling(4.0)"].unseen == ntk == 17
    for name in ("LinearScaling(4.0)", "YaRN(4.0, 4096)", "Llama3Scaling(4.0, 1.0, 4.0, 4096)"):
        assert by_name[name].unseen == 0
    assert close(by_name["YaRN(4.0, 4096)"].attention_factor, 0.1 * math.log(4) + 1)


def test_the_smallest_factor_of_ntk_leaves_no_angle_unseen():
    found = planned(LLAMA2, 16384, context=4096)
    factors = {o.scaling: o.unseen for o in found.options}
    fitting = [float(m[1]) for n in factors if (m := re.match(r"NTKScaling\((.*)\)", n))][1]
    # Pair 46, the first that does not turn once, is divided by factor ** (92 / 126).
    assert fitting == math.ceil(4 ** (126 / 92) * 1000) / 1000
    assert factors[f"NTKScaling({fitting})"] == 0
    less = [reach(10000, 128, 4096, 16384, k, (0.99 * fitting) ** (2 * k / 126)) for k in range(64)]
    assert any(less)
    (dynamic,) = [n for n in factors if n.startswith("DynamicNTK")]
    assert factors[dynamic] == 0


def test_dynamic_scaling_is_taken_at_the_length():
    rope = RoPE(128, layout="half", scaling=DynamicNTK(2.0, 4096))
    found = planned(rope, 8192)
    # alpha = 1 + 2 (8192 - 4096) / 4096 = 3 divides the last pair.
    assert close(found.pairs[-1].wavelength, 3 * 2 * math.pi * 10000 ** (126 / 128))
    assert "the frequencies depend on the length of the call" in "".join(found.notes)


def test_windows_limit_the_distances():
    found = planned(LLAMA2, 100000, context=4096, window=1024)
    assert (found.reach, found.count(NEW), found.options) == (1024, 0, [])
    assert "a query sees 1024 keys, so no distance exceeds 1023" in plan_text(found)
    # In training, too, no distance exceeded the window.
    assert found.count(SEEN) == sum(1024 * 10000 ** (-k / 64) >= 2 * math.pi for k in range(64))
    assert close(found.pairs[0].trained_turns, 1024 / (2 * math.pi))
    wider = planned(LLAMA2, 100000, context=4096, window=8192)
    assert close(wider.pairs[0].trained_turns, 4096 / (2 * math.pi))
    assert wider.count(NEW) == 64 - wider.count(SEEN) > 0


def test_errors_of_angles():
    """float32 holds the position 2**17 - 1 and the frequency 1 exactly."""
    two = planned(RoPE(2, layout="half"), 2**17, context=4096)
    assert two.errors["float32"] == 0
    # 131071 rounds to 131072 in bfloat16; between 2**16 and 2**17 its spacing is 512.
    assert two.errors["bfloat16"] == 256
    four = planned(RoPE(4, layout="half"), 2**20, context=4096)
    exact = [abs(float(np.float32(np.float32(p) * np.float32(0.01))) - p * 0.01)
             for p in range(2**20 - 1024, 2**20)]  # fmt: skip
    assert close(four.errors["float32"], max(exact))
    at = torch.arange(70001 - 1024, 70001, dtype=torch.float64)
    for w in (0.01, 0.3, 0.7):
        product = at.bfloat16() * torch.tensor(w).bfloat16() - at * w
        found = angle_errors(np.array([w]), 70001)["bfloat16"]
        assert close(found, float(product.abs().max()))


def test_pairs_at_rest():
    found = planned(RoPE(8, layout="half", scaling=Proportional(0.5)), 64, trained=32)
    assert [p.wavelength is None for p in found.pairs] == [False, False, True, True]
    assert "at rest" in plan_text(found)


def test_sections():
    rope = MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6)
    found = planned(rope, 65536, context=32768)
    assert len(found.pairs) == 64
    plain = planned(RoPE(128, layout="half", base=1e6), 65536, context=32768)
    assert found.pairs == plain.pairs


def test_other_encodings():
    # The slopes of four heads are 2 ** -2, 2 ** -4, 2 ** -6 and 2 ** -8.
    assert "at distance 255: from -63.75 to -0.996094" in other_plan(ALiBi(4), 256)
    assert "all distances from 128 on" in other_plan(T5Bias(np.zeros((32, 2))), 4096)
    assert "nothing depends on the length" in other_plan(None, 8)
    rows = Learned(np.zeros((66, 4)), offset=2)
    assert "there are rows for 64 positions, so 65 tokens do not fit" in other_plan(rows, 65)
    assert "64 tokens fit" in other_plan(rows, 64)


def test_a_plot_that_breaks_off_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda descriptor: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plot([("llama 2", planned(LLAMA2, 8192, trained=4096))], tmp_path / "a.png")
    assert [*tmp_path.iterdir()] == []


def test_text_and_plot(tmp_path):
    rope = RoPE(64, layout="half", base=150000.0, scaling=YaRN(32.0, 4096, truncate=False))
    found = planned(rope, 131072)
    text = plan_text(found)
    assert "18 of 32 pairs turn at least once in training" in text
    assert "14 pairs stay within the angles of training" in text
    assert text.splitlines()[-33].split() == (
        ["pair", "trained", "wavelength", "turns", "planned", "wavelength", "turns", "angles"]
    )
    path = tmp_path / "plan.svg"
    plot([("gpt-oss", found)], path)
    assert path.stat().st_size > 1000
    with pytest.raises(ValueError, match=r"plan.svg exists already"):
        plot([("gpt-oss", found)], path)
