"""Plain functions of a model: table rows, layers, softmax scale, slopes of a rank.

Tolerance of ``softmax_scale``: A = |value|, B = 0.  ``rows`` has that of the table; rows of a
learned table must be bit-equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import ALiBi, Learned, ModelEncoding, Sinusoidal, YaRN
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.position_mistakes import other_rows
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import exactly
from posenc_ref.conformance.rotary.as_apply import Inexpressible, host_positions, seen_as, starts
from posenc_ref.conformance.table import judge as judge_tables
from posenc_ref.conformance.table.diagnose_rows import reversed_length
from posenc_ref.conformance.table.judge_features import longest
from posenc_ref.schedules.yarn import mscale

from .function import Arguments, Function, Plain, several, written

LENGTHS = (5, 1, 2, 16, 64)


def _longest(encoding: Any) -> int:
    """Return the largest length of a sequence."""
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
    """Return ``truth`` with other values, and A at least as large as these."""
    looked_up = (truth.terms == 0) & (truth.angle == 0) & (truth.amplitude == 0)
    terms = np.where(looked_up, 0.0, np.maximum(truth.terms, np.abs(value)))
    return Truth(value, terms, truth.angle, truth.amplitude)


def _row_mistakes(encoding: Any) -> Iterator[Mistake]:
    def at(positions: Function) -> Function:
        def rows(n: int) -> Truth:
            truth = encoding.truth(positions(np.arange(n)))
            return _sized(truth, np.asarray(truth.value))

        return rows

    for code, message, change in other_rows(getattr(encoding, "offset", 0)):
        yield written(code, message, at(change))
    if isinstance(encoding, Learned):
        yield _reversed(encoding, _longest(encoding))


def _reversed(encoding: Any, size: int) -> Mistake:
    def rows(n: int) -> Truth:
        truth = encoding.truth(size - 1 - np.arange(n))
        return _sized(truth, np.asarray(truth.value))

    text = f"a table of {size} rows is reversed before it is cut to the sequence"
    return written("wrong-row", text, rows, "Cut the table to the sequence first, reverse it then.")


def _row_suggestions(
    encoding: Any, arguments: tuple[Any, ...], actual: np.ndarray
) -> Iterator[Mistake]:
    if isinstance(encoding, Sinusoidal) and len(actual):
        size = reversed_length(encoding, actual[0], len(actual))
        if size is not None:
            yield _reversed(encoding, size)


def _as_table(run: Run, seen: list[JudgedCall]) -> None:
    """Diagnose the rows as a ``table``, with calls of the lengths that succeeded."""
    if not isinstance(run.encoding, Sinusoidal | Learned):
        return
    fn, longest = run.driver.fn, max(one.facts.arguments[0] for one in seen)

    def view(positions: Any) -> Any:
        p = host_positions(run, positions)
        if starts(p) != 0 or p.size > longest:
            raise Inexpressible(f"a sequence starts at 0 and has at most {longest} rows")
        return fn(int(p.size))

    limits = list(run.report.limits)  # limits added by the view are dropped
    with seen_as(run, view, run.encoding, "lambda p: fn(len(p))") as viewed:
        judge_tables.judge_table(viewed)
    run.report.limits[:] = limits


def _depth(model: ModelEncoding, seed: int, dtype: str) -> Iterator[Arguments]:
    yield Arguments("all layers", (len(model.layer_types),))


def _layer_mistakes(model: ModelEncoding) -> Iterator[Mistake]:
    flags = np.array(pr.layers(model, len(model.layer_types)))

    def fixed(values: np.ndarray) -> Function:
        return lambda n: values

    backwards = (
        "Read the flag as the configuration's code does: no_rope_layers holds 1 where a layer "
        "rotates."
    )
    code = "layer-schedule"
    yield from several(
        (code, "the schedule is inverted: layers that should rotate do not",
         fixed(~flags),
         backwards),
        (code, "every layer has a positional encoding", fixed(np.ones_like(flags))),
        (code, "no layer has a positional encoding", fixed(np.zeros_like(flags))),
    )  # fmt: skip
    for by in (1, -1):
        text = f"the schedule is one layer too {'late' if by > 0 else 'early'}"
        yield written(code, text, fixed(np.roll(flags, by)))
    odd = np.flatnonzero(flags != np.bincount(flags.astype(int), minlength=2).argmax())
    if odd.size > 1 and np.unique(np.diff(odd)).size == 1:
        n = int(odd[1] - odd[0])
        common = not flags[odd[0]]
        index = np.arange(flags.size)
        for start in range(n):
            text = f"the exceptions start at layer {start}, declared {odd[0]}"
            yield written(code, text, fixed(np.where(index % n == start, ~common, common)))
        for other in (n - 1, n + 1):
            if other > 1:
                text = f"every {other}th layer is the exception, declared every {n}th"
                mask = (index + 1) % other == 0
                yield written(code, text, fixed(np.where(mask, ~common, common)))
    yield written(code, "the schedule runs from the last layer to the first", fixed(flags[::-1]))


def _once(model: ModelEncoding, seed: int, dtype: str) -> Iterator[Arguments]:
    yield Arguments("the model", ())


def scales(model: ModelEncoding) -> Iterator[tuple[str, float]]:
    """Yield each factor on q . k that may be mistaken for the model's, with a description."""
    scale = pr.softmax_scale(model)
    found: dict[str, float] = {}
    sizes = {e.head_dim for e in model.encodings.values() if isinstance(e, pr.Rotary)}
    for name, e in model.encodings.items():
        scaling = getattr(e, "scaling", None)
        if not isinstance(scaling, YaRN):
            continue
        for what, weight in (
            ("mscale_all_dim", scaling.mscale_all_dim),
            ("mscale", scaling.mscale),
        ):
            g = float(mscale(scaling.factor, 1.0 if weight is None else weight))
            if g != 1.0:
                of = f"YaRN's g({what}) = {g:.6g} ({name})"
                found[f"{of} is missing, twice"] = scale / g**2
                found[f"{of} is missing once: the scale has it squared"] = scale / g
                found[f"{of} is in it twice too often"] = scale * g**2
                found[f"{of} is in it once too often"] = scale * g
    for d in sorted(sizes):
        found[f"it is 1/sqrt({d}), the plain scale of a rotary head"] = d**-0.5
        found[f"it is 1/{d}: without the root"] = 1.0 / d
        found[f"it is divided by sqrt({d}) once more"] = scale * d**-0.5
        found[f"it is multiplied by sqrt({d})"] = scale * d**0.5
    found["logits are not scaled at all"] = 1.0
    found["it is the inverse: logits are multiplied where they should be divided"] = 1 / scale
    found["it is squared"] = scale**2
    found["it is the square root"] = scale**0.5
    yield from ((message, value) for message, value in found.items() if value != scale)


def _scale_mistakes(model: ModelEncoding) -> Iterator[Mistake]:
    for message, value in scales(model):
        yield written("softmax-scale", message, lambda value=value: value)


def _slopes(encoding: ALiBi, n: int) -> np.ndarray:
    return ALiBi(n, max_bias=encoding.max_bias).slopes()


def _ranks(encoding: ALiBi, seed: int, dtype: str) -> Iterator[Arguments]:
    declared = encoding.num_heads
    for n, required in ((declared, True), *((n, False) for n in (8, 12, 40, 112, 144, 260))):
        if not required and n == declared:
            continue
        for size in [s for s in (2, 4, 3, 5) if n % s == 0 and n > s][:2]:
            for rank in range(size):
                yield Arguments(f"rank {rank} of {size}", (n, size, rank), required)
    yield Arguments("one rank", (declared, 1, 0), encoding.num_heads in (1, 2, 3, 5))


def _slope_mistakes(encoding: ALiBi) -> Iterator[Mistake]:
    def held(n: int, size: int) -> int:
        return n // size

    def part(of: Function) -> Function:
        """Return the function that gives the rank's part of the slopes ``of``."""

        def function(n: int, size: int, rank: int) -> np.ndarray:
            return np.asarray(of(n)[rank * held(n, size) : (rank + 1) * held(n, size)])

        return function

    top, right = encoding.max_bias, part(lambda n: _slopes(encoding, n))
    yield from several(
        ("shard-offset", "slopes are those of a model with as many heads as the rank holds",
         lambda n, size, rank: _slopes(encoding, held(n, size)),
         "Make the slopes of all heads, and cut the rank's own out of them."),
        ("shard-offset", "every rank gets the slopes of rank 0",
         lambda n, size, rank: _slopes(encoding, n)[: held(n, size)]),
        ("shard-offset", "ranks are counted from the last one",
         lambda n, size, rank: right(n, size, size - 1 - rank)),
        ("shard-offset", "ranks start rank heads in, not rank times their number",
         lambda n, size, rank: _slopes(encoding, n)[rank : rank + held(n, size)]),
        ("head-order", "heads are dealt to the ranks one by one",
         lambda n, size, rank: _slopes(encoding, n)[rank::size]),
        ("slopes", "2 ** (-8 h / n) is taken for any number of heads",
         part(lambda n: 2.0 ** (-top * np.arange(1, n + 1) / n))),
        ("slopes", "the exponents start at 0", part(lambda n: 2.0 ** (-top * np.arange(n) / n))),
        ("bias-sign", "the slopes are negative", part(lambda n: -_slopes(encoding, n))),
    )  # fmt: skip


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
    "layers": Plain(_depth, _layer_mistakes, "layer-schedule"),
    "softmax_scale": Plain(
        _once,
        _scale_mistakes,
        "softmax-scale",
        integers=False,
        truth=lambda model, arguments, value: exactly(value),
    ),
    "rank_slopes": Plain(
        _ranks,
        _slope_mistakes,
        "shard-offset",
        integers=False,
        truth=lambda encoding, arguments, value: exactly(value),
    ),
}
