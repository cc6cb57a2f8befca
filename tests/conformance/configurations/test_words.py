"""The differences of two encodings, in words."""

from posenc_ref import RoPE, Sinusoidal
from posenc_ref.conformance.configurations.words import _fraction


def test_the_rotated_fraction_of_two_rotations():
    half, whole = RoPE(8, layout="half", rotary_dim=4), RoPE(8, layout="half")
    assert _fraction(half, whole) == ["rotated fraction of a head: 0.5 against 1"]
    assert _fraction(half, half) == _fraction(half, Sinusoidal(8)) == []
    assert _fraction(Sinusoidal(8), half) == []
