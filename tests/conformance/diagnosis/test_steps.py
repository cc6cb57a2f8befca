"""Formulas in steps: unchanged they equal the specification; a changed step names its mistake."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.bias import formulas as of_bias
from posenc_ref.conformance.diagnosis.steps import Steps, changes, computed, plain_steps
from posenc_ref.conformance.oracle.scores import Scored
from posenc_ref.conformance.phases import schedule_steps
from posenc_ref.conformance.registry import entries
from posenc_ref.conformance.score import formulas as of_score
from posenc_ref.conformance.table import formulas as of_table

EXAMPLES = {name: e for entry in entries() for name, e in entry.examples.items()}


def near(value, truth):
    assert np.abs(value - truth).max() <= 1e-13 * np.abs(truth).max()


@pytest.mark.parametrize("name", [n for n, e in EXAMPLES.items() if isinstance(e, pr.Bias)])
def test_the_formula_of_a_bias_is_the_declared_one(name):
    e, formula = EXAMPLES[name], of_bias.formula_of(EXAMPLES[name])
    if formula is None:
        pytest.skip("no formula in steps: another diagnosis measures this bias")
    at = np.arange(getattr(e, "tokens", None) or 40)
    seen = np.ones((at.size,) * 2, bool) if e.sees_future else at <= at[:, None]
    near(formula(e, at[:, None], at[None], Steps())[:, seen], e.truth(at, at).value[:, seen])


@pytest.mark.parametrize("name", [n for n, e in EXAMPLES.items() if of_score.formula_of(e)])
def test_the_formula_of_a_score_is_the_declared_one(name):
    e, rng = EXAMPLES[name], np.random.default_rng(0)
    n, h = getattr(e, "rows", None) or 12, getattr(e, "heads", None) or 3
    for queries in (n, 1, 3):
        q, k = (rng.normal(size=(2, h, s, e.head_dim)) for s in (queries, n))
        call = Scored(e, q, k, 0.3)
        seen = call.visible if call.causal else np.ones((queries, n), bool)
        got = sum(of_score.formula_of(e)(call, Steps()).values())
        near(got[..., seen], call.truth().value[..., seen])


@pytest.mark.parametrize("name", [n for n, e in EXAMPLES.items() if of_table.formula_of(e)])
def test_the_formula_of_a_table_is_the_declared_one(name):
    e, rng = EXAMPLES[name], np.random.default_rng(0)
    last = e.rows - e.offset if isinstance(e, pr.Learned) else 6
    at = np.arange(last) if e.num_axes == 1 else rng.integers(0, 3, (e.num_axes, 6))
    near(of_table.formula_of(e)(e, at, Steps()), e.truth(at).value)


@pytest.mark.parametrize(
    "scaling",
    [
        pr.YaRN(4.0, 4096), pr.YaRN(16.0, 2048, truncate=False),
        pr.Llama3Scaling(8.0, 1.0, 4.0, 8192), pr.NTKByParts(8.0, 2048), pr.SuNTK(8.0),
    ],
)  # fmt: skip
def test_the_formula_of_a_scaling_is_the_declared_one(scaling):
    e = pr.RoPE(64, layout="half", scaling=scaling)
    near(schedule_steps.formula_of(e)(e, scaling, Steps()), e.frequencies())


def test_each_change_is_made_alone_and_exchanged_values_are_those_of_the_other_step():
    def formula(s):
        return s.number("a", np.array([1, 2])) * 100 + s.number("b", np.array([3, 4]))

    assert formula(Steps()).tolist() == [103, 204]
    found = {message: change for _, message, _, change in changes(plain_steps(formula))}
    assert computed(formula, found["a has the opposite sign"]).tolist() == [-97, -196]
    assert computed(formula, found["b is doubled"]).tolist() == [106, 208]
    assert computed(formula, found["a and b are exchanged"]).tolist() == [301, 402]


KERPLE = pr.Kerple((0.5, 1.0, 2.0), (0.03, 0.5, 4.0))
LEVIT = pr.LeViTBias(np.random.default_rng(1).normal(size=(12, 2)), window=(3, 4))
SHAW = pr.Shaw(np.random.default_rng(2).normal(size=(2, 9, 8)), before=4)


def kerple(q, k):
    distance = np.abs(np.arange(k) - np.arange(k - q, k)[:, None])
    r1, r2 = (np.array(r)[:, None, None] for r in (KERPLE.r1, KERPLE.r2))
    return (-r1 * r2 * np.log1p(distance)).astype(np.float32)


def levit(q, k):
    y, x = np.divmod(np.arange(12), 4)
    row = np.abs(x[:, None] - x) * 3 + np.abs(y[:, None] - y)
    return np.moveaxis(LEVIT.table[row], -1, 0)[:, -q:, :k].astype(np.float32)


def shaw(q, k):
    r = np.arange(k.shape[2]) - np.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None]
    table = SHAW.keys[[0, 0]]  # both heads read the table of head 0
    by_row = q @ np.swapaxes(table, -1, -2)
    row = np.broadcast_to(np.clip(r, -4, 4) + 4, (*q.shape[:3], k.shape[2]))
    content = q @ np.swapaxes(k, -1, -2)
    return ((content + np.take_along_axis(by_row, row, -1)) * 8**-0.5).astype(np.float32)


@pytest.mark.parametrize(
    ("fn", "encoding", "surface", "words"),
    [
        pytest.param(
            kerple, KERPLE, "bias", "r2 multiplies the logarithm, not the distance",
            marks=pytest.mark.nightly,
        ),
        (levit, LEVIT, "bias", "the table is read transposed"),
        pytest.param(
            shaw, SHAW, "scores", "the table is that of head 0 for every head",
            marks=pytest.mark.nightly,
        ),
    ],
)  # fmt: skip
def test_a_changed_step_is_named(fn, encoding, surface, words):
    report = check(fn, encoding, surface)
    assert report.verdict == "deviates"
    assert words in report.findings[0].message, report


def test_a_table_that_is_used_in_place_of_another_one_is_a_change():
    def formula(s):
        one = s.array("a", np.array([1.0, 2.0]), ("row",))
        return one * 100 + s.array("b", np.array([3.0, 4.0]), ("row",))

    found = {message: change for _, message, _, change in changes(plain_steps(formula))}
    used = found["b is replaced by a, which is used for both"]
    assert computed(formula, used).tolist() == [101, 202]
    used = found["a is replaced by b, which is used for both"]
    assert computed(formula, used).tolist() == [303, 404]


def test_words_that_end_like_those_of_an_exchange_are_no_exchange():
    def formula(s):
        return s.pick("the pair", np.array([1.0, 2.0]), ("axis-order", "are exchanged", 7.0))

    [(_, _, _, change)] = [c for c in changes(plain_steps(formula)) if c[3][0] == "the pair"]
    assert computed(formula, change) == 7.0
