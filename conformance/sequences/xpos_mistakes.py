"""Known mistakes of xPos: in its decay, and in its rotation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from posenc_ref import RoPE, Rotary, XPos
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import (
    JudgedCall,
    Mistake,
    each_part,
    mistakes,
    with_value,
)
from posenc_ref.conformance.diagnosis.offset_sizes import Sizes
from posenc_ref.conformance.diagnosis.scored import fits
from posenc_ref.conformance.diagnosis.together import (
    First,
    Predict,
    both,
    in_pairs,
    likely_changes,
    named_change,
    two_steps,
)
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES

from .cases_qk import Side
from .xpos_formula import declared_decay, predicted, stepped

#: Values of scale_base that are published, or likely mistakes.
SCALE_BASES = (512.0, 256.0, 1024.0, 2048.0, 128.0, 64.0, 4096.0, 1.0)
GAMMAS = (0.4, 0.0001, 0.2, 0.3, 0.5, 0.6, 0.8, 1.0)


def xpos_variants(declared: XPos) -> Iterator[tuple[str, str, Rotary]]:
    """Yield the finding's code, its message and the encoding of each known error in xPos fields."""
    plain = RoPE(declared.head_dim, layout=declared.layout, base=declared.base)
    yield "amplitude", "the decay is missing: a plain rotation", plain
    for code, text, field in _fields(declared):
        yield code, text, declared.replace(**field)


def _fields(declared: XPos) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the code, the message and the value of each field that is often wrong."""
    other = "half" if declared.layout == "interleaved" else "interleaved"
    text = f"pairs are {other}, declared {declared.layout}"
    yield "layout", text, {"layout": other}
    for base in PUBLISHED_BASES:
        yield "base", f"the base is {base:g}", {"base": base}
    for value in SCALE_BASES:
        text = f"scale_base is {value:g}, declared {declared.scale_base:g}"
        yield "amplitude", text, {"scale_base": value}
    for value in GAMMAS:
        text = f"gamma is {value:g}, declared {declared.gamma:g}"
        yield "amplitude", text, {"gamma": value}


def _truth(side: Side) -> Truth | None:
    """Return the expected result; None if the decay of a changed formula overflows."""
    try:
        return side.truth()
    except ValueError:
        return None


def xpos_mistakes(declared: XPos) -> Iterator[Mistake]:
    """Yield the known mistakes of xPos, likely ones first."""

    def changed(change: Callable[[Side], dict[str, Any]]) -> Callable[[Side], Truth | None]:
        return lambda side: _truth(replace(side, **change(side)))

    yield from mistakes(
        "amplitude",
        changed,
        *((text, lambda s, of=of: {"keys": of(s)}, _DECAY) for text, of in _SIDES),
    )
    yield Mistake("sign", _OTHER_WAY, _turned)
    for code, message, encoding in xpos_variants(declared):
        yield Mistake(
            code,
            message,
            changed(lambda s, encoding=encoding: {"encoding": encoding}),  # type: ignore[misc]
            declared_decay(declared) if code == "amplitude" else "",
        )
    for code, message, encoding in xpos_variants(declared):
        for what, keys in (("keys", True), ("queries", False)):
            yield Mistake(
                code,
                f"{what} only: {message}",
                changed(
                    lambda s, encoding=encoding, keys=keys: (  # type: ignore[misc]
                        {"encoding": encoding} if s.keys == keys else {}
                    )
                ),
                declared_decay(declared) if code == "amplitude" else "",
            )
    yield Mistake("", "", lambda side: None, fit=partial(_fitted_base, declared))
    for what, centre in _CENTRES:
        yield Mistake(
            "amplitude",
            f"the centre of the decay is {what}",
            changed(lambda s, of=centre: {"encoding": declared.replace(centre=float(of(s)))}),  # type: ignore[misc]
            _CENTRE,
        )
    for what, of in _OWN_CENTRES:
        yield Mistake(
            "amplitude",
            f"the decay of each of q and k is counted from {what} of its positions",
            partial(_decayed_from, of),
            _CENTRE,
        )
    yield Mistake(
        "decode-offset",
        "the decay follows the index in the call, not the position",
        _decayed_by_index,
        "Use the same positions for the angle and for the decay.",
    )


#: Whose decay queries and keys have: in words, and whether it is that of keys.
_SIDES: tuple[tuple[str, Callable[[Side], bool]], ...] = (
    ("queries and keys have each other's decay", lambda s: not s.keys),
    ("keys have the decay of queries", lambda s: False),
    ("queries have the decay of keys", lambda s: True),
)
#: Wrong centres of the decay. The length of a call is its largest position plus 1.
_CENTRES: tuple[tuple[str, Callable[[Side], int]], ...] = (
    ("position 0", lambda s: 0),
    ("half the length of the call", lambda s: s.length // 2),
    ("half the length of the call, rounded up", lambda s: (s.length + 1) // 2),
    ("(last position + 1) / 2 for each of q and k", lambda s: (int(s.positions.max()) + 1) // 2),
    (
        "(last position + 1) / 2, rounded up, for each of q and k",
        lambda s: (int(s.positions.max()) + 2) // 2,
    ),
    ("half the number of tokens in each of q and k", lambda s: s.x.shape[2] // 2),
    ("position 1", lambda s: 1),
    ("position -1", lambda s: -1),
)
#: Centres that each row of positions (..., S) has for itself, then those of all rows together.
_OWN_CENTRES: tuple[tuple[str, Callable[[np.ndarray], Any]], ...] = tuple(
    (f"{what}{of_all}", partial(of, axis=axis))
    for axis, of_all in ((-1, " of the row"), (None, ""))
    for what, of in (
        ("the middle (smallest + largest) / 2",
         lambda p, axis: (p.min(axis, keepdims=True) + p.max(axis, keepdims=True)) / 2),
        ("the middle (smallest + largest) // 2",
         lambda p, axis: (p.min(axis, keepdims=True) + p.max(axis, keepdims=True)) // 2),
        ("the mean", lambda p, axis: p.mean(axis, keepdims=True)),
        ("the smallest", lambda p, axis: p.min(axis, keepdims=True)),
        ("the largest", lambda p, axis: p.max(axis, keepdims=True)),
    )
)  # fmt: skip
_OTHER_WAY = "the rotation turns the other way"
_DECAY = "Queries are multiplied by zeta ** n, keys by zeta ** -n."
_CENTRE = (
    "Count the decay of queries and keys from one fixed position: a centre that moves with the "
    "call breaks logits with cached keys."
)


def _fitted_base(declared: XPos, run: Run, wrong: Sequence[JudgedCall]) -> list[Mistake]:
    """Return the mistake of the scale_base measured on the decay of the wrong sides, if any."""
    one = max(wrong, key=lambda call: call.actual.size)
    side: Side = one.facts
    (a, b), log = declared.pairs(), np.log(declared.decays())

    def size(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(np.hypot(x[..., a], x[..., b])).sum(axis=-1))

    with np.errstate(all="ignore"):
        seen, expected = (size(y) - size(side.x) for y in (one.actual, one.truth.value))
        ratio = float(np.sum(expected * seen) / np.sum(expected * expected))
    if not (np.isfinite(ratio) and ratio > 0 and np.isfinite(log).all()):
        return []
    found = []
    for digits in range(1, 7):
        base = float(f"{declared.scale_base / ratio:.{digits - 1}e}")
        for what, of in (("keys", (True,)), ("queries", (False,)),
                         ("queries and keys", (True, False))):  # fmt: skip
            other = declared.replace(scale_base=base)
            text = f"scale_base of {what} is {base:g}, declared {declared.scale_base:g}"

            def predict(s: Side, other: XPos = other, of: Any = of) -> Truth | None:
                return _truth(replace(s, encoding=other) if s.keys in of else s)

            found.append(
                Mistake("amplitude", text, predict, declared_decay(declared),
                        values={"declared": declared.scale_base, "measured": base})
            )  # fmt: skip
    every = (m for m in found if all(fits(run, w, m.predict(w.facts)) for w in wrong))
    return list(islice(every, 1))


def _decayed_by_index(side: Side) -> Truth:
    """Return the rotation to the positions, with the decay of the token's index in the call."""
    return _moved_decay(side, np.arange(side.x.shape[2]) - side.positions)


def _decayed_from(centre: Callable[[np.ndarray], Any], side: Side) -> Truth:
    """Return the rotation to the positions, with a decay that is counted from another centre."""
    encoding = side.encoding
    assert isinstance(encoding, XPos)
    return _moved_decay(side, encoding.centre - centre(side.positions) + 0 * side.positions)


def _moved_decay(side: Side, by: np.ndarray) -> Truth:
    """Return the result with a decay at positions that are moved by other numbers of tokens."""
    encoding, truth = side.encoding, side.truth()
    assert isinstance(encoding, XPos)
    off = by / encoding.scale_base
    size = np.exp(off[..., None] * np.log(encoding.decays()) * (-1 if side.keys else 1))
    size = size[:, None] if size.ndim == 3 else size
    both = np.ones(np.broadcast_shapes((*size.shape[:-1], 1), truth.value.shape))
    for channels in encoding.pairs():
        both[..., channels] = size
    return each_part(truth, lambda part: part * both)


def _turned(side: Side) -> Truth:
    """Return the rotation to -p, with the decay of the positions p."""
    truth = _mirrored(lambda side: side.truth(), side)
    assert truth is not None
    return truth


def _with_decay(of: Callable[[Side], bool], predict: Predict, side: Side) -> Truth | None:
    """Return what is predicted with the decay of keys, or with that of queries."""
    return predict(replace(side, keys=of(side)))


def _mirrored(predict: Predict, side: Side) -> Truth | None:
    """Return what is predicted for mirrored pairs, mirrored back: it turns the other way."""
    mirror = np.ones(side.encoding.head_dim)
    mirror[side.encoding.pairs()[1]] = -1
    truth = predict(replace(side, x=side.x * mirror))
    return None if truth is None else with_value(truth, truth.value * mirror)


def xpos_together(
    run: Run, calls: Sequence[JudgedCall], declared: XPos
) -> Iterator[Sequence[Mistake]]:
    """Yield a mistake beside the opposite turn, two changed steps, and a step beside a field."""
    turned, remedy = Mistake("sign", _OTHER_WAY, _turned), declared_decay(declared)
    swapped = {
        text: (Mistake("amplitude", text, lambda side: None, _DECAY), of) for text, of in _SIDES
    }
    steps = likely_changes(stepped(calls[0].facts).plain(Sizes()))
    for one in xpos_mistakes(declared):
        if one.code and one.message != _OTHER_WAY:
            yield both(turned, one, partial(_mirrored, one.predict))
        if one.code and one.message not in swapped and " only: " not in one.message:
            for first, of in swapped.values():
                yield both(first, one, partial(_with_decay, of, one.predict))
    known = [
        (Mistake(code, text, lambda side: None, remedy if code == "amplitude" else ""), field)
        for code, text, field in _fields(declared)
    ]
    for (one, field), (two, other) in in_pairs(known):
        if field.keys() != other.keys():
            encoding = declared.replace(**field, **other)
            yield both(one, two, lambda side, of=encoding: _truth(replace(side, encoding=of)))  # type: ignore[misc]
    for row in steps:
        for first, of in swapped.values():
            predict = partial(_with_decay, of, predicted(row[-1]))
            yield both(first, replace(named_change(row), remedy=row[2] or remedy), predict)
    others = [
        First(Mistake(code, text, lambda side: None), partial(predicted, encoding=encoding))
        for code, text, encoding in xpos_variants(declared)
        if isinstance(encoding, XPos) and encoding != declared
    ]
    for one, two in two_steps(run, calls, stepped(calls[0].facts), others):
        yield replace(one, remedy=one.remedy or remedy), two
