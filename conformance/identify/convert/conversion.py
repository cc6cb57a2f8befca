"""How to use a function as another encoding: in words, and as code."""

from __future__ import annotations

from dataclasses import dataclass, field

from posenc_ref.accuracy import BUDGET, ROUNDOFF

#: The relative difference up to which frequencies or factors are equal.
SLACK = BUDGET["float32"] * ROUNDOFF["float32"]
#: The signature of the converted function, by surface.
HEADS = {
    "apply": "def converted(x, positions):",
    "cos_sin": "def converted(positions):",
    "table": "def converted(positions):",
    "bias": "def converted(q_len, k_len):",
    "scores": "def converted(q, k):",
}


@dataclass
class Conversion:
    """Steps in words, and the lines of ``converted``, which calls ``fn``."""

    steps: list[str] = field(default_factory=list)
    code: str = ""


class CannotBe(Exception):
    """Why no change of inputs and outputs leads to the target."""


def same() -> Conversion:
    """Return the conversion of a function that is the target already."""
    return Conversion(["nothing to do: it is the target"])


def moved_positions(result: Conversion, ratio: float, shift: float, *, apply: bool) -> str:
    """Return the positions to pass, with words for what is done to them."""
    at = "positions"
    if ratio != 1.0:
        whole = ratio == round(ratio)
        result.steps.append(
            f"multiply positions by {ratio:.9g}" + ("" if whole else ", if it takes fractions")
        )
        at = f"{int(ratio) if whole else repr(ratio)} * {at}"
    if shift:
        text = f"add {shift:g} to positions" + (", if it takes negative ones" if shift < 0 else "")
        if apply:
            text += "; logits do not need it: queries and keys are moved alike"
        result.steps.append(text)
        at = f"{at} + {shift!r}" if shift != round(shift) else f"{at} + {int(shift)}"
    return at


def times(text: str, factor: float) -> str:
    """Return a product, unless the factor is 1."""
    return text if abs(factor - 1) <= SLACK else f"{text} * {factor!r}"


def code_of(surface: str, body: list[str]) -> str:
    """Return the function, with what it imports."""
    imports = ["import numpy as np"] if any("np." in line for line in body) else []
    if any("layout_permutation" in line for line in body):
        imports.append("from posenc_ref import layout_permutation")
    return "\n".join([*imports, HEADS[surface], *(f"    {line}" for line in body)])
