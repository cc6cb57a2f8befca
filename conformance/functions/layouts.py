"""Plain functions around the rotation: permuted weights, normalised vectors.

Error unit (see :mod:`posenc_ref.accuracy`) of ``normed_apply``: a pair (n1, n2) of the normalised
and weighted vector has A = |n1 cos| + |n2 sin| and B = |angle| m hypot(n1, n2), with the attention
factor m.  A channel that passes through has A = |n| and B = 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations, product
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.together import Together, both
from posenc_ref.conformance.harness.probes import dense
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES

from .function import Arguments, Function, Plain, Returned, several, written

#: (n_heads, head_dim, hidden); with a head_dim of 4, a permutation equals its inverse.  The last
#: hidden size is that of other heads, of half the width.
WEIGHTS = ((1, 8, 3), (2, 8, 5), (3, 16, 4), (4, 64, 7), (4, 8, 32), (3, 16, 24))
#: The axes of the rows of half-split weights.
_ROWS = ("heads", "2", "d/2")
#: (B, H, S) and the first position of calls with a norm.
_NORMED = (
    ((2, 3, 5), 0), ((3, 2, 1), 0), ((1, 2, 4), 0), ((2, 4, 6), 0), ((1, 2, 8), 1000),
    ((2, 9, 33), 8180), ((5, 3, 1), 131071), ((1, 2, 130), 4000),
)  # fmt: skip
#: In calls that start later, all tokens are made equally large.
_NEAR = 1000
#: Numbers added to the mean of squares that change results where x has size 1.
_EPS = tuple(10.0**-n for n in range(5))
#: The size of x by dtype: large enough to make eps negligible.
_LOUD = {"float64": 2.0**20, "float32": 2.0**10, "bfloat16": 2.0**10, "float16": 2.0**6}


def _weights(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    sizes: Sequence[tuple[int, int, int]] = WEIGHTS
    if encoding is not None:  # the declared head_dim
        sizes = tuple((n, encoding.head_dim, hidden) for n, _, hidden in WEIGHTS)
    for n, d, hidden in sizes:
        yield Arguments(f"{n} heads of {d}", (dense((n * d, hidden), seed + n + d), n))
    n, d, _ = sizes[1]
    yield Arguments("a bias", (dense((n * d,), seed + 50), n), False)


def _weight_mistakes(encoding: Any) -> Iterator[Mistake]:
    d = None if encoding is None else encoding.rotary_dim
    start = 0 if encoding is None else encoding.rotary_start

    def rows(order: Function) -> Function:
        """Return a function reordering rows: ``order`` permutes row indices (heads, 2, d / 2)."""
        return lambda w, n: w[order(np.arange(len(w)).reshape(n, 2, -1)).ravel()]

    def of(source: str, target: str, dim: int | None = d, first: int = start) -> Function:
        at = {"rotary_dim": dim, "rotary_start": first}
        return lambda w, n: _permuted(w, n, source=source, target=target, **at)

    code, right = "permutation", of("half", "interleaved")
    each = "Permute the rows of every head: head h has rows h * head_dim to (h + 1) * head_dim - 1."
    yield from several(
        (code, "the permutation is the inverse one",
         of("interleaved", "half"),
         "x[perm] with perm = [0, d/2, 1, d/2 + 1, ...] changes half-split to interleaved."),
        (code, "nothing is permuted", lambda w, n: w),
        (code, "only the rows of head 0 are permuted, those of the other heads are not",
         lambda w, n: np.concatenate([right(w, n)[: len(w) // n], w[len(w) // n :]]), each),
        (code, "the rows of head 0 are not permuted, those of the other heads are",
         lambda w, n: np.concatenate([w[: len(w) // n], right(w, n)[len(w) // n :]]), each),
        (code, "the rows of the last head are not permuted, those of the other heads are",
         lambda w, n: np.concatenate([right(w, n)[: -len(w) // n], w[-len(w) // n :]]), each),
        (code, "every head gets the permuted rows of head 0",
         lambda w, n: np.concatenate([right(w, n)[: len(w) // n]] * n), each),
        (code, "all rows are permuted as if they were one head",
         lambda w, n: _permuted(w, 1)),
        (code, "all rows are permuted as if they were one head, the inverse way",
         lambda w, n: _permuted(w, 1, source="interleaved", target="half")),
    )  # fmt: skip
    if d is not None:
        text = "all channels of a head are permuted, not only the rotary ones"
        yield written(code, text, of("half", "interleaved", None, 0))
    yield from several(
        (code, "columns are permuted, not rows",
         lambda w, n: np.asarray(_permuted(np.ascontiguousarray(w.T), n)).T,
         "Rows are output channels: permute axis 0."),
        (code, "the two halves of each head are exchanged", rows(lambda at: at[:, ::-1])),
        (code, "the channels of each pair are exchanged",
         rows(lambda at: at[:, ::-1].swapaxes(1, 2))),
    )  # fmt: skip
    yield from (one for *_, one in _views(encoding))


#: The order of the rows of interleaved weights.
_DECLARED = (0, 2, 1)


def _views(encoding: Any) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], Mistake]]:
    """Yield rows that are viewed as some axes and put in another order, if all are permuted."""
    if encoding is not None and encoding.rotary_dim != encoding.head_dim:
        return
    for viewed, order in product(permutations(range(3)), repeat=2):
        if viewed == order or (viewed, order) == ((0, 1, 2), _DECLARED):
            continue  # nothing is permuted, or as declared
        seen, made = (f"({', '.join(_ROWS[axis] for axis in axes)})" for axes in (viewed, order))
        text = f"rows are viewed as {seen} and put in the order {made}"
        remedy = "They are (heads, 2, d/2), and (heads, d/2, 2) is declared."
        of = partial(_viewed, viewed=viewed, order=order)
        yield viewed, order, written("permutation", text, of, remedy)


def _reversed_axes(encoding: Any) -> Iterator[Together]:
    """Yield rows of which one axis runs backwards, in the declared order or in another one."""
    own = (0, 1, 2)
    every = [(own, _DECLARED, None), *_views(encoding), (own, own, None)]
    for (viewed, order, other), axis in product(every, (1, 0, 2)):
        of = partial(_viewed, viewed=viewed, order=order, reversed_axes=(axis,))
        text = f"the axis {_ROWS[axis]} of the rows, (heads, 2, d/2), runs backwards"
        if viewed == order:
            text += ", and nothing else is permuted"
        one = written("permutation", text, of, "Keep the order of the rows on every axis.")
        yield [one] if other is None else both(other, one, one.predict)


def _viewed(
    w: np.ndarray,
    n: int,
    *,
    viewed: tuple[int, ...],
    order: tuple[int, ...],
    reversed_axes: tuple[int, ...] = (),
) -> np.ndarray:
    """Return rows that are taken for the axes ``viewed`` of :data:`_ROWS`, in another order.

    ``reversed_axes`` are axes of :data:`_ROWS` that run backwards.
    """
    sizes = (n, 2, len(w) // n // 2)
    view = w.reshape(*(sizes[axis] for axis in viewed), *w.shape[1:])
    view = np.flip(view, tuple(viewed.index(axis) for axis in reversed_axes))
    moved = view.transpose(*(viewed.index(axis) for axis in order), *range(3, view.ndim))
    return np.asarray(moved.reshape(w.shape))


def _permuted(w: np.ndarray, n: int, **how: Any) -> np.ndarray:
    """Return the permuted rows of n heads of whatever size."""
    return np.asarray(pr.permute_weights(w, n, head_dim=len(w) // n, **how))


def _normed(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    d = encoding.head_dim
    weight = 1.0 + 0.3 * dense((d,), seed + 60)
    for i, (size, start) in enumerate(_NORMED):
        x = dense((*size, d), seed + 61 + i)
        x = _LOUD[dtype] * (_norm(x) if start > _NEAR else x)  # of many tokens, some are small
        at = start + np.arange(size[2])
        if encoding.num_axes > 1:
            at = np.broadcast_to(at, (encoding.num_axes, size[0], size[2])).copy()
        yield Arguments(f"positions from {start} on", (x, weight, at), start == 0)
    x = _LOUD[dtype] * dense((1, 2, 3, d), seed + 72)
    at = np.zeros((encoding.num_axes, 1, 3) if encoding.num_axes > 1 else 3, np.int64)
    yield Arguments("all weights 1, position 0", (x, np.ones(d), at))
    if dtype != "float64":  # which would tell 1e-6 from 0
        yield Arguments("x of size 1, position 0", (_norm(x), weight, at))


def _norm(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True)))


def _normed_within(arguments: tuple[Any, ...], last: int) -> tuple[Any, ...]:
    """Return a call whose positions are moved back so that none is past ``last``."""
    x, weight, at = arguments
    return x, weight, np.maximum(at - max(int(at.max(initial=0)) - last, 0), 0)


def _normed_truth(encoding: Any, arguments: tuple[Any, ...], value: np.ndarray) -> Truth:
    x, weight, positions = arguments
    truth = apply_truth(encoding, weight * _norm(x), positions)
    terms = np.where(truth.terms > 0, truth.terms, np.abs(truth.value))
    angle = truth.angle
    if not np.array_equal(value, truth.value):  # a mistake may give larger values and angles
        terms = np.maximum(terms, np.abs(value).max(axis=-1, keepdims=True))
        angle = np.broadcast_to(angle.max(axis=-1, keepdims=True), angle.shape)
    return Truth(value, terms, angle)


def _normed_mistakes(encoding: Any) -> Iterator[Mistake]:
    yield from _norm_mistakes(encoding)
    for code, message, other in rotary_variants(encoding):
        rotated = _applied(other)
        yield written(code, message, lambda x, w, at, of=rotated: of(w * _norm(x), at))


def _normed_together(encoding: Any) -> Iterator[Together]:
    """Yield a wrong norm with a wrong weight, and a mistake of the norm in another rotation."""
    rotated = _applied(encoding)
    for (one, norm), (two, weight) in product(_norms(encoding), _weightings(encoding)):
        yield both(one, two, Returned(lambda x, w, at, n=norm, v=weight: rotated(v(w) * n(x), at)))
    for code, message, other in rotary_variants(encoding):
        turned = written(code, message, lambda x, w, at: x)
        for one in _norm_mistakes(other):
            yield both(one, turned, one.predict)


def _norm_mistakes(encoding: Any) -> Iterator[Mistake]:
    turned = _applied(encoding)
    order = "Normalise and weight q and k first, then rotate them."
    code = "norm-order"
    yield from several(
        (code, "the norm, or its weight alone, comes after the rotation",
         lambda x, w, at: w * _norm(turned(x, at)), order),
        (code, "the weight comes after the rotation",
         lambda x, w, at: w * turned(_norm(x), at), order),
    )  # fmt: skip
    for mistake, norm in _norms(encoding):
        yield replace(mistake, predict=Returned(lambda x, w, at, of=norm: turned(w * of(x), at)))
    for mistake, weight in _weightings(encoding):
        yield replace(
            mistake, predict=Returned(lambda x, w, at, of=weight: turned(of(w) * _norm(x), at))
        )
    rotated, d = _rotated(encoding), encoding.head_dim
    if not rotated.all():
        count, remedy = int(rotated.sum()), _OF_ALL.format(d=d)
        text = f"only the {count} rotated channels are normalised"
        for message, of in (
            (f"{text}, by their own norm", lambda x: _over(x, rotated)),
            (text, _norm),
        ):
            yield written(
                code,
                message,
                lambda x, w, at, of=of: turned(np.where(rotated, w * of(x), x), at),
                remedy,
            )


#: What is right where some channels are not rotated.
_OF_ALL = "Divide all {d} channels by the root of the mean square of all {d}, then rotate."
#: What is right for the weight of a norm.
_ITS_OWN = (
    "Give channel c of each head the weight of channel c: permute it with the rows of the "
    "projection, or not at all."
)


def _norms(encoding: Any) -> Iterator[tuple[Mistake, Function]]:
    """Yield wrong norms, each with the function of x that makes it."""
    rotated, d = _rotated(encoding), encoding.head_dim
    rows: list[tuple[str, str, str, Function]] = [
        (code, message, "", of) for code, message, of in (
            ("norm-order", "there is no norm", lambda x: x),
            ("norm-order", "the norm is over all heads, not over each",
             lambda x: x / np.sqrt(np.mean(x * x, (1, 3), keepdims=True))),
            ("norm-order", "the norm is over all channels of all tokens, not over each token",
             lambda x: x / np.sqrt(np.mean(x * x, (2, 3), keepdims=True))),
            ("norm-order", "the norm subtracts the mean: it is LayerNorm, declared RMSNorm",
             lambda x: _norm(x - x.mean(axis=-1, keepdims=True))),
            *(("amplitude", f"{eps:g} is added to the mean of squares, declared 1e-06",
               lambda x, eps=eps: x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps))
              for eps in _EPS),
            ("amplitude", "x is divided by its standard deviation, whose mean is subtracted, not "
             "by the root of the mean of squares", lambda x: x / np.std(x, axis=-1, keepdims=True)),
            ("amplitude", "the mean of squares is divided by head_dim - 1, not by head_dim",
             lambda x: _norm(x) * np.sqrt(1 - 1 / x.shape[-1])),
            ("amplitude", "the sum of squares is not divided by head_dim",
             lambda x: _norm(x) / np.sqrt(x.shape[-1])),
            ("amplitude", "the mean of squares is taken without a root", lambda x: _norm(x)**2 / x),
        )
    ]  # fmt: skip
    if not rotated.all():
        count = int(rotated.sum())
        rows += [
            ("norm-order", message, _OF_ALL.format(d=d), of) for message, of in (
                (f"the norm is over the {count} rotated channels only, not over all {d}",
                 lambda x: _over(x, rotated)),
                (f"the norm is over the {d - count} channels that are not rotated, not over all "
                 f"{d}", lambda x: _over(x, ~rotated)),
                ("rotated and other channels have norms of their own",
                 lambda x: np.where(rotated, _over(x, rotated), _over(x, ~rotated))),
                (f"the {d - count} channels that are not rotated are weighted, but not normalised",
                 lambda x: np.where(rotated, _norm(x), x)),
            )
        ]  # fmt: skip
    for code, message, remedy, of in rows:
        yield Mistake(code, message, Returned(of), remedy), of


def _weightings(encoding: Any) -> Iterator[tuple[Mistake, Function]]:
    """Yield wrong weights, each with the function of the weight that makes it."""
    rotated = _rotated(encoding)
    rows: list[tuple[str, str, str, Function]] = [
        ("norm-order", f"the weight of the norm is permuted {words}, but the channels of x are not",
         _ITS_OWN, of)
        for words, of in (
            ("from interleaved to half-split order", lambda w: np.r_[w[::2], w[1::2]]),
            ("from half-split to interleaved order", lambda w: w.reshape(2, -1).T.ravel()),
            ("into reverse order", lambda w: w[::-1]),
            ("by exchanging its halves", lambda w: np.roll(w, w.size // 2)),
        )
    ]  # fmt: skip
    rows += [
        ("amplitude", "the weight is missing", "", lambda w: 1 + 0 * w),
        ("amplitude", "1 is added to the weight", "", lambda w: 1 + w),
        ("amplitude", "1 is subtracted from the weight", "", lambda w: w - 1),
        ("amplitude", "the weight is applied twice", "", lambda w: w * w),
    ]
    if not rotated.all():
        remedy = f"Multiply all {rotated.size} channels by their weights."
        for words, some in (("", rotated), ("not ", ~rotated)):
            text = f"the weight multiplies only the {some.sum()} channels that are {words}rotated"
            rows.append(("amplitude", text, remedy, lambda w, some=some: np.where(some, w, 1.0)))
    for code, message, remedy, of in rows:
        yield Mistake(code, message, Returned(of), remedy), of


def _rotated(encoding: Rotary) -> np.ndarray:
    """Return which channels are rotated."""
    rotated = np.zeros(encoding.head_dim, bool)
    rotated[np.concatenate(encoding.pairs())] = True
    return rotated


def _over(x: np.ndarray, some: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.sqrt(np.mean(x[..., some] ** 2, axis=-1, keepdims=True)))


def _applied(encoding: Rotary) -> Function:
    return lambda x, at: np.asarray(encoding.apply(np.ascontiguousarray(x), at))


def rotary_variants(declared: Rotary) -> Iterator[tuple[str, str, Rotary]]:
    """Yield the code, the message and the encoding of each known wrong rotation."""
    if not isinstance(declared, pr.RoPE | pr.MultiAxisRoPE):
        return
    if declared.layout in ("half", "interleaved"):
        layout = "half" if declared.layout == "interleaved" else "interleaved"
        text = f"pairs are {layout}, declared {declared.layout}"
        yield "layout", text, declared.replace(layout=layout, output_layout=None)
    yield "sign", "the rotation turns the other way", declared.replace(sign=-declared.sign)
    if not isinstance(declared, pr.RoPE):
        return
    for base in PUBLISHED_BASES:
        if base != declared.base:
            text = f"the base is {base:g}, declared {declared.base:g}"
            yield "base", text, declared.replace(base=base)
    half = declared.pairs()[0].size
    for words, power in (
        (
            (
                f"{half - 1}, the number of pairs - 1: the last frequency is 1 / base",
                half / (half - 1),
            ),
            (f"{2 * half}, the number of channels", 0.5),
            (f"{half / 2:g}, half the number of pairs", 2.0),
        )
        if half > 1
        else ()
    ):
        text = f"the exponent of pair i is divided by {words}; declared {half}, the number of pairs"
        yield "denominator", text, declared.replace(base=declared.base**power)
    if declared.scaling is not None:
        text = "the declared scaling is missing"
        yield "scaling-missing", text, declared.replace(scaling=None)
    elif declared.rotary_dim != declared.head_dim:
        whole = declared.replace(rotary_dim=declared.head_dim, rotary_start=0, output_layout=None)
        yield "rotary-dim", "all channels are rotated", whole
    else:
        for d in (declared.head_dim // 2, declared.head_dim // 4):
            if d % 2 == 0 and d:
                text = f"{d} of {declared.head_dim} channels are rotated"
                yield "rotary-dim", text, declared.replace(rotary_dim=d)


LAYOUT_ROWS = {
    "permute_weights": Plain(
        _weights, _weight_mistakes, "permutation", integers=False, together=_reversed_axes
    ),
    "normed_apply": Plain(
        _normed,
        _normed_mistakes,
        "norm-order",
        integers=False,
        together=_normed_together,
        truth=_normed_truth,
        within=_normed_within,
        remedy=lambda encoding: (
            "Compute weight * x / sqrt(mean(x ** 2) + 1e-6) with the mean over "
            f"the {encoding.head_dim} channels of each head, then rotate the result."
        ),
    ),
}
