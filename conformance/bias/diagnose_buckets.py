"""Diagnose wrong T5 buckets: direction, sign, and the first distance of each bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from posenc_ref import T5Bias
from posenc_ref.conformance.diagnosis.combine import Cause, explain, report
from posenc_ref.conformance.diagnosis.offset_sizes import sizes_among
from posenc_ref.conformance.diagnosis.steps import Steps, changes, computed, plain_steps
from posenc_ref.conformance.harness.run import PREDICTS, Run

from .bucket_model import UNDEFINED, WIDEST, bases, model, shift, starts
from .distance_formulas import t5_bucket

#: Maps with more buckets are not diagnosed.
_MOST = 1024
#: The most digits of a logarithm that someone wrote.
_DIGITS = 4


def diagnose_buckets(run: Run, r: np.ndarray, b: np.ndarray) -> None:
    """Report the causes that explain the buckets ``b`` of the relative positions ``r``."""
    encoding: T5Bias = run.encoding
    b = np.maximum(b, UNDEFINED)
    if np.array_equal(model(encoding, {}, r), b):
        return

    def residual(change: dict[str, Any]) -> tuple[bool, float]:
        wrong = model(encoding, change, r) != b
        return not wrong.any(), float(wrong.mean())

    causes = list(bucket_causes(encoding, r, b))
    for change in bases(encoding):
        if moved := shift(encoding, change, r, b):
            text = f"relative positions are shifted by {-moved:+d}"
            where = f"bucket(r) equals the declared bucket(r {-moved:+d})"
            values = {"declared": 0, "measured": -moved}
            causes.append(Cause("bucket-spacing", text, where, {"shift": moved}, values=values))
    found, complete = explain(residual, unique(causes))
    run.report.measured = words(encoding, r, b)
    if (vague(found) or not complete) and _step(run, encoding, r, b):
        return
    if complete:
        report(run, found)
    else:
        by_no_rule(run, encoding, r, b)


def vague(found: Sequence[Cause]) -> bool:
    """Return whether the causes only list where buckets start, as several rules may give them."""
    return any(one.fitted > 1 and {"starts", "future_starts"} & {*one.change} for one in found)


def _step(run: Run, encoding: T5Bias, r: np.ndarray, b: np.ndarray) -> bool:
    """Report the changed step of the rule that gives all buckets; return whether one does."""

    def rule(steps: Steps) -> Any:
        return t5_bucket(encoding, r, steps)

    off = b != model(encoding, {}, r)
    sizes = sizes_among(set(r[off].tolist()), set(r[~off].tolist()))
    for code, message, remedy, change in changes(plain_steps(rule, sizes)):
        if np.array_equal(computed(rule, change, sizes=sizes), b):
            at = int(np.flatnonzero(off)[0])
            true = model(encoding, {}, r[at : at + 1])[0]
            evidence = (
                f"bucket({r[at]}) = {b[at]}, declared {true}; {PREDICTS} all {r.size} buckets"
            )
            run.add(code, message, evidence, remedy=remedy)
            return True
    return False


def rule_of(encoding: T5Bias) -> str:
    """Return the declared rule of the buckets, as a remedy."""
    both = encoding.bidirectional
    size = encoding.num_buckets // 2 if both else encoding.num_buckets
    exact = size // 2
    text = (
        f"Give distances below {exact} a bucket each; from {exact} on, use {exact} + "
        f"floor({size - exact} * log(distance / {exact}) / log({encoding.max_distance} / {exact})),"
        f" at most {size - 1}"
    )
    return f"{text}{f'; add {size} for keys after the query' if both else ''}."


def by_no_rule(run: Run, encoding: T5Bias, r: np.ndarray, b: np.ndarray) -> None:
    """Report the wrong bucket nearest to the query, if no known rule explains the buckets."""
    wrong = np.flatnonzero(model(encoding, {}, r) != b)
    n = wrong[np.argmin(np.abs(r[wrong]))]
    outside = (b < 0) | (b >= encoding.num_buckets)
    far = np.abs(r[wrong]) >= encoding.thresholds[-1]
    run.add(
        "bucket-clamp" if outside.any() or far.all() else "bucket-spacing",
        f"{wrong.size} of {r.size} relative positions have a wrong bucket, and no known rule fits",
        f"bucket({r[n]}) = {b[n]}, declared {model(encoding, {}, r[n : n + 1])[0]}",
        remedy=rule_of(encoding),
        values={"declared": list(encoding.thresholds), "measured": words(encoding, r, b)},
    )


def words(encoding: T5Bias, r: np.ndarray, b: np.ndarray) -> str:
    """Describe the measured buckets."""
    shown = [
        f"{name}: buckets {min(p.values())}..{max(p.values())}{_starts(_first(encoding, p))}"
        for name, p in (("earlier keys", _profile(r, b, -1)), ("later keys", _profile(r, b, 1)))
        if p
    ]
    return "; ".join(shown)


def _starts(distances: tuple[int, ...]) -> str:
    """Return where the buckets start; empty if all distances share one."""
    return f", starting at distances {_list(distances)}" if distances else ""


def bucket_causes(encoding: T5Bias, r: np.ndarray, b: np.ndarray) -> Iterator[Cause]:
    """Yield the causes that the measured buckets suggest."""
    declared = model(encoding, {}, r)
    wrong = np.flatnonzero(declared != b)
    if not wrong.size or np.ptp(b[b > UNDEFINED]) > max(_MOST, 4 * encoding.num_buckets):
        return  # no error, or distances in place of buckets
    at = wrong[np.argmin(np.abs(r[wrong]))]
    where = f"bucket({r[at]}) = {b[at]}, declared {declared[at]}"
    past, later = _profile(r, b, -1), _profile(r, b, 1)
    text = "the relative position has the opposite sign"
    opposite = model(encoding, {}, -r[at : at + 1])[0]
    evidence = f"{where}; the declared bucket({-r[at]}) is {opposite}"
    values: dict[str, Any] = {"declared": 1, "measured": -1}
    remedy = "Reverse the sign: the bucket is that of key - query, negative for earlier keys."
    yield Cause("bucket-sign", text, evidence, {"sign": -1}, values=values, remedy=remedy)
    own = int(b[r == 0][0]) if (r == 0).any() else 0
    if own != 0:
        other = "a later key" if own == encoding.num_buckets // 2 else "another distance"
        text = f"a token's own position has the bucket of {other}: bucket(0) = {own}"
        values = {"declared": 0, "measured": own}
        remedy = "Give distance 0 bucket 0: later keys are those with key - query > 0, not >= 0."
        if own != encoding.num_buckets // 2:
            remedy = "Give distance 0 bucket 0."
        where_0 = "bucket(0) is declared 0"
        yield Cause("bucket-sign", text, where_0, {"own": own}, values=values, remedy=remedy)
    yield from _directions(encoding, where)
    orders = ("plain", "rounded", "one factor")
    for half in product(("bfloat16", "float16"), orders, (False, True)):
        text = f"the logarithm is evaluated in {half[0]}"
        remedy = "Compute the logarithm in float32 or float64."
        evidence = f"{where}; the measured buckets equal those of a {half[0]} logarithm"
        values = {"declared": "exact", "measured": half[0]}
        yield Cause("bucket-spacing", text, evidence, {"half": half}, values=values, remedy=remedy)
    number = int(b.max()) + 1
    if number != encoding.num_buckets and not (number % 2 and encoding.bidirectional):
        text = f"there are {number} buckets, not {encoding.num_buckets}"
        values = {"declared": encoding.num_buckets, "measured": number}
        remedy = f"Use {encoding.num_buckets} buckets."
        change = {"num_buckets": number}
        yield Cause("bucket-spacing", text, where, change, values=values, remedy=remedy)
    # Both sides are measured: with the opposite sign, earlier keys are on the other side.
    varying = [p for p in (past, later) if len(set(p.values())) > 1]
    found = [one for profile in varying for one in _spacings(encoding, profile, where)]
    if len(varying) > 1:
        found += _one_side(encoding, past, later)
    yield from (replace(one, remedy=rule_of(encoding)) for one in found)


def _directions(encoding: T5Bias, where: str) -> Iterator[Cause]:
    half, both = encoding.num_buckets // 2, encoding.bidirectional
    declared = "bidirectional" if both else "causal"
    kinds = {"offset": "have the second half", "same": "have the same buckets",
             "zero": "have bucket 0"}  # fmt: skip
    shares = {half: "half of the buckets", encoding.num_buckets: "all buckets"}
    for (size, share), (future, kind) in product(shares.items(), kinds.items()):
        if (size == half, future) != (both, "offset" if both else "zero"):
            measured = f"earlier keys have {share}, later keys {kind}"
            values = {"declared": declared, "measured": measured}
            change = {"size": size, "future": future}
            text = f"{measured}; declared {declared}"
            remedy = (
                f"Give earlier keys buckets 0 .. {half - 1} and later keys {half} more."
                if both
                else "Use max(query - key, 0) as the distance: later keys have bucket 0. Use "
                f"all {encoding.num_buckets} buckets for earlier keys."
            )
            yield Cause("bucket-direction", text, where, change, values=values, remedy=remedy)


def _spacings(encoding: T5Bias, profile: dict[int, int], where: str) -> Iterator[Cause]:
    """Yield causes that may explain the buckets of one direction, from specific to general."""
    both, half = encoding.bidirectional, encoding.num_buckets // 2
    low, first = _low(encoding, profile), _first(encoding, profile)
    top = max(profile.values()) - low
    values = {"declared": list(encoding.thresholds), "measured": list(first)}
    other: tuple[str, ...] = ()
    yield from _linear(first, half if both else encoding.num_buckets, where, values)
    for size in (half, encoding.num_buckets):
        true = starts(size, size // 2, encoding.max_distance)
        if top >= size and both is (size == half):
            text = f"buckets are not clamped to {size - 1}: they run up to {top}"
            farthest = min(n for n, b in profile.items() if b - low == top)
            evidence = f"the first distance of bucket {top} is {farthest}"
            yield Cause("bucket-clamp", text, evidence, {"clamp": False}, values=values)
        if first == true[: len(first)] and len(first) < len(true):
            text = f"buckets are clamped to {top}, not {size - 1}: the last ones are never used"
            evidence = f"bucket {top + 1} should start at {true[len(first)]}"
            yield Cause("bucket-clamp", text, evidence, {"starts": first}, values=values)
        distances = _max_distances(first, size, size // 2, encoding.max_distance)
        other = ("bucket-clamp",) if distances else other
        for distance in distances[:1]:
            text = f"max_distance is {distance}, not {encoding.max_distance}"
            if 2 * distance == encoding.max_distance and size == 2 * (size // 2):
                text += (
                    f"; or the logarithm is divided by log({encoding.max_distance} / {size}), not "
                    f"by log({encoding.max_distance} / {size // 2}): the same buckets"
                )
            evidence = f"the last bucket starts at {first[-1]}, declared {encoding.thresholds[-1]}"
            fitted = 1 if _is_round(distance, encoding.max_distance) else 4
            change = {"max_distance": distance}
            yield Cause("bucket-clamp", text, evidence, change, fitted, values | change)
        if size == (half if both else encoding.num_buckets) and not distances:
            yield from _written_logarithm(first, size, encoding.max_distance, where, values)
        for exact in (size // 4, size // 8, size // 2 - 1, size // 2 + 1):
            if not 0 < exact < size:
                continue
            for best in _max_distances(first, size, exact, encoding.max_distance)[:1]:
                text = f"{exact} distances have their own bucket, not {size // 2}, and "
                text += f"max_distance is {best}"
                change = {"exact": exact, "max_distance": best}
                yield Cause("bucket-spacing", text, where, change, 2, values | change)
    yield _free(encoding, first, values, other)


def _written_logarithm(
    first: tuple[int, ...], size: int, max_distance: int, where: str, values: dict[str, Any]
) -> Iterator[Cause]:
    """Yield the logarithm of the farthest distance with few digits, if it gives the buckets.

    The interval of numbers that give each start is measured.
    """
    exact = size // 2
    if len(first) != size - 1 or first[:exact] != tuple(range(1, exact + 1)):
        return
    n = np.array(first[exact:], np.float64)
    part = (size - exact) / np.arange(1, n.size + 1)
    low, high = (np.log((n - 1) / exact) * part).max(), (np.log(n / exact) * part).min()
    own = np.log(max_distance / exact)
    written = (float(f"{(low + high) / 2:.{digits}g}") for digits in range(1, _DIGITS + 1))
    short = next((x for x in written if low < x <= high), None)
    if short is not None:
        text = f"log({max_distance} / {exact}) is taken as {short:g}, not as {own:.6g}"
        evidence = f"{where}; numbers from {low:.9g} to {high:.9g} give the measured buckets"
        yield Cause("bucket-spacing", text, evidence, {"starts": first}, 2, values)


def _linear(
    first: tuple[int, ...], size: int, where: str, values: dict[str, Any]
) -> Iterator[Cause]:
    step = first[0] if first else 0
    if 3 <= len(first) < size and first == tuple(step * n for n in range(1, len(first) + 1)):
        wide = "one distance" if step == 1 else f"{step} distances"
        text = f"buckets are linear: each is {wide} wide, up to bucket {len(first)}"
        other = ("bucket-clamp",) if step == 1 else ()
        yield Cause("bucket-spacing", text, where, {"starts": first}, 1, values, other)


def _one_side(encoding: T5Bias, past: dict[int, int], later: dict[int, int]) -> Iterator[Cause]:
    true = encoding.thresholds
    for name, profile in (("earlier", past), ("later", later)):
        first = _first(encoding, profile)
        change = {"future_starts": first}
        if name == "earlier":
            change = {"starts": first, "future_starts": true}
        code = "bucket-clamp" if first == true[: len(first)] else "bucket-spacing"
        text = f"buckets of {name} keys start at {_list(first)}, declared {_list(true)}"
        used = f"{len(first)} of {len(true)} buckets are used"
        values = {"declared": list(true), "measured": list(first)}
        yield Cause(code, text, f"only buckets of {name} keys are wrong; {used}", change, 2, values)


def _free(
    encoding: T5Bias, first: tuple[int, ...], values: dict[str, Any], other: tuple[str, ...]
) -> Cause:
    """Return the cause that buckets start at the measured distances."""
    true = encoding.thresholds
    n = next((k for k, (a, c) in enumerate(zip(first, true, strict=False)) if a != c), len(true))
    here, there = (side[n] if n < len(side) else "nowhere" for side in (first, true))
    text = f"buckets start at {_list(first)}, declared {_list(true)}"
    evidence = f"bucket {n + 1} starts at {here}, declared {there}"
    return Cause("bucket-spacing", text, evidence, {"starts": first}, 3, values, other)


def _max_distances(first: tuple[int, ...], size: int, exact: int, declared: int) -> list[int]:
    """Return each max_distance that gives buckets with the starts ``first``, likeliest first."""
    if len(first) != size - 1 or first[:exact] != tuple(range(1, exact + 1)) or size - exact < 2:
        return []
    power = (size - exact) / (size - 1 - exact)
    low = exact * (max(first[-1] - 1, exact) / exact) ** power
    high = exact * (first[-1] / exact) ** power
    tried = range(max(int(low), exact + 1), min(int(high) + 2, int(low) + WIDEST))
    kept = [d for d in tried if starts(size, exact, d) == first]
    return sorted(kept, key=lambda d: (d != declared, not _is_round(d, declared), -(d & -d), d))


def _is_round(distance: int, declared: int) -> bool:
    """Return whether a distance is a multiple of 10 or 16, or within 1 of the declared distance."""
    return distance % 10 == 0 or distance % 16 == 0 or abs(distance - declared) < 2


def _profile(r: np.ndarray, b: np.ndarray, side: int) -> dict[int, int]:
    """Return the bucket of each distance on one side of the query."""
    keep = (r * side > 0) & (b > UNDEFINED)
    return dict(sorted(zip(np.abs(r[keep]).tolist(), b[keep].tolist(), strict=True)))


def _low(encoding: T5Bias, profile: dict[int, int]) -> int:
    """Return the first bucket number of one direction: 0, or half the number of buckets."""
    half = encoding.num_buckets // 2
    upper = encoding.bidirectional and min(profile.values(), default=0) >= half
    return half if upper else 0


def _first(encoding: T5Bias, profile: dict[int, int]) -> tuple[int, ...]:
    """Return the smallest distance in each bucket 1, 2, ... of one direction."""
    low, found = _low(encoding, profile), list[int]()
    for n, v in profile.items():
        found += [n] * (min(v - low, WIDEST) - len(found))
    return tuple(found)


def _list(first: tuple[int, ...]) -> str:
    same = next((k for k, n in enumerate(first) if n != k + 1), len(first))
    shown = first[same:]
    head = f"1..{same}, " if same else ""
    return head + ", ".join(map(str, shown[:24])) + (", ..." if len(shown) > 24 else "")


def unique(causes: list[Cause]) -> list[Cause]:
    """Return the causes; of several causes with the same change, keep only the first."""
    found: dict[str, Cause] = {}
    for cause in causes:
        found.setdefault(str(cause.change), cause)
    return list(found.values())
