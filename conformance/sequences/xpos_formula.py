"""The formula of xPos, written in steps that a wrong implementation may compute differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from posenc_ref import XPos
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.offset_sizes import Sizes
from posenc_ref.conformance.diagnosis.steps import Change, Steps, changes, computed, plain_steps
from posenc_ref.conformance.diagnosis.together import Stepped

from .cases_qk import Side


def xpos_rows(
    e: XPos, x: np.ndarray, positions: np.ndarray, keys: bool, middle: float, s: Steps
) -> np.ndarray:
    """Return queries or keys x (B, H, S, D) with xPos; ``middle`` is that of all positions."""
    d, code = e.head_dim, "amplitude"
    index = s.number("the index of the pair in the decay", np.arange(d // 2), code)
    gamma = float(s.factor("gamma", e.gamma, code))
    zeta = s.pick(
        "the decay of a pair",
        (2 * index / d + gamma) / (1 + gamma),
        (code, "is not divided by 1 + gamma", 2 * index / d + gamma),
        (
            code,
            "is not divided by 1 + gamma, and is at most 1",
            np.minimum(2 * index / d + gamma, 1.0),
        ),
        (
            code,
            "lacks gamma above the division: it is (2k/d) / (1 + gamma)",
            2 * index / d / (1 + gamma),
        ),
        (code, "is (2k/d + gamma) / (d + gamma)", (2 * index / d + gamma) / (d + gamma)),
        (code, "is (k + gamma) / (d/2 + gamma)", (index + gamma) / (d / 2 + gamma)),
        (code, "is (index / d + gamma) / (1 + gamma)", (index / d + gamma) / (1 + gamma)),
        *(
            (code, f"is {above} / {below}", top / bottom)
            for above, top in (
                ("(2k/d + gamma)", 2 * index / d + gamma),
                ("(2k/d + gamma/d)", (2 * index + gamma) / d),
                ("(2k/d + 2 gamma/d)", 2 * (index + gamma) / d),
                ("(k/d + gamma)", index / d + gamma),
                ("((2k + 1)/d + gamma)", (2 * index + 1) / d + gamma),
                ("(2(k + 1)/d + gamma)", 2 * (index + 1) / d + gamma),
                ("(2k/d + 1)", 2 * index / d + 1),
                ("(2k/d - gamma)", 2 * index / d - gamma),
                ("(2k + gamma)", 2 * index + gamma),
                ("(k + gamma)", index + gamma),
            )
            for below, bottom in (
                ("(1 + gamma)", 1 + gamma),
                ("1", 1.0),
                ("gamma", gamma or np.nan),
                ("(1 - gamma)", 1 - gamma or np.nan),
                ("(d + gamma)", d + gamma),
                ("(d/2 + gamma)", d / 2 + gamma),
                ("(1 + gamma/d)", 1 + gamma / d),
                ("(1 + 2 gamma)", 1 + 2 * gamma),
                ("2", 2.0),
            )
        ),
    )
    zeta = s.array("the decay of a pair", zeta, ("pair",), code)
    p = np.asarray(positions, np.float64)
    p = p[:, None] if p.ndim > 1 else p
    own = (p.min(axis=-1, keepdims=True) + p.max(axis=-1, keepdims=True)) / 2 if p.size else p
    every = (p.min(initial=2**31) + p.max(initial=0)) / 2
    each = "is the middle of the positions of queries and of keys, each by itself"
    centre = s.pick(
        "the centre of the decay",
        e.centre,
        (code, each, every),
        (code, f"{each}, rounded down", np.floor(every)),
        (code, f"{each}, and each row by itself", own),
        (code, "is the middle of all positions of the call", middle),
        (code, "is the middle of all positions of the call, rounded down", np.floor(middle)),
        (code, "is the first position of queries and of keys, each by itself",
         p.min(axis=-1, keepdims=True, initial=2**31)),
        (code, "is half the number of tokens, in queries and keys each", x.shape[2] // 2),
        (code, "is 0", 0.0),
    )  # fmt: skip
    n = (p - centre) / s.factor("scale_base", float(e.scale_base), code)
    n = s.pick(
        f"(p - {e.centre:g}) / {e.scale_base:g} in the exponent of the decay",
        n,
        (code, "is an integer: rounded down, as by //", np.floor(n)),
        (code, "is an integer: rounded to the nearest", np.rint(n)),
        (code, "is an integer: rounded up", np.ceil(n)),
        (code, "is an integer: rounded towards 0", np.trunc(n)),
    )
    power = s.pick(
        "the exponent of the decay",
        -n if keys else n,
        (code, "has the opposite sign", n if keys else -n),
        (code, "is positive for keys too", n),
        (code, "is negative for queries too", -n),
        (code, "is 0 for keys", 0 * n if keys else n),
        (code, "is 0 for queries", -n if keys else 0 * n),
        (code, "is an integer: rounded down", np.floor(-n if keys else n)),
    )
    with np.errstate(all="ignore"):
        size = zeta ** power[..., None]
        angle = p[..., None] * e.frequencies()
        cos, sin = np.cos(angle), e.sign * np.sin(angle)
        first, second = e.pairs()
        # The decay of channel c, if it is repeated in the layout of other pairs.
        other = e.replace(layout="half" if e.layout == "interleaved" else "interleaved")
        wide = np.empty((*size.shape[:-1], d))
        for channels in other.pairs():
            wide[..., channels] = size
        plain = np.empty_like(wide)
        for channels in (first, second):
            plain[..., channels] = size
        wide = s.pick(
            "the decay of the channels",
            plain,
            ("mixed-layout", f"is repeated as for {other.layout} pairs, the rotation has "
             f"{e.layout} pairs", wide),
        )  # fmt: skip
        y = np.array(x, np.float64)
        x1, x2 = x[..., first], x[..., second]
        y[..., first] = wide[..., first] * (x1 * cos - x2 * sin)
        y[..., second] = wide[..., second] * (x2 * cos + x1 * sin)
    return y


def declared_decay(e: XPos) -> str:
    """Return the declared decay as an instruction."""
    return (
        f"Declared: queries at position p are multiplied by zeta ** ((p - {e.centre:g}) / "
        f"{e.scale_base:g}), keys by its inverse, with zeta = (2k/{e.head_dim} + {e.gamma:g}) / "
        f"{1 + e.gamma:g} for pair k, k = 0 .. {e.head_dim // 2 - 1}; p is the position of the "
        "token itself."
    )


def xpos_steps(first: Side) -> Iterator[Mistake]:
    """Yield the mistake of every changed step of xPos; ``first`` is one of the judged sides."""
    e = first.encoding
    assert isinstance(e, XPos)
    remedy = declared_decay(e)
    for code, message, _, change in changes(plain_steps(partial(_value, first))):
        yield Mistake(code, message, predicted(change), remedy)


def stepped(first: Side) -> Stepped:
    """Return xPos in steps, of which two may be changed at once."""
    return Stepped(
        lambda sizes: plain_steps(partial(_value, first), sizes), predicted, lambda calls: Sizes()
    )


def predicted(
    *made: Change,
    sizes: Sizes = Sizes(),  # noqa: B008 (immutable)
    encoding: XPos | None = None,
) -> Callable[[Side], Truth | None]:
    """Return what changed steps give, of another xPos if one is passed."""

    def predict(side: Side) -> Truth | None:
        one = side if encoding is None else replace(side, encoding=encoding)
        value, truth = computed(partial(_value, one), *made, sizes=sizes), side.truth()
        value = np.broadcast_to(value, truth.value.shape)
        if not np.isfinite(value).all():
            return None
        size = np.maximum(truth.terms, np.abs(value) * (truth.terms > 0))
        return replace(truth, value=value, terms=size)

    return predict


def _value(side: Side, s: Steps) -> np.ndarray:
    ends = [float(f(p)) for p in (side.positions, side.others) for f in (np.min, np.max)]
    middle = (min(ends) + max(ends)) / 2
    assert isinstance(side.encoding, XPos)
    return xpos_rows(side.encoding, side.x, side.positions, side.keys, middle, s)
