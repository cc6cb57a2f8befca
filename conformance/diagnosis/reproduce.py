"""Write a minimal input that reproduces a failure of ``apply``, as lines of Python.

:mod:`.reproduce_fn` adds the lines that define ``fn``.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import GENERIC, ONE_HOT
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.report import ERROR
from posenc_ref.conformance.harness.run import Run, largest
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.oracle.transforms import Derived

from .reproduce_fn import declaration


def add(run: Run, access: Access) -> None:
    """Add code that reproduces the first error of the report, if a single token shows it."""
    findings = run.report.findings
    first = next((i for i, f in enumerate(findings) if f.severity == ERROR), None)
    if first is None or run.encoding is None:
        return
    if isinstance(run.encoding, Derived):  # its repr is not valid code
        return
    if findings[first].reproduce:  # another check has found lines of its own
        return
    try:
        if run.driver.factory is not None:  # the lines are for an instance that nothing has called
            run = replace(run, driver=run.driver.fresh())
            access = replace(access, run=run)
        stale = findings[first].code == "state"
        if run.encoding.num_axes > 1:
            lines = "" if stale else _on_axes(run)
        else:
            lines = _after_others(run) if stale else _lines(run, access)
    except (Refused, Malformed):
        return
    if lines:
        findings[first] = replace(findings[first], reproduce=lines)


def _lines(run: Run, access: Access) -> str:
    """Return code with one nonzero channel of one token, chosen for the largest error.

    The token has the first position at which an error shows.
    """
    dim = access.dim
    at = np.unique(np.r_[ONE_HOT, GENERIC])
    for position in at[at <= run.ledger.highest]:
        x = np.eye(dim)[:, None, None, :]
        here = np.array([position])
        y = access.rows(x, here)
        truth = apply_truth(run.encoding, x, here, access.lengths(here))
        score = run.scores(y, truth)
        if not (score > run.budget).any():
            continue
        channel = largest(np.where(score > run.budget, np.abs(y - truth.value), 0.0))[0]
        x = x[channel : channel + 1]  # alone, as in the lines, it may be right
        truth = apply_truth(run.encoding, x, here, access.lengths(here))
        found = _error(run, access.rows(x, here), truth)
        if found is None:
            continue
        out, values = found
        call = (0, position + 1) if access.mode == "prefix" else (position, 1)
        return "\n".join(_text(run, (), call, channel, out, values))
    return ""


def _on_axes(run: Run) -> str:
    """Return code with one nonzero channel of one token, for an encoding of several axes.

    The token's position is 0 on most axes, if errors show there.
    """
    e = run.encoding
    near = itertools.product(*[range(min(4, run.settings.up_to(3) + 1))] * e.num_axes)
    for at in sorted(near, key=lambda at: (np.count_nonzero(at), sum(at))):
        x = np.eye(e.head_dim)[:, None, None, :]
        places = np.broadcast_to(np.array(at)[:, None, None], (e.num_axes, e.head_dim, 1)).copy()
        try:
            y = run.driver.apply(x, places)
        except (Refused, Malformed):
            continue
        truth = apply_truth(e, x, places)
        wrong = run.scores(y, truth) > run.budget
        if wrong.any():
            channel = largest(np.where(wrong, np.abs(y - truth.value), 0.0))[0]
            x, places = x[channel : channel + 1], places[:, channel : channel + 1]
            found = _error(run, run.driver.apply(x, places), apply_truth(e, x, places))
            if found is not None:
                return "\n".join(_text(run, (), (0, 1), channel, *found, at))
    return ""


def _error(run: Run, y: np.ndarray, truth: Truth) -> tuple[int, tuple[float, float]] | None:
    """Return the channel with the largest error, with its value and the declared one."""
    off = np.where(run.scores(y, truth) > run.budget, np.abs(y - truth.value), 0.0)
    if not off.any():
        return None
    at = largest(off)
    return int(at[-1]), (float(y[at]), float(truth.value[at]))


def _after_others(run: Run) -> str:
    """Return code with the calls that make a later call wrong, found on fresh instances.

    Without a factory there is none: no call shows what a new process would see.
    """
    if run.driver.factory is None:
        return ""
    channel = int(run.encoding.pairs()[0][run.encoding.frequencies() != 0][0])
    for earlier, last in _SEQUENCES:
        if not all(run.settings.allows(a + n - 1) for a, n in (earlier, last)):
            continue
        driver = run.driver.fresh()
        x = np.zeros((1, 1, last[1], run.encoding.head_dim))
        x[0, 0, -1, channel] = 1.0
        at = _span(last)
        try:
            driver.apply(np.zeros((1, 1, earlier[1], x.shape[3])), _span(earlier))
            y = driver.apply(x, at)
        except (Refused, Malformed):
            continue
        truth = apply_truth(run.encoding, x, at)
        wrong = (run.scores(y, truth) > run.budget)[0, 0, -1]
        if wrong.any():
            error = np.where(wrong, np.abs(y - truth.value)[0, 0, -1], 0.0)
            out = int(np.argmax(error))
            values = float(y[0, 0, -1, out]), float(truth.value[0, 0, -1, out])
            return "\n".join(_text(run, (earlier,), last, channel, out, values))
    return ""


def _span(call: tuple[int, int]) -> np.ndarray:
    return np.arange(call[0], call[0] + call[1])


def _text(
    run: Run,
    earlier: tuple[tuple[int, int], ...],
    call: tuple[int, int],
    channel: int,
    out: int,
    values: tuple[float, float],
    at: tuple[int, ...] = (),
) -> list[str]:
    """Return the lines for calls (first position, tokens); the last token of the last is shown.

    ``at`` is the position of the only token if there are several axes.
    """
    first, length = call
    row, dim = length - 1, run.encoding.head_dim
    names, shown = declaration(run.encoding)
    sizes = {"b": 1, "h": 1, "s": length, "d": dim}
    axes = IN_LAYOUT[run.driver.tensor_layout]
    reshaped = "" if axes == "bhsd" else f".reshape({tuple(sizes.values())})"
    here = ", ".join({"s": str(row), "d": "{}"}.get(axis, "0") for axis in axes)
    if run.driver.dtype == "float16":  # the expected value is not rounded to it
        reshaped += '.astype("float64")'
    printed = f"got[{here.format(out)}]", f"expected[0, 0, {row}, {out}]"
    if run.driver.backend_name != "numpy":
        printed = f"float({printed[0]})", printed[1]
    positions = declared = _written(first, length)
    if at:
        declared = f"np.array({[[[p]] for p in at]})"
        positions = declared if "b" in axes else f"np.array({[[p] for p in at]})"

    def zeros(tokens: int) -> str:
        shape = tuple((sizes | {"s": tokens})[axis] for axis in axes)
        return f'np.zeros({shape}, "{_on_host(run.driver.dtype)}")'

    return [
        "import numpy as np",
        f"from posenc_ref import {names}",
        f"encoding = {shown}",
        *(f"fn({zeros(n)}, {_written(a, n)})  # an earlier call" for a, n in earlier),
        f"x = {zeros(length)}",
        f"x[{here.format(channel)}] = 1",
        f"got = fn(x{'.copy()' if run.driver.inplace else ''}, {positions})",
        f"expected = encoding.apply(x{reshaped}, {declared})",
        f"print({', '.join(printed)})  # {values[0]:.7g} {values[1]:.7g}",
    ]


def _written(first: int, length: int) -> str:
    """Return consecutive positions as code."""
    if length == 1:
        return f"np.array([{first}])"
    return f"np.arange({first}, {first + length})" if first else f"np.arange({length})"


#: Calls of which the second is wrong if tables are kept: the first position, and the tokens.
_SEQUENCES = (
    ((20, 11), (50, 11)),  # as long, at other positions
    ((0, 4), (37, 1)),  # decoding
    ((37, 1), (38, 1)),
    ((20, 11), (50, 7)),  # shorter
    ((0, 4), (0, 64)),  # longer
    ((0, 64), (0, 4)),
    ((131071, 1), (8, 1)),  # past the length of any original context, then within it
    ((8, 1), (131071, 1)),
    ((50, 2053), (90, 2053)),  # longer than any table made in advance
)

#: The axes of x in each tensor layout, for one head: merged axes are left out.
IN_LAYOUT = {
    "bhsd": "bhsd",
    "bshd": "bshd",
    "sbhd": "sbhd",
    "thd": "shd",
    "bs(hd)": "bsd",
    "t(hd)": "sd",
}


def _on_host(dtype: str) -> str:
    """Return the dtype of NumPy arrays that hold values of ``dtype``."""
    return "float32" if dtype == "bfloat16" else dtype
