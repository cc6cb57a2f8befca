"""Frequency schedules as values: JSON form, equality, and what each of them refuses."""

import json

import numpy as np
import pytest
import torch

import posenc_ref as pr
from posenc_ref.conformance.exact.schedules import examples, schedules

#: The examples of all schedules, and values that are stored in other ways.
VALUES = [
    *examples(),
    pr.NTKByParts(4, 4096, beta_0=1.5),
    pr.YaRN(8, 4096, attention_factor=1, mscale=0.5, blend="geometric"),
    pr.LongRoPE((1,) * 8, (2,) * 8, 4096, attention_factor=(1.1, 1.3), policy="long"),
    pr.GivenFrequencies([1, 0.5, -0.25, *[0.0] * 5], attention_factor=1.5),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_json_brings_every_schedule_back(value):
    rope = pr.RoPE(16, layout="half", scaling=value)
    for thing in (value, rope):
        back = pr.from_dict(json.loads(json.dumps(thing.to_dict())))
        assert back == thing
        assert hash(back) == hash(thing)
        assert repr(back) == repr(thing)
    assert eval(repr(value), vars(pr)) == value
    assert (back.frequencies() == rope.frequencies()).all()
    assert back.attention_factor() == rope.attention_factor()


def test_every_schedule_has_an_entry():
    # By the exported names: other tests define subclasses as well.
    exported = [v for v in (getattr(pr, name) for name in pr.__all__) if isinstance(v, type)]
    known = {c for c in exported if issubclass(c, pr.FrequencySchedule)}
    assert known - {pr.FrequencySchedule} == {*schedules()}
    assert len({hash(v) for v in VALUES}) == len(VALUES)


def test_fields_become_python_numbers_whatever_held_them():
    plain = pr.LongRoPE([1.0, 1.5], [2.0, 4.0], 4096, factor=2.0)
    for array in (np.array, np.float32, torch.tensor):
        short, long = array([1.0, 1.5]), array([2.0, 4.0])
        assert pr.LongRoPE(short, long, np.int64(4096), factor=np.float32(2)) == plain
        assert pr.GivenFrequencies(short) == pr.GivenFrequencies((1, 1.5))


def rope(scaling, d=8, base=1e4):
    return pr.RoPE(d, layout="half", base=base, scaling=scaling)


FACTOR = r"^factor must be at least 1, got 0.5"
REFUSED = [
    # factor below 1, or no number, in every schedule that has one
    (lambda: pr.LinearScaling(0.5), ValueError, FACTOR),
    (lambda: pr.NTKScaling(0.5), ValueError, FACTOR),
    (lambda: pr.DynamicNTK(0.5, 4096), ValueError, FACTOR),
    (lambda: pr.SuNTK(0.5), ValueError, FACTOR),
    (lambda: pr.NTKByParts(0.5, 4096), ValueError, FACTOR),
    (lambda: pr.YaRN(0.5, 4096), ValueError, FACTOR),
    (lambda: pr.Llama3Scaling(0.5, 1, 4, 8192), ValueError, FACTOR),
    (lambda: pr.LongRoPE([1], [2], 4096, factor=0.5), ValueError, FACTOR),
    (lambda: pr.Proportional(0.5, factor=0.5), ValueError, FACTOR),
    (lambda: pr.NTKScaling(np.nan), ValueError, "^factor must be finite, got nan"),
    (lambda: pr.YaRN("4", 4096), TypeError, "^factor must be a real number, got '4'"),
    (lambda: pr.YaRN(None, 4096), TypeError, "^factor must be a real number, got None"),
    # the trained length
    (lambda: pr.YaRN(4), TypeError, "original_max_position"),
    (lambda: pr.YaRN(4, None), TypeError, "^original_max_position must be an integer, got None"),
    (lambda: pr.YaRN(4, 4096.0), TypeError, "^original_max_position must be an integer"),
    (lambda: pr.YaRN(4, 0), ValueError, "^original_max_position must be at least 1, got 0"),
    (lambda: pr.NTKByParts(4, 0), ValueError, "^original_max_position must be at least 1"),
    (lambda: pr.Llama3Scaling(8, 1, 4, -1), ValueError, "^original_max_position must be at least"),
    (lambda: pr.Llama3Scaling(8, 1, 4), TypeError, "original_max_position"),
    (lambda: pr.LongRoPE([1], [2], 1, factor=2), ValueError, "max_position must be at least 2"),
    (lambda: pr.DynamicNTK(4, 0), ValueError, "^max_position must be at least 1, got 0"),
    (lambda: pr.DynamicNTK(4), TypeError, "max_position"),
    (lambda: pr.QwenNTK(0), ValueError, "^train_length must be at least 1, got 0"),
    # NTK's exponent d / (d - 2), as soon as there is a d
    (lambda: rope(pr.NTKScaling(2), 2), ValueError, r"d/\(d-2\) has no value at d = 2, got 2"),
    (lambda: rope(pr.DynamicNTK(2, 64), 2), ValueError, "^rotary_dim must be at least 4"),
    (lambda: rope(pr.QwenNTK(64), 2), ValueError, "^rotary_dim must be at least 4"),
    (lambda: rope(pr.NTKByParts(2, 64), 2), ValueError, "^rotary_dim must be at least 4"),
    (
        lambda: pr.RoPE(8, layout="half", rotary_dim=2, scaling=pr.NTKScaling(2)),
        ValueError,
        "^rotary_dim must be at least 4",
    ),
    (
        lambda: pr.MultiAxisRoPE(
            8, sections=(1, 3), layout="half", spacing="restart", scaling=pr.NTKScaling(2)
        ),
        ValueError,
        "^rotary_dim must be at least 4",
    ),
    (
        lambda: pr.DynamicNTK(2, 4096, policy="dynamic"),
        ValueError,
        "^policy must be one of 'current', 'static', got 'dynamic'",
    ),
    (lambda: pr.SuNTK(2, power=0), ValueError, "^power must be greater than 0, got 0"),
    # YaRN
    (
        lambda: pr.YaRN(4, 4096, beta_fast=1, beta_slow=32),
        ValueError,
        "^beta_slow must be at most beta_fast.*swapped.*beta_fast=1 and beta_slow=32",
    ),
    (lambda: pr.YaRN(4, 4096, beta_slow=0), ValueError, "^beta_slow must be greater than 0"),
    (lambda: pr.YaRN(4, 4096, truncate=1), TypeError, "^truncate must be True or False, got 1"),
    (lambda: pr.YaRN(4, 4096, attention_factor=0), ValueError, "^attention_factor must be greater"),
    (lambda: pr.YaRN(4, 4096, mscale=-1, mscale_all_dim=1), ValueError, "^mscale must be at least"),
    (lambda: pr.YaRN(4, 4096, mscale=0.7), ValueError, "must both be given .* give attention_f"),
    (lambda: pr.YaRN(4, 4096, mscale_all_dim=1), ValueError, "mscale=None and mscale_all_dim=1"),
    (lambda: pr.YaRN(4, 4096, mscale=0.7, mscale_all_dim=0), ValueError, "both be given"),
    (lambda: pr.YaRN(4, 4096, blend="log"), ValueError, "^blend must be one of 'linear', 'geom"),
    (
        lambda: rope(pr.YaRN(4, 1), 64),
        ValueError,
        "^original_max_position = 1 with base 10000 and rotary_dim 64 puts the correction range "
        "outside the pairs.*turns less than 1 times.*LinearScaling",
    ),
    (lambda: rope(pr.YaRN(4, 2**30), base=2.0), ValueError, "turns more than 32 times within that"),
    (
        lambda: pr.NTKByParts(4, 4096, beta_0=0.75, beta_1=1.25),
        ValueError,
        "^beta_1 must be at most beta_0.*got beta_0=0.75 and beta_1=1.25",
    ),
    (lambda: pr.NTKByParts(4, 4096, gamma_1=17), ValueError, "^gamma_1 must be at most gamma_0"),
    (lambda: pr.NTKByParts(4, 4096, gamma_1=0), ValueError, "^gamma_1 must be greater than 0"),
    # Llama 3
    (
        lambda: pr.Llama3Scaling(8, 4, 1, 8192),
        ValueError,
        "^high_freq_factor must be at least low_freq_factor.*swapped.*got high_freq_factor=1 and "
        "low_freq_factor=4",
    ),
    (lambda: pr.Llama3Scaling(8, 0, 4, 8192), ValueError, "^low_freq_factor must be greater than"),
    # LongRoPE
    (
        lambda: pr.LongRoPE([1], [2], 4096),
        ValueError,
        "^factor or attention_factor must be given, got neither",
    ),
    (lambda: pr.LongRoPE([1], [2, 3], 4096, factor=2), ValueError, "pair, got 1 and 2"),
    (lambda: pr.LongRoPE([], [], 4096, factor=2), ValueError, "^short_factor must have one number"),
    (lambda: pr.LongRoPE(1.0, [2], 4096, factor=2), TypeError, "^short_factor must be a sequence"),
    (lambda: pr.LongRoPE("12", [2], 4096, factor=2), TypeError, "^short_factor must be a sequence"),
    (lambda: pr.LongRoPE([1], [0], 4096, factor=2), ValueError, r"^long_factor\[0\] must be great"),
    (lambda: pr.LongRoPE([1], ["2"], 4096, factor=2), TypeError, r"^long_factor\[0\] must be a"),
    (
        lambda: rope(pr.LongRoPE([1] * 3, [2] * 3, 4096, factor=2)),
        ValueError,
        "^short_factor must have one number for each of the 4 channel pairs.*rotary_dim = 8, got 3",
    ),
    (
        lambda: rope(pr.LongRoPE([1] * 3, [2] * 3, 4096, factor=2, policy="long")),
        ValueError,
        "^long_factor must have one number for each of the 4",
    ),
    (
        lambda: pr.LongRoPE([1], [2], 4096, attention_factor=[1, 2, 3]),
        ValueError,
        r"^attention_factor must be a number or a pair \(short, long\), got 3",
    ),
    (
        lambda: pr.LongRoPE([1], [2], 4096, factor=2, policy="auto"),
        ValueError,
        "^policy must be one of 'current', 'short', 'long', got 'auto'",
    ),
    # proportional, given
    (lambda: pr.RIFLEx(0, 66), ValueError, "^pair must be at least 1, got 0"),
    (lambda: pr.RIFLEx(4, 0), ValueError, "^length must be at least 1, got 0"),
    (lambda: pr.RIFLEx(4, 66, periods=1.5), ValueError, "^periods must be at most 1, got 1.5"),
    (lambda: rope(pr.RIFLEx(5, 66), d=8), ValueError, "^pair must be at most d/2 = 4, got 5"),
    (lambda: pr.Proportional(1.5), ValueError, "^fraction must be at most 1, got 1.5"),
    (lambda: pr.Proportional(-0.5), ValueError, "^fraction must be at least 0, got -0.5"),
    (lambda: pr.GivenFrequencies([1, np.inf]), ValueError, r"^frequencies\[1\] must be finite"),
    (lambda: pr.GivenFrequencies(np.ones((2, 2))), TypeError, r"^frequencies\[0\] must be a real"),
    (lambda: pr.GivenFrequencies(1.0), TypeError, "^frequencies must be a sequence of numbers"),
    (
        lambda: rope(pr.GivenFrequencies([1.0])),
        ValueError,
        "^frequencies must have one number for each of the 4 channel pairs.*got 1",
    ),
    (lambda: rope(4.0), TypeError, "^scaling must be None or a schedule such as"),
]


@pytest.mark.parametrize(("make", "error", "message"), REFUSED)
def test_what_schedules_refuse(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_one_mscale_is_taken_where_both_readings_agree():
    for given in ({"mscale": 1}, {"mscale": 1, "mscale_all_dim": 0}, {"mscale_all_dim": 0}):
        assert pr.YaRN(40, 4096, **given).magnitude(None) == pr.YaRN(40, 4096).magnitude(None)
    assert pr.YaRN(40, 4096, mscale=0.7, attention_factor=1.5).magnitude(None) == 1.5
