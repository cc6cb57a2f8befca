"""Functions whose parameters are named as a surface's, and which fail in every call."""

import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.calling import NoConvention, bind

HALF = RoPE(8, layout="half")


def raises(x, positions):
    raise ValueError("this is mine")


def exits(x, positions):
    raise SystemExit(0)


def other_names(vectors, places):
    raise ValueError("this is mine")


@pytest.mark.parametrize(
    ("fn", "said"), [(raises, "ValueError: this is mine"), (exits, "SystemExit: 0")]
)
def test_a_function_that_raises_in_every_call_is_judged(fn, said):
    report = check(fn, HALF)
    assert report.codes == ["raises"]
    assert report.surface == "apply"
    assert report.findings[0].evidence == said


def test_other_names_are_no_surface():
    with pytest.raises(NoConvention, match="no calling convention fits other_names"):
        bind(other_names, HALF)
