"""Exact outputs as they are written to files and read again."""

import numpy as np
import pytest

from posenc_ref.conformance.exact.output import Output


@pytest.mark.parametrize(("column", "fits"), [(0, True), (2, True), (-1, False), (3, False)])
def test_the_reference_column_is_one_of_the_row(column, fits):
    zeros = np.zeros((1, 2, 3))
    data = Output(zeros, zeros, zeros, zeros).to_json() | {"relative_to": [1, column]}
    if fits:
        assert Output.read(data).relative_to.tolist() == [1, column]
    else:
        with pytest.raises(ValueError, match="must name one of 3 columns for each of 2 rows"):
            Output.read(data)
