"""Positions that may be used in place of key - query, against numbers written here."""

from types import SimpleNamespace

import numpy as np

from posenc_ref.conformance.score.term_mistakes import ABSOLUTE


def test_absolute_positions():
    call = SimpleNamespace(grid=(np.array([[5], [7]]), np.array([[0, 1, 4]])))
    assert {words: place(call).tolist() for words, place in ABSOLUTE} == {
        "key's own position": [[0, 1, 4]],
        "query's own position": [[5], [7]],
        "key's position relative to the first query": [[-5, -4, -1]],
        "query's position relative to the first query": [[0], [2]],
    }
