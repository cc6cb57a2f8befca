"""Convert an identified function to another encoding: permute, shift and multiply."""

from __future__ import annotations

import numpy as np

from posenc_ref import ALiBi, Encoding, Rotary, Sinusoidal
from posenc_ref.conformance.identify.card import listed

from .conversion import ARGUMENTS, SLACK, CannotBe, Conversion, times
from .rotary import convert_rotary


def convert(
    found: Encoding, target: Encoding, surface: str, origin: float = 0.0, scale: float | None = None
) -> Conversion:
    """Return the steps that convert a function with encoding ``found`` to ``target``.

    The function's result at position 0 is that of ``found`` at position ``origin``.  ``scale`` is
    the softmax scale of the function.
    """
    result = Conversion(surface)
    try:
        if surface not in ARGUMENTS:
            raise CannotBe(
                f"surface {surface!r} has no conversion: identify a function of another surface "
                f"({', '.join(ARGUMENTS)})"
            )
        if isinstance(found, Rotary) and isinstance(target, Rotary):
            convert_rotary(result, found, target, origin, scale)
        elif isinstance(found, Sinusoidal) and isinstance(target, Sinusoidal):
            _table(result, found, target)
        elif isinstance(found, ALiBi) and isinstance(target, ALiBi) and surface == "bias":
            _alibi(result, found, target)
        elif type(found) is not type(target):
            raise CannotBe(f"the function is {_kind(found)}, the target is {_kind(target)}")
        elif found != target:
            mine, other = found.to_dict(), target.to_dict()
            raise CannotBe(
                f"different {', '.join(f for f in mine if mine[f] != other.get(f))}: no change of "
                "inputs or results corrects this; build the function with the target's values"
            )
    except CannotBe as reason:
        return Conversion(surface, [f"cannot be converted: {reason}"])
    if not result.steps and not result.body:
        result.steps.append("nothing to do: the function gives the target's results")
    return result


def _kind(e: Encoding) -> str:
    words = {
        "rotary": "rotates queries and keys",
        "table": "added to embeddings",
        "bias": "added to scores",
    }
    return f"{type(e).__name__} ({words.get(e.family, 'logits depend on the content of tokens')})"


def _table(result: Conversion, e: Sinusoidal, t: Sinusoidal) -> None:
    if e == t:
        return
    if e.dim != t.dim:
        raise CannotBe(f"the function has {e.dim} columns, the target {t.dim}")
    mine, other = e.columns(), t.columns()
    if mine[0].size != other[0].size or mine[1].size != other[1].size:
        raise CannotBe(f"the function has odd={e.odd!r}, the target odd={t.odd!r}")
    w, v = e.frequencies(), t.frequencies()
    ratio = float(v[0] / w[0])
    ratio = 1.0 if abs(ratio - 1) <= SLACK else ratio
    if (np.abs(w * ratio - v) > SLACK * v).any():
        k = int(np.argmax(np.abs(w - v) > SLACK * v))
        raise CannotBe(
            f"frequencies differ (pair {k}: {w[k]:.8g} rad per position, {v[k]:.8g} in the target):"
            f" build the function with base={t.base:g}, denominator={t.denominator!r}"
        )
    rows = f"fn({result.move_positions(ratio, ratio * t.offset - e.offset)})"
    columns = np.arange(e.dim)
    columns[np.concatenate(other)] = np.concatenate(mine)
    if (columns != np.arange(e.dim)).any():
        result.steps.append("reorder the columns, as [:, columns] does")
        result.body.append(f"columns = np.array({columns.tolist()})")
        rows += "[:, columns]"
    size = t.scale / e.scale
    if size != 1.0:
        result.steps.append(f"multiply the table by {size:.9g}")
    result.body.append(f"return {times(rows, size)}")


def _alibi(result: Conversion, e: ALiBi, t: ALiBi) -> None:
    if e.num_heads != t.num_heads:
        raise CannotBe(f"the function has {e.num_heads} heads, the target {t.num_heads}")
    if e.causal and not t.causal:
        raise CannotBe("the target has a bias for later keys, the function (causal=True) has none")
    factor = t.slopes() / e.slopes()
    if (np.abs(factor - 1) > SLACK).any():
        result.steps.append(f"multiply the bias head by head, by {listed(factor)}")
        result.body += [
            f"slopes = np.array({factor.tolist()})",
            "return fn(q_len, k_len) * slopes[:, None, None]",
        ]
    elif e.causal != t.causal:
        result.steps.append("mask later keys; all other keys have the target's bias already")
        result.body.append("return fn(q_len, k_len)")
