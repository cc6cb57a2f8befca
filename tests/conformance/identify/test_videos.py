"""identify of tables of the sizes of a video or of a volume."""

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE, Sinusoidal3D
from posenc_ref.conformance import identify


def rows(t, h, w, sections):
    """Return the sinusoids of each axis (t, h, w, dim)."""
    parts = []
    for axis, (size, dim) in enumerate(zip((t, h, w), sections, strict=True)):
        angle = np.arange(size)[:, None] * 10000.0 ** (-np.arange(dim // 2) / (dim // 2))
        shape = [1, 1, 1, dim]
        shape[axis] = size
        part = np.concatenate([np.sin(angle), np.cos(angle)], axis=1).reshape(shape)
        parts.append(np.broadcast_to(part, (t, h, w, dim)))
    return np.concatenate(parts, axis=-1)


def video_table(t, h, w):
    return rows(t, h, w, (8, 12, 12)).reshape(t * h * w, 32)


def volume(depth, height, width):
    return rows(depth, height, width, (8, 12, 12)).transpose(3, 0, 1, 2)[None]


def square(embed_dim, grid_size, grid_depth):
    parts = (embed_dim // 2, embed_dim // 4, embed_dim // 4)
    return rows(grid_depth, grid_size, grid_size, parts).reshape(-1, embed_dim)


def turns(num_frames, height, width):
    every = rows(num_frames, height, width, (16, 8, 8)).reshape(-1, 32)
    columns = np.arange(32).reshape(-1, 4)
    cos = np.r_[columns[2:4].ravel(), columns[5], columns[7]]
    sin = np.r_[columns[0:2].ravel(), columns[4], columns[6]]
    return every[:, cos], every[:, sin]


@pytest.mark.parametrize(
    ("fn", "sections"),
    [(volume, (8, 12, 12)), (square, (32, 16, 16))],
)
def test_tables(fn, sections):
    card = identify(fn)
    assert card.encoding == Sinusoidal3D(sections), str(card)
    assert card.exact


def test_tables_with_the_number_of_axes():
    assert identify(video_table, axes=3).encoding == Sinusoidal3D((8, 12, 12))


def test_cos_and_sin():
    card = identify(turns)
    expected = MultiAxisRoPE(32, sections=(8, 4, 4), layout="half", spacing="restart")
    assert card.encoding == expected, str(card)
