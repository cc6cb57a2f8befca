"""A row of the certificate, and the dtypes that it has rows for."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from posenc_ref.accuracy import ROUNDOFF, budget


@dataclass(frozen=True)
class Row:
    """The worst of one encoding in one dtype over one range of positions."""

    encoding: str
    dtype: str
    positions: str
    elements: int
    error: float  #: largest absolute error
    score: float  #: largest score in the unit of `posenc_ref.accuracy`, ``angles="exact"``
    claimed: float | None = None  #: the largest absolute error that is certified, if one is

    @property
    def passed(self) -> bool:
        """Whether the score is within the budget and the error within the claim."""
        certified = self.claimed is None or self.error <= self.claimed
        limit = 0.0 if self.dtype not in ROUNDOFF else budget(self.dtype)
        return certified and self.score <= limit


def dtypes() -> list[str]:
    """The floating dtypes of NumPy here, bfloat16 where ml_dtypes is installed."""
    names = ["float64", "float32", "float16"]
    if importlib.util.find_spec("ml_dtypes"):
        import ml_dtypes  # noqa: F401  (registers bfloat16)

        names.append("bfloat16")
    return names
