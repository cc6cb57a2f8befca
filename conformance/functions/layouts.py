"""Rows of plain functions around the rotation: weights permuted, vectors normalised.

``normed_apply``: A = |n1 cos| + |n2 sin| of the normalised and weighted channels n (|n| where they
pass through), B = |p theta| m hypot(n1, n2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.harness.probes import dense
from posenc_ref.conformance.oracle.apply import apply_truth

from .function import Function, Plain, Probe, several, written

#: (n_heads, head_dim, hidden): heads of 8 and more, as 4 channels hide the direction.
WEIGHTS = ((1, 8, 3), (2, 8, 5), (3, 16, 4), (4, 64, 7), (4, 8, 32))
#: x is so much larger than any eps that nobody's eps shows in the dtype.
_LOUD = {"float64": 2.0**20, "float32": 2.0**10, "bfloat16": 2.0**10, "float16": 2.0**6}


def _rotary_dim(encoding: Any) -> int | None:
    return None if encoding is None else encoding.rotary_dim


def _weights(encoding: Any, seed: int, dtype: str) -> Iterator[Probe]:
    sizes: Sequence[tuple[int, int, int]] = WEIGHTS
    if encoding is not None:  # its own head_dim, in several numbers
        sizes = tuple((n, encoding.head_dim, hidden) for n, _, hidden in WEIGHTS)
    for n, d, hidden in sizes:
        yield Probe(f"{n} heads of {d}", (dense((n * d, hidden), seed + n + d), n))
    n, d, _ = sizes[1]
    yield Probe("a bias", (dense((n * d,), seed + 50), n), False)


def _weight_mistakes(encoding: Any) -> Iterator[Mistake]:
    d = _rotary_dim(encoding)

    def rows(order: Any) -> Function:
        """Rows (head, channel) taken in another order, given as an array of their numbers."""

        def permuted(w: np.ndarray, n: int) -> np.ndarray:
            return np.asarray(w[order(np.arange(len(w)), n, len(w) // n)])

        return permuted

    def of(source: str, target: str, dim: int | None = d) -> Function:
        return lambda w, n: pr.permute_weights(w, n, source=source, target=target, rotary_dim=dim)

    again = "perm takes x[perm]: [0, d/2, 1, d/2 + 1, ...] leads from half to interleaved."
    code = "permutation"
    yield from several(
        code,
        ("the permutation is the inverse one", of("interleaved", "half"), again),
        ("nothing is permuted", lambda w, n: w),
        ("all rows are permuted as if they were one head", lambda w, n: pr.permute_weights(w, 1)),
        (
            "all rows are permuted as if they were one head, the inverse way",
            lambda w, n: pr.permute_weights(w, 1, source="interleaved", target="half"),
        ),
    )
    if d is not None:
        yield written(
            code,
            "all channels of a head are permuted, not the rotary ones alone",
            of("half", "interleaved", None),
        )
    yield from several(
        code,
        (
            "columns are permuted, not rows",
            lambda w, n: np.asarray(pr.permute_weights(np.ascontiguousarray(w.T), n)).T,
            "Rows are output channels: permute axis 0.",
        ),
        (
            "channels are moved to the outside, heads to the inside",
            rows(lambda at, n, dim: at.reshape(n, dim).T.ravel()),
        ),
        (
            "heads and halves are exchanged",
            rows(lambda at, n, dim: at.reshape(n, 2, dim // 2).swapaxes(0, 1).ravel()),
        ),
        (
            "the two halves of each head are exchanged",
            rows(lambda at, n, dim: at.reshape(n, 2, dim // 2)[:, ::-1].ravel()),
        ),
        (
            "the channels of each pair are exchanged",
            rows(lambda at, n, dim: at.reshape(n, 2, dim // 2)[:, ::-1].swapaxes(1, 2).ravel()),
        ),
    )


def _normed(encoding: Any, seed: int, dtype: str) -> Iterator[Probe]:
    d = encoding.head_dim
    weight = 1.0 + 0.3 * dense((d,), seed + 60)
    for i, (size, start) in enumerate(
        (((2, 3, 5), 0), ((3, 2, 1), 0), ((1, 2, 4), 0), ((2, 4, 6), 0), ((1, 2, 8), 1000))
    ):
        x = _LOUD[dtype] * dense((*size, d), seed + 61 + i)
        at = start + np.arange(size[2])
        if encoding.num_axes > 1:
            at = np.broadcast_to(at, (encoding.num_axes, size[0], size[2])).copy()
        yield Probe(f"positions from {start} on", (x, weight, at), start == 0)
    flat = np.ones(d)
    at = np.zeros((encoding.num_axes, 1, 3) if encoding.num_axes > 1 else 3, np.int64)
    yield Probe(
        "all weights 1, position 0", (_LOUD[dtype] * dense((1, 2, 3, d), seed + 70), flat, at)
    )


def _norm(x: np.ndarray) -> np.ndarray:
    """x over the root of its mean square."""
    return np.asarray(x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True)))


def _normed_truth(encoding: Any, arguments: tuple[Any, ...], value: np.ndarray) -> Truth:
    x, weight, positions = arguments
    truth = apply_truth(encoding, weight * _norm(x), positions)
    terms = np.where(truth.terms > 0, truth.terms, np.abs(truth.value))
    if not np.array_equal(value, truth.value):  # a mistake may have made more of it
        terms = np.maximum(terms, np.abs(value).max(axis=-1, keepdims=True))
    return Truth(value, terms, truth.angle)


def _normed_mistakes(encoding: Any) -> Iterator[Mistake]:
    def turned(x: np.ndarray, at: Any) -> np.ndarray:
        return np.asarray(encoding.apply(np.ascontiguousarray(x), at))

    order = "Normalise and weight q and k first, then rotate them."
    code = "norm-order"
    yield from several(
        code,
        (
            "the norm, or its weight alone, comes after the rotation",
            lambda x, w, at: w * _norm(turned(x, at)),
            order,
        ),
        ("the weight comes after the rotation", lambda x, w, at: w * turned(_norm(x), at), order),
        ("there is no norm", lambda x, w, at: turned(w * x, at), order),
        (
            "the norm is over all heads, not over each",
            lambda x, w, at: turned(
                w * x / np.sqrt(np.mean(x * x, axis=(1, 3), keepdims=True)), at
            ),
        ),
        (
            "the mean is taken off first: LayerNorm, not RMSNorm",
            lambda x, w, at: turned(w * _norm(x - x.mean(axis=-1, keepdims=True)), at),
        ),
    )
    for message, factor in (
        ("the weight is missing", lambda x, w: _norm(x)),
        ("1 is added to the weight", lambda x, w: (1 + w) * _norm(x)),
        ("1 is taken off the weight", lambda x, w: (w - 1) * _norm(x)),
        (
            "the sum of squares is not divided by head_dim",
            lambda x, w: w * _norm(x) / np.sqrt(x.shape[-1]),
        ),
        ("the mean of squares is taken without a root", lambda x, w: w * _norm(x) ** 2 / x),
        ("the weight is applied twice", lambda x, w: w * w * _norm(x)),
    ):
        yield written("amplitude", message, _before(turned, factor))
    for other, message in _other_rotations(encoding):
        yield written(
            other[0],
            message,
            lambda x, w, at, e=other[1]: np.asarray(e.apply(w * _norm(x), at)),
        )


def _before(turned: Function, factor: Function) -> Function:
    return lambda x, w, at: turned(factor(x, w), at)


def _other_rotations(encoding: Rotary) -> Iterator[tuple[tuple[str, Rotary], str]]:
    """The commonest mistakes of the rotation itself; ``apply`` is there for the others."""
    if not isinstance(encoding, pr.RoPE):
        return
    other = "half" if encoding.layout == "interleaved" else "interleaved"
    changed = encoding.replace(layout=other, output_layout=None)
    yield ("layout", changed), f"pairs are {other}, declared {encoding.layout}"
    yield ("sign", encoding.replace(sign=-encoding.sign)), "the rotation turns the other way"
    for base in (10000.0, 500000.0, 1000000.0):
        yield ("base", encoding.replace(base=base)), f"the base is {base:g}"
    if encoding.scaling is not None:
        plain = encoding.replace(scaling=None)
        yield ("scaling-missing", plain), "the declared scaling is missing"


LAYOUT_ROWS = {
    "permute_weights": Plain(
        _weights,
        _weight_mistakes,
        "permutation",
        integers=False,
    ),
    "normed_apply": Plain(
        _normed,
        _normed_mistakes,
        "norm-order",
        integers=False,
        truth=_normed_truth,
    ),
}
