"""The second route to the truth of every surface: the specification's own decimal arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from posenc_ref.conformance.exact import DIGITS, mpmath

from . import exact_schedules
from . import second_rotary as rotary

Array = Any
Inputs = Mapping[str, Any]


def values(surface: str, encoding: Any, inputs: Inputs) -> dict[str, Array]:
    """The value of every output of a case, as object arrays of decimals, or integers."""
    return ROUTES[surface](encoding, inputs)


def magnitude(e: Any, seq_len: int | None) -> Decimal:
    """m with all its digits.

    The specification has it in float64, correctly rounded: that must be what 50 digits round to.
    """
    mp = mpmath().mp
    with mp.workdps(DIGITS):
        scaling = getattr(e, "scaling", None)
        m = exact_schedules.magnitude(scaling and scaling.to_dict(), seq_len)
        if float(m) != e.attention_factor(seq_len):
            raise ValueError(f"{e!r} has m = {e.attention_factor(seq_len)!r}, 50 digits {m}")
        return Decimal(mp.nstr(m, DIGITS))


def _apply(e: Any, i: Inputs, **how: Any) -> dict[str, Array]:
    m = magnitude(e, rotary.call_length(e, i["positions"]))
    return {"y": rotary.rotate(e, i["x"], i["positions"], m, **how)}


def _cos_sin(e: Any, i: Inputs) -> dict[str, Array]:
    m = magnitude(e, rotary.call_length(e, i["positions"]))
    return dict(zip(("cos", "sin"), rotary.cos_sin(e, i["positions"], m), strict=True))


def _frequencies(e: Any, i: Inputs) -> dict[str, Array]:
    seq_len = i.get("seq_len")
    return {
        "frequencies": np.array(e.decimal_frequencies(seq_len), dtype=object),
        "attention_factor": np.array(magnitude(e, seq_len), dtype=object),
    }


ROUTES: dict[str, Callable[[Any, Inputs], dict[str, Array]]] = {
    "apply": _apply,
    "cos_sin": _cos_sin,
    "frequencies": _frequencies,
}
