"""Positions that may be used in place of key - query, against numbers written here."""

from types import SimpleNamespace

import numpy as np

from posenc_ref.conformance.score.factors import of_terms
from posenc_ref.conformance.score.term_mistakes import ABSOLUTE


def test_absolute_positions():
    call = SimpleNamespace(grid=(np.array([[5], [7]]), np.array([[0, 1, 4]])))
    assert {words: place(call).tolist() for words, place in ABSOLUTE} == {
        "key's own position": [[0, 1, 4]],
        "query's own position": [[5], [7]],
        "key's position relative to the first query": [[-5, -4, -1]],
        "query's position relative to the first query": [[0], [2]],
    }


def test_terms_that_are_scaled_twice_need_no_queries():
    """The position-position term of Transformer-XL has none."""
    run = SimpleNamespace(budget=128.0, coarse="float32")
    twice = {"content-content": 1.0, "position-position": 8**-0.5}
    ((code, text, _, remedy),) = of_terms(run, twice, 8**-0.5, 8)
    assert (code, text) == (
        "score-term", "the term position-position is multiplied by 0.353553 = 1/sqrt(8)",
    )  # fmt: skip
    assert remedy == (
        "Multiply the term position-position by the scale 0.353553 = 1/sqrt(8) one time less."
    )
