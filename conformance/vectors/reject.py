"""Whether a vector rejects a function: what ``kills`` records of the corpus."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_ref.accuracy import budget
from posenc_ref.conformance.harness.driver import Driver

from .case import VectorCase


def rejects(
    case: VectorCase,
    fn: Callable[..., Any],
    *,
    dtype: str = "float32",
    tensor_layout: str = "bhsd",
    angles: str | None = None,
    precision: str | None = None,
) -> bool:
    """Whether the result of ``fn`` is over the budget, or ``fn`` refuses what it has to accept.

    The keywords say what ``fn`` declares to compute in, as for ``check``.
    """
    arguments = case.arguments(dtype)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            if tensor_layout == "bhsd":
                result = fn(*arguments)
            else:
                driver = Driver(fn, dtype=dtype, tensor_layout=tensor_layout)
                result = driver.apply(*arguments)
        except Exception:
            return case.level == "required"
        if case.level != "required" and not case.shaped(result):
            return False  # what broadcasts to another shape is refused, as a user would notice
        score = case.judge(result, dtype=dtype, angles=angles, precision=precision)
        return score > budget(dtype, precision)
