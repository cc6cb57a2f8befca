"""The factor on q . k: ``softmax_scale``.

Error unit (see :mod:`posenc_ref.accuracy`): A = |value|, B = 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import ModelEncoding, YaRN
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS, significant
from posenc_ref.conformance.functions.function import Arguments, Plain, written
from posenc_ref.conformance.oracle.apply import exactly
from posenc_ref.schedules.yarn import mscale


def _once(model: ModelEncoding, seed: int, dtype: str) -> Iterator[Arguments]:
    yield Arguments("the model", ())


def scales(model: ModelEncoding) -> Iterator[tuple[str, float]]:
    """Return the message and the value of each known wrong factor on q . k."""
    scale = pr.softmax_scale(model)
    found: dict[str, float] = {}
    sizes = {e.head_dim for e in model.encodings.values() if isinstance(e, pr.Rotary)}
    for name, e in model.encodings.items():
        scaling = getattr(e, "scaling", None)
        if not isinstance(scaling, YaRN):
            continue
        for what in ("mscale_all_dim", "mscale"):
            weight = getattr(scaling, what)
            weight = 1.0 if weight is None else weight
            g = float(mscale(scaling.factor, weight))
            for base, by in (("2", np.log(2.0)), ("10", np.log(10.0))):
                of = 0.1 * weight * np.log(scaling.factor) / by + 1
                text = f"the logarithm of YaRN's factor ({what} of encoding {name}) is to base "
                found[f"{text}{base}, not natural"] = scale * (of / g) ** 2
            if g != 1.0:
                of = f"YaRN's factor {g:.6g} ({what} of encoding {name})"
                found[f"the declared scale is divided by the square of {of}"] = scale / g**2
                once = f"the declared scale is divided by {of}"
                square = (g**2 / scale) ** 2  # of a root of an integer, or not
                if what == "mscale_all_dim" and abs(square - round(square)) < 1e-6 * square:
                    once = f"the scale has {of} once, declared squared"
                found[once] = scale / g
                found[f"the declared scale is multiplied by the square of {of}"] = scale * g**2
                found[f"the declared scale is multiplied by {of}"] = scale * g
    for d in sorted(sizes):
        found[f"the scale is 1/sqrt({d}), that of a rotary head without scaling"] = d**-0.5
        found[f"the scale is 1/{d}, without the root"] = 1.0 / d
        found[f"the declared scale is divided by sqrt({d})"] = scale * d**-0.5
        found[f"the declared scale is multiplied by sqrt({d})"] = scale * d**0.5
    for kind, bits in SIGNIFICANT_BITS.items():
        found[f"the declared scale is rounded to {kind}"] = float(significant(scale, bits))
        text = f"the declared scale is cut, not rounded, to {kind}"
        found[text] = float(significant(scale, bits, cut=True))
    found["logits are not scaled at all"] = 1.0
    found["the scale is the inverse of the declared scale"] = 1 / scale
    found["the scale is the square of the declared scale"] = scale**2
    found["the scale is the square root of the declared scale"] = scale**0.5
    return ((message, value) for message, value in found.items() if value != scale)


def _scale_mistakes(model: ModelEncoding) -> Iterator[Mistake]:
    for message, value in scales(model):
        yield written("softmax-scale", message, lambda value=value: value)


def _other_sizes(
    model: ModelEncoding, arguments: tuple[Any, ...], actual: np.ndarray
) -> Iterator[Mistake]:
    """Yield scales by the root of another number of channels than declared."""
    scale, value = pr.softmax_scale(model), float(np.ravel(actual)[0])
    sizes = {e.head_dim for e in model.encodings.values() if isinstance(e, pr.Rotary)}
    if not np.isfinite(value) or value <= 0:
        return
    n = value**-2
    if abs(n - round(n)) <= 1e-5 * n and round(n) not in sizes and n >= 1:
        text = f"the scale is 1/sqrt({round(n)}), declared {scale:.9g}"
        if sizes:
            text += f": q and k have {', '.join(map(str, sorted(sizes)))} channels"
        yield written("softmax-scale", text, lambda: round(n) ** -0.5)
    for d in sorted(sizes):
        other = d * (scale / value) ** 2
        if abs(other - round(other)) <= 1e-5 * other and other >= 1:
            text = f"the scale has sqrt({round(other)}) in place of sqrt({d})"
            yield written("softmax-scale", text, lambda d=d, n=other: scale * (d / round(n)) ** 0.5)


def _scale_remedy(model: ModelEncoding) -> str:
    """Return the declared scale, as the root of the head size if it is one."""
    scale = pr.softmax_scale(model)
    n = scale**-2
    root = f" = 1/sqrt({round(n)})" if abs(n - round(n)) <= 1e-9 * n else ""
    return f"Multiply q . k by {scale:.9g}{root}, once."


SCALE = Plain(
    _once,
    _scale_mistakes,
    "softmax-scale",
    integers=False,
    truth=lambda encoding, arguments, value: exactly(value),
    suggested=_other_sizes,
    remedy=_scale_remedy,
)
