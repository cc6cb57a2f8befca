"""Find what every call changes for the calls after it: their positions, or their frequencies.

Several calls of other sizes are made in turn. In each, the frequencies follow from the angles
between its tokens, whatever was kept, and the position of the first token from its own angles.
Further calls, of one token, many tokens, several rows or far positions, have to agree.
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
#: Calls that could refute a rule: of other kinds, and of many tokens, which reach far positions.
_KINDS = (
    ((1, 1, 1), 9), ((2, 1, 3), 4), ((1, 1, 300), 2), ((1, 2, 1), 5000), ((1, 1, 40), 3),
    ((3, 2, 5), 7), ((1, 1, 130), 0), ((2, 1, 1), 1),
)  # fmt: skip
_MANY = (*(((1, 1, 1100), 0),) * 8, ((1, 1, 1), 6), ((1, 1, 12), 0))
#: The fewest further calls that have to show what is multiplied, and between which others.
_FEWEST, _BETWEEN = 4, ((1, 1, 24), 0)
#: The smallest change of frequencies that is seen, and their error.
_CHANGE, _ERROR = 1e-6, 1e-7
#: The last token of which the angle is compared with that of the first one, and of those before.
_STEPS = (1, 2, 3, 5, 8, 13, 21)
#: The largest relative error of a quotient of frequencies, and misfit of angles.
_SAME, _MISFIT = 1e-4, 0.05
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
        if _scaled(run, one, known):
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


def _scaled(run: Run, encoding: RoPE, seen: Sequence[_Seen]) -> bool:
    """Report a factor by which every call multiplies the frequencies; return whether it does."""
    slow = seen[0].frequencies.size * 3 // 4  # fast ones may turn by more than pi
    w = np.array([s.frequencies[slow:] for s in seen])
    if not w.all():
        return False
    factor = float(f"{np.median(w[1:] / w[:-1]):.4g}")
    if (np.abs(w) > 1).any() or (np.abs(w[1:] / w[:-1] - factor) > _SAME * abs(factor)).any():
        return False
    if abs(factor - 1) <= _SAME:
        return False
    n = _further_scaled(run, encoding, seen[-1], factor, slow)
    if n < _FEWEST:
        return False
    _told(
        run,
        f"every call multiplies the frequencies that the next calls use by {factor:g}",
        f"{len(seen)} calls of other sizes in turn: pair {slow} turns by "
        + ", ".join(f"{v:.6g}" for v in w[:, 0]) + f" rad per position; {n} further calls agree",
        "Scale a copy of the frequencies, once: do not write into those that are kept.",
    )  # fmt: skip
    return True


def _further_scaled(run: Run, encoding: RoPE, last: _Seen, factor: float, slow: int) -> int:
    """Return how many further calls show that they multiply the frequencies; 0 if one does not."""
    part, n = slice(None if factor < 1 else slow, None), 0
    for size, start in _KINDS:
        w = last.frequencies * factor
        seen_well = np.abs(last.frequencies[part]).max() * abs(factor - 1) * factor > _CHANGE
        if not seen_well or np.abs(w[slow:] * factor).max() > 1:
            break
        if not run.settings.allows(start + size[2] - 1):
            continue
        used = start + np.arange(size[2])
        if not _predicted(run, encoding, size, start, np.outer(used, w)[:, slow:], last.factor):
            return 0
        after = _measured(run, encoding, *_BETWEEN)
        if after is None:
            return 0
        off = np.abs(np.exp(1j * (after.frequencies - w * factor)) - 1)
        near = _SAME * np.maximum(np.abs(w), np.abs(w * factor)) + _ERROR
        if (off > near)[part].any():
            return 0
        last, n = after, n + 1
    return n


def _predicted(
    run: Run, encoding: RoPE, size: tuple[int, int, int], start: int, angles: np.ndarray, m: float
) -> bool:
    """Return whether a call turns its tokens by these angles (S, pairs); the last pairs do."""
    x = unit_pairs((*size, encoding.head_dim), encoding.pairs()[0])
    y = run.driver.apply(x, start + np.arange(size[2]))
    c, d = encoding.output_pairs()
    z = (y[..., c] + 1j * y[..., d])[..., -angles.shape[-1] :]
    return bool((np.abs(z - m * np.exp(1j * angles)) <= _MISFIT * m).all())


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
    used = [decoder.position(np.cos(s.angles), np.sin(s.angles))[0] for s in seen]
    begun = np.array([s.start for s in seen])
    for words, step in _ADDED.items():
        steps = [step(s.size) for s in seen]
        counted = used[0] + np.cumsum([0, *steps])
        for ignored in (False, True):
            if not np.array_equal(used, counted[:-1] + (0 if ignored else begun - begun[0])):
                continue
            added = int(counted[-1]) - (0 if ignored else int(begun[0]))
            n = 0
            for size, start in (*_KINDS, *_MANY):
                positions = added + (0 if ignored else start) + np.arange(size[2])
                if not run.settings.allows(int(max(positions[-1], start + size[2]))):
                    continue
                m = seen[-1].factor
                if not _predicted(run, encoding, size, start, np.outer(positions, w), m):
                    return False
                n, added = n + 1, added + step(size)
            text, remedy = _words(words, ignored=ignored)
            numbers = ", ".join(f"{a} for {b}" for a, b in zip(used, begun, strict=True))
            where = f"{len(seen)} calls of other sizes in turn: the first position is {numbers}"
            where += f"; {n} further calls agree"
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
