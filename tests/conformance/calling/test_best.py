"""Which of two ways of calling a function is taken, and when the rows of a batch differ."""

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE
from posenc_ref.conformance.calling.axes_tables import AxesSource
from posenc_ref.conformance.calling.facts import Facts
from posenc_ref.conformance.calling.rotations import Rotation

binding = importlib.import_module("posenc_ref.conformance.calling.bind")


@pytest.mark.parametrize(
    ("whole", "part", "best"), [(1, 2, "part"), (1, 1, "whole"), (2, 1, "whole")]
)
def test_the_width_of_an_axis_is_taken_if_it_does_better(monkeypatch, whole, part, best):
    facts = Facts({}, {}, {})
    found = {16: (whole, "whole"), 8: (part, "part")}
    monkeypatch.setattr(
        binding, "_found", lambda request, facts, dim: found[facts.by_role.get("width", 16)]
    )
    encoding = MultiAxisRoPE(16, sections=(4, 4), layout="half")
    way, with_facts = binding._best_facts(SimpleNamespace(axes=2, encoding=encoding), facts, 16)
    assert way == best
    assert (with_facts is facts) is (best == "whole")


@pytest.mark.parametrize("second", [4, -4])
def test_rows_that_differ_need_tables_of_their_own(second):
    one = SimpleNamespace(source=object.__new__(AxesSource))
    rows = np.array([[[5, 6], [5, 6]], [[0, 1], [0, 1]]])  # (axes, B, S)
    assert not Rotation._differ(one, rows)
    rows[1, 1] += second
    assert Rotation._differ(one, rows)


def test_the_first_of_two_results_is_x_rotated():
    for result in (("q", "k"), "q"):
        way = SimpleNamespace(_rotate=lambda vectors, positions, result=result: result)
        assert Rotation.__call__(way, np.zeros(2), np.zeros(1)) == "q"
