"""What a rotary function is measured to be, without looking at any declaration."""

import numpy as np
import pytest

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.phases.measure import FRACTION, measure, unaliased, unwrap
from tests.conformance.handwritten import HEAD_DIM, inv_freq, only, rope, run_of, short


def measured(fn, dtype="float32", head_dim=HEAD_DIM, **kwargs):
    access = Access(run_of(fn, dtype=dtype, head_dim=head_dim, **kwargs), dim=head_dim)
    access.learn()
    return measure(access, dtype), access


def slack(dtype="float32"):
    return 8 * ROUNDOFF[dtype]


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("base", [10000.0, 500000.0, 37.5])
def test_layout_and_frequencies(layout, base):
    found, _ = measured(rope(layout=layout, base=base))
    assert found.layout() == layout
    assert found.in_out()
    assert found.passed == found.scaled == found.odd == []
    w = inv_freq(base=base).astype(np.float64)
    assert (np.abs(found.frequencies / w - 1) <= slack()).all()
    assert (np.abs(found.amplitude - 1) <= slack()).all()
    assert found.phases.linear
    assert (np.abs(found.phases.start) <= slack()).all()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_standard_error_covers_the_error(dtype):
    pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    found, _ = measured(rope(), dtype)
    w = inv_freq().astype(np.float64)
    assert (np.abs(found.frequencies - w) <= 5 * found.phases.sigma + slack() * w).all()


def test_a_slice_and_what_passes_through():
    def sliced(x, p):
        return np.concatenate([rope()(x[..., 2:10], p), x[..., :2], x[..., 10:]], axis=-1)

    def front(x, p):
        return np.concatenate([rope()(x[..., :8], p), x[..., 8:]], axis=-1)

    found, _ = measured(front, head_dim=12)
    assert found.passed == [8, 9, 10, 11]
    assert [(p.a, p.b) for p in found.pairs] == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert found.describe().endswith("4 channels passed through")
    moved, _ = measured(sliced, head_dim=12)
    assert not moved.in_out()


def test_channels_that_only_change_in_size():
    found, _ = measured(lambda x, p: np.concatenate([rope()(x[..., :8], p), x[..., 8:] * 2], -1),
                        head_dim=10)  # fmt: skip
    assert found.scaled == [8, 9]
    assert found.passed == []


def test_channels_that_are_no_pair():
    found, _ = measured(lambda x, p: x + np.roll(x, 1, axis=-1) + np.roll(x, 2, axis=-1))
    assert found.odd == list(range(HEAD_DIM))
    assert found.pairs == []
    assert found.describe() == f"{HEAD_DIM} channels are changed, no two of them as a pair"


def test_a_sign_and_an_origin_and_a_factor():
    found, _ = measured(rope(positions=lambda p: -(p + 2), after=lambda y, p: 1.5 * y))
    w = inv_freq().astype(np.float64)
    assert (np.abs(found.frequencies / -w - 1) <= 4 * slack()).all()
    assert (np.abs(found.phases.start / (-2 * w) - 1) <= 4 * slack()).all()
    assert (np.abs(found.amplitude - 1.5) <= 2 * slack()).all()


def test_pairs_that_come_out_elsewhere():
    def moves(x, p):
        y = rope(layout="interleaved")(x, p)
        return np.concatenate([y[..., ::2], y[..., 1::2]], axis=-1)

    found, _ = measured(moves)
    assert found.layout() == "interleaved"
    assert not found.in_out()


@pytest.mark.parametrize("positions", [lambda p: np.sqrt(p), lambda p: p // 3])
def test_positions_that_do_not_grow_evenly(positions):
    found, _ = measured(rope(positions=positions))
    assert not found.phases.linear


def test_only_positions_that_are_accepted_are_asked_for():
    found, access = measured(short(100, rope()))
    assert found.positions.tolist() == [0, 1, 37]
    assert access.run.ledger.highest == 99
    found, access = measured(rope(), max_position=64)
    assert found.positions.tolist() == [0, 1, 37]
    assert access.run.ledger.highest == 64


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0, 100.0, 1000.0])
def test_fractions_show_frequencies_that_integers_alias(scale):
    w = scale * inv_freq().astype(np.float64)

    def tables(p):
        angle = np.asarray(p, np.float64)[:, None] * w
        return np.cos(angle), np.sin(angle)

    found = unaliased(tables, "float64")
    assert (np.abs(found.frequencies / w - 1) <= slack("float32")).all()
    coarse = unwrap(tables, "float64")
    assert (scale < np.pi) == bool((np.abs(coarse.frequencies / w - 1) <= slack("float32")).all())


def test_without_fractions_the_slower_reading_is_kept():
    w = 3.5 * inv_freq().astype(np.float64)
    _, access = measured(only(lambda p: p.dtype.kind == "i", rope()))

    def tables(p):
        return access.rows(np.zeros((1, 1, p.size, HEAD_DIM)), p)[0, 0, :, :4] + np.cos(
            p[:, None] * w
        ), np.sin(p[:, None] * w)

    assert np.abs(unaliased(tables, "float64").frequencies).max() < np.pi
    assert 0 < FRACTION < 1


def test_an_incomplete_block_of_tokens_does_not_hide_the_frequencies():
    """Six positions are measured at once; the last two of them are passed through here."""

    def blocks(x, p):
        y = rope()(x, p)
        n = x.shape[2] // 4 * 4
        y[:, :, n:] = x[:, :, n:]
        return y

    found, _ = measured(blocks)
    assert not found.phases.linear
    assert found.describe() == measured(rope())[0].describe()
