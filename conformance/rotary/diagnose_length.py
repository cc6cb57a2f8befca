"""Diagnose frequencies that change at another length, or by another rule, than declared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import FACTOR_SLACK, Truth
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth, joined
from posenc_ref.conformance.phases.declaration import formula
from posenc_ref.conformance.phases.factor_mistakes import named
from posenc_ref.conformance.phases.factor_mistakes import remedy as factor_remedy
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES
from posenc_ref.conformance.phases.schedule_mistakes import trained_field

from .judge_length import WHOSE, case, lengths_of, positions_of
from .length_rules import SHORT_TOO, Rule, length_rules

#: The most tokens of a call that is made to find the length a function uses.
_MOST = 2**14
#: The fewest lengths, shorter or longer than the trained one, for which a rule is sought.
_FEWEST = 2
#: A mistake of the length, and its remedy.
TOKENS = "the number of tokens of a call is taken for its length, not its largest position plus 1"
TOKENS_MEND = (
    "Compute the frequencies from the largest position of each call plus 1: a step of decoding has "
    "few tokens, at large positions."
)
#: Takes an encoding, a call's length, and the length used for its frequencies (0: each token's
#: position plus one); returns whether the encoding then matches the function.
Fits = Callable[[Rotary, int, int], bool]


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

    if encoding is not run.encoding and all(fits(encoding, n, n) for n in seen):
        return False  # the layout alone is wrong
    if not any(case(n) in failed for n in lengths):
        if _rows_differ(run, access, lengths[-1]):
            return False
        return _own_lengths(run, access, lengths[-1]) or _whose(run, encoding, sorted(failed))
    if _of_tokens(run, access, encoding, list(seen), fits):
        return True
    wrong = [n for n in lengths if case(n) in failed]
    if _explain(run, encoding, list(seen), wrong, fits):
        return True
    if _factor_by_length(run, access, encoding, seen):
        return True
    wrong = [n for n in seen if not fits(encoding, n, n)]
    if wrong and all(_early_right(run, access, encoding, n, *seen[n]) for n in wrong):
        return _late_tokens(run, encoding, wrong, list(seen))
    return _another_rule(run, encoding, wrong, list(seen))


def _early_right(
    run: Run, access: Access, encoding: Rotary, length: int, x: np.ndarray, y: np.ndarray
) -> bool:
    """Return whether all tokens of a call are right but the last one."""
    if (access.lengths(positions_of(length)) != length).any():
        return False  # they are not of one call
    early = positions_of(length)[:-1]
    truth = apply_truth(encoding, x[..., :-1, :], early, np.full(early.shape, length))
    return run.fits(y[..., :-1, :], truth)


def _late_tokens(run: Run, encoding: Rotary, wrong: list[int], lengths: list[int]) -> bool:
    """Report that the last token of some calls is wrong: wrong frequencies would turn all."""
    early = ", ".join(map(str, positions_of(0)[:-1]))
    run.add(
        "wrong-row",
        f"the last token of some calls is wrong, those at positions {early} of the same calls are "
        f"right, so the frequencies are too{run.where()}",
        _judged(lengths, wrong),
        remedy=f"Use the position of each token as it is passed. {formula(encoding)}".strip(),
    )
    return True


def _of_tokens(run: Run, access: Access, encoding: Rotary, lengths: list[int], fits: Fits) -> bool:
    """Report the number of tokens of a call that is taken for its length, if it is.

    A call of more tokens than the trained length, at small positions, could refute it.
    """
    count = positions_of(lengths[0]).size
    field = trained_field(getattr(encoding, "scaling", None))
    tokens = 2 * getattr(getattr(encoding, "scaling", None), field or "", 0)
    if (
        access.mode != "any"
        or not 0 < tokens <= _MOST
        or not all(fits(encoding, n, count) for n in lengths)
    ):
        return False
    positions = np.arange(tokens) % count
    x = run.random((1, 2, tokens, access.dim), 25)
    try:
        y = run.driver.apply(x, positions)
    except (Refused, Malformed):
        return False
    if not run.fits(y, apply_truth(encoding, x, positions, np.full(tokens, tokens))):
        return False
    run.add(
        "scaling-formula",
        TOKENS,
        f"calls of {count} tokens at lengths {', '.join(map(str, lengths))}, and one of {tokens} "
        f"tokens at positions 0 to {count - 1}",
        equivalent=("scaling-missing", "scaling-parameter"),
        remedy=f"{TOKENS_MEND} {formula(encoding)}",
    )
    return True


def _factor_by_length(
    run: Run, access: Access, encoding: Rotary, seen: dict[int, tuple[np.ndarray, np.ndarray]]
) -> bool:
    """Report a wrong attention factor; return whether it was found.

    The frequencies must be right at every length.
    """
    channels = np.concatenate(encoding.output_pairs())
    ratios = {}
    for length, (x, y) in seen.items():
        positions = positions_of(length)
        own = access.lengths(positions)
        truth = apply_truth(encoding, x, positions, own)
        # Where each position is a call of its own, only the last one has this length.
        rotated = np.isin(np.arange(y.shape[-1]), channels)
        last = (own == length)[:, None] & rotated
        got, expected = y[..., last], truth.value[..., last]
        ratio = float(np.sum(got * expected) / np.sum(expected * expected))
        by = np.where(last, ratio, 1.0)
        size = np.abs(by)
        moved = Truth(by * truth.value, size * truth.terms, size * truth.angle, truth.amplitude)
        if not (run.scores(y, moved) <= 2 * run.budget).all():
            return False
        ratios[length] = ratio
    m = {n: encoding.attention_factor(n) * r for n, r in ratios.items()}
    off = [n for n, r in ratios.items() if abs(r - 1) > FACTOR_SLACK]
    if not off:
        return False
    known = named(encoding, m[off[0]], off[0], others=len(off) < len(ratios))
    run.add(
        "attention-factor",
        f"cos and sin are multiplied by {m[off[0]]:.6g} in calls of length {off[0]}, declared "
        f"{encoding.attention_factor(off[0]):.6g}{f', since {known}' if known else ''}; the "
        "frequencies are right",
        f"factor by length: {', '.join(f'{n}: {v:.6g}' for n, v in m.items())}",
        values={"declared": encoding.attention_factor(off[0]), "measured": m[off[0]]},
        remedy=factor_remedy(encoding, off[0]),
    )
    return True


def _rows_differ(run: Run, access: Access, length: int) -> bool:
    """Return whether rows with one largest position and other tokens are wrong in one call.

    The rows then lack their own positions; the length, which is the same for both, is not wrong.
    """
    if access.mode != "any":
        return False
    positions = np.array([[5, 0, 11, length - 1], [2, 23, 1, length - 1]])
    x = run.random((2, 2, 4, access.dim), 16)
    try:
        y = run.driver.apply(x, positions)
    except (Refused, Malformed):
        return False
    return not run.fits(y, apply_truth(run.encoding, x, positions))


def _own_lengths(run: Run, access: Access, length: int) -> bool:
    """Report that every row of a call has the frequencies of its own length, if it has."""
    rows = np.array([[5, 0, 11, 2, 3], [5, 0, 11, 2, length - 1], [1, 9, 0, 4, length // 2]])
    x = run.random((3, 2, 5, access.dim), 17)
    try:
        y = run.driver.apply(x, rows)
    except (Refused, Malformed):
        return False
    own = [apply_truth(run.encoding, x[[b]], p[None]) for b, p in enumerate(rows)]
    if access.mode != "any" or not run.fits(y, joined(own, axis=0)):
        return False
    run.add(
        "scaling-formula",
        "every row of a batch has the frequencies of its own length, its largest position plus 1, "
        "not those of the longest row",
        f"a call of three rows, of lengths {', '.join(str(p.max() + 1) for p in rows)}",
        remedy="Take the largest position of the whole call, plus one, for the length.",
    )
    return True


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
    if _explain(run, encoding, list(seen), wrong, fits):
        return True
    return _another_rule(run, encoding, wrong, list(seen))


def _another_rule(run: Run, encoding: Any, wrong: list[int], lengths: list[int]) -> bool:
    """Report an unknown rule if short calls are right and longer ones wrong; return whether so."""
    right = [n for n in lengths if n not in wrong]
    if right and max(wrong) < min(right):
        run.add(
            "scaling-formula",
            f"calls from length {min(right)} on are right, shorter ones are not",
            f"judged at lengths {', '.join(map(str, lengths))}; wrong up to {max(wrong)}",
            equivalent=("scaling-parameter",),
            remedy="Correct the frequencies of the shorter calls; in most schedules, the length "
            f"is raised to the trained one first. {formula(encoding)}",
        )
        return True
    if not right or min(right) > min(wrong):
        return False
    last = max(n for n in right if n < min(wrong))
    longer = "longer ones are not" if max(right) == last else "some longer ones are not"
    run.add(
        "scaling-formula",
        f"calls up to length {last} are right, {longer}: the frequencies do not "
        f"grow by the rule of {type(encoding.scaling).__name__}",
        _judged(lengths, wrong),
        equivalent=("scaling-parameter",),
        remedy=f"Correct the frequencies of calls longer than {last}. {formula(encoding)}",
    )
    return True


def _judged(lengths: list[int], wrong: list[int]) -> str:
    """Return the lengths of calls, and which are wrong."""
    where = f"wrong from {min(wrong)} on"
    if any(n > min(wrong) for n in lengths if n not in wrong):
        where = f"wrong at {', '.join(map(str, wrong))}"
    return f"judged at lengths {', '.join(map(str, lengths))}; {where}"


def _explain(run: Run, encoding: Rotary, lengths: list[int], wrong: list[int], fits: Fits) -> bool:
    evidence = _judged(lengths, wrong)
    for rule in length_rules(encoding, lengths):
        if all(_predicts(rule, n, fits) for n in lengths):
            remedy = f"{rule.remedy} {formula(encoding)}".strip()
            run.add(rule.code, rule.message, evidence, remedy=remedy)
            return True
    return _in_ranges(run, encoding, lengths, evidence, fits) or _with_base(
        run, encoding, lengths, evidence, fits
    )


def _ranges(encoding: Any, lengths: list[int]) -> tuple[list[int], list[int], int]:
    """Return the lengths up to the trained one, the longer ones, and the trained one."""
    start = getattr(encoding.scaling, trained_field(encoding.scaling) or "", 0)
    return [n for n in lengths if n <= start], [n for n in lengths if n > start], round(start)


def _in_ranges(run: Run, encoding: Any, lengths: list[int], evidence: str, fits: Fits) -> bool:
    """Report a wrong rule for short calls and another one for long calls, or one for long ones."""
    short, long, start = _ranges(encoding, lengths)
    if min(len(short), len(long)) < _FEWEST:
        return False
    said, remedy = [], ""
    for some, where in ((short, "up to"), (long, "longer than")):
        if all(fits(encoding, n, n) for n in some):
            continue
        rules = length_rules(encoding, some)
        rule = next((r for r in rules if all(_predicts(r, n, fits) for n in some)), None)
        if rule is None:
            return False
        of_length = "length " * (where == "up to")
        said.append(f"in calls {where} {of_length}{start}, {rule.message.split(SHORT_TOO)[0]}")
        remedy = rule.remedy
    if not said:
        return False
    remedy = f"{remedy} {formula(encoding)}".strip()
    run.add("scaling-formula", "; ".join(said), evidence, remedy=remedy)
    return True


def _with_base(run: Run, encoding: Any, lengths: list[int], evidence: str, fits: Fits) -> bool:
    """Report another base, which short calls show, beside a wrong rule for the lengths."""
    short, long, _ = _ranges(encoding, lengths)
    if min(len(short), len(long)) < _FEWEST or not isinstance(encoding.base, float):
        return False
    for base in PUBLISHED_BASES:
        changed = encoding.replace(base=base)
        if base == encoding.base or not all(fits(changed, n, n) for n in short):
            continue
        for rule in length_rules(changed, lengths):
            if all(_predicts(rule, n, fits) for n in lengths):
                text = f"the base is {base:.10g}, declared {encoding.base:.10g}"
                run.add("base", text, evidence, remedy=f"Use the base {encoding.base:.10g}.")
                remedy = f"{rule.remedy} {formula(encoding)}".strip()
                run.add(rule.code, rule.message, evidence, remedy=remedy)
                return True
    return False


def _predicts(rule: Rule, length: int, fits: Fits) -> bool:
    """Return whether a rule predicts the call of this length."""
    encoding = rule.encoding if rule.at is None else rule.at(length)
    return encoding is not None and fits(encoding, length, rule.seen(length))
