"""Measure a rotary function: pairs from one-hot inputs, frequencies from small angles.

The measurement does not use the declaration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import ONE_HOT, unit_pairs
from posenc_ref.conformance.harness.reach import Access


@dataclass(frozen=True)
class Pair:
    """Two channels that are rotated together, and the two channels that they are written to."""

    a: int
    b: int
    out_a: int
    out_b: int


#: The smallest position step, for frequencies that may exceed pi.
FRACTION = 2.0**-14
#: The largest relative difference of the entries of a rotation, which may have half precision.
_TURNS = 2.0**-6
#: Returns cos and sin (positions, pairs) of the judged function at given positions.
Tables = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
#: One channel of every pair.
Channels = np.ndarray | list[int]


@dataclass(frozen=True)
class Phases:
    """Measured properties of cos and sin columns, one number per pair."""

    frequencies: np.ndarray  #: signed, radians per position
    sigma: np.ndarray  #: their standard errors
    start: np.ndarray  #: the angle at position 0, radians
    amplitude: np.ndarray
    linear: bool = True  #: whether every angle grew linearly with the position
    length: int = 1  #: the length of the measured calls: frequencies may depend on it

    @property
    def sign(self) -> int:
        """Return -1 if every pair turns by -angle, or else 1."""
        return -1 if (self.frequencies < 0).all() else 1


@dataclass
class Measured:
    """The measured structure of a rotary function.

    ``matrices[n, out, in]`` is the map of a token at ``positions[n]``.
    """

    positions: np.ndarray
    matrices: np.ndarray
    pairs: list[Pair]
    passed: list[int]
    scaled: list[int]  #: channels that are only multiplied by a factor
    odd: list[int]  #: all other channels that are in no pair
    phases: Phases | None = None
    whole: Phases | None = None  #: measured in a call of a whole number of blocks of tokens

    @property
    def moved(self) -> dict[int, int]:
        """Return the target of every channel that is copied to another channel."""
        found = {}
        for c in self.odd:
            rows = np.flatnonzero((self.matrices[:, :, c] != 0).any(axis=0))
            if rows.size == 1 and (self.matrices[:, rows[0], c] == 1).all():
                found[c] = int(rows[0])
        return found

    @property
    def amplitude(self) -> np.ndarray:
        """Return the factor of every pair."""
        return np.zeros(0) if self.phases is None else self.phases.amplitude

    @property
    def frequencies(self) -> np.ndarray:
        """Return the signed frequency of every pair."""
        return np.zeros(0) if self.phases is None else self.phases.frequencies

    @property
    def blocks(self) -> np.ndarray:
        """Return the 2 x 2 blocks of all pairs, (positions, pairs, out, in)."""
        rows = np.array([[p.out_a, p.out_b] for p in self.pairs], dtype=int).reshape(-1, 2)
        columns = np.array([[p.a, p.b] for p in self.pairs], dtype=int).reshape(-1, 2)
        return self.matrices[:, rows[:, :, None], columns[:, None, :]]

    def tables(self, access: Access) -> Tables:
        """Return a function that measures cos and sin of every pair."""
        p = self.pairs
        return tables_of(access, [q.a for q in p], [q.out_a for q in p], [q.out_b for q in p])

    def in_out(self) -> bool:
        """Return whether every pair is written to the channels it is read from."""
        return all({p.a, p.b} == {p.out_a, p.out_b} for p in self.pairs)

    def has(self, encoding: Rotary) -> bool:
        """Return whether the input and output pairs of ``encoding`` are the measured ones."""
        channels = np.array([[p.a, p.b, p.out_a, p.out_b] for p in self.pairs])
        return np.array_equal(channels.T, [*encoding.pairs(), *encoding.output_pairs()])

    def layout(self) -> str:
        """Return ``interleaved``, ``half``, or an empty string for other pairs."""
        return _layout([(p.a, p.b) for p in self.pairs])

    def output_layout(self) -> str:
        """Return the layout of the channels that the pairs are written to."""
        return _layout([(p.out_a, p.out_b) for p in self.pairs])

    def describe(self) -> str:
        """Return the pairs and their frequencies in one line."""
        if not self.pairs:
            if self.odd:
                return f"{len(self.odd)} channels are changed, no two of them as a pair"
            return f"no channel pairs are rotated at positions {self.positions.tolist()}"
        names = {"interleaved": "interleaved pairs", "half": "half-split pairs", "": "other pairs"}
        text = f"{len(self.pairs)} {names[self.layout()]}"
        phases = self.whole or self.phases
        if phases is not None and phases.frequencies.size:
            ends = (shown(phases.frequencies[i], phases.sigma[i]) for i in (0, -1))
            text += f", frequencies {' .. '.join(ends)}"
        if self.passed:
            text += f", {len(self.passed)} channels passed through"
        return text


def _layout(pairs: list[tuple[int, int]]) -> str:
    n, first = len(pairs), min((a for a, _ in pairs), default=0)
    got = {(a - first, b - first) for a, b in pairs}
    if n and got == {(2 * k, 2 * k + 1) for k in range(n)}:
        return "interleaved"
    return "half" if n and got == {(k, k + n) for k in range(n)} else ""


def measure(access: Access, dtype: str, below: float = np.inf, trained: float = np.inf) -> Measured:
    """Return the structure of a function, measured with one-hot inputs and small angles.

    One-hot inputs are at positions ``below`` this one, small angles at those below ``trained``: in
    longer calls, the factor on cos and sin, or the frequencies, are others.
    """
    positions = access.within(ONE_HOT)
    positions = positions[positions < below]
    matrices = _matrices(access, positions)
    found = Measured(positions, matrices, *channel_pairs(matrices))
    if found.pairs:
        tables = found.tables(access)
        found.phases = unwrap(tables, dtype, below=trained)
        if not found.phases.linear:
            again = unwrap(_in_blocks(tables), dtype, below=trained)
            found.whole = again if again.linear else None
    return found


def _in_blocks(tables: Tables, size: int = 16) -> Tables:
    """Return ``tables`` that repeats the last position up to a multiple of ``size`` tokens.

    A function may be wrong in the last, incomplete block of tokens only.
    """

    def whole(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        more = np.repeat(positions[-1:], -positions.size % size)
        cos, sin = tables(np.r_[positions, more])
        return cos[: positions.size], sin[: positions.size]

    return whole


def _matrices(access: Access, positions: np.ndarray) -> np.ndarray:
    dim = access.dim
    x = np.zeros((dim, 1, positions.size, dim))
    x[np.arange(dim), :, :, np.arange(dim)] = 1.0
    if access.run.settings.reduced:
        return access.rows(x, positions)[:, 0].transpose(1, 2, 0)
    # One channel per call, because a wrong function may mix the rows of a batch.
    y = np.concatenate([access.rows(x[c : c + 1], positions) for c in range(dim)])
    return y[:, 0].transpose(1, 2, 0)


def channel_pairs(
    matrices: np.ndarray,
) -> tuple[list[Pair], list[int], list[int], list[int]]:
    """Return pairs, channels passed through, channels only scaled, and all others."""
    lit = (matrices != 0).any(axis=0)
    supports = [tuple(int(r) for r in np.flatnonzero(lit[:, c])) for c in range(lit.shape[1])]
    passed = [c for c, s in enumerate(supports) if s == (c,) and (matrices[:, c, c] == 1).all()]
    scaled = [c for c, s in enumerate(supports) if s == (c,) and c not in passed]
    groups: dict[tuple[int, ...], list[int]] = {}
    for c, s in enumerate(supports):
        if len(s) == 2:
            groups.setdefault(s, []).append(c)
    pairs = []
    for (low, high), channels in groups.items():
        if len(channels) == 2:
            a, b = channels
            crossed = abs(matrices[0, high, a]) > abs(matrices[0, low, a])
            if {a, b} == {low, high}:  # exchanged cos and sin have the opposite sign here
                crossed = crossed and matrices[0, high, a] > 0 < matrices[0, low, b]
            else:
                crossed = _crossed(matrices[:, [[low], [high]], [a, b]], crossed)
            pairs.append(Pair(a, b, *((high, low) if crossed else (low, high))))
    pairs.sort(key=lambda p: (p.a, p.b))
    known = {c for p in pairs for c in (p.a, p.b)} | set(passed) | set(scaled)
    return pairs, passed, scaled, [c for c in range(len(supports)) if c not in known]


def _crossed(blocks: np.ndarray, otherwise: bool) -> bool:
    """Return whether the results of a pair, (n, 2, 2), are a rotation if they are exchanged.

    If they are one in both orders or in neither, return ``otherwise``.
    """

    def turns(m: np.ndarray) -> bool:
        off = np.abs(m[:, 0, 0] - m[:, 1, 1]) + np.abs(m[:, 1, 0] + m[:, 0, 1])
        return bool((off <= _TURNS * np.abs(m).max()).all())

    straight, exchanged = turns(blocks), turns(blocks[:, ::-1])
    return exchanged if straight != exchanged else bool(otherwise)


def tables_of(access: Access, first: Channels, out_a: Channels, out_b: Channels) -> Tables:
    """Return a function that measures cos and sin of the pairs by inputs (1, 0) in each pair."""

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = unit_pairs((1, 1, positions.size, access.dim), np.asarray(first))
        y = access.rows(x, positions)[0, 0]
        return y[:, out_a], y[:, out_b]

    return tables


def unwrap(tables: Tables, dtype: str, step: float = 1.0, below: float = np.inf) -> Phases:
    """Return frequencies, start and amplitude, measured at positions 0, 1, 2, 4, ...

    The frequency found so far predicts the angle at the next position to less than half a turn,
    so that the number of its whole turns is known. If frequencies may exceed pi, ``step`` is a
    power of two below 1. All positions are ``below`` that one, if it is more than 1.
    """
    longest = 16 if ROUNDOFF[dtype] <= ROUNDOFF["float32"] else 1024
    while longest > 1 and longest >= below:
        longest //= 2
    positions, cos, sin = _accepted(tables, longest, step)
    at = positions.astype(np.float64)
    angles = np.arctan2(sin, cos)
    start = angles[0]
    w = wrap(angles[1] - start) / at[1]
    for i in range(2, at.size):
        expected = w * at[i]
        w = (expected + wrap(angles[i] - start - expected)) / at[i]
    # Rounded cos and sin of an angle a are off by an angle of |sin 2a| roundings: 0 at a = 0.
    sigma = ROUNDOFF[dtype] * np.minimum(1.0, np.abs(np.sin(2 * start)) + np.abs(w) * at[-1])
    sigma = sigma / at[-1]
    angle = np.abs(w) * at[:, None]
    slack = BUDGET[dtype] * (ROUNDOFF[dtype] + ROUNDOFF["float32"] * angle)
    misfit = np.abs(wrap(angles - start - at[:, None] * w))
    amplitude = np.hypot(cos, sin)
    steady = np.abs(amplitude - amplitude[0]) <= 2 * slack * np.abs(amplitude[0])
    linear = bool((misfit <= 2 * slack).all() and steady.all())
    return Phases(w, sigma, start, amplitude[0], linear, int(positions[-1]) + 1)


def _accepted(
    tables: Tables, longest: int, step: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the accepted positions 0, step, 2 step, 4 step, ..., and cos and sin there.

    The largest position that is tried is ``longest``.
    """
    positions: np.ndarray = np.r_[0, 2 ** np.arange(longest.bit_length())]
    if step != 1.0:
        below = step * 2.0 ** np.arange(round(-np.log2(step)))
        positions = np.r_[0.0, below, positions[1:]].astype(np.float32)
    while True:
        try:
            return positions, *tables(positions)
        except Refused:
            if positions[-1] <= 1:
                raise
            positions = positions[:-1]


def unaliased(tables: Tables, dtype: str) -> Phases:
    """Return :func:`unwrap`, measured at fractional positions if a frequency exceeds pi.

    At integer positions, a frequency above pi gives the same values as a lower one.
    """
    phases = unwrap(tables, dtype)
    try:
        finer = unwrap(tables, dtype, FRACTION)
    except (Refused, Malformed):
        return phases
    return finer if finer.linear and np.abs(finer.frequencies).max(initial=0) >= np.pi else phases


def shown(value: float, sigma: float, most: int = 6) -> str:
    """Return a measured number with the digits that its standard error leaves, at most ``most``."""
    digits = most if not value or not sigma else int(np.log10(max(abs(value) / sigma, 1.0)))
    return f"{value:.{min(max(digits, 1), most)}g}"


def wrap(angle: np.ndarray) -> np.ndarray:
    """Return angles in radians without whole turns: from -pi to pi."""
    return np.asarray(angle - 2 * np.pi * np.rint(angle / (2 * np.pi)))
