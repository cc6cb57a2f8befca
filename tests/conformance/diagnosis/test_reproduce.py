"""The lines that reproduce a failure do: they run, and print what the report says."""

import io
from contextlib import redirect_stdout

import numpy as np
import pytest

import posenc_ref
from posenc_ref import LinearScaling, RoPE, YaRN
from posenc_ref.conformance import check
from tests.mutants import WRONG

HALF = RoPE(32, layout="half", base=500000.0)


def run(lines, fn):
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(lines, {"fn": fn})
    return [float(n) for n in printed.getvalue().split()]


@pytest.mark.parametrize(
    ("wrong", "declared"),
    [
        (RoPE(32, layout="half"), HALF),
        (RoPE(32, layout="interleaved", base=500000.0), HALF),
        (HALF.replace(sign=-1), HALF),
        (HALF, HALF.replace(scaling=LinearScaling(4.0))),
        (HALF, HALF.replace(scaling=YaRN(4.0, 4096))),
    ],
    ids=["base", "layout", "sign", "linear", "yarn"],
)
def test_they_print_what_they_say(wrong, declared):
    report = check(wrong.apply, declared, "apply")
    lines = report.findings[0].reproduce
    assert lines.count("\n") < 10
    got, expected = run(lines, wrong.apply)
    comment = [float(n) for n in lines.rpartition("#")[2].split()]
    assert [float(f"{v:.7g}") for v in (got, expected)] == comment
    assert got != expected
    assert "print(got[" in str(report)


def test_functions_that_count_from_zero_get_whole_calls():
    """Only calls from position 0 on are accepted: the token sits at the end of one."""

    def from_zero(x, positions):
        if positions[0] != 0 or (np.diff(positions) != 1).any():
            raise ValueError("from 0")
        return RoPE(32, layout="half").apply(x, positions)

    report = check(from_zero, HALF, "apply")
    assert "np.arange(" in report.findings[0].reproduce
    got, expected = run(report.findings[0].reproduce, from_zero)
    assert got != expected


def test_what_one_token_does_not_show_has_no_lines():
    case = next(c for c in WRONG if c.name == "mrope-time-turns-every-pair")
    report = check(case.make(), posenc_ref.from_dict(case.encoding), case.surface)
    assert report.findings[0].reproduce == ""
    right = check(HALF.apply, HALF, "apply")
    assert right.findings == []
