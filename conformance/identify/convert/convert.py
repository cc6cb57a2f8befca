"""Say how to use an identified function as another encoding: permute, shift and multiply."""

from __future__ import annotations

import numpy as np

from posenc_ref import ALiBi, Encoding, Rotary, Sinusoidal

from .conversion import (  # fmt: skip
    HEADS,
    SLACK,
    CannotBe,
    Conversion,
    code_of,
    moved_positions,
    same,
    times,
)
from .rotary import convert_rotary


def convert(
    found: Encoding, target: Encoding, surface: str, origin: float = 0.0, scale: float | None = None
) -> Conversion:
    """Return how to use a function that is ``found`` as ``target``.

    ``origin`` is the position that its position 0 is turned like, ``scale`` that of its logits.
    """
    try:
        if surface not in HEADS:
            raise CannotBe(f"no advice for surface {surface!r}: identify its apply, or logits")
        if isinstance(found, Rotary) and isinstance(target, Rotary):
            return convert_rotary(found, target, surface, origin, scale)
        if isinstance(found, Sinusoidal) and isinstance(target, Sinusoidal):
            return _table(found, target)
        if isinstance(found, ALiBi) and isinstance(target, ALiBi) and surface == "bias":
            return _alibi(found, target)
        if found == target:
            return same()
        if type(found) is type(target):
            raise CannotBe(
                f"{_other_fields(found, target)}: numbers that were trained, or another rule; "
                "load the target's"
            )
        raise CannotBe(f"it is {_kind(found)}, and the target is {_kind(target)}")
    except CannotBe as reason:
        return Conversion([f"cannot be converted: {reason}"])


def _kind(e: Encoding) -> str:
    words = {
        "rotary": "it turns queries and keys", "table": "it is added to embeddings",
        "bias": "it is added to scores",
    }  # fmt: skip
    return f"{type(e).__name__} ({words.get(e.family, 'logits depend on what tokens hold')})"


def _other_fields(found: Encoding, target: Encoding) -> str:
    mine, other = found.to_dict(), target.to_dict()
    return ", ".join(f for f in mine if mine[f] != other.get(f)) + " differ"


def _table(e: Sinusoidal, t: Sinusoidal) -> Conversion:
    if e == t:
        return same()
    if e.dim != t.dim:
        raise CannotBe(f"it has {e.dim} columns, the target {t.dim}")
    mine, other = e.columns(), t.columns()
    if mine[0].size != other[0].size or mine[1].size != other[1].size:
        raise CannotBe(f"the odd column differs: odd={e.odd!r}, the target has {t.odd!r}")
    w, v = e.frequencies(), t.frequencies()
    ratio = float(v[0] / w[0])
    ratio = 1.0 if abs(ratio - 1) <= SLACK else ratio
    if (np.abs(w * ratio - v) > SLACK * v).any():
        k = int(np.argmax(np.abs(w - v) > SLACK * v))
        raise CannotBe(
            f"frequencies differ (pair {k}: {w[k]:.8g} rad per position, {v[k]:.8g} in the "
            f"target): build it with base={t.base:g}, denominator={t.denominator!r}"
        )
    result = Conversion()
    at = moved_positions(result, ratio, ratio * t.offset - e.offset, apply=False)
    columns = np.arange(e.dim)
    for own, wanted in zip(mine, other, strict=True):
        columns[wanted] = own
    body = [f"columns = np.array({columns.tolist()})"]
    pick = f"fn({at})[:, columns]"
    if np.array_equal(columns, np.arange(e.dim)):
        body, pick = [], f"fn({at})"
    else:
        result.steps.append("reorder the columns, as [:, columns] does")
    size = t.scale / e.scale
    if size != 1.0:
        result.steps.append(f"multiply the table by {size:.9g}")
    result.code = code_of("table", [*body, f"return {times(pick, size)}"])
    return result


def _alibi(e: ALiBi, t: ALiBi) -> Conversion:
    if e.num_heads != t.num_heads:
        raise CannotBe(f"it has {e.num_heads} heads, the target {t.num_heads}")
    if e.causal and not t.causal:
        raise CannotBe("it says nothing of later keys, which the target has a bias for")
    factor = t.slopes() / e.slopes()
    if (np.abs(factor - 1) <= SLACK).all():
        if e.causal == t.causal:
            return same()
        step = "nothing for keys up to the query; mask later ones, as any causal model does"
        return Conversion([step], code_of("bias", ["return fn(q_len, k_len)"]))
    shown = ", ".join(f"{f:.6g}" for f in factor[:8]) + (", ..." if factor.size > 8 else "")
    result = Conversion([f"multiply the bias head by head, by {shown}"])
    body = [
        f"slopes = np.array({factor.tolist()})",
        "return fn(q_len, k_len) * slopes[:, None, None]",
    ]
    result.code = code_of("bias", body)
    return result
