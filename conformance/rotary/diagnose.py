"""Diagnose a rotary function from its measured structure.

The structure (pairs, slice, rotation) comes first, then frequencies, amplitude and origin at small
positions. If all of these are right, the positions used and the precision are diagnosed.
"""

from __future__ import annotations

import numpy as np

from posenc_ref import MixedRoPE, Rotary
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.located.locate import Place
from posenc_ref.conformance.harness.probes import (
    FAR_TOKEN,
    ONE_EACH,
    ONE_TOKEN,
    PER_ROW,
    unit_pairs,
)
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.oracle.found import Found
from posenc_ref.conformance.phases.declaration import declare, live, nonzero_frequencies
from posenc_ref.conformance.phases.decode import Decoder
from posenc_ref.conformance.phases.diagnose import diagnose_phases
from posenc_ref.conformance.phases.half_precision import TABLE
from posenc_ref.conformance.phases.measure import Measured

from . import (
    diagnose_axes,
    diagnose_length,
    diagnose_mixed,
    diagnose_narrow,
    diagnose_state,
    turned,
)
from .diagnose_calls import diagnose_calls
from .judge_crossed import crossed_rows
from .several import hidden, lengths, maps, rest, slices
from .structure import structure, with_slow_pairs
from .tokens import mixing, other_tokens, shortcuts

#: What to do if rows or heads differ.
_EVERY_ROW = (
    "Rotate every batch row and every head by the position of the token: with positions (S,), "
    "equal tokens have equal results in all rows and heads."
)


#: Codes of a map of pairs that is no rotation.
_OF_MAPS = (["not-a-rotation"], ["amplitude"], ["attention-factor"])


def diagnose(run: Run, access: Access, measured: Measured) -> None:
    """Add findings that explain the failed cases."""
    if not run.failures or any(f.severity == "error" for f in run.report.findings):
        return
    encoding = run.encoding
    if not isinstance(encoding, Rotary):
        if any(f.check == "properties" for f in run.failures):
            run.add("not-a-rotation", "a property of rotations fails", run.failures[0].place)
        return
    if diagnose_state.diagnose(run, access):
        return
    linear = measured.phases is None or measured.phases.linear
    _diagnose(run, access, encoding, measured, linear)
    if encoding.depends_on_length and encoding.num_axes == 1:
        lengths.diagnose(run, access, encoding, measured)
    if rest.can_be_sought(run, encoding) and hidden.vague(run, linear):
        hidden.diagnose(run, encoding, access.dim, _in_structure)


def _diagnose(run: Run, access: Access, encoding: Rotary, measured: Measured, linear: bool) -> None:
    """Find causes in the calls, in the structure, and in the angles, in this order."""
    # Where each token is a call (reduced), the calls of the surface itself were tried before.
    if not run.settings.reduced and (
        turned.diagnose(run, encoding, early=linear) or shortcuts.diagnose(run, encoding)
    ):
        return
    if other_tokens.diagnose(run, encoding) or _zeros(run, encoding, measured):
        return
    if _rows_differ(run, encoding) or diagnose_narrow.diagnose(run, encoding):
        return
    if isinstance(encoding, MixedRoPE) and diagnose_mixed.diagnose(run, encoding):
        return
    measured = with_slow_pairs(run, access, encoding, measured)
    compared = structure(run, encoding, measured)
    if compared is None:
        _of_maps(run, access, encoding, measured)
        if not run.report.findings and not run.settings.reduced:
            turned.judged_again(run, encoding)
        return
    if encoding.num_axes > 1 and diagnose_axes.diagnose(run, encoding, measured):
        return
    if encoding.depends_on_length:
        seen = slices.with_its_layout(encoding, measured)
        if diagnose_length.diagnose(run, access, seen):
            return
        if seen is not encoding:
            rest.diagnose(run, seen)
    if encoding.num_axes > 1 and not linear and turned.on_axes(run, encoding):
        return
    found: Rotary | None = _of_angles(run, access, compared, measured)
    if found is None and [TABLE in f.values for f in run.report.findings] == [True]:
        found = encoding
    if found is not None and run.report.findings and rest.can_be_sought(run, encoding):
        rest.diagnose(run, found)
    if not run.report.findings and encoding.num_axes > 1 and turned.on_axes(run, encoding):
        return
    if not run.report.findings:
        diagnose_calls(run, encoding)
    if not run.report.findings and not mixing.diagnose(run, encoding):
        _rows(run)
    if not run.report.findings and not run.settings.reduced:
        turned.judged_again(run, encoding)


def _of_maps(run: Run, access: Access, encoding: Rotary, measured: Measured) -> None:
    """Diagnose a map of pairs that is no rotation; keep what is known of it if that fails."""
    known = list(run.report.findings)
    codes = [f.code for f in known]
    other_channels = codes == ["rotary-dim"]
    if not other_channels and codes not in _OF_MAPS:
        return
    if not rest.can_be_sought(run, encoding):
        return
    run.report.findings[:] = known * other_channels
    found = maps.diagnose(run, access, encoding, measured)
    if not run.report.findings:
        run.report.findings[:] = known
    if found is not None:
        rest.diagnose(run, found)


def _in_structure(run: Run, access: Access, encoding: Rotary, measured: Measured) -> Found | None:
    """Find causes in the structure and in the angles; return the rotation that they give."""
    compared = structure(run, encoding, measured)
    return None if compared is None else _of_angles(run, access, compared, measured)


def _of_angles(run: Run, access: Access, encoding: Rotary, measured: Measured) -> Found | None:
    """Find causes in the angles of the measured pairs; return the rotation that all causes give."""
    if measured.phases is None:
        return None
    declared, tables = declare(encoding), measured.tables(access)
    seen = diagnose_phases(run, tables, measured.phases, declared)
    return None if seen is None else rest.substituted(run, measured, tables, declared, seen)


def _zeros(run: Run, encoding: Rotary, measured: Measured) -> bool:
    """Report tokens at position 0 that are returned as zeros; return whether there are any.

    Every other token must be right.
    """
    first = measured.positions == 0
    if not first.any() or measured.matrices[first].any() or encoding.num_axes > 1:
        return False
    for n, at in enumerate((np.arange(5), np.array([7, 0, 3, 0, 0, 12]))):
        x = run.random((2, 3, at.size, encoding.head_dim), 95 + n)
        try:
            y, right = run.driver.apply(x, at), apply_truth(encoding, x, at)
        except (Malformed, Refused):
            return False
        masked = at == 0
        others = run.scores(y, right)[:, :, ~masked]
        if y[:, :, masked].any() or not (others <= run.budget).all():
            return False
    run.add(
        "not-a-rotation",
        "every token at position 0 is returned as zeros; the others are right",
        "2 calls with 4 tokens at position 0 and 7 at others",
        remedy="Return the tokens at position 0 as they are: their angles are 0. Position 0 is the "
        "first token's, and does not mark padding.",
    )
    return True


def _rows_differ(run: Run, encoding: Rotary) -> bool:
    """Report rows or heads whose positions are not the declared ones; return whether any exist."""
    first, second = live(encoding, encoding.pairs())
    w = nonzero_frequencies(encoding)
    decoder = Decoder.of(w, reach=64)
    adjacent = (np.sort(np.r_[first, second])[::2], np.sort(np.r_[first, second])[1::2])
    for pairs, out in (
        ((first, second), live(encoding, encoding.output_pairs())),
        (adjacent, adjacent),
    ):
        x = unit_pairs((4, 3, 5, encoding.head_dim), pairs[0])
        y = run.driver.apply(x, np.arange(5))
        cos, sin = y[..., out[0]], encoding.sign * y[..., out[1]]
        if np.array_equal(y, np.broadcast_to(y[:1, :1], y.shape)):
            return False
        found, misfit = decoder.positions(cos, sin)
        if misfit.max() > 0.1:
            continue
        found = found - round(encoding.offset)
        batch, head, token = np.meshgrid(np.arange(4), np.arange(3), np.arange(5), indexing="ij")
        for name, index in (("head", head), ("batch", batch)):
            if np.array_equal(found, index):
                run.add(
                    "position-axis",
                    f"the {name} index is taken for the position",
                    f"decoded positions equal the {name} index for 4 x 3 x 5 tokens",
                    remedy="Take positions along the tokens, axis S of (B, H, S, D), not along "
                    f"the {name} axis: check the tensor layout that the function expects.",
                )
                return True
        wrong = np.argwhere(found != token)
        b0, h0, s0 = (int(i) for i in wrong[0])
        rows, heads = np.unique(wrong[:, 0]), np.unique(wrong[:, 1])
        text = f"row {b0}, head {h0}: token {s0} gets position {found[b0, h0, s0]}"
        code = "row-offset" if rows.size < 4 and heads.size == 3 else "position-axis"
        run.add(
            code,
            f"{wrong.shape[0]} of 60 tokens have another position than declared{run.where()}",
            text,
            remedy=_EVERY_ROW,
        )
        return True
    run.add(
        "position-axis",
        f"the result depends on the batch row or the head of a token{run.where()}",
        "equal tokens have other results in other rows or heads",
        remedy=_EVERY_ROW,
    )
    return True


def _rows(run: Run) -> None:
    """Report failures of optional forms of positions: per row, single tokens, fractions."""
    failed = {f.case: f.place for f in run.failures}
    rows = [case for case in failed if "per-row" in case]
    if not rows and all(map(crossed_rows, failed)) and _by_row(run.located()):
        rows = list(failed)
    if f"{PER_ROW}, other values" in rows and PER_ROW not in rows:
        text = "positions (B, S) of an earlier call are used again"
        run.add("state", text if _kept(run) else f"consistent with: {text}", failed[rows[0]])
    elif rows:
        text = "calls with positions of each row, (B, S), are wrong"
        remedy = "Rotate every row by its own positions."
        run.add("row-offset", text + run.where(), failed[rows[0]], remedy=remedy)
    if ONE_TOKEN in failed:
        text = f"calls with a single token (decoding) are wrong{run.where()}"
        run.add("decode-offset", text, failed[ONE_TOKEN])
    elif ONE_EACH in failed:
        text = "single tokens (decoding): the first row is right, the other rows are not"
        text += run.where()
        run.add("row-offset", text, failed[ONE_EACH])
    elif set(failed) and all(case.startswith(FAR_TOKEN) for case in failed):
        text = f"calls with a single token (decoding) far from 0 are wrong{run.where()}"
        run.add("decode-offset", text, next(iter(failed.values())))
    for case in ("repeated, unsorted positions", "int32 positions"):
        if case in failed:
            run.add(
                "position-range",
                f"{case} are accepted and rotated wrongly: refuse them, or rotate them right"
                + run.where(),
                failed[case],
            )


def _kept(run: Run) -> bool:
    """Return whether calls with the same x and other positions of each row give the same bits."""
    x = run.random((2, 2, 5, run.encoding.head_dim), 27)
    one, two = np.array([[4, 9, 2, 0, 31], [7, 1, 8, 40, 3]]), np.arange(10).reshape(2, 5)
    try:
        return np.array_equal(run.driver.apply(x, one), run.driver.apply(x, two))
    except (Malformed, Refused):
        return False


def _by_row(place: Place | None) -> bool:
    """Return whether a rule is about the batch rows."""
    atoms = [atom for rule in place.rules for atom in rule.atoms] if place is not None else []
    return any(atom.name == ("index", "batch row") for atom in atoms)
