"""Judge the forms of inputs of ``apply``: those that every function accepts, and optional ones."""

from __future__ import annotations

import numpy as np

from posenc_ref import RoPE
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import FAR_TOKEN, PER_ROW, SELDOM, SIZES
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth

#: The case in which positions of rows can be broadcast along the heads.
_AS_HEADS = f"{PER_ROW} with B = H"
_INT32 = "int32 positions"
#: One token for each sequence of a batch, as in decoding.
_ONE_EACH = np.array([[37], [1021], [4095], [8191], [131071]])
#: Positions of five rows, since a kernel may be unrolled for four.
_FIVE_ROWS = np.array([[4, 9, 2, 0], [7, 1, 8, 40], [3, 3, 29, 17], [60, 5, 0, 1], [11, 12, 6, 90]])


def required_inputs(run: Run, dim: int) -> bool:
    """Judge contiguous int64 positions from 0, in several sizes; return False to end the check."""
    for size in SIZES:
        x = run.random((*size, dim), sum(size))
        positions = np.arange(size[-1])
        case = f"B, H, S = {size}"
        try:
            y = run.driver.apply(x, positions)
        except Refused as error:
            case = f"x of shape {x.shape} with positions 0..{size[-1] - 1}"
            slice_alone = _slice_alone(run)
            run.raised(case, error, **({"remedy": slice_alone} if slice_alone else {}))
            return False
        except Malformed as error:
            run.add(error.code, str(error), f"x of shape {x.shape}")
            return False
        if not run.floats_only():
            return False
        if not np.isfinite(y).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(y))[0])
            run.add("nonfinite", f"{y[at]} at index {at} for finite x", f"x of shape {x.shape}")
            return False
        if run.encoding is not None:
            run.judge("required inputs", case, y, apply_truth(run.encoding, x, positions))
        else:
            run.count("required inputs")
    return True


def _slice_alone(run: Run) -> str:
    """Return a remedy for functions that take only the rotated channels of latent attention."""
    encoding = run.encoding
    if not isinstance(encoding, RoPE) or not encoding.rotary_start:
        return ""
    d = encoding.rotary_dim
    return (
        f"If it takes the {d} rotated channels alone, not {encoding.head_dim}: judge it against "
        f"encoding.replace(head_dim={d}, rotary_dim={d}, rotary_start=0) (--part rope)."
    )


def optional_inputs(run: Run, dim: int) -> set[str]:
    """Judge inputs that may be refused, but must be right if accepted; return the refused cases."""
    rows = np.array([[4, 9, 2, 0, 31], [7, 1, 8, 40, 3]])
    highest = max(run.ledger.highest, int(rows.max()))
    far = np.arange(8, dtype=np.int32) + min(2**15 - 4, max(highest - 7, 0))
    tries = {
        PER_ROW: ((2, 3, 5, dim), rows),
        f"{PER_ROW}, other values": ((2, 3, 5, dim), rows[::-1] + 2),
        _AS_HEADS: ((2, 2, 5, dim), rows + 1),
        f"{PER_ROW}, five rows": ((5, 3, 4, dim), _FIVE_ROWS),
        "repeated, unsorted positions": ((1, 2, 8, dim), np.array([7, 7, 3, 90, 3, 0, 0, 55])),
        _INT32: ((1, 2, 4, dim), np.arange(5, 9, dtype=np.int32)),
        "negative positions": ((1, 2, 4, dim), np.array([-1, -7, -64, -3])),
        "fractional positions": ((1, 2, 4, dim), np.array([0.5, 1.25, 7.75, 33.5], np.float32)),
        "no tokens": ((2, 3, 0, dim), np.arange(0)),
        "an empty batch": ((0, 3, 4, dim), np.arange(4)),
    }
    if run.report.surface == "apply":  # other surfaces may need a call for each token
        tries |= {
            f"{PER_ROW} with H = S": ((2, 3, 3, dim), rows[:, :3] + 3),
            f"{FAR_TOKEN} of each row": ((5, 3, 1, dim), np.minimum(_ONE_EACH, highest)),
            f"{_INT32}, far": ((1, 2, 8, dim), far),
        }
    refused: set[str] = set()
    if not run.driver.pace.grants(len(tries), "calls with optional inputs"):
        return {PER_ROW, "repeated, unsorted positions"}
    for case, (shape, positions) in tries.items():
        # Where positions (B, S) are refused, no caller sends them. B = H may be accepted by chance.
        unwanted = positions.ndim == 2 and PER_ROW in refused
        if (unwanted and case != _AS_HEADS) or (case.startswith(_INT32) and _INT32 in refused):
            continue
        x = run.random(shape, 7)
        try:
            y = run.driver.apply(x, positions)
        except Refused as error:
            if not unwanted:
                run.limit(f"{case}: refused ({error})")
            refused.add(case)
            continue
        except Malformed as error:
            if not unwanted:
                run.add(error.code, str(error), case)
            continue
        if run.encoding is None:
            continue
        truth = apply_truth(run.encoding, x, positions.astype(np.float64))
        if case in SELDOM or unwanted:
            run.note(case, y, truth)
        else:
            run.judge("optional inputs", case, y, truth)
    if run.driver.axes > 1 and run.encoding is not None:
        _text_positions(run, dim)
    return refused


def _text_positions(run: Run, dim: int) -> None:
    """Judge positions (S,), which are those of text: equal on every axis."""
    x, positions = run.random((2, 3, 5, dim), 7), np.array([4, 9, 2, 0, 31])
    given, _ = run.driver.arguments(x, positions)
    try:
        y = run.driver.array(run.driver.call(given, positions))
    except (Refused, Malformed):
        return
    if y.shape == given.shape:
        truth = apply_truth(run.encoding, x, positions.astype(np.float64))
        run.note("positions (S,) for all axes", run.driver.restored(y, x.shape), truth)
