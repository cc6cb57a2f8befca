"""``apply`` of encodings whose heads differ: FoPE, and RoPE-Mixed with a weight for each head.

Error unit (see :mod:`posenc_ref.accuracy`): that of the encoding, for each head by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np

from posenc_ref import FoPE, MixedRoPE
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.step_options import along
from posenc_ref.conformance.diagnosis.together import Together, both
from posenc_ref.conformance.harness.probes import dense
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES

from .function import Arguments, Function, Plain, several

#: Batch rows, groups of heads and positions of the calls: (first position, tokens) or positions.
_CALLS: tuple[tuple[int, int, Any], ...] = (
    (1, 1, np.arange(4)), (2, 1, np.arange(5)), (3, 1, np.arange(33)),
    (1, 1, np.array([37])), (2, 1, np.arange(1001, 1010)), (1, 1, np.array([7, 0, 90, 3])),
    (1, 1, np.array([4095, 65537, 100003])), (2, 3, np.arange(6)),
    (5, 1, np.arange(70)), (1, 4, np.arange(40)), (1, 1, np.array([300007, 1048575])),
)  # fmt: skip
_OPTIONAL: tuple[tuple[int, int, Any], ...] = (
    (1, 1, np.array([-3, -64, -1])),
    (1, 1, np.array([0.5, 7.75, 33.5], np.float32)),
    (2, 1, np.array([[4, 9, 2, 0], [60, 5, 0, 1]])),
    (5, 1, np.array([[131071], [37], [1021], [4095], [8191]])),
    (3, 1, np.array([8180, 1014, 65530])[:, None] + np.arange(17)),
)
#: Positions of further axes lie below these: in calls near the origin, and in far ones.
_SIDE, _FAR_SIDE = 97, 99991


def by_head(encoding: Any) -> bool:
    """Return whether heads of the encoding have maps of their own."""
    if isinstance(encoding, MixedRoPE):
        return encoding.heads is not None
    return isinstance(encoding, FoPE)


def _heads(encoding: Any) -> int:
    return int((encoding.cos_coef if isinstance(encoding, FoPE) else encoding.weight).shape[0])


def _calls(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    axes = encoding.num_axes if isinstance(encoding, MixedRoPE) else 1
    for n, (rows, group, at) in enumerate((*_CALLS, *_OPTIONAL)):
        if group > 1 and not isinstance(encoding, FoPE):
            continue
        x = dense((rows, group * _heads(encoding), at.shape[-1], encoding.head_dim), seed + n)
        positions = at
        if axes > 1:
            side = _SIDE if at.max() <= _SIDE else _FAR_SIDE
            places = [at, *(at * (a + 2) % side for a in range(1, axes))]
            each = [np.broadcast_to(p, (rows, at.shape[-1])) for p in places]
            positions = np.stack(each).astype(at.dtype)
        shown = ", ".join(map(str, at.ravel()[:3].tolist())) + ", ..." * (at.size > 3)
        yield Arguments(f"positions {shown}", (x, positions), n < 3)


def _within(arguments: tuple[Any, ...], last: int) -> tuple[Any, ...]:
    x, positions = arguments
    near = positions.reshape(-1, positions.shape[-1]).max(axis=0) <= last
    return x[:, :, near], positions[..., near]


def _truth(encoding: Any, arguments: tuple[Any, ...], value: np.ndarray) -> Truth:
    x, positions = arguments
    if isinstance(encoding, FoPE):
        terms, angle = encoding.sizes(np.asarray(x, np.float64), positions)
    else:
        truth = apply_truth(encoding, x, positions)
        terms, angle = truth.terms, truth.angle
    return Truth(value, np.maximum(terms, np.where(terms > 0, np.abs(value), 0.0)), angle)


def _of(encoding: Any) -> Function:
    return lambda x, at: np.asarray(encoding.apply(np.asarray(x), at))


def _mistakes(encoding: Any) -> Iterator[Mistake]:
    own = _fope(encoding) if isinstance(encoding, FoPE) else _mixed(encoding)
    return several(*own)


def _weights(e: MixedRoPE) -> Iterator[tuple[str, str, MixedRoPE, str]]:
    """Yield the code, the message, the encoding and the remedy of known mistakes in the weight."""
    remedy = "Use weight[h] for head h."
    w = e.weight
    for text, weight in (
        ("the heads are in reverse order", w[::-1]),
        ("every head has the frequencies of head 0", w[:1]),
        ("every head has the frequencies of the last head", w[-1:]),
        ("every head has the mean of all heads' frequencies", w.mean(axis=0, keepdims=True)),
    ):
        changed = e.replace(weight=np.broadcast_to(weight, w.shape))
        yield "head-order", text, changed, remedy
    for code, words, value, *_ in along(np.asarray(w), ("head",)):
        yield code, f"the weight {words}", e.replace(weight=value()), remedy
    if w.shape[0] == w.shape[1]:
        text, remedy = "heads and axes are exchanged", "The weight is (H, A, P): exchange its axes."
        yield "head-order", text, e.replace(weight=w.swapaxes(0, 1)), remedy
    names = ("heads", "axes", "pairs")
    for order in permutations(range(3)):
        if order != (0, 1, 2):
            stored = ", ".join(names[n] for n in order)
            text = f"the weight, stored as ({stored}), is reshaped to (heads, axes, pairs)"
            remedy = (
                "Transpose the axes of the stored weight: a reshape keeps the order of numbers."
            )
            changed = e.replace(weight=w.transpose(order).reshape(w.shape))
            yield "head-order", f"{text}, not transposed", changed, remedy
    if e.num_axes > 1:
        text, remedy = "the position axes are in reverse order", "Use weight[:, a] for axis a."
        yield "axis-order", text, e.replace(weight=w[:, ::-1]), remedy
        for a in range(e.num_axes):
            one = np.zeros_like(w)
            one[:, a] = w[:, a]
            text, remedy = f"only axis {a} turns the pairs", "Sum the angles of all axes."
            yield "sections", text, e.replace(weight=one), remedy
    yield "sign", "the rotation turns the other way", e.replace(weight=-w), ""


def _mixed(e: MixedRoPE) -> Iterator[tuple[Any, ...]]:
    for code, text, changed, remedy in _weights(e):
        yield code, text, _of(changed), remedy
    remedy = "Use the given positions, which run from -1 to 1 for a coordinate c from 0 to 1."
    for code, text, factor, offset in (
        ("position-scale", "positions are (p + 1) / 2, such as c in place of 2 c - 1", 0.5, 0.5),
        ("position-origin", "positions are p + 1, such as 2 c in place of 2 c - 1", 1.0, 1.0),
    ):
        yield (
            code, text,
            lambda x, at, factor=factor, offset=offset: _of(e)(x, at * factor + offset), remedy,
        )  # fmt: skip
    layout = "half" if e.layout == "interleaved" else "interleaved"
    text = f"pairs are {layout}, declared {e.layout}"
    yield "layout", text, _of(e.replace(layout=layout))


def _fope(e: FoPE) -> Iterator[tuple[Any, ...]]:
    for code, text, changed, remedy in fope_variants(e):
        yield code, text, _of(changed), remedy
    order = interleaved(e.head_dim)
    back = np.argsort(order)
    yield (
        "layout", "pairs are interleaved, declared half",
        lambda x, at: _of(e)(x[..., order], at)[..., back],
        f"Pair d is the channels d and d + {e.head_dim // 2}.",
    )  # fmt: skip
    if (kept := e.cos_coef.shape[2]) < e.head_dim // 2:
        first = dropped_first(e)
        home = np.argsort(first)
        yield (
            "dropped-pairs", "the dropped pairs are the first, not the last",
            lambda x, at: _of(e)(x[..., first], at)[..., home],
            f"Pad C and S behind their {kept} columns.",
        )  # fmt: skip
    count = _heads(e)
    if count > 1:
        yield (
            "head-order", f"head n has the coefficients of head n mod {count}",
            lambda x, at: _dealt(e, x, at, count),
            "Give each key head's coefficients to its group of neighbouring query heads: "
            "repeat, not tile.",
        )  # fmt: skip


def _dealt(e: FoPE, x: np.ndarray, at: np.ndarray, count: int) -> np.ndarray:
    """Return the result if head n has the coefficients of head n mod ``count``."""
    order = np.argsort(np.arange(x.shape[1]) % count, kind="stable")
    return np.asarray(_of(e)(x[:, order], at)[:, np.argsort(order)])


def interleaved(head_dim: int) -> np.ndarray:
    """Return the order of channels that puts interleaved pairs in the place of half-split ones."""
    return np.arange(head_dim).reshape(-1, 2).T.ravel()


def dropped_first(e: FoPE) -> np.ndarray:
    """Return the order of channels that puts the first pairs in the place of the dropped ones."""
    pairs = np.roll(np.arange(e.head_dim // 2), int(e.cos_coef.shape[2]) - e.head_dim // 2)
    return np.concatenate([pairs, pairs + e.head_dim // 2])


def fope_variants(e: FoPE) -> Iterator[tuple[str, str, FoPE, str]]:
    """Yield the code, the message, the encoding and the remedy of each known mistake of FoPE."""
    cos, sin = (np.asarray(c, np.float64) for c in (e.cos_coef, e.sin_coef))
    k, d = cos.shape[1:]
    half = e.head_dim // 2
    kept = f"Pairs d >= {d} have C = 1 and S = {e.dropped_sin} at every position."
    if d < half:
        other = 1 - e.dropped_sin
        text = f"the sine of dropped pairs is {other}, declared {e.dropped_sin}"
        yield "dropped-pairs", text, e.replace(dropped_sin=other), kept
        wide = [np.zeros((len(cos), half, half)) for _ in range(2)]
        for full, coef in zip(wide, (cos, sin), strict=True):
            full[:, :k, :d] = coef
        text = "dropped pairs have C = 0 and S = 0: their channels are lost"
        lost = e.replace(cos_coef=wide[0].copy(), sin_coef=wide[1].copy())
        yield "dropped-pairs", text, lost, kept
        for full in wide:
            full[:, range(d, half), range(d, half)] = 1.0
        changed = e.replace(cos_coef=wide[0], sin_coef=wide[1])
        yield "dropped-pairs", "dropped pairs rotate by their own frequencies", changed, kept
    code, right = "coefficients", "C sums cos_coef[h, k, d] cos(p theta_k) over k, and S likewise."
    eye = np.broadcast_to(np.eye(k, d), cos.shape)
    pairs: list[tuple[str, Any, Any]] = [
        ("the coefficients are left out: pairs rotate as in RoPE", eye, eye),
        ("the coefficients of cos and sin are exchanged", sin, cos),
        ("the sines have the coefficients of the cosines", cos, cos),
        ("the cosines have the coefficients of the sines", sin, sin),
        ("only the sines have coefficients", eye, sin),
        ("only the cosines have coefficients", cos, eye),
        ("the identity is added to the coefficients, which contain it", cos + eye, sin + eye),
    ]
    with np.errstate(all="ignore"):
        normed = [c / c.sum(axis=-2, keepdims=True) for c in (cos, sin)]
    if all(np.isfinite(c).all() for c in normed):
        text = "each column of the coefficients is divided by its sum"
        pairs.append((text, normed[0], normed[1]))
    if k == d:
        text = "the coefficients are transposed"
        pairs.append((text, cos.swapaxes(-1, -2), sin.swapaxes(-1, -2)))
    if min(k, d) < half:
        whole = np.broadcast_to(np.eye(half), (len(cos), half, half))
        pairs.append(
            ("the coefficients are ignored: this is plain RoPE, of all pairs", whole, whole)
        )
    for text, c, s in pairs:
        yield code, text, e.replace(cos_coef=c, sin_coef=s), right
    if len(cos) > 1:
        for text, at in (
            ("the heads are in reverse order", [*range(len(cos))][::-1]),
            ("every head has the coefficients of head 0", [0] * len(cos)),
        ):
            changed = e.replace(cos_coef=cos[at], sin_coef=sin[at])
            yield "head-order", text, changed, "Use cos_coef[h] and sin_coef[h] for head h."
        both = np.stack([cos, sin], axis=1)
        for own, words, value, *_ in along(both, ("head",)):
            moved = value()
            changed = e.replace(cos_coef=moved[:, 0], sin_coef=moved[:, 1])
            text = f"the table of coefficients {words}"
            yield own, text, changed, "Use cos_coef[h] and sin_coef[h] for head h."
    text = "the rotation turns the other way"
    if d == half or not e.dropped_sin:
        yield "sign", text, e.replace(sin_coef=-sin), "y1 = x1 C - x2 S, y2 = x2 C + x1 S."
    for base in PUBLISHED_BASES:
        if base != e.base:
            text = f"the base is {base:g}, declared {e.base:g}"
            yield "base", text, e.replace(base=base), f"Use the base {e.base:g}."
    if k < half:
        text = f"exponents are divided by {2 * k}, twice the kept frequencies, not by head_dim"
        remedy = f"Use base ** (-2k / {e.head_dim}), and drop frequencies after that."
        yield "denominator", text, e.replace(base=e.base ** (half / k)), remedy


def _together(e: Any) -> Iterator[Together]:
    """Yield two mistakes of RoPE-Mixed that are made at once: one in the weight, and any other."""
    for code, text, one, remedy in _weights(e) if isinstance(e, MixedRoPE) else ():
        for other in _mistakes(one):
            yield both(Mistake(code, text, lambda call: None, remedy), other, other.predict)


#: How ``apply`` is judged if heads differ.
BY_HEAD = Plain(
    _calls, _mistakes, "inaccurate", integers=False, together=_together, truth=_truth,
    within=_within,
)  # fmt: skip
