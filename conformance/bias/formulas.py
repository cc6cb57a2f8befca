"""The formulas of biases, written in steps that a wrong implementation may compute differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref import (
    FIRE,
    ALiBi,
    BEiTBias,
    Bias,
    ChainBias,
    ConViTBias,
    DynamicBias,
    DynamicWindowBias,
    ForgettingBias,
    Kerple,
    LeViTBias,
    LogCPB,
    ResidueBias,
    Sandwich,
    SwinBias,
    T5Bias,
)
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.offset_sizes import Sizes
from posenc_ref.conformance.diagnosis.steps import (
    Change,
    Steps,
    changes,
    computed,
    plain_steps,
)

from . import distance_formulas, network_formula, residue_formulas, window_formulas

#: Returns the bias (H, Q, K), given the encoding, the positions (Q, 1) and (1, K), and the steps.
Formula = Callable[[Any, np.ndarray, np.ndarray, Steps], np.ndarray]
#: Returns the bias of query positions (Q,) and key positions (K,).
Values = Callable[[np.ndarray, np.ndarray], Truth]
#: The most pairs of a query and a key of a call whose declared bias is kept.
_KEPT = 2**16


def formula_of(declared: Bias) -> Formula | None:
    """Return the formula of the class of a bias, or None if there is none here."""
    return next((of for form, of in _FORMS if isinstance(declared, form)), None)


def step_changes(
    declared: Bias,
    sizes: Sizes = Sizes(),  # noqa: B008 (immutable)
) -> Iterator[tuple[str, str, str, Values]]:
    """Yield the code, message, remedy and values (q, k) of every changed step of the formula.

    ``sizes`` are those of the bounds and tiles that offsets may have.
    """
    if formula_of(declared) is None:
        return
    sizes, truth = sizes_in(declared, sizes), truth_of(declared)
    for code, message, remedy, change in changes(plain_of(declared, sizes)):
        yield code, message, remedy, changed(declared, change, sizes=sizes, truth=truth)


def truth_of(declared: Bias) -> Values:
    """Return a function for the declared bias, which keeps those of small calls."""
    known: dict[tuple[bytes, bytes], Truth] = {}

    def truth(q: np.ndarray, k: np.ndarray) -> Truth:
        if q.size * k.size > _KEPT:
            return declared.truth(q, k)
        key = q.tobytes(), k.tobytes()
        if key not in known:
            known[key] = declared.truth(q, k)
        return known[key]

    return truth


def sizes_in(declared: Bias, sizes: Sizes) -> Sizes:
    """Return the sizes of the bounds and tiles that offsets in a window have, else ``sizes``."""
    window = getattr(declared, "window", None)
    if window is None:
        return sizes
    return Sizes(tuple(range(1, max(window) - 1)), (2,))  # rows and columns are few


def plain_of(
    declared: Bias,
    sizes: Sizes = Sizes(),  # noqa: B008 (immutable)
) -> Steps:
    """Return the steps of the unchanged formula of a bias, which has one."""
    at = np.arange(getattr(declared, "tokens", None) or 4)
    return plain_steps(_steps(declared, at, at), sizes)


def changed(
    declared: Bias,
    *made: Change,
    sizes: Sizes = Sizes(),  # noqa: B008 (immutable)
    truth: Values | None = None,
) -> Values:
    """Return the bias of positions (q, k) by the formula with changes.

    ``truth`` returns the bias without changes.
    """
    of_declared = truth or declared.truth

    def values(q: np.ndarray, k: np.ndarray) -> Truth:
        truth = of_declared(q, k)
        value = computed(_steps(declared, q, k), *made, sizes=sizes)
        value = np.broadcast_to(value, truth.value.shape)
        return Truth(value, np.maximum(truth.terms, np.abs(value)), truth.angle)

    return values


def _steps(declared: Bias, q: np.ndarray, k: np.ndarray) -> Callable[[Steps], np.ndarray]:
    formula = formula_of(declared)
    assert formula is not None
    return lambda s: s.real("the bias", formula(declared, q[:, None], k[None, :], s))


_FORMS: tuple[tuple[type[Bias], Formula], ...] = (
    (Kerple, distance_formulas.kerple),
    (Sandwich, distance_formulas.sandwich),
    (FIRE, distance_formulas.fire),
    (SwinBias, window_formulas.swin),
    (BEiTBias, window_formulas.beit),
    (LeViTBias, window_formulas.levit),
    (LogCPB, window_formulas.log_cpb),
    (DynamicBias, network_formula.dynamic),
    (DynamicWindowBias, window_formulas.dynamic_window),
    (ForgettingBias, distance_formulas.forgetting),
    (ConViTBias, window_formulas.convit),
    (ResidueBias, residue_formulas.residue),
    (ChainBias, residue_formulas.chains),
    (T5Bias, distance_formulas.t5),
    (ALiBi, distance_formulas.alibi),
)
