"""Report pairs that follow other position axes than declared."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, permutations

import numpy as np

from posenc_ref import MultiAxisRoPE, Rotary
from posenc_ref.conformance.harness.plural import ranges
from posenc_ref.conformance.harness.run import Run

#: The most evenly spaced pairs that are listed one by one.
_LISTED = 4


def assignment(encoding: Rotary) -> str:
    """Return the declared axis of every pair as an instruction."""
    axes = encoding.axes()
    if axes is None:
        return ""
    each = (f"pairs {ranges(np.flatnonzero(axes == a).tolist())} follow axis {a}"
            for a in range(encoding.num_axes))  # fmt: skip
    return f"Declared: {', '.join(each)}."


def report_sections(run: Run, encoding: Rotary, follows: np.ndarray, wanted: np.ndarray) -> bool:
    """Report pairs that follow other axes than ``wanted`` (pairs,); return whether there are any.

    ``follows`` (A, pairs) says which axes turn each pair.
    """
    several = follows.sum(axis=0)
    axes = np.where(several == 1, np.argmax(follows, axis=0), -1)
    if np.array_equal(axes, wanted):
        return False
    count = encoding.num_axes
    k = int(np.flatnonzero(axes != wanted)[0])
    seen = ", ".join(str(a) for a in np.flatnonzero(follows[:, k])) or "none"
    evidence = (
        f"pair {k} follows axis {seen}, declared {wanted[k]}; pairs by axis "
        f"{[int((axes == a).sum()) for a in range(count)]}, declared "
        f"{[int((wanted == a).sum()) for a in range(count)]}"
    )
    remedy = assignment(encoding)
    if (several > 1).any():
        run.add("sections", "pairs follow several axes at once", evidence, remedy=remedy)
        return True
    if (axes == axes[0]).all():
        run.add(
            "sections",
            f"sections are ignored: every pair follows axis {axes[0]}",
            evidence,
            remedy=remedy,
        )
        return True
    for order in permutations(range(count)):
        if np.array_equal(np.array(order)[wanted], axes):
            run.add(
                "axis-order",
                f"the axes are in the order {order}, declared {tuple(range(count))}",
                evidence,
                values={"declared": list(range(count)), "measured": list(order)},
                remedy=remedy,
            )
            return True
    run.add("sections", _arrangement(encoding, axes, wanted), evidence, remedy=remedy)
    return True


def _arrangement(encoding: Rotary, axes: np.ndarray, wanted: np.ndarray) -> str:
    """Return a message with the measured assignment of pairs to axes."""
    for text, other in arrangements(encoding):
        if np.array_equal(other, axes):
            return text
    if (axes < 0).all():
        return "no pair follows any axis"
    return (
        _blocks(encoding, axes) or f"pairs follow other axes than declared: {_wrong(axes, wanted)}"
    )


def _blocks(encoding: Rotary, axes: np.ndarray) -> str:
    """Return the sizes of sections, if the pairs of every axis are one block, in words."""
    starts = np.flatnonzero(np.r_[True, np.diff(axes) != 0])
    if not isinstance(encoding, MultiAxisRoPE) or starts.size != np.unique(axes).size:
        return ""
    sizes = np.diff(np.r_[starts, axes.size]).tolist()
    kind = f"{encoding.arrangement} " if isinstance(encoding.arrangement, str) else ""
    declared = f"declared {kind}{encoding.sections}"
    if np.array_equal(axes[starts], np.arange(encoding.num_axes)):
        return f"sections are chunked {tuple(sizes)}, {declared}"
    each = (f"{n} pairs of axis {a}" for n, a in zip(sizes, axes[starts], strict=True))
    return f"sections are chunked: {', '.join(each)}; {declared}"


def _wrong(axes: np.ndarray, wanted: np.ndarray) -> str:
    """Return the pairs that follow another axis than declared, in words."""
    wrong = axes != wanted
    kinds = dict.fromkeys(zip(axes[wrong].tolist(), wanted[wrong].tolist(), strict=True))
    found = []
    for a, b in kinds:
        pairs = np.flatnonzero((axes == a) & (wanted == b)).tolist()
        words = f"pairs {_spaced(pairs)} follow" if len(pairs) > 1 else f"pair {pairs[0]} follows"
        found.append(f"{words} {f'axis {a}' if a >= 0 else 'no axis'}, not axis {b}")
    return "; ".join(found)


def arrangements(encoding: Rotary) -> Iterator[tuple[str, np.ndarray]]:
    """Yield known assignments of pairs to axes, each with its message."""
    if not isinstance(encoding, MultiAxisRoPE):
        return
    for order in permutations(encoding.sections):
        for arrangement in ("chunked", "interleaved"):
            try:
                other = encoding.replace(
                    sections=order, arrangement=arrangement, spacing="global",
                    base=10000.0, layout="half", output_layout=None, position_scale=1.0,
                )  # fmt: skip
            except ValueError:
                continue
            yield (
                f"sections are {arrangement} {order}, declared "
                f"{encoding.arrangement} {encoding.sections}",
                other.axes(),
            )
    half = tuple(n // 2 for n in encoding.sections)
    if all(n % 2 == 0 for n in encoding.sections):
        yield (
            f"the sections are halved and repeated: {half + half}, declared {encoding.sections}",
            np.tile(np.repeat(np.arange(encoding.num_axes), half), 2),
        )
    yield (
        f"the sections are in the reverse order: {encoding.sections[::-1]}, the last axis first",
        np.repeat(np.arange(encoding.num_axes)[::-1], encoding.sections[::-1]),
    )
    count = sum(encoding.sections)
    yield (
        f"pairs cycle through the axes, declared {encoding.arrangement}",
        np.arange(count) % encoding.num_axes,
    )
    a = encoding.num_axes
    for words, stop in (
        ("its section's size", lambda n: n),
        ("twice its section's size", lambda n: 2 * n),
        (f"{a} times the smallest section", lambda n: a * min(encoding.sections)),
        ("the end", lambda n: count),
    ):
        for first in (1, 0):
            cut = np.zeros(count, np.int64)
            for axis in range(first, a):
                cut[axis : stop(encoding.sections[axis]) : a] = axis
            axes_ = ", ".join(map(str, range(first, a)))
            said = f"pairs a, a + {a}, a + {2 * a}, ... follow axis a, for a = {axes_}, up to"
            yield f"{said} {words}; the others follow axis 0", cut


def _spaced(pairs: list[int]) -> str:
    """Return indices in words, shortened if they are evenly spaced."""
    steps = {b - a for a, b in pairwise(pairs)}
    if len(pairs) > _LISTED and len(steps) == 1 and steps != {1}:
        return f"{pairs[0]}, {pairs[1]}, ..., {pairs[-1]}"
    return ranges(pairs)
