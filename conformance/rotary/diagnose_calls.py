"""Diagnose calls of certain shapes that are wrong, while others are right."""

from __future__ import annotations

import numpy as np

from posenc_ref import RoPE, Rotary
from posenc_ref.conformance.diagnosis.relation import code_of
from posenc_ref.conformance.harness.driver import Refused
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.probes import WIDE, unit_pairs
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.declaration import live, nonzero_frequencies
from posenc_ref.conformance.phases.decode import Decoder

from .wrong_rotations import pairs_of

#: An error of cos or sin above this one means that another position was used.
_OFF = 0.1


def diagnose_calls(run: Run, encoding: Rotary) -> None:
    """Diagnose the smallest failing call of the sizes ``WIDE``."""
    failed = {f.case for f in run.failures}
    sizes = [size for size in WIDE if f"B, H, S = {size}" in failed]
    if not sizes:
        return
    size = sizes[0]
    first, _ = live(encoding, encoding.pairs())
    seen = _seen(run, encoding, size, first, *live(encoding, encoding.output_pairs()))
    if seen is None:
        return
    w = nonzero_frequencies(encoding)
    angle = (np.arange(size[2])[:, None] + encoding.offset) * w
    wrong = np.abs(seen - np.exp(1j * angle)).max(axis=-1) > _OFF  # (B, H, S)
    if not wrong.any():
        return
    b, h, s = (int(i) for i in np.argwhere(wrong)[0])
    shape = f"in a call of B, H, S = {size}"
    decoder = Decoder.of(w, reach=4096)
    used, misfit = decoder.position(seen[b, h, s].real, seen[b, h, s].imag)
    used -= round(encoding.offset)
    where = f"row {b}, head {h}, token {s}"
    found = f"{where} gets the angles of position {used}" if misfit <= _OFF else where
    crossed = None
    if isinstance(encoding, RoPE):
        other = encoding.replace(
            layout="half" if encoding.layout == "interleaved" else "interleaved", output_layout=None
        )
        a, b_ = live(other, other.pairs())
        crossed = _seen(run, encoding, size, a, a, b_)
    if crossed is not None and (np.abs(crossed - np.exp(1j * angle)).max(axis=-1) <= _OFF).all():
        remedy = f"Rotate the declared pairs in such calls too: {pairs_of(encoding)}."
        run.add("layout", f"{shape}, pairs are {other.layout}", where, remedy=remedy)
    elif axis := _index_taken(seen, wrong, w, encoding.offset):
        text = f"{shape}, the {axis} index is taken for the position"
        remedy = f"Take positions along the tokens, not along the {axis} axis, in such calls too."
        run.add("position-axis", text, found, remedy=remedy)
    else:
        text = plural(int(wrong.sum()), "token is", "tokens are", wrong.size)
        code = code_of(run.located()) or "wrong-row"
        remedy = "Use the position of each token in calls of this size too."
        run.add(code, f"{shape}, {text} wrong{run.where()}", found, remedy=remedy)


def _index_taken(seen: np.ndarray, wrong: np.ndarray, w: np.ndarray, offset: float) -> str:
    """Return the axis whose index gives the angles of all wrong tokens, empty if none does."""
    for axis, name in ((1, "head"), (0, "batch")):
        index = np.indices(wrong.shape)[axis][wrong]
        if np.ptp(index) == 0:  # one row or head shows nothing
            continue
        angle = (index[:, None] + offset) * w
        if (np.abs(seen[wrong] - np.exp(1j * angle)).max(axis=-1) <= _OFF).all():
            return name
    return ""


def _seen(
    run: Run,
    encoding: Rotary,
    size: tuple[int, int, int],
    first: np.ndarray,
    out1: np.ndarray,
    out2: np.ndarray,
) -> np.ndarray | None:
    """Return cos + i sin of every token and pair, (B, H, S, pairs), or None if refused."""
    x = unit_pairs((*size, encoding.head_dim), first)
    try:
        y = run.driver.apply(x, np.arange(size[2]))
    except Refused:
        return None
    m = encoding.attention_factor()
    return np.asarray(y[..., out1] + 1j * encoding.sign * y[..., out2]) / m
