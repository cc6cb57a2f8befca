"""The certificate: the errors of ``posenc_ref`` for every encoding, dtype and range of positions.

The reference values come from the registry's formulas in 50-digit arithmetic.
``posenc accuracy`` prints the table.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import posenc_ref
from posenc_ref import LinearScaling, RoPE, Sinusoidal, T5Bias
from posenc_ref.accuracy import ROUNDOFF, budget
from posenc_ref.angles import ERROR_BOUND, MAX_POSITION

from . import kept
from .digits import DIGITS, exact_bucket, mpmath, nearest_quarter_turns
from .output import Output
from .recipe import numbers
from .reference import Entry, sides
from .rotation import cos_sin

Call = Mapping[str, Any]

#: Encodings judged over every range of positions; registry examples are judged over fewer.
WIDE = (
    RoPE(64, layout="half"),
    RoPE(128, layout="interleaved", base=500000.0, rotary_dim=64),
    RoPE(64, layout="half", base=75000000.0, scaling=LinearScaling(8.0)),
    Sinusoidal(64),
    Sinusoidal(64, layout="concat", denominator="half-1", offset=2),
)
#: Biases whose buckets are judged.
BUCKETS = tuple(
    T5Bias(np.zeros((n, 1)), num_buckets=n, max_distance=far, bidirectional=both)
    for n, far, both in ((32, 128, True), (32, 128, False), (320, 800, True))
)
#: Number of positions in each range; QUICK takes a quarter of a minute, FULL minutes.
QUICK, FULL = 48, 1024
#: Powers of two: the largest positions at which registry examples are judged.
REACH = (20, 40)


@dataclass(frozen=True)
class Row:
    """The largest error of one encoding in one dtype over one range of positions."""

    encoding: str
    dtype: str
    positions: str
    elements: int
    error: float  #: the largest absolute error
    score: float  #: the largest score, in units of `posenc_ref.accuracy` with ``angles="exact"``
    claimed: float | None = None  #: the certified bound of the absolute error, if any

    @property
    def passed(self) -> bool:
        """Return whether the score is within the budget, and the error within its bound."""
        certified = self.claimed is None or self.error <= self.claimed
        return certified and self.score <= (budget(self.dtype) if self.dtype in ROUNDOFF else 0)


def dtypes() -> list[str]:
    """Return the floating dtypes to judge, with bfloat16 if ml_dtypes is installed."""
    names = ["float64", "float32", "float16"]
    if importlib.util.find_spec("ml_dtypes"):
        import ml_dtypes  # noqa: F401  (registers bfloat16)

        names.append("bfloat16")
    return names


def certify(entries: Iterable[Entry], count: int = QUICK) -> list[Row]:
    """Return the rows of all entries, with ``count`` positions in each range."""
    by_class = {entry.encoding: entry for entry in entries}
    rows = [row for e in WIDE if type(e) in by_class for row in _wide(by_class[type(e)], e, count)]
    if T5Bias in by_class:
        rows += _buckets(16 * count)
    for entry in by_class.values():
        rows += certify_entry(entry, count)
    return rows


def certify_entry(entry: Entry, count: int = 8) -> Iterator[Row]:
    """Yield the rows of every example: at its golden vectors' inputs, and at far positions."""
    for name, e in entry.examples.items():
        label = f"{entry.name}: {name}"
        near = [(truth, recipe.inputs) for recipe, truth in kept.cases(entry, name)]
        yield from _held(e, label, "as in its vectors", near)
        for bits in REACH:
            far = _far(e, bits, count)
            if far is not None:
                yield from _rows(entry, e, label, f"up to 2**{bits}", [far])


def position_ranges(e: Any, count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return ``count`` positions of one axis for each range, by the name of the range."""
    rng = np.random.default_rng(seed)
    ranges: dict[str, Any] = {"0 .. 4096": [*rng.integers(0, 4097, count).tolist(), 0, 4096]}
    for bits in (20, 31, 40):
        powers = [2**b - d for b in range(bits - 9, bits + 1) for d in (0, 1)]
        ranges[f"up to 2**{bits}"] = [*rng.integers(0, 2**bits, count).tolist(), *powers]
    # These positions use all 53 bits of a float64.
    ranges["fractions"] = 2.0 ** rng.uniform(-20, 40, count)
    ranges["negative"] = -np.rint(2.0 ** rng.uniform(0, 40, count))
    with mpmath().mp.workdps(DIGITS):
        speeds = [mpmath().mp.mpf(str(w)) for w in e.decimal_frequencies()]
        worst = sorted({p for w in speeds for p in nearest_quarter_turns(w)})
    worst = [*worst[:: max(1, len(worst) // count)], worst[-1]]
    ranges["nearest k pi/4"] = [p - int(e.offset) for p in worst]
    return {where: np.array(positions) for where, positions in ranges.items()}


def _wide(entry: Entry, e: Any, count: int) -> Iterator[Row]:
    """Yield the rows of an encoding with one axis over every range."""
    rng = np.random.default_rng(1)
    for where, positions in position_ranges(e, count).items():
        if e.family == "table":
            yield from _rows(entry, e, repr(e), where, [{"positions": positions}], ERROR_BOUND)
            continue
        with mpmath().mp.workdps(DIGITS):
            truths = [real.output() for real in cos_sin(entry.exact, e, positions)]
        pairs = zip(truths, e.cos_sin(positions), strict=True)
        yield _row(f"{e!r} cos_sin", "float64", where, pairs, ERROR_BOUND)
        # Multiples of 1/8 below 8 are exact in every dtype.
        x = rng.integers(-63, 64, (1, 1, positions.size, e.head_dim)) / 8
        yield from _rows(entry, e, f"{e!r} apply", where, [{"x": x, "positions": positions}])


def _rows(
    entry: Entry, e: Any, label: str, where: str, calls: list[Any], claim: float | None = None
) -> Iterator[Row]:
    """Yield a row for each dtype that can hold the expected values.

    ``claim`` is the certified bound of the absolute error in float64, if any.
    """
    truths = [(entry.truth(e, call).output(), call) for call in calls]
    yield from _held(e, label, where, truths, claim)


def _held(
    e: Any, label: str, where: str, truths: list[tuple[Output, Call]], claim: float | None = None
) -> Iterator[Row]:
    """Yield the rows of :func:`_rows` for calls with their expected values."""
    for dtype in dtypes():
        largest = np.finfo(np.float16 if dtype == "float16" else np.float64).max
        held = [(truth, call) for truth, call in truths if np.abs(truth.hi).max() <= largest]
        if held:
            with np.errstate(all="ignore"):  # wrong values may overflow
                pairs = [(truth, _own(e, call, dtype)) for truth, call in held]
                yield _row(label, dtype, where, pairs, claim if dtype == "float64" else None)


def _row(
    label: str, dtype: str, where: str, pairs: Iterable[tuple[Output, Any]], claim: float | None
) -> Row:
    """Return the largest error of several outputs."""
    worst = [(*truth.worst(own, dtype, angles="exact"), truth.hi.size) for truth, own in pairs]
    errors, scores, sizes = zip(*worst, strict=True)
    return Row(label, dtype, where, sum(sizes), max(errors), max(scores), claim)


def _far(e: Any, bits: int, count: int) -> Call | None:
    """Return a call with positions up to ``2**bits``, or None if they are not allowed."""
    rng = np.random.default_rng(bits)
    if e.family == "table":
        if e.integers or bits > 30:  # coordinates are limited to less than 2**40
            return None
        shape = (count,) if e.num_axes == 1 else (e.num_axes, count)
        return {"positions": rng.integers(-(2**bits), 2**bits, shape) / 4}
    if e.family == "rotary":
        fastest = np.abs(e.frequencies()).max()
        if hasattr(e, "decays") or 2.0**bits * fastest > MAX_POSITION:  # the decay overflows
            return None
        count //= 4  # every position has dim numbers
        at = rng.integers(0, 2**bits, (count,) if e.num_axes == 1 else (e.num_axes, 1, count))
        return {"x": numbers("far-x", 1, 1, count, e.head_dim), "positions": at}
    if any(getattr(e, name, None) for name in ("tokens", "rows", "mixes_queries")):
        return None  # limited to a window, table rows or contiguous tokens
    at = np.sort(rng.integers(0, 2**bits, 8))
    both = {"q_positions": at, "k_positions": at}
    if e.family == "bias":
        return both
    q, k = (numbers(f"far-{side}", 1, e.heads or 2, at.size, e.head_dim) / 16 for side in "qk")
    return {"q": q, "k": k, **both}


def _own(e: Any, call: Call, dtype: str) -> Any:
    """Return the output of ``posenc_ref`` for a call."""
    if e.family == "table":
        return e.table(call["positions"], dtype=np.dtype(dtype))
    if e.family == "rotary":
        apply = e.apply_queries if hasattr(e, "decays") else e.apply
        return apply(call["x"].astype(dtype), call["positions"])
    q_at, k_at = map(np.array, sides(call))
    if e.family == "bias":
        return e.bias(q_at, k_at, dtype=np.dtype(dtype))
    q, k = (call[name].astype(dtype) for name in "qk")
    return posenc_ref.scores(e, q, k, q_at, k_at)


def _buckets(reach: int) -> Iterator[Row]:
    """Yield a row for each bucket table; only equality passes."""
    r = np.arange(-reach, reach + 1)
    for e in BUCKETS:
        settings = e.num_buckets, e.max_distance, e.bidirectional
        error = np.abs(e.bucket(r) - [exact_bucket(n, *settings) for n in r.tolist()])
        score = np.inf if error.any() else 0.0
        where = f"{-reach} .. {reach}"
        yield Row(f"{e!r} bucket", "int64", where, r.size, float(error.max()), score, 0.0)


def format_table(rows: Sequence[Row]) -> str:
    """Return the rows as plain text: a line per encoding and range, a column per dtype.

    Rows that certify cos and sin show the largest absolute error in float64, in multiples of
    2**-53.
    """
    kinds = list(dict.fromkeys(row.dtype for row in rows))
    lines: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        lines.setdefault((row.encoding, row.positions), {})[row.dtype] = row
    cells = [["encoding", "positions", "elements", "error / 2**-53", *kinds]]
    for (encoding, positions), found in lines.items():
        certified = [row for row in found.values() if row.claimed and row.dtype == "float64"]
        error = f"{certified[0].error / ROUNDOFF['float64']:.2f}" if certified else "n/a"
        elements = str(sum(row.elements for row in found.values()))
        units = [_units(found[kind]) if kind in found else "n/a" for kind in kinds]
        cells.append([encoding, positions, elements, error, *units])
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    line = "  ".join(f"{{:{'<' if i < 2 else '>'}{w}}}" for i, w in enumerate(wide))
    text = [line.format(*row).rstrip() for row in cells]
    bound = ERROR_BOUND / ROUNDOFF["float64"]
    text += [
        "The columns of the dtypes show the worst score in units of posenc_ref.accuracy; equal: no "
        "error, the same numbers to the last bit.",
        f"Certified: the errors of cos and sin are at most {bound:g} * 2**-53. n/a: no cos and sin "
        "to certify, or values beyond the range of the dtype.",
    ]
    return "\n".join(text)


def _units(row: Row) -> str:
    score = "equal" if row.score == 0 else f"{row.score:.2f}"
    return score if row.passed else f"{score} FAILS"
