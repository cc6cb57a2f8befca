"""Whether a vector rejects a function: what ``kills`` records of the corpus."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_ref.accuracy import budget
from posenc_ref.conformance.subject import Subject

from .case import VectorCase


def rejects(
    case: VectorCase,
    fn: Callable[..., Any],
    *,
    dtype: str = "float32",
    tensor_layout: str = "bhsd",
    precision: str | None = None,
) -> bool:
    """Whether the result of ``fn`` is over the budget, or ``fn`` refuses what it has to accept.

    ``dtype`` and ``precision`` are what it declares to compute in, whatever dtype it returns.
    """
    arguments = case.arguments(dtype)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            if tensor_layout == "bhsd":
                result = fn(*arguments)
            else:
                subject = Subject(fn, dtype=dtype, tensor_layout=tensor_layout)
                result = subject.apply(*arguments)
        except Exception:
            return not case.refusable
        return case.judge(result, dtype=dtype, precision=precision) > budget(dtype, precision)
