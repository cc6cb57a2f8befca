"""xPos against its paper in 50 digits: relative logits, opposite decays, what does not exist."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import RoPE, XPos, from_dict, scores
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance.exact.digits import mpmath
from tests.conformance.exact.fixed_point import geometric


def true_logit(d, q, k, m, n, base=10000.0, scale_base=512, gamma=Fraction(2, 5)):
    """Equation (12): sum over pairs of zeta^(m-n) Re[q conj(k) e^(i (m-n) theta)], half pairs."""
    mp = mpmath().mp
    total, size = 0.0, 0.0
    with mp.workdps(50):
        for j, w in enumerate(geometric(base, [Fraction(2 * j, d) for j in range(d // 2)])):
            zeta = (Fraction(2 * j, d) + gamma) / (1 + gamma)
            decay = mp.mpf(zeta.numerator) / zeta.denominator
            decay = decay ** (mp.mpf(m - n) / scale_base)
            turn = mp.expj((m - n) * w)
            a, b = mp.mpc(q[j], q[j + d // 2]), mp.mpc(k[j], k[j + d // 2])
            total += decay * mp.re(a * mp.conj(b) * turn)
            size += float(decay) * abs(complex(a)) * abs(complex(b))
    return float(total), size


@given(st.integers(0, 2000), st.integers(0, 2000), st.sampled_from([0.0, 512.0, 1000.5]))
def test_logits_are_those_of_the_paper_whatever_the_centre(m, n, centre):
    d = 12
    rng = np.random.default_rng(m + n)
    q, k = rng.integers(-64, 65, (2, 1, d)) / 16
    xpos = XPos(d, layout="half", gamma=0.4, centre=centre)
    value, size = true_logit(d, q[0], k[0], m, n, gamma=Fraction(xpos.gamma))
    moved = np.array([[size * 2 * (m + n + abs(centre)) / 512]])  # what rounding n/512 does to exp
    truth = Truth(np.array([[value]]), np.array([[4 * size]]), moved)
    got = scores(xpos, q, k, [m], [n], scale=1.0)
    assert truth.score(got).max() <= budget("float64")


def test_decays_at_both_ends():
    """zeta_k = (2k/d + gamma)/(1 + gamma): from 2/7 towards 1 (torchscale, gamma = 0.4)."""
    zeta = XPos(64, layout="half", gamma=0.5).decays()
    assert zeta[0] == float(Fraction(1, 3))
    assert zeta[-1] == float((Fraction(62, 64) + Fraction(1, 2)) / Fraction(3, 2))


def test_queries_grow_as_keys_shrink():
    xpos, rope = XPos(8, layout="interleaved"), RoPE(8, layout="interleaved")
    x, at = np.ones((3, 8)), np.array([0, 512, 1024])
    q, k, plain = xpos.apply_queries(x, at), xpos.apply_keys(x, at), rope.apply(x, at)
    zeta = np.repeat(xpos.decays(), 2)
    for name, got, power in (("q", q, 1), ("k", k, -1)):
        for row, n in enumerate((0, 1, 2)):
            truth = plain[row] * zeta ** (power * n)
            size = np.abs(truth) + zeta ** (power * n)
            score = Truth(truth, size, np.zeros(8)).score(got[row])
            assert score.max() <= budget("float64"), name


def test_dtypes_are_kept_and_missing_methods_raise():
    xpos = XPos(8, layout="half")
    assert xpos.apply_keys(np.ones((2, 3, 8), np.float32), range(3)).dtype == np.float32
    assert from_dict(xpos.to_dict()) == xpos
    for method in (xpos.apply, xpos.inverse, xpos.adjoint):
        with pytest.raises(TypeError, match="use apply_queries or apply_keys"):
            method(np.ones((1, 8)), [0])
    with pytest.raises(TypeError, match="use apply_keys"):
        xpos.shift(np.ones((1, 8)), 1)
    with pytest.raises(TypeError, match="has two matrices"):
        xpos.matrix(3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"head_dim": 7}, "head_dim must be even"),
        ({"scale_base": 0}, "scale_base must be greater than 0"),
        ({"gamma": -1}, "gamma must be greater than 0"),
        ({"layout": "gptj"}, "use 'interleaved', which some libraries call"),
        ({"centre": float("nan")}, "centre must be finite"),
    ],
)
def test_errors_suggest_the_right_name(fields, message):
    with pytest.raises(ValueError, match=message):
        XPos(**{"head_dim": 8, "layout": "half", **fields})


def test_far_positions_overflow_only_where_they_must():
    """Logits see offsets alone; vectors that no number of the dtype holds are refused."""
    xpos, x = XPos(8, layout="half"), np.ones((1, 8))
    near = scores(xpos, x, x, [3], [1], scale=1.0)
    far = scores(xpos, x, x, [400003], [400001], scale=1.0)
    size = np.full((1, 1), 32.0)
    assert Truth(near, size, 0 * size).score(far).max() <= budget("float64")
    assert np.isfinite(xpos.apply_queries(x, [400000])).all()
    for dtype, far_away in ((np.float64, 300000), (np.float32, 37000), (np.float16, 5000)):
        with pytest.raises(ValueError, match="of centre = 0 for float"):
            xpos.apply_keys(x.astype(dtype), [far_away])
        moved = xpos.replace(centre=float(far_away))
        assert np.isfinite(moved.apply_keys(x.astype(dtype), [far_away])).all()
    with pytest.raises(ValueError, match="set centre= to the middle of the positions"):
        xpos.apply_queries(x, [-400000])
