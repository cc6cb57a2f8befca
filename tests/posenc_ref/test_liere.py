"""LieRE: rotations, MixedRoPE as a special case, and when logits depend on offsets alone."""

import numpy as np
import pytest

from posenc_ref import LieRE, MixedRoPE, from_dict, scores
from posenc_ref.accuracy import Truth, budget

D, H, S = 8, 2, 12
AT = np.stack(np.meshgrid(np.arange(3.0), np.arange(4.0), indexing="ij"), -1).reshape(S, 2)


def generators(rng, *, axes=2, heads=1, blocks=2, size=4):
    return rng.standard_normal((axes, heads, blocks, size, size))


def logits_at(e, q, k, coordinates):
    """The logits of all tokens, and their truth, with other coordinates."""
    e, at = e.replace(coordinates=coordinates), np.arange(S)
    (truth,) = e.truths(q, k, at[:, None], at[None], D**-0.5).values()
    return scores(e, q, k, at, at), truth


def test_the_matrices_are_rotations(rng):
    """R^T R = I and det R = 1; the first token, at the origin, is not changed at all."""
    e = LieRE(D, generators(rng), AT)
    r = e.matrices()
    eye = np.broadcast_to(np.eye(4), r.shape)
    truth = Truth(eye, np.ones_like(r), 0 * r)
    assert truth.score(np.swapaxes(r, -1, -2) @ r).max() <= budget("float64")
    assert truth.score(r).max() > budget("float64")
    assert (np.linalg.det(r) > 0).all()
    np.testing.assert_array_equal(r[0], eye[0])


def test_blocks_of_two_channels_are_rope_mixed(rng):
    weight = rng.standard_normal((2, 3))
    g = np.zeros((2, 1, 3, 2, 2))
    g[:, 0, :, 0, 1] = -weight
    x = rng.standard_normal((1, H, S, D))
    want = MixedRoPE(D, weight, layout="interleaved").apply(x, AT.T)
    size = np.abs(x).sum(axis=-1, keepdims=True) * (1 + np.abs(AT @ weight).max()) + 0 * x
    truth = Truth(want, size, 0 * size)
    assert truth.score(LieRE(D, g, AT).apply(x, np.arange(S))).max() <= budget("float64")
    assert truth.score(LieRE(D, -g, AT).apply(x, np.arange(S))).max() > budget("float64")
    np.testing.assert_array_equal(LieRE(D, g, AT).apply(x, np.arange(S))[..., 6:], x[..., 6:])


@pytest.mark.parametrize("commute", [True, False])
def test_logits_depend_on_offsets_alone_if_the_generators_commute(commute, rng):
    g = generators(rng)
    if commute:
        g[1] = 0.37 * g[0]
    q, k = rng.standard_normal((2, 1, H, S, D))
    want, truth = logits_at(LieRE(D, g, AT), q, k, AT)
    moved, other = logits_at(LieRE(D, g, AT), q, k, AT + np.array([2.0, -1.0]))
    both = Truth(want, truth.terms + other.terms, truth.angle + other.angle)
    assert (both.score(moved).max() <= budget("float64")) == commute


def test_one_axis_alone_always_depends_on_offsets(rng):
    g, q, k = generators(rng, axes=1), *rng.standard_normal((2, 1, H, S, D))
    at = np.arange(S)[:, None] * 0.5
    want, truth = logits_at(LieRE(D, g, at), q, k, at)
    moved, other = logits_at(LieRE(D, g, at), q, k, at + 3)
    both = Truth(want, truth.terms + other.terms, truth.angle + other.angle)
    assert both.score(moved).max() <= budget("float64")


def test_only_the_part_above_the_diagonal_counts(rng):
    g = generators(rng, heads=H)
    e = LieRE(D, g, AT)
    np.testing.assert_array_equal(e.replace(generators=e.skew()).matrices(), e.matrices())
    lower = np.tril(g) * 3 + np.triu(g, 1)
    np.testing.assert_array_equal(e.replace(generators=lower).matrices(), e.matrices())
    assert (e.replace(generators=2 * g).matrices() != e.matrices()).any()


def test_values(rng):
    g = generators(rng, heads=H)
    e = LieRE(D, g, AT)
    assert from_dict(e.to_dict()) == e
    assert (e.heads, e.rows, e.blocks) == (H, S, (2, 4))
    assert LieRE(D, g[:, :1], AT).heads is None
    with pytest.raises(ValueError, match=r"B n <= head_dim = 6, got \(2, 2, 2, 4, 4\)"):
        LieRE(6, g, AT)
    with pytest.raises(ValueError, match=r"coordinates must have shape \(S, A\) with the A = 2"):
        LieRE(D, g, AT[:, :1])
    with pytest.raises(ValueError, match=r"generators times coordinates must be at most 1e\+150"):
        LieRE(D, g * 1e300, AT)
    assert np.isfinite(LieRE(D, g * 1e140, AT).matrices()).all()
    with pytest.raises(ValueError, match="coordinates must be finite"):
        LieRE(D, g, AT + np.inf)
    with pytest.raises(ValueError, match=r"positions must lie in 0 \.\. 11"):
        e.apply(np.zeros((H, 1, D)), [S])
    with pytest.raises(ValueError, match=r"positions must have shape \(N,\) with N = 1"):
        e.apply(np.zeros((H, 1, D)), [0, 1])
