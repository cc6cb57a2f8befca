"""The declaration of a rotary encoding as numbers, for the diagnosis."""

from __future__ import annotations

import numpy as np

from posenc_ref import LinearScaling, MultiAxisRoPE, RoPE, Rotary

from .diagnose import Declared
from .frequencies import Schedule
from .schedule_mistakes import alternatives, multi_axis_alternatives, multi_axis_exponents


def live(encoding: Rotary, columns: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Those entries of arrays (pairs,) whose pairs turn at all: with a frequency other than 0."""
    turning = encoding.frequencies() != 0
    return tuple(c[turning] for c in columns)


def declare(encoding: Rotary) -> Declared:
    """The declaration as numbers."""

    def exact(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        m = encoding.attention_factor()
        cos, sin = (t.T for t in live(encoding, tuple(t.T for t in encoding.cos_sin(positions))))
        return cos / m, encoding.sign * sin / m

    def by_length(length: int) -> np.ndarray:
        return live(encoding, (encoding.frequencies(length),))[0]

    m = encoding.attention_factor()
    return Declared(
        schedule_of(encoding),
        live(encoding, (encoding.frequencies(),))[0],
        exact,
        m,
        "amplitude" if getattr(encoding, "scaling", None) is None else "attention-factor",
        encoding.sign,
        encoding.offset,
        by_length if encoding.depends_on_length else None,
        {
            "the attention factor is missing": 1.0,
            "the attention factor is applied twice": m * m,
            "the square root of the attention factor is applied": abs(m) ** 0.5,
            "cos and sin are divided by the attention factor": 1 / m,
        }
        if m != 1.0
        else {},
    )


def schedule_of(encoding: Rotary) -> Schedule:
    """The declared frequencies as numbers, with what they are confused with."""
    target = live(encoding, (encoding.frequencies(),))[0]
    if isinstance(encoding, MultiAxisRoPE):
        return Schedule(
            max(encoding.base) if isinstance(encoding.base, tuple) else encoding.base,
            1.0,
            target.size,
            target=target,
            rebased=None
            if isinstance(encoding.base, tuple)
            else lambda b: encoding.replace(base=b).frequencies(),
            variants=lambda: multi_axis_alternatives(encoding),
            late=lambda: multi_axis_exponents(encoding),
        )
    if not isinstance(encoding, RoPE):
        return Schedule(1.0, 1.0, target.size, target=target)
    assert encoding.rotary_dim is not None
    d = encoding.rotary_dim
    scaling = encoding.scaling
    if scaling is not None and not isinstance(scaling, LinearScaling):
        turning = encoding.frequencies() != 0
        return Schedule(
            encoding.base,
            d / 2,
            target.size,
            target=target,
            rebased=lambda b: encoding.replace(base=b).frequencies()[turning],
            variants=lambda: [
                e.at(turning) for e in alternatives(encoding) if e.predicted.size == turning.size
            ],
            plain=encoding.replace(scaling=None).frequencies()[turning],
        )
    factor = scaling.factor if scaling is not None else 1.0
    others = {
        "head_dim/2": encoding.head_dim / 2,
        "rotary_dim/2 - 1": d / 2 - 1,
        "(rotary_dim - 1)/2": (d - 1) / 2,
        "rotary_dim/2 + 1": d / 2 + 1,
    }
    late = lambda: alternatives(encoding)  # noqa: E731
    return Schedule(encoding.base, d / 2, d // 2, factor, others, late=late)
