"""Properties judge without the oracle; each catches something that the others let through."""

import numpy as np
import pytest

from posenc_ref import RoPE, Sinusoidal
from posenc_ref.conformance import check
from posenc_ref.conformance.harness.reach import Access, TableAccess
from posenc_ref.conformance.phases import properties as rotation
from posenc_ref.conformance.phases.measure import measure
from posenc_ref.conformance.rotary import judge as judge_apply
from posenc_ref.conformance.table import diagnose as diagnose_table
from tests.conformance.handwritten import HEAD_DIM, rope, run_of, sinusoid


def five_bits(p):
    """Positions with five significant bits, as in a number format far too short."""
    mantissa, exponent = np.frexp(np.asarray(p, np.float64))
    return np.ldexp(np.rint(mantissa * 32), exponent - 5)


def at_1021(wrong):
    """A pair's map that is wrong at position 1021 only, where no other property looks."""
    return lambda c, s, p: tuple(
        np.where(p == 1021, w, r) for w, r in zip(wrong(c, s), (c, -s, s, c), strict=True)
    )


def even_pairs(y, p):
    """Every pair is stretched to the norm of the largest one."""
    half = HEAD_DIM // 2
    norm = np.hypot(y[..., :half], y[..., half:])
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(norm > 0, norm.max(axis=-1, keepdims=True) / norm, 1.0)
    return y * np.concatenate([gain, gain], axis=-1)


ROTATIONS = {
    "a rotation": (rope(), set()),
    "in float32 with another base": (rope(base=3.7, layout="interleaved"), set()),
    # Sole killers.
    "shear of determinant 1 at one position": (
        rope(block=at_1021(lambda c, s: (2 * c, -s / 2, 2 * s, c / 2))),
        {"orthogonality"},
    ),
    "reflection at one position": (
        rope(block=at_1021(lambda c, s: (c, s, s, -c))),
        {"determinant"},
    ),
    "pairs stretched to one norm": (rope(after=even_pairs), {"pair norm"}),
    "positions of five bits": (rope(positions=five_bits), {"relative offset"}),
    "positions modulo 32": (rope(positions=lambda p: p % 32), {"composition"}),
    # What is wrong everywhere shows in several.
    "reflection": (
        rope(block=lambda c, s, p: (c, s, s, -c)),
        {"determinant", "composition"},
    ),
    "sine with one sign": (
        rope(block=lambda c, s, p: (c, s, s, c)),
        {"orthogonality", "determinant", "pair norm", "relative offset", "composition"},
    ),
    "norm that decays with the position": (
        rope(block=lambda c, s, p: tuple(0.99**p * t for t in (c, -s, s, c))),
        {"orthogonality", "determinant", "pair norm", "relative offset"},
    ),
    "positions clamped to 40": (
        rope(positions=lambda p: np.minimum(p, 40)),
        {"relative offset"},
    ),
}


@pytest.mark.parametrize(("fn", "caught_by"), ROTATIONS.values(), ids=ROTATIONS)
def test_rotation(fn, caught_by):
    run = run_of(fn)
    access = Access(run, dim=HEAD_DIM)
    access.learn()
    rotation.judge(run, access, measure(access, run.dtype))
    assert run.report.executed == {"properties": 5}
    assert {failure.case for failure in run.failures} == caught_by
    assert all(run.report.controls.values())
    assert len(run.report.controls) == 5


@pytest.mark.parametrize(("fn", "caught_by"), ROTATIONS.values(), ids=ROTATIONS)
def test_rotation_with_the_oracle_withheld(fn, caught_by):
    report = check(fn, None, "apply", head_dim=HEAD_DIM)
    assert report.verdict == ("deviates" if caught_by else "conforms"), report
    assert "values" not in report.executed


@pytest.mark.parametrize(
    ("declared", "caught_by"), [(RoPE(HEAD_DIM, layout="half"), {"composition"}), (None, set())]
)
def test_positions_from_1_are_wrong_only_where_0_is_declared(declared, caught_by):
    run = run_of(rope(positions=lambda p: p + 1), declared)
    access = Access(run, dim=HEAD_DIM)
    access.learn()
    rotation.judge(run, access, measure(access, run.dtype))
    assert {failure.case for failure in run.failures} == caught_by
    assert run.report.executed == {"properties": 5 if declared else 4}


def test_every_property_is_a_sole_killer():
    alone = {next(iter(found)) for _, found in ROTATIONS.values() if len(found) == 1}
    assert alone == {"orthogonality", "determinant", "pair norm", "relative offset", "composition"}


def test_rows_of_a_batch_are_compared_with_one_another():
    def second_row_late(x, p):
        rows = np.arange(x.shape[0])[:, None] // 2 + np.asarray(p)
        return rope()(x, rows)

    run = run_of(second_row_late)
    judge_apply.judge(run)
    assert [f.case for f in run.failures] == ["same token in every row"]
    assert not check(second_row_late, None, "apply", head_dim=HEAD_DIM).passed


def gain_and_loss(rows, p):
    """Some rows are twice as large, and those they are multiplied with half as large."""
    gain = np.where(np.isin(p, [12, 15, 20]), 2.0, np.where(np.isin(p, [13, 17, 33]), 0.5, 1.0))
    return rows * gain[:, None]


TABLES = {
    "a table": (sinusoid(), set()),
    "positions from 1": (sinusoid(positions=lambda p: p + 1), set()),
    # Sole killers.  M(k) is not judged where the sizes of a pair's columns change.
    "rows that gain what others lose": (sinusoid(after=gain_and_loss), {"constant norm"}),
    "one wrong row": (
        sinusoid(positions=lambda p: np.where(p == 13, 14, p)),
        {"Gram of the offset"},
    ),
    "sign that flips every 12 rows": (
        sinusoid(after=lambda rows, p: rows * (1 - 2 * (p // 12 % 2))[:, None]),
        {"PE(p+k) = M(k) PE(p)"},
    ),
    # What is wrong everywhere shows in several.
    "norm that decays": (
        sinusoid(after=lambda rows, p: rows * 0.9 ** p[:, None]),
        {"constant norm", "Gram of the offset"},
    ),
    "positions clamped to 15": (
        sinusoid(positions=lambda p: np.minimum(p, 15)),
        {"Gram of the offset", "PE(p+k) = M(k) PE(p)"},
    ),
    "positions modulo 16": (
        sinusoid(positions=lambda p: p % 16),
        {"Gram of the offset", "PE(p+k) = M(k) PE(p)"},
    ),
}


@pytest.mark.parametrize(("fn", "caught_by"), TABLES.values(), ids=TABLES)
def test_table(fn, caught_by):
    encoding = Sinusoidal(HEAD_DIM)
    run = run_of(fn, encoding, "table")
    access = TableAccess(run, read=lambda result, rows: run.driver.array(result))
    access.learn()
    diagnose_table.properties(run, access, encoding)
    assert {failure.case for failure in run.failures} == caught_by
    assert all(run.report.controls.values())
    assert run.report.executed["properties"] == len(run.report.controls) >= 2
