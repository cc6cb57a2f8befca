"""Whatever a function raises or returns becomes a finding: no crash, no green without values."""

import warnings

import numpy as np
import pytest

from posenc_ref.conformance import check
from posenc_ref.conformance.harness.signatures import SURFACES
from posenc_ref.conformance.registry import entries
from posenc_ref.conformance.surfaces import refuse
from tests.conformance.harness import hostile
from tests.night import by_day


def judged(fn, encoding=hostile.ROPE, surface="apply", **settings):
    """The report of a function, which prints in UTF-8."""
    report = check(fn, encoding, surface, max_position=300, **settings)
    str(report).encode()
    report.to_json().encode()
    assert report.passed or report.codes
    return report


@pytest.mark.parametrize("name", hostile.RAISES)
def test_what_a_function_raises(name):
    assert judged(hostile.raises(hostile.RAISES[name])).codes == ["raises"]


@pytest.mark.parametrize("name", hostile.RESULTS)  # pytest would read the results
def test_what_a_function_returns(name):
    assert judged(hostile.returns(hostile.RESULTS[name])).codes in (
        ["shape"],
        ["dtype"],
        ["raises"],
    )


@pytest.mark.parametrize(("fn", "code"), hostile.WRONG.values(), ids=hostile.WRONG)
def test_what_a_function_does(fn, code):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert code in judged(fn).codes


@pytest.mark.parametrize("name", hostile.RIGHT)
def test_what_is_right_all_the_same(name):
    assert judged(hostile.RIGHT[name]).verdict == "conforms"


@pytest.mark.parametrize("change", hostile.TENSORS.values(), ids=hostile.TENSORS)
def test_tensors_without_plain_values(change):
    torch = pytest.importorskip("torch", reason="the library of the tensors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of its unfinished tensors
        report = judged(lambda x, p: change(hostile.apply(x, p), torch), backend="torch")
    assert set(report.codes) <= {"shape", "dtype"}


def test_tensors_where_arrays_are_expected():
    """NumPy reads a plain tensor, and none with gradients."""
    torch = pytest.importorskip("torch", reason="the library of the tensors")

    def tensor(x, positions, **kwargs):
        return torch.tensor(hostile.apply(x, positions), **kwargs)

    assert judged(lambda x, p: tensor(x, p, requires_grad=True)).codes == ["shape"]
    assert judged(tensor).verdict == "conforms"
    grad = judged(lambda x, p: hostile.apply(x, p).requires_grad_(), backend="torch")
    assert grad.verdict == "conforms"


def declared():
    """The surfaces, each with an encoding that may be declared for it, if one needs to be."""
    examples = [one for entry in entries() for one in entry.examples.values()]
    for surface, row in SURFACES.items():
        for encoding in examples if row.needs_encoding else [None]:
            try:
                refuse(surface, encoding)
            except (TypeError, ValueError):
                continue
            yield surface, encoding
            break


DECLARED = dict(declared())
EVERYWHERE = {
    "exits": hostile.raises(SystemExit(0)),
    "unreadable": hostile.raises(hostile.Unreadable()),
    "bad attributes": hostile.returns(hostile.BadAttributes()),
    "a pair of them": hostile.returns((hostile.BadShape(), hostile.BadArray())),
    "huge": hostile.returns(np.broadcast_to(hostile.ZERO, (2**40,))),
    "objects": hostile.returns(np.array([None] * 3)),
    "long": hostile.returns((10**400, [[10**400]])),
    "pairs of ragged lists": hostile.returns(([[1], [1, 2]], [])),
}


@pytest.mark.parametrize("surface", by_day(DECLARED, ("apply", "table", "bias", "frequencies")))
@pytest.mark.parametrize("name", EVERYWHERE)
def test_every_surface(surface, name):
    report = judged(lambda *args: EVERYWHERE[name](0, 0), DECLARED[surface], surface)
    assert report.verdict == "deviates"


def test_a_keyboard_interrupt_ends_the_check():
    with pytest.raises(KeyboardInterrupt):
        check(hostile.raises(KeyboardInterrupt()), hostile.ROPE, "apply")


@pytest.mark.parametrize("pair", [False, True])
def test_a_keyboard_interrupt_while_a_result_is_read_ends_the_check(pair):
    class Interrupts(np.lib.mixins.NDArrayOperatorsMixin):
        shape, dtype = (1, 1, 5, 64), np.dtype("float32")

        def __array__(self, *args, **kwargs):
            raise KeyboardInterrupt

    result = (Interrupts(), Interrupts()) if pair else Interrupts()
    with pytest.raises(KeyboardInterrupt):
        check(lambda *args: result, hostile.ROPE, "cos_sin" if pair else "apply")


def test_the_constructor_of_a_class_may_exit():
    class Exits:
        def __init__(self):
            raise SystemExit(0)

        def __call__(self, x, positions):
            return x

    with pytest.raises(ValueError, match="SystemExit: 0"):
        check(Exits, hostile.ROPE)
