"""An instance of ``add`` that goes on counting tokens from call to call."""

import numpy as np
import pytest

from posenc_ref import Sinusoidal
from posenc_ref.conformance import check

SINES = Sinusoidal(16)


def counting(step, start=0):
    """Return ``add`` that begins each call where ``step(x)`` summed over the calls before says."""
    seen = start

    def add(x):
        nonlocal seen
        rows = SINES.table(seen + np.arange(x.shape[1]))
        seen += step(x)
        return (x + rows).astype(x.dtype)

    return add


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (lambda x: 1, "the number of earlier calls"),
        (lambda x: x.shape[1], "the number of tokens of earlier calls"),
        (lambda x: x.shape[0] * x.shape[1], "the number of tokens in all rows of earlier calls"),
    ],
    ids=["calls", "tokens", "rows"],
)
@pytest.mark.parametrize("start", [0, 12])
def test_what_is_counted(step, words, start):
    """Calls before the first judged one, such as those that find out its form, count as well."""
    report = check(counting(step, start), SINES, "add")
    assert report.codes == ["state"]
    assert report.findings[0].message == f"the row used is that of the declared position + {words}"
