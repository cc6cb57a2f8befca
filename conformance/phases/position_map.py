"""Diagnose the positions that a function uses, and its range reduction of large angles."""

from __future__ import annotations

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.probes import GENERIC
from posenc_ref.conformance.harness.run import Run

from .declaration import Declaration, unit_size
from .decode import Decoder
from .measure import Tables


def position_map(run: Run, tables: Tables, declared: Declaration) -> None:
    """Decode the positions used, and report the map from declared positions to them."""
    decoder = Decoder.of(declared.frequencies)
    at = np.unique(np.r_[np.arange(1, 9), 255, 256, 300, 511, 512, GENERIC])
    at = at[at <= max(run.ledger.highest, 8)]
    cos, sin = unit_size(tables, at, declared)
    used, misfit = decoder.positions(cos, sin)
    used = used - round(declared.origin)
    seen = cos + 1j * sin

    def meets(positions: np.ndarray) -> np.ndarray:
        angle = (positions + declared.origin)[:, None] * declared.frequencies
        return np.asarray(np.abs(seen - np.exp(1j * angle)).max(axis=1) < 0.25)

    wrong = ~meets(at)
    if not wrong.any():
        return
    near = misfit <= 0.25
    if not (wrong & near).any():
        large_angles(run, tables, declared)
        return
    first = int(np.argmax(wrong & near))
    evidence = f"position {at[first]} has the angles of position {used[first]}"
    if wrong.sum() > 1 and meets(np.minimum(at, used[first])).all():
        run.add("position-range", f"positions are clamped to {used[first]}", evidence)
        return
    size = int(np.gcd.reduce((at - used)[wrong & near]))
    signed = (at + size // 2) % max(size, 1) - size // 2
    if size > 1 and (meets(at % size).all() or meets(signed).all()):
        run.add("position-range", f"positions wrap round modulo {size}", evidence)
        return
    if large_angles(run, tables, declared):
        return
    early = wrong & (at <= 60)  # negative positions are decoded in this range
    if near[wrong].all() or (early.any() and (misfit[early] <= 0.05).all()):
        run.add(
            "wrong-row",
            f"{int(wrong.sum())} of {at.size} tested positions get the angles of other positions"
            + run.where(),
            evidence,
        )


def large_angles(run: Run, tables: Tables, declared: Declaration) -> bool:
    """Report a wrong range reduction; return whether it was found.

    It is found if all angles up to pi are right, and some larger angles are wrong.
    """
    at = GENERIC[run.ledger.highest >= GENERIC]
    cos, sin = unit_size(tables, at, declared)
    true_cos, true_sin = declared.exact(at)
    angle = np.abs(at[:, None] + declared.origin) * declared.frequencies
    unit = ROUNDOFF[run.coarse] + ROUNDOFF["float32"] * angle
    fits = np.hypot(cos - true_cos, sin - declared.sign * true_sin) <= 2 * run.budget * unit
    small = angle <= np.pi
    if not small.any() or not fits[small].all() or fits.all():
        return False
    n, k = (int(i) for i in np.argwhere(~fits)[0])
    folded = np.hypot(np.abs(cos) - np.abs(true_cos), np.abs(sin) - np.abs(true_sin))
    code, text = (
        "range-reduction",
        "angles up to pi are right at every position, larger ones are not",
    )
    if (folded <= 2 * run.budget * unit).all():
        code, text = "not-a-rotation", "cos or sin has the wrong sign in some quadrants"
    run.add(
        code,
        text,
        f"pair {k} at position {at[n]}, angle {angle[n, k]:.6g}: cos {cos[n, k]:.6g}, true "
        f"{true_cos[n, k]:.6g}",
    )
    return True
