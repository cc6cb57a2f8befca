"""Plain functions around the rotation: permuted weights, normalised vectors.

Error unit (see :mod:`posenc_ref.accuracy`) of ``normed_apply``: a pair (n1, n2) of the normalised
and weighted vector has A = |n1 cos| + |n2 sin| and B = |angle| m hypot(n1, n2), with the attention
factor m.  A channel that passes through has A = |n| and B = 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

from .function import Arguments, Function, Plain, several, written

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
    whole = encoding is None or d == encoding.head_dim
    for viewed, order in product(permutations(range(3)), repeat=2) if whole else ():
        if viewed == order or (viewed, order) == ((0, 1, 2), (0, 2, 1)):
            continue  # nothing is permuted, or as declared
        seen, made = (f"({', '.join(_ROWS[axis] for axis in axes)})" for axes in (viewed, order))
        text = f"rows are viewed as {seen} and put in the order {made}"
        remedy = "They are (heads, 2, d/2), and (heads, d/2, 2) is declared."
        yield written(code, text, partial(_viewed, viewed=viewed, order=order), remedy)


def _viewed(
    w: np.ndarray, n: int, *, viewed: tuple[int, ...], order: tuple[int, ...]
) -> np.ndarray:
    """Return rows that are taken for the axes ``viewed`` of :data:`_ROWS`, in another order."""
    sizes = (n, 2, len(w) // n // 2)
    view = w.reshape(*(sizes[axis] for axis in viewed), *w.shape[1:])
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
    """Yield a mistake of the norm in another rotation."""
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
        (code, "there is no norm", lambda x, w, at: turned(w * x, at), order),
        (code, "the norm is over all heads, not over each",
         lambda x, w, at: turned(w * x / np.sqrt(np.mean(x * x, (1, 3), keepdims=True)), at)),
        (code, "the norm is over all channels of all tokens, not over each token",
         lambda x, w, at: turned(w * x / np.sqrt(np.mean(x * x, (2, 3), keepdims=True)), at)),
        (code, "the norm subtracts the mean: it is LayerNorm, declared RMSNorm",
         lambda x, w, at: turned(w * _norm(x - x.mean(axis=-1, keepdims=True)), at)),
    )  # fmt: skip
    for eps in _EPS:
        yield written(
            "amplitude",
            f"{eps:g} is added to the mean of squares, declared 1e-06",
            lambda x, w, at, eps=eps: turned(
                w * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps), at
            ),
        )
    yield from _partly_normed(encoding, turned)
    for words, move in (
        ("from interleaved to half-split order", lambda w: np.r_[w[::2], w[1::2]]),
        ("from half-split to interleaved order", lambda w: w.reshape(2, -1).T.ravel()),
        ("into reverse order", lambda w: w[::-1]),
        ("by exchanging its halves", lambda w: np.roll(w, w.size // 2)),
    ):
        yield written(
            code,
            f"the weight of the norm is permuted {words}, but the channels of x are not",
            lambda x, w, at, of=move: turned(of(w) * _norm(x), at),
            "Give channel c of each head the weight of channel c: permute it with the rows of the "
            "projection, or not at all.",
        )
    for message, factor in (
        ("x is divided by its standard deviation, whose mean is subtracted, not by the root of "
         "the mean of squares",
         lambda x, w: w * x / np.std(x, axis=-1, keepdims=True)),
        ("the mean of squares is divided by head_dim - 1, not by head_dim",
         lambda x, w: w * _norm(x) * np.sqrt(1 - 1 / x.shape[-1])),
        ("the weight is missing", lambda x, w: _norm(x)),
        ("1 is added to the weight", lambda x, w: (1 + w) * _norm(x)),
        ("1 is subtracted from the weight", lambda x, w: (w - 1) * _norm(x)),
        ("the sum of squares is not divided by head_dim",
         lambda x, w: w * _norm(x) / np.sqrt(x.shape[-1])),
        ("the mean of squares is taken without a root", lambda x, w: w * _norm(x) ** 2 / x),
        ("the weight is applied twice", lambda x, w: w * w * _norm(x)),
    ):  # fmt: skip
        yield written(
            "amplitude", message, lambda x, w, at, factor=factor: turned(factor(x, w), at)
        )


def _partly_normed(encoding: Rotary, turned: Function) -> Iterator[Mistake]:
    """Yield norms that take rotated and other channels apart, if there are both."""
    rotated = np.zeros(encoding.head_dim, bool)
    rotated[np.concatenate(encoding.pairs())] = True
    count, d = int(rotated.sum()), encoding.head_dim
    if count == d:
        return

    def over(x: np.ndarray, some: np.ndarray) -> np.ndarray:
        return np.asarray(x / np.sqrt(np.mean(x[..., some] ** 2, axis=-1, keepdims=True)))

    for message, of in (
        (f"the norm is over the {count} rotated channels only, not over all {d}",
         lambda x, w: w * over(x, rotated)),
        (f"the norm is over the {d - count} channels that are not rotated, not over all {d}",
         lambda x, w: w * over(x, ~rotated)),
        ("rotated and other channels have norms of their own",
         lambda x, w: w * np.where(rotated, over(x, rotated), over(x, ~rotated))),
        (f"only the {count} rotated channels are normalised, by their own norm",
         lambda x, w: np.where(rotated, w * over(x, rotated), x)),
        (f"only the {count} rotated channels are normalised",
         lambda x, w: np.where(rotated, w * _norm(x), x)),
        (f"the {d - count} channels that are not rotated are weighted, but not normalised",
         lambda x, w: w * np.where(rotated, _norm(x), x)),
    ):  # fmt: skip
        remedy = f"Divide all {d} channels by the root of the mean square of all {d}, then rotate."
        yield written("norm-order", message, lambda x, w, at, of=of: turned(of(x, w), at), remedy)


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
    half = declared.rotary_dim // 2
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
    "permute_weights": Plain(_weights, _weight_mistakes, "permutation", integers=False),
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
