"""KERPLE: kernelised relative biases, logarithmic and power."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._namespace import Array, device_of, from_host, namespace
from ._text import shown
from .accuracy import Truth
from .bias import Bias
from .limits import FACTOR
from .schedules.scaling import real_tuple


@dataclass(frozen=True, eq=False, repr=False)
class Kerple(Bias):
    """Kernelised relative positional bias.

    Formula
        ``b_h(i, j) = -r1_h log(1 + r2_h |i - j|)`` (``form="log"``), or
        ``-r1_h |i - j| ** r2_h`` (``form="power"``), added to ``q . k / sqrt(d)``.
    Source
        Chi et al. 2022, *KERPLE*, arXiv:2205.09921, equations (4) and (5), one pair of parameters
        for each head.
    Traps
        Both parameters are positive, and r2 is at most 2 in the power form; the code clamps them to
        at least 0.01.  With form="power" and r2 = 1 this is ALiBi with slopes r1.
    Error unit (see :mod:`posenc_ref.accuracy`)
        Log form: A = ``r1 + |b|``, where r1 allows for rounding inside the logarithm.  Power form:
        A = ``|b| (1 + r2 log |i - j|)``.  B = 0 in both.

    Parameters
    ----------
    r1, r2 : sequence of float, or array of shape (H,)
    form : {"log", "power"}
    causal : bool
        True: queries attend only to keys j <= i, as in the paper.
    """

    r1: Sequence[float]
    r2: Sequence[float]
    _: KW_ONLY
    form: str = "log"
    causal: bool = True

    holds = frozenset({"symmetric", "zero-at-own", "decay"})

    def __post_init__(self) -> None:
        r1, r2 = (
            real_tuple(name, getattr(self, name), above=0.0, maximum=FACTOR)
            for name in ("r1", "r2")
        )
        if len(r1) != len(r2):
            raise ValueError(
                f"r1 and r2 must have one number for each head, got {len(r1)} and {len(r2)}"
            )
        form = validate.choice("form", self.form, ("log", "power"))
        if form == "power" and max(r2) > 2:
            raise ValueError(f"r2 must be at most 2 where form is 'power', got {shown(max(r2))}")
        self._set(r1=r1, r2=r2, form=form, causal=validate.boolean("causal", self.causal))

    @property
    def num_heads(self) -> int:  # type: ignore[override]
        """Number of heads H, the number of pairs r1, r2."""
        return len(self.r1)

    @property
    def sees_future(self) -> bool:
        """Whether queries attend to later keys; False for a causal bias."""
        return not self.causal

    def _of_offset(self, offset: Array) -> Array:
        xp: Any = namespace(offset)
        r1, r2 = (
            from_host(np.array(r)[:, None, None], xp, device_of(offset)) for r in (self.r1, self.r2)
        )
        distance = xp.abs(xp.expand_dims(offset, axis=-3))
        if self.form == "log":
            return -r1 * xp.log1p(r2 * distance)
        return -r1 * distance**r2

    def _truth_of(self, offsets: np.ndarray) -> Truth:
        plain = super()._truth_of(offsets)
        size = np.abs(plain.value)
        r1, r2 = (np.array(r)[:, None] for r in (self.r1, self.r2))
        if self.form == "log":
            return Truth(plain.value, r1 + size, plain.angle)
        log = np.abs(np.log(np.maximum(np.abs(offsets), 1)))
        return Truth(plain.value, size * (1 + r2 * log), plain.angle)
