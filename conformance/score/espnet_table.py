"""Measure the number of rows of the table of ESPnet's legacy encoding, from logits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from posenc_ref import ESPnetLegacy, Score
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake

from .term_mistakes import Summed, other

#: The longest table, and the rows that are made at once.
_LONGEST = 2**15
_AT_ONCE = 2**10


def table_length(declared: Score, seen: Sequence[JudgedCall]) -> Iterator[Mistake]:
    """Yield a table of another length, which fits each query's own key in the first call.

    There R is that of position ``rows - K``.  Tables no longer than K are all alike.
    """
    one = seen[0]
    call: Summed = one.facts
    if not isinstance(declared, ESPnetLegacy) or not np.isfinite(one.actual).all():
        return
    n_q, n_k = call.q.shape[2], call.k.shape[2]
    rest = sum(t.value for name, t in call.terms().items() if not name.endswith("-position"))
    left = (one.actual - rest)[..., np.arange(n_q), np.arange(n_k - n_q, n_k)] / call.scale
    v = declared.position_bias
    x = call.q if v is None else call.q + np.asarray(v)[:, None, :]
    wide = np.matmul(x, np.asarray(declared.projection)).reshape(left.size, -1)
    misfit = np.concatenate(
        [
            np.abs(
                wide @ declared.sinusoid.table(np.arange(a, a + _AT_ONCE)).T - left.reshape(-1, 1)
            ).max(axis=0)
            for a in range(0, _LONGEST, _AT_ONCE)
        ]
    )
    rows = int(np.argmin(misfit)) + n_k
    text = f"the table has {rows} rows, declared {declared.max_len}"
    yield other("position-origin", text, declared.replace(max_len=rows))
