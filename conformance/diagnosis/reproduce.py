"""Write a minimal input that reproduces a failure of ``apply``, as lines of Python.

:mod:`.reproduce_fn` adds the lines that define ``fn``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import GENERIC, ONE_HOT
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.report import ERROR
from posenc_ref.conformance.harness.run import Run, largest
from posenc_ref.conformance.oracle.apply import apply_truth

from .reproduce_fn import declaration


def add(run: Run, access: Access) -> None:
    """Add code that reproduces the first error of the report, if a single token shows it."""
    findings = run.report.findings
    first = next((i for i, f in enumerate(findings) if f.severity == ERROR), None)
    if first is None or run.encoding is None or run.encoding.num_axes > 1:
        return
    if findings[first].reproduce:  # another check has found lines of its own
        return
    try:
        lines = _lines(run, access)
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
        error = np.where(score > run.budget, np.abs(y - truth.value), 0.0)
        channel, _, _, out = largest(error)
        got, expected = y[channel, 0, 0, out], truth.value[channel, 0, 0, out]
        return "\n".join(_text(run, access, int(position), channel, out, got, expected))
    return ""


def _text(
    run: Run, access: Access, position: int, channel: int, out: int, got: float, expected: float
) -> list[str]:
    prefix = access.mode == "prefix"
    length, row = (position + 1, position) if prefix else (1, 0)
    positions = f"np.arange({length})" if prefix else f"np.array([{position}])"
    names, shown = declaration(run.encoding)
    sizes = {"b": 1, "h": 1, "s": length, "d": access.dim}
    axes = IN_LAYOUT[run.driver.tensor_layout]
    reshaped = "" if axes == "bhsd" else f".reshape({tuple(sizes.values())})"
    here = ", ".join({"s": str(row), "d": "{}"}.get(axis, "0") for axis in axes)
    if run.driver.dtype == "float16":  # the expected value is not rounded to it
        reshaped += '.astype("float64")'
    values = f"got[{here.format(out)}]", f"expected[0, 0, {row}, {out}]"
    if run.driver.backend_name != "numpy":
        values = f"float({values[0]})", values[1]
    return [
        "import numpy as np",
        f"from posenc_ref import {names}",
        f"encoding = {shown}",
        f'x = np.zeros({tuple(sizes[axis] for axis in axes)}, "{_on_host(run.driver.dtype)}")',
        f"x[{here.format(channel)}] = 1",
        f"got = fn(x{'.copy()' if run.driver.inplace else ''}, {positions})",
        f"expected = encoding.apply(x{reshaped}, {positions})",
        f"print({', '.join(values)})  # {got:.7g} {expected:.7g}",
    ]


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
