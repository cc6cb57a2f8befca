"""Predict cos and sin at every position from the few that were measured.

The angles of most functions are one product: ``position * frequency``, rounded to float32 or not,
or ``position / timescale``. Which product it is, and the exact bits of its frequencies, follow
from the angles at a few large positions. The errors at all other positions then need no calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.run import Run

from .declaration import Declaration, unit_size
from .measure import Tables, wrap
from .precision import Model, as_float32, classify, rounded

#: Positions (n,) and frequencies or timescales (..., pairs) to angles (..., n, pairs).
Angles = Callable[[np.ndarray, np.ndarray], np.ndarray]
#: The largest difference of a measured angle from its model, in roundings of cos and sin. NumPy's
#: float32 cosines have errors of up to 4 roundings.
_SLACK = 16.0
#: The uncertainty of a predicted value of cos or sin, before a half-precision result is rounded.
FINE = _SLACK * ROUNDOFF["float32"]
#: float32 neighbours of a fitted frequency that are tried on each side.
_NEIGHBOURS = 3
#: The number of angles in a block of positions.
_BLOCK = 2**17


@dataclass(frozen=True)
class RoundingModel:
    """The angles of a function at all positions, as its measured angles show."""

    angles: Angles
    parameters: np.ndarray  #: frequencies or timescales (pairs,) of the function
    measured: np.ndarray  #: the function's frequencies, radians per position
    frequencies: np.ndarray  #: declared, radians per position
    relative: np.ndarray  #: bounds the relative error of an angle, by pair
    sigma: float  #: the uncertainty of ``measured``
    dtype: str  #: the dtype of the results
    origin: float = 0.0

    @property
    def grain(self) -> float:
        """Return the largest rounding error of a half-precision result, or 0."""
        roundoff = ROUNDOFF[self.dtype]
        return roundoff / 2 if roundoff > ROUNDOFF["float32"] else 0.0

    def errors(self, positions: np.ndarray) -> np.ndarray:
        """Return the largest error of cos and sin at each position, over all pairs.

        Of a half-precision result that may be rounded up or down, it is the larger error.
        """
        at = np.asarray(positions + self.origin, dtype=np.float64)
        exact, angle = at[:, None] * self.frequencies, self.angles(at, self.parameters)
        return np.asarray(self._errors(exact, angle).max(axis=1, initial=0.0))

    def _errors(self, exact: np.ndarray, angle: np.ndarray) -> np.ndarray:
        """Return the error of cos or sin, the larger one, of each angle."""
        worst = np.zeros(exact.shape)
        for f in (np.cos, np.sin):
            value, true = f(angle), f(exact)
            for step in (-FINE, FINE) if self.grain else (0.0,):
                worst = np.maximum(worst, np.abs(rounded(value + step, self.dtype) - true))
        return worst

    def over(self, least: float, highest: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield positions up to ``highest`` with an error above ``least``, and their errors.

        Cos and sin are computed only where the error of an angle is large enough for that.
        """
        large = least - self.grain - FINE
        slope = self.relative * self.frequencies
        if large <= 0 or not slope.any():
            return
        begin = max(int(large / slope.max() - abs(self.origin)), 0)
        size = max(_BLOCK // self.frequencies.size, 1)
        for start in range(begin, highest + 1, size):
            positions = np.arange(start, min(start + size, highest + 1))
            live = slope * (positions[-1] + abs(self.origin)) > large
            at = np.asarray(positions + self.origin, dtype=np.float64)
            exact = at[:, None] * self.frequencies[live]
            angle = self.angles(at, self.parameters[live])
            far = np.abs(angle - exact) > large
            worst = np.zeros(positions.size)
            np.maximum.at(worst, np.nonzero(far)[0], self._errors(exact[far], angle[far]))
            if (worst > least).any():
                yield positions[worst > least], worst[worst > least]


def fit(
    positions: np.ndarray,
    cos: np.ndarray,
    sin: np.ndarray,
    frequencies: np.ndarray,
    dtype: str,
    origin: float = 0.0,
    factor: float = 1.0,
    known: Model | None = None,
) -> RoundingModel | None:
    """Return the model that gives every measured angle, or None if there is none.

    Parameters
    ----------
    positions : array (n,)
        The measured positions, from small to large.
    cos, sin : array (n, pairs)
        The function's results, with amplitude 1.
    frequencies : array (pairs,)
        The declared frequencies, radians per position.
    dtype : str
        The dtype of the results.
    origin : float
        Is added to every position.
    factor : float
        The declared position interpolation: a function may divide positions or frequencies by it.
    known : Model, optional
        The precision class. Its angles are used if its pi is wrong.
    """
    if not frequencies.size or not (np.isfinite(cos).all() and np.isfinite(sin).all()):
        return None
    at, actual, slack = positions + np.float64(origin), np.arctan2(sin, cos), _slack(dtype)

    def model(
        angles: Angles, parameters: np.ndarray, measured: np.ndarray, more: float
    ) -> RoundingModel:
        relative = np.abs(measured / frequencies - 1) + more
        sigma = slack / max(float(np.abs(at).max(initial=0.0)), 1.0)
        return RoundingModel(
            angles, parameters, measured, frequencies, relative, sigma, dtype, origin
        )

    if known is not None and known.slip:
        fits = _misfit(known.angles(at, frequencies), actual).max() <= slack
        return model(known.angles, frequencies, frequencies, known.slip) if fits else None
    fitted = fitted_frequencies(at, actual, frequencies)
    if not (np.abs(fitted / frequencies - 1) < 0.5).all():
        return None
    if _misfit(_product(at, fitted), actual).max() <= slack:
        return model(_product, fitted, fitted, 0.0)
    for angles, candidates, scale, power in _forms(fitted, factor):
        misfit = _misfit(angles(at, candidates), actual).max(axis=-2)
        if misfit.min(axis=0).max() <= slack:
            best = candidates[np.argmin(misfit, axis=0), 0, np.arange(frequencies.size)]
            return model(angles, best, best**power / scale, 3 * ROUNDOFF["float32"])
    return None


def _slack(dtype: str) -> float:
    # A half-precision cosine is rounded once; more slack would hide the roundings of the angle.
    return max(_SLACK * ROUNDOFF["float32"], 4 * ROUNDOFF[dtype])


def _forms(w: np.ndarray, factor: float) -> Iterator[tuple[Angles, np.ndarray, float, int]]:
    """Yield float32 products, candidates (candidates, 1, pairs) of their numbers, scale, power.

    The frequency is the number to this power, divided by the scale.
    """
    yield _float32_product, _neighbours(w), 1.0, 1
    yield _float32_quotient, _neighbours(1 / w), 1.0, -1
    if factor != 1.0:
        inverse = float(np.float32(1 / factor))
        small: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
            lambda p: p / factor,
            lambda p: p * inverse,
        )
        for divided in small:

            def angles(p: np.ndarray, v: np.ndarray, divided: Any = divided) -> np.ndarray:
                return _float32_product(rounded(divided(p), "float32"), v)

            yield angles, _neighbours(w * factor), factor, 1


def _product(p: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.asarray(p[:, None] * w)


def _float32_product(p: np.ndarray, w: np.ndarray) -> np.ndarray:
    return rounded(p[:, None] * w, "float32")


def _float32_quotient(p: np.ndarray, timescales: np.ndarray) -> np.ndarray:
    return rounded(p[:, None] / timescales, "float32")


def _neighbours(w: np.ndarray) -> np.ndarray:
    """Return the float32 numbers next to each number, as float64 (candidates, 1, pairs)."""
    middle = w.astype(np.float32)
    steps = np.arange(-_NEIGHBOURS, _NEIGHBOURS + 1)[:, None, None]
    return np.asarray(middle + steps * np.spacing(middle).astype(np.float64))


def _misfit(angles: np.ndarray, actual: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(wrap(angles - actual)))


def fitted_frequencies(positions: np.ndarray, actual: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the frequencies that give the angles, but for the roundings of single angles.

    Each position refines the frequencies enough to know the whole turns at the next one.
    """
    for p, angle in zip(positions, actual, strict=True):
        if p:
            w = w + wrap(angle - p * w) / p
    return w


@dataclass(frozen=True)
class FirstVisible:
    """A position with a visible error, or None if no asked position has one."""

    position: int | None
    first: bool  #: whether no smaller position has one; for None, whether no position has one


@dataclass(frozen=True)
class Telling:
    """Cos and sin at the positions that tell the precision of the angles."""

    run: Run
    tables: Tables
    declared: Declaration
    positions: np.ndarray

    @cached_property
    def cos_sin(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the function's values (positions, pairs), with amplitude 1."""
        return unit_size(self.tables, self.positions, self.declared)

    @property
    def frequencies(self) -> np.ndarray:
        """Return the declared frequencies in this call."""
        return self.declared.frequencies_in(self.positions)

    @cached_property
    def model(self) -> Model | None:
        """Return the precision class of the values."""
        origin = self.declared.origin
        return classify(self.positions, *self.cos_sin, self.frequencies, self.run.dtype, origin)

    @property
    def precision(self) -> str:
        """Return the name of the precision class, or of two that these positions do not tell apart.

        Half-precision results cannot tell them apart either.
        """
        if self.model is None or self.model.name != "float64 angles":
            return self.model.name if self.model else ""
        origin, coarse = self.declared.origin, ROUNDOFF[self.run.coarse] > ROUNDOFF["float32"]
        seen = (self.positions, *self.cos_sin, self.frequencies, self.run.dtype, origin)
        return "float32 angles or better" if coarse or as_float32(*seen) else self.model.name

    @cached_property
    def angles(self) -> RoundingModel | None:
        """Return a model of the angles at all positions."""
        if self.declared.by_length is not None:
            return None  # other calls have other frequencies
        origin, factor = self.declared.origin, self.declared.schedule.factor
        return fit(
            self.positions, *self.cos_sin, self.frequencies, self.run.dtype, origin, factor,
            known=self.model,
        )  # fmt: skip
