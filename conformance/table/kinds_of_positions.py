"""Tables whose integer and floating positions are treated differently."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from posenc_ref import Sinusoidal
from posenc_ref.conformance.diagnosis.match import explains, fits
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.reach import TableAccess
from posenc_ref.conformance.harness.run import Run

from .mistakes import placed_otherwise

_AT = (np.arange(48), np.array([2049, 0, 700, 63, 1023, 8, 3, 515]))


def name_kind(run: Run, access: TableAccess, encoding: Sinusoidal) -> bool:
    """Report that the same positions give right rows as floats only; return whether they do."""
    calls: dict[str, list[JudgedCall]] = {"i": [], "f": []}
    with suppress(Refused, Malformed):
        for at in map(access.within, _AT):
            for kind in (at, at.astype(np.float32)):
                rows = access.read(run.driver.call(kind), at.size)
                one = JudgedCall(f"positions {at[0]}..{at[-1]}", rows, encoding.truth(at), at)
                calls[kind.dtype.kind].append(one)
    if len(calls["f"]) < len(_AT) or not all(fits(run, c, c.truth) for c in calls["f"]):
        return False
    wrong = [c for c in calls["i"] if not fits(run, c, c.truth)]
    if not wrong:
        return False
    code, why = "position-precision", ""
    for name, message, table in placed_otherwise(encoding):
        if explains(run, calls["i"], Mistake(name, message, table.truth)):
            code, why = name, f" ({message})"
            break
    run.add(
        code,
        f"integer positions give wrong rows{why}, the same positions as floats right ones",
        f"{wrong[0].case} as {_AT[0].dtype} and as float32",
        remedy="Treat integer positions as floating ones: convert them before anything else.",
    )
    return True
