"""Wrong results of ``apply`` at the right positions: other rotations, other elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any

import numpy as np

from posenc_ref import MultiAxisRoPE, RoPE, Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake, each_part
from posenc_ref.conformance.diagnosis.position_mistakes import PLACES
from posenc_ref.conformance.oracle.apply import apply_truth, identical
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES

Change = Callable[[np.ndarray], np.ndarray]
#: The code of tokens and heads that are mixed up.
ELEMENTS = "wrong-row"


def rotations(encoding: Rotary) -> Iterator[Mistake]:
    """Yield wrong rotations that keep the positions, and wrong orders of elements.

    Facts are calls with ``x`` (B, H, S, D), ``positions`` and ``memory``.
    """
    yield Mistake(
        "frequency-spacing",
        "nothing is rotated",
        lambda call: identical(call.x),
        "Rotate these tokens too, by the angles of their positions.",
    )
    yield from other_rotations(encoding)
    yield from _reordered(encoding)
    if encoding.num_axes == 1 and not getattr(encoding, "offset", 0):
        yield from _two_positions(encoding)


def other_rotations(encoding: Rotary) -> Iterator[Mistake]:
    """Yield rotations backwards, of other pairs, without the scaling, and with other factors."""
    if not isinstance(encoding, RoPE | MultiAxisRoPE):
        return

    def other(message: str, remedy: str, **change: object) -> Mistake:
        changed = encoding.replace(**change)
        predict = lambda c: apply_truth(changed, c.x, c.positions)  # noqa: E731
        return Mistake("layout", message, predict, remedy)

    yield other(
        "the rotation turns the other way, by -angle",
        "Rotate by +angle: y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin."
        if encoding.sign > 0
        else "Rotate by -angle: y1 = x1 cos + x2 sin, y2 = x2 cos - x1 sin.",
        sign=-encoding.sign,
    )
    if encoding.layout in ("half", "interleaved"):
        layout = "half" if encoding.layout == "interleaved" else "interleaved"
        text = f"pairs are {layout}, declared {encoding.layout}"
        pairs = f"Rotate {encoding.layout} pairs: {pairs_of(encoding)}."
        yield other(text, pairs, layout=layout, output_layout=None)
        text += ", and the rotation turns the other way"
        pairs += " Turn them by +angle." if encoding.sign > 0 else " Turn them by -angle."
        yield other(text, pairs, layout=layout, output_layout=None, sign=-encoding.sign)
    if isinstance(encoding, RoPE) and encoding.scaling is not None:
        remedy = f"Use the declared frequencies, with {encoding.scaling!r}."
        yield other("the declared scaling is missing", remedy, scaling=None)
    yield from _parameters(encoding)
    m = encoding.attention_factor()
    for words, factor in (("missing", 1 / m), ("applied twice", m)) if m != 1.0 else ():
        yield Mistake(
            "attention-factor",
            f"the attention factor is {words}",
            lambda c, by=factor: _times(encoding, apply_truth(encoding, c.x, c.positions), by),  # type: ignore[misc]
            f"Multiply cos and sin by the declared factor {m:.9g} once.",
        )


def _two_positions(encoding: Rotary) -> Iterator[Mistake]:
    """Yield rotations whose cos and sin are those of two different positions."""

    def both(of_cos: Change, of_sin: Change) -> Callable[[Any], Truth]:
        def predict(call: Any) -> Truth:
            turned = [
                apply_truth(encoding, call.x, p) for p in _there_and_back(of_cos(call.positions))
            ]
            sines = [
                apply_truth(encoding, call.x, p) for p in _there_and_back(of_sin(call.positions))
            ]
            still = (turned[0].value + turned[1].value) / 2
            return replace(turned[0], value=still + (sines[0].value - sines[1].value) / 2)

        return predict

    own = "Take cos and sin of the same angle, that of the token's own position."
    others: tuple[tuple[str, Change], ...] = (
        ("the token before", lambda p: np.concatenate([p[..., :1], p[..., :-1]], axis=-1)),
        ("the next token", lambda p: np.concatenate([p[..., 1:], p[..., -1:]], axis=-1)),
        ("the first token", lambda p: p[..., :1] + 0 * p),
        ("the position before", lambda p: p - 1),
        ("the position after", lambda p: p + 1),
    )
    for words, other in others:
        text = f"sin is that of {words}, cos is not"
        yield Mistake("not-a-rotation", text, both(_kept_places, other), own)
        text = f"cos is that of {words}, sin is not"
        yield Mistake("not-a-rotation", text, both(other, _kept_places), own)


def _kept_places(positions: np.ndarray) -> np.ndarray:
    return positions


def _there_and_back(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return positions, -positions


def _parameters(encoding: Any) -> Iterator[Mistake]:
    """Yield rotations with another base, and with positions scaled by another factor."""

    def other(code: str, message: str, remedy: str, **change: object) -> Iterator[Mistake]:
        with suppress(ValueError, TypeError):
            changed = encoding.replace(**change)
            predict = lambda c: apply_truth(changed, c.x, c.positions)  # noqa: E731
            yield Mistake(code, message, predict, remedy)

    def moved(by: float) -> Callable[[Any], Truth]:
        return lambda c: apply_truth(encoding, c.x, np.asarray(c.positions * by, np.float64))

    for base in PUBLISHED_BASES if isinstance(encoding.base, float) else ():
        if base != encoding.base:
            text = f"the base is {base:.10g}, declared {encoding.base:.10g}"
            yield from other("base", text, f"Use the base {encoding.base:.10g}.", base=base)
    factor = getattr(getattr(encoding, "scaling", None), "factor", None)
    for by in (1 / factor, factor) if factor and factor != 1.0 else (0.5, 2.0, 0.25, 4.0):
        text = f"positions are multiplied by {by:.6g}"
        remedy = "Use the positions as they are passed, unscaled."
        yield Mistake("position-scale", text, moved(by), remedy)


def other_axes(encoding: Rotary) -> Iterator[Mistake]:
    """Yield other positions (A, B, S) than declared, for encodings with several position axes."""
    count = encoding.num_axes

    def at(code: str, message: str, positions: Change, remedy: str) -> Mistake:
        predict = lambda c: apply_truth(encoding, c.x, positions(c.positions))  # noqa: E731
        return Mistake(code, message, predict, remedy)

    own = "Use the position of the token on each axis."
    for axis in range(count):
        text = f"the position on axis {axis} is used on every axis"
        yield at("sections", text, lambda p, a=axis: np.broadcast_to(p[a], p.shape), own)  # type: ignore[misc]
    for one, two in combinations(range(count), 2):
        order = list(range(count))
        order[one], order[two] = two, one
        text = f"axes {one} and {two} are exchanged"
        yield at("axis-order", text, lambda p, order=order: p[order], own)  # type: ignore[misc]
    for one, two in permutations(range(count), 2) if count > 2 else ():
        order = [one if a == two else a for a in range(count)]
        text = f"the position on axis {one} is used on axis {two} too"
        yield at("sections", text, lambda p, order=order: p[order], own)  # type: ignore[misc]
    for axis in range(count):
        text = f"the position on axis {axis} is taken as 0"
        still = np.arange(count)[:, None, None] == axis
        yield at("sections", text, lambda p, still=still: np.where(still, 0, p), own)  # type: ignore[misc]
    text = "positions (A, B, S) with as many rows as axes are read as (B, A, S)"
    yield at("position-axis", text,
             lambda p: p.transpose(1, 0, 2) if p.shape[0] == p.shape[1] else p,
             "The first axis of the positions is that of the position axes, whatever the number of "
             "rows: do not guess it from sizes.")  # fmt: skip
    text = "every row has the positions of row 0"
    yield at("row-offset", text, lambda p: np.broadcast_to(p[:, :1], p.shape),
             "Use the positions of each row.")  # fmt: skip
    text = "every token has the position of the first one"
    yield at("decode-offset", text, lambda p: np.broadcast_to(p[..., :1], p.shape), own)
    text = "the index in the call is used on every axis"
    yield at("decode-offset", text, lambda p: 0 * p + np.arange(p.shape[-1]), own)


def doubled(encoding: Rotary) -> Iterator[Mistake]:
    """Yield cos and sin that are doubled for channels as pairs of the other layout have them."""
    layout = getattr(encoding, "layout", "")
    if layout not in ("half", "interleaved"):
        return
    (a, b), n = encoding.pairs(), encoding.pairs()[0].size
    twice = np.arange(2 * n) // 2 if layout == "half" else np.arange(2 * n) % n
    other = "interleaved" if layout == "half" else "half-split"
    of_a, of_b = (twice[:n], twice[n:]) if layout == "half" else (twice[::2], twice[1::2])

    def predict(call: Any) -> Truth:
        unit = np.zeros((*call.x.shape[:1], 1, *call.x.shape[2:]))
        unit[..., a] = 1.0
        turn, truth = (apply_truth(encoding, x, call.positions) for x in (unit, call.x))
        out_a, out_b = encoding.output_pairs()
        cos, sin = turn.value[..., out_a], turn.value[..., out_b]
        one, two = call.x[..., a], call.x[..., b]
        value, terms = np.array(truth.value), np.array(truth.terms)
        value[..., out_a] = one * cos[..., of_a] - two * sin[..., of_a]
        value[..., out_b] = two * cos[..., of_b] + one * sin[..., of_b]
        terms[..., out_a] = terms[..., out_b] = np.abs(one) + np.abs(two)
        return Truth(value, terms, np.broadcast_to(truth.angle.max(), value.shape))

    yield Mistake(
        "mixed-layout",
        f"cos and sin are doubled for {other} pairs, but the rotation is of the declared ones: the "
        "two channels of a pair turn by different angles",
        predict,
        f"{rotate_pairs(encoding)} Both channels of a pair have the cos and sin of one angle.",
    )


def pairs_of(encoding: Any) -> str:
    """Return the declared pairs in words, such as "channel k with channel k + 32"."""
    (a, b) = encoding.pairs()
    if encoding.layout == "interleaved":
        return f"channel {a[0]} with {b[0]}, {a[1]} with {b[1]}, ..." if a.size > 1 else "0 with 1"
    start = f" from {a[0]} on" if a[0] else ""
    return f"channel k{start} with channel k + {b[0] - a[0]}"


def rotate_pairs(encoding: Rotary) -> str:
    """Return the declared pairs as an instruction."""
    if not hasattr(encoding, "layout"):
        return ""
    return f"Rotate the declared pairs: {pairs_of(encoding)}."


def _times(encoding: Rotary, truth: Truth, factor: float) -> Truth:
    """Return a result with the rotated channels multiplied."""
    scale = np.ones(encoding.head_dim)
    scale[np.concatenate(encoding.output_pairs())] = factor
    return replace(
        truth,
        value=truth.value * scale,
        terms=truth.terms * np.abs(scale),
        angle=truth.angle * np.abs(scale),
    )


def _joined(x: np.ndarray) -> np.ndarray:
    """Return (B, H, S, D) from which heads and tokens were exchanged by a transpose, not undone."""
    return x.transpose(0, 2, 1, 3).reshape(x.shape)


def _split(x: np.ndarray) -> np.ndarray:
    """Return (B, H, S, D) read as (B, S, H, D), with heads and tokens exchanged by a transpose."""
    b, h, s, d = x.shape
    return x.reshape(b, s, h, d).transpose(0, 2, 1, 3)


def _reordered(encoding: Rotary) -> Iterator[Mistake]:
    """Yield results whose tokens, heads or rows were mixed up before or after the rotation."""
    mixed = "are exchanged by a reshape: they are mixed up"
    for what, of in (
        ("the result", _joined),
        ("the result", _split),
        ("x", _joined),
        ("x", _split),
    ):
        change = lambda part, call, of=of: of(part)  # noqa: E731
        yield _mixed(
            encoding,
            f"heads and tokens of {what} {mixed}",
            change if what == "x" else _kept,
            _kept if what == "x" else change,
            f"Exchange heads and tokens of {what} with a transpose, never with a reshape.",
        )
    for words, place, name in PLACES:
        stands = lambda part, call, of=place: of(part)  # noqa: E731
        own = f"Rotate every {name} of x by itself, and write it to its own place."
        yield _mixed(encoding, f"{words}, in the result", _kept, stands, own)
    remedy = "Read x by its strides, or make it contiguous first (contiguous(), ascontiguousarray)."
    write = "Write the result by its own strides: an array made like x (empty_like) has the "
    write += "strides of x."
    as_if = "in the order of its memory, as if it were contiguous"
    for message, before, after, mend in (
        (f"a transposed x is read {as_if}", _as_it_lies, None, remedy),
        (f"a transposed or sliced x is read {as_if}", _raw, None, remedy),
        ("the result for a transposed x is written in the order of the memory of x", None,
         _into_memory, write),
        ("a transposed x is read, and the result written, in the order of the memory of x",
         _as_it_lies, _into_memory, remedy),
    ):  # fmt: skip
        yield _mixed(encoding, message, before or _kept, after or _kept, mend)


def _kept(x: np.ndarray, call: Any) -> np.ndarray:
    return x


def _as_it_lies(x: np.ndarray, call: Any) -> np.ndarray:
    """Return the elements of x in the order of its memory, in its shape."""
    return _joined(x) if call.memory == "transposed" else x


def _raw(x: np.ndarray, call: Any) -> np.ndarray:
    """Return the first elements of the memory of x, of which a sliced x has every other row."""
    if call.memory == "sliced":
        return np.concatenate([x, x], axis=-1).ravel()[: x.size].reshape(x.shape)
    return _as_it_lies(x, call)


def _into_memory(y: np.ndarray, call: Any) -> np.ndarray:
    """Return the elements of y, written one after the other into memory that lies like x."""
    return _split(y) if call.memory == "transposed" else y


def _mixed(
    encoding: Rotary,
    message: str,
    before: Callable[[np.ndarray, Any], np.ndarray],
    after: Callable[[np.ndarray, Any], np.ndarray],
    remedy: str,
) -> Mistake:
    def predict(call: Any) -> Truth:
        truth = apply_truth(encoding, before(call.x, call), call.positions)
        return each_part(truth, lambda part: after(np.broadcast_to(part, call.x.shape), call))

    return Mistake(ELEMENTS, message, predict, remedy)
