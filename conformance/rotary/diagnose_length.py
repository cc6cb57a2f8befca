"""Diagnose frequencies that change at another length, or by another rule, than declared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import Rotary
from posenc_ref.accuracy import FACTOR_SLACK, Truth
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.phases.declared_formula import formula
from posenc_ref.conformance.phases.factor_mistakes import named
from posenc_ref.conformance.phases.factor_mistakes import remedy as factor_remedy
from posenc_ref.conformance.phases.schedule_mistakes import FACTORS, LENGTHS, trained_field

from .judge_length import WHOSE, case, lengths_of, positions_of

#: Takes an encoding, a call's length, and the length used for its frequencies (0: each token's
#: position plus one); returns whether the encoding then matches the function.
Fits = Callable[[Rotary, int, int], bool]


@dataclass(frozen=True)
class Rule:
    """A wrong way in which frequencies may depend on the length."""

    code: str
    message: str
    encoding: Rotary
    seen: Callable[[int], int] = lambda n: n  #: the length used in a call of length n
    at: Callable[[int], Rotary | None] | None = None  #: the encoding of a call, if they differ
    remedy: str = ""


def diagnose(run: Run, access: Access, encoding: Rotary) -> bool:
    """Report the wrong rule that predicts the values at every length; return whether it exists."""
    failed = {f.case for f in run.failures if f.check == "lengths"}
    lengths = [n for n in lengths_of(encoding) if n - 1 <= run.ledger.highest]
    if not failed or not lengths:
        return False
    seen = dict(_calls(run, access, lengths))

    def fits(encoding: Rotary, length: int, taken: int) -> bool:
        x, y = seen[length]
        positions = positions_of(length)
        lengths = np.full(positions.shape, taken) if taken else positions + 1
        return run.fits(y, apply_truth(encoding, x, positions, lengths))

    if not any(case(n) in failed for n in lengths):
        return _whose(run, encoding, sorted(failed))
    first = next((n for n in lengths if case(n) in failed), lengths[0])
    if _explain(run, encoding, list(seen), first, fits):
        return True
    if _factor_by_length(run, encoding, seen):
        return True
    return _another_rule(run, encoding, [n for n in seen if not fits(encoding, n, n)], list(seen))


def _factor_by_length(
    run: Run, encoding: Rotary, seen: dict[int, tuple[np.ndarray, np.ndarray]]
) -> bool:
    """Report a wrong attention factor; return whether it was found.

    The frequencies must be right at every length.
    """
    channels = np.concatenate(encoding.output_pairs())
    ratios = {}
    for length, (x, y) in seen.items():
        positions = positions_of(length)
        truth = apply_truth(encoding, x, positions, np.full(positions.shape, length))
        got, expected = y[..., channels], truth.value[..., channels]
        ratio = float(np.sum(got * expected) / np.sum(expected * expected))
        scaled = np.array(truth.value)
        scaled[..., channels] *= ratio
        moved = Truth(scaled, truth.terms * abs(ratio), truth.angle * abs(ratio), truth.amplitude)
        if not (run.scores(y, moved) <= 2 * run.budget).all():
            return False
        ratios[length] = ratio
    m = {n: encoding.attention_factor(n) * r for n, r in ratios.items()}
    off = [n for n, r in ratios.items() if abs(r - 1) > FACTOR_SLACK]
    if not off:
        return False
    run.add(
        "attention-factor",
        f"cos and sin are multiplied by {m[off[0]]:.6g} in calls of length {off[0]}, declared "
        f"{encoding.attention_factor(off[0]):.6g}{_said(encoding, m[off[0]], off[0])}; the frequencies are right",
        f"factor by length: {', '.join(f'{n}: {v:.6g}' for n, v in m.items())}",
        values={"declared": encoding.attention_factor(off[0]), "measured": m[off[0]]},
        remedy=factor_remedy(encoding, off[0]),
    )
    return True


def _said(encoding: Rotary, factor: float, length: int) -> str:
    known = named(encoding, factor, length)
    return f", since {known}" if known else ""


def _whose(run: Run, encoding: Any, failed: list[str]) -> bool:
    """Report a length that is not taken from the largest position of the call; return True."""
    places = ", ".join(name.removeprefix(WHOSE).strip() for name in failed)
    place = next(f.place for f in run.failures if f.check == "lengths")
    run.add(
        "scaling-formula",
        "the length does not follow the largest position of the call: calls are wrong if that "
        f"position is in {places}",
        place,
        remedy="Take the largest position of the whole call, plus one, for the length.",
    )
    return True


def _calls(
    run: Run, access: Access, lengths: list[int]
) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray]]]:
    for length in lengths:
        positions = positions_of(length)
        x = run.random((1, 1, positions.size, access.dim), 14)
        try:
            yield length, (x, access.rows(x, positions))
        except (Refused, Malformed):
            continue


def explain_frequencies(
    run: Run, encoding: Rotary, seen: dict[int, np.ndarray], fits_at: Callable[[Any, Any], bool]
) -> bool:
    """Report the wrong rule behind frequencies returned by length; return whether there is one."""

    def fits(other: Rotary, length: int, taken: int) -> bool:
        return fits_at(seen[length], other.frequencies(taken or length))

    wrong = [n for n in seen if not fits(encoding, n, n)]
    if not wrong:
        return False
    if _explain(run, encoding, list(seen), wrong[0], fits):
        return True
    return _another_rule(run, encoding, wrong, list(seen))


def _another_rule(run: Run, encoding: Any, wrong: list[int], lengths: list[int]) -> bool:
    """Report an unknown rule if short calls are right and longer ones wrong; return whether so."""
    right = [n for n in lengths if n not in wrong]
    if not right or min(right) > min(wrong):
        return False
    last = max(n for n in right if n < min(wrong))
    run.add(
        "scaling-formula",
        f"calls up to length {last} are right, longer ones are not: the frequencies do not "
        f"grow by the rule of {type(encoding.scaling).__name__}",
        f"judged at lengths {', '.join(map(str, lengths))}; wrong from {min(wrong)} on",
        equivalent=("scaling-parameter",),
        remedy=f"Correct the frequencies of calls longer than {last}. {formula(encoding)}",
    )
    return True


def _explain(run: Run, encoding: Rotary, lengths: list[int], first: int, fits: Fits) -> bool:
    evidence = f"judged at lengths {', '.join(map(str, lengths))}; wrong from {first} on"
    for rule in _rules(encoding, lengths):
        if all(_predicts(rule, n, fits) for n in lengths):
            remedy = f"{rule.remedy} {formula(encoding)}".strip()
            run.add(rule.code, rule.message, evidence, remedy=remedy)
            return True
    return False


def _predicts(rule: Rule, length: int, fits: Fits) -> bool:
    """Return whether a rule predicts the call of this length."""
    encoding = rule.encoding if rule.at is None else rule.at(length)
    return encoding is not None and fits(encoding, length, rule.seen(length))


def _rules(encoding: Any, lengths: list[int]) -> Iterator[Rule]:
    scaling = encoding.scaling
    name = type(scaling).__name__
    field = trained_field(scaling)
    start = getattr(scaling, field) if field else 1
    for text, seen, remedy in (
        (
            f"one token early: a call of length {start} gets those of length {start + 1}",
            lambda n: n + 1,
            f"The length is the largest position plus 1, and counts as long if it is more than "
            f"{start} (>, not >=).",
        ),
        (
            f"one token late: a call of length {start + 1} gets those of length {start}",
            lambda n: max(n - 1, 1),
            "Take the largest position plus 1 for the length, not the largest position.",
        ),
        (
            "token by token: they depend on the position, not the length of the call",
            lambda n: 0,
            "Choose the frequencies once for a call, by its largest position plus 1, and use them "
            "for all its tokens.",
        ),
    ):
        text = f"{name} changes the frequencies {text}"
        yield Rule("scaling-parameter", text, encoding, seen, remedy=remedy)
    for end in dict.fromkeys([round(start * (getattr(scaling, "factor", None) or 1.0)), *LENGTHS]):
        if hasattr(scaling, "short_factor") and end != start:
            yield Rule(
                "scaling-parameter",
                f"{name} changes the frequencies after length {end}, declared {start}",
                encoding,
                lambda n, end=end: start if n <= end else start + 1,  # type: ignore[misc]
                remedy=f"Compare the length of the call with {start}, not with {end}.",
            )
    for policy in ("static", "short", "long"):
        text = f"the frequencies do not depend on the length: policy is {policy!r}, declared "
        said = f"{text}{getattr(scaling, 'policy', '')!r}"
        remedy = "Choose the frequencies by the length of each call: its largest position plus 1."
        yield from _changed(encoding, said, remedy, policy=policy)
    yield Rule(
        "scaling-missing",
        "the frequencies stay those of the original length in every call",
        encoding,
        lambda n: 1,
        remedy="Compute the frequencies from the length of each call: its largest position plus 1.",
    )
    if hasattr(scaling, "short_factor"):
        short, long = scaling.short_factor, scaling.long_factor
        text = "short_factor and long_factor are exchanged"
        remedy = f"Use short_factor up to length {start}, long_factor beyond."
        yield from _changed(encoding, text, remedy, short_factor=long, long_factor=short)
        text = "the lists short_factor and long_factor are reversed: slow pairs come first"
        remedy = "Use both lists in their order: number k is for pair k."
        yield from _changed(
            encoding, text, remedy, short_factor=short[::-1], long_factor=long[::-1]
        )
    factor = getattr(scaling, "factor", None)
    values: list[tuple[str, Any]] = [(field, n) for n in LENGTHS] if field else []
    if factor and field:
        values = [(field, round(start * factor)), ("factor", factor**2), *values]
    if factor:
        values += [("factor", f) for f in FACTORS]
    for key, value in values:
        text = f"{key} is {value}, declared {getattr(scaling, key)}"
        remedy = f"Pass {key} = {getattr(scaling, key)}, not {value}."
        yield from _changed(encoding, text, remedy, **{key: value})
    if isinstance(scaling, pr.QwenNTK):
        yield from _steps(encoding, start)
    if not factor:
        return
    for other in (pr.NTKScaling, pr.LinearScaling):
        made = other(factor)
        yield Rule(
            "scaling-formula",
            f"the scaling is {made!r} at every length, declared {name}",
            encoding.replace(scaling=made),
        )
    if isinstance(scaling, pr.DynamicNTK):
        yield from _dynamic(encoding, factor, start)


def _steps(encoding: Any, start: int) -> Iterator[Rule]:
    """Yield Qwen's dynamic NTK with its steps rounded in another way."""
    roundings: tuple[tuple[str, Callable[[float], int]], ...] = (
        ("down", math.floor), ("to the nearest integer", round),
    )  # fmt: skip
    for words, rounded in roundings:

        def seen(n: int, rounded: Callable[[float], int] = rounded) -> int:
            return start << max(rounded(math.log2(n / start)), 0)

        yield Rule(
            "scaling-formula",
            f"QwenNTK: log2(L / train_length) is rounded {words}, declared up",
            encoding,
            seen,
            remedy="Round log2(L / train_length) up (ceil).",
        )


def _dynamic(encoding: Any, factor: float, start: int) -> Iterator[Rule]:
    """Yield dynamic NTK with other numbers alpha, or another power of alpha, on the base."""
    d = encoding.rotary_dim
    right = f"factor * L / {start} - (factor - 1)"
    powers = (("d/(d-2)", d / (d - 2)), ("1", 1.0), ("(d-2)/d", (d - 2) / d))
    for what, alpha in (
        (right, lambda n: factor * n / start - (factor - 1)),
        (f"L / {start} - (factor - 1)", lambda n: n / start - (factor - 1)),
        (f"L / {start}", lambda n: n / start),
        (f"factor * L / {start}", lambda n: factor * n / start),
        (f"factor * L / {start} - factor", lambda n: factor * n / start - factor),
        (f"factor * (L / {start} - 1)", lambda n: factor * (n / start - 1)),
        ("factor", lambda n: factor),
    ):
        for power, of in powers:
            for shortest in (start, 1):
                if what == right and power == "d/(d-2)" and shortest == start:
                    continue  # as declared
                short = "" if shortest > 1 else ", in calls up to the trained length too"
                remedy = f"Multiply the base by alpha ** (d/(d-2)), alpha = {right}, with L at "
                remedy += f"least {start}."

                def at(n: int, alpha: Any = alpha, of: float = of, least: int = shortest) -> Any:
                    if n <= start and least == start:
                        return encoding.replace(scaling=None)
                    value = alpha(n)
                    base = encoding.base * abs(value) ** of if value else 0.0
                    return encoding.replace(scaling=None, base=base) if base > 1 else None

                yield Rule(
                    "scaling-formula",
                    f"the base is multiplied by ({what}) ** {power}{short}",
                    encoding,
                    at=at,
                    remedy=remedy,
                )


def _changed(encoding: Any, message: str, remedy: str = "", **changes: Any) -> Iterator[Rule]:
    """Yield the mistake that changes fields of the scaling, unless the new scaling is invalid."""
    try:
        changed = encoding.replace(scaling=encoding.scaling.replace(**changes))
    except (ValueError, TypeError):
        return
    yield Rule("scaling-parameter", message, changed, remedy=remedy)
