"""Diagnose the positions that a function uses, and its range reduction of large angles."""

from __future__ import annotations

from itertools import product

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.diagnosis.rule import DECLARED, find_rule
from posenc_ref.conformance.harness.probes import GENERIC, REPORTED, TELLING, error_window
from posenc_ref.conformance.harness.run import Run

from .declaration import Declaration, unit_size
from .decode import Decoder
from .measure import Tables

#: What to do about positions that are too large.
_SUPPORT = "use the position itself, or raise an error past the last supported one."
#: How many of the farthest positions are compared with those of two tables.
_FAR = 12
#: What to do about a wrong range reduction.
REDUCTION = (
    "Use cos and sin that hold for every angle, or reduce the angle modulo 2 pi first, with pi in "
    "full precision."
)
#: The largest error of cos and sin at stretched positions, of which far ones are rounded.
_STRETCHED = 0.1
#: Integers that hold this many values, signed or not.
_INTEGERS = {
    (2**8, True): "int8", (2**8, False): "uint8", (2**16, True): "int16", (2**16, False): "uint16",
}  # fmt: skip


def position_map(run: Run, tables: Tables, declared: Declaration) -> None:
    """Decode the positions used, and report the map from declared positions to them.

    Nothing is reported if equal positions are right in one call and wrong in another.
    """
    if run.ledger.evidence.beyond_positions():
        return
    decoder = Decoder.of(declared.frequencies)
    at = np.unique(np.r_[np.arange(1, 9), 255, 256, 300, 511, 512, GENERIC])
    at = at[at <= max(run.ledger.highest, 8)]
    cos, sin = unit_size(tables, at, declared)
    used, misfit = decoder.positions(cos, sin)
    used = used - round(declared.origin)
    seen = cos + 1j * sin

    def meets(positions: np.ndarray) -> np.ndarray:
        angle = (positions + declared.origin)[:, None] * declared.frequencies
        return np.asarray(np.abs(seen - np.exp(1j * angle)).max(axis=1) < 0.25)

    wrong = ~meets(at)
    if not wrong.any():
        return
    near = misfit <= 0.25
    if not (wrong & near).any():
        large_angles(run, tables, declared) or _stretched(run, tables, declared, at, wrong)
        return
    first = int(np.argmax(wrong & near))
    evidence = f"position {at[first]} has the angles of position {used[first]}"
    if wrong.sum() > 1 and meets(np.minimum(at, used[first])).all():
        remedy = f"Do not clamp positions to {used[first]}: {_SUPPORT}"
        text = f"positions are clamped to {used[first]}"
        run.add("position-range", text, evidence, remedy=remedy)
        return
    size = int(np.gcd.reduce((at - used)[wrong & near]))
    if size > 1 and (found := _wrapped(run, tables, declared, size, at)):
        run.add("position-range", found[0], evidence, remedy=found[1])
        return
    if near.all() and (rule := rule_of_positions(used, at)) is not None:
        words, code, remedy = rule
        run.add(code, f"the angles are those of {words}", evidence, remedy=remedy)
        return
    if large_angles(run, tables, declared) or _stretched(run, tables, declared, at, wrong):
        return
    early = wrong & (at <= 60)  # negative positions are decoded in this range
    if near[wrong].all() or (early.any() and (misfit[early] <= 0.05).all()):
        run.add(
            "wrong-row",
            f"{int(wrong.sum())} of {at.size} tested positions get the angles of other positions"
            + run.where(),
            evidence,
            remedy="Use the angles of the position itself"
            + f"; right already: positions {_some(at[~wrong])}." * bool((~wrong).any()),
        )


def rule_of_positions(used: np.ndarray, at: np.ndarray) -> tuple[str, str, str] | None:
    """Return the words, the code and the remedy of a rule of single positions, if there is one."""
    rule = find_rule(used, {DECLARED: at})
    if rule is None:
        return None
    words, remedy = (t.replace("declared position", "position") for t in (rule.words, rule.remedy))
    return words, rule.code or "wrong-row", remedy


def _stretched(
    run: Run, tables: Tables, declared: Declaration, at: np.ndarray, wrong: np.ndarray
) -> bool:
    """Report positions that are stretched from a power of two on; return whether they are.

    Positions on both sides of the bound, and further away, could refute it.
    """
    first = int(at[wrong].min())
    last = int(at[~wrong & (at < first)].max(initial=0))
    bounds = [2**n for n in range(5, 20) if last <= 2**n <= first] + [1000, 10000, 100000]
    for bound in (b for b in bounds if last <= b <= first):
        more = bound + np.array([-2, -1, 1, 2, 3, 7, 33, 130])
        every = np.unique(np.r_[at, more[more <= run.ledger.highest]])
        cos, sin = unit_size(tables, every, declared)
        for factor in (0.5, 0.25, 0.125, 2.0, 4.0, 8.0):
            by = f"/ {1 / factor:g}" if factor < 1 else f"* {factor:g}"
            for words, used in (
                (f"{bound} + (p - {bound}) {by}", bound + (every - bound) * factor),
                (f"p {by}", every * factor),
            ):
                used = np.where(every < bound, every, used)
                angle = (used + declared.origin)[:, None] * declared.frequencies
                if np.abs(cos + 1j * sin - np.exp(1j * angle)).max() < _STRETCHED:
                    run.add(
                        "position-scale",
                        f"positions p from {bound} on are replaced by {words}",
                        f"{every.size} positions up to {every[-1]}, on both sides of {bound}",
                        remedy=f"Use the position itself from {bound} on too, unscaled.",
                    )
                    return True
    return False


def _wrapped(
    run: Run, tables: Tables, declared: Declaration, size: int, at: np.ndarray
) -> tuple[str, str] | None:
    """Return how positions wrap round at ``size``, and the remedy; None if they do not.

    Positions on both sides of half the size, and past it, tell signed integers from others.
    """
    half = size // 2
    more = np.array([half - 1, half, half + 1, size - 2, size - 1, size, size + half, 2 * size + 1])
    at = np.unique(np.r_[at, more[(more > 0) & (more <= run.ledger.highest)]])
    cos, sin = unit_size(tables, at, declared)
    remedy = f"Do not reduce positions modulo {size}: {_SUPPORT}"
    for signed, used, text in (
        (False, at % size, f"positions wrap round modulo {size}"),
        (True, (at + half) % size - half, f"positions wrap round modulo {size}"),
        (True, np.where(at < half, at, at - size),
         f"positions from {half} on are used minus {size}"),
    ):  # fmt: skip
        angle = (used + declared.origin)[:, None] * declared.frequencies
        if np.abs(cos + 1j * sin - np.exp(1j * angle)).max() >= 0.25:
            continue
        if not (kind := _INTEGERS.get((size, signed))):
            return text, remedy
        last = half - 1 if signed else size - 1
        text += f", as {kind} does" + f" up to {size + half - 1}" * text.startswith(
            "positions from"
        )
        return text, f"Hold positions in int32 or int64: {kind} holds up to {last}."
    return None


def _some(positions: np.ndarray) -> str:
    """Return the first few positions in words."""
    return ", ".join(map(str, positions[:6])) + ", ..." * (positions.size > 6)


def far_positions(run: Run, tables: Tables, declared: Declaration) -> None:
    """Report positions that wrap round or stop beyond those of :func:`position_map`."""
    at = np.unique(np.r_[TELLING, *(error_window(n) for n in REPORTED)])
    at = at[at <= run.ledger.highest]
    cos, sin = unit_size(tables, at, declared)

    def meets(positions: np.ndarray) -> np.ndarray:
        angle = (positions + declared.origin)[:, None] * declared.frequencies
        return np.asarray(np.hypot(cos - np.cos(angle), sin - np.sin(angle)).max(axis=1) < 0.25)

    wrong = ~meets(at)
    if not wrong.any():
        return
    first = int(at[np.argmax(wrong)])
    for power in range(8, 21):
        size = 2**power
        for used, what, mend in (
            ((at + size // 2) % size - size // 2, f"wrap round at {size // 2}, to negative ones",
             f"Hold positions, and what is computed from them, in int64: at {size // 2} they "
             "overflow."),
            (at % size, f"wrap round modulo {size}",
             f"Do not reduce positions modulo {size}: {_SUPPORT}"),
            (np.minimum(at, size - 1), f"are clamped to {size - 1}",
             f"Do not clamp positions to {size - 1}: {_SUPPORT}"),
        ):  # fmt: skip
            if meets(used).all():
                where = f"position {first} has the angles of position {used[at == first][0]}"
                run.add("position-range", f"positions {what}", where, remedy=mend)
                return
    if found := _split(run, tables, declared, at):
        size, low, high = found
        text = f"{high} + p % {low}" if high else f"p % {low}"
        run.add(
            "position-range",
            f"positions p from {size} on are used as {text}: consistent with two tables, of which "
            f"that of the high parts p // {low} ends at {size // low - 1}",
            f"positions on both sides of {size}; position {first} has wrong angles",
            remedy=f"Extend the table of the high parts past {size // low - 1}, or raise an error "
            "past its end.",
        )


def _split(
    run: Run, tables: Tables, declared: Declaration, at: np.ndarray
) -> tuple[int, int, int] | None:
    """Return (size, low, high): positions p from size on are used as high + p % low, or None."""

    def meets(at: np.ndarray, size: int, low: int, high: int) -> bool:
        cos, sin = unit_size(tables, at, declared)
        used = np.where(at < size, at, high + at % low)
        angle = (used + declared.origin)[:, None] * declared.frequencies
        return bool(np.abs(cos + 1j * sin - np.exp(1j * angle)).max() < 0.25)

    at = at[-_FAR:]
    for power in range(8, 21):
        size = 2**power
        more = size + 2 ** np.arange(3, power) + 1
        every = np.unique(np.r_[at, size - 1, more])
        every = every[every <= run.ledger.highest]
        if size > run.ledger.highest or not meets(every[every < size][-1:], size, 1, 0):
            continue
        for bits, last in product(range(3, power), (True, False)):
            low = 2**bits
            high = size - low if last else 0
            if meets(every, size, low, high):
                return size, low, high
    return None


def large_angles(run: Run, tables: Tables, declared: Declaration) -> bool:
    """Report a wrong range reduction, or angles in the precision of the results, if found.

    It is found if all angles up to pi are right, and some larger angles are wrong.
    """
    at = GENERIC[run.ledger.highest >= GENERIC]
    cos, sin = unit_size(tables, at, declared)
    true_cos, true_sin = declared.exact(at)
    angle = np.abs(at[:, None] + declared.origin) * declared.frequencies
    unit = ROUNDOFF[run.coarse] + ROUNDOFF["float32"] * angle
    error = np.hypot(cos - true_cos, sin - declared.sign * true_sin) / (2 * run.budget)
    fits = error <= unit
    small = angle <= np.pi
    if not small.any() or not fits[small].all() or fits.all():
        return False
    n, k = (int(i) for i in np.argwhere(~fits)[0])
    folded = np.hypot(np.abs(cos) - np.abs(true_cos), np.abs(sin) - np.abs(true_sin))
    code, text = (
        "range-reduction",
        "angles up to pi are right at every position, larger ones are not",
    )
    where = f"pair {k} at position {at[n]}, angle {angle[n, k]:.6g}: cos {cos[n, k]:.6g}, true "
    where += f"{true_cos[n, k]:.6g}"
    if (error <= ROUNDOFF[run.coarse] * (1 + angle)).all():
        text = f"angles are coarse: consistent with frequencies or angles in {run.coarse}"
        remedy = "Compute positions, frequencies and angles in float32 or better."
        run.add("angle-precision", text, where, remedy=remedy)
        return True
    if (folded <= 2 * run.budget * unit).all():
        off = cos - true_cos, sin - declared.sign * true_sin
        report_quadrants(run, off, 2 * run.budget * unit, where)
        return True
    run.add(code, text, where, remedy=REDUCTION)
    return True


def report_quadrants(
    run: Run, off: tuple[np.ndarray, np.ndarray], slack: np.ndarray, where: str
) -> None:
    """Report cos or sin of the wrong sign; ``off`` are the errors of both."""
    wrong = [name for name, e in zip(("cos", "sin"), off, strict=True) if (np.abs(e) > slack).any()]
    name = wrong[0] if len(wrong) == 1 else "cos or sin"
    other = {"cos": "sin", "sin": "cos"}.get(name, "")
    remedy = "Compute cos and sin of the angle itself, for all four quadrants"
    if other:
        remedy += f": {name} from {other} by a square root, sqrt(1 - {other}**2), has no sign"
    text = f"{name} has the wrong sign in some quadrants"
    run.add("not-a-rotation", text, where, remedy=f"{remedy}.")
