"""The sinusoids of PatchTST: a whole table standardised to mean 0 and a given deviation."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from . import _validate as validate
from ._cached import cached_property
from ._namespace import Array, Namespace
from ._positions import Positions
from .accuracy import Truth
from .limits import DIVISOR
from .sinusoidal import Sinusoidal
from .table import ComputedTable


@dataclass(frozen=True, eq=False, repr=False)
class StandardizedSinusoidal(ComputedTable):
    """Sinusoidal table minus its mean, divided by a multiple of its standard deviation.

    Formula
        ``PE(p) = (S(p) - mean) / (divisor std)``; S is ``Sinusoidal(dim)``, interleaved.  mean and
        std are taken over all n elements of S(0) .. S(length - 1); std divides by n - 1.
    Source
        The code of Nie et al. 2022, *PatchTST*, arXiv:2211.14730 (``PositionalEncoding``,
        ``pe="sincos"``, ``normalize=True``); transformers: PatchTST and PatchTSMixer
        (``positional_encoding_type="sincos"``).  The paper says that positions are learned.  In the
        code, the tables of all other settings ("zeros", "normal", "uniform", "random") are learned;
        the settings differ in the initial values.
    Traps
        All rows change with the number of patches. PatchTST's [CLS] counts as a patch.
        ``torch.std`` divides by n - 1, ``numpy.std`` by n.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``(|S(p)| + mean of |S|) / (divisor std)``, B = ``(|angle| + mean of |angle|) / (divisor
        std)``; std is treated as exact.

    Parameters
    ----------
    dim : int
        The number of columns, even.
    length : int
        The number of rows over which mean and std are taken.
    divisor : float
        As in the formula.  The default 10 makes the rows small compared with the embeddings.
    base : float
    """

    dim: int
    length: int
    _: KW_ONLY
    divisor: float = 10.0
    base: float = 10000.0

    def __post_init__(self) -> None:
        plain = Sinusoidal(self.dim, base=self.base)
        self._set(
            dim=plain.dim,
            length=validate.integer("length", self.length, minimum=1),
            divisor=validate.real("divisor", self.divisor, above=0.0, minimum=DIVISOR),
            base=plain.base,
        )

    @cached_property
    def _plain(self) -> Sinusoidal:
        return Sinusoidal(self.dim, base=self.base)

    @cached_property
    def _moments(self) -> tuple[float, float]:
        """Return the mean, and ``divisor`` times std."""
        table = self._plain.table(range(self.length))
        return float(table.mean()), self.divisor * float(table.std(ddof=1))

    def truth(self, positions: Any) -> Truth:
        """Return ``table`` with the coefficients A and B of its rounding error."""
        plain, (mean, by) = self._plain.truth(positions), self._moments
        every = self._plain.truth(range(self.length))
        return Truth(
            (plain.value - mean) / by,
            (plain.terms + every.terms.mean()) / by,
            (plain.angle + every.angle.mean()) / by,
            (plain.amplitude + every.amplitude.mean()) / by,
        )

    def _positions(self, positions: Any, x: Array | None = None) -> Positions:
        return self._plain._positions(positions, x)

    def _rows(self, p: Positions, xp: Namespace, device: Any) -> Array:
        mean, by = self._moments
        return (self._plain._rows(p, xp, device) - mean) / by
