"""Functions of no surface: what libraries call with images, lengths, coordinates and logits."""

import importlib

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import identify
from posenc_ref.conformance.harness.foreign import NotTried
from posenc_ref.conformance.identify.natural import natural
from posenc_ref.conformance.identify.natural.calls import row_calls
from posenc_ref.conformance.identify.natural.foreign import foreigners
from posenc_ref.conformance.identify.natural.owners import owners
from posenc_ref.conformance.identify.natural.rows import pairs, tokens_first, turned, turns
from tests.night import by_day

FREQUENCIES = 10000.0 ** (-np.arange(8) / 8)


def _angles(coordinates):
    """Angles (tokens, 16) of the rows, then of the columns."""
    return np.concatenate([c[:, None] * FREQUENCIES for c in coordinates], axis=1)


def _cells(height, width):
    return np.divmod(np.arange(height * width), width)


class Rows:
    """Returns sinusoids (1, S, 16) for x (B, S, dim), as SpeechBrain's class."""

    def __init__(self, turned=False):
        self.turned = turned

    def forward(self, x):
        angles = np.arange(x.shape[1])[:, None] * FREQUENCIES
        rows = np.zeros((x.shape[1], 16), np.float32)
        rows[:, ::2], rows[:, 1::2] = np.sin(angles), np.cos(angles)
        return (rows[::-1] if self.turned else rows)[None]


class Image:
    """Returns sinusoids (1, 32, H, W) for an image (1, C, H, W)."""

    def forward(self, x):
        _, _, h, w = x.shape
        angles = _angles(_cells(h, w)).astype(np.float32)
        parts = [f(angles[:, at]) for at in (slice(8), slice(8, 16)) for f in (np.sin, np.cos)]
        return np.concatenate(parts, axis=1).T.reshape(1, 32, h, w)


class Relative:
    """Returns sinusoids (1, 2 S - 1, 16) of the relative positions S-1 .. -(S-1)."""

    def forward(self, x):
        p = np.arange(x.shape[1] - 1, -x.shape[1], -1)[:, None] * FREQUENCIES
        return np.stack([np.sin(p), np.cos(p)], axis=-1).reshape(1, -1, 16).astype(np.float32)


def coordinates(ids):
    """Return cos and sin for coordinates (B, S, 2), sin first."""
    angles = (ids[..., None] * FREQUENCIES).reshape(*ids.shape[:-1], 16)
    both = np.concatenate([angles, angles], axis=-1)
    return np.sin(both), np.cos(both)


def matrices(positions):
    """Return rotation matrices (S, 8, 2, 2)."""
    angles = np.asarray(positions)[:, None] * FREQUENCIES
    c, s = np.cos(angles), np.sin(angles)
    return np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)


def turn_every_two(x, cos, sin):
    """Rotate adjacent pairs by tables that no file makes."""
    other = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    return x * cos + other * sin


class Logits:
    """Adds ALiBi to logits."""

    def call(self, attention_scores):
        heads, _, keys = attention_scores.shape[1:]
        slopes = pr.ALiBi(heads).slopes()
        return attention_scores + slopes[:, None, None] * np.arange(1 - keys, 1)


def learned(length):
    """Return one learned bias for all heads, (S, S)."""
    table = np.random.default_rng(0).standard_normal(4095).astype(np.float32)
    i = np.arange(length)
    return table[i[None] - i[:, None] + 2047]


def buckets(max_seq_len):
    """Return T5's buckets of all queries and keys."""
    i = np.arange(max_seq_len)
    return pr.T5Bias(np.zeros((32, 1))).bucket(i[None] - i[:, None])


def window_index(win_h, win_w):
    return np.asarray(pr.relative_index((win_h, win_w)))


@pytest.mark.nightly
def test_rows_of_x():
    """A table split into halves was read as cos and sin, and had no encoding."""
    card = identify(Rows())
    assert repr(card.encoding) == "Sinusoidal(16)"
    assert card.exact
    assert card.surface == "table"
    assert card.facts["called"] == "Rows(x)"


@pytest.mark.nightly
def test_rows_in_another_order():
    """The row of a position depends on the length: the card may name no exact encoding."""
    assert not identify(Rows(turned=True)).exact


@pytest.mark.nightly
def test_positions_of_a_grid():
    """The surface of visual positions is none of ``check``; its name raised KeyError."""
    card = identify(lambda ph, pw: np.stack(_cells(ph, pw), axis=-1))
    assert card.surface == "grid_positions"
    assert "merge" not in card.function or card.exact


def test_image():
    card = identify(Image(), "grid")
    assert repr(card.encoding) == "Sinusoidal2D(32)"
    assert card.exact


@pytest.mark.nightly
def test_relative_rows():
    card = identify(Relative())
    assert repr(card.encoding) == "Sinusoidal(16)"
    assert card.exact
    assert "relative position" in card.facts["called"]


def test_coordinates():
    """Sin comes first; both axes turn their half of the pairs."""
    card = identify(coordinates, "cos_sin", axes=2)
    assert isinstance(card.encoding, pr.MultiAxisRoPE)
    assert card.encoding.sections == (8, 8)
    assert card.encoding.layout == "half"
    assert card.exact


@pytest.mark.parametrize("fn", by_day([matrices, turn_every_two], [matrices]))
def test_rotations(fn):
    card = identify(fn, head_dim=16 if fn is turn_every_two else None)
    assert isinstance(card.encoding, pr.RoPE)
    assert card.encoding.base == 10000.0
    assert card.exact
    if fn is turn_every_two:
        assert card.encoding.layout == "interleaved"


@pytest.mark.nightly
def test_matrices_without_a_surface():
    assert repr(identify(Logits()).encoding) == "ALiBi(8)"
    assert identify(window_index).function.startswith("posenc_ref.relative_index")


@pytest.mark.nightly
def test_biases_and_buckets():
    assert "key minus query" in str(identify(learned))
    found = identify(buckets).encoding
    assert isinstance(found, pr.T5Bias)
    assert (found.num_buckets, found.max_distance) == (32, 128)


def test_no_encoding():
    """A function of its input has no encoding; the card says which calls gave a result."""
    card = identify(lambda x: np.tanh(x), "grid")
    assert not card.found
    assert not card.broken


def test_a_fault_in_another_call_reaches_the_card_once(monkeypatch):
    def fail(*_):
        raise LookupError("of the judge")

    # ``identify`` of the package is the function.
    grid = importlib.import_module("posenc_ref.conformance.identify.images.grid")
    monkeypatch.setattr(grid, "sinusoids", fail)
    card = identify(Image(), "grid")
    assert not card.found
    assert len(card.broken) == 1
    assert "the measurement as 'grid' broke off at identify/images/grid.py, line" in card.broken[0]
    assert str(card).count("please report") == 1


def test_turns():
    """Cos and sin are those of squares with a constant sum; the larger cosines are no sines."""
    angles = np.arange(9)[:, None] * FREQUENCIES
    cos, sin = np.cos(angles), np.sin(angles)
    forms = {
        "complex": cos + 1j * sin,
        "joined": np.hstack([cos, sin]),
        "angles": angles,
        "last axis": np.stack([cos, sin], -1),
    }
    for form, array in forms.items():
        parts = (array,)
        found = turns(parts)
        assert found is not None
        assert (found.form, found.exchanged) == (form, False)
        assert all(map(np.array_equal, found.read(parts), (cos, sin)))
    swapped = turns((sin, cos))
    assert swapped is not None
    assert swapped.exchanged
    assert turns((cos, cos)) is None
    assert turns((cos + 1, sin)) is None


@pytest.mark.parametrize("layout", ["half", "interleaved", "blockwise"])
def test_repeated_columns(layout):
    """The columns that belong to one pair are found, and turned together."""
    angles = np.arange(9)[:, None] * FREQUENCIES
    first, second = pairs(8, layout)
    both = np.zeros((9, 16))
    both[:, first] = both[:, second] = angles
    found = turns((np.cos(both), np.sin(both)))
    assert found is not None
    assert found.layout == layout
    assert np.array_equal(found.read((np.cos(both), np.sin(both)))[0], np.cos(angles))
    x = np.zeros((1, 1, 9, 16))
    x[..., first] = 1.0
    y = turned(x, np.cos(angles)[None], np.sin(angles)[None], layout)
    assert np.array_equal(y[0, 0][:, second], np.sin(angles))


def test_tokens_first():
    array = np.arange(2 * 3 * 4).reshape(1, 4, 2, 3)
    assert tokens_first(array, (2, 3)).shape == (6, 4)
    assert np.array_equal(tokens_first(array, (2, 3))[4], array[0, :, 1, 1])
    with pytest.raises(ValueError, match="an axis of 10 tokens"):
        tokens_first(array, (2, 5))


def test_words_say_what_was_tried():
    assert "a length, a grid, an image" in natural.Called().words[0]
    assert "grid (height and width)" in natural.Called(calls=["grid (height and width)"]).words[0]


class Padded:
    """Adds a table that begins after the row of padding, and cannot do without one."""

    def __init__(self, num_positions, embedding_dim, padding_idx=None):
        self.rows, self.padding = np.arange(num_positions + 2)[:, None], padding_idx
        self.frequencies = 10000.0 ** (-np.arange(embedding_dim // 2) / (embedding_dim // 2))

    def forward(self, input_ids):
        first = self.padding + 1
        angles = self.rows[first : first + input_ids.shape[1]] * self.frequencies
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)[None].astype(np.float32)


def test_a_class_whose_table_begins_after_its_padding():
    """A class was no function, so none of the other calls was made."""
    card = identify(Padded)
    assert repr(card.encoding) == "Sinusoidal(64, layout='concat', offset=2.0)"
    assert "embedding_dim=64, padding_idx=1), called with" in card.facts["called"]


class OfShape:
    """Returns sinusoids (1, 32, h, w) for the shape of an image, as DETR's class."""

    def forward(self, shape, device, dtype):
        assert str(device) == "cpu"
        assert dtype == np.float32
        return Image().forward(np.zeros(shape))


def test_the_shape_of_an_image():
    card = identify(OfShape)
    assert repr(card.encoding) == "Sinusoidal2D(32)"
    assert "the shape (1, 64, h, w) of an image" in card.facts["called"]


def test_a_mask_that_an_image_needs():
    class Masked:
        def forward(self, pixel_values, pixel_mask):
            assert pixel_mask.shape == (1, *pixel_values.shape[2:])
            assert pixel_mask.all()
            return Image().forward(pixel_values)

    card = identify(Masked())
    assert repr(card.encoding) == "Sinusoidal2D(32)"
    assert "a mask of 1" in card.facts["called"]


def test_the_bias_of_a_window_of_a_new_module():
    """The arrays of a new module are 0, so that any window is as right as any other."""
    torch = pytest.importorskip("torch", reason="a module of torch")

    class WindowBias(torch.nn.Module):
        def __init__(self, num_heads, window_size):
            super().__init__()
            self.index = torch.from_numpy(np.asarray(pr.relative_index(window_size)))
            self.table = torch.nn.Parameter(torch.zeros(int(self.index.max()) + 1, num_heads))

        def forward(self):
            return self.table[self.index].permute(2, 0, 1)[None]

    card = identify(WindowBias)
    assert isinstance(card.encoding, pr.SwinBias)
    assert card.encoding.window == (4, 6)
    assert "which are 0, filled with random numbers" in card.facts["called"]


def test_pairs_of_tokens_are_few():
    """A class with a row for each pair of tokens was asked for pairs of 16384 tokens."""

    class Pairs:
        def forward(self, hidden_states):
            n = hidden_states.shape[1]
            return np.zeros((n, n, 4)) + np.arange(n)[:, None, None]

    (fn,) = foreigners(next(owners(Pairs(), 64)))
    ask = dict(row_calls(fn))["x of shape (1, -1, 64), where -1 stands for S"]
    assert ask(np.arange(500))[0].shape == (500, 500, 4)
    with pytest.raises(NotTried, match="no pairs of more than 512 tokens"):
        ask(np.arange(513))
