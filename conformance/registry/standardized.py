"""The standardised sinusoids of PatchTST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc_ref import Sinusoidal, StandardizedSinusoidal
from posenc_ref.conformance.exact.error_numbers import Counted, root, total

from . import register
from .image_tables import sinusoidal


@register(
    StandardizedSinusoidal,
    spec="Nie et al. 2022, PatchTST, arXiv:2211.14730; its code, PositionalEncoding",
    examples={
        "patchtst-8-of-7": StandardizedSinusoidal(8, 7),
        "patchtst-6-of-12": StandardizedSinusoidal(6, 12, divisor=2.0, base=100.0),
    },
)
def standardized(e: StandardizedSinusoidal, p: Any) -> Sequence[Any]:
    """The row less the mean of the table, over its deviation."""
    plain = Sinusoidal(e.dim, base=e.base)
    every = [v for at in range(e.length) for v in sinusoidal(plain, Counted(at))]
    mean = total(every) / len(every)
    squares = sum((v.value - mean.value) ** 2 for v in every)
    by = e.divisor * root(squares / (len(every) - 1))
    return [(v - mean) / by for v in sinusoidal(plain, p)]
