"""Find mistakes that a function makes beside a rule of lengths, where frequencies depend on these.

Each call is compared with the rotation that a rule of lengths, a layout, a sign and a factor give
in a call of its length. If calls are left wrong, the positions used are decoded against it. An
explanation has to predict all calls, around every length at which frequencies change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import RoPE, Rotary
from posenc_ref.accuracy import FACTOR_SLACK
from posenc_ref.conformance.diagnosis.combine import IN_PART
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.scored import failed
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.report import ERROR, Finding
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.oracle.found import Found
from posenc_ref.conformance.phases.declaration import (
    declare,
    formula,
    nonzero_frequencies,
    schedule_of,
)
from posenc_ref.conformance.phases.decode import Decoder
from posenc_ref.conformance.phases.explain import explain
from posenc_ref.conformance.phases.factor_mistakes import factors
from posenc_ref.conformance.phases.factor_mistakes import remedy as factor_remedy
from posenc_ref.conformance.phases.frequencies import report
from posenc_ref.conformance.phases.measure import Measured
from posenc_ref.conformance.phases.positions_used import name_positions
from posenc_ref.conformance.phases.start import origin_of
from posenc_ref.conformance.rotary import turned
from posenc_ref.conformance.rotary.diagnose_length import TOKENS, TOKENS_MEND
from posenc_ref.conformance.rotary.judge_length import lengths_of, positions_of
from posenc_ref.conformance.rotary.length_rules import length_rules
from posenc_ref.conformance.rotary.structure import structure

from .rest import SOME, against, combine

#: The most tokens of a call that is made.
_MOST = 2**13
#: More calls that could refute a rule: each row has far positions, and near ones.
_FAR_ROWS: tuple[turned.Size, ...] = (
    ((2, 2, 4), np.array([[900, 3, 1100, 60], [40, 2000, 700, 5]])),
    ((3, 1, 2), np.array([[3000, 12], [520, 1500], [8, 640]])),
)
#: The largest misfit of a token that is rotated to some position, as a part of its pairs' size.
_NEAR = 0.02
#: Words of findings that say where frequencies are wrong, not why.
_VAGUE = ("longer ones are not", "shorter ones are not", "does not follow the largest position")
#: Codes of such findings, unless they have values.
_OF_PLACES = ("position-axis", "row-offset", "wrong-row", "decode-offset", "position-range")
#: Codes of frequencies of which a rule of lengths is another name.
_OF_RULES = ("scaling-parameter", "scaling-formula", "scaling-missing")


@dataclass(frozen=True)
class _Rule:
    """How frequencies depend on the length; without a message, as declared."""

    at: Callable[[int, int], tuple[Any, int]]  #: of a length and a number of tokens
    code: str = ""
    message: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class _Form:
    """What is the same in all calls, and the findings that say so."""

    channels: tuple[tuple[int, int, int, int], ...]
    ratio: np.ndarray  #: signed, of the frequencies to the declared ones
    origin: float
    findings: list[Finding] = field(default_factory=list)


def diagnose(run: Run, access: Access, encoding: Rotary, measured: Measured) -> None:
    """Report causes that predict all calls together, if those found so far do not."""
    known = [f for f in run.report.findings if f.severity == ERROR]
    if run.settings.reduced or access.mode != "any" or not isinstance(encoding, RoPE):
        return
    if not (encoding.frequencies() != 0).all():
        return
    forms = list(_forms(run, access, encoding, measured))
    bare = any(map(vague, known))
    if known and not bare:
        some = list(turned.calls_of(run, encoding, (*_some(), *_around(encoding, 0))))
        found = next(filter(None, (_of_rules(run, encoding, form, some) for form in forms)), [])
        if found and len(found) <= len(known):
            return
    calls = list(turned.calls_of(run, encoding, (*turned.CALLS, *_around(encoding))))
    more = list(turned.calls_of(run, encoding, (*turned.FURTHER, *_FAR_ROWS)))
    explained = (_explained(run, encoding, form, calls, more) for form in forms)
    found = next(filter(None, explained), [])
    if found and (bare or len(found) > len(known)):
        run.report.findings[:] = [f for f in run.report.findings if f.severity != ERROR]
        combine(run, found[:1], found[1:])


def _some() -> tuple[turned.Size, ...]:
    """Return a few calls of different kinds, which show whether there is another mistake."""
    return tuple(turned.CALLS[i] for i in SOME)


def vague(finding: Finding) -> bool:
    """Return whether a finding says where the function is wrong, and not why."""
    place = finding.code in _OF_PLACES and not finding.values
    words = any(text in finding.message for text in _VAGUE)
    return place or words or finding.message.startswith(IN_PART)


def _around(encoding: RoPE, most: int = _MOST) -> Iterator[turned.Size]:
    """Yield calls around the lengths at which the declared frequencies change.

    Of calls that have all tokens, those of at most ``most`` are made.
    """
    lengths = [n for n in lengths_of(encoding) if n > positions_of(1).size]
    for n in lengths:
        yield (1, 2, positions_of(n).size), positions_of(n)
    yield turned.FAR[1]
    start = lengths[0] if len(lengths) < 2 else lengths[2]
    for n in {start, start + 1, 2 * start}:
        if n <= most:
            yield (1, 1, n), 0


def _rules(encoding: RoPE) -> Iterator[_Rule]:
    """Yield the declared rule of lengths, and wrong ones."""
    plain = encoding.replace(scaling=None)
    yield _Rule(lambda n, count: (encoding, n))
    yield _Rule(lambda n, count: (encoding, count), "scaling-formula", TOKENS, TOKENS_MEND)
    yield _Rule(
        lambda n, count: (plain, n),
        "scaling-missing",
        f"the declared scaling is missing: {encoding.scaling!r}",
        "Apply the declared scaling where the frequencies are computed.",
    )
    for rule in length_rules(encoding, lengths_of(encoding)):
        if rule.seen(5) == 0:  # frequencies of each token
            continue

        def at(n: int, count: int, rule: Any = rule) -> tuple[Any, int]:
            return rule.encoding if rule.at is None else rule.at(n), rule.seen(n)

        yield _Rule(at, rule.code, rule.message, rule.remedy)


def _forms(run: Run, access: Access, encoding: RoPE, measured: Measured) -> Iterator[_Form]:
    """Yield what the structure and the first angles may be in all calls."""
    once = against(run, encoding)
    if structure(once, encoding, measured) is None:
        return
    phases, pairs = measured.phases, nonzero_frequencies(encoding).size
    if phases is None or len(measured.pairs) != pairs:
        return
    channels = tuple((p.a, p.b, p.out_a, p.out_b) for p in measured.pairs)
    layout = list(once.report.findings)
    same, origin = np.ones(pairs), encoding.offset
    if not phases.linear:
        yield _Form(channels, same, origin, layout)
        return
    declared, w = declare(encoding), encoding.sign * phases.frequencies
    found = explain(w, phases.sigma, schedule_of(encoding))
    k = int(np.argmax(np.abs(w / declared.frequencies - 1)))
    where = f"pair {k} turns by {w[k]:.9g} rad per position, declared {declared.frequencies[k]:.9g}"
    sign = [e for e in found if e.code == "sign"]
    for some in ([e for e in found if e.code not in _OF_RULES], found):
        if any(e.code == "frequency-spacing" for e in some):
            continue
        once.report.findings[:] = layout
        report(once, some, w, declared.schedule, where)
        others = [e.predicted for e in some if e.code != "sign"]
        ratio = (others[-1] / declared.frequencies if others else same) * (-1 if sign else 1)
        at = origin_of(once, phases, declared, w, some)
        yield _Form(channels, ratio, at, list(once.report.findings))
        if len(some) == len(found):
            return


def _known(
    run: Run, encoding: RoPE, form: _Form, calls: Sequence[JudgedCall]
) -> list[tuple[_Rule, float | None]]:
    """Return rules of lengths, and factors on cos and sin, that may explain the calls."""
    size = _size(form, calls)
    sizes: list[float | None] = [None] if size is None else [None, size]
    every = [(rule, factor) for factor in sizes for rule in _rules(encoding)]
    return _decodable(run, form, every, calls)


def _of_rules(
    run: Run,
    encoding: RoPE,
    form: _Form,
    calls: Sequence[JudgedCall],
    rules: list[tuple[_Rule, float | None]] | None = None,
) -> list[Finding]:
    """Return findings that predict all calls together: of the form, a factor, and a rule."""
    for rule, factor in _known(run, encoding, form, calls) if rules is None else rules:
        made = list(_rebuilt(form, rule, factor, calls))
        if len(made) == len(calls) and not failed(run, made):
            return _findings(run, encoding, form, rule, factor)
    return []


def _explained(
    run: Run,
    encoding: RoPE,
    form: _Form,
    calls: Sequence[JudgedCall],
    more: Sequence[JudgedCall],
) -> list[Finding]:
    """Return findings that predict all calls together: also a rule of positions, if needed."""
    every = [*calls, *more]
    rules = _known(run, encoding, form, every)
    if found := _of_rules(run, encoding, form, every, rules):
        return found
    for rule, factor in rules:
        second = against(run, encoding)
        made = list(_rebuilt(form, rule, factor, calls))
        if len(made) < len(calls) or not failed(second, made):
            continue
        again = partial(_rebuilt, form, rule, factor, more)
        name_positions(second, made, turned.code_of_places(run), again)
        positions = second.report.findings
        if positions and all(f.values for f in positions):
            return [*_findings(run, encoding, form, rule, factor), *positions]
    return []


def _findings(
    run: Run, encoding: RoPE, form: _Form, rule: _Rule, factor: float | None
) -> list[Finding]:
    """Return the findings of a form, of a factor on cos and sin, and of a rule of lengths."""
    once = against(run, encoding)
    once.report.findings[:] = form.findings
    if factor is not None:
        known = [text for text, v in factors(encoding).items() if abs(v - factor) <= FACTOR_SLACK]
        m = encoding.attention_factor()
        once.add(
            "attention-factor",
            f"cos and sin are multiplied by {factor:.6g}, declared {m:.6g}"
            + "".join(f": {text}" for text in known[:1]),
            "norm of every (cos, sin) pair, in calls of every length",
            values={"declared": m, "measured": factor},
            remedy=factor_remedy(encoding),
        )
    if rule.message:
        lengths = ", ".join(map(str, lengths_of(encoding)))
        once.add(
            rule.code,
            rule.message,
            f"judged at lengths {lengths}",
            remedy=f"{rule.remedy} {formula(encoding)}".strip(),
        )
    return once.report.findings


def _size(form: _Form, calls: Sequence[JudgedCall]) -> float | None:
    """Return the factor on cos and sin if it is the same in all calls, and not as declared."""
    a, b, c, d = np.array(form.channels).T
    sizes, right = [], True
    for one in calls:
        x, y = one.facts.x, one.actual
        before, after = (np.sqrt(np.sum(v[..., i] ** 2)) for v, i in ((x, [*a, *b]), (y, [*c, *d])))
        sizes.append(after / before)
        p = one.facts.positions
        m = one.facts.encoding.attention_factor(max(int(p.max()) + 1, 1))
        right = right and abs(sizes[-1] - m) <= FACTOR_SLACK * m
    same = max(sizes) - min(sizes) <= FACTOR_SLACK * max(sizes)
    return None if right or not same else float(round(np.median(sizes), 7))


def _rotation(form: _Form, rule: _Rule, factor: float | None, one: JudgedCall) -> Found | None:
    """Return the rotation of a call, if the rule gives one."""
    call = one.facts
    length = max(int(call.positions.max()) + 1, 1)
    encoding, taken = rule.at(length, call.x.shape[2])
    if encoding is None:
        return None
    w = encoding.sign * form.ratio * encoding.frequencies(taken)
    m = encoding.attention_factor(taken) if factor is None else factor
    return Found(call.x.shape[-1], form.channels, tuple(w.tolist()), m, form.origin)


def _rebuilt(form: _Form, rule: _Rule, factor: float | None, calls: Any) -> Iterator[JudgedCall]:
    """Yield the calls with the rotation that the rule gives as their reference."""
    for one in calls:
        found = _rotation(form, rule, factor, one)
        if found is not None:
            call = replace(one.facts, encoding=found)
            yield replace(one, truth=apply_truth(found, call.x, call.positions), facts=call)


def _decodable(
    run: Run,
    form: _Form,
    rules: list[tuple[_Rule, float | None]],
    calls: Sequence[JudgedCall],
) -> list[tuple[_Rule, float | None]]:
    """Return the rules by which some tokens of each call are rotated to a position at all."""
    longest = [int(one.facts.positions.max()) for one in calls]
    # A call of more positions needs a larger table of angles.
    for i in np.argsort([_MOST - n if n < _MOST // 2 else n for n in longest], kind="stable"):
        one = calls[i]
        known: dict[tuple[Any, ...], bool] = {}
        left = []
        for rule, factor in rules:
            found = _rotation(form, rule, factor, one)
            if found is None:
                continue
            key = found.measured, found.size
            if key not in known:
                known[key] = _decodes(found, one)
            if known[key]:
                left.append((rule, factor))
        rules = left
        if not rules:
            break
    return rules


def _decodes(found: Found, one: JudgedCall) -> bool:
    """Return whether the last token of a call is rotated to some position."""
    x, y = one.facts.x[-1, -1, -1], one.actual[-1, -1, -1]
    (a, b), (c, d) = found.pairs(), found.output_pairs()
    raw, seen = x[a] + 1j * x[b], (y[c] + 1j * y[d]) / found.size
    w = np.array(found.measured)
    last = int(np.abs(one.facts.positions).max())
    decoder = Decoder.of(w, reach=max(2 * last, 128) + 64)
    p = decoder.rotated(raw, seen)
    return bool((np.abs(raw * np.exp(1j * p * w) - seen) <= _NEAR * np.abs(raw)).all())
