"""The precision of angles, measured in one call at a few large positions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from posenc_ref.conformance.harness.run import Run

from .declaration import Declaration, unit_size
from .measure import Tables
from .precision import Model, classify
from .rounding_model import RoundingModel, fit


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
