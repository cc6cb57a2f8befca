"""Declarations that hold the tensors of a model are judged like those that hold NumPy arrays."""

import dataclasses

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.harness.to_host import on_host
from posenc_ref.encoding import Value
from tests import mutants
from tests.night import by_day


def on_torch(value, seen):
    """The same value with parameters of PyTorch in it."""
    torch = pytest.importorskip("torch", reason="a model's parameters are PyTorch's")
    if isinstance(value, Value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return value.replace(**{name: on_torch(old, seen) for name, old in fields.items()})
    if isinstance(value, tuple):
        return tuple(on_torch(item, seen) for item in value)
    if isinstance(value, np.ndarray):
        seen.append(value)
        return torch.nn.Parameter(torch.tensor(value))
    return value


def learns(body):
    """Whether a declaration in JSON form holds arrays."""
    if isinstance(body, dict):
        return any(map(learns, body.values()))
    return isinstance(body, np.ndarray)


#: A correct and a wrong function of each class whose declaration holds learned arrays.
CASES = {}
for case in mutants.CORRECT + mutants.WRONG:
    if learns(case.encoding):
        CASES.setdefault((case.encoding["encoding"], bool(case.expected)), case)


@pytest.mark.parametrize(
    "key",
    by_day(CASES, list(CASES)[::4]),
    ids=lambda key: f"{key[0]}-{'wrong' if key[1] else 'right'}",
)
def test_the_verdict_is_the_same(key):
    case, seen = CASES[key], []
    plain = pr.from_dict(case.encoding)
    moved = on_torch(plain, seen)
    assert seen
    report = check(case.make(), moved, case.surface, **case.kwargs)
    assert report.passed == (not case.expected), report
    assert report.codes == check(case.make(), plain, case.surface, **case.kwargs).codes


def test_cases_reach_every_family():
    assert {pr.from_dict(c.encoding).family for c in CASES.values()} >= {"score", "bias", "table"}


def test_values_that_are_there_stay_themselves():
    plain = pr.TUPE(np.ones((5, 2, 4)), np.ones((5, 2, 4)), bias=pr.T5Bias(np.ones((32, 2))))
    assert on_host(plain) is plain
    assert on_host(None) is None
    seen = []
    moved = on_torch(plain, seen)
    assert len(seen) == 3
    back = on_host(moved)
    assert back == plain
    assert isinstance(back.bias.table, np.ndarray)


def test_layers_of_a_network_are_moved_too():
    rng, seen = np.random.default_rng(3), []
    layers = [rng.standard_normal(shape).astype(np.float32) for shape in ((5, 1), (2, 5))]
    plain = pr.DynamicBias(tuple(layers), (np.zeros(5, np.float32), np.zeros(2, np.float32)))
    back = on_host(on_torch(plain, seen))
    assert len(seen) == 4
    assert back == plain
    assert {type(part) for part in (*back.weights, *back.biases)} == {np.ndarray}
