"""Find the calls that a rotation accepts, and compose all other calls of these.

A function may take one batch size, one number of heads, one number of tokens, or only the positions
of one grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from posenc_ref.conformance.harness.driver import Driver, Malformed, Refused
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.probes import SIZES
from posenc_ref.conformance.harness.run import Run

#: Sizes to try; the tokens of grids are squares, with a [CLS] token or without.
_BATCHES = (2, 1)
_HEADS = (3, 1, 2, 4, 8, 12, 16, 32)
_TOKENS = (
    5, 64, 16, 2, 128, 256, 49, 196, 197, 144, 1024, 512, 576, 100, 1, 3, 7, 10, 25, 36, 81, 257,
    2048,
)  # fmt: skip
#: The longest side of a grid that is not square.
_LONGEST_SIDE = 16
#: The most grids to try for a number of tokens.
_GRIDS = 2


@dataclass(frozen=True)
class Domain:
    """The accepted calls; None stands for any number."""

    driver: Driver
    batch: int | None
    heads: int | None
    tokens: int | None
    #: The only positions of the tokens, (axes, tokens), or None if they may be any.
    only: np.ndarray | None

    @property
    def words(self) -> str:
        """The accepted calls in words."""
        parts = [] if self.batch is None else [f"batch size {self.batch}"]
        parts += [] if self.heads is None else [f"{self.heads} heads"]
        parts += [] if self.tokens is None else [f"{self.tokens} tokens"]
        if self.only is not None:
            last = " x ".join(str(int(n) + 1) for n in self.only.max(axis=1))
            what = f"the positions of a grid of {last}" if len(self.only) > 1 else (
                f"positions 0 to {int(self.only.max())}"
            )  # fmt: skip
            parts.append(what)
        return f"many calls are refused: all are composed of calls with {', '.join(parts)}"

    def apply(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Rotate x (B, H, S, D) in accepted calls; positions outside them raise ValueError."""
        x, positions = np.asarray(x), np.asarray(positions)
        batch, heads, length, _ = x.shape
        at = positions if positions.ndim == 3 else positions[None]
        at = np.broadcast_to(at, (len(at), batch, length)) if positions.ndim != 1 else (
            np.broadcast_to(at[:, None], (1, batch, length))
        )  # fmt: skip
        at = np.broadcast_to(at, (self.driver.axes, batch, length))
        y = np.array(x)
        step = self.heads or heads
        for b in range(batch):
            for chosen in self._calls(at[:, b]):
                for first in range(0, heads, step):
                    part = x[b, first : first + step][:, chosen[0]]
                    y[b, first : first + step, chosen[0]] = np.moveaxis(
                        self._call(part, at[:, b], *chosen), 1, 0
                    )
        return y

    def _calls(self, at: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the tokens of each call, and their places in it."""
        count = at.shape[1]
        if self.only is None:
            size = self.tokens or max(count, 1)
            for start in range(0, count, size):
                some = np.arange(start, min(start + size, count))
                yield some, np.arange(some.size)
            return
        place = {tuple(p): i for i, p in reversed(list(enumerate(self.only.T.tolist())))}
        waiting = list(range(count))
        while waiting:
            taken: dict[int, int] = {}
            for token in waiting:
                where = place.get(tuple(at[:, token].tolist()))
                if where is None:
                    raise ValueError(f"position {at[:, token].tolist()} is never accepted")
                taken.setdefault(where, token)
            yield np.array([*taken.values()]), np.array([*taken])
            waiting = [token for token in waiting if token not in set(taken.values())]

    def _call(
        self, part: np.ndarray, at: np.ndarray, tokens: np.ndarray, places: np.ndarray
    ) -> np.ndarray:
        """Return the tokens (H, n, D), rotated in one accepted call."""
        size = self.tokens or len(tokens)
        x = np.zeros((self.batch or 1, self.heads or len(part), size, part.shape[-1]))
        x[0, : len(part), places] = np.moveaxis(part, 1, 0)
        if self.only is None:
            positions = np.repeat(at[:, tokens[:1]], size, axis=1)
            positions[:, places] = at[:, tokens]
        else:
            positions = self.only
        y = self.driver.apply(x, _form(positions, x.shape[0]))
        return np.asarray(y[0, : len(part)][:, places])


def narrowed(run: Run) -> tuple[Implementation, str] | None:
    """Return the function composed of its accepted calls, and these in words, if it needs that."""
    driver, dim = replace(run.driver, factory=None), run.settings.head_dim or 0
    if not dim:
        return None
    try:
        driver.apply(np.ones((*SIZES[0], dim)), np.arange(SIZES[0][2]))
        return None
    except Malformed:
        return None
    except Refused:
        pass
    found = _search(driver, dim)
    if found is None:
        return None
    axes = driver.axes
    call = Implementation(
        lambda x, positions: found.apply(x, positions).astype(np.asarray(x).dtype),
        "apply", run.report.subject, head_dim=dim, num_heads=found.heads, axes=axes,
    )  # fmt: skip
    return call, found.words


def _accepts(driver: Driver, batch: int, heads: int, at: np.ndarray, dim: int) -> bool:
    x = np.ones((batch, heads, at.shape[1], dim))
    try:
        driver.apply(x, _form(at, batch))
    except (Refused, Malformed):
        return False
    return True


def _form(at: np.ndarray, batch: int) -> np.ndarray:
    """Return positions (axes, S) as (S,), or as (axes, B, S) for several axes."""
    if len(at) == 1:
        return np.asarray(at[0])
    return np.asarray(np.repeat(at[:, None], batch, axis=1))


def _search(driver: Driver, dim: int) -> Domain | None:
    sides = range(2, _LONGEST_SIDE + 1) if driver.axes == 2 else ()
    products = sorted({h * w for h in sides for w in sides})
    for tokens in dict.fromkeys((*_TOKENS, *products)):
        for at in _positions(driver.axes, tokens):
            for batch in _BATCHES:
                for heads in _HEADS:
                    if _accepts(driver, batch, heads, at, dim):
                        return _relaxed(driver, dim, batch, heads, at)
    return None


def _positions(axes: int, tokens: int) -> Iterator[np.ndarray]:
    """Yield the positions of a sequence, or of grids with this number of tokens."""
    yield np.tile(np.arange(tokens), (axes, 1))
    if axes == 2:
        sides = [(h, tokens // h) for h in range(2, tokens) if tokens % h == 0]
        for _, w in sorted(sides, key=lambda side: abs(side[0] - side[1]))[:_GRIDS]:
            yield np.stack(np.divmod(np.arange(tokens), w))


def _relaxed(driver: Driver, dim: int, batch: int, heads: int, at: np.ndarray) -> Domain | None:
    """Return the domain around one accepted call."""

    def takes(batch: int, heads: int, at: np.ndarray) -> bool:
        return _accepts(driver, batch, heads, at, dim)

    turned = at[:, ::-1].copy()
    free = at.shape[1] == 1 or takes(batch, heads, turned)
    any_batch = takes(1, heads, at) and takes(3, heads, at)
    any_heads = all(takes(batch, h, at) for h in (1, 2, 5))
    fewer = [n for n in (1, 3, 5) if n < at.shape[1]]
    any_tokens = free and bool(fewer) and all(takes(batch, heads, at[:, :n]) for n in fewer)
    if free and any_batch and any_heads and any_tokens:
        return None  # positions are limited, not sizes
    return Domain(
        driver,
        None if any_batch else batch,
        None if any_heads else heads,
        None if any_tokens else at.shape[1],
        None if free else at,
    )
