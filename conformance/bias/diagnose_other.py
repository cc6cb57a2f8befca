"""Diagnose biases other than ALiBi and T5: compare them with the predictions of known mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from posenc_ref import BEiTBias, Bias, SwinBias
from posenc_ref.accuracy import ROUNDOFF, Truth
from posenc_ref.conformance.diagnosis.coarse import report_coarse
from posenc_ref.conformance.diagnosis.limited import limited
from posenc_ref.conformance.diagnosis.match import explains, fits, likely, match, report_in_part
from posenc_ref.conformance.diagnosis.measured_constants import measured_constants
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake, each_part
from posenc_ref.conformance.diagnosis.offset_sizes import Sizes, sizes_of
from posenc_ref.conformance.diagnosis.position_mistakes import REVERSED_KEYS, WHOLE_POSITION, tiled
from posenc_ref.conformance.diagnosis.relation import report_relation
from posenc_ref.conformance.diagnosis.steps import Change
from posenc_ref.conformance.diagnosis.together import match_together
from posenc_ref.conformance.diagnosis.whole_values import OF_BIAS, whole_values
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import exactly
from posenc_ref.conformance.table.resized import Resized, resized_otherwise

from .cases import BiasCase
from .formulas import changed, formula_of, plain_of, step_changes, truth_of
from .head_fits import of_heads
from .mistakes import bias_mistakes, fields_of_t5
from .rows_read import rows_read
from .together import two_of_bias


def diagnose_other(
    run: Run,
    cases: Sequence[BiasCase],
    further: Callable[[], Iterator[BiasCase]] | None = None,
) -> None:
    """Report the first mistake that explains all calls, if necessary with a fitted factor.

    ``further`` makes calls that could refute it.
    """
    longest = max(case.k_len for case in cases)
    declared, *others = (of_cases(one) for one in bias_mistakes(run.encoding, longest))
    calls = _judged(declared, cases)
    if cases[0].up_to_constant and all(fits(run, one, one.truth) for one in calls):
        large_constants(run, [(case.name, case.own) for case in cases])
        return
    clipped = (
        [] if cases[0].up_to_constant else [limited(declared.predict, "the bias", "bias-scale")]
    )
    steps = partial(_steps, run.encoding, _sizes(run, calls))
    of_values = whole_values(declared.predict, "the bias", "bias-scale", OF_BIAS)
    measured = rows_read(run.encoding, by_rule=True)
    measured += _constants(run.encoding)
    measured += of_heads(declared.predict, cases[0].up_to_constant)
    unfitted = likely(run, calls, chain(steps(), of_values))
    found = chain([declared, *others], unfitted, clipped, measured)
    more = None if further is None else lambda: _judged(declared, list(further()))
    if not match(run, calls, found, further=more) and not run.report.codes:
        if not cases[0].up_to_constant and report_coarse(
            run,
            calls,
            "the bias",
            lambda case: (declared.predict(case), np.zeros(())),  # type: ignore[arg-type,return-value]
        ):
            return
        others = [declared, *others]
        if report_in_part(run, calls, steps()) or two_mistakes(run, calls, others, more):
            return
        if not report_relation(run, calls):
            match(run, calls, rows_read(run.encoding, by_rule=False))


def two_mistakes(
    run: Run,
    calls: Sequence[JudgedCall],
    others: Sequence[Mistake],
    further: Callable[[], Sequence[JudgedCall]] | None = None,
) -> bool:
    """Report two mistakes that explain all calls; return whether there are some.

    The first of ``others`` predicts the declared bias.
    """
    singles = [*others, *_steps(run.encoding, Sizes())]
    pairs = two_of_bias(
        run, calls, run.encoding, singles, of_cases, _offsets, partial(factor_on_bias, run)
    )
    return match_together(run, calls, pairs, further)


def explained_by_step(run: Run, cases: Sequence[BiasCase]) -> bool:
    """Report the changed step of the formula that explains all calls; return whether one does.

    The step may be changed in some calls, or for some heads, queries or keys, only.
    """
    declared = next(iter(bias_mistakes(run.encoding)))
    calls = _judged(of_cases(declared), cases)
    run.ledger.relate = partial(report_relation, run, calls)
    steps = partial(_steps, run.encoding, _sizes(run, calls))
    for mistake in likely(run, calls, steps()):
        if explains(run, calls, mistake):
            return match(run, calls, [mistake])
    others = [of_cases(one) for one in bias_mistakes(run.encoding)]
    whole = [*others[1:], *(of_cases(one) for one in fields_of_t5(run.encoding))]
    if report_in_part(run, calls, steps()) or report_in_part(run, calls, whole):
        return True
    return two_mistakes(run, calls, [others[0], *whole])


def _constants(declared: Bias) -> list[Mistake]:
    """Return the mistake that one constant of the formula has another value."""
    if formula_of(declared) is None:
        return []
    truth = truth_of(declared)

    def predicted(change: Change) -> Callable[[BiasCase], Truth | None]:
        values = changed(declared, change, truth=truth)
        return of_cases(Mistake("", "", lambda places: values(*places))).predict

    return [measured_constants(plain_of(declared), predicted)]


def _sizes(run: Run, calls: Sequence[JudgedCall]) -> Sizes:
    return sizes_of(run, calls, _offsets)


def _offsets(case: BiasCase) -> np.ndarray:
    return np.asarray(-case.offsets)


def _judged(declared: Mistake, cases: Sequence[BiasCase]) -> list[JudgedCall]:
    calls = []
    for case in cases:
        truth = declared.predict(case)
        assert truth is not None
        calls.append(JudgedCall(case.name, case.moved, truth, case, case.judged))
    return calls


def _steps(declared: Bias, sizes: Sizes) -> Iterator[Mistake]:
    """Yield the declared formula with each of its steps changed, without a fitted factor."""
    remedy = "Add the declared bias."
    none = (
        "bias-missing",
        "the bias is 0",
        remedy,
        lambda q, k: exactly(0 * declared.truth(q, k).value),
    )
    backwards = (
        "wrong-row",
        REVERSED_KEYS,
        "Key j has position j: count keys from the first.",
        lambda q, k: each_part(declared.truth(q, k), lambda part: part[..., ::-1]),
    )
    for code, message, remedy, values in chain(
        [none, backwards], step_changes(declared, sizes), _tiles(declared), _resized(declared)
    ):
        mistake = Mistake(code, message, lambda places, of=values: of(*places), remedy)  # type: ignore[misc]
        yield replace(of_cases(mistake), fit=None)


def _tiles(
    declared: Bias,
) -> Iterator[tuple[str, str, str, Callable[[np.ndarray, np.ndarray], Truth | None]]]:
    """Yield the bias at positions that tiles of a kernel make."""
    for what, of_queries in (("keys", False), ("queries", True)):
        for text, place in tiled(what):

            def values(
                q: np.ndarray, k: np.ndarray, place: Any = place, of_queries: bool = of_queries
            ) -> Truth | None:
                both = (place(q), k) if of_queries else (q, place(k))
                try:
                    truth = declared.truth(*both)
                except (TypeError, ValueError):  # positions outside a window
                    return None
                return Truth(
                    truth.value, np.maximum(truth.terms, declared.truth(q, k).terms), truth.angle
                )

            yield "bias-alignment", text, WHOLE_POSITION, values
    remedy = "Compute the bias of every pair of query and key, not once for a whole tile."
    for size in (16, 32, 64, 128):
        for words, far in _FAR_TILES:
            text = f"all pairs of a tile of {size} x {size} have the bias of its first pair{words}"
            of_tiles = partial(_of_first_pair, declared, size, far)
            yield "bias-alignment", text, remedy, of_tiles


def _resized(
    declared: Bias,
) -> Iterator[tuple[str, str, str, Callable[[np.ndarray, np.ndarray], Truth | None]]]:
    """Yield the biases of a table of offsets that was resized in another way."""
    if not isinstance(declared, SwinBias | BEiTBias):
        return
    h, w = declared.window
    table = np.asarray(declared.table)
    of_offsets = (2 * h - 1) * (2 * w - 1)  # those of [CLS] follow

    def whole(rows: np.ndarray) -> Bias:
        return declared.replace(table=np.concatenate([rows, table[of_offsets:]]))

    for one in resized_otherwise(table[:of_offsets], (0,), (2 * h - 1, 2 * w - 1)):

        def values(q: np.ndarray, k: np.ndarray, one: Resized = one) -> Truth:
            truth, terms = whole(one.rows).truth(q, k), whole(one.terms).truth(q, k)
            return Truth(truth.value, np.maximum(np.abs(terms.value), truth.terms), truth.angle)

        yield "wrong-row", f"the table is {one.words}", one.remedy, values


#: Tiles by the first key minus the first query and the size: in words, and a function.
_FAR_TILES: tuple[tuple[str, Callable[[np.ndarray, int], np.ndarray]], ...] = (
    ("", lambda r, n: r == r),
    (", in tiles that begin at least a tile after the query", lambda r, n: r >= n),
    (", in tiles that begin at least a tile before the query", lambda r, n: r <= -n),
    (", in tiles that begin at least a tile from the query", lambda r, n: np.abs(r) >= n),
)


def _of_first_pair(
    declared: Bias,
    size: int,
    far: Callable[[np.ndarray, int], np.ndarray],
    q: np.ndarray,
    k: np.ndarray,
) -> Truth:
    """Return the bias with the value of a tile's first pair in all pairs of far tiles."""
    own = declared.truth(q, k)
    rows, columns = (np.arange(p.size) // size * size for p in (q, k))
    chosen = far(k[columns][None] - q[rows][:, None], size)
    first = own.value[:, rows[:, None], columns[None]]
    value = np.where(chosen, first, own.value)
    return Truth(value, np.maximum(own.terms, np.abs(value)), own.angle)


def large_constants(run: Run, rows: Sequence[tuple[str, np.ndarray]]) -> None:
    """Report rows that are correct except for large constants, which cancel in softmax."""
    where, size = max(((name, float(np.abs(own).max())) for name, own in rows), key=lambda p: p[1])
    run.add(
        "inaccurate",
        f"constants of up to {size:.3g} are added to the rows: softmax ignores them, but they make "
        "the rounding of the bias coarser",
        f"{where}, at the queries' own keys",
        remedy="Subtract the constant of each row, the value at the query's own key, before the "
        "bias is rounded.",
        values={"measured": size},
    )


def of_cases(mistake: Mistake) -> Mistake:
    """Return ``mistake`` with a prediction for each :class:`BiasCase`.

    ``fit`` also fits a factor on the bias, to the wrong case with the most values.
    """

    def predicts(factor: float) -> Callable[[BiasCase], Truth | None]:
        def predict(case: BiasCase) -> Truth | None:
            truth = mistake.predict((case.rows, np.arange(case.k_len)))
            if truth is None:
                return None
            value, terms = factor * truth.value, abs(factor) * truth.terms
            if case.up_to_constant:
                value = value - value[:, np.arange(case.q_len), case.rows][..., None]
                terms = terms + np.abs(case.own)
            return Truth(value, terms, abs(factor) * truth.angle)

        return predict

    def fit(run: Run, wrong: Sequence[JudgedCall]) -> list[Mistake]:
        one = max(wrong, key=lambda call: call.actual.size)
        predicted = predicts(1.0)(one.facts)
        assert predicted is not None
        value, actual = predicted.value[:, one.mask], one.actual[:, one.mask]
        bottom = float((value * value).sum())
        factor = float((value * actual).sum()) / bottom if bottom else 1.0
        named = replace(mistake, predict=predicts(factor))
        return [named] * bool(mistake.code) + [
            replace(named, code=code, message=text, values=values, remedy=remedy)
            for code, text, values, remedy in factor_on_bias(run, factor)
        ]

    return replace(mistake, predict=predicts(1.0), fit=fit)


def factor_on_bias(
    run: Run, factor: float, head_dim: int = 1
) -> Iterator[tuple[str, str, dict[str, object], str]]:
    """Yield the code, message, values and remedy of a finding, if the factor is not 1."""
    d, near = head_dim, run.budget * ROUNDOFF[run.coarse]
    inside = getattr(run.encoding, "bias_inside_scale", False)
    root = f"Add the bias to q . k before the sum is divided by sqrt({d})."
    known = (
        (1.0, "", "", ""),
        (-1.0, "bias-sign", "the bias has the opposite sign", "Reverse the sign of the bias."),
        (0.0, "bias-missing", "the bias is missing", "Add the bias."),
        (d**-0.5, "bias-scale", f"the bias is divided by sqrt({d}), like q.k",
         "Add the bias after q . k has been scaled, unscaled."),
        (d**0.5, "bias-scale", f"the bias is multiplied by sqrt({d})",
         root if inside else f"Divide the bias by sqrt({d})."),
        (d**-0.25, "bias-scale", f"the bias is multiplied by {d} ** (-1/4)",
         f"Multiply the bias by {d} ** (1/4)."),
        (d**0.25, "bias-scale", f"the bias is multiplied by {d} ** (1/4)",
         f"Divide the bias by {d} ** (1/4)."),
    )  # fmt: skip
    code, text, remedy = next(
        (rest for value, *rest in known if abs(factor - value) <= near * max(value, 1)),
        ("bias-scale", f"the bias is multiplied by {factor:.6g}",
         f"Divide the bias by {factor:.6g}."),
    )  # fmt: skip
    if code:
        yield code, text, {"declared": 1.0, "measured": factor}, remedy
