"""The steps that convert a function to another encoding, in words and as code."""

from __future__ import annotations

from dataclasses import dataclass, field

from posenc_ref.accuracy import BUDGET, ROUNDOFF

#: Frequencies or factors are equal up to this relative difference.
SLACK = BUDGET["float32"] * ROUNDOFF["float32"]
#: The arguments of the converted function, by surface.
ARGUMENTS = {
    "apply": "x, positions",
    "apply_qk": "q, k, q_positions, k_positions",
    "cos_sin": "positions",
    "table": "positions",
    "bias": "q_len, k_len",
    "scores": "q, k",
}


@dataclass
class Conversion:
    """The steps in words (``steps``) and as lines of Python (``body``); empty if none is needed."""

    surface: str
    steps: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)

    @property
    def code(self) -> str:
        """The Python code that defines the function ``converted``, with its imports."""
        if not self.body:
            return ""
        lines = "".join(f"\n    {line}" for line in self.body)
        imports = "import numpy as np\n" if "np." in lines else ""
        if "layout_permutation" in lines:
            imports += "from posenc_ref import layout_permutation\n"
        return f"{imports}def converted({ARGUMENTS[self.surface]}):{lines}"

    def move_positions(self, ratio: float, shift: float) -> str:
        """Add steps to multiply and shift positions; return, as code, the positions for ``fn``."""
        at = "positions"
        if ratio != 1.0:
            whole = ratio == round(ratio)
            needs = "" if whole else ", if the function takes fractional positions"
            self.steps.append(f"multiply positions by {ratio:.9g}{needs}")
            at = f"{int(ratio) if whole else repr(ratio)} * {at}"
        if shift:
            text = f"add {shift:g} to positions"
            text += ", if the function takes negative positions" if shift < 0 else ""
            if self.surface in ("apply", "apply_qk"):
                text += "; logits do not change if queries and keys are shifted by the same number"
            self.steps.append(text)
            at = f"{at} + {shift!r}" if shift != round(shift) else f"{at} + {int(shift)}"
        return at


class CannotBe(Exception):
    """Raised if a conversion is impossible; the message says why."""


def times(text: str, factor: float) -> str:
    """Return the code of the product of ``text`` and the factor, or ``text`` if that is 1."""
    return text if abs(factor - 1) <= SLACK else f"{text} * {factor!r}"
