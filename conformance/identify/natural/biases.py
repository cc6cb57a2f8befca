"""Biases and buckets that a call returns as matrices, as functions of a surface."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref.conformance.harness.foreign import NotTried, Refused
from posenc_ref.conformance.harness.implementation import Implementation

from .foreign import Foreign
from .owners import WINDOW
from .rows import tokens_first

#: The number of heads in calls with logits, and the sizes of trial calls.
_HEADS, _Q, _K = 8, 5, 11
#: The longest matrix that is asked for.
_MOST = 2**11

Ask = Callable[[int, int], np.ndarray]


def matrices(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function that returns a matrix of queries and keys as a bias, or as buckets."""
    for words, ask, sizes in _calls(fn):
        try:
            found = _heads_first(ask(*sizes), *sizes)
        except (Refused, ValueError):
            continue

        def bias(q_len: int, k_len: int, ask: Ask = ask) -> np.ndarray:
            if max(q_len, k_len) > 4 * _MOST:
                raise NotTried(f"the suite asks for no matrix longer than {4 * _MOST}")
            return _heads_first(ask(q_len, k_len), q_len, k_len)

        if found.dtype.kind in "iu" and len(found) == 1:
            yield Implementation(_bucket(bias), "bucket", fn.name, how=words)
        elif found.dtype.kind == "f":
            yield Implementation(bias, "bias", fn.name, how=words)
        else:
            continue
        return


def _bucket(bias: Ask) -> Callable[[np.ndarray], np.ndarray]:
    @functools.lru_cache(maxsize=2)
    def matrix(n: int) -> np.ndarray:
        return np.asarray(bias(n, n)[0])

    def bucket(relative_position: np.ndarray) -> np.ndarray:
        r = np.asarray(relative_position)
        far = int(np.abs(r).max(initial=0))
        if far >= _MOST:
            raise NotTried(f"the suite asks for no matrix longer than {_MOST}")
        n = max(1 << far.bit_length(), 8)
        return matrix(n)[np.where(r < 0, -r, 0), np.where(r > 0, r, 0)]

    return bucket


def _calls(fn: Foreign) -> Iterator[tuple[str, Ask, tuple[int, int]]]:
    """Yield the ways to ask for a matrix, with the sizes of a trial call."""

    def logits(q: int, k: int) -> np.ndarray:
        x = np.zeros((1, _HEADS, q, k))
        return fn(x, x=x, logits=x)[0]

    def square(q: int, k: int) -> np.ndarray:
        if q != k:
            raise ValueError("q_len and k_len must be equal: the function takes one length")
        return fn(q, length=q, num_heads=_HEADS)[0]

    yield (
        "both lengths, batch 1",
        lambda q, k: fn(1, query_length=q, key_length=k, num_heads=_HEADS)[0],
        (_Q, _K),
    )
    yield "one length", square, (_K, _K)
    yield (
        "a mask (1, k_len) of 1, the same row for every query",
        lambda q, k: _of_keys(fn(tokens=np.ones((1, k), np.int64), num_heads=_HEADS)[0], k),
        (_Q, _K),
    )
    yield f"logits of 0, of shape (1, {_HEADS}, q_len, k_len)", logits, (_Q, _K)
    for words, given in (("no argument", {}), (f"a window {WINDOW}", {"grid": WINDOW})):
        try:
            n = fn(**given)[0].shape[-1]
        except Refused:
            continue

        def whole(q: int, k: int, given: dict[str, Any] = given) -> np.ndarray:
            found = fn(**given)[0]
            if q != k or q not in found.shape:
                raise ValueError(f"the function has one matrix of shape {found.shape}")
            return found

        yield f"{words}: the matrix of {n} tokens", whole, (n, n)


def _of_keys(found: np.ndarray, k: int) -> np.ndarray:
    """Return a row for each head as (H, 1, k_len)."""
    row = tokens_first(found, (k,))
    if row.shape != (k, _HEADS):
        raise ValueError(f"expected {_HEADS} rows of {k} keys, got shape {found.shape}")
    return row.T[:, None]


def _heads_first(found: np.ndarray, q: int, k: int) -> np.ndarray:
    """Return a bias as (H, q_len, k_len); axes of 1 before it are dropped."""
    while found.ndim > 3 and found.shape[0] == 1:
        found = found[0]
    if found.ndim == 2:
        found = found[None]
    if found.ndim == 3 and found.shape[1:] in ((q, k), (1, k)):
        return found
    if found.ndim == 3 and found.shape[:2] == (q, k):
        return np.moveaxis(found, -1, 0)
    raise ValueError(f"expected a bias (H, {q}, {k}), got shape {found.shape}")
