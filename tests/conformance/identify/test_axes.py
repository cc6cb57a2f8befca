"""`identify` of rotations by several axes: rules of real models that no single base gives."""

import numpy as np
import pytest

from posenc_ref import LinearScaling, LongRoPE, MixedRoPE, MultiAxisRoPE, RoPE
from posenc_ref.accuracy import SAME_FREQUENCY
from posenc_ref.conformance import identify
from posenc_ref.conformance.harness.implementation import Implementation
from tests.conformance.identify.near import near


def by_heads(encoding):
    """A function that takes the heads of the encoding only, as a model with its weights does."""

    def apply(x, positions):
        if x.shape[1] != encoding.heads:
            raise ValueError(f"expected {encoding.heads} heads, got {x.shape[1]}")
        return encoding.apply(x, positions)

    return Implementation(
        apply,
        "apply",
        "by heads",
        head_dim=encoding.head_dim,
        axes=encoding.num_axes,
        num_heads=encoding.heads,
    )


@pytest.mark.parametrize(
    "encoding",
    [MixedRoPE.fractional(16), MixedRoPE.fractional(12), MixedRoPE.fractional(24, base=500.0)],
    ids=["padded", "ltx", "another base"],
)
def test_frequencies_that_rise_have_a_rule(encoding):
    """LTX-Video: the frequencies are not listed, because a formula gives them."""
    card = identify(encoding.apply, "apply", head_dim=encoding.head_dim, axes=3)
    assert card.encoding == encoding, card
    assert card.rule
    assert card.exact


def test_frequencies_of_two_axes_that_rise_otherwise_are_listed():
    """Frequencies by another formula, which must not be called LTX's."""
    weight = np.zeros((2, 6))
    for axis in range(2):
        weight[axis, axis::2] = np.array([1.0, 7.0, 20.0]) / 32
    encoding = MixedRoPE(12, weight, layout="interleaved")
    card = identify(encoding.apply, "apply", head_dim=12, axes=2)
    assert not card.rule
    assert card.exact


def test_heads_with_their_own_frequencies():
    """LTX-2 with `rope_type="split"`: the first pair of head 0 does not turn."""
    encoding = MixedRoPE.fractional(32, num_heads=2)
    assert not encoding.weight[0, :, 0].any()
    card = identify(by_heads(encoding), axes=3)
    assert card.encoding == encoding, card
    assert card.exact


def test_learned_frequencies_of_heads():
    """Mochi: every axis turns every pair, in each head by another frequency."""
    weight = 0.3 * np.random.default_rng(0).standard_normal((2, 3, 4))
    encoding = MixedRoPE(8, weight, layout="interleaved")
    card = identify(by_heads(encoding), axes=3)
    assert isinstance(card.encoding, MixedRoPE), card
    assert card.encoding.heads == 2
    assert near(card.encoding.weight, weight)
    assert card.exact, card


def test_heads_that_are_alike_have_one_frequency_each():
    """A function that takes two heads alone, and rotates both by the same angles."""
    encoding = MultiAxisRoPE(16, sections=(4, 4), layout="half")

    def apply(x, positions):
        if x.shape[1] != 2:
            raise ValueError("expected 2 heads")
        return encoding.apply(x, positions)

    card = identify(Implementation(apply, "apply", "two", head_dim=16, axes=2, num_heads=2), axes=2)
    assert card.encoding == encoding, card


def test_frequencies_of_other_sections_have_a_rule():
    """SANA-WM: frequencies are made for `fhw_dim`, and given to axes by thirds of the channels."""
    made = MultiAxisRoPE(28, sections=(2, 6, 6), layout="interleaved", spacing="restart")
    axes = MultiAxisRoPE(28, sections=(6, 4, 4), layout="interleaved").axes()
    weight = np.where(axes == np.arange(3)[:, None], made.frequencies(), 0.0)
    given = MixedRoPE(28, weight, layout="interleaved")
    card = identify(given.apply, "apply", head_dim=28, axes=3)
    assert card.encoding == made, card
    assert card.rule
    assert [f.code for f in card.deviations] == ["sections"]


def test_an_origin_of_many_digits():
    """Positions of a cropped grid start at 3.16981, which is not 3.17."""
    encoding = MultiAxisRoPE(
        64, sections=(16, 16), layout="interleaved", spacing="restart", offset=3.169811,
        position_scale=1.892857,
    )  # fmt: skip

    def apply(x, positions):
        if np.max(positions) > 7:
            raise ValueError("past the grid")
        return encoding.apply(x, positions)

    card = identify(apply, "apply", head_dim=64, axes=2)
    assert card.exact, card
    assert near(card.encoding.offset, 3.169811)


def test_a_linear_factor_of_many_digits():
    """KerasHub divides all frequencies by 4 ** (64 / 62), not by 4.18294."""
    factor = 4.0 ** (64 / 62)
    encoding = RoPE(64, layout="half", scaling=LinearScaling(factor))
    card = identify(encoding.apply, "apply", head_dim=64)
    assert card.exact, card
    assert isinstance(card.encoding.scaling, LinearScaling)
    assert abs(card.encoding.scaling.factor / factor - 1) <= SAME_FREQUENCY


def test_an_axis_with_a_stretched_base():
    """Cosmos scales the base of the time axis as NTK-aware scaling by 2 does."""
    base = (10000.0 * 2.0 ** (12 / 10), 10000.0, 10000.0)
    encoding = MultiAxisRoPE(32, sections=(6, 5, 5), layout="half", spacing="restart", base=base)
    card = identify(encoding.apply, "apply", head_dim=32, axes=3)
    assert card.encoding == encoding, card
    assert card.rule


def test_pairs_of_an_axis_that_is_left_out():
    """M-RoPE of pictures alone: the pairs of the time axis do not turn."""
    pairs = np.arange(16)
    weight = np.where(pairs % 3 == np.array([[1], [2]]), 10000.0 ** (-pairs / 16), 0.0)
    encoding = MixedRoPE(32, weight, layout="half")
    card = identify(encoding.apply, "apply", head_dim=32, axes=2)
    assert card.encoding == encoding, card
    assert card.exact
    assert "frequency 10000 ** (-k / 16)" in card.relations[0]


def test_divisors_for_long_calls_of_a_function_with_an_offset():
    """KerasHub's Phi-3 takes consecutive positions, and never a short and a long call in one."""
    short = tuple(1.0 + 0.05 * k for k in range(8))
    long = tuple(1.0 + 2.5 * k for k in range(8))
    encoding = RoPE(16, layout="half", scaling=LongRoPE(short, long, 4096, factor=32.0))

    def apply(x, positions):
        at = np.asarray(positions)
        if at.ndim != 1 or at.dtype.kind not in "iu" or (np.diff(at) != 1).any() or at.min() < 0:
            raise ValueError("positions must be contiguous")
        n = int(at[-1]) + 1
        angle = at.astype(np.float32)[:, None] * encoding.frequencies(n).astype(np.float32)
        cos, sin = (encoding.attention_factor(n) * f(angle) for f in (np.cos, np.sin))
        first, last = np.split(x, 2, axis=-1)
        return np.concatenate([first * cos - last * sin, last * cos + first * sin], -1).astype(
            x.dtype
        )

    card = identify(apply, "apply", head_dim=16)
    assert card.encoding == encoding, card
    assert card.exact, card
