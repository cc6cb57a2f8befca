"""The certified accuracy table: every encoding, dtype and range of positions.

Each encoding is compared with the arithmetic of :mod:`.exact`, which shares no code with it.
``posenc accuracy`` prints the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from posenc_ref import LinearScaling, RoPE, Sinusoidal, T5Bias
from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.angles import ERROR_BOUND

from .certificate_registry import certify_registry
from .certificate_row import Row, dtypes
from .fixed_point import (
    DIGITS,
    Exact,
    consecutive_cos_sin,
    exact_bucket,
    exact_cos_sin,
    geometric,
    mpmath,
    nearest_quarter_turns,
    to_float,
)

Array = Any


def position_ranges(frequencies: Sequence[Any], count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Positions to judge, by the name of their range; ``count`` of each."""
    rng = np.random.default_rng(seed)
    ranges: dict[str, list[Any]] = {"0 .. 4096": [*map(int, rng.integers(0, 4097, count)), 0, 4096]}
    for bits in (20, 31, 40):
        powers = [2**b - d for b in range(bits - 9, bits + 1) for d in (0, 1)]
        ranges[f"up to 2**{bits}"] = [*map(int, rng.integers(0, 2**bits, count)), *powers]
    # All 53 bits of the position in use.
    ranges["fractions"] = [float(p) for p in 2.0 ** rng.uniform(-20, 40, count)]
    ranges["negative"] = [-float(p) for p in np.rint(2.0 ** rng.uniform(0, 40, count))]
    worst = sorted({p for w in frequencies for p in nearest_quarter_turns(w)})
    ranges["nearest k pi/4"] = [*worst[:: max(1, len(worst) // count)], worst[-1]]
    return ranges


def certify(quick: bool = True) -> list[Row]:
    """The certified accuracy table; ``quick`` takes a few seconds, otherwise a minute."""
    count = 48 if quick else 1024
    rows: list[Row] = []
    for rope in (
        RoPE(64, layout="half"),
        RoPE(128, layout="interleaved", base=500000.0, rotary_dim=64),
        RoPE(64, layout="half", base=75000000.0, scaling=LinearScaling(8.0)),
    ):
        rows += _rotary(rope, count)
    rows += _sinusoidal(Sinusoidal(64), [Fraction(k, 32) for k in range(32)], count)
    fairseq = Sinusoidal(64, layout="concat", denominator="half-1", offset=2)
    rows += _sinusoidal(fairseq, [Fraction(k, 31) for k in range(32)], count)
    rows += _buckets(count)
    rows += certify_registry(count)
    return rows


def _row(
    name: str,
    where: str,
    exact: Exact,
    actual: Array,
    terms: Array,
    amplitude: Array,
    claim: float | None = None,
) -> Row:
    error, score = exact.worst(actual, terms, amplitude)
    return Row(name, str(actual.dtype), where, actual.size, error, score, claim)


def _rotary(rope: RoPE, count: int) -> Iterator[Row]:
    assert rope.rotary_dim is not None
    pairs = rope.rotary_dim // 2
    factor = rope.scaling.factor if isinstance(rope.scaling, LinearScaling) else 1.0
    waves = geometric(rope.base, [Fraction(k, pairs) for k in range(pairs)], factor)
    half = (slice(pairs), slice(pairs, 2 * pairs))
    paper = (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    first, second = half if rope.layout == "half" else paper
    rng = np.random.default_rng(1)
    for where, positions in position_ranges(waves, count).items():
        if where == "0 .. 4096":
            positions = list(range(4097))
            cos, sin = consecutive_cos_sin(len(positions), waves)
        else:
            cos, sin = exact_cos_sin(positions, waves)
        p = np.array(positions)
        exact = Exact(np.concatenate([cos, sin], axis=-1))
        table = np.concatenate(rope.cos_sin(p), axis=-1)
        yield _row(f"{rope!r} cos_sin", where, exact, table, np.abs(exact.hi), 1.0, ERROR_BOUND)
        # x in multiples of 1/8 below 8: exact in every dtype, and products stay exact here.
        rows = slice(None, None, max(1, len(positions) // (4 * count)))
        eighths = rng.integers(-63, 64, (p[rows].size, rope.head_dim))
        x1, x2 = eighths[:, first].astype(object), eighths[:, second].astype(object)
        c, s = cos[rows], sin[rows]
        exact = Exact(np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], axis=-1) // 8)
        size = np.hypot(eighths[:, first], eighths[:, second]) / 8
        c, s, x1, x2 = (np.abs(a) for a in (to_float(c), to_float(s), x1 / 8, x2 / 8))
        terms = np.concatenate([x1 * c + x2 * s, x2 * c + x1 * s], axis=-1).astype(np.float64)
        amplitude = np.concatenate([size, size], axis=-1)
        for dtype in dtypes():
            y = rope.apply((eighths / 8).astype(dtype), p[rows])
            y = np.concatenate([y[:, first], y[:, second]], axis=-1)
            yield _row(f"{rope!r} apply", where, exact, y, terms, amplitude)


def _sinusoidal(encoding: Sinusoidal, exponents: list[Fraction], count: int) -> Iterator[Row]:
    mp = mpmath().mp
    waves = geometric(encoding.base, exponents)
    with mp.workdps(DIGITS):
        phases = [w * encoding.offset for w in waves]
    half = (slice(encoding.dim // 2), slice(encoding.dim // 2, None))
    paper = (slice(0, None, 2), slice(1, None, 2))
    sin_at, cos_at = half if encoding.layout == "concat" else paper
    for where, positions in position_ranges(waves, count).items():
        positions = [p - int(encoding.offset) if where.startswith("near") else p for p in positions]
        cos, sin = exact_cos_sin(positions, waves, phases)
        fixed = np.zeros((len(positions), encoding.dim), dtype=object)
        fixed[:, sin_at], fixed[:, cos_at] = sin, cos
        exact = Exact(fixed)
        for dtype in dtypes():
            table = encoding.table(np.array(positions), dtype=np.dtype(dtype))
            claim = ERROR_BOUND if dtype == "float64" else None
            yield _row(f"{encoding!r}", where, exact, table, np.abs(exact.hi), 1.0, claim)


def _buckets(count: int) -> Iterator[Row]:
    """Buckets have to be equal."""
    reach = 16 * count
    for buckets, distance, both in ((32, 128, True), (32, 128, False), (320, 800, True)):
        encoding = T5Bias(
            np.zeros((buckets, 1)), num_buckets=buckets, max_distance=distance, bidirectional=both
        )
        r = np.arange(-reach, reach + 1)
        want = np.array([exact_bucket(int(n), buckets, distance, both) for n in r])
        error = np.abs(encoding.bucket(r) - want)
        score = 0.0 if not error.any() else math.inf
        where = f"{-reach} .. {reach}"
        name = f"{encoding!r} bucket"
        yield Row(name, "int64", where, error.size, float(error.max()), score, 0.0)


def format_table(rows: Sequence[Row]) -> str:
    """The rows as plain text: one line per encoding and range, with the units of each dtype.

    Where cos and sin themselves are certified, the largest absolute error of the float64 ones is
    given in multiples of 2**-53.
    """
    kinds = list(dict.fromkeys(row.dtype for row in rows))
    lines: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        lines.setdefault((row.encoding, row.positions), {})[row.dtype] = row
    head = ["encoding", "positions", "elements", "error / 2**-53", *kinds]
    cells = [head]
    for (encoding, positions), found in lines.items():
        certified = [row for row in found.values() if row.claimed and row.dtype == "float64"]
        error = f"{certified[0].error / ROUNDOFF['float64']:.2f}" if certified else ""
        elements = str(sum(row.elements for row in found.values()))
        units = [_units(found[kind]) if kind in found else "" for kind in kinds]
        cells.append([encoding, positions, elements, error, *units])
    wide = [max(len(line[i]) for line in cells) for i in range(len(head))]
    text = []
    for line in cells:
        left = [cell.ljust(w) for cell, w in zip(line[:2], wide[:2], strict=True)]
        right = [cell.rjust(w) for cell, w in zip(line[2:], wide[2:], strict=True)]
        text.append("  ".join(left + right).rstrip())
    bound = ERROR_BOUND / ROUNDOFF["float64"]
    text.append(
        f"Columns of dtypes: worst score in units of posenc_ref.accuracy (0: equal). "
        f"Certified: errors of cos and sin of at most {bound:g} * 2**-53."
    )
    return "\n".join(text)


def _units(row: Row) -> str:
    score = "equal" if row.score == 0 else f"{row.score:.2f}"
    return score if row.passed else f"{score} FAILS"
