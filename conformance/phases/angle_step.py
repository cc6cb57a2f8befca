"""Recognise angles rounded to the steps of a table of cos and sin, or to a fixed-point grid."""

from __future__ import annotations

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.probes import GENERIC
from posenc_ref.conformance.harness.run import Run

from .declaration import Declaration, unit_size
from .measure import Tables, wrap

#: Steps of angles, in radians, by their names: parts of a turn, and powers of 2.
_STEPS = {
    **{f"2 pi/{2**n}, as in a table of {2**n} angles": 2 * np.pi / 2**n for n in range(6, 21)},
    **{f"2 ** -{n} rad": 2.0**-n for n in range(6, 21)},
    **{f"1/{n} rad": 1.0 / n for n in (100, 1000, 10000, 100000)},
    "1 degree": np.pi / 180,
}
_WAYS = {"to the nearest step": np.rint, "down": np.floor, "towards 0": np.trunc}


def value_step(run: Run, values: np.ndarray, exact: np.ndarray) -> str:
    """Return the words for cos and sin rounded to float32 or to fixed point, empty if not so."""
    off = np.abs(values - exact)
    if run.coarse == "float64" and np.array_equal(values.astype(np.float32), values):
        return f"cos and sin are rounded to float32, off by up to {off.max():.3g}"
    for bits in range(6, 22):
        step = 2.0**-bits
        for unit, words in ((step, f"2**-{bits}"), (1 / (2**bits - 1), f"1/{2**bits - 1}")):
            whole = np.abs(values / unit - np.rint(values / unit)) * unit
            if whole.max() <= 4 * ROUNDOFF[run.coarse] and unit > 32 * ROUNDOFF[run.coarse]:
                return f"cos and sin are multiples of {words}: fixed point"
    return ""


def frequency_step(w: np.ndarray, sigma: np.ndarray, declared: np.ndarray) -> str:
    """Return the words for frequencies rounded to steps of an angle, empty if they are not."""
    for bits in range(8, 49):
        for unit, words in ((2 * np.pi, "2 pi / "), (1.0, "1 / ")):
            step = unit * 2.0**-bits
            for how, of in _WAYS.items():
                expected = of(declared / step) * step
                if (np.abs(w - expected) <= 8 * sigma + 1e-9 * step).all():
                    return f"frequencies are rounded {how}, in steps of {words}2**{bits} rad"
    return ""


def angle_step(run: Run, tables: Tables, declared: Declaration) -> tuple[str, str] | None:
    """Return the message and the evidence of angles rounded to steps, None if they are not."""
    at = np.unique(np.r_[np.arange(1, 33), GENERIC[:6]])
    at = at[at <= max(run.ledger.highest, 8)]
    cos, sin = unit_size(tables, at, declared)
    angle = (at + declared.origin)[:, None] * declared.frequencies
    seen = np.arctan2(sin, cos)
    slack = run.budget * (ROUNDOFF[run.coarse] + ROUNDOFF["float32"] * np.abs(angle))
    for name, step in _STEPS.items():
        for how, of in _WAYS.items():
            misfit = np.abs(wrap(seen - of(angle / step) * step))
            # An angle at the edge of a step may be rounded to either side.
            edge = np.abs(misfit - step) <= slack
            if (misfit <= slack).mean() > 0.98 and ((misfit <= slack) | edge).all():
                off = float(np.abs(wrap(seen - angle)).max())
                text = f"angles are rounded {how}, in steps of {name}, without interpolation"
                return text, f"angles at {at.size} positions; off by up to {off:.3g} rad"
    return None
