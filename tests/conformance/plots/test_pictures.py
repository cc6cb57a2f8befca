"""The numbers of pictures are those of the encoding, computed a second way."""

import json

import numpy as np
import pytest

import posenc_ref
from posenc_ref import ALiBi, RoPE, Sinusoidal, T5Bias, TransformerXL, YaRN
from posenc_ref.accuracy import BUDGET, Truth
from posenc_ref.conformance.plots.declarations import examples
from posenc_ref.conformance.plots.encodings import KINDS, pictures
from posenc_ref.conformance.plots.overlay import overlay
from posenc_ref.conformance.plots.reports import errors
from posenc_ref.conformance.registry import entries

EXAMPLES = {name: example for entry in entries() for name, example in entry.examples.items()}
ROPE = RoPE(64, layout="half")
FREQUENCIES = 10000.0 ** (-np.arange(32) / 32)


def named(encoding, **settings):
    return {picture.name: picture for picture in pictures(encoding, **settings)}


def equal(actual, wanted, angles=0.0):
    """Whether numbers agree in float64; ``angles`` are those of which they are cosines or sines."""
    wanted = np.asarray(wanted, np.float64)
    truth = Truth(wanted, np.maximum(abs(wanted), 1.0), np.broadcast_to(angles, wanted.shape))
    return bool(truth.score(np.asarray(actual, np.float64)).max() <= BUDGET["float64"])


def test_every_declaration_has_pictures_and_every_kind_occurs():
    kinds = set()
    for name, example in (EXAMPLES | {c.__name__: e for c, e in examples().items()}).items():
        found = pictures(example, length=8)
        assert found, name
        for picture in found:
            kinds.add(picture.name)
            assert (picture.cells is None) == bool(picture.lines), name
            for line in picture.lines:
                assert line.x.shape == line.y.shape, name
                assert np.isfinite(line.y).all(), name
            if picture.cells is not None:
                assert np.isfinite(picture.cells[-1]).any(), name
        json.dumps([picture.to_dict() for picture in found], allow_nan=False)
    assert kinds == set(KINDS)


def test_wavelengths_are_turns_of_the_formula():
    picture = named(ROPE)["wavelengths"]
    assert equal(picture.lines[0].y * FREQUENCIES / (2 * np.pi), 1.0)
    assert picture.marks == ()


def test_a_scaling_is_drawn_beside_the_plain_frequencies():
    rope = ROPE.replace(scaling=YaRN(4.0, 4096))
    declared, plain = named(rope, length=9000)["wavelengths"].lines
    assert equal(plain.y * FREQUENCIES / (2 * np.pi), 1.0)
    assert equal(declared.y[-1:] / plain.y[-1:], [4.0])
    assert declared.y[0] == plain.y[0]
    assert named(rope, length=9000)["wavelengths"].marks == (
        ("trained length", 4096.0),
        ("length", 9000.0),
    )


def test_angles_and_decay_are_cosines():
    found = named(ROPE, length=40)
    at = np.arange(40)[:, None] * FREQUENCIES
    assert equal(found["angles"].cells, np.cos(at), at)
    line = found["decay"].lines[0]
    assert equal(line.x, np.arange(40))
    assert equal(line.y, np.cos(at).mean(axis=1), at.mean(axis=1))


def test_rows_and_their_products_are_those_of_the_table():
    found = named(Sinusoidal(16), length=30)
    angle = np.arange(30)[:, None] * 10000.0 ** (-np.arange(8) / 8)
    rows = np.empty((30, 16))
    rows[:, ::2], rows[:, 1::2] = np.sin(angle), np.cos(angle)
    assert equal(found["rows"].cells, rows, np.repeat(angle, 2, axis=1))
    assert equal(found["similarity"].cells, rows @ rows.T, 16 * angle.max())


def test_a_causal_bias_is_empty_above_the_diagonal():
    found = named(ALiBi(8), length=10, head=3)
    offset = np.arange(10)[None, :] - np.arange(10)[:, None]
    cells = found["bias"].cells
    assert np.isnan(cells[offset > 0]).all()
    assert equal(cells[offset <= 0], 2.0**-4 * offset[offset <= 0])
    line = found["distances"].lines[-1]
    assert line.label == "head 7"
    assert equal(line.x, np.arange(-9, 1))
    assert equal(line.y, 2.0**-8 * np.arange(-9, 1))


def test_buckets_are_those_of_the_released_function():
    t5 = T5Bias(np.zeros((32, 2)))
    line = named(t5, length=200)["buckets"].lines[0]
    assert (line.x[0], line.x[-1]) == (-199, 199)
    at = dict(zip(line.x.tolist(), line.y.tolist(), strict=True))
    # Raffel et al.: half of the buckets for later keys, 8 exact ones, the last from 91 on
    assert [at[r] for r in (0, -1, -7, -8, -127, -199)] == [0, 1, 7, 8, 15, 15]
    assert [at[r] for r in (1, 7, 8, 127)] == [17, 23, 24, 31]


def test_logits_have_the_content_of_equal_vectors():
    e = next(e for e in EXAMPLES.values() if isinstance(e, TransformerXL))
    cells = named(e, length=6)["logits"].cells
    same = np.full((1, e.heads or 1, 6, e.head_dim), e.head_dim**-0.5)
    terms = e.terms(same, same, np.arange(6), np.arange(6), scale=1.0)
    wanted = sum(terms.values())[0, 0]
    seen = ~np.isnan(cells)
    assert equal(cells[seen], wanted[seen])


def test_two_encodings_share_a_picture():
    other = ROPE.replace(base=500000.0)
    both = {p.name: p for p in overlay(pictures(ROPE), pictures(other), ("a", "b"))}
    assert [line.label for line in both["wavelengths"].lines] == ["a", "b"]
    one, two = named(ROPE)["angles"].cells, named(other)["angles"].cells
    assert equal(both["angles"].cells, one - two)
    with pytest.raises(ValueError, match="no picture in common: wavelengths, angles, decay and"):
        overlay(pictures(ROPE), pictures(ALiBi(4)), ("a", "b"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"head": 8}, "head must be from 0 to 7, got 8"), ({"length": 1}, "length must be from 2")],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        pictures(ALiBi(8), **settings)


def test_errors_that_are_not_finite_are_left_out():
    picture = errors({"f": {4096: 0.0, 1024: 1e-3, 8192: float("inf")}})
    (line,) = picture.lines
    assert line.x.tolist() == [1024, 4096]
    assert line.y.tolist() == [1e-3, 1e-12]


def test_a_learned_table_ends_with_its_rows():
    weight = np.arange(12.0).reshape(6, 2)
    cells = named(posenc_ref.Learned(weight, offset=2))["rows"].cells
    assert equal(cells, weight[2:])


def test_a_flat_grid_of_learned_rows_ends_with_them():
    tables = (np.arange(6.0).reshape(3, 2), np.arange(10.0).reshape(5, 2))
    cells = named(posenc_ref.AxialLearned(tables, flat=True))["rows"].cells
    grid = [[*tables[0][i], *tables[1][j]] for i in range(3) for j in range(5)]
    assert equal(cells, np.array(grid))
