"""Which mistakes are reported, from predictions of calls that are integers times 1, 2, 3, ..."""

from dataclasses import replace

import numpy as np
import pytest

from posenc_ref import ALiBi
from posenc_ref.conformance.diagnosis.match import match, placed
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.oracle.apply import exactly
from tests.conformance.handwritten import run_of

NUMBERS = np.arange(1.0, 5.0)


def calls(*factors):
    """Call n is declared to return NUMBERS and returns them times factor n; its facts are n."""
    return [
        JudgedCall(f"call {n}", factor * NUMBERS, exactly(NUMBERS), n)
        for n, factor in enumerate(factors)
    ]


def mistake(code, *factors):
    """A mistake that multiplies call n by factor n; None: it says nothing about that call."""
    of = lambda n: None if factors[n] is None else exactly(factors[n] * NUMBERS)  # noqa: E731
    return Mistake(code, f"times {factors}", of)


@pytest.mark.parametrize(
    ("made", "known", "reported", "explained"),
    [
        ((1, 1), [mistake("sign", 2, 2)], [], True),
        ((2, 2), [mistake("sign", 3, 3), mistake("base", 2, 2)], ["base"], True),
        ((2, 2), [mistake("sign", 2, None), mistake("base", 2, 2)], ["base"], True),
        ((2, 1), [mistake("sign", 2, 2), mistake("base", 2, 1)], ["base"], True),
        ((2, 3), [mistake("sign", 2, 1), mistake("base", 1, 3)], ["sign", "base"], True),
        ((2, 3, 4), [mistake("sign", 2, 1, None)], ["sign"], False),
        ((2, 3), [mistake("sign", 2, 4)], [], False),
        ((2, 2), [mistake("sign", 2, 2), mistake("base", 2, 2)], ["sign"], True),
    ],
    ids=[
        "nothing is wrong", "only what fits", "all before some", "not against right calls",
        "two that share the calls", "what is left", "not against wrong calls", "the first of two",
    ],
)  # fmt: skip
def test_what_is_reported(made, known, reported, explained):
    run = run_of(None, ALiBi(2), surface="bias")
    assert match(run, calls(*made), known) is explained
    assert run.report.codes == reported


def test_numbers_are_fitted_only_where_nothing_fits_without():
    def fit(run, wrong):
        factor = float(wrong[0].actual[0] / NUMBERS[0])
        together = mistake("score-term", *[factor] * 3)
        return [together, replace(together, code="bias-scale", values={"measured": factor})]

    known = [replace(mistake("sign", -1, -1, -1), fit=fit), mistake("base", 2, 2, 2)]
    for factor, reported in ((2, ["base"]), (5, ["score-term", "bias-scale"])):
        run = run_of(None, ALiBi(2), surface="bias")
        assert match(run, calls(factor, factor, factor), known)
        assert run.report.codes == reported
    assert run.report.findings[1].values == {"measured": 5.0}


#: What further calls 2 and 3 return, mistakes, the codes reported, and whether the first message
#: claims a part of the results only.
FURTHER = {
    "they agree": ((2, 2), [mistake("sign", 2, 2, 2, 2)], ["sign"], False),
    "they refute": ((2, 5), [mistake("sign", 2, 2, 2, 2)], ["sign"], True),
    "they are right": ((1, 1), [mistake("sign", 2, 2, 2, 2)], ["sign"], True),
    "they choose another": (
        (2, 5), [mistake("sign", 2, 2, 2, 2), mistake("base", 2, 2, 2, 5)], ["base"], False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("more", "known", "reported", "in_part"), FURTHER.values(), ids=FURTHER)
def test_further_calls_refute_a_mistake(more, known, reported, in_part):
    run = run_of(None, ALiBi(2), surface="bias")
    asked = []

    def further():
        asked.append(True)
        return calls(2, 2, *more)[2:]

    match(run, calls(2, 2), known, further=further, parts=False)
    assert asked == [True]
    assert run.report.codes == reported
    finding = run.report.findings[0]
    assert finding.message.startswith("consistent with a part") is in_part
    assert ("2 further calls agree" in finding.evidence) is not in_part


def test_further_calls_refute_a_fitted_number():
    def fit(run, wrong):
        return [mistake("score-term", *[float(wrong[0].actual[0] / NUMBERS[0])] * 4)]

    known = [replace(mistake("sign", -1, -1, -1, -1), fit=fit)]
    for more, in_part in (((3, 3), False), ((3, 4), True)):
        run = run_of(None, ALiBi(2), surface="bias")
        match(run, calls(3, 3), known, further=lambda more=more: calls(3, 3, *more)[2:])
        assert run.report.codes == ["score-term"]
        assert run.report.findings[0].message.startswith("consistent with a part") is in_part


def test_a_distance_up_to_which_results_agree_is_no_part_of_a_remedy():
    mistake = Mistake("base", "the base is 2", lambda facts: None, "Use the base 3.")
    assert placed(mistake, "only for distances from 84 on").remedy == "Use the base 3."
    assert placed(mistake, "only for head 0").remedy.endswith("only for head 0: the rest is right.")
