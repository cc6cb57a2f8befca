"""Rotations by sums over the tokens: RoPE as a special case, Mamba-3's increments, long sums."""

import math

import numpy as np
import pytest

from posenc_ref import RoPE, SelectiveRoPE, from_dict, scores
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

mp = mpmath().mp
H, S, D = 2, 30, 8
PHI = np.random.default_rng(61).standard_normal((H, S, 3))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_equal_increments_are_rope(layout, rng):
    """Logits, of all channels and of part of them; queries are the last tokens."""
    rope = RoPE(D, layout=layout, base=100.0, rotary_dim=6)
    q, k = rng.standard_normal((1, H, 5, D)), rng.standard_normal((1, H, S, D))
    at = np.arange(S - 5, S), np.arange(S)
    want = scores(rope, q, k, *at)

    def worst(theta):
        e = SelectiveRoPE(D, np.broadcast_to(theta, (H, S, 3)).copy(), layout=layout)
        (truth,) = e.truths(q, k, at[0][:, None], at[1][None], D**-0.5).values()
        return Truth(want, truth.terms, truth.angle).score(scores(e, q, k, *at)).max()

    assert worst(rope.frequencies()) <= budget("float64")
    assert worst(rope.frequencies() * (1 + 1e-9)) > budget("float64")


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_apply_turns_the_pairs_by_the_sum_of_the_increments(layout, rng):
    e = SelectiveRoPE(D, PHI, layout=layout)
    x = rng.standard_normal((3, H, 2, D)).astype(np.float32)
    y = e.apply(x, [7, 4])
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y[..., 6:], x[..., 6:])
    first, second = ([0, 1, 2], [3, 4, 5]) if layout == "half" else ([0, 2, 4], [1, 3, 5])
    angle = np.stack([[[math.fsum(PHI[h, : n + 1, p]) for p in range(3)] for n in (7, 4)]
                      for h in range(H)])  # fmt: skip
    z = (x[..., first].astype(complex) + 1j * x[..., second]) * np.exp(1j * angle)
    for channels, part in ((first, z.real), (second, z.imag)):
        assert Truth(part, np.abs(z), np.abs(z) * 0).score(y[..., channels]).max() <= 1
        assert Truth(part, np.abs(z), np.abs(z) * 0).score(x[..., channels]).max() > 128


def test_decoding_continues_from_the_running_sum():
    whole, rest = SelectiveRoPE(D, PHI, layout="half"), PHI[:, 20:]
    state = whole.angles(19)
    later = state + SelectiveRoPE(D, rest, layout="half").angles(np.arange(10))
    size = np.cumsum(np.abs(PHI), axis=1)[:, 20:]
    truth = Truth(whole.angles(np.arange(20, S)), size, 0 * size)
    assert truth.score(later).max() <= budget("float64")
    assert truth.score(later - state).max() > budget("float64")


def test_the_increments_of_mamba_3(rng):
    """pi tanh(a) dt in 50 digits; dt is per head, a is shared."""
    a, dt = rng.standard_normal((S, 3)) * 3, np.exp(rng.standard_normal((H, S)) - 3)
    e = SelectiveRoPE.mamba3(D, a, dt, layout="interleaved")
    assert e.increments.shape == (H, S, 3)
    with mp.workdps(DIGITS):
        angles = np.array([[mp.pi * mp.tanh(mp.mpf(x)) for x in row] for row in a])
        want = (angles * np.array([[[mp.mpf(t)] for t in row] for row in dt])).astype(np.float64)
    truth = Truth(want, np.abs(want), 0 * want)
    assert truth.score(e.increments).max() <= budget("float64")
    assert truth.score(a * dt[..., None]).max() > budget("float64")


def test_long_sums_keep_their_accuracy(rng):
    """The sum of 131072 float32 increments is that of float64; one in float32 is not."""
    n = 2**17
    phi = rng.random((1, n, 1)).astype(np.float32)
    exact = np.array(math.fsum(phi[0, :, 0].tolist()))
    truth = Truth(exact, exact, 0 * exact)
    ours = SelectiveRoPE(2, phi, layout="half").angles(n - 1)[0, 0, 0]
    assert truth.score(ours, dtype="float64") <= budget("float64")
    assert truth.score(np.cumsum(phi[0, :, 0])[-1], dtype="float32") > budget("float32")


def test_values():
    e = SelectiveRoPE(D, PHI, layout="half")
    assert from_dict(e.to_dict()) == e
    assert (e.heads, e.rows, e.pairs) == (H, S, 3)
    with pytest.raises(ValueError, match=r"P <= head_dim / 2 = 2, got P = 3"):
        SelectiveRoPE(4, PHI, layout="half")
    with pytest.raises(ValueError, match=r"increments must have shape \(H, S, P\)"):
        SelectiveRoPE(D, PHI[0], layout="half")
    with pytest.raises(ValueError, match=r"positions must .* 29, the tokens of increments"):
        e.angles([30])
    with pytest.raises(ValueError, match=r"positions must have shape \(N,\) with N = 2"):
        e.apply(np.zeros((H, 2, D)), [1, 2, 3])
    with pytest.raises(ValueError, match=r"steps must have shape \(H, 30\)"):
        SelectiveRoPE.mamba3(D, PHI[0], np.ones((H, S - 1)), layout="half")
