"""The judge of tables over coordinates, several axes, factors and sums."""

import numpy as np
import pytest

from posenc_ref import (
    AxialLearned,
    DETRSine,
    FourierFeatures,
    Hybrid,
    Learned,
    MultiAxisRoPE,
    Sinusoidal,
    Sinusoidal2D,
    Sinusoidal3D,
    Time2Vec,
)
from posenc_ref.conformance import SURFACES, check
from tests.night import by_day

RNG = np.random.default_rng(2)
WEIGHTS = [RNG.standard_normal((n, 8)) for n in (20, 16, 18)]
ENCODINGS = [
    Sinusoidal2D(16),
    Sinusoidal2D(16, axis_order="wh", layout="grouped", denominator="half-1", extent=9.0),
    Sinusoidal3D((4, 6, 6), axis_order="twh"),
    DETRSine(16, base=20),
    FourierFeatures(RNG.standard_normal((4, 2)), unit="turn", include_input=True),
    FourierFeatures.nerf(5, include_input=True),
    FourierFeatures(np.array([[1.0], [2.5]]), unit="half-turn"),
    Time2Vec(RNG.standard_normal(6), RNG.standard_normal(6)),
    AxialLearned(WEIGHTS[:2], order=(1, 0)),
    AxialLearned(WEIGHTS, combine="sum", flat=True),
    Hybrid((Learned(WEIGHTS[0]), Sinusoidal(8))),
    Hybrid((Sinusoidal(6), Sinusoidal(8, layout="concat")), combine="concat"),
]


def codes(fn, encoding, surface="table", **kwargs):
    report = check(fn, encoding, surface, **kwargs)
    assert report.verdict == ("deviates" if report.codes else "conforms"), report
    return report.codes


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_our_own_pass(encoding, kind):
    report = check(
        lambda p: np.asarray(encoding.table(p)).astype(kind), encoding, "table", dtype=kind
    )
    assert report.passed, report
    assert all(report.controls.values())
    if encoding.num_axes == 2 and not isinstance(encoding, FourierFeatures):
        assert (
            codes(lambda h, w: encoding.grid(h, w).astype(kind), encoding, "grid", dtype=kind) == []
        )


def test_positions_that_are_no_places_of_a_table():
    declared = DETRSine(24)

    def grid(height, width):
        y = np.resize((np.arange(width) + 1) / (width + 1e-6), height)
        x = (np.arange(width) + 1) / (width + 1e-6)
        return declared.table(2 * np.pi * np.stack(np.meshgrid(y, x, indexing="ij")).reshape(2, -1))

    report = check(grid, declared, "grid")
    assert report.codes == ["position-scale"]
    (found,) = report.findings
    assert found.message == (
        "the place of a patch on the axis of rows is 6.28319 * ((row modulo width) + 1) / width"
    )
    assert report.limits == []


@pytest.mark.parametrize("encoding", by_day(ENCODINGS, ENCODINGS[::3]), ids=repr)
def test_columns_in_an_order_that_nobody_guessed(encoding):
    order = np.random.default_rng(2).permutation(encoding.dim)
    named = codes(lambda p: encoding.table(p)[:, order].astype(np.float32), encoding)
    assert named == ["layout"]


@pytest.mark.parametrize("encoding", by_day(ENCODINGS, ENCODINGS[::3]), ids=repr)
def test_what_has_no_name(encoding):
    assert codes(lambda p: np.cos(encoding.table(p)).astype(np.float32), encoding) == ["inaccurate"]


def test_results_of_another_shape_and_refusals():
    encoding = Sinusoidal2D(16)
    assert codes(lambda p: encoding.table(p).T.astype(np.float32), encoding) == ["shape"]
    assert codes(lambda p: 1 / 0, encoding) == ["raises"]

    def near(p):
        if np.max(p) >= 64:
            raise ValueError("too far")
        return encoding.table(p).astype(np.float32)

    report = check(near, encoding, "table")
    assert report.passed
    assert any("far places: refused" in text for text in report.limits)


def test_a_cache_by_length_is_state():
    encoding, kept = Sinusoidal2D(16), {}

    def cached(p):
        return kept.setdefault(p.shape, encoding.table(p).astype(np.float32))

    report = check(cached, encoding, "table")
    assert not report.passed


def test_surfaces_that_number_tokens_refuse_tables_of_images():
    for surface in ("add", "rows", "scores"):
        with pytest.raises(ValueError, match="has 2 axes of positions; judge it on surface 'grid'"):
            check(lambda *a: None, Sinusoidal2D(16), surface)
    with pytest.raises(ValueError, match="no grid of its own"):
        check(lambda h, w: None, ENCODINGS[4], "grid")
    with pytest.raises(ValueError, match="a grid has 1 or 2 axes"):
        check(lambda h, w: None, ENCODINGS[2], "grid")
    with pytest.raises(ValueError, match="is for table encodings"):
        check(lambda h, w: None, MultiAxisRoPE(8, sections=(2, 2), layout="half"), "grid")


def test_rows_of_sums_and_factors():
    for encoding in ENCODINGS[-3:]:
        fn = lambda n, e=encoding: np.asarray(e.table(np.arange(n))).astype(np.float32)  # noqa: E731
        assert codes(fn, encoding, "rows") == []
        late = lambda n, e=encoding: np.asarray(e.table(np.arange(n) + 1)).astype(np.float32)  # noqa: E731
        assert codes(late, encoding, "rows") in (["table-offset"], ["raises"])


@pytest.mark.parametrize("part", [np.s_[:, :-1], np.s_[..., :4], np.s_[:1], np.s_[0]])
def test_a_sum_has_the_shape_of_x(part):
    added = SURFACES["add"].own(Sinusoidal(8), "float32")
    report = check(lambda x: added(x)[part], Sinusoidal(8), "add")
    assert report.codes == ["shape"]
    assert report.findings[0].message.startswith("expected shape (2, 5, 8), as x has, got ")


def test_a_grid_without_the_offset_of_its_table(rng):
    table = rng.standard_normal((40, 8)).astype(np.float32)
    report = check(lambda h, w: table[: h * w], Learned(table, offset=2), "grid")
    assert [f.message for f in report.findings] == ["the table's offset 2 is missing"]
