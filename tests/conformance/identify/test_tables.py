"""identify of tables and frequencies: columns, spacing, offset, scale; rows where no rule is."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from posenc_ref import DynamicNTK, Learned, Llama3Scaling, RoPE, Sinusoidal, YaRN
from posenc_ref.conformance import bind, identify
from posenc_ref.conformance.check import make_run
from posenc_ref.conformance.harness.driver import Malformed
from posenc_ref.conformance.identify.table import open_table, pairs_of
from posenc_ref.conformance.phases.precision import rounded
from posenc_ref.conformance.table.diagnose import quadrature
from tests.conformance.handwritten import sinusoid

TABLES = [
    Sinusoidal(16),
    Sinusoidal(16, layout="concat"),
    Sinusoidal(16, first="cos"),
    Sinusoidal(16, layout="concat", first="cos"),
    Sinusoidal(16, layout="concat", denominator="half-1"),
    Sinusoidal(16, denominator=9.0),
    Sinusoidal(17, odd="extra-sin"),
    Sinusoidal(17, odd="zero-pad"),
    Sinusoidal(17, odd="zero-pad", layout="concat"),
    Sinusoidal(16, offset=1),
    Sinusoidal(16, offset=2, layout="concat", denominator="half-1"),
    Sinusoidal(16, base=100.0),
    Sinusoidal(16, base=543.2),
    Sinusoidal(16, position_scale=1000.0, layout="concat", first="cos"),
    Sinusoidal(16, scale=0.125),
    Sinusoidal(16, scale=-1.0),
    Sinusoidal(2),
    Sinusoidal(6, denominator="half-1"),
]


def table_card(encoding, dtype, **options):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    fn = encoding.table
    return identify(lambda p: fn(p).astype(kind), "table", dtype=dtype, **options)


@pytest.mark.parametrize(
    ("encoding", "dtype"),
    [
        *((e, "float32") for e in TABLES),
        *((e, "float64") for e in TABLES[::5]),
        *((e, "bfloat16") for e in TABLES[:10]),
    ],
    ids=str,
)
def test_a_sinusoidal_table_is_itself(encoding, dtype):
    card = table_card(encoding, dtype, max_position=4096)
    assert card.encoding == encoding, str(card)
    assert card.exact, str(card)


def test_a_table_that_shares_no_code_with_the_specification():
    card = identify(sinusoid(dim=20), "table")
    assert card.encoding == Sinusoidal(20)
    assert card.facts["angles"] == "float32 angles"


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_learned_table_is_its_rows(dtype):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    rows = np.random.default_rng(5).normal(size=(37, 9)).astype(kind)
    rows[1] = 0

    def table(p):
        if p.min() < 0 or p.max() >= 37:
            raise IndexError("index out of range")
        return rows[p]

    card = identify(table, "table", dtype=dtype)
    assert isinstance(card.encoding, Learned), str(card)
    assert np.array_equal(card.encoding.weight, rows.astype(card.encoding.weight.dtype))
    assert card.exact, str(card)
    assert card.facts["padding"].startswith("row 1 is zeros")


def test_rows_that_go_on_without_sinusoids_are_no_list():
    def fn(p):
        return np.stack([p, p * p + 1], axis=1).astype(np.float32)

    for most in (None, 1000):  # rows that nobody asked for are not refused
        card = identify(fn, "table", max_position=most)
        assert card.encoding is None, str(card)
    assert any("columns form no sinusoids" in text for text in card.unknown)


@pytest.mark.parametrize(
    ("value", "words"), [(0.0, "all rows are zero"), (1.0, "all rows are equal")]
)
def test_a_table_without_positions_says_so(value, words):
    card = identify(lambda p: np.full((p.size, 4), value, np.float32), "table")
    assert card.encoding is None
    assert any(words in text for text in card.unknown)


ROTARY = [
    RoPE(16, layout="half", base=500000.0),
    RoPE(64, layout="half", scaling=YaRN(16.0, 4096)),
    RoPE(64, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)),
]


@pytest.mark.parametrize("encoding", ROTARY, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_cos_and_sin_are_those_of(encoding, dtype):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    card = identify(
        lambda p: tuple(t.astype(kind) for t in encoding.cos_sin(p)), "cos_sin", dtype=dtype
    )
    assert card.encoding == encoding, str(card)
    assert card.exact, str(card)


@pytest.mark.parametrize(
    ("twice", "layout"),
    [
        (lambda t: np.concatenate([t, t], axis=1), "half"),
        (lambda t: np.repeat(t, 2, axis=1), "interleaved"),
    ],
    ids=["half", "interleaved"],
)
def test_columns_that_stand_twice_show_the_layout(twice, layout):
    tables = RoPE(16, layout="half").cos_sin
    card = identify(
        lambda p: tuple(twice(t).astype(np.float32) for t in tables(p)), "cos_sin",
        max_position=1024,
    )  # fmt: skip
    assert card.encoding == RoPE(16, layout=layout)
    assert not any("one column per pair" in text for text in card.unknown)


@pytest.mark.parametrize("encoding", ROTARY, ids=str)
def test_frequencies_are_those_of(encoding):
    factor = encoding.attention_factor()
    card = identify(lambda: (encoding.frequencies().astype(np.float32), factor), "frequencies")
    assert card.encoding == encoding, str(card)
    assert card.exact, str(card)


def test_frequencies_by_length():
    encoding = RoPE(16, layout="half", scaling=DynamicNTK(2.0, 2048))
    card = identify(lambda n: encoding.frequencies(n).astype(np.float32), "frequencies")
    assert card.encoding == encoding, str(card)


@pytest.mark.parametrize(
    ("fn", "surface", "words"),
    [
        (Sinusoidal(8).table, "cos_sin", "surface 'table'"),
        (RoPE(8, layout="half").cos_sin, "table", "surface 'cos_sin'"),
        (RoPE(8, layout="half").apply, "table", "use a surface that fits it: apply, bias, scores"),
        (RoPE(8, layout="half").cos_sin, "bias", "use a surface that fits it: cos_sin, table"),
    ],
    ids=["table", "cos_sin", "apply", "one argument"],
)
def test_another_surface_is_pointed_at(fn, surface, words):
    card = identify(fn, surface)
    assert card.encoding is None
    assert any(words in text for text in card.unknown), str(card)


def test_noise_is_no_table():
    random = np.random.default_rng(0)
    card = identify(lambda p: random.normal(size=(p.size, 8)), "table", dtype="float64")
    assert card.encoding is None
    assert card.unknown == ["a repeated call returns other values: the function has no encoding"]


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_a_table_with_rounded_frequencies_is_a_published_one(kind):
    """positional-encodings: `module.bfloat16()` rounds the buffer of frequencies."""
    w = rounded(Sinusoidal(48).frequencies(), kind)

    def table(positions):
        angle = np.asarray(positions, np.float64)[:, None] * w
        return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(-1, 48).astype(np.float32)

    card = identify(table, "table")
    assert card.encoding == Sinusoidal(48), card
    assert [f.code for f in card.deviations] == ["angle-precision"]


def test_sines_and_cosines_of_one_array_are_a_table_that_may_turn():
    def get_embedding(embed_dim, pos):
        return Sinusoidal(embed_dim, layout="concat").table(pos)

    card = identify(get_embedding, max_position=128)
    assert card.encoding == Sinusoidal(64, layout="concat"), str(card)
    assert card.relations == ("as cos and sin of a rotation, it is RoPE(64, layout='half')",)


def test_a_table_is_no_rotation_with_another_denominator():
    declared = Sinusoidal(64, layout="concat", denominator="half-1")

    def get_embedding(embed_dim, pos):
        return declared.table(pos)

    card = identify(bind(get_embedding), max_position=128)
    assert card.encoding == declared, str(card)
    assert card.exact


def test_cos_and_sin_of_different_shapes_break_nothing_off():
    def parts(positions):
        return np.ones((len(positions), 4)), np.ones((len(positions), 8))

    run = make_run(parts, None, "cos_sin")
    with pytest.raises(Malformed, match="cos has shape"):
        open_table(run, pairs_of(run, []))


def test_thousands_of_columns_without_a_partner_are_refused_at_once():
    """A matrix of queries and keys, which is no table, has as many columns as rows."""
    compared = []

    class Rows(np.ndarray):
        def max(self, *args, **kwargs):
            compared.append(1)
            return np.asarray(self).max(*args, **kwargs)

    def squares(at):
        return np.random.default_rng(0).uniform(-1, 1, (len(at), 500)).view(Rows)

    access = SimpleNamespace(reach=lambda far: far, rows=squares)
    assert quadrature(access, "float32") is None
    assert quadrature(access, "float32", extra=True) is None
    assert len(compared) < 20
