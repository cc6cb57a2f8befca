"""What the frequencies of a model do in a context of a given length."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from posenc_ref import (
    DynamicNTK,
    LinearScaling,
    Llama3Scaling,
    MultiAxisRoPE,
    NTKScaling,
    RoPE,
    YaRN,
)
from posenc_ref.accuracy import SAME_FREQUENCY
from posenc_ref.conformance.harness.plural import plural, ranges
from posenc_ref.conformance.phases.schedule_mistakes import trained_field
from posenc_ref.schedules.scaling import FrequencySchedule

from .angle_errors import angle_errors

SEEN, INSIDE, NEW = "seen", "interpolated", "never seen"

Rope = RoPE | MultiAxisRoPE


@dataclass(frozen=True)
class Pair:
    """One pair of channels.

    Attributes
    ----------
    pair : int
        Its index.
    trained_wavelength, wavelength : float or None
        Positions per turn, in training and in the planned context; None for a pair that rests.
    trained_turns, turns : float
        Turns within the trained length, and within the planned one.
    state : str
        "seen" if the pair turned at least once in training, so that it saw every angle; else
        "interpolated" if the largest angle of the planned context occurred in training; else
        "never seen".
    """

    pair: int
    trained_wavelength: float | None
    wavelength: float | None
    trained_turns: float
    turns: float
    state: str


@dataclass(frozen=True)
class Option:
    """A frequency schedule for the planned length, and the number of pairs with unseen angles."""

    scaling: str
    unseen: int
    attention_factor: float


@dataclass(frozen=True)
class Plan:
    """The pairs of one encoding at one length.

    Attributes
    ----------
    encoding : str
        The encoding.
    length, trained : int
        The planned length, and the trained one.
    basis : str
        Which length counts as the trained one, in words.
    reach : int
        The largest number of keys that a query sees: the planned length, or the window.
    attention_factor : float
        The factor on cos and sin at the planned length.
    pairs : list[Pair]
        The pairs.
    errors : dict[str, float]
        The largest error of an angle at the end of the context, by the dtype that computes it.
    options : list[Option]
        Schedules for the planned length.
    notes : list[str]
        Further remarks.
    """

    encoding: str
    length: int
    trained: int
    basis: str
    reach: int
    attention_factor: float
    pairs: list[Pair]
    errors: dict[str, float]
    options: list[Option] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def count(self, state: str) -> int:
        """Return the number of pairs in a state."""
        return sum(pair.state == state for pair in self.pairs)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready data."""
        return asdict(self)


def trained_length(rope: Rope) -> int | None:
    """Return the trained length that the schedule of an encoding states, or None."""
    name = trained_field(rope.scaling)
    return int(getattr(rope.scaling, name)) if name else None


def plan(
    rope: Rope,
    length: int,
    *,
    trained: int | None,
    context: int | None,
    window: int | None,
    shipped: Rope | None = None,
) -> Plan:
    """Return what the pairs of a rotation do in a context of ``length`` tokens.

    Parameters
    ----------
    rope : RoPE or MultiAxisRoPE
    length : int
        The planned length L, in tokens.
    trained : int, optional
        The length L0 on which the model was trained, with the frequencies of ``rope``. By default
        ``context``, with the frequencies of ``shipped``, if its schedule states no length or a
        shorter one; else the length that the schedule of ``rope`` states, up to which the model
        was trained without the schedule.
    context : int, optional
        The length of the context that the configuration of ``shipped`` states.
    window : int, optional
        The number of keys that a query sees.
    shipped : RoPE or MultiAxisRoPE, optional
        The encoding of the model as it was trained; by default ``rope``.

    Raises
    ------
    ValueError
        No source states the trained length, or a length is less than 1.
    """
    shipped = rope if shipped is None else shipped
    stated, original = trained_length(rope), trained_length(shipped)
    if trained is not None:
        before, basis = rope, "given: the model was trained with these frequencies"
    elif context is not None and shipped.scaling is None:
        trained, before, basis = context, shipped, "the length of the model's context"
    elif context is not None and original is not None and context > original:
        trained, before = context, shipped
        basis = "its context, with its own scaling; --trained N states another"
    elif stated is not None:
        trained, before = stated, rope.replace(scaling=None)
        name = type(rope.scaling).__name__
        basis = f"{name} states it: before the scaling; --trained N states the length with it"
    else:
        raise ValueError(
            "the configuration does not state the trained length: give it in tokens with --trained"
        )
    if length < 1 or trained < 1:
        raise ValueError(f"lengths must be at least 1, got {length} and {trained}")
    reach = length if window is None else min(length, window)
    now = rope.frequencies(length)
    angles = _angles(before, length, trained, window)
    each = zip(before.frequencies(trained), angles, now, strict=True)
    pairs = [_pair(k, *w, reach) for k, w in enumerate(each)]
    made = Plan(
        repr(rope), length, trained, basis, reach, rope.attention_factor(length), pairs,
        angle_errors(now, length),
    )  # fmt: skip
    made.notes.extend(_notes(rope, before, length, window))
    if reach > trained:
        made.options.extend(_options(before, rope, angles, trained, reach))
    return made


def _angles(before: Rope, length: int, trained: int, window: int | None) -> np.ndarray:
    """Return the largest angle of every pair in training, in radians.

    Frequencies that depend on the length of the call were those of shorter calls, too: the
    schedule's own length, and the planned one.
    """
    shorter = {trained_length(before) or trained, length} if before.depends_on_length else set()
    calls = {trained, *(n for n in shorter if n <= trained)}
    most = trained if window is None else window
    return np.max([min(n, most) * before.frequencies(n) for n in calls], axis=0)  # type: ignore[no-any-return]


def _pair(k: int, slow: float, angle: float, now: float, reach: int) -> Pair:
    turns, later = angle / (2 * math.pi), reach * now / (2 * math.pi)
    waves = [2 * math.pi / w if w else None for w in (slow, now)]
    return Pair(k, waves[0], waves[1], turns, later, _state(angle, reach * now))


def _state(trained: float, planned: float) -> str:
    """Return the state of a pair from its largest angles, in training and planned."""
    if trained >= 2 * math.pi:
        return SEEN
    # A factor of exactly length / trained fits, although its frequencies are rounded.
    return INSIDE if planned <= trained * (1 + SAME_FREQUENCY) else NEW


def _notes(rope: Rope, before: Rope, length: int, window: int | None) -> list[str]:
    notes = []
    original, factor = trained_length(rope), getattr(rope.scaling, "factor", None)
    if original is not None and before == rope:
        notes.append(_unscaled(rope, original, length, window))
    elif original is not None and factor:
        most = float(factor) * original
        where = "within" if length <= most else "beyond"
        notes.append(
            f"{length} is {where} factor * original length = {factor:g} * {original} = {most:g}"
        )
    if rope.depends_on_length:
        notes.append(
            "the frequencies depend on the length of the call: the table holds for calls of "
            f"{length} tokens, and keys cached in shorter calls have other angles"
        )
    if window is not None and window < length:
        notes.append(f"a query sees {window} keys, so no distance exceeds {window - 1}")
    return notes


def _unscaled(rope: Rope, original: int, length: int, window: int | None) -> str:
    """Return how far the pairs reach beyond their angles before the scaling, in words."""
    most = max(original, length) if window is None else window
    slow = min(original, most) * rope.replace(scaling=None).frequencies(original)
    now = min(length, most) * rope.frequencies(length)
    beyond = [k for k, w in enumerate(zip(slow, now, strict=True)) if _state(*w) == NEW]
    said = f"before the scaling (original length {original}), "
    if not beyond:
        return said + "every pair turned at least once or as far as planned"
    far = max(float(now[k] / slow[k]) if slow[k] else math.inf for k in beyond)
    pairs = f"{plural(len(beyond), 'pair', 'pairs')} turned less than once and less far than "
    return f"{said}{pairs}planned: {ranges(beyond)}, now up to {far:.4g} times as far"


def _options(
    trained: Rope, declared: Rope, angles: np.ndarray, learned: int, reach: int
) -> list[Option]:
    """Return schedules for ``reach`` tokens, beginning with the declared one."""
    s = reach / learned
    base = trained.replace(scaling=None)
    tried: list[FrequencySchedule | None] = [declared.scaling, trained.scaling, None]
    tried = [known for i, known in enumerate(tried) if known not in tried[:i]]
    slow = trained.frequencies(learned)
    factor = getattr(trained.scaling, "factor", None)
    if trained.scaling is not None and factor:
        tried.append(trained.scaling.replace(factor=factor * s))
    if trained.scaling is None:
        tried += [LinearScaling(s), NTKScaling(s)]
        smallest = _smallest_ntk(trained, slow, learned, s)
        if smallest is not None:
            tried.append(NTKScaling(smallest))
            tried.append(DynamicNTK(max(1.0, _up((smallest - 1) / (s - 1))), learned))
        tried += [YaRN(s, learned), Llama3Scaling(s, 1.0, 4.0, learned)]
    found: list[Option] = []
    for scaling in tried:
        try:
            rope = base.replace(scaling=scaling) if found else declared
        except ValueError:  # the schedule does not fit these pairs
            continue
        now = reach * rope.frequencies(reach)
        states = [_state(*w) for w in zip(angles, now, strict=True)]
        name = "no scaling" if scaling is None else repr(scaling)
        if rope.replace(scaling=None) != base:
            name = repr(rope)
        found.append(Option(name, states.count(NEW), rope.attention_factor(reach)))
    return found


def _smallest_ntk(rope: Rope, slow: np.ndarray, learned: int, s: float) -> float | None:
    """Return the smallest factor of NTK-aware scaling that leaves no angle unseen, or None.

    Pair k is divided by ``factor ** (2k / (d - 2))``, which must be at least s for every pair that
    does not turn once in training.
    """
    d = rope.rotary_dim or 0
    short = np.flatnonzero(learned * slow < 2 * math.pi)
    if isinstance(rope, MultiAxisRoPE) or d < 4 or not short.size or not short[0]:
        return None
    return _up(float(s ** ((d - 2) / (2 * int(short[0])))))


def _up(x: float) -> float:
    """Return x rounded up to four digits."""
    scale = 10.0 ** (3 - math.floor(math.log10(abs(x)))) if x else 1.0
    return math.ceil(x * scale) / scale
