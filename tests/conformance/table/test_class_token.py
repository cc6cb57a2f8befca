"""A grid with a row of a class token in front, whose last patch is cut off, is named."""

import numpy as np
import pytest

from posenc_ref import Sinusoidal2D
from posenc_ref.conformance.table.formulas import changed_steps
from tests.conformance.handwritten import run_of

ENCODING = Sinusoidal2D(16)


@pytest.mark.parametrize(("kept", "words"), [(0, "row 0 is 0,"), (1, "row 0 is that of the first")])
def test_the_row_of_a_class_token_in_front_is_predicted(kept, words):
    table = np.asarray(ENCODING.grid(3, 4))
    expected = np.concatenate([table[:1] * kept, table[:-1]])
    (mistake,) = (
        m
        for m in changed_steps(run_of(ENCODING.grid, ENCODING, "grid"), (3, 4))
        if m.message.startswith(words)
    )
    value = mistake.predict((3, 4)).value
    assert np.abs(value - expected).max() <= 1e-12 * np.abs(expected).max()
