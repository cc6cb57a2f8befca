"""Evaluate a function at chosen positions, even if it accepts only some forms of positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .driver import Malformed, Refused
from .floor import LEAST_POSITION
from .probes import SIZES
from .run import Run

#: The most elements of x in one call from position 0; larger inputs are split over the batch.
_CHUNK = 2**24
#: The numbers of tokens of measuring calls of JAX, which compiles every operation for each shape.
_COMPILED = (16, 4096)
#: The same for calls that start at position 0.
_FROM_ZERO = (64, 1024, 2**15)
#: The most rows and heads of a call that gets many more tokens.
_FEW_ROWS = 4
#: The number of tokens that every call must accept; a longer call may be refused.
REQUIRED_TOKENS = max(size[-1] for size in SIZES)


def longest_call(accepts: Callable[[int], bool], refused: int, guess: int = 0) -> int:
    """Return the largest accepted number of tokens below ``refused``, or 0 if none is accepted."""
    low, high = REQUIRED_TOKENS, refused
    if low >= high or not accepts(low):
        return 0
    for middle in (guess, guess + 1):
        if low < middle < high:
            low, high = (middle, high) if accepts(middle) else (low, middle)
    return _bisect(accepts, low, high)


def _bisect(accepts: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest accepted number below ``high``; ``low`` is known to be accepted."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepts(middle) else (low, middle)
    return low


@dataclass
class Reach:
    """Finds the largest position that a function accepts.

    If it is smaller than the wanted one, the report lists a limit.
    """

    run: Run
    mode: str = ""
    highest: int | None = None  #: the largest accepted position, None before the search
    refused: str = field(default="", repr=False)
    longest: int = 2**17 - 1  #: the largest position of calls that must start at 0

    def touch(self, position: int) -> None:
        """Evaluate the function at one position; its exceptions pass through."""
        raise NotImplementedError(f"{type(self).__name__} evaluates nothing")

    def saw(self, positions: np.ndarray) -> None:
        """Record the highest of the judged positions."""
        if positions.size:
            self.run.reached(int(np.max(np.abs(positions))))

    def accepts(self, position: int) -> bool:
        """Return whether the function accepts a position."""
        before = self.run.ledger.highest
        try:
            self.touch(position)
        except (Refused, Malformed) as error:
            self.refused = str(error)
            self.run.ledger.highest = before
            if isinstance(error, Malformed):  # not refused, but the result is malformed
                self.run.add(error.code, str(error), f"position {position}")
            return False
        return True

    def within(self, positions: np.ndarray) -> np.ndarray:
        """Return those of ``positions`` that are accepted and not above ``max_position``."""
        return positions[positions <= self.reach(int(positions.max()))]

    def reach(self, wanted: int) -> int:
        """Return the largest accepted position up to ``wanted``, found by bisection."""
        wanted = self.run.settings.up_to(wanted)
        if self.mode == "prefix" and wanted > self.longest:
            found = self._searched(self.longest)
            if found == self.longest:
                self.run.limit(
                    f"judged up to position {found}: longer calls from position 0 are not made"
                )
            return found
        return self._searched(wanted)

    def _searched(self, wanted: int) -> int:
        """Return the largest accepted position up to ``wanted``, and report a smaller one."""
        if self.highest is not None and self.highest < wanted:
            return self.highest
        judged = self.run.ledger.highest
        if judged >= wanted or self.accepts(wanted):
            return wanted
        self.highest = _bisect(self.accepts, judged, wanted)
        axes = self.run.driver.axes
        if axes == 1 and self.highest < min(wanted, LEAST_POSITION):  # grids are small
            self.run.ledger.refuse_past(position=self.highest)
        where = " on all axes at once" if axes > 1 else ""
        self.run.limit(f"positions past {self.highest}{where} are refused ({self.refused})")
        return self.highest

    def from_zero(self, refused: str) -> None:
        """Record that every call must start at position 0."""
        self.mode = "prefix"
        self.run.limit(
            f"positions that do not start at 0 are refused ({refused}); "
            "judged inside contiguous calls from 0"
        )


def _wanted(run: Run, positions: np.ndarray) -> None:
    """Raise Refused for positions above ``max_position``."""
    if not run.settings.allows(positions.max(initial=0)):
        raise Refused(ValueError(f"past max_position={run.settings.max_position}"))


def _countable(positions: np.ndarray) -> None:
    """Raise Refused for negative and fractional positions: no call from position 0 has them."""
    if positions.dtype.kind not in "iu" or positions.min(initial=0) < 0:
        raise Refused(ValueError("only calls from position 0 on are accepted"))


@dataclass
class TableAccess(Reach):
    """The table of a function that takes positions only; ``read`` converts a result to rows."""

    read: Callable[[Any, int], np.ndarray] = lambda result, rows: result
    _kept: np.ndarray | None = field(default=None, repr=False)  #: the rows of the longest call

    @contextmanager
    def one_call(self) -> Iterator[None]:
        """Take all rows from one call, where every call must start at 0, so as to make fewer."""
        if self.mode == "prefix":
            self._kept = self._call(np.arange(self.run.ledger.highest + 1))
        try:
            yield
        finally:
            self._kept = None

    def learn(self) -> None:
        """Find out whether the function requires contiguous positions from 0."""
        try:
            self._call(np.array([3, 1, 7]))
            self.mode = "any"
        except (Refused, Malformed) as error:
            if isinstance(error, Malformed):  # no refusal: a wrong array
                self.run.add(error.code, str(error), "positions [3, 1, 7]")
            self.from_zero(str(error))

    def touch(self, position: int) -> None:
        """Evaluate one row."""
        self.rows(np.array([position]))

    def rows(self, positions: np.ndarray) -> np.ndarray:
        """Return the rows of the table at ``positions``."""
        _wanted(self.run, positions)
        if self.mode == "any":
            table = self._call(positions)
        else:
            _countable(positions)
            if self._kept is not None and positions.max(initial=0) < len(self._kept):
                return np.asarray(self._kept[positions])
            table = np.asarray(self._call(np.arange(int(positions.max()) + 1))[positions])
        self.saw(positions)
        return table

    def _call(self, positions: np.ndarray) -> np.ndarray:
        return self.read(self.run.driver.call(positions), positions.size)


@dataclass
class Access(Reach):
    """The results of ``apply`` at chosen positions.

    ``mode`` is the most general form of positions that the function accepts: ``any``,
    ``contiguous``, ``single`` (one token), or ``prefix`` (all positions from 0). Each refused form
    is a limit in the report.
    """

    dim: int = 0
    longest: int = 2**15 - 1
    most: int = 2**20  #: the most tokens in one call

    def touch(self, position: int) -> None:
        """Evaluate one token."""
        self.rows(np.ones((1, 2, 1, self.dim)), np.array([position]))

    def learn(self) -> None:
        """Find out which forms of positions are accepted.

        The calls are short, because a long call may change the state of the function.
        """
        x = np.ones((1, 2, 4, self.dim))
        tries = {"any": [3, 1, 7, 2], "contiguous": [7, 8, 9, 10], "single": [7]}
        for mode, positions in ((mode, np.array(at)) for mode, at in tries.items()):
            try:
                self.run.driver.apply(x[:, :, : positions.size], positions)
            except Refused as error:
                self.refused = str(error)
                continue
            except Malformed as error:  # no refusal: a wrong array
                self.run.add(error.code, str(error), f"positions {positions.tolist()}")
                continue
            self.mode = mode
            break
        else:
            self.from_zero(self.refused)
        if self.mode in ("contiguous", "single"):
            self.run.limit(
                f"positions that are not consecutive are refused ({self.refused}); "
                "judged in calls with one position, or with consecutive positions"
            )

    def lengths(self, positions: np.ndarray) -> np.ndarray:
        """Return, for each row of :meth:`rows`, the length of the call that computes it."""
        if self._alone(positions):
            return np.asarray(positions + 1)
        return np.full(positions.shape, positions.max(initial=0) + 1)

    def _alone(self, positions: np.ndarray) -> bool:
        """Return whether every row is computed in a separate call."""
        window = self.mode == "contiguous" and bool((np.diff(positions) == 1).all())
        return self.mode in ("contiguous", "single") and not window

    def rows(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Return ``apply`` of x (B, H, n, D) with token i at ``positions[i]``."""
        _wanted(self.run, positions)
        y = self._rows(x, positions)
        self.saw(positions)
        return y

    def _rows(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        apply = self.run.driver.apply
        if self._alone(positions):
            parts = [apply(x[:, :, i : i + 1], positions[i : i + 1]) for i in range(positions.size)]
            return np.concatenate(parts, axis=2)
        if self.mode != "prefix":
            return self._pieces(x, positions)
        _countable(positions)
        least = int(positions.max()) + 1
        length = self._compiled(least)
        whole = np.zeros((*x.shape[:2], length, x.shape[3]))
        y = np.empty_like(x)
        step = max(1, _CHUNK // (length * x.shape[1] * x.shape[3]))
        # Each position is used once: the positions of a probe are distinct.
        for b in range(0, x.shape[0], step):
            part = whole[b : b + step]
            part[:, :, positions] = x[b : b + step]
            try:
                found = apply(part, np.arange(length))
            except Refused:
                if length == least:
                    raise
                found = apply(part[:, :, :least], np.arange(least))
            y[b : b + step] = found[:, :, positions]
        return y

    def _compiled(self, length: int) -> int:
        """Return the tokens of a call from 0: for JAX one of a few numbers."""
        encoding = self.run.encoding
        if self.run.driver.backend_name != "jax" or encoding is None or encoding.depends_on_length:
            return length
        last = self.longest if self.highest is None else self.highest
        most = self.run.settings.up_to(last) + 1
        return next((size for size in _FROM_ZERO if length <= size <= most), length)

    def _pieces(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Evaluate x in one call, or in several shorter calls if that one is refused."""
        n = positions.size
        if n <= self.most:
            try:
                return self._padded(x, positions)
            except Refused as error:
                last = int(np.argmax(positions))
                if not self.run.driver.accepts(x[:, :, [last]], positions[[last]]):
                    raise  # the length is not the reason
                most = longest_call(lambda size: self._accepts(x, positions, size), n)
                if not most:  # the length is not the reason
                    raise
                self.most = most
                self.run.ledger.refuse_past(tokens=most)
                words = f"({error}); judged in shorter calls"
                self.run.limit(f"calls of more than {most} tokens are refused {words}")
        rows: list[np.ndarray] = []
        start = 0
        while start < n:
            part, own = self._part(positions, start, self.most)
            # This call may reduce ``most``, and with it the size of the next piece.
            rows.append(self._pieces(x[:, :, part], positions[part])[:, :, :own])
            start += own
        return np.concatenate(rows, axis=2)

    def _padded(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Call the function; where each shape is compiled, with one of a few numbers of tokens."""
        apply, n = self.run.driver.apply, positions.size
        if self.run.driver.backend_name != "jax" or self.mode != "any":
            return apply(x, positions)
        rows = x.shape[0] * x.shape[1]
        sizes = (1, *(_COMPILED if rows <= _FEW_ROWS else _COMPILED[:1]))
        index = np.minimum(np.arange(next((size for size in sizes if size >= n), n)), n - 1)
        # A single row is given twice: most calls have two.
        padded = np.repeat(x[:, :, index], 2 if rows == 1 else 1, axis=1)
        try:
            return apply(padded, positions[index])[:, : x.shape[1], :n]
        except Refused:  # the last position is repeated
            return apply(x, positions)

    def _part(self, positions: np.ndarray, start: int, most: int) -> tuple[np.ndarray, int]:
        """Return the token indices of one piece, and how many of its results are used.

        If the frequencies depend on the length, every piece also contains the largest
        position; its result is then dropped.
        """
        part = np.arange(start, min(start + most, positions.size))
        last = int(np.argmax(positions))
        by_length = self.run.encoding is not None and self.run.encoding.depends_on_length
        if not by_length or last in part:
            return part, part.size
        part = part[: most - 1]
        return np.append(part, last), part.size

    def _accepts(self, x: np.ndarray, positions: np.ndarray, most: int) -> bool:
        part, _ = self._part(positions, 0, most)
        return self.run.driver.accepts(x[:, :, part], positions[part])
