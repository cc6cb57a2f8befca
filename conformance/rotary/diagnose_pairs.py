"""Diagnose single pairs: which pairs rotate, and how their norm changes."""

from __future__ import annotations

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.harness.run import Run, largest
from posenc_ref.conformance.phases.declaration import live
from posenc_ref.conformance.phases.measure import Measured


def not_proportional(run: Run, encoding: Rotary, measured: Measured, rotated: set[int]) -> bool:
    """Report a wrong form of Proportional scaling; return whether there is one.

    Either all pairs rotate, or as many as declared, in another layout.
    """
    every = {int(c) for c in np.concatenate(encoding.pairs())}
    turning = int(np.count_nonzero(encoding.frequencies()))
    evidence = f"{len(rotated)} channels are rotated, declared {2 * turning}"
    if rotated == every:
        text = "every pair is rotated: the declared Proportional scaling is missing"
        run.add("scaling-missing", text, evidence, equivalent=("proportional",))
        return True
    if [(p.a, p.b) for p in measured.pairs] == [(k, k + turning) for k in range(turning)]:
        run.add(
            "proportional",
            f"the first {2 * turning} channels are rotated among themselves, not the first "
            f"{turning} pairs of the whole head",
            f"channel 0 is paired with {turning}, declared with {encoding.pairs()[1][0]}",
            equivalent=("rotary-dim",),
        )
        return True
    adjacent = [(2 * k, 2 * k + 1) for k in range(turning)]
    if [(p.a, p.b) for p in measured.pairs] == adjacent:
        run.add(
            "layout",
            f"pairs are interleaved, declared {getattr(encoding, 'layout', '')}",
            evidence,
            equivalent=("rotary-dim",),
        )
        return True
    return False


def changing_size(run: Run, measured: Measured, size: np.ndarray) -> bool:
    """Report rotated pairs whose norm changes with the position; return whether there are any."""
    n, k = largest(np.abs(size - size[0]))
    # A smaller change may be a half-precision table, which is diagnosed later.
    if abs(size[n, k] - size[0, k]) <= BUDGET["bfloat16"] * ROUNDOFF["bfloat16"]:
        return False
    if _factor_on_one(run, measured):
        return True
    turned = np.abs(measured.blocks[1:, k, 1, 0]).max() > 0
    run.add(
        "amplitude" if turned and _directed(run, measured) else "not-a-rotation",
        f"the size of a rotated pair changes with the position: {size[0, k]:.6g} at position "
        f"{measured.positions[1]}, {size[n, k]:.6g} at position {measured.positions[n + 1]}",
        f"pair {k}, channels {measured.pairs[k].a} and {measured.pairs[k].b}",
    )
    return True


def _directed(run: Run, measured: Measured) -> bool:
    """Return whether every pair has the declared angle, regardless of its norm."""
    encoding = run.encoding
    if encoding.num_axes > 1:
        return True
    cos, sin = (live(encoding, (t.T,))[0].T for t in encoding.cos_sin(measured.positions[1:]))
    got = measured.blocks[1:, :, 0, 0] + 1j * encoding.sign * measured.blocks[1:, :, 1, 0]
    if got.shape != cos.shape:
        return False
    return bool(np.abs(np.angle(got * (cos - 1j * sin))).max() <= 0.01)


def _factor_on_one(run: Run, measured: Measured) -> bool:
    """Report an attention factor on cos or sin alone; return whether it was found."""
    encoding = run.encoding
    m = encoding.attention_factor()
    if m == 1.0 or encoding.num_axes > 1:
        return False
    cos, sin = (live(encoding, (t.T,))[0].T / m for t in encoding.cos_sin(measured.positions[1:]))
    got = measured.blocks[1:, :, 0, 0], encoding.sign * measured.blocks[1:, :, 1, 0]
    if got[0].shape != cos.shape:
        return False
    slack = 2 * run.budget * ROUNDOFF[run.coarse] * (1 + measured.positions[1:, None])
    for name, a, b in (("cos", m, 1.0), ("sin", 1.0, m)):
        if (np.abs(got[0] - a * cos) <= slack).all() and (np.abs(got[1] - b * sin) <= slack).all():
            run.add(
                "attention-factor",
                f"only {name} is multiplied by the attention factor {m:.6g}, not cos and sin",
                f"the 2 x 2 blocks of all pairs at positions {measured.positions[1:].tolist()}",
            )
            return True
    return False
