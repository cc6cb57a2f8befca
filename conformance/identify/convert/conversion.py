"""The steps that convert a function to another encoding, in words and as code."""

from __future__ import annotations

from dataclasses import dataclass, field

from posenc_ref.accuracy import BUDGET, ROUNDOFF

#: Frequencies or factors are equal up to this relative difference.
SLACK = BUDGET["float32"] * ROUNDOFF["float32"]
#: The arguments of the converted function, by surface.
ARGUMENTS = {
    "apply": "x, positions",
    "cos_sin": "positions",
    "table": "positions",
    "bias": "q_len, k_len",
    "scores": "q, k",
}


@dataclass
class Conversion:
    """Steps in words and the lines of ``converted``; both are empty if nothing is to be done."""

    surface: str
    steps: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)

    @property
    def code(self) -> str:
        """The code of ``converted``, with its imports."""
        if not self.body:
            return ""
        imports = ["import numpy as np"] if any("np." in line for line in self.body) else []
        if any("layout_permutation" in line for line in self.body):
            imports.append("from posenc_ref import layout_permutation")
        head = f"def converted({ARGUMENTS[self.surface]}):"
        return "\n".join([*imports, head, *(f"    {line}" for line in self.body)])

    def move_positions(self, ratio: float, shift: float) -> str:
        """Add steps that multiply and shift positions; return the expression to pass."""
        at = "positions"
        if ratio != 1.0:
            whole = ratio == round(ratio)
            self.steps.append(
                f"multiply positions by {ratio:.9g}" + ("" if whole else ", if it takes fractions")
            )
            at = f"{int(ratio) if whole else repr(ratio)} * {at}"
        if shift:
            text = f"add {shift:g} to positions"
            text += ", if it takes negative ones" if shift < 0 else ""
            if self.surface == "apply":
                text += "; logits do not need it: queries and keys are moved alike"
            self.steps.append(text)
            at = f"{at} + {shift!r}" if shift != round(shift) else f"{at} + {int(shift)}"
        return at


class CannotBe(Exception):
    """Raised if a conversion is impossible; the message says why."""


def times(text: str, factor: float) -> str:
    """Return the code of a product, or only ``text`` if the factor is 1."""
    return text if abs(factor - 1) <= SLACK else f"{text} * {factor!r}"
