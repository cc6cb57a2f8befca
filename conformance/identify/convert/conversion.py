"""How to use a function as another encoding: in words, and as code."""

from __future__ import annotations

from dataclasses import dataclass, field

from posenc_ref.accuracy import BUDGET, ROUNDOFF

#: The relative difference up to which frequencies or factors are equal.
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
    """Steps in words, and the body of ``converted``; neither: there is nothing to do."""

    surface: str
    steps: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)

    @property
    def code(self) -> str:
        """The function, with what it imports."""
        if not self.body:
            return ""
        imports = ["import numpy as np"] if any("np." in line for line in self.body) else []
        if any("layout_permutation" in line for line in self.body):
            imports.append("from posenc_ref import layout_permutation")
        head = f"def converted({ARGUMENTS[self.surface]}):"
        return "\n".join([*imports, head, *(f"    {line}" for line in self.body)])

    def move_positions(self, ratio: float, shift: float) -> str:
        """Say what is done to positions, and return what to pass."""
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
    """Why no change of inputs and outputs leads to the target."""


def times(text: str, factor: float) -> str:
    """Return a product, unless the factor is 1."""
    return text if abs(factor - 1) <= SLACK else f"{text} * {factor!r}"
