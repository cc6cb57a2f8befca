"""How an implementation holds its angles, named by recomputing models of it.

A model predicts cos and sin at given positions; the one that meets the function's own values to
rounding gives the class its name.  The size of an error never does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posenc_ref.accuracy import BUDGET, ROUNDOFF, TINY
from posenc_ref.angles import ERROR_BOUND

from .frequencies import half_precision

_HALF = ("bfloat16", "float16")


@dataclass(frozen=True)
class Model:
    """One way to compute cos and sin of ``positions * frequencies``."""

    code: str  #: the finding it raises, or an empty string for accepted practice
    name: str
    angles: Callable[[np.ndarray, np.ndarray], np.ndarray]
    table: str | None = None  #: the format cos and sin are rounded to
    exact: bool = False  #: whether it is float64 throughout, so that meeting it decides

    def cos_sin(self, positions: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """cos and sin as this model has them, (positions, pairs)."""
        angle = self.angles(positions.astype(np.float64), w)
        with np.errstate(invalid="ignore"):  # float16 positions overflow
            cos, sin = np.cos(angle), np.sin(angle)
        if self.table:
            cos, sin = rounded(cos, self.table), rounded(sin, self.table)
        return cos, sin


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """``values`` rounded to ``dtype``, as float64."""
    if dtype == "float64":
        return values
    if dtype == "float32":
        return np.asarray(values.astype(np.float32).astype(np.float64))
    return dict(half_precision(values))[dtype]


def _product(p: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.asarray(p[:, None] * w)


def models() -> list[Model]:
    """Every model, accepted practice first."""
    found = [
        Model("", "float64 angles", _product, exact=True),
        *(
            Model(
                "range-reduction",
                f"angles reduced with pi = {digits}",
                lambda p, w, digits=digits: np.fmod(_product(p, w), 2 * float(digits)),  # type: ignore[misc]
                exact=True,
            )
            for digits in ("3.14", "3.1416", "3.14159", "3.141593")
        ),
        Model(
            "",
            "float32 angles",
            lambda p, w: rounded(_product(p, rounded(w, "float32")), "float32"),
        ),
    ]
    for half in _HALF:
        found += [
            Model(
                "position-precision",
                f"positions in {half}",
                lambda p, w, half=half: _product(rounded(p, half), w),  # type: ignore[misc]
            ),
            Model(
                "angle-precision",
                f"frequencies in {half}",
                lambda p, w, half=half: _product(p, rounded(w, half)),  # type: ignore[misc]
            ),
            Model(
                "angle-precision",
                f"timescales in {half}",
                lambda p, w, half=half: _product(p, 1 / rounded(1 / w, half)),  # type: ignore[misc]
            ),
            Model(
                "angle-precision",
                f"angles in {half}",
                lambda p, w, half=half: rounded(_product(p, w), half),  # type: ignore[misc]
            ),
            Model(
                "angle-precision",
                f"positions and frequencies in {half}",
                lambda p, w, half=half: _product(rounded(p, half), rounded(w, half)),  # type: ignore[misc]
            ),
            Model(
                "angle-precision",
                f"positions, frequencies and angles in {half}",
                lambda p, w, half=half: rounded(  # type: ignore[misc]
                    _product(rounded(p, half), rounded(w, half)), half
                ),
            ),
            Model(
                "angle-precision",
                f"frequencies and angles in {half}",
                lambda p, w, half=half: rounded(_product(p, rounded(w, half)), half),  # type: ignore[misc]
            ),
            Model(
                "table-precision",
                f"cos and sin tables in {half}",
                _product,
                table=half,
            ),
        ]
    return found


def classify(
    positions: np.ndarray,
    cos: np.ndarray,
    sin: np.ndarray,
    frequencies: np.ndarray,
    dtype: str,
    origin: float = 0.0,
) -> Model | None:
    """The model whose cos and sin meet the function's at every position; None if none does.

    ``cos`` and ``sin`` (positions, pairs) are the function's own, of amplitude 1, in ``dtype``.
    Accepted practice is tried first; among half-precision models the nearest is taken, if it is
    near enough.
    """
    best: tuple[float, Model] | None = None
    positions = positions + origin
    for model in models():
        c, s = model.cos_sin(positions, frequencies)
        worst = _misfit(positions, (cos, sin), (c, s), frequencies, dtype, model)
        if worst > BUDGET[dtype]:
            continue
        if not model.code or model.exact:
            return model
        if best is None or worst < best[0]:
            best = worst, model
    return best[1] if best else None


def _misfit(
    positions: np.ndarray,
    actual: tuple[np.ndarray, np.ndarray],
    predicted: tuple[np.ndarray, np.ndarray],
    w: np.ndarray,
    dtype: str,
    model: Model,
) -> float:
    """The worst score against a model: its own roundings are in it, float32 ones are allowed."""
    if model.table:
        return _table_misfit(actual, positions, w, model.table)
    # Coarse angles usually go with cos and sin of that format.
    for half in ("float32", *_HALF) if model.code and not model.exact else ("float32",):
        if all(np.array_equal(rounded(a, half), a, equal_nan=True) for a in actual):
            dtype = max((dtype, half), key=lambda name: ROUNDOFF[name])
    angle = np.abs(_product(positions.astype(np.float64), w))
    grain = ERROR_BOUND if model.exact else ROUNDOFF["float32"] * angle
    worst = 0.0
    for a, p in zip(actual, predicted, strict=True):
        # One more rounding of a half-precision quantity may go the other way at a tie.
        floor = max(TINY[dtype], ROUNDOFF["float32"])
        unit = ROUNDOFF[dtype] * np.maximum(np.abs(p), floor) + grain
        off = np.where(np.isnan(a) & np.isnan(p), 0.0, np.abs(a - p) / unit)  # both overflowed
        worst = max(worst, float(np.max(np.where(np.isnan(off), np.inf, off), initial=0.0)))
    return worst


def _table_misfit(
    actual: tuple[np.ndarray, np.ndarray], positions: np.ndarray, w: np.ndarray, half: str
) -> float:
    """Values that are numbers of the half-precision format, and near the true ones for it.

    They are not recomputed: a float32 angle may fall on the other side of a tie.
    """
    angle = _product(positions.astype(np.float64), w)
    worst = 0.0
    for a, t in zip(actual, (np.cos(angle), np.sin(angle)), strict=True):
        if not np.array_equal(rounded(a, half), a):
            return np.inf
        unit = ROUNDOFF[half] * np.maximum(np.abs(t), ROUNDOFF[half])
        off = np.abs(a - t) / (unit + ROUNDOFF["float32"] * np.abs(angle))
        worst = max(worst, float(np.max(np.where(np.isnan(off), np.inf, off), initial=0.0)))
    return worst if worst <= BUDGET[half] else np.inf
