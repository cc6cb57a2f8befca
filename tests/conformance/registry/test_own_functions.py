"""posenc_ref's own function of every surface conforms to every example of the registry."""

import pytest

from posenc_ref.conformance import check
from posenc_ref.conformance.harness.signatures import SURFACES
from posenc_ref.conformance.registry import entries

EXAMPLES = {name: e for entry in entries() for name, e in entry.examples.items()}
#: What fails before the function is called: the encoding has no such method, or no such surface.
ABSENT = (AttributeError, TypeError, ValueError)


def judged(example, surface):
    try:
        own = SURFACES[surface].own(EXAMPLES[example], "float32")
        return check(own, EXAMPLES[example], surface)
    except ABSENT:
        return None


@pytest.mark.nightly
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_surface_conforms(example):
    reports = {surface: judged(example, surface) for surface in SURFACES}
    verdicts = {s: one.verdict for s, one in reports.items() if one is not None}
    assert verdicts
    assert verdicts == dict.fromkeys(verdicts, "conforms")


@pytest.mark.parametrize(
    ("example", "surface"),
    [
        ("alibi-6", "scores"),  # fewer queries than keys
        ("axial-flat", "scores"),  # a table of 15 rows
        ("rope-mixed-16", "apply_offset"),  # two axes
        ("xpos-16-interleaved-queries", "apply_qk"),  # queries and keys have methods of their own
        ("axial-flat", "add"),  # the rows in another order cannot be asked for
        ("learned-6-offset-2", "grid"),  # a grid is no pair of positions
        ("time2vec", "add"),  # nor can fractions
    ],
)
def test_calls_that_the_surface_cannot_make_are_no_failures(example, surface):
    report = judged(example, surface)
    assert report is not None
    assert report.verdict == "conforms", report
