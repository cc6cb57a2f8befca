"""Arguments at and beyond the bounds of posenc_ref.limits: exact, fast, or refused by name."""

import time
from decimal import Decimal

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref import limits
from posenc_ref.angles import decimal_context
from posenc_ref.t5 import bucket_starts

ROPE = pr.RoPE(8, layout="half")
LONG = pr.LongRoPE((1.0, 2.0), (2.0, 4.0), 16, factor=2.0)

REFUSED = [
    (lambda: pr.T5Bias(np.ones((2**17, 1)), num_buckets=2**17), "num_buckets must be at most"),
    (lambda: pr.ALiBi(4, max_bias=1e308), "^max_bias must be at most 1022, got"),
    (
        lambda: pr.convert_layout(np.float32(1), source="half", target="interleaved"),
        r"^x must have shape \(..., head_dim\), got \(\)",
    ),
    (lambda: pr.ALiBi(4).truth([[1]], [[2]]), r"shapes \(Q,\) and \(K,\), got \(1, 1\)"),
    (lambda: pr.encoding.Encoding().to_dict(), "^Encoding has no fields"),
    (lambda: pr.mrope_positions(range(2**50)), "^token_types must be .* got 1125899906842623"),
    (lambda: pr.packed([[1], [1, 2]]), "^lengths must have rows of equal length"),
    (lambda: pr.decode_positions(pr.SuNTK(2.0), 2**31), "^prompt_len must be integers"),
    (lambda: pr.Learned(np.float32), r"^weight must .* got the class float32"),
    (lambda: ROPE.cos_sin(np.float32), "^positions must be .* got the class float32"),
    (lambda: pr.relative_shift(np.float32), "^x must .* got the class float32"),
    (lambda: pr.LogNScale(4).apply(np.float32, [0]), "^q must .* got the class float32"),
    (lambda: pr.PoPE(4).truths([[1.0]], [[1.0]], [0], [0], 1.0), "^q must be a NumPy array, got l"),
    (lambda: LONG.schedule(1e4, 4, {}), "^seq_len must be an integer, got {}"),
    (lambda: LONG.magnitude({}), "^seq_len must be an integer, got {}"),
    (lambda: pr.DynamicNTK(2.0, 16).schedule({}, 4, None), "^base must be a real number, got {}"),
    (lambda: pr.QwenNTK(2048).schedule(16, np.int64(2**40), 16), "^rotary_dim must be at most"),
    (lambda: pr.YaRN(8.0, 8192, attention_factor=1e308), "^attention_factor must be at most 32768"),
    (lambda: pr.YaRN(8.0, 8192, mscale=1e308, mscale_all_dim=1.0), "^m, which mscale .* at most"),
    (lambda: pr.GivenFrequencies((1.0,), attention_factor=1e308), "^attention_factor must be at m"),
    (lambda: pr.LongRoPE((1.0,), (2.0,), 16, attention_factor=1e308), "^attention_factor must be "),
    (lambda: pr.LongRoPE((1.0,), (2.0,), 16, attention_factor=(1.0, 1e308)), r"^attention_factor"),
    (lambda: pr.PowerTemperature(1e6, 64), "^exponent must give a factor of at most"),
    (lambda: pr.LogTemperature(1e308, 1), "^beta must give a factor of at most"),
    (lambda: pr.QueryTemperature(1e308, 1), "^beta must give a factor of at most"),
    (lambda: ROPE.cos_sin([2**40 + 1]), "at most 1099511627776 in .*, got 1099511627777$"),
    (lambda: ROPE.cos_sin([2**40 + 0.5]), "at most 1099511627776 in .*, got 1099511627776.5$"),
    (
        lambda: pr.XPos(8, layout="half", centre=2**40 + 1),
        "^centre must be at most 1099511627776, got 1099511627777$",
    ),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_what_is_out_of_bounds_is_refused_by_name(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def seconds(call):
    """Return the processor time of a call in seconds."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def test_the_largest_sizes_take_less_than_two_seconds():
    most = limits.SIZE
    table = pr.T5Bias(np.ones((most, 1)), num_buckets=most, max_distance=2**53, bidirectional=False)
    assert seconds(lambda: table.bias(4, 4)) < 2
    assert seconds(lambda: pr.ALiBi(most, max_bias=limits.MAX_BIAS).bias(2, 2)) < 2


def by_powers(nb, far):
    """Return the bucket starts by comparing powers of integers, from the definition."""
    me = nb // 2
    starts = list(range(1, me + 1))
    for t in range(1, nb - me):
        n = starts[-1]
        while n ** (nb - me) * me**t < far**t * me ** (nb - me):
            n += 1
        starts.append(n)
    return tuple(starts)


@pytest.mark.parametrize("nb", [2, 3, 5, 8, 16, 31, 64])
def test_bucket_starts_are_those_of_the_definition(nb):
    me = nb // 2
    for far in (me + 1, 4 * me, 8 * me, 9 * me, 128, 1000):  # 4 and 8 times give whole numbers
        if far > me:
            assert bucket_starts(nb, far) == by_powers(nb, far), far


def test_far_bucket_starts_are_exact():
    # From 2**3 to 2**51 in 8 steps: every sixth power of two begins a bucket.
    assert bucket_starts(16, 2**51)[7:] == tuple(8 * 2 ** (6 * t) for t in range(8))


@pytest.mark.parametrize("heads", [1, 6, 8, 40, 112])
@pytest.mark.parametrize("top", [8.0, 3.7, 1022.0])
def test_slopes_are_rounded_powers(heads, top):
    c = 1 << (heads.bit_length() - 1)
    exponents = [Decimal(h) / c for h in range(1, c + 1)]
    exponents += [Decimal(h) / (2 * c) for h in range(1, 2 * c, 2)]
    with decimal_context():
        expected = [float(2 ** (-Decimal(top) * e)) for e in exponents[:heads]]
    assert pr.ALiBi(heads, max_bias=top).slopes().tolist() == expected
    assert min(expected) > 0


@pytest.mark.filterwarnings("error")
def test_the_largest_factors_stay_finite():
    scaling = pr.YaRN(8.0, 8192, attention_factor=limits.MAGNITUDE)
    cos, _ = ROPE.replace(scaling=scaling).cos_sin([0, 2**40], dtype=np.float16)
    assert np.isfinite(cos).all()
    scale = pr.PowerTemperature(2.49, 1)
    assert np.isfinite(scale.factor([2**40], dtype=np.float32)).all()


def test_a_single_position_is_one_query():
    truth = pr.ALiBi(4).truth(64, np.array([1, 2]))
    assert (truth.value == -np.array([63, 62]) / 4.0 ** np.arange(1, 5)[:, None, None]).all()
