"""Checks of every entry of the registry: functions of an entry, an example and its name."""

import dataclasses
import functools
import json

import numpy as np

import posenc_ref
from posenc_ref import Encoding, from_dict
from posenc_ref._namespace import is_array
from posenc_ref.accuracy import Truth, budget
from posenc_ref.backends import backend
from posenc_ref.conformance import check
from posenc_ref.conformance.exact.certificate import certify_entry
from posenc_ref.conformance.registry import entry_of
from posenc_ref.conformance.surveys.own import judge_entry, wide
from posenc_ref.conformance.surveys.record import Outcome
from tests.conformance.registry.more_entry_checks import MORE_CHECKS
from tests.posenc_ref.test_table_properties import CHECKS as PROPERTIES
from tests.posenc_ref.test_table_properties import rows


@functools.cache
def cases(entry, name):
    """The exact cases of an example."""
    return tuple(entry.cases(name))


@functools.cache
def rows_of(entry):
    """The certificate of all examples of an entry."""
    return tuple(certify_entry(entry))


def sides(inputs):
    """The positions of queries and keys of a case."""
    if "q_len" in inputs:
        n_q, n_k = inputs["q_len"], inputs["k_len"]
    else:
        n_q, n_k = inputs["q"].shape[2], inputs["k"].shape[2]
    return np.arange(n_k - n_q, n_k), np.arange(n_k)


def own(e, inputs, positions=None):
    """The specification's own output, float64 where nothing learned has another dtype."""
    if e.family in ("table", "rotary"):
        at = inputs["positions"] if positions is None else positions
        return e.table(at) if e.family == "table" else rotated(e, inputs["x"], at)
    at = sides(inputs) if positions is None else positions
    if e.family == "bias":
        return e.bias(*at)
    return posenc_ref.scores(e, inputs["q"], inputs["k"], *at)


def rotated(e, x, positions):
    """x by the method that the entry is judged by."""
    return getattr(e, entry_of(e).surface)(x, positions)


def own_truth(e, inputs):
    """Value, A and B that the class itself states."""
    if e.family == "table":
        return e.truth(inputs["positions"])
    q_at, k_at = sides(inputs)
    if e.family == "bias":
        return e.truth(q_at, k_at)
    q, k = (inputs[name].astype(np.float64) for name in "qk")
    scale = e.own_scale(q.shape[-1])
    terms = list(e.truths(q, k, q_at[:, None], k_at[None, :], scale).values())
    return Truth(*(sum(getattr(t, name) for t in terms) for name in ("value", "terms", "angle")))


# --- the checks ----------------------------------------------------------------------------------


def json_and_back(entry, name, e):
    back = from_dict(json.loads(json.dumps(e.to_dict())))
    assert back == e
    assert hash(back) == hash(e)
    assert len({e, back, *entry.examples.values()}) == len(entry.examples)
    for recipe in entry.group(name).cases:
        np.testing.assert_array_equal(own(back, recipe.inputs), own(e, recipe.inputs))


def states_the_error_unit_of_its_formula(entry, name, e):
    """A and B of the class are those that follow from the formula, so no budget is wider."""
    for recipe, truth in cases(entry, name):
        mine = own_truth(e, recipe.inputs)
        judged = np.broadcast_to(truth.judged if truth.judged is not None else True, truth.shape)
        terms, angle = mine.terms, mine.angle
        if truth.relative_to is not None:
            own_key = np.broadcast_to(truth.relative_to[:, None], (*truth.shape[:-1], 1))
            terms, angle = (x + np.take_along_axis(x, own_key, axis=-1) for x in (terms, angle))
        for dtype in ("float64", "float32"):
            want = np.where(judged, Truth(truth.hi, truth.terms, truth.angle).unit(dtype), 0.0)
            stated = np.where(judged, Truth(mine.value, terms, angle).unit(dtype), 0.0)
            # Files keep A and B in float32.
            score = Truth(want, want, np.zeros(())).score(stated, dtype="float32")
            at = np.unravel_index(np.argmax(score), score.shape)
            assert score.max() <= budget("float32"), unequal(
                f"{name}-{recipe.name}", inputs_of(recipe, at), (terms, angle), truth, at
            )


def unequal(case, where, stated, truth, at):
    """What ``_truth_of`` and the like state of an element, beside what its formula says."""
    size, swing = (np.broadcast_to(part, truth.shape)[at] for part in stated)
    a, b = (np.broadcast_to(part, truth.shape)[at] for part in (truth.terms, truth.angle))
    larger = "stated" if size + swing > a + b else "derived"
    return (
        f"the error unit, in {case}, {where}: the class states A = {size:.6g}, B = {swing:.6g}; "
        f"from the formula in counted numbers follow A = {a:.6g}, B = {b:.6g}; the {larger} one "
        "is larger (conformance/exact/error_numbers.py says how A and B are counted)"
    )


def inputs_of(recipe, at):
    """An element of the output of a case, in words."""
    if "positions" in recipe.inputs:
        row, column = at
        return f"position {recipe.inputs['positions'][..., row].tolist()}, column {column}"
    q_at, k_at = sides(recipe.inputs)
    *_, head, i, j = at
    return f"head {head}, query at {q_at[i]}, key at {k_at[j]}"


def is_certified(entry, name, e):
    rows = [row for row in rows_of(entry) if row.encoding == f"{entry.name}: {name}"]
    assert rows
    assert [row for row in rows if not row.passed] == []


def conforms(entry, name, e):
    """The suite's own probes and properties accept it."""

    def table(positions):
        return e.table(positions, dtype=np.dtype("float32"))

    def bias(q_len, k_len):
        return e.bias(range(k_len - q_len, k_len), range(k_len), dtype=np.dtype("float32"))

    def scores(q, k):
        at = range(k.shape[-2] - q.shape[-2], k.shape[-2])
        return posenc_ref.scores(e, q, k, at, range(k.shape[-2]))

    def apply(x, positions):
        return e.apply(x, positions)

    if entry.surface == "apply_queries":  # which `check` has not
        return
    fn = {"table": table, "bias": bias, "scores": scores, "apply": apply}[entry.surface]
    report = check(fn, e, entry.surface, max_position=256, angles="exact")
    assert report.verdict == "conforms", str(report)


def takes_host_and_array_positions(entry, name, e):
    for recipe in entry.group(name).cases:
        want = own(e, recipe.inputs)
        if e.family in ("table", "rotary"):
            as_lists = own(e, recipe.inputs, recipe.inputs["positions"].tolist())
        else:
            as_lists = own(e, recipe.inputs, [side.tolist() for side in sides(recipe.inputs)])
        np.testing.assert_array_equal(as_lists, want)
        assert as_lists.dtype == want.dtype


def follows_the_dtype(entry, name, e):
    """Of x; from positions alone float64, or that of the learned numbers, unless check_entry.

    What ``scores`` gives is check_entry in ``scores_follow_the_queries``.
    """
    inputs = entry.group(name).cases[0].inputs
    if e.family == "table":
        assert own(e, inputs).dtype in {np.dtype("float64"), *learned_dtypes(e)}
        count = inputs["positions"].shape[-1]

        def follows(kind):
            return e.add(np.ones((count, e.dim), kind), inputs["positions"])

    elif e.family == "bias":
        assert own(e, inputs).dtype in {np.dtype("float64"), *learned_dtypes(e)}

        def follows(kind):
            return e.bias(*sides(inputs), dtype=np.dtype(kind))

    elif e.family == "rotary":

        def follows(kind):
            return own(e, {**inputs, "x": inputs["x"].astype(kind)})

    else:
        return

    for kind in ("float64", "float32", "float16"):
        assert follows(kind).dtype == kind


def learned_dtypes(e):
    """The dtypes of the learned numbers of an encoding, those of its parts among them."""
    found = set()
    for value in vars(e).values():
        for part in value if isinstance(value, tuple) else (value,):
            if is_array(part):
                found.add(part.dtype)
            elif isinstance(part, Encoding):
                found |= learned_dtypes(part)
    return found


def writes_over_nothing(entry, name, e):
    for recipe in entry.group(name).cases:
        before = json.dumps(e.to_dict())
        inputs = {k: np.copy(v) if is_array(v) else v for k, v in recipe.inputs.items()}
        own(e, recipe.inputs)
        for key, value in inputs.items():
            np.testing.assert_array_equal(recipe.inputs[key], value)
        assert json.dumps(e.to_dict()) == before


def has_the_properties_it_declares(entry, name, e):
    """Declared properties hold."""
    if e.family == "table":
        if not e.integers:
            assert [what for what in e.properties if not PROPERTIES[what](*rows(e))] == []
        return
    for recipe in entry.group(name).cases:
        q_at, k_at = sides(recipe.inputs)
        if e.relative:
            moved = own(e, recipe.inputs, (q_at + 3, k_at + 3))
            np.testing.assert_array_equal(moved, own(e, recipe.inputs))
        if e.relative and e.family == "bias":
            t = e.toeplitz(q_at.size, k_at.size)
            offsets = k_at - q_at[:, None] + k_at.size - 1
            np.testing.assert_array_equal(t[:, offsets], own(e, recipe.inputs))


CHECKS_OF_ALL = (
    json_and_back,
    is_certified,
    conforms,
    follows_the_dtype,
    takes_host_and_array_positions,
    writes_over_nothing,
)
#: Rotary encodings have tests of their own for these.
CHECKS = (
    *CHECKS_OF_ALL,
    states_the_error_unit_of_its_formula,
    has_the_properties_it_declares,
    *MORE_CHECKS,
)


def on(library, entry, dtype):
    """The outcome of the cases of an entry on an array library; where all compile, of the first."""
    if library == "jax":
        name = next(iter(entry.examples))
        entry = dataclasses.replace(entry, examples={name: entry.examples[name]})
    there = backend(library)
    device = there.devices()[0]
    angles = "exact" if wide(there, device) else None
    return judge_entry(entry, there, dtype, device, Outcome("backend", library), angles)
