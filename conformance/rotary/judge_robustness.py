"""Judge robustness: non-finite numbers, large and small values, and memory layouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.limited import limited
from posenc_ref.conformance.diagnosis.match import match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS, significant
from posenc_ref.conformance.diagnosis.whole_values import OF_ROWS, whole_values
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.foreign import refusals
from posenc_ref.conformance.harness.located.record import Call
from posenc_ref.conformance.harness.plural import ranges
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth

#: The value of a finding that names where channels are copied from.
COPIED = "copied from"


def judge(run: Run, dim: int) -> str:
    """Judge that a NaN stays in its token, outputs scale with x, and memory layouts do not matter.

    Return a message if the output does not scale with x, or else an empty string.
    """
    bent = ""
    x = run.random((2, 3, 5, dim), 9)
    clean = run.driver.apply(x, np.arange(5))
    _hole(run, x, clean, "NaN", np.nan, (1, 2, 3, 0))
    if not run.driver.pace.grants(10, "calls with other values and memory layouts of x"):
        return _unscaled(run, x, clean, -1.0)
    _hole(run, x, clean, "NaN", np.nan, (0, 0, 0, 1))
    empty = x.copy()
    empty[0, 1, 2] = 0.0
    y = run.driver.apply(empty, np.arange(5))
    run.count("robustness")
    if not np.array_equal(y[0, 1, 2], np.zeros(dim)):
        code = "nonfinite" if not np.isfinite(y).all() else "not-linear"
        text = "a token of zeros does not come out as zeros"
        if not (_copied(run, x, clean, y[0, 1, 2]) or _of_others(run)):
            run.add(code, text, f"{y[0, 1, 2, :3]} ...", by="robustness")
    for factor in (2.0**-6, 64.0 if run.coarse == "float16" else 2.0**30, -1.0):
        bent = bent or _unscaled(run, x, clean, factor)
    if bent and (_narrowed(run, x, clean) or _bent(run, dim)):
        bent = ""
    elif not bent:
        _hole(run, x, clean, "infinity", np.inf, (0, 1, 4, 0))
    _memory_order(run, x, clean)
    return bent


def _unscaled(run: Run, x: np.ndarray, clean: np.ndarray, factor: float) -> str:
    """Judge that the output scales with x; return a message if it does not."""
    scaled = run.driver.apply(x * factor, np.arange(5))
    run.count("robustness")
    unit = Truth(clean * factor, np.abs(clean * factor), np.zeros_like(clean))
    if run.fits(scaled, unit):
        return ""
    return f"the output of {factor:g} x is not {factor:g} times the output of x"


def _bent(run: Run, dim: int) -> bool:
    """Report a function that all results go through, or bounds; return whether one is found.

    It must predict calls with small and with large x.
    """
    if run.encoding is None:
        return False
    calls = []
    for n, (size, factor) in enumerate((((2, 3, 5), 1.0), ((1, 2, 9), 6.0), ((3, 1, 7), 0.25))):
        x, at = factor * run.random((*size, dim), 12 + n), 3 + np.arange(size[2])
        y, truth = run.driver.apply(x, at), apply_truth(run.encoding, x, at)
        calls.append(JudgedCall(f"B, H, S = {size}, x times {factor:g}", y, truth, truth))
    own = lambda truth: truth  # noqa: E731
    known = [
        *whole_values(own, "the result", "not-linear", OF_ROWS),
        limited(own, "the result", "not-linear"),
    ]
    return match(run, calls, known, parts=False, whole=True) and "not-linear" in run.report.codes


def _narrowed(run: Run, x: np.ndarray, y: np.ndarray) -> bool:
    """Report channels whose results are all rounded to half precision; return whether some are.

    The others must be right, and a call of another size must show the same channels.
    """
    if run.encoding is None or run.coarse not in ("float32", "float64"):
        return False
    other = run.random((1, 2, 9, x.shape[-1]), 11)
    calls = [(x, y), (other, run.driver.apply(other, np.arange(9)))]
    for name, bits in SIGNIFICANT_BITS.items():
        held = [(significant(out, bits) == out).all(axis=(0, 1, 2)) for _, out in calls]
        scores = [run.scores(out, apply_truth(run.encoding, given, np.arange(given.shape[2])))
                  for given, out in calls]  # fmt: skip
        right = [(score <= run.budget).all(axis=(0, 1, 2)) for score in scores]
        if held[0].any() and np.array_equal(*held) and all((r | held[0]).all() for r in right):
            words = ranges(np.flatnonzero(held[0]).tolist())
            run.add(
                "angle-precision",
                f"channels {words} of the result are rounded to {name}, the others are not"
                if not held[0].all()
                else f"the result is rounded to {name}",
                f"these channels have at most {bits} significant bits in two calls",
                by=None,
                remedy=f"Compute and keep channels {words} of the result in {run.dtype}.",
                values={COPIED: name},
            )
            return True
    return False


def _copied(run: Run, x: np.ndarray, y: np.ndarray, of_zeros: np.ndarray) -> bool:
    """Report channels that are those of another row, head or token; return whether they are.

    ``y`` is the result for x, and ``of_zeros`` that for a token of zeros in row 0, head 1, token 2:
    its channels that are not 0 come from elsewhere. A call of another size could refute the source.
    """
    channels = np.flatnonzero(of_zeros)
    other = run.random((3, 5, 4, x.shape[-1]), 10)
    calls = [(x, y), (other, run.driver.apply(other, np.arange(4)))]
    for axis, name in ((1, "head"), (0, "batch row"), (2, "token")):
        found = [
            {*_sources(given[..., channels], out[..., channels], axis, name)}
            for given, out in calls
        ]
        for source in sorted(found[0] & found[1]):
            words = ranges(channels.tolist())
            run.add(
                "rotary-dim",
                f"channels {words} of every {name} are those of {source}",
                "a token of zeros in row 0, head 1, token 2 comes out with "
                f"{of_zeros[channels[0]]:.6g} in channel {channels[0]}; 1 further call agrees",
                by="robustness",
                remedy=f"Give every {name} its own channels {words}.",
                values={COPIED: source},
            )
            return True
    return False


def _of_others(run: Run) -> bool:
    """Report results that are made with x of other tokens; return whether they are."""
    from .tokens import mixing, other_tokens  # only such a function needs them

    e = run.encoding
    return isinstance(e, Rotary) and (other_tokens.diagnose(run, e) or mixing.diagnose(run, e))


def _sources(x: np.ndarray, y: np.ndarray, axis: int, name: str) -> Iterator[str]:
    """Yield the indices on an axis of x that may be those of all results y, in words."""
    n = x.shape[axis]
    for j in (0, n - 1) if n > 1 else ():
        if (y == x.take([j], axis)).all():
            yield f"the last {name}" if j else f"{name} 0"
    for shift, words in ((1, "before"), (-1, "after")):
        if n > 2 and np.array_equal(y, np.roll(x, shift, axis)):
            yield f"the {name} {words}"


def _hole(
    run: Run, x: np.ndarray, clean: np.ndarray, name: str, value: float, at: tuple[int, ...]
) -> None:
    """Judge that one non-finite input makes its own token non-finite, and no other."""
    holed = x.copy()
    holed[at] = value
    token = np.zeros(x.shape[:3], dtype=bool)
    token[at[:3]] = True
    run.count("robustness")
    try:
        y = run.driver.apply(holed, np.arange(5))
    except Refused as error:
        run.limit(f"{name} in x: refused ({error})")
        return
    where = f"{name} at index {at}"
    if not np.array_equal(y[~token], clean[~token]):
        text = f"{'a NaN' if name == 'NaN' else name} in one token changes other tokens"
        if run.failures:  # their cause explains this too
            run.failed("robustness", text, np.inf, where)
            return
        remedy = "Let every token depend on its own channels and position only: do not mix tokens, "
        remedy += "heads or rows, and multiply no other token by 0."
        run.add("nonfinite", text, where, by="robustness", remedy=remedy)
    elif np.isfinite(y[token]).all():
        text = f"{'a NaN' if name == 'NaN' else name} in x gives only finite results"
        if run.failures:
            run.failed("robustness", text, np.inf, where)
            return
        run.add("nonfinite", text, where, by="robustness")
    elif name != "NaN" and not np.isinf(y[token]).any():
        run.limit(f"{where}: the result has NaN and no infinity (infinity times 0 is NaN)")


def _record(run: Run, x: np.ndarray, y: np.ndarray, case: str) -> None:
    """Record which elements of the result for x in a memory layout are wrong."""
    if run.encoding is None or y.shape != x.shape:
        return
    at, memory = np.arange(x.shape[2]), "transposed" if "transposed" in case else case
    call = Call(run.driver.calls, memory, sizes=x.shape[:3], positions=at)
    off = run.scores(y, apply_truth(run.encoding, x, at)) > run.budget
    run.ledger.evidence.add(f"x in {case}", run.surface.axes, off, None, call, None)


def _memory_order(run: Run, x: np.ndarray, clean: np.ndarray) -> None:
    """Judge the same values in other memory layouts: models pass transposed views."""
    driver = run.driver
    if driver.backend_name not in ("numpy", "torch") or driver.tensor_layout != "bhsd":
        return
    kind = driver.backend.asarray(x, run.dtype, driver.device)
    given: dict[str, Any] = {}
    if driver.backend_name == "torch":
        given["heads and tokens transposed"] = kind.transpose(1, 2).contiguous().transpose(1, 2)
    else:
        given["strided"] = np.repeat(kind, 2, axis=-1)[..., ::2]
        given["heads and tokens transposed"] = kind.swapaxes(1, 2).copy().swapaxes(1, 2)
        given["reversed heads"] = kind[:, ::-1].copy()[:, ::-1]
        locked = given["Fortran order, read-only"] = np.asfortranarray(kind)
        locked.flags.writeable = False
    for case, other in given.items():
        run.count("robustness")
        try:
            at = driver.backend.asarray(
                driver.arguments(x, np.arange(5))[1], "int64", driver.device
            )
            with refusals():
                result = driver.fn(other, at)
            y = driver.array(result).astype(np.float64)
        except (Refused, Malformed) as error:
            run.limit(f"x in {case}: refused ({error})")
            continue
        if not np.array_equal(y, clean):
            # Another kernel may round each term differently, not only their sum.
            size = np.linalg.norm(clean, axis=-1, keepdims=True)
            unit = Truth(clean, np.broadcast_to(size, clean.shape), np.zeros_like(clean))
            if y.shape != clean.shape or not run.fits(y, unit):
                run.failed("robustness", case, np.inf, f"x in {case} gives other values")
        _record(run, x, y, case)
