"""Promises of the exact core that values alone do not show: each was broken once, unnoticed.

tools/mutate.py breaks them; docs/generated/mutation-testing.md has what it found.
"""

import dataclasses
import re
from decimal import Decimal

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref import FrequencySchedule, Llama3Scaling, MultiAxisRoPE, RoPE, YaRN
from posenc_ref.accuracy import ROUNDOFF, TINY, Truth
from posenc_ref.angles import DIGITS, TWO_PI, decimal_context, geometric, tables, turns

YARN = {"factor": 4.0, "original_max_position": 4096}


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_the_smallest_normal_numbers_are_those_of_the_dtypes(dtype):
    info = np.finfo
    if dtype == "bfloat16":
        info = pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy").finfo
    smallest = float(info(dtype).smallest_normal)
    assert TINY[dtype] == (2 * smallest if dtype == "float64" else smallest)


def test_a_negative_term_size_gives_a_unit_of_zero():
    truth = Truth(np.ones(3), np.array([-1.0, 0.0, 1.0]), np.zeros(3))
    assert truth.unit("float32").tolist() == [0.0, 0.0, ROUNDOFF["float32"]]


def test_decimals_have_two_guard_digits():
    with decimal_context() as context:
        assert context.prec == DIGITS + 2 == 52


def test_frequencies_are_cut_into_24_and_24_and_53_bits():
    frequencies = geometric(10000.0, [Decimal(k) / 32 for k in range(32)])
    cut = turns(frequencies)
    for w, t1, t2, t3 in zip(frequencies, cut.t1, cut.t2, cut.t3, strict=True):
        with decimal_context():
            t = w / TWO_PI
            rests = [t, t - Decimal(t1), t - Decimal(t1) - Decimal(t2)]
        for rest, part in zip(rests[:2], (t1, t2), strict=True):
            _, exponent = np.frexp(float(rest))
            last = 2.0 ** (int(exponent) - 24)
            assert part % last == 0  # no more bits, so that products with positions are exact,
            assert abs(rest - Decimal(part)) <= Decimal(last / 2)  # and no fewer
        assert t3 == float(rests[2])


def test_turns_are_shared_and_cannot_be_changed():
    cut = turns((Decimal(1), Decimal("0.01")))
    assert turns((Decimal(1), Decimal("0.01"))) is cut
    with pytest.raises(dataclasses.FrozenInstanceError):
        cut.fastest = 0.0
    for part in (cut.t1, cut.t2, cut.t3):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 0.0


def test_tables_are_float64_unless_asked_otherwise():
    cut = turns((Decimal(1),))
    assert {t.dtype.name for t in tables(np.arange(3), cut, xp=np)} == {"float64"}
    asked = tables(np.arange(3), cut, xp=np, dtype=np.float32)
    assert {t.dtype.name for t in asked} == {"float32"}


def test_host_positions_give_tables_of_the_library_in_what_its_device_has():
    strict = pytest.importorskip(
        "array_api_strict", reason="array_api_strict is the library that is tried"
    )
    cut = turns((Decimal(1),))
    for device, dtype in (("CPU_DEVICE", strict.float64), ("no_float64", strict.float32)):
        place = strict.Device(device)
        for table in tables(np.arange(3), cut, xp=strict, device=place):
            assert isinstance(table, type(strict.asarray(0)))
            assert (table.dtype, table.device) == (dtype, place)


# --- rotations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [0.5, 1.0, 2.0, 3.0])
def test_every_factor_is_applied_to_tables_once(m):
    plain = RoPE(8, layout="half", scaling=YaRN(**YARN, attention_factor=1.0))
    scaled = RoPE(8, layout="half", scaling=YaRN(**YARN, attention_factor=m))
    for one, other in zip(plain.cos_sin(range(5)), scaled.cos_sin(range(5)), strict=True):
        assert np.array_equal(m * one, other)


def test_an_offset_or_another_output_layout_does_not_compose():
    settings = {"sections": (2, 2), "layout": "half"}
    assert "composition" in MultiAxisRoPE(8, **settings).properties
    assert "composition" not in MultiAxisRoPE(8, **settings, offset=1.0).properties
    assert "composition" in RoPE(8, layout="half").properties
    assert "composition" not in RoPE(8, layout="half", output_layout="interleaved").properties


def test_as_many_axes_as_there_are_sections():
    for sections in ((2, 2), (2, 1, 1), (1, 1, 1, 1)):
        assert MultiAxisRoPE(8, sections=sections, layout="half").num_axes == len(sections)


def test_a_slice_of_the_whole_head_is_no_slice():
    size = int("512")  # an integer of its own, not the one that head_dim is
    whole = RoPE(512, layout="half", rotary_dim=size)
    assert repr(whole) == "RoPE(512, layout='half')"
    assert whole == RoPE(512, layout="half")


@pytest.mark.parametrize(
    ("arguments", "name"), [({"head_dim": 7}, "head_dim"), ({"rotary_dim": 3}, "rotary_dim")]
)
def test_an_error_names_the_odd_argument(arguments, name):
    with pytest.raises(ValueError, match=f"^{name} must be even"):
        RoPE(**{"head_dim": 8, "layout": "half", **arguments})


# --- schedules -----------------------------------------------------------------------------------


def test_schedules_are_values():
    exported = [v for v in map(pr.__dict__.get, pr.__all__) if isinstance(v, type)]
    found = {c for c in exported if issubclass(c, FrequencySchedule)} - {FrequencySchedule}
    assert pr.YaRN in found
    for cls in found:
        asked = cls.__dataclass_params__
        assert (asked.frozen, asked.eq, asked.repr) == (True, False, False), cls


def test_a_schedule_cannot_be_changed_and_prints_what_was_chosen():
    scaling = Llama3Scaling(8.0, 1.0, 4.0, 8192)
    with pytest.raises(dataclasses.FrozenInstanceError):
        scaling.factor = 2.0
    assert repr(scaling) == "Llama3Scaling(8.0, 1.0, 4.0, 8192)"


def test_one_mscale_alone_is_refused_unless_neutral():
    words = re.escape("mscale and mscale_all_dim must both be given")
    for alone in ({"mscale": 2.0}, {"mscale": 0.5}, {"mscale": 0.0}, {"mscale_all_dim": 1.0}):
        with pytest.raises(ValueError, match=words):
            YaRN(**YARN, **alone)
        assert YaRN(**YARN, **alone, attention_factor=1.5).magnitude(None) == 1.5
    ordinary = YaRN(**YARN).magnitude(None)
    assert YaRN(**YARN, mscale=1.0).magnitude(None) == ordinary
    assert YaRN(**YARN, mscale=1.0, mscale_all_dim=1.0).magnitude(None) == 1.0
