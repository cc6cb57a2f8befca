"""Wrong ways in which frequencies may depend on the length of a call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import Rotary
from posenc_ref.conformance.phases.schedule_mistakes import FACTORS, LENGTHS, trained_field

#: Ends the words of a rule that holds for short calls too.
SHORT_TOO = ", in calls up to the trained length too"


@dataclass(frozen=True)
class Rule:
    """A wrong way in which frequencies may depend on the length."""

    code: str
    message: str
    encoding: Rotary
    seen: Callable[[int], int] = lambda n: n  #: the length used in a call of length n
    at: Callable[[int], Rotary | None] | None = None  #: the encoding of a call, if they differ
    remedy: str = ""


def length_rules(encoding: Any, lengths: list[int]) -> Iterator[Rule]:
    """Yield known rules for the frequencies of calls, likely ones first."""
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
    for policy in ("static", "short", "long"):
        text = f"the frequencies do not depend on the length: policy is {policy!r}, declared "
        said = f"{text}{getattr(scaling, 'policy', '')!r}"
        remedy = "Choose the frequencies by the length of each call: its largest position plus 1."
        yield from _changed(encoding, said, remedy, policy=policy)
    for end in dict.fromkeys([round(start * (getattr(scaling, "factor", None) or 1.0)), *LENGTHS]):
        if hasattr(scaling, "short_factor") and end != start:
            yield Rule(
                "scaling-parameter",
                f"{name} {_switch(start, end, lengths)}",
                encoding,
                lambda n, end=end: start if n <= end else start + 1,  # type: ignore[misc]
                remedy=f"Compare the length of the call with {start}: use short_factor up to it, "
                "long_factor beyond.",
            )
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
        both = tuple(tuple(map(float, 1 / np.array(own))) for own in (short, long))
        yield from _changed(
            encoding,
            "frequencies are multiplied by short_factor and long_factor, not divided",
            "Divide the frequencies by the list of the length of the call, number k for pair k.",
            "scaling-formula",
            short_factor=both[0],
            long_factor=both[1],
        )
        for name, own in (("short_factor", short), ("long_factor", long)):
            which = f"up to length {start}" if name == "short_factor" else f"past length {start}"
            remedy = f"Divide the frequencies of calls {which} by {name}, number k for pair k."
            for words, changed in (
                ("multiplied by {}, not divided", tuple(1 / np.array(own))),
                ("not divided by {}", (1.0,) * len(own)),
                ("divided by {} twice", tuple(np.array(own) ** 2)),
            ):
                text = f"in calls {which}, frequencies are {words.format(name)}"
                changes = {name: tuple(map(float, changed))}
                yield from _changed(encoding, text, remedy, "scaling-formula", **changes)
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
        yield from _dynamic(encoding, factor, start, lengths)


def _switch(start: int, end: int, lengths: list[int]) -> str:
    """Return where the judged ``lengths`` show a change of frequencies, if it is after ``end``.

    Calls of other lengths could change elsewhere: only two lengths that follow each other show
    the number ``end``. Sequences of chunks, which give no lengths, show the direction alone.
    """
    below = max((n for n in lengths if n <= end), default=0)
    above = min((n for n in lengths if n > end), default=0)
    if not lengths:
        early = f"has the frequencies of long calls in calls up to length {start} too"
        late = f"keeps the frequencies of short calls in calls past length {start}"
        return early if end < start else late
    if not above:
        return f"keeps the frequencies of short calls up to length {below}, declared {start}"
    if not below:
        return f"has the frequencies of long calls from length {above} on, declared {start + 1}"
    if above == below + 1:
        return f"changes the frequencies after length {end}, declared {start}"
    return f"changes the frequencies between lengths {below} and {above}, declared after {start}"


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


def _dynamic(encoding: Any, factor: float, start: int, lengths: list[int]) -> Iterator[Rule]:
    """Yield dynamic NTK with other numbers alpha, or another power of alpha, on the base."""
    d = encoding.rotary_dim
    right = f"factor * L / {start} - (factor - 1)"
    powers = [("d/(d-2)", d / (d - 2)), ("1", 1.0), ("(d-2)/d", (d - 2) / d)]
    if (head := encoding.head_dim) != d:
        text = f"({head}/{head - 2}), with head_dim in place of rotary_dim in the exponent"
        powers.append((text, head / (head - 2)))
    for what, alpha in (
        (right, lambda n: factor * n / start - (factor - 1)),
        *(
            (f"{right}, rounded {words}", lambda n, of=of: of(factor * n / start - (factor - 1)))
            for words, of in (("to a whole number", np.rint), ("down", np.floor), ("up", np.ceil))
        ),
        (f"{right}, with L // {start} in place of L / {start}",
         lambda n: factor * (n // start) - (factor - 1)),
        (f"L / {start} - (factor - 1)", lambda n: n / start - (factor - 1)),
        (f"L / {start}", lambda n: n / start),
        (f"factor * L / {start}", lambda n: factor * n / start),
        (f"factor * L / {start} - factor", lambda n: factor * n / start - factor),
        (f"factor * (L / {start} - 1)", lambda n: factor * (n / start - 1)),
        (f"factor * (L / {start} - (factor - 1))", lambda n: factor * (n / start - (factor - 1))),
        (f"factor * L / {start} - (factor + 1)", lambda n: factor * n / start - (factor + 1)),
        (f"factor * L / {start} - 1", lambda n: factor * n / start - 1),
        (f"(factor - 1) * L / {start} + 1", lambda n: (factor - 1) * n / start + 1),
        ("factor", lambda n: factor),
        (f"alpha at length {round(start * factor)}", lambda n: factor * factor - (factor - 1)),
    ):  # fmt: skip
        small = (0.1, 0.01, 1e-3, 1e-6) if what == right else ()
        for (power, of), shortest, least in product(powers, (start, 1), (0.0, 1.0, None, *small)):
            if least is None and shortest > 1:
                continue  # it is above 0 there
            if what == right and power == "d/(d-2)" and shortest == start:
                continue  # as declared: alpha is at least 1 there
            if least and lengths and min(map(alpha, (max(n, shortest) for n in lengths))) >= least:
                continue  # the bound changes nothing
            taken = f"max({what}, {least:g})" if least else what
            short = "" if shortest > 1 else SHORT_TOO
            short += ", where that is above 0" if least is None else ""
            remedy = f"Multiply the base by alpha ** (d/(d-2)), alpha = {right}, with L at "
            remedy += f"least {start}, and d = {d}."

            at = partial(_with_alpha, encoding, alpha, of, start if shortest > 1 else 0, least)
            yield Rule(
                "scaling-formula",
                f"the base is multiplied by ({taken}) ** {power}{short}",
                encoding,
                at=at,
                remedy=remedy,
            )


def _with_alpha(
    encoding: Any,
    alpha: Callable[[int], float],
    power: float,
    plain: int,
    least: float | None,
    n: int,
) -> Any:
    """Return the encoding of a call of length n, whose base is multiplied by a power of alpha.

    Calls up to length ``plain`` keep the base, and without ``least`` those whose alpha is not above
    0. None: there is no such base.
    """
    if n <= plain or (least is None and alpha(n) <= 0):
        return encoding.replace(scaling=None)
    value = max(alpha(n), least) if least else abs(alpha(n))
    base = encoding.base * value**power if value else 0.0
    return encoding.replace(scaling=None, base=base) if base > 1 else None


def _changed(
    encoding: Any, message: str, remedy: str = "", code: str = "scaling-parameter", **changes: Any
) -> Iterator[Rule]:
    """Yield the mistake that changes fields of the scaling, unless the new scaling is invalid."""
    try:
        changed = encoding.replace(scaling=encoding.scaling.replace(**changes))
    except (ValueError, TypeError):
        return
    yield Rule(code, message, changed, remedy=remedy)
