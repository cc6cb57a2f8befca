"""Arguments for the surfaces whose functions are compared by their values alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref.conformance.functions.judge import ROWS
from posenc_ref.conformance.harness.probes import SIZES
from posenc_ref.conformance.harness.run import Run

#: A name for the call, and the arguments.
Call = tuple[str, tuple[Any, ...]]
_LENGTHS = (5, 1, 2, 16, 64)


def calls(run: Run) -> list[Call]:
    """Return calls of the run's surface, from short to long, with positions below 64.

    Results at such positions are nearly free of rounding errors of angles.
    """
    surface = run.report.surface
    if surface in _ARGUMENTS:
        return [(_named(args), args) for args in _ARGUMENTS[surface](run)]
    probes = ROWS[surface].probes(None, run.settings.seed, run.driver.dtype)
    return [(probe.name, tuple(_rounded(run, a) for a in probe.arguments)) for probe in probes]


def _rounded(run: Run, argument: Any) -> Any:
    floating = isinstance(argument, np.ndarray) and argument.dtype.kind == "f"
    return run.driver.rounded(argument) if floating else argument


def _named(arguments: tuple[Any, ...]) -> str:
    said = (f"shape {a.shape}" if isinstance(a, np.ndarray) else str(a) for a in arguments)
    return f"arguments of {', '.join(said)}" if arguments else "no arguments"


def _sized(run: Run, *more: tuple[int, int, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield x (B, H, S, D) and positions (S,)."""
    for size in (*SIZES, *more):
        yield run.random((*size, _dim(run)), sum(size)), np.arange(size[-1])


def _dim(run: Run) -> int:
    return run.settings.head_dim or 64


def _qk(run: Run) -> Iterator[tuple[Any, ...]]:
    for x, at in _sized(run, (2, 5, 5), (1, 8, 60)):
        yield x, -x, at, at
        yield x, -x, at + 3, at
    x, y, at = (
        run.random((2, 6, 4, _dim(run)), 1),
        run.random((2, 2, 4, _dim(run)), 2),
        np.arange(4),
    )
    yield x, y, at, at


def _with_gradient(run: Run) -> Iterator[tuple[Any, ...]]:
    for x, at in _sized(run, (2, 5, 5)):
        yield x, at, run.random(x.shape, 1)


def _offsets(run: Run) -> Iterator[tuple[Any, ...]]:
    for size, (x, _) in zip((*SIZES, (2, 5, 5)), _sized(run, (2, 5, 5)), strict=True):
        yield x, np.arange(size[0]) * 7


def _several_calls(run: Run) -> Iterator[tuple[Any, ...]]:
    (x, _), (y, _) = list(_sized(run))[:2]
    send = run.driver.backend.asarray
    sent = [send(v, run.driver.dtype, run.driver.device) for v in (x, y, x)]
    yield ([(sent[0], 0)],)
    yield (list(zip(sent, (0, 7, 20), strict=True)),)


def _chunks(run: Run) -> Iterator[tuple[Any, ...]]:
    for chunks in ([5], [3, 1, 1], [16, 1, 1, 1, 4]):
        x = run.random((2, 3, sum(chunks), _dim(run)), len(chunks))
        yield x, chunks


def _deltas(run: Run) -> Iterator[tuple[Any, ...]]:
    for x, _ in _sized(run):
        yield from ((x, delta) for delta in (1, 0, 37))


def _weights(run: Run) -> Iterator[tuple[Any, ...]]:
    for heads in (2, 1, 5):
        yield run.random((heads * _dim(run), 12), heads), heads


def _normed(run: Run) -> Iterator[tuple[Any, ...]]:
    weight = 1 + run.random((_dim(run),), 9) / 8
    for x, at in _sized(run, (2, 5, 5), (1, 8, 60)):
        yield x, run.driver.rounded(weight), at
        yield x, run.driver.rounded(weight), at + 3


def _embeddings(run: Run) -> Iterator[tuple[Any, ...]]:
    for n in _LENGTHS:
        yield (run.random((2, n, _dim(run)), n),)


def _patches(run: Run) -> Iterator[tuple[Any, ...]]:
    yield from ((3, 4), (4, 3), (1, 5), (14, 14), (7, 9))


def _ranks(run: Run) -> Iterator[tuple[Any, ...]]:
    yield from ((n, size, rank) for n, size in ((8, 1), (8, 4), (12, 3)) for rank in range(size))


def _tokens(run: Run) -> Iterator[tuple[Any, ...]]:
    rng = np.random.default_rng(run.settings.seed)
    for shape in ((2, 7), (1, 1), (5, 60)):
        yield (rng.integers(0, 6, shape),)


_ARGUMENTS: dict[str, Callable[[Run], Iterator[tuple[Any, ...]]]] = {
    "apply_qk": _qk,
    "apply_vjp": _with_gradient,
    "apply_offset": _offsets,
    "calls": _several_calls,
    "decode": _chunks,
    "key_cache": _chunks,
    "shift_keys": _deltas,
    "permute_weights": _weights,
    "normed_apply": _normed,
    "add": _embeddings,
    "grid": _patches,
    "rank_slopes": _ranks,
    "ids_from_tokens": _tokens,
    "rows": lambda run: ((n,) for n in _LENGTHS),
    "layers": lambda run: ((n,) for n in (32, 4, 1, 64)),
    "softmax_scale": lambda run: iter([()]),
}
