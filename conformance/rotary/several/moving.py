"""Find what every call changes for the calls after it: their positions, or their frequencies.

Several calls of other sizes are made in turn. In each, the frequencies follow from the angles
between its tokens, whatever was kept, and the position of the first token from its own angles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from posenc_ref import RoPE
from posenc_ref.accuracy import FACTOR_SLACK, ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import unit_pairs
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.declaration import schedule_of
from posenc_ref.conformance.phases.decode import Decoder
from posenc_ref.conformance.phases.explain import explain
from posenc_ref.conformance.rotary.wrong_rotations import rotate_pairs
from posenc_ref.rope import LAYOUTS

from . import undone
from .rest import TOGETHER

#: (B, H, S) and the first position of calls in turn.
_IN_TURN = (
    ((1, 1, 24), 0), ((1, 1, 23), 5), ((1, 3, 26), 11), ((2, 1, 31), 0), ((3, 2, 22), 4),
    ((1, 1, 25), 7),
)  # fmt: skip
#: The last token of which the angle is compared with that of the first one, and of those before.
_STEPS = (1, 2, 3, 5, 8, 13, 21)
#: The largest relative error of a quotient of frequencies, and misfit of angles.
_SAME, _MISFIT = 1e-4, 0.05
#: The largest change of frequencies that may be a rounding error.
_STILL = 1e-12
#: Whole numbers by which frequencies may be multiplied.
_MULTIPLES = (2, 3, 4, 8, 10, 16, 32)
#: What a call may add to the positions of the calls after it, in words.
_ADDED: dict[str, Callable[[tuple[int, ...]], int]] = {
    "the number of its tokens": lambda size: size[2],
    "1": lambda size: 1,
    "the number of tokens in all its rows": lambda size: size[0] * size[2],
    "the number of its rows": lambda size: size[0],
    "the number of its tokens minus 1": lambda size: size[2] - 1,
}


@dataclass(frozen=True)
class _Seen:
    """What one call shows: its frequencies, the angles of its first token, and the factor."""

    size: tuple[int, int, int]
    start: int
    frequencies: np.ndarray
    angles: np.ndarray
    factor: float


def diagnose(run: Run, again: Callable[[Run], None]) -> None:
    """Name what every call changes, and what is wrong besides, in place of a bare finding."""
    encoding = run.encoding
    plain = isinstance(encoding, RoPE) and not encoding.depends_on_length
    if not plain or run.settings.reduced or not (encoding.frequencies() != 0).all():
        return
    other = [layout for layout in LAYOUTS if layout != encoding.layout]
    for one in (encoding, *(encoding.replace(layout=v, output_layout=None) for v in other)):
        try:
            seen = [_measured(run, one, *call) for call in _IN_TURN]
        except (Refused, Malformed):
            return
        known = [s for s in seen if s is not None]
        if len(known) < len(seen):
            continue
        if _scaled(run, known):
            if one is not encoding:
                words = f"pairs are {one.layout}, declared {encoding.layout}"
                run.add(
                    "layout",
                    words,
                    "calls in turn",
                    remedy=rotate_pairs(encoding),
                    values={TOGETHER: [run.report.findings[-1].message]},
                )
            return
        if _moved(run, one, known, again):
            return


def _measured(run: Run, encoding: RoPE, size: tuple[int, int, int], start: int) -> _Seen | None:
    """Return what a call shows if it rotates the pairs, in all rows and heads alike."""
    x = unit_pairs((*size, encoding.head_dim), encoding.pairs()[0])
    y = run.driver.apply(x, start + np.arange(size[2]))
    c, d = encoding.output_pairs()
    z = (y[..., c] + 1j * y[..., d])[0, 0]
    m = float(np.median(np.abs(z)))
    if not m or (y != y[:1, :1]).any() or (np.abs(np.abs(z) / m - 1) > FACTOR_SLACK).any():
        return None
    w = np.angle(z[1] * np.conj(z[0]))
    for n in _STEPS:
        angle = np.angle(z[n] * np.conj(z[0]))
        w = (angle + 2 * np.pi * np.rint((w * n - angle) / (2 * np.pi))) / n
    return _Seen(size, start, w, np.angle(z[0]), m)


def _scaled(run: Run, seen: Sequence[_Seen]) -> bool:
    """Report a factor by which every call multiplies the frequencies; return whether it does."""
    slow = seen[0].frequencies.size * 3 // 4  # fast ones may turn by more than pi
    every = np.array([s.frequencies for s in seen])
    w = every[:, slow:]
    if (np.abs(np.exp(1j * np.diff(every, axis=0)) - 1).max(axis=1) <= _STILL).any():
        return False
    factor = float(f"{np.median(w[1:] / w[:-1]):.4g}") if w.all() else 0.0
    if not factor or (np.abs(w) > 1).any() or (np.abs(w[1:] / w[:-1] / factor - 1) > _SAME).any():
        # They are known up to multiples of 2 pi, and so are whole multiples of them.
        off = {n: np.abs(np.exp(1j * (every[1:] - n * every[:-1])) - 1).max() for n in _MULTIPLES}
        factor = next((float(n) for n, most in off.items() if most <= _SAME), 1.0)
    if abs(factor - 1) <= _SAME:
        return False
    _told(
        run,
        f"every call multiplies the frequencies that the next calls use by {factor:g}",
        f"{len(seen)} calls of other sizes in turn: pair {slow} turns by "
        + ", ".join(f"{v:.6g}" for v in w[:, 0]) + " rad per position",
        "Scale a copy of the frequencies, once: do not write into those that are kept.",
    )  # fmt: skip
    return True


def _moved(run: Run, encoding: RoPE, seen: Sequence[_Seen], again: Callable[[Run], None]) -> bool:
    """Report what every call adds to the positions of those after it; return whether it does."""
    measured = np.mean([s.frequencies for s in seen], axis=0)
    sigma = np.full(measured.shape, ROUNDOFF[run.coarse] / _STEPS[-1])
    found = explain(encoding.sign * measured, sigma, schedule_of(encoding))
    if any(e.code == "frequency-spacing" for e in found):
        return False
    others = [e.predicted for e in found if e.code != "sign"]
    w = (others[-1] if others else encoding.frequencies()) * np.sign(measured)
    decoder = Decoder.of(w)
    used = []
    for s in seen:
        at, misfit = decoder.position(np.cos(s.angles), np.sin(s.angles))
        if misfit > _MISFIT:
            return False
        used.append(at)
    begun = np.array([s.start for s in seen])
    for words, step in _ADDED.items():
        steps = [step(s.size) for s in seen]
        counted = used[0] + np.cumsum([0, *steps])
        for ignored in (False, True):
            if not np.array_equal(used, counted[:-1] + (0 if ignored else begun - begun[0])):
                continue
            added = int(counted[-1]) - (0 if ignored else int(begun[0]))
            text, remedy = _words(words, ignored=ignored)
            numbers = ", ".join(f"{a} for {b}" for a, b in zip(used, begun, strict=True))
            where = f"{len(seen)} calls of other sizes in turn: the first position is {numbers}"
            _told(run, text, where, remedy)
            if not ignored:
                undone.moved_back(run, again, added, step)
            return True
    return False


def _words(added: str, *, ignored: bool) -> tuple[str, str]:
    """Return the finding, and its remedy."""
    if ignored:
        return (
            f"given positions are ignored: every call continues those of the call before, moved "
            f"by {added}",
            "Use the positions that are given: count no tokens in what is kept.",
        )
    return (
        f"every call moves the positions of the calls after it by {added}",
        "Use the positions that are given, and add nothing that is kept to them.",
    )


def _told(run: Run, text: str, where: str, remedy: str) -> None:
    """Report what every call changes, in place of the finding that results change."""
    findings = run.report.findings
    at = next(i for i, f in enumerate(findings) if f.code == "state")
    findings[at] = replace(findings[at], message=text, evidence=where, remedy=remedy)
