"""The position that was really used, read from the angles."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.phases.decode import REACH, Decoder
from posenc_ref.conformance.phases.frequencies import round_bfloat16


@functools.cache
def decoder(dim, base):
    return Decoder.of(base ** (-np.arange(0, dim, 2) / dim))


POSITIONS = st.one_of(st.integers(-64, 64), st.integers(0, REACH - 1))
SCHEDULES = st.sampled_from([(64, 10000.0), (128, 10000.0), (128, 500000.0), (256, 1e6)])


@pytest.mark.nightly
@given(POSITIONS, SCHEDULES)
def test_exact(position, schedule):
    d = decoder(*schedule)
    angle = position * d.frequencies
    found, misfit = d.position(np.cos(angle), np.sin(angle))
    assert found == position
    assert misfit <= REACH * ROUNDOFF["float64"]


@pytest.mark.nightly
@given(st.integers(0, 4095), SCHEDULES)
def test_through_bfloat16(position, schedule):
    d = decoder(*schedule)
    angle = position * d.frequencies
    found, _ = d.position(round_bfloat16(np.cos(angle)), round_bfloat16(np.sin(angle)))
    assert found == position


def test_every_token_of_an_array():
    d = decoder(64, 10000.0)
    positions = np.array([[[5, 0, 131071], [-3, 77, 2048]]])
    angle = positions[..., None] * d.frequencies
    found, misfit = d.positions(np.cos(angle), np.sin(angle))
    assert found.shape == misfit.shape == positions.shape
    np.testing.assert_array_equal(found, positions)


@pytest.mark.parametrize("position", [0.5, 1000.25])
def test_what_is_no_position_does_not_fit(position):
    d = decoder(64, 10000.0)
    angle = position * d.frequencies
    assert d.position(np.cos(angle), np.sin(angle))[1] > 0.1


def test_a_short_reach_leaves_far_positions_out():
    d = Decoder.of(decoder(64, 10000.0).frequencies, reach=64)
    angle = 5000 * d.frequencies
    found, misfit = d.position(np.cos(angle), np.sin(angle))
    assert found < 64
    assert misfit > 0.1
