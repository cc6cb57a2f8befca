"""Test the causes that were found: by calls that could refute them, and by mending the function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import RoPE, Rotary
from posenc_ref._namespace import namespace
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.combine import IN_PART
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.ledger import Ledger
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.report import ERROR, Finding
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.measure import Measured

from .diagnose_narrow import ROUNDED
from .judge_robustness import COPIED
from .several.rest import TOGETHER
from .turned import PLACED

#: Codes of causes that change every token alike, whatever the call.
OF_EVERY_TOKEN = frozenset({
    "layout", "output-layout", "mixed-layout", "rotary-dim", "proportional", "sign", "phase-order",
    "not-a-rotation", "base", "exponent", "denominator", "frequency-spacing", "position-scale",
    "scaling-missing", "scaling-parameter", "scaling-formula", "amplitude", "attention-factor",
    "position-origin", "angle-precision", "range-reduction", "uninitialised",
})  # fmt: skip
#: (B, H) of the calls that could refute such a cause.
_SIZES = ((2, 3), (1, 5), (3, 1))


def judge(run: Run, measured: Measured) -> None:
    """Change the words of causes that further calls refute.

    A cause that changes every token alike was found in calls with one channel or one head. If
    tokens in other calls are not mapped as in those, the cause explains a part of them only.
    """
    found = run.report.findings
    if run.encoding is None or measured.phases is None or not any(_asserted(f) for f in found):
        return
    if all(_as_measured(run, measured, size, i) for i, size in enumerate(_SIZES)):
        return
    found[:] = [replace(f, message=IN_PART + f.message) if _asserted(f) else f for f in found]


def _asserted(finding: Finding) -> bool:
    # The matrices are measured with x of 0 and 1, which every dtype holds.
    own_calls = {ROUNDED, COPIED, PLACED, TOGETHER} & finding.values.keys()  # which tested these
    sure = finding.severity == ERROR and not finding.message.startswith(IN_PART)
    return sure and finding.code in OF_EVERY_TOKEN and not own_calls


def _as_measured(run: Run, measured: Measured, size: tuple[int, int], n: int) -> bool:
    """Return whether a call maps its tokens as the measured matrices do."""
    at = measured.positions
    x = run.random((*size, at.size, measured.matrices.shape[1]), 90 + n)
    try:
        y = run.driver.apply(x, at)
    except (Refused, Malformed):
        return True  # such a call was refused before
    value = np.einsum("nij,bhnj->bhni", measured.matrices, x)
    terms = np.einsum("nij,bhnj->bhni", np.abs(measured.matrices), np.abs(x))
    return run.fits(y, Truth(value, 2 * terms, np.zeros_like(value)))


def mend(run: Run, measured: Measured, again: Callable[[Run], None]) -> None:
    """Say in the remedy whether the function conforms with the cause removed, if that can be built.

    The function with a correction around it goes through ``again``, the check with a reduced
    workload.
    """
    errors = [f for f in run.report.findings if f.severity == ERROR]
    if len(errors) != 1 or not isinstance(run.encoding, Rotary) or run.driver.axes > 1:
        return
    mended = _mended(run, errors[0], measured)
    if mended is None:
        return
    words, fn = mended
    report = replace(run.report, findings=[], limits=[], executed={}, controls={}, accuracy=None)
    driver = replace(run.driver, fn=fn, factory=None, mutated=None, out_dtypes=set())
    settings = replace(run.settings, strict=True, few=True)
    second = replace(run, driver=driver, settings=settings, ledger=Ledger(report))
    try:
        again(second)
        second.finish()
    except (Refused, Malformed):
        return
    left = second.report.codes
    cases = plural(len(second.failures), "case still fails", "cases still fail")
    result = "the function conforms" if not left else f"{cases}: {', '.join(left)}"
    found = run.report.findings
    at = found.index(errors[0])
    found[at] = replace(errors[0], remedy=f"{errors[0].remedy} Tried: with {words}, {result}.")


def _mended(
    run: Run, finding: Finding, measured: Measured
) -> tuple[str, Callable[[Any, Any], Any]] | None:
    """Return the correction in words, and the function with it; None if it cannot be built."""
    encoding, fn = run.encoding, run.driver.fn
    declared, seen = (finding.values.get(name) for name in ("declared", "measured"))
    if run.driver.tensor_layout in ("bs(hd)", "t(hd)"):
        return None
    if finding.code == "sign":
        second = [*encoding.pairs()[1]]
        mirror = np.ones(encoding.head_dim)
        mirror[second] = -1
        return (
            "the second channel of every pair negated before and after",
            lambda x, p: _times(fn(_times(x, mirror), p), mirror),
        )
    if isinstance(declared, int | float) and isinstance(seen, int | float):
        return _of_numbers(encoding, fn, finding.code, float(declared), float(seen))
    if finding.code == "layout" and isinstance(encoding, RoPE) and measured.pairs:
        order = np.full(encoding.head_dim, -1)
        mine = [(p.a, p.b) for p in measured.pairs]
        wanted = list(zip(*(a.tolist() for a in encoding.pairs()), strict=True))
        if len(mine) != len(wanted) or measured.odd:
            return None
        for (a, b), (c, d) in zip(mine, wanted, strict=True):
            order[[a, b]] = c, d
        order[order < 0] = np.setdiff1d(np.arange(encoding.head_dim), order)  # passed through
        back = np.argsort(order)
        return (
            "the channels permuted to the measured pairs before, and back after",
            lambda x, p: fn(x[..., order], p)[..., back],
        )
    return None


def _of_numbers(
    encoding: Rotary, fn: Callable[[Any, Any], Any], code: str, declared: float, seen: float
) -> tuple[str, Callable[[Any, Any], Any]] | None:
    """Return the correction of a measured number: a factor, or an origin of positions."""
    if code in ("amplitude", "attention-factor") and seen:
        scale = np.ones(encoding.head_dim)
        scale[np.concatenate(encoding.output_pairs())] = declared / seen
        return (
            f"the rotated channels of the result multiplied by {declared / seen:.6g}",
            lambda x, p: _times(fn(x, p), scale),
        )
    if code == "position-origin" and (declared - seen).is_integer():
        by = int(declared - seen)
        return f"{by:+d} added to positions", lambda x, p: fn(x, p + by)
    return None


def _times(x: Any, factor: np.ndarray) -> Any:
    """Return x times a factor for each channel, in the library and dtype of x."""
    xp = namespace(x)
    made = xp.asarray(factor.astype(np.float32), dtype=x.dtype)
    return x * (made.to(x.device) if hasattr(made, "to") else made)
