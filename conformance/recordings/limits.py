"""Say what recorded tensors leave open, and what was assumed to read them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.frequencies import SIGMAS
from posenc_ref.conformance.phases.precision import rounded

from . import axes
from .files import Tensor
from .measure import Seen
from .roles import Layer
from .shapes import Part

#: A frequency with a larger relative uncertainty is listed.
_CERTAIN = 2.0**-10
#: The fewest elements that show the dtype in which values were rounded.
_ENOUGH = 64


def effective_dtype(after: Tensor) -> str:
    """Return the coarsest dtype that holds every value: a recording may be stored in a wider one.

    Half-precision results are often converted to float32, because NumPy has no bfloat16.
    """
    values = after.values[np.isfinite(after.values) & (after.values != 0)]
    for name in sorted(ROUNDOFF, key=lambda name: -ROUNDOFF[name]):
        if ROUNDOFF[name] <= ROUNDOFF[after.dtype] or values.size < _ENOUGH:
            break
        with np.errstate(over="ignore"):
            if np.array_equal(rounded(values, name), values):
                return name
    return after.dtype


def add(run: Run, layer: Layer, part: Part, layout: str, others: Sequence[str]) -> None:
    """Add what was assumed about roles, positions, tensor layout and dtype."""
    if part.assumed and not part.unplaced:
        counted = "0, 1, 2, ... assumed"
        counted += "" if part.starts is None else f" in each of {part.starts.size - 1} sequences"
        run.limit(f"no positions recorded; {counted}")
    if part.end:
        run.limit("the positions are those of a whole cache: these tokens are taken to be its last")
    if others:
        run.limit(
            f"the shapes also allow the tensor layouts {', '.join(others)}: read as {layout}, "
            "which fits best; --tensor-layout decides"
        )
    add_dtype(run, layer.tensors[f"{part.name}_after"])
    missing = {"q": "k", "k": "q"}.get("".join(layer.rotated))
    if missing:
        words = f"only {part.name} was recorded before and after the rotation"
        run.limit(f"{words}: {missing} is not judged")


def add_dtype(run: Run, after: Tensor) -> None:
    """Add that values are judged in a coarser dtype than they were stored in."""
    if run.dtype != after.dtype:
        words = f"{after.dtype} tensor, but all values are {run.dtype}"
        run.limit(f"{words}; judged as {run.dtype}")


def open_questions(run: Run, encoding: Rotary, seen: Seen) -> None:
    """Add what the recorded positions leave open."""
    if encoding.num_axes > 1:
        text = axes.unknown(seen.tokens, encoding)
        if text:
            run.limit(text)
        return
    at = np.unique(seen.tokens.positions[0])
    distance = abs(at[0] + encoding.offset)
    if at.size == 1 and not distance:
        run.limit(f"every token has position {at[0]:g}: frequencies are not judged")
    elif at.size == 1:
        run.limit(
            f"every token has position {at[0]:g}: another origin, or frequencies that differ by "
            f"multiples of 2 pi / {distance:g}, would give the same tensors"
        )
    elif seen.fitted.period.size and seen.fitted.period.min() < 2 * np.pi:
        step = round(2 * np.pi / float(seen.fitted.period.min()))
        run.limit(
            f"all distances of positions are multiples of {step}: frequencies that differ by "
            f"multiples of 2 pi / {step} would give the same tensors"
        )
    if encoding.depends_on_length:
        run.limit(
            "the frequencies depend on the length of the sequence: it is taken to be the largest "
            "recorded position plus one"
        )
    phases = seen.fitted.phases
    if not seen.certain:
        return
    w = np.maximum(np.abs(phases.frequencies), SIGMAS * phases.sigma)
    vague = np.flatnonzero(phases.sigma > _CERTAIN * w)
    if vague.size:
        lost = np.flatnonzero(np.abs(phases.frequencies) <= SIGMAS * phases.sigma)
        text = (
            f"positions {at[0]:g}..{at[-1]:g} give the frequencies of {vague.size} slow pairs "
            f"(from pair {vague[0]} on) to 0.1 % or worse"
        )
        if lost.size:
            text += f"; those of {lost.size} pairs (from pair {lost[0]} on) cannot be told from 0"
        run.limit(text)
