"""The measured accuracy of an implementation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from posenc_ref._text import one_line

#: The place of the largest error where no value was compared.
NOTHING = "no case judged"
#: The beginning of the place of the largest error where logits were compared instead of tensors.
OF_LOGITS = "logits"
#: The rounding of 1.0 in half precision.
_HALF = {"bfloat16": "2**-8", "float16": "2**-11"}


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of an implementation at the positions it accepts.

    Attributes
    ----------
    worst : float
        The largest error, in units of the tolerance.
    budget : float
        The largest error that passes, in units of the tolerance.
    where : str
        The case and the index of the largest error.
    precision : str
        Precision class of the angles, e.g. "float32 angles".
    errors : dict[int, float]
        The absolute error at the end of a context, by context length.
    degrades_at : int, optional
        The first position with an error over 2**-9 (plus the rounding of bfloat16 and float16
        results), if ``degrades_first``; else the first one is this or a smaller one. None if no
        position that was tried has such an error.
    highest : int
        The highest position judged.
    degrades_first : bool
        Whether no smaller position has such an error: every one was tried, or a model of the
        angles predicts it and agrees with all calls. For None, whether no position has one.
    """

    worst: float = 0.0
    budget: float = 0.0
    where: str = ""
    precision: str = ""
    errors: dict[int, float] = field(default_factory=dict)
    degrades_at: int | None = None
    highest: int = 0
    degrades_first: bool = False

    def __post_init__(self) -> None:
        for name in ("where", "precision"):
            object.__setattr__(self, name, one_line(getattr(self, name)))

    def lines(
        self, dtype: str = "", *, integers: bool = False, several_axes: bool = False
    ) -> list[str]:
        """Return the lines of a report about results of ``dtype``, or about integers."""
        score = f"{self.worst:.3g} {'unit' if self.worst == 1 else 'units'}"
        lines = [f"accuracy  worst {score} (budget {self.budget:g}), {self.where}"]
        if math.isinf(self.worst):
            exact = "not finite, or unequal where no rounding is allowed"
            why = "integers must be equal" if integers else exact
            lines = [f"accuracy  not in units: {why}, {self.where}"]
        if self.where == NOTHING:
            lines = ["accuracy  not measured: no value was judged"]
        if self.precision:
            lines.append(f"precision {self.precision}")
        if self.errors:
            errors = ", ".join(f"{short_length(p)}: {e:.1e}" for p, e in self.errors.items())
            tensors = self.where.startswith(OF_LOGITS)
            what = "of tensors, from the convention in the note" if tensors else "absolute"
            what += ", with equal positions on every axis" if several_axes else ""
            lines.append(f"errors    {what}, at the end of a context of {errors}")
            if self.degrades_at is not None and not tensors:
                lines.append(
                    f"          {first_error(self.degrades_at, self.degrades_first, dtype)}"
                )
        short = "" if self.highest >= 1024 else "; a pass below 1024 says little about long context"
        if self.highest:
            lines.append(f"judged    up to position {self.highest}{short}")
        return lines


def first_error(position: int, first: bool, dtype: str = "") -> str:
    """Return where an error exceeds 2**-9 first, or by where it has exceeded it.

    Results of a half-precision ``dtype`` have a rounding error everywhere, which is added to 2**-9.
    """
    over = "2**-9"
    if dtype in _HALF:
        over += f" + {_HALF[dtype]} (the rounding of {dtype})"
    return f"first error over {over} {'' if first else 'no later than '}at position {position}"


def short_length(position: int) -> str:
    """Return a number of positions in units of 2**10 or 2**20 if it is a multiple of one."""
    for size, unit in ((2**20, "Mi"), (2**10, "Ki")):
        if position >= size and position % size == 0:
            return f"{position // size}{unit}"
    return str(position)
