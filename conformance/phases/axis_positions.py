"""Decode the positions that tokens have on each axis, and find the rule behind them.

Every axis has pairs of its own, so each of its positions is decoded from these pairs alone. The
decoded positions must predict the whole result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.diagnosis.conditions import Variables
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.rule import DECLARED, Rule, find_rule
from posenc_ref.conformance.diagnosis.scored import failed, fits
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth

from .declaration import live, nonzero_frequencies
from .decode import Decoder

#: Positions up to this one are candidates; calls of more tokens are not decoded.
_REACH, _TOKENS = 512, 300
#: How many rules are tried: each further call that refutes one leads to the next.
_TRIES = 4
#: The roundings of the width of a square grid of S tokens.
_ROUNDED: tuple[tuple[str, Callable[[float], float]], ...] = (
    ("rounded down", np.floor), ("rounded up", np.ceil), ("rounded", np.rint),
)  # fmt: skip
#: Names the number of axes on which a token has another position than on axis 0.
_DIFFERENT = "the number of axes with another position than axis 0 in {}"
_LARGEST = "the number of axes with another largest position in the call than axis 0"
#: A right token comes within this distance of its declared cos and sin.
_NEAR = 1e-3


@dataclass(frozen=True)
class _Seen:
    """A call, and the position of every token on every axis, (A, B, S)."""

    one: JudgedCall
    used: np.ndarray


@dataclass(frozen=True)
class Decoding:
    """How the positions on each axis are decoded from the pairs of this axis."""

    encoding: Rotary
    decoders: list[tuple[np.ndarray, Decoder]] = field(default_factory=list)

    @classmethod
    def of(cls, encoding: Rotary) -> Decoding | None:
        """Return the decoding of an encoding, or None if axes share pairs."""
        axes = encoding.axes()
        if axes is None or getattr(encoding, "position_scale", 1.0) != 1.0:
            return None
        axes, w = live(encoding, (axes,))[0], nonzero_frequencies(encoding)
        found = cls(encoding)
        for axis in range(encoding.num_axes):
            own = np.flatnonzero(axes == axis)
            if not own.size:
                return None
            found.decoders.append((own, Decoder.of(w[own], reach=_REACH)))
        return found

    def seen(self, run: Run, one: JudgedCall) -> _Seen | None:
        """Return the positions of a call, or None if they do not predict its result."""
        encoding, x, declared = self.encoding, one.facts.x, one.facts.positions
        if fits(run, one, one.truth):
            return _Seen(one, declared)
        if not np.isfinite(one.actual).all():
            return None
        pairs, out = live(encoding, encoding.pairs()), live(encoding, encoding.output_pairs())
        before, after = (
            t[:, 0][..., first] + 1j * encoding.sign * t[:, 0][..., second]
            for t, (first, second) in ((x, pairs), (one.actual / encoding.attention_factor(), out))
        )
        used = declared.copy()
        for axis, (own, decoder) in enumerate(self.decoders):
            w = decoder.frequencies
            turned = np.exp(1j * (declared[axis] + encoding.offset)[..., None] * w)
            # One position further turns the fastest pair of the axis by its frequency.
            bound = min(_NEAR, 0.25 * float(np.abs(w).max()))
            near = np.abs(before[..., own] * turned - after[..., own]).max(axis=-1) <= bound
            for b, s in np.argwhere(~near):
                at = decoder.rotated(before[b, s, own], after[b, s, own])
                used[axis, b, s] = at - round(encoding.offset)
        return _Seen(one, used) if fits(run, one, apply_truth(encoding, x, used)) else None


def name_axis_positions(
    run: Run,
    encoding: Rotary,
    calls: Sequence[JudgedCall],
    again: Callable[[], Iterable[JudgedCall]],
) -> bool:
    """Report the rules that give the positions on each axis; return whether there are such rules.

    The facts of calls are those of :class:`posenc_ref.conformance.rotary.turned.Turned`.
    ``again`` makes further calls, which could refute the rules.
    """
    decoding = Decoding.of(encoding)
    if decoding is None or not failed(run, calls):
        return False
    small = [one for one in calls if one.facts.positions[0].size <= _TOKENS]
    seen = []
    for one in small:
        found = decoding.seen(run, one)
        if found is None:
            return False
        seen.append(found)
    # The rules that small calls show must predict the others, too.
    more = [one for one in calls if all(one is not other for other in small)] + list(again())
    for _ in range(_TRIES):
        rules = _rules(encoding, seen)
        if rules is None:
            return False
        refuting = next((one for one in more if not _follows(run, encoding, one, rules)), None)
        if refuting is None:
            break
        found = decoding.seen(run, refuting)
        if found is None:
            return False
        seen.append(found)
    else:
        return False
    _report(run, seen, rules, sum(all(one is not s.one for s in seen) for one in more))
    return True


def _report(run: Run, seen: Sequence[_Seen], rules: dict[int, Rule], agreed: int) -> None:
    first = next(s for s in seen if not np.array_equal(s.used, s.one.facts.positions))
    b, s = (int(i) for i in np.argwhere((first.used != first.one.facts.positions).any(axis=0))[0])
    places = [tuple(p[:, b, s].tolist()) for p in (first.used, first.one.facts.positions)]
    said = [f"the position used on {_of_axis(a, _plain(rule.words))}" for a, rule in rules.items()]
    text = "; ".join(said)
    run.add(
        "position-range" if any(r.code for r in rules.values()) else "wrong-row",
        text if agreed else f"every call is consistent with: {text}",
        f"{first.one.case}, row {b}, token {s}: positions {places[0]}, declared {places[1]}"
        + (f"; {plural(agreed, 'further call agrees', 'further calls agree')}" if agreed else ""),
        remedy=" ".join(
            _plain(rule.remedy).replace(DECLARED, _declared(a)) for a, rule in rules.items()
        ),
    )


def _plain(words: str) -> str:
    """Return a rule in the words of a report."""
    words = words.replace(f"{_LARGEST} is 0", "the largest position is the same on all axes")
    start, end = _DIFFERENT.split("{}")
    return re.sub(f"{start}(.*?){end} is 0", r"\1 has the same position on all axes", words)


def _of_axis(axis: int, words: str) -> str:
    return f"axis {axis} is {words.replace(DECLARED, _declared(axis))}"


def _declared(axis: int) -> str:
    return f"the declared position on axis {axis}"


def _rules(encoding: Rotary, seen: Sequence[_Seen]) -> dict[int, Rule] | None:
    """Return the rule of every axis with wrong positions, or None if one has no rule.

    If nothing else is wrong than that an axis is ignored, positions are not the cause.
    """
    rules, ignored = {}, {}
    for axis in range(encoding.num_axes):
        each = [_variables(s.one, axis) for s in seen]
        flat = {n: np.concatenate([v[n].ravel() for v in each]) for n in each[0]}
        used = np.concatenate([s.used[axis].ravel() for s in seen])
        if np.array_equal(used, flat[DECLARED]):
            continue
        if not used.any():  # single tokens would show this as their index in the call
            ignored[axis] = Rule("0", lambda v: np.zeros_like(v[DECLARED]))
            continue
        once = np.unique(np.stack([used, *flat.values()]), axis=1)
        rule = find_rule(once[0], dict(zip(flat, once[1:], strict=True)), DECLARED)
        if rule is None:
            return None
        rules[axis] = rule
    return rules | ignored if rules else None


def _variables(one: JudgedCall, axis: int) -> Variables:
    """Return numbers (B, S) that may be mistaken for the position on one axis."""
    p = one.facts.positions
    shape, own = p.shape[1:], p[axis]
    row, index = np.indices(shape)
    others = {f"the position on axis {a}": p[a] for a in range(p.shape[0]) if a != axis}
    bounds: dict[str, np.ndarray] = {}
    for a, q in enumerate(p):
        name = f"position on axis {a}"
        for word, of in (("smallest", np.min), ("largest", np.max)):
            bounds[f"the {word} {name} of the row"] = of(q, axis=1, keepdims=True)
            bounds[f"the {word} {name} of the call"] = of(q, keepdims=True)
        bounds[f"the first {name} of the row"] = q[:, :1]
    differs = np.sum(p != p[0], axis=0)
    tokens = {
        "this token": differs,
        "the first token of the row": differs[:, :1],
        "the last token of the row": differs[:, -1:],
        "the first token of row 0": differs[:1, :1],
        "the last token of row 0": differs[:1, -1:],
        "every row's first token": differs[:, 0].max(keepdims=True),
        "every row's last token": differs[:, -1].max(keepdims=True),
    }
    squares: dict[str, np.ndarray] = {}
    for words, to_whole in _ROUNDED:
        wide = max(int(to_whole(np.sqrt(shape[1]))), 1)
        grid = f"grid that is sqrt(S) wide, {words}"
        squares |= {f"the row of a {grid}": index // wide, f"the column of a {grid}": index % wide}
    found = {
        DECLARED: own,
        **others,
        **bounds,
        "the index in the call": index,
        "the batch row": row,
        "the length of the call": np.full(shape, shape[1]),
        "the number of batch rows": np.full(shape, shape[0]),
        "the position of the same token of row 0": own[:1],
        "the position of the token before": np.roll(own, 1, axis=1),
        "the position of the next token": np.roll(own, -1, axis=1),
        **squares,
        _LARGEST: np.sum(p.max(axis=(1, 2)) != p[0].max()),
        **{_DIFFERENT.format(token): number for token, number in tokens.items()},
    }
    return {name: np.broadcast_to(v, shape) for name, v in found.items()}


def _follows(run: Run, encoding: Rotary, one: JudgedCall, rules: dict[int, Rule]) -> bool:
    """Return whether the rules predict the result of a call."""
    used = one.facts.positions.copy()
    for axis, rule in rules.items():
        used[axis] = rule.of(_variables(one, axis))
    return fits(run, one, apply_truth(encoding, one.facts.x, used))
