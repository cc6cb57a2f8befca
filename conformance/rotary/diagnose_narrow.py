"""Diagnose an x that is rounded to a narrower dtype before it is rotated."""

from __future__ import annotations

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.phases.precision import rounded

#: Names the dtype to which x is rounded, in the values of a finding.
ROUNDED = "x rounded to"
#: The dtypes to which an x of each dtype may be rounded; the most accurate first.
_NARROWER = {"float64": ("float32", "TF32", "bfloat16"), "float32": ("TF32", "float16", "bfloat16")}
#: (B, H, S) of two calls, which start at positions 3 and 4.
_SIZES = ((2, 3, 5), (1, 2, 9))


def diagnose(run: Run, encoding: Rotary) -> bool:
    """Report that results are those of x rounded to a narrower dtype; return whether they are.

    Two calls must give the same bits for x and for the rounded x, and be right for the rounded x.
    """
    if encoding.num_axes > 1 or encoding.depends_on_length:
        return False
    return any(_rounds(run, encoding, name) for name in _NARROWER.get(run.dtype, ()))


def _rounds(run: Run, encoding: Rotary, name: str) -> bool:
    worst = 0.0
    rotates = np.concatenate(encoding.output_pairs())
    for n, size in enumerate(_SIZES, 3):
        x, at = run.random((*size, encoding.head_dim), 90 + n), n + np.arange(size[2])
        narrow = rounded(x, name)
        right, seen = (apply_truth(encoding, v, at) for v in (x, narrow))
        try:
            y, again = run.driver.apply(x, at), run.driver.apply(narrow, at)
        except (Refused, Malformed):
            return False
        # Channels that are not rotated may be copied.
        if not np.array_equal(y[..., rotates], again[..., rotates]):
            return False
        if not (run.scores(y, seen)[..., rotates] <= run.budget).all():
            return False
        worst = max(worst, float(run.scores(y, right)[..., rotates].max()))
    if worst <= run.budget:
        return False
    run.add(
        "angle-precision",
        f"x is rounded from {run.dtype} to {name} before the rotation",
        f"x and x rounded to {name} give the same bits in {len(_SIZES)} calls",
        by=None,
        values={ROUNDED: name},
        remedy=f"Rotate x in {run.dtype}: widen narrower inputs, and do not narrow this one.",
    )
    return True
