"""Measure a sinusoidal table: which columns are the sine and the cosine of which frequency."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from posenc_ref import Sinusoidal
from posenc_ref.accuracy import TINY, Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.probes import GENERIC
from posenc_ref.conformance.harness.reach import TableAccess
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.declaration import Declaration
from posenc_ref.conformance.phases.decode import Decoder
from posenc_ref.conformance.phases.frequencies import Schedule
from posenc_ref.conformance.phases.measure import Tables, unaliased, unwrap
from posenc_ref.conformance.phases.position_map import rule_of_positions
from posenc_ref.conformance.phases.properties import perturbation

from .column_order import columns_used, report_order
from .remedies import columns_of
from .single_columns import changed_step, dead_columns, single_columns, sinusoids

#: The share by which the squares of a sine and of its cosine may miss a constant.
_APART = 0.05


def declare(encoding: Sinusoidal) -> Declaration:
    """Return the declared frequencies, scale and offset, and the exact cosine and sine columns."""
    dim = encoding.dim
    known: dict[Any, float] = {"dim": dim / 2, "half-1": dim // 2 - 1}
    n = known.get(encoding.denominator, encoding.denominator)
    others = {
        "dim/2": dim / 2,
        "dim//2 - 1": dim // 2 - 1,
        "dim//2": dim // 2,
        "(dim - 1)/2": (dim - 1) / 2,
        "(dim + 1)/2": (dim + 1) / 2,
        "dim//2 + 1": dim // 2 + 1,
    }
    pairs = encoding.columns()[1].size
    factor = 1.0 / encoding.position_scale
    plain = encoding.replace(scale=1.0)

    def exact(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        table = plain.table(positions)
        sines, cosines = plain.columns()
        return table[:, cosines], table[:, sines[:pairs]]

    return Declaration(
        Schedule(encoding.base, float(n), pairs, factor, others),
        encoding.frequencies()[:pairs],
        exact,
        encoding.scale,
        origin=encoding.offset,
    )


def tables_of(access: TableAccess, columns: tuple[np.ndarray, np.ndarray]) -> Tables:
    """Return a function that reads the cosine and sine columns given by ``columns``."""
    sines, cosines = columns

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = access.rows(positions)
        return rows[:, cosines], rows[:, sines[: cosines.size]]

    return tables


def properties(run: Run, access: TableAccess, encoding: Sinusoidal) -> None:
    """Judge properties of sinusoids without the reference: the norm, shifts, and inner products.

    All rows have the same norm. A matrix M(k) maps each row to the row k positions later. The inner
    product of two rows (Gram matrix) depends only on the difference of their positions. An extra
    sine column without a cosine breaks these properties; then they are not judged.
    """
    if not encoding.scale or (encoding.dim % 2 and encoding.odd == "extra-sin"):
        run.count("properties")
        return
    p, q, shift = np.array([0, 3, 8]), np.array([5, 1, 21]), 12
    if access.reach(int(q.max()) + shift) < q.max() + shift:  # a short table
        p, q, shift = np.array([0, 1, 2]), np.array([3, 1, 4]), 5
        if access.reach(int(q.max()) + shift) < q.max() + shift:
            return
    # The squares of small numbers would be below the smallest normal number.
    a, b = access.rows(p) / encoding.scale, access.rows(q) / encoding.scale
    a2, b2 = access.rows(p + shift) / encoding.scale, access.rows(q + shift) / encoding.scale
    # Every pair has the same size, so its angle enters with the mean of the frequencies.
    angle = float(np.abs(encoding.frequencies()).mean()) * float(p.max() + q.max() + 2 * shift)
    norm = np.sum(a2 * a2, axis=1)
    if not norm.all():
        run.failed("properties", "constant norm", np.inf, "a row of zeros")
        return

    factor = perturbation(run)

    def judge(name: str, actual: np.ndarray, truth: Truth, scaled: np.ndarray) -> None:
        run.judge("properties", name, actual, truth)
        rejected = bool((run.scores(scaled, truth) > run.budget).any())
        run.report.controls[f"property {name}: output multiplied by {factor:g}"] = rejected

    more = (factor - 1) * norm
    truth = Truth(np.sum(a * a, 1), 4 * norm, 0 * norm)
    judge("constant norm", norm, truth, factor**2 * norm + more)
    gram, terms = np.sum(a2 * b2, 1), 2 * np.sum(np.abs(a * b) + np.abs(a2 * b2), 1)
    truth = Truth(np.sum(a * b, 1), terms, angle * norm)
    judge("Gram of the offset", gram, truth, factor * gram + more)
    matrix = _shift(access, shift, run.coarse, encoding)
    if matrix is not None:
        value = a @ matrix.T
        top = float(np.abs(encoding.frequencies()).max()) * float(p.max() + shift)
        size = np.abs(a) @ np.abs(matrix.T)
        # In a coarse table, the measured frequencies are as uncertain as the values.
        truth = Truth(value, size + 1, top + 0 * value)
        judge("PE(p+k) = M(k) PE(p)", a2, truth, a2 * factor)


def _shift(access: TableAccess, k: int, dtype: str, encoding: Sinusoidal) -> np.ndarray | None:
    """Return the measured M(k), which shifts rows by k positions, or None if there is none."""
    columns = quadrature(access, dtype)
    fastest = float(np.abs(encoding.frequencies()).max())
    if columns is None or fastest >= np.pi:
        return None
    sines, cosines = columns
    w = unwrap(tables_of(access, columns), dtype).frequencies
    matrix = np.eye(encoding.dim)
    matrix[sines, sines] = matrix[cosines, cosines] = np.cos(w * k)
    matrix[sines, cosines], matrix[cosines, sines] = np.sin(w * k), -np.sin(w * k)
    return matrix


def arrangement(
    run: Run, access: TableAccess, encoding: Sinusoidal
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the measured sine and cosine columns, or None if they form no pairs.

    If they differ from the declared columns, report a finding.
    """
    at = access.within(np.arange(17))
    rows = access.rows(at)
    far = access.rows(access.within(GENERIC))
    if (rows == rows[0]).all() and (far == far[0]).all():
        run.add("wrong-row", "every position gets the same row", "positions 0..16 and later ones")
        return None
    if encoding.dim % 2 and changed_step(run, access, encoding):
        return None
    if _rows_moved(run, access, encoding):
        return None
    found = quadrature(access, run.coarse, encoding.dim % 2 == 1 and encoding.odd == "extra-sin")
    sines, cosines = encoding.columns()
    sines = sines[: cosines.size]
    if found is None:
        single_columns(run, access, encoding)
        return None
    if found[0].size != cosines.size:
        if dead_columns(run, access, encoding):
            return None
        size = (access.rows(access.within(GENERIC))[:, [sines, cosines]] ** 2).sum(axis=1)
        if (np.abs(size - size.mean()) <= _APART * size.mean()).all():
            return sines, cosines  # two pairs may be equal near 0
        run.add(
            "layout",
            f"{found[0].size} sine and cosine pairs were found, declared {cosines.size}",
            "columns whose squares add up to a constant",
            remedy=columns_of(encoding),
        )
        return None
    wanted = sorted(zip(sines.tolist(), cosines.tolist(), strict=True))
    got = sorted(zip(found[0].tolist(), found[1].tolist(), strict=True))
    measured = _arranged(encoding, got)
    # Negated sines, and signs that alternate, are measured as sines and cosines exchanged.
    turned = sorted((c, s) for s, c in got) == wanted
    doubtful = _at_origin(rows, sines, cosines) if turned else got != wanted and not measured
    if doubtful and changed_step(run, access, encoding):
        return None
    if not _in_order(encoding, found) and _permuted(run, access, encoding):
        return None
    if got == wanted or (turned and doubtful):
        return found if got == wanted else (sines, cosines)
    if turned:
        run.add(
            "phase-order",
            f"{'cos' if encoding.first == 'sin' else 'sin'} comes first, declared {encoding.first}",
            f"column {got[0][0]} is a sine, column {got[0][1]} its cosine",
            remedy=columns_of(encoding),
            values={"declared": encoding.first},
        )
        return found
    if not measured and not sinusoids(access):
        single_columns(run, access, encoding)
        return None
    # The pairs are listed from high frequencies to low ones, as the declared ones are.
    pairs = zip(*found, *(each.tolist() for each in (sines, cosines)), strict=True)
    s, c, *own = next((p for p in pairs if p[:2] != p[2:]), (*got[0], *wanted[0]))
    declared = f"{encoding.layout} with {encoding.first} first"
    run.add(
        "layout",
        f"columns are {f'{measured}, declared' if measured else 'not'} {declared}",
        f"column {s} is a sine and column {c} its cosine, declared {own[0]} and {own[1]}",
        remedy=columns_of(encoding),
        values={"declared": encoding.layout, "measured": measured or None},
    )
    return found


def _at_origin(rows: np.ndarray, sines: np.ndarray, cosines: np.ndarray) -> bool:
    """Return whether the declared sine columns begin nearer to 0 than the cosine columns."""
    return bool(np.abs(rows[0, sines]).mean() < np.abs(rows[0, cosines]).mean())


def _permuted(run: Run, access: TableAccess, encoding: Sinusoidal) -> bool:
    """Report columns in another order, if this is all; return whether it is."""
    calls = []
    for at in map(access.within, (np.arange(130), GENERIC)):
        case = f"positions {at[0]}..{at[-1]}"
        calls.append(JudgedCall(case, access.rows(at), encoding.truth(at), at))
    order = columns_used(run, calls)
    if order is None or order == list(range(len(order))):
        return False
    report_order(run, order)
    return True


def _arrangements(encoding: Sinusoidal) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield the names of arrangements, and their pairs of sine and cosine columns in order."""
    for layout, first in product(("interleaved", "concat"), ("sin", "cos")):
        sines, cosines = encoding.replace(layout=layout, first=first).columns()
        pairs = zip(sines[: cosines.size].tolist(), cosines.tolist(), strict=True)
        yield f"{layout} with {first} first", list(pairs)


def _arranged(encoding: Sinusoidal, got: list[tuple[int, int]]) -> str:
    """Return the name of the arrangement of sine and cosine columns, or an empty string."""
    return next((name for name, pairs in _arrangements(encoding) if got == sorted(pairs)), "")


def _in_order(encoding: Sinusoidal, found: tuple[np.ndarray, np.ndarray]) -> bool:
    """Return whether columns have a known arrangement, with high frequencies first."""
    order = list(zip(*(each.tolist() for each in found), strict=True))
    return any(order == pairs for _, pairs in _arrangements(encoding))


def _rows_moved(run: Run, access: TableAccess, encoding: Sinusoidal) -> bool:
    """Report rows that belong to other positions; return whether any were reported.

    The columns are assumed to be as declared. A common shift of all rows is not reported here.
    """
    declared = declare(encoding)
    if float(np.abs(declared.frequencies).max()) >= np.pi:
        return False
    at = access.within(np.arange(3, 17))
    cos, sin = tables_of(access, encoding.columns())(at)
    decoder = Decoder.of(declared.frequencies, reach=4096)
    used, misfit = decoder.positions(cos / encoding.scale, sin / encoding.scale)
    used = used - round(encoding.offset)
    mirrored = (used == -at).all()  # the sines have the opposite sign
    if misfit.max() > 0.05 or np.ptp(used - at) == 0 or mirrored:
        return False
    if not run.fits(access.rows(at), encoding.truth(used)):
        return False
    wrong = int(np.argmax(used != at))
    evidence = f"position {at[wrong]} gets the row of position {used[wrong]}"
    if (rule := rule_of_positions(used, at)) is not None:
        words, code, remedy = rule
        run.add(code, f"rows are those of {words}", evidence, remedy=remedy)
        return True
    run.add(
        "wrong-row",
        plural(int((used != at).sum()), "row is", "rows are", at.size)
        + " of other positions"
        + run.where(),
        evidence,
    )
    return True


def quadrature(
    access: TableAccess, dtype: str, extra: bool = False
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the sine and cosine columns that belong together, high frequencies first.

    The squares of two such columns add up to a constant. The result is None if a column has no
    partner; ``extra`` allows one column without a partner.
    """
    highest = min(access.reach(5003), 5003)
    at = np.unique(np.r_[np.arange(48), GENERIC, np.arange(0, 5003, 97)])
    rows = access.rows(at[at <= highest])
    live = np.flatnonzero(np.abs(rows).max(axis=0) > 0)
    if live.size < 2:
        return None
    squares = rows[:, live] ** 2
    spread, lone = np.empty((live.size, live.size)), 0
    for i in range(live.size):
        total = squares[:, i : i + 1] + squares
        spread[i] = np.ptp(total, axis=0) / np.maximum(total.max(axis=0), TINY["float64"])
        spread[i, i] = np.inf
        lone += spread[i].min() > _APART
        if lone > extra:  # no other column can change that
            return None
    if extra and live.size > 2:
        alone = int(np.argmax(spread.min(axis=1)))
        live, spread = np.delete(live, alone), np.delete(np.delete(spread, alone, 0), alone, 1)
    partner = spread.argmin(axis=1)
    mutual = partner[partner] == np.arange(live.size)
    if not mutual.all() or (spread[np.arange(live.size), partner] > _APART).any():
        return None
    one = np.array([i for i in range(live.size) if i < partner[i]])
    first, second = live[one], live[partner[one]]
    phases = unaliased(tables_of(access, (second, first)), dtype)
    w = phases.frequencies
    sines, cosines = np.where(w > 0, second, first), np.where(w > 0, first, second)
    order = np.lexsort((np.minimum(sines, cosines), -np.abs(w)))
    if (np.diff(np.abs(w[order])) == 0).any() or not phases.linear:
        order = np.argsort(np.minimum(sines, cosines), kind="stable")
    return sines[order], cosines[order]
