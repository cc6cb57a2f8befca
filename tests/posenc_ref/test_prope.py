"""PRoPE: what moves no logit, the attention output, and cameras in pixels."""

import numpy as np
import pytest

from posenc_ref import PRoPE, RoPE, from_dict, scores
from posenc_ref.accuracy import Truth, budget

C, GRID, D, H = 3, (2, 3), 16, 2
S = C * GRID[0] * GRID[1]
AT = np.arange(S)


def poses(rng, count=C):
    """World to camera: rotations and translations."""
    q, _ = np.linalg.qr(rng.standard_normal((count, 3, 3)))
    found = np.tile(np.eye(4), (count, 1, 1))
    found[:, :3, :3] = q * np.sign(np.linalg.det(q))[:, None, None]
    found[:, :3, 3] = rng.standard_normal((count, 3))
    return found


def worst(e, q, k, want):
    (truth,) = e.truths(q, k, AT[:, None], AT[None], D**-0.5).values()
    return Truth(want, truth.terms, truth.angle).score(scores(e, q, k, AT, AT)).max()


def test_the_frame_of_the_world_does_not_matter(rng):
    """P -> P T moves no logit; P -> T P does."""
    q, k = rng.standard_normal((2, 1, H, S, D))
    p, frame = poses(rng), poses(rng, 1)[0]
    e = PRoPE(D, p, grid=GRID)
    want = scores(e, q, k, AT, AT)
    assert worst(e.replace(projections=p @ frame), q, k, want) <= budget("float64")
    shear = np.eye(4) + np.diag([0.5, 0, 0], 1)
    assert worst(e.replace(projections=shear @ p), q, k, want) > budget("float64")


def test_one_camera_is_rope_of_the_places(rng):
    """P cancels; the other half is RoPE of the column and of the row, turned backwards."""
    q, k = rng.standard_normal((2, 1, H, 6, D))
    e, at = PRoPE(D, poses(rng, 1), grid=GRID), np.arange(6)
    rope = RoPE(D // 4, layout="half", base=100.0, sign=-1)
    parts = [q[..., :8] @ k[..., :8].swapaxes(2, 3)]
    for start, place in ((8, at % 3), (12, at // 3)):
        one, two = (rope.apply(x[..., start : start + 4], place) for x in (q, k))
        parts.append(one @ two.swapaxes(2, 3))
    (truth,) = e.truths(q, k, at[:, None], at[None], D**-0.5).values()

    def score(value):
        return Truth(value * D**-0.5, truth.terms, truth.angle).score(scores(e, q, k, at, at)).max()

    assert score(sum(parts)) <= budget("float64")
    assert score(parts[0] + parts[1]) > budget("float64")


def test_the_output_is_moved_back(rng):
    """D_i D_j^{-1}: values of a token's own camera and place come back unchanged."""
    e, v = PRoPE(D, poses(rng), grid=GRID), rng.standard_normal((1, H, S, D))
    back = e.apply_output(e.apply_keys(v, AT), AT)
    size = np.abs(v) + 10
    assert Truth(v, size, 0 * v).score(back).max() <= budget("float64")
    assert Truth(v, size, 0 * v).score(e.apply_keys(v, AT)).max() > budget("float64")


def test_queries_and_keys_give_the_logits(rng):
    e = PRoPE(D, poses(rng), grid=GRID)
    q, k = rng.standard_normal((2, 1, H, S, D))
    of_q, of_k = e.apply_queries(q, AT), e.apply_keys(k, AT)
    assert worst(e, q, k, of_q @ of_k.swapaxes(2, 3) * D**-0.5) <= budget("float64")
    assert worst(e, q, k, of_k @ of_q.swapaxes(2, 3) * D**-0.5) > budget("float64")


def test_intrinsics_in_pixels_are_divided_by_the_size_of_the_image(rng):
    """A point at the centre of the image projects to 0, one at its right edge to 0.5."""
    k = np.array([[[50.0, 0, 64], [0, 40, 48], [0, 0, 1]]])
    e = PRoPE.of(8, np.eye(4)[None], k, image_size=(96, 128), grid=(1, 1))
    centre, edge = (e.projections[0] @ np.array([x, 0, 1, 1.0]) for x in (0, 64 / 50))
    np.testing.assert_array_equal(centre, [0, 0, 1, 1])
    np.testing.assert_array_equal(edge, [0.5, 0, 1, 1])


def test_values(rng):
    e = PRoPE(D, poses(rng), grid=GRID, base=50.0)
    assert from_dict(e.to_dict()) == e
    assert (e.heads, e.rows) == (None, S)
    with pytest.raises(ValueError, match="head_dim must be a multiple of 8, got 12"):
        PRoPE(12, poses(rng), grid=GRID)
    with pytest.raises(ValueError, match="a singular matrix for camera 1"):
        PRoPE(D, poses(rng) * np.array([1, 0, 1])[:, None, None], grid=GRID)
    flat = poses(rng)
    flat[1, 0] = flat[1, 1]
    with pytest.raises(ValueError, match="camera 1: its upper left 3 x 3 part must be"):
        PRoPE(D, flat, grid=GRID)
    far = poses(rng)
    far[:, 2, 3] = 1e8  # invertible, although its numbers are of very different sizes
    assert PRoPE(D, far, grid=GRID).rows == S
    for size in (5, (5, 5, 5)):
        with pytest.raises(TypeError, match="image_size must be two integers, height and width"):
            PRoPE.of(D, far, np.tile(np.eye(3), (3, 1, 1)), image_size=size, grid=GRID)
    with pytest.raises(TypeError, match="grid must be two integers"):
        PRoPE(D, poses(rng), grid=6)
    with pytest.raises(ValueError, match=r"shapes \(C, 4, 4\) and \(C, 3, 3\)"):
        PRoPE.of(D, poses(rng), np.eye(3), image_size=(8, 8), grid=GRID)
    with pytest.raises(ValueError, match=r"positions must lie in 0 \.\. 17"):
        e.apply_keys(np.zeros((H, 1, D)), [S])
    with pytest.raises(ValueError, match=r"positions must have shape \(N,\) with N = 1"):
        e.apply_keys(np.zeros((H, 1, D)), [0, 1])
