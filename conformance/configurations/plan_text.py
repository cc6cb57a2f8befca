"""A plan as text, and the plans of encodings that are no rotations."""

from __future__ import annotations

import math

import numpy as np

from posenc_ref import ALiBi, Encoding, Learned, T5Bias
from posenc_ref.bias import Bias
from posenc_ref.conformance.harness.plural import ranges
from posenc_ref.rotary_score import RotaryScore

from .plan import INSIDE, NEW, SEEN, Plan
from .words import learned_size


def plan_text(plan: Plan) -> str:
    """Return a plan as text: a summary, then a table of the pairs."""
    pairs = plan.pairs
    lines = [
        f"encoding  {plan.encoding}",
        f"trained   {plan.trained} tokens ({plan.basis})",
        f"planned   {plan.length} tokens; cos and sin times {plan.attention_factor:.6g}",
        f"seen      {plan.count(SEEN)} of {len(pairs)} pairs turn at least once in training, and "
        "have seen every angle",
    ]
    new = [p for p in pairs if p.state == NEW]
    if plan.count(INSIDE):
        lines.append(f"          {plan.count(INSIDE)} pairs stay within the angles of training")
    if new:
        most = max(p.turns / p.trained_turns if p.trained_turns else math.inf for p in new)
        lines.append(
            f"unseen    {len(new)} pairs reach angles that never occurred in training: "
            f"{ranges([p.pair for p in new])}, up to {most:.4g} times as far"
        )
    else:
        lines.append("unseen    no pair reaches an angle that never occurred in training")
    lines.append(
        f"errors    of angles, at the end of {plan.length} tokens: "
        + ", ".join(f"{error:.2g} rad in {dtype}" for dtype, error in plan.errors.items())
    )
    lines += [f"note      {note}" for note in plan.notes]
    for i, option in enumerate(plan.options):
        m = (
            ""
            if option.attention_factor == 1
            else f", cos and sin times {option.attention_factor:.6g}"
        )
        unseen = f"{option.unseen} unseen pairs" if option.unseen else "fits: no unseen pair"
        lines.append(f"{'settings' if not i else '':<9} {option.scaling}: {unseen}{m}")
    head = ("pair", "trained wavelength", "turns", "planned wavelength", "turns", "angles")
    rows = [
        (
            str(p.pair), _wave(p.trained_wavelength), f"{p.trained_turns:.4g}",
            _wave(p.wavelength), f"{p.turns:.4g}", p.state,
        )
        for p in pairs
    ]  # fmt: skip
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    table = (
        "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True))
        for row in (head, *rows)
    )
    return "\n".join([*lines, *table])


def other_plan(encoding: Encoding | None, length: int) -> str:
    """Return what an encoding that is no rotation does at a length, in words."""
    if encoding is None:
        return "no positional encoding: nothing depends on the length of the context"
    name = f"encoding  {encoding!r}\n"
    if isinstance(encoding, Learned):
        text = "learned   one row for each position: a context must not have more tokens than rows"
        if learned_size(encoding, "weight") is not None:
            rows = encoding.weight.shape[0] - encoding.offset
            fits = "fit" if length <= rows else "do not fit"
            text += f"; there are rows for {rows} positions, so {length} tokens {fits}"
        return name + text
    if isinstance(encoding, T5Bias):
        last = encoding.max_distance
        return name + f"buckets   all distances from {last} on share one bucket, so none is unseen"
    if isinstance(encoding, ALiBi):
        far = np.asarray(encoding.bias(np.array([length - 1]), np.zeros(1, int)))[:, 0, 0]
        return name + f"bias      at distance {length - 1}: from {far.min():.6g} to {far.max():.6g}"
    if isinstance(encoding, RotaryScore):
        most = f"at most {encoding.farthest(length):.10g} from query to key"
        return name + f"distances {most}; plain RoPE would have {length - 1}"
    kind = "bias" if isinstance(encoding, Bias) else type(encoding).family
    return name + f"plan      no frequencies: plans are made for RoPE, and this is a {kind}"


def _wave(length: float | None) -> str:
    return "at rest" if length is None else f"{length:.6g}"
