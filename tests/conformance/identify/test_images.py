"""identify of tables and biases over the patches of an image, and of limited domains."""

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE, RoPE
from posenc_ref.conformance import identify
from tests.conformance.handwritten import rope


def waves(at, width, *, half=False, base=10000.0):
    n = width // 2
    w = base ** (-np.arange(n) / (n - 1 if half else n))
    angle = np.asarray(at, float)[:, None] * w
    return np.sin(angle), np.cos(angle)


def grid(order="hw", *, grouped=False, half=False, move=lambda at, n: at, tokens="rows"):
    """Return ``fn(height, width)`` of sines and cosines of the two axes, 16 columns."""

    def table(h, w):
        y, x = np.divmod(np.arange(h * w), w)
        if tokens == "columns":
            x, y = np.divmod(np.arange(h * w), h)
        sides = {"h": waves(move(y, h), 8, half=half), "w": waves(move(x, w), 8, half=half)}
        parts = [sides[a] for a in order]
        if grouped:
            parts = [[s for s, _ in parts], [c for _, c in parts]]
        return np.concatenate([t for p in parts for t in p], axis=1).astype(np.float32)

    return table


GRIDS = {
    "Sinusoidal2D(16)": grid(),
    "Sinusoidal2D(16, axis_order='wh', denominator='half-1')": grid("wh", half=True),
    "Sinusoidal2D(16, layout='grouped')": grid(grouped=True),
    "Sinusoidal2D(16, offset=1.0)": grid(move=lambda at, n: at + 1),
    "Sinusoidal2D(16, extent=16.0)": grid(move=lambda at, n: at * 16 / n),
    "Sinusoidal2D(16, flatten='columns')": grid(tokens="columns"),
}


@pytest.mark.parametrize("expected", GRIDS)
def test_sinusoids_of_a_grid(expected):
    card = identify(GRIDS[expected], "grid")
    assert repr(card.encoding) == expected, str(card)
    assert card.exact, str(card)


def test_one_grid_only_is_found_and_said():
    def only(h, w):
        if (h, w) != (14, 14):
            raise ValueError("14 x 14")
        return grid()(h, w)

    card = identify(only, "grid")
    assert repr(card.encoding) == "Sinusoidal2D(16)", str(card)
    assert any("only grids of 14 x 14" in text for text in card.limits)


def test_learned_tables_of_rows_and_columns_that_are_added():
    rows, columns = np.random.default_rng(8).normal(size=(2, 20, 8)).astype(np.float32)

    def fn(h, w):
        return (rows[:h, None] + columns[None, :w]).reshape(h * w, -1)

    card = identify(fn, "grid", max_position=400)
    assert card.encoding.combine == "sum", str(card)
    assert card.exact, str(card)
    product = identify(lambda h, w: fn(h, w) ** 2, "grid")
    assert "combine='sum'" not in repr(product.encoding), str(product)


def test_columns_of_two_axes_at_once_are_no_sinusoids():
    card = identify(lambda h, w: grid()(h, w) * np.float32(1 + h), "grid")
    assert card.encoding is None, str(card)


def test_tables_of_several_axes():
    def video(p):
        return np.concatenate([t for at in p for t in waves(at, 8)], axis=1).astype(np.float32)

    def boxes(p):
        order = [p[1], p[0], p[2], p[3]]
        angle = np.stack([2 * np.pi * np.asarray(c, float) for c in order])[..., None]
        angle = angle / 10000 ** (2 * np.arange(4) / 8)
        pairs = np.stack([np.sin(angle), np.cos(angle)], axis=-1)
        return np.concatenate(pairs.reshape(4, -1, 8), axis=1).astype(np.float32)

    three = identify(video, "table", axes=3)
    assert repr(three.encoding) == "Sinusoidal3D((8, 8, 8))", str(three)
    assert three.exact
    four = identify(boxes, "table", axes=4)
    assert repr(four.encoding) == "BoxSine(32)", str(four)
    assert four.exact


TABLE = np.random.default_rng(5).normal(size=(2, 400)).astype(np.float32)


def windowed(h, w, cls=0, absolute=False):
    y, x = np.divmod(np.arange(h * w), w)
    dy, dx = y[:, None] - y, x[:, None] - x
    if absolute:
        dy, dx = abs(dy), abs(dx)
    index = (dy + h - 1) * (2 * w - 1) + dx + w - 1
    if cls:
        index = np.pad(index, ((1, 0), (1, 0)), constant_values=399)
        index[0, 1:], index[1:, 0] = 397, 398

    def bias(q, k):
        if (q, k) != index.shape:
            raise ValueError("one window only")
        return TABLE[:, index]

    return bias


@pytest.mark.parametrize(
    ("fn", "kind"),
    [
        (windowed(7, 7), "SwinBias"),
        (windowed(4, 3), "SwinBias"),
        (windowed(6, 6, cls=1), "BEiTBias"),
        (windowed(5, 5, absolute=True), "LeViTBias"),
    ],
    ids=["Swin", "Swin, 4 x 3", "BEiT", "LeViT"],
)
def test_biases_of_a_window(fn, kind):
    card = identify(fn, "bias")
    assert type(card.encoding).__name__ == kind, str(card)
    assert card.exact, str(card)


def test_a_bias_of_one_shape_is_called_with_the_size_it_returns():
    index = windowed(3, 5)(15, 15)
    card = identify(lambda q, k: index, "bias")
    assert card.encoding is not None
    assert card.encoding.window == (3, 5), str(card)
    assert card.limits == [
        "fn(64, 64) has shape (2, 15, 15), as fn(15, 15); other sizes were not tried"
    ]
    assert card.exact, str(card)


def test_a_bias_of_pairs_is_no_window():
    pairs = np.random.default_rng(6).normal(size=(2, 49, 49)).astype(np.float32)

    def bias(q, k):
        if (q, k) != (49, 49):
            raise ValueError("49")
        return pairs

    assert not identify(bias, "bias").found


def test_a_bias_of_the_offset_alone_is_said_to_be_one():
    free = np.random.default_rng(7).normal(size=(2, 5000)).astype(np.float32)
    card = identify(lambda q, k: free[:, np.arange(k) - np.arange(k - q, k)[:, None]], "bias")
    assert card.function.startswith("a bias of key minus query alone")


def log_bucket(mid, most):
    """Buckets of DeBERTa: one for each distance up to mid, then logarithmic ones."""

    def bucket(r):
        far = np.maximum(np.abs(r), mid) / mid
        size = mid + np.ceil(np.log(far) / np.log((most - 1) / mid) * (mid - 1) - 1e-9)
        return np.where(np.abs(r) <= mid, r, np.sign(r) * size).astype(np.int64)

    return bucket


def test_buckets_of_deberta_and_t5_with_one_wrong_boundary():
    card = identify(log_bucket(32, 128), "bucket")
    assert card.function.startswith("DeBERTa's bucket, with buckets=64 and max_position=128")

    def t5(r):
        n = np.abs(r)
        far = 8 + np.trunc(np.log(np.maximum(n, 1) / 8) / np.log(16) * 8 + 1e-9)
        found = np.where(n < 8, n, np.minimum(far, 15)) + 16 * (r > 0)
        return np.where(r == -12, found - 1, found).astype(np.int64)

    near = identify(t5, "bucket")
    assert near.encoding.num_buckets == 32, str(near)
    assert [f.code for f in near.deviations] == ["bucket-spacing"], str(near)


PLAIN = RoPE(8, layout="half")
SIZES = {
    "batch 1": lambda x, p: x.shape[0] == 1,
    "an even number of tokens": lambda x, p: x.shape[2] % 2 == 0,
    "8 heads": lambda x, p: x.shape[1] == 8,
    "64 tokens from 0 on": lambda x, p: np.array_equal(p, np.arange(64)),
}


@pytest.mark.parametrize("name", SIZES)
def test_calls_of_one_size_only(name):
    def fn(x, p):
        if not SIZES[name](x, p):
            raise ValueError(name)
        return rope()(x, p)

    card = identify(fn, "apply", head_dim=8, max_position=256)
    assert card.encoding == PLAIN, str(card)
    assert card.exact, str(card)
    assert any("many calls are refused" in text for text in card.limits)


def two_axes(x, p):
    """Rotate the first four pairs by the row and the others by the column."""
    w = 10000.0 ** (-np.arange(4) / 4)
    angle = np.concatenate([p[0][..., None] * w, p[1][..., None] * w], axis=-1)[:, None]
    a, b = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


@pytest.mark.parametrize("whole", [False, True], ids=["up to 13", "the whole grid"])
def test_two_axes_over_a_limited_grid(whole):
    cells = np.stack(np.divmod(np.arange(63), 9))

    def fn(x, p):
        if whole and (x.shape[2] != 63 or (p != cells[:, None]).any()):
            raise ValueError("7 x 9 patches")
        if p.dtype.kind != "i" or p.min(initial=0) < 0 or p.max(initial=0) > 13:
            raise IndexError("past the grid")
        return two_axes(x, p)

    card = identify(fn, head_dim=16, axes=2)
    expected = MultiAxisRoPE(16, sections=(4, 4), layout="half", spacing="restart")
    assert card.encoding == expected, str(card)
    assert card.exact, str(card)
