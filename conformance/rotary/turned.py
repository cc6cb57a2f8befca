"""Diagnose calls of ``apply`` by their tokens: the positions used, or a mistake in some calls only.

Calls of different sizes are made again with random x. Each wrong token is compared with the
rotation to every position, and with the known wrong rotations at its own position.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posenc_ref import MultiAxisRoPE, RoPE, Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.in_part import in_part
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.rule import DECLARED, Variables
from posenc_ref.conformance.diagnosis.scored import failed, fits
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import ONE_EACH, ONE_TOKEN
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth, identical
from posenc_ref.conformance.phases.positions_used import name_positions

_ROWS = np.array([[4, 9, 2, 0, 31], [7, 1, 8, 40, 3]])
_REPEATED = np.array([7, 7, 3, 90, 3, 0, 0, 55])
#: (B, H, S) and positions, or the first position.
CALLS: tuple[tuple[tuple[int, int, int], object], ...] = (
    ((2, 3, 5), 0), ((2, 3, 1), 37), ((3, 2, 1), 5), ((1, 1, 1), 9), ((3, 2, 2), 7),
    ((4, 2, 7), 3), ((2, 4, 4), 0), ((2, 3, 5), _ROWS), ((1, 2, 8), _REPEATED),
    ((1, 2, 33), 0), ((2, 1, 70), 0), ((1, 2, 130), 0), ((1, 12, 6), 2),
    ((1, 2, 64), 0), ((2, 1, 48), 0), ((1, 2, 32), 0), ((1, 1, 1100), 0),
)  # fmt: skip
#: Calls that could refute a rule found in the others.
FURTHER: tuple[tuple[tuple[int, int, int], object], ...] = (
    ((3, 2, 9), 11), ((2, 5, 1), 21), ((2, 2, 5), _ROWS + 3), ((1, 3, 100), 0), ((2, 2, 67), 4),
    ((2, 9, 3), 60), ((1, 17, 4), 33), ((1, 2, 96), 0), ((1, 1, 1060), 9), ((2, 5, 3), 50),
)  # fmt: skip


@dataclass(frozen=True)
class Turned:
    """One call: the tokens x (B, H, S, D) and their positions (S,) or (B, S)."""

    encoding: Rotary
    x: np.ndarray
    positions: np.ndarray

    def rotated(self) -> np.ndarray:
        """Return the tokens before the rotation."""
        return self.x

    def rotated_to(self, positions: np.ndarray) -> Truth:
        """Return the result at other positions (B, H, S)."""
        return apply_truth(self.encoding, self.x, positions)

    def variables(self) -> Variables:
        """Return numbers that may be mistaken for the positions."""
        b, h, n = self.x.shape[:3]
        row, head = np.indices((b, h))[..., None]
        index = np.arange(n)
        p = self.positions if self.positions.ndim == 1 else self.positions[:, None, :]
        first = p.reshape(-1, n)[0]
        rows = np.broadcast_to(p, (b, h, n))[:, 0]
        none = 0 * index
        return {
            DECLARED: p,
            "the index in the call": index,
            "the batch row": row,
            "the head": head,
            "the length of the call": 0 * index + n,
            "the number of batch rows": none + b,
            "the number of heads": none + h,
            "the number of heads after this one": h - 1 - head,
            "the number of tokens after this one": n - 1 - index,
            "the number of tokens of earlier rows": row * n,
            "the number of the token in the batch": row * n + index,
            "the position of the same token of the last row": rows[-1],
            "the number of axes of the positions": none + self.positions.ndim,
            **_elsewhere(rows, row, head, index),
            "the position of the same token of row 0": first,
            "the first position of the row": p[..., :1] + 0 * index,
            "the last position of the row": p[..., -1:] + 0 * index,
            "the position of the token before": np.roll(p, 1, axis=-1),
            "the position of the next token": np.roll(p, -1, axis=-1),
        }


def _elsewhere(
    rows: np.ndarray, row: np.ndarray, head: np.ndarray, index: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the positions (B, S) ``rows`` of tokens that a wrong reshape may select."""
    b, n = rows.shape
    h = head.shape[1]
    same = {"(b H + h) modulo B": (row * h + head) % b, "h modulo B": (head + 0 * row) % b}
    tokens = {
        "(b S + s) // B": (row * n + index) // b,
        "(s B + b) modulo S": (index * b + row) % n,
        "(h S + s) // H": (head * n + index) // h,
        "(s H + h) modulo S": (index * h + head) % n,
        "S - 1 - s": n - 1 - index,
    }
    found = {f"the position of the same token of row {t}": rows[r[..., 0]] for t, r in same.items()}
    for text, at in tokens.items():
        here = np.broadcast_to(at, (b, h, n))
        found[f"the position of token {text}"] = rows[np.arange(b)[:, None, None], here]
    return found


def diagnose(run: Run, encoding: Rotary, *, early: bool = False) -> bool:
    """Report the positions used, or a wrong rotation in some calls only; return whether found.

    With ``early``, nothing is reported if all calls are wrong: then the mistake does not depend on
    the call.
    """
    if encoding.num_axes > 1 or encoding.depends_on_length:
        return False
    code = _code(run)
    calls = list(_calls(run, encoding, CALLS))
    wrong = failed(run, calls)
    if not wrong or (early and len(wrong) == len(calls)):
        return False
    right = [one for one in calls if all(one is not w for w in wrong)]
    part = in_part(run, wrong, right, _rotations(encoding)) if right else None
    if part is not None and _holds(run, encoding, part[0]):
        mistake, words = part
        text = f"{wrong[0].case}; all {len(wrong)} wrong calls equal this rotation"
        run.add(code, f"{mistake.message}, {words}", text)
        return True
    return name_positions(run, calls, code, lambda: _calls(run, encoding, FURTHER))


def _code(run: Run) -> str:
    """Return the code of wrong positions in some forms of calls: per row, single, or others."""
    failed = {f.case for f in run.failures}
    if ONE_TOKEN in failed:
        return "decode-offset"
    rows = ONE_EACH in failed or any("per-row" in case for case in failed)
    return "row-offset" if rows else "wrong-row"


def _holds(run: Run, encoding: Rotary, mistake: Mistake) -> bool:
    """Return whether each of further calls is right, or as the mistake predicts."""
    return all(
        fits(run, one, one.truth) or fits(run, one, mistake.predict(one.facts))
        for one in _calls(run, encoding, FURTHER)
    )


def _calls(
    run: Run, encoding: Rotary, sizes: tuple[tuple[tuple[int, int, int], object], ...]
) -> Iterator[JudgedCall]:
    for i, (size, at) in enumerate(sizes):
        p = np.asarray(at)
        positions = p + np.arange(size[2]) if p.ndim == 0 else p
        if not run.settings.allows(int(positions.max())):
            continue
        x = run.random((*size, encoding.head_dim), 60 + i)
        try:
            y = run.driver.apply(x, positions)
        except (Refused, Malformed):
            continue
        call = Turned(encoding, x, positions)
        where = "at per-row positions" if p.ndim > 1 else f"from position {positions[0]} on"
        yield JudgedCall(f"B, H, S = {size} {where}", y, apply_truth(encoding, x, positions), call)


def _rotations(encoding: Rotary) -> Iterator[Mistake]:
    """Yield the wrong rotations that keep the positions: none, backwards, other pairs."""
    yield Mistake("frequency-spacing", "nothing is rotated", lambda call: identical(call.x))
    if not isinstance(encoding, RoPE | MultiAxisRoPE):
        return

    def other(message: str, **change: object) -> Mistake:
        changed = encoding.replace(**change)
        return Mistake("layout", message, lambda c: apply_truth(changed, c.x, c.positions))

    yield other("the rotation turns the other way, by -angle", sign=-encoding.sign)
    if encoding.layout in ("half", "interleaved"):
        layout = "half" if encoding.layout == "interleaved" else "interleaved"
        text = f"pairs are {layout}, declared {encoding.layout}"
        yield other(text, layout=layout, output_layout=None)
        text += ", and the rotation turns the other way"
        yield other(text, layout=layout, output_layout=None, sign=-encoding.sign)
    if isinstance(encoding, RoPE) and encoding.scaling is not None:
        yield other("the declared scaling is missing", scaling=None)
