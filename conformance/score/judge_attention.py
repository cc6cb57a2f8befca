"""Judge ``attention``: outputs of queries, keys and values, in short and long calls, and state.

The error unit is that of :class:`posenc_ref.Attention`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import Bias, Rotary, Score
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.functions.function import Arguments, Plain
from posenc_ref.conformance.functions.judge import judge as judge_function
from posenc_ref.conformance.harness.probes import dense
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.attention import (
    attended,
    attention_of,
    most_tokens,
    whole_tokens,
)

from .attention_mistakes import attention_mistakes

#: (B, heads, query heads of each key head, Q, K, first position); required without groups.
CALLS = (
    (2, 3, 1, 5, 5, 0), (3, 2, 1, 4, 4, 0), (1, 4, 1, 2, 2, 0),
    (1, 3, 1, 1, 7, 0), (2, 2, 1, 3, 11, 0), (2, 6, 2, 5, 5, 0), (1, 8, 4, 1, 9, 0),
    (1, 4, 4, 6, 6, 0), (1, 2, 1, 6, 6, 1000), (2, 4, 2, 3, 8, 4093), (1, 1, 1, 33, 33, 0),
    (1, 2, 2, 2, 130, 0),
)  # fmt: skip
_REQUIRED = 3
#: Channels of a head if the encoding does not define them.
_DIM = 64


def _calls(declared: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    of = attention_of(declared)
    e: Any = of.encoding
    d = getattr(e, "head_dim", None) or _DIM
    fixed = e.num_heads if isinstance(e, Bias) else e.heads if isinstance(e, Score) else None
    axes = e.num_axes if isinstance(e, Rotary) else 1
    most, whole = most_tokens(e), whole_tokens(e)
    for i, (b, h, group, n_q, n_k, start) in enumerate(CALLS):
        if most is not None and start:
            continue
        n_k = whole or min(n_k, most or n_k)
        n_q = whole or min(n_q, n_k)
        if of.values == "shared":
            group = h  # one tensor is all keys and values
        if fixed is not None:
            group = group if fixed % group == 0 else fixed
            h = fixed
        q, k, v = (
            dense((b, heads, n, d), seed + 90 + 3 * i + j)
            for j, (heads, n) in enumerate(((h, n_q), (h // group, n_k), (h // group, n_k)))
        )
        at = start + np.arange(n_k)
        if axes > 1:
            at = (at + 2 * np.arange(axes)[:, None, None]) * np.ones((1, b, 1), np.int64)
        arguments = [q, k, k.copy() if of.values == "shared" else v, at[..., n_k - n_q :], at]
        if of.sinks:
            arguments.append(1.5 * dense((h,), seed + 80 + i))
        name = f"B, H, H_kv, Q, K = {b}, {h}, {h // group}, {n_q}, {n_k}"
        name += f", positions from {start}" * bool(start)
        yield Arguments(name, tuple(arguments), i < _REQUIRED)


def _truth(declared: Any, arguments: tuple[Any, ...], value: np.ndarray) -> Truth:
    truth = attended(declared, *arguments).truth()
    assert truth is not None
    return Truth(value, truth.terms, truth.angle)


def _remedy(declared: Any) -> str:
    of = attention_of(declared)
    if of.values == "plain":
        return "Compute softmax(logits) v for each head, with the declared logits."
    return (
        "Rotate queries, keys and values to their positions, compute softmax(logits) v, and rotate "
        "the output back by the positions of the queries."
    )


ROW = Plain(_calls, attention_mistakes, "inaccurate", integers=False, truth=_truth, remedy=_remedy)


def judge(run: Run) -> None:
    """Judge ``fn(q, k, v, q_positions, k_positions)``, with the sinks if they are declared."""
    judge_function(run, ROW)
