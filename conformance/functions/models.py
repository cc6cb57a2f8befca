"""Plain functions of a model: table rows, layers, softmax scale, slopes of a rank.

Error unit (see :mod:`posenc_ref.accuracy`) of ``softmax_scale`` and ``rank_slopes``: A = |value|,
B = 0.  ``rows`` has the error unit of surface ``table``; rows of a learned table must be bit-equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import ALiBi, Learned, ModelEncoding, Sinusoidal, YaRN
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.match import likely, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.position_mistakes import other_rows
from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS, significant
from posenc_ref.conformance.diagnosis.whole_values import MIXED, whole_values
from posenc_ref.conformance.harness.plural import ordinal, ranges
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import exactly
from posenc_ref.conformance.rotary.as_apply import Inexpressible, host_positions, seen_as, starts
from posenc_ref.conformance.table.reference import longest
from posenc_ref.schedules.yarn import mscale

from .function import Arguments, Function, Plain, several, written

#: Numbers of tokens, also such as leave every remainder of small powers of two.
LENGTHS = (5, 1, 2, 16, 64, 7, 45, 127, 200)


def _longest(encoding: Any) -> int:
    last = longest(encoding)
    return last if isinstance(encoding, Learned) else min(last, 2050)


def _sequences(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    longest = _longest(encoding)
    for n in dict.fromkeys(min(n, longest) for n in LENGTHS):
        yield Arguments("a sequence", (n,))
    yield Arguments("the longest sequence", (longest,), False)
    yield Arguments("no tokens", (0,), False)


def _rows_truth(encoding: Any, arguments: tuple[Any, ...], value: np.ndarray) -> Truth:
    return _sized(encoding.truth(np.arange(arguments[0])), value)


def _sized(truth: Truth, value: np.ndarray) -> Truth:
    """Return ``truth`` with the values ``value`` and rounding errors of at least their size."""
    looked_up = (truth.terms == 0) & (truth.angle == 0) & (truth.amplitude == 0)
    terms = np.where(looked_up, 0.0, np.maximum(truth.terms, np.abs(value)))
    return Truth(value, terms, truth.angle, truth.amplitude)


def _row_mistakes(encoding: Any) -> Iterator[Mistake]:
    low, size = -getattr(encoding, "offset", 0), getattr(encoding, "rows", 0)
    ends = {
        "that row is used": lambda p: np.minimum(p, low + size - 1),
        "the table begins again": lambda p: (p - low) % size + low,
    }
    for code, message, change in other_rows(-low):
        yield written(code, message, _rows_at(encoding, change))
        for words, end in ends.items() if isinstance(encoding, Learned) else ():
            of = lambda p, to=change, end=end: end(to(p))  # noqa: E731
            yield written(code, f"{message}; past the last row, {words}", _rows_at(encoding, of))
    if isinstance(encoding, Learned):
        yield _reversed(encoding, _longest(encoding))
    declared = _rows_at(encoding, np.asarray)
    yield from whole_values(lambda call: declared(*call.arguments), "the table", "layout", MIXED)


def _rows_at(encoding: Any, positions: Function) -> Function:
    """Return the function that gives the rows of the table at ``positions(0 .. n - 1)``."""

    def rows(n: int) -> Truth:
        truth = encoding.truth(positions(np.arange(n)))
        return _sized(truth, np.asarray(truth.value))

    return rows


def _reversed(encoding: Any, size: int) -> Mistake:
    text = f"a table of {size} rows is reversed before it is cut to the sequence"
    remedy = "Cut the table to the sequence first, then reverse it."
    return written("wrong-row", text, _rows_at(encoding, lambda at: size - 1 - at), remedy)


def _row_suggestions(
    encoding: Any, arguments: tuple[Any, ...], actual: np.ndarray
) -> Iterator[Mistake]:
    if isinstance(encoding, Sinusoidal) and len(actual):
        from posenc_ref.conformance.table.diagnose_rows import reversed_length  # as below

        size = reversed_length(encoding, actual[0], len(actual))
        if size is not None:
            yield _reversed(encoding, size)


def _as_table(run: Run, seen: list[JudgedCall]) -> None:
    """Diagnose the rows as surface ``table``, in calls up to the longest judged length."""
    from posenc_ref.conformance.rotary.diagnose_state import TableCall, name_grown
    from posenc_ref.conformance.table.judge import judge_table  # slow; only failures need it
    from posenc_ref.conformance.table.rows_used import SeenRows, name_part, name_zeros

    if not isinstance(run.encoding, Sinusoidal | Learned):
        from posenc_ref.conformance.table.formulas import changed_steps

        steps = (_of_rows(one) for one in changed_steps(run, np.arange(8)))
        match(run, seen, likely(run, seen, steps))
        return
    lengths = [one.facts.arguments[0] for one in seen]
    calls = [
        replace(one, facts=TableCall(np.arange(n), tuple(lengths[: i + 1]), run.encoding.truth))
        for i, (one, n) in enumerate(zip(seen, lengths, strict=True))
    ]
    rows = [SeenRows(c.case, c.actual, np.zeros(1), c.facts.positions) for c in calls]
    if name_part(run, rows) or name_grown(run, calls) or name_zeros(run, rows):
        return
    fn, longest = run.driver.fn, max(lengths)

    def view(positions: Any) -> Any:
        p = host_positions(run, positions)
        if starts(p) != 0 or p.size > longest:
            raise Inexpressible(f"positions must start at 0, with at most {longest} rows")
        return fn(int(p.size))

    limits = list(run.report.limits)  # limits added by the view are dropped
    with seen_as(run, view, run.encoding, "lambda p: fn(len(p))") as viewed:
        judge_table(viewed)
    run.report.limits[:] = limits


def _of_rows(mistake: Mistake) -> Mistake:
    """Return a mistake of a table as one of its first rows."""
    predict = mistake.predict
    return replace(mistake, predict=lambda call: predict(np.arange(call.arguments[0])), fit=None)


def _depth(model: ModelEncoding, seed: int, dtype: str) -> Iterator[Arguments]:
    yield Arguments("all layers", (len(model.layer_types),))


#: Periods of layers below this one are tried.
_PERIOD = 13


def _layer_mistakes(model: ModelEncoding) -> Iterator[Mistake]:
    flags = np.array(pr.layers(model, len(model.layer_types)))

    def fixed(values: np.ndarray) -> Function:
        return lambda n: values

    code = "layer-schedule"
    yield from several(
        (code, "the schedule is inverted: layers that should rotate do not",
         fixed(~flags),
         "Read the flag as the model's code does: no_rope_layers is 1 if a layer rotates."),
        (code, "every layer has a positional encoding", fixed(np.ones_like(flags))),
        (code, "no layer has a positional encoding", fixed(np.zeros_like(flags))),
    )  # fmt: skip
    for by in (1, -1):
        text = f"the schedule is one layer too {'late' if by > 0 else 'early'}"
        yield written(code, text, fixed(np.roll(flags, by)))
    yield written(code, "the schedule runs from the last layer to the first", fixed(flags[::-1]))
    odd = np.flatnonzero(flags != np.bincount(flags.astype(int), minlength=2).argmax())
    if odd.size > 1 and np.unique(np.diff(odd)).size == 1:
        n = int(odd[1] - odd[0])
        common, index = not flags[odd[0]], np.arange(flags.size)
        kind = f"layers {'without' if common else 'with'} an encoding"

        def others(mask: np.ndarray) -> Function:
            return fixed(np.where(mask, not common, common))

        for start in range(n):
            text = f"{kind} start at layer {start}, declared {odd[0]}"
            last = start == (flags.size - 1) % n
            text += ": every such layer is counted from the last layer of the model" * last
            yield written(code, text, others(index % n == start))
        for other in sorted({*range(2, _PERIOD)} - {n}, key=lambda m: abs(m - n)):
            for start in (other - 1, *range(other - 1)):
                text = f"every {ordinal(other)} layer is one of the {kind}, declared every "
                text += ordinal(n)
                text += f"; the first is layer {start}" * (start != other - 1)
                yield written(code, text, others(index % other == start))


def _other_layers(
    model: ModelEncoding, arguments: tuple[Any, ...], actual: np.ndarray
) -> Iterator[Mistake]:
    """Yield the layers that the function says have an encoding, as numbers."""
    flags = np.array(pr.layers(model, len(model.layer_types)))
    if actual.shape == flags.shape:
        seen, own = (ranges(np.flatnonzero(v).tolist()) or "none" for v in (actual, flags))
        text = f"the layers with an encoding are {seen}, declared {own}"
        yield written("layer-schedule", text, lambda n: actual.astype(bool))


def _layers_remedy(model: ModelEncoding) -> str:
    """Return the layers with an encoding."""
    flags = pr.layers(model, len(model.layer_types))
    which = ranges(np.flatnonzero(flags).tolist()) or "none"
    return f"Layers with a positional encoding: {which}; layers are counted from 0."


def _once(model: ModelEncoding, seed: int, dtype: str) -> Iterator[Arguments]:
    yield Arguments("the model", ())


def scales(model: ModelEncoding) -> Iterator[tuple[str, float]]:
    """Return the message and the value of each known wrong factor on q . k."""
    scale = pr.softmax_scale(model)
    found: dict[str, float] = {}
    sizes = {e.head_dim for e in model.encodings.values() if isinstance(e, pr.Rotary)}
    for name, e in model.encodings.items():
        scaling = getattr(e, "scaling", None)
        if not isinstance(scaling, YaRN):
            continue
        for what in ("mscale_all_dim", "mscale"):
            weight = getattr(scaling, what)
            weight = 1.0 if weight is None else weight
            g = float(mscale(scaling.factor, weight))
            for base, by in (("2", np.log(2.0)), ("10", np.log(10.0))):
                of = 0.1 * weight * np.log(scaling.factor) / by + 1
                text = f"the logarithm of YaRN's factor ({what} of encoding {name}) is to base "
                found[f"{text}{base}, not natural"] = scale * (of / g) ** 2
            if g != 1.0:
                of = f"YaRN's factor {g:.6g} ({what} of encoding {name})"
                found[f"the declared scale is divided by the square of {of}"] = scale / g**2
                once = f"the declared scale is divided by {of}"
                square = (g**2 / scale) ** 2  # of a root of an integer, or not
                if what == "mscale_all_dim" and abs(square - round(square)) < 1e-6 * square:
                    once = f"the scale has {of} once, declared squared"
                found[once] = scale / g
                found[f"the declared scale is multiplied by the square of {of}"] = scale * g**2
                found[f"the declared scale is multiplied by {of}"] = scale * g
    for d in sorted(sizes):
        found[f"the scale is 1/sqrt({d}), that of a rotary head without scaling"] = d**-0.5
        found[f"the scale is 1/{d}, without the root"] = 1.0 / d
        found[f"the declared scale is divided by sqrt({d})"] = scale * d**-0.5
        found[f"the declared scale is multiplied by sqrt({d})"] = scale * d**0.5
    for kind, bits in SIGNIFICANT_BITS.items():
        found[f"the declared scale is rounded to {kind}"] = float(significant(scale, bits))
        text = f"the declared scale is cut, not rounded, to {kind}"
        found[text] = float(significant(scale, bits, cut=True))
    found["logits are not scaled at all"] = 1.0
    found["the scale is the inverse of the declared scale"] = 1 / scale
    found["the scale is the square of the declared scale"] = scale**2
    found["the scale is the square root of the declared scale"] = scale**0.5
    return ((message, value) for message, value in found.items() if value != scale)


def _scale_mistakes(model: ModelEncoding) -> Iterator[Mistake]:
    for message, value in scales(model):
        yield written("softmax-scale", message, lambda value=value: value)


def _other_sizes(
    model: ModelEncoding, arguments: tuple[Any, ...], actual: np.ndarray
) -> Iterator[Mistake]:
    """Yield scales by the root of another number of channels than declared."""
    scale, value = pr.softmax_scale(model), float(np.ravel(actual)[0])
    sizes = {e.head_dim for e in model.encodings.values() if isinstance(e, pr.Rotary)}
    if not np.isfinite(value) or value <= 0:
        return
    n = value**-2
    if abs(n - round(n)) <= 1e-5 * n and round(n) not in sizes and n >= 1:
        text = f"the scale is 1/sqrt({round(n)}), declared {scale:.9g}"
        if sizes:
            text += f": q and k have {', '.join(map(str, sorted(sizes)))} channels"
        yield written("softmax-scale", text, lambda: round(n) ** -0.5)
    for d in sorted(sizes):
        other = d * (scale / value) ** 2
        if abs(other - round(other)) <= 1e-5 * other and other >= 1:
            text = f"the scale has sqrt({round(other)}) in place of sqrt({d})"
            yield written("softmax-scale", text, lambda d=d, n=other: scale * (d / round(n)) ** 0.5)


def _scale_remedy(model: ModelEncoding) -> str:
    """Return the declared scale, as the root of the head size if it is one."""
    scale = pr.softmax_scale(model)
    n = scale**-2
    root = f" = 1/sqrt({round(n)})" if abs(n - round(n)) <= 1e-9 * n else ""
    return f"Multiply q . k by {scale:.9g}{root}, once."


def _slopes(encoding: ALiBi, n: int) -> np.ndarray:
    return ALiBi(n, max_bias=encoding.max_bias).slopes()


def _ranks(encoding: ALiBi, seed: int, dtype: str) -> Iterator[Arguments]:
    declared = encoding.num_heads
    for n in dict.fromkeys((declared, 8, 12, 40, 112, 144, 260)):
        for size in [s for s in (2, 4, 3, 5) if n % s == 0 and n > s][:2]:
            for rank in range(size):
                yield Arguments(f"rank {rank} of {size}", (n, size, rank), n == declared)
    yield Arguments("one rank", (declared, 1, 0), declared in (1, 2, 3, 5))


def _slope_mistakes(encoding: ALiBi) -> Iterator[Mistake]:
    def part(slopes: Function) -> Function:
        """Return the function that cuts the heads of a rank out of ``slopes(n)``."""
        return lambda n, size, rank: slopes(n)[rank * (n // size) : (rank + 1) * (n // size)]

    top, own = encoding.max_bias, partial(_slopes, encoding)
    ranks: tuple[tuple[str, str, Callable[[Function], Function]], ...] = (
        ("shard-offset", "slopes are those of a model with as many heads as the rank holds",
         lambda of: lambda n, size, rank: of(n // size)),
        ("shard-offset", "every rank gets the slopes of rank 0",
         lambda of: lambda n, size, rank: of(n)[: n // size]),
        ("shard-offset", "ranks are counted from the last one",
         lambda of: lambda n, size, rank: part(of)(n, size, size - 1 - rank)),
        ("shard-offset", "the slopes of rank r start at head r, not at head r * n / size",
         lambda of: lambda n, size, rank: of(n)[rank : rank + n // size]),
        ("head-order", "heads are distributed to the ranks one by one",
         lambda of: lambda n, size, rank: of(n)[rank::size]),
    )  # fmt: skip
    series: tuple[tuple[str, str, Function], ...] = (
        ("slopes", "the number of heads is rounded up to a power of two before the slopes are made",
         lambda n: own(1 << (n - 1).bit_length())[:n]),
        ("slopes", "2 ** (-8 h / n) is taken for any number of heads",
         lambda n: 2.0 ** (-top * np.arange(1, n + 1) / n)),
        ("slopes", "the exponents start at 0", lambda n: 2.0 ** (-top * np.arange(n) / n)),
        ("bias-sign", "the slopes are negative", lambda n: -own(n)),
    )  # fmt: skip
    yield from several(*((code, text, move(own)) for code, text, move in ranks))
    yield from several(*((code, text, part(of)) for code, text, of in series))
    yield from several(
        ("slopes", "the number of heads is rounded up to a power of two, and split among the ranks",
         lambda n, size, rank: own(up := 1 << (n - 1).bit_length())[
             rank * (up // size) : rank * (up // size) + n // size]),
        ("slopes", "the slopes beyond the power of two count from the rank's own first head",
         _from_own_head(encoding)),
    )  # fmt: skip
    right = "Compute the slopes of all n heads: those of the largest power of two up to n, then "
    right += "every second one of twice as many heads. Rank r of size holds the n // size heads "
    right += "from r * (n // size) on."
    for code, text, move in ranks:
        for _, what, of in series:
            yield written(code, f"{text}, and {what}", move(of), right)


def _from_own_head(encoding: ALiBi) -> Function:
    """Return slopes whose second series starts anew on ranks that have no head of the first."""

    def slopes(n: int, size: int, rank: int) -> np.ndarray:
        first, count = rank * (n // size), n // size
        few = 1 << (n.bit_length() - 1)
        every = _slopes(encoding, n)
        start = few if first >= few else first
        return every[start : start + count]

    return slopes


MODEL_ROWS = {
    "rows": Plain(
        _sequences,
        _row_mistakes,
        "wrong-row",
        integers=False,
        truth=_rows_truth,
        suggested=_row_suggestions,
        within=lambda arguments, last: (min(arguments[0], last + 1),),
        closer=_as_table,
    ),
    "layers": Plain(
        _depth,
        _layer_mistakes,
        "layer-schedule",
        suggested=_other_layers,
        remedy=_layers_remedy,
    ),
    "softmax_scale": Plain(
        _once,
        _scale_mistakes,
        "softmax-scale",
        integers=False,
        truth=lambda encoding, arguments, value: exactly(value),
        suggested=_other_sizes,
        remedy=_scale_remedy,
    ),
    "rank_slopes": Plain(
        _ranks,
        _slope_mistakes,
        "shard-offset",
        integers=False,
        truth=lambda encoding, arguments, value: exactly(value),
        remedy=lambda encoding: (
            "Rank r of size holds the n // size heads from r * (n // size) on: "
            f"compute the slopes of all n heads ({encoding.num_heads} declared), then select these."
        ),
    ),
}
