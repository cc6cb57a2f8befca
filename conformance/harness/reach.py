"""Evaluate a function at any position, whatever kinds of positions it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .driver import Malformed, Refused
from .probes import SIZES
from .run import Run

#: Elements of x in one call when a whole prefix must be sent; larger inputs go in parts.
_CHUNK = 2**24
#: Tokens of the longest call that is required: longer ones may be refused for their length.
REQUIRED_TOKENS = max(size[-1] for size in SIZES)


def longest_call(accepts: Callable[[int], bool], refused: int, guess: int = 0) -> int:
    """Return the most tokens below ``refused`` that are accepted, by bisection; 0 if none are."""
    low, high = REQUIRED_TOKENS, refused
    if low >= high or not accepts(low):
        return 0
    for middle in (guess, guess + 1):
        if low < middle < high:
            low, high = (middle, high) if accepts(middle) else (low, middle)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepts(middle) else (low, middle)
    return low


@dataclass
class Reach:
    """Finds the largest position that a function accepts; smaller than wanted is a limit."""

    run: Run
    mode: str = ""
    highest: int | None = None  #: the largest accepted position, once it was looked for
    refused: str = field(default="", repr=False)
    longest: int = 2**17 - 1  #: where calls that have to start at 0 end

    def touch(self, position: int) -> None:
        """Evaluate one row; an exception of the function passes through."""
        raise NotImplementedError(f"{type(self).__name__} evaluates nothing")

    def saw(self, positions: np.ndarray) -> None:
        """Remember the highest position judged."""
        if positions.size:
            self.run.reached(int(np.max(np.abs(positions))))

    def accepts(self, position: int) -> bool:
        """Return whether the function accepts a position."""
        before = self.run.ledger.highest
        try:
            self.touch(position)
        except Refused as error:
            self.refused = str(error)
            self.run.ledger.highest = before
            return False
        except Malformed as error:  # no refusal: something else came out than was asked for
            self.refused = str(error)
            self.run.ledger.highest = before
            self.run.add("shape", str(error), f"position {position}")
            return False
        return True

    def within(self, positions: np.ndarray) -> np.ndarray:
        """Return the ``positions`` that are to be judged and are accepted."""
        return positions[positions <= self.reach(int(positions.max()))]

    def reach(self, wanted: int) -> int:
        """Return the largest accepted position up to ``wanted``, by bisection."""
        wanted = self.run.settings.up_to(wanted)
        if self.mode == "prefix" and wanted > self.longest:
            wanted = self.longest
            self.run.limit(f"judged up to position {wanted}: every call has to start at 0")
        if self.highest is not None and self.highest < wanted:
            return self.highest
        low, high = self.run.ledger.highest, wanted
        if low >= wanted or self.accepts(wanted):
            return wanted
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.accepts(middle) else (low, middle)
        self.highest = low
        self.run.limit(f"positions past {low} are refused ({self.refused})")
        return low


def _wanted(run: Run, positions: np.ndarray) -> None:
    """Raise Refused for positions that are not to be judged."""
    if not run.settings.allows(positions.max(initial=0)):
        raise Refused(ValueError(f"past max_position={run.settings.max_position}"))


def _countable(positions: np.ndarray) -> None:
    """Raise Refused for positions that no call from position 0 on contains."""
    if positions.dtype.kind not in "iu" or positions.min(initial=0) < 0:
        raise Refused(ValueError("only calls from position 0 on are accepted"))


@dataclass
class TableAccess(Reach):
    """Evaluates a function of positions alone; ``read`` turns its result into rows."""

    read: Callable[[Any, int], np.ndarray] = lambda result, rows: result

    def learn(self) -> None:
        """Find out whether positions must be contiguous from 0."""
        try:
            self._call(np.array([3, 1, 7]))
            self.mode = "any"
        except (Refused, Malformed) as error:
            if isinstance(error, Malformed):  # no refusal: a wrong array
                self.run.add("shape", str(error), "positions [3, 1, 7]")
            self.mode = "prefix"
            self.run.limit(
                f"positions that do not start at 0 are refused ({error}); "
                "judged inside contiguous calls from 0"
            )

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
            table = np.asarray(self._call(np.arange(int(positions.max()) + 1))[positions])
        self.saw(positions)
        return table

    def _call(self, positions: np.ndarray) -> np.ndarray:
        return self.read(self.run.driver.call(positions), positions.size)


@dataclass
class Access(Reach):
    """Evaluates ``apply`` at chosen positions: directly, one by one, or inside a prefix.

    What is refused on the way becomes a limit in the report.
    """

    dim: int = 0
    longest: int = 2**15 - 1
    most: int = 2**20  #: how many tokens a call may have

    def touch(self, position: int) -> None:
        """Evaluate one token."""
        self.rows(np.ones((1, 1, 1, self.dim)), np.array([position]))

    def learn(self) -> None:
        """Find out which positions are accepted, with small ones: long calls may latch state."""
        x = np.ones((1, 2, 3, self.dim))
        tries = {"any": [3, 1, 7], "contiguous": [7, 8, 9], "single": [7]}
        for mode, positions in ((mode, np.array(at)) for mode, at in tries.items()):
            try:
                self.run.driver.apply(x[:, :, : positions.size], positions)
            except Refused as error:
                self.refused = str(error)
                continue
            except Malformed as error:  # no refusal: a wrong array
                self.run.add("shape", str(error), f"positions {positions.tolist()}")
                continue
            self.mode = mode
            break
        else:
            self.mode = "prefix"
        if self.mode in ("contiguous", "single"):
            self.run.limit(
                f"positions that do not follow one another are refused ({self.refused}); "
                "judged one position, or one window, per call"
            )
        elif self.mode == "prefix":
            self.run.limit(
                f"positions that do not start at 0 are refused ({self.refused}); "
                "judged inside contiguous calls from 0"
            )

    def lengths(self, positions: np.ndarray) -> np.ndarray:
        """Return the length of the call that evaluates each row of :meth:`rows`."""
        if self._alone(positions):
            return np.asarray(positions + 1)
        return np.full(positions.shape, positions.max(initial=0) + 1)

    def _alone(self, positions: np.ndarray) -> bool:
        """Return whether every row is evaluated in a call of its own."""
        window = self.mode == "contiguous" and bool((np.diff(positions) == 1).all())
        return self.mode in ("contiguous", "single") and not window

    def rows(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Return ``apply`` of x (B, H, n, D), row n at ``positions[n]``."""
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
        length = int(positions.max()) + 1
        whole = np.zeros((*x.shape[:2], length, x.shape[3]))
        y = np.empty_like(x)
        step = max(1, _CHUNK // (length * x.shape[1] * x.shape[3]))
        # Rows that share a position cannot share a call; probes never repeat one.
        for b in range(0, x.shape[0], step):
            part = whole[b : b + step]
            part[:, :, positions] = x[b : b + step]
            y[b : b + step] = apply(part, np.arange(length))[:, :, positions]
        return y

    def _pieces(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Evaluate one call, or several if a call of so many tokens is refused."""
        n = positions.size
        if n <= self.most:
            try:
                return self.run.driver.apply(x, positions)
            except Refused as error:
                most = longest_call(lambda size: self._comes_out(x, positions, size), n)
                if not most:  # it is not the length
                    raise
                self.most = most
                words = f"({error}); judged in shorter ones"
                self.run.limit(f"calls of more than {most} tokens are refused {words}")
        rows: list[np.ndarray] = []
        start = 0
        while start < n:
            part, own = self._part(positions, start, self.most)
            # A piece may be cut further, and change how many go into the next one.
            rows.append(self._pieces(x[:, :, part], positions[part])[:, :, :own])
            start += own
        return np.concatenate(rows, axis=2)

    def _part(self, positions: np.ndarray, start: int, most: int) -> tuple[np.ndarray, int]:
        """Return the tokens of one piece, and how many of them are its own.

        Where the length counts, every piece has the largest position too.
        """
        part = np.arange(start, min(start + most, positions.size))
        last = int(np.argmax(positions))
        by_length = self.run.encoding is not None and self.run.encoding.depends_on_length
        if not by_length or last in part:
            return part, part.size
        part = part[: most - 1]
        return np.append(part, last), part.size

    def _comes_out(self, x: np.ndarray, positions: np.ndarray, most: int) -> bool:
        part, _ = self._part(positions, 0, most)
        try:
            self.run.driver.apply(x[:, :, part], positions[part])
        except Refused:
            return False
        return True
