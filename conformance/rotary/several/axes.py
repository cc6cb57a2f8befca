"""Diagnose what wrong axes of pairs leave: wrong frequencies, and then wrong positions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posenc_ref import MultiAxisRoPE, Rotary
from posenc_ref.conformance.diagnosis.scored import failed
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.found import FoundAxes
from posenc_ref.conformance.phases.declaration import nonzero_frequencies, schedule_of
from posenc_ref.conformance.phases.explain import explain
from posenc_ref.conformance.phases.frequencies import FrequencyMistake, agree, report
from posenc_ref.conformance.phases.measure import Measured
from posenc_ref.conformance.rotary import turned as calls

from . import rest


def diagnose(
    run: Run,
    encoding: Rotary,
    measured: Measured,
    follows: np.ndarray,
    phases: tuple[np.ndarray, np.ndarray],
) -> None:
    """Report wrong frequencies of pairs that follow other axes, and what is left then.

    ``follows`` (A, pairs) says which axes turn each pair; ``phases`` are the frequencies (A, pairs)
    and their errors.
    """
    if (follows.sum(axis=0) != 1).any() or run.settings.reduced or encoding.depends_on_length:
        return
    if not isinstance(encoding, MultiAxisRoPE) or not isinstance(encoding.base, float):
        return
    plain = encoding.scaling is None and encoding.position_scale == 1.0
    if not plain or encoding.spacing not in ("global", "restart"):
        return  # the frequencies follow the axes by other rules
    axis, k = np.argmax(follows, axis=0), np.arange(follows.shape[1])
    w, sigma = (each[axis, k] for each in phases)
    exact, restarted = nonzero_frequencies(encoding), _restarted(encoding, axis)
    if not agree(w, exact, sigma).all():
        found = [restarted]
        if not agree(w, restarted.predicted, sigma).all():
            found = explain(w, sigma, schedule_of(encoding))
        worst = int(np.argmax(np.abs(w / exact - 1)))
        text = f"pair {worst} turns by {w[worst]:.9g} rad per position, declared {exact[worst]:.9g}"
        if encoding.spacing != "restart" or found[0] is not restarted:
            report(run, found, w, schedule_of(encoding), text)
        exact = -exact if found[-1].code == "sign" else found[-1].predicted
    channels = tuple((p.a, p.b, p.out_a, p.out_b) for p in measured.pairs)
    turned = tuple((encoding.sign * exact).tolist())
    m, count = encoding.attention_factor(), encoding.num_axes
    measured_axes = FoundAxes(
        encoding.head_dim, channels, turned, m, encoding.offset, tuple(axis.tolist()), count
    )
    rest.diagnose(run, _with_origin(run, measured_axes))


def _with_origin(run: Run, found: FoundAxes) -> FoundAxes:
    """Return the rotation with another origin of all axes, which is reported, if calls show it."""
    some = tuple(calls.CALLS[i] for i in rest.SOME)
    for origin in dict.fromkeys((found.offset, *_ORIGINS)):
        other = replace(found, offset=origin)
        second = rest.against(run, other)
        if failed(second, list(calls.calls_of(second, other, some))):
            continue
        if origin != found.offset:
            by = found.offset - origin
            run.add(
                "position-origin",
                f"positions on all axes start at {origin:g}, declared {found.offset:g}",
                "calls that differ in their positions on every axis",
                values={"declared": found.offset, "measured": origin},
                remedy=f"{'Add' if by > 0 else 'Subtract'} {abs(by):g} {'to' if by > 0 else 'from'}"
                " all positions.",
            )
        return other
    return found


#: Origins of all axes that occur in code.
_ORIGINS = (0.0, 1.0, -1.0, 0.5, -0.5)


def _restarted(encoding: MultiAxisRoPE, axis: np.ndarray) -> FrequencyMistake:
    """Return frequencies that start again with the first pair of each axis."""
    assert isinstance(encoding.base, float)
    index = np.choose(axis, [np.cumsum(axis == a) - 1 for a in range(encoding.num_axes)])
    sizes = np.bincount(axis, minlength=encoding.num_axes)[axis]
    return FrequencyMistake(
        "frequency-spacing",
        "the frequencies start again with the first pair of each axis: pair i of n has the "
        "exponent i/n",
        encoding.base ** (-index / sizes),
        remedy=f"Give the pairs their exponents by the {encoding.spacing!r} spacing.",
    )
