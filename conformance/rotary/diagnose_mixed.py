"""Diagnose RoPE-Mixed, whose angles are sums over all axes: its weights, or the sum itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from posenc_ref import MixedRoPE
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.match import likely, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.offset_sizes import Sizes
from posenc_ref.conformance.diagnosis.steps import Change, Steps, changes, computed, plain_steps
from posenc_ref.conformance.diagnosis.together import Predict, Stepped, match_together, two_steps
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth

#: (B, H) and the sides of the grids of the calls.
_CALLS = (((1, 2), (3, 4)), ((2, 3), (2, 5)), ((1, 1), (5, 5)))
#: The sizes of bounds of offsets, of which there are none here.
_NONE = Sizes()


@dataclass(frozen=True)
class _Call:
    x: np.ndarray
    positions: np.ndarray  #: (A, B, S)
    truth: Truth


def diagnose(run: Run, encoding: MixedRoPE) -> bool:
    """Report the changed step of the rotation that explains calls with a grid of positions."""
    calls = []
    for n, (size, sides) in enumerate(_CALLS):
        axes = np.indices((*sides, *(2,) * (encoding.num_axes - 2))).reshape(encoding.num_axes, -1)
        x = run.random((*size, axes.shape[1], encoding.head_dim), 80 + n)
        try:
            at = np.repeat(axes[:, None], size[0], axis=1)
            y = run.driver.apply(x, at)
        except (Refused, Malformed):
            continue
        case = f"a grid of {sides[0]} x {sides[1]}"
        truth = apply_truth(encoding, x, at)
        calls.append(JudgedCall(case, y, truth, _Call(x, at, truth)))
    if not calls:
        return False
    first = calls[0].facts

    def known() -> Iterator[Mistake]:
        return likely(run, calls, _mistakes(encoding, first))

    if match(run, calls, known(), parts=False, whole=True) and run.report.codes:
        return True
    plain = partial(_rotated, encoding, first)
    steps = Stepped(
        lambda sizes: plain_steps(plain, sizes), partial(_predicted, encoding), lambda _: _NONE
    )
    if match_together(run, calls, two_steps(run, calls, steps)):
        return True
    return match(run, calls, known(), parts=False) and bool(run.report.codes)


def _predicted(encoding: MixedRoPE, *made: Change, sizes: Sizes = _NONE) -> Predict:
    """Return the result that changed steps give."""

    def predict(call: _Call) -> Truth:
        value = computed(lambda s: _rotated(encoding, call, s), *made, sizes=sizes)
        terms = np.maximum(call.truth.terms, np.abs(value))
        return Truth(value, terms, call.truth.angle)

    return predict


def _mistakes(encoding: MixedRoPE, first: _Call) -> Iterator[Mistake]:
    axes = " + ".join(f"p_{a} weight[{a}, k]" for a in range(encoding.num_axes))
    remedy = f"Pair k turns by the one angle {axes}, where p_a is the position on axis a: "
    remedy += "take cos and sin of this sum."
    for code, message, _, change in changes(plain_steps(partial(_rotated, encoding, first))):
        yield Mistake(code, message, _predicted(encoding, change), remedy)


def _spaced(weight: np.ndarray, s: Steps) -> np.ndarray:
    """Return weights that rise from pair to pair of each axis, as those of LTX, or other ones."""
    axes, count = weight.shape
    n = count // axes
    rising = np.stack([weight[a, a::axes] for a in range(axes)]) if count == n * axes else None
    if rising is None or n < 3 or not (np.diff(rising) > 0).all():
        return weight
    if np.count_nonzero(weight) != count or not (rising == rising[0]).all():
        return weight
    first, last = rising[0, 0], rising[0, -1]
    i, base = np.arange(n), last / first

    def of(frequencies: np.ndarray) -> np.ndarray:
        made = np.zeros_like(weight)
        for a in range(axes):
            made[a, a::axes] = frequencies
        return made

    code = "frequency-spacing"
    return np.asarray(s.pick(
        "the frequency of pair i of each axis",
        weight,
        (code, f"is {first:.5g} * {base:.5g} ** (-i / {n}): it falls, where it is to rise",
         of(first * base ** (-i / n))),
        (code, f"is {base:.5g} ** (-i / {n}), that of RoPE", of(base ** (-i / n))),
        (code, "comes in the reverse order", of(rising[0, ::-1])),
        ("denominator", f"has an exponent divided by {n}, not by {n - 1}",
         of(first * base ** (i / n))),
        right=f"Use {first:.5g} * {base:.5g} ** (i / {n - 1}) for pair i = 0 .. {n - 1}.",
    ))  # fmt: skip


def _cosines(each: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Return what may be taken for the cosine of the sum of angles, in words."""
    cos = np.cos(each)
    return {
        "the cosine of the sum": np.cos(np.sum(each, axis=0)),
        "the product of the cosines": np.prod(cos, axis=0),
        "the sum of the cosines": np.sum(cos, axis=0),
        "the mean of the cosines": np.mean(cos, axis=0),
    }


def _sines(each: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Return what may be taken for the sine of the sum of angles, in words."""
    cos, sin = np.cos(each), np.sin(each)
    return {
        "the sine of the sum": np.sin(np.sum(each, axis=0)),
        "the product of the sines": np.prod(sin, axis=0),
        "the sum of the sines": np.sum(sin, axis=0),
        "the mean of the sines": np.mean(sin, axis=0),
        "the sine of the first axis times the cosines of the others":
            sin[0] * np.prod(cos[1:], axis=0),
        "the sine of the last axis times the cosines of the others":
            sin[-1] * np.prod(cos[:-1], axis=0),
    }  # fmt: skip


def _rotated(e: MixedRoPE, call: _Call, s: Steps) -> np.ndarray:
    weight = s.array("the weight", e.weight, ("axis", "pair"))
    weight = _spaced(weight, s)
    places = [s.number(f"the position on axis {a}", p) for a, p in enumerate(call.positions)]
    places = list(s.pick(
        "the position",
        np.asarray(places, np.float64),
        ("position-scale", "is (p + 1) / 2, such as c from 0 to 1 in place of 2 c - 1",
         (np.asarray(places, np.float64) + 1) / 2),
        ("position-origin", "is p + 1, such as 2 c in place of 2 c - 1",
         np.asarray(places, np.float64) + 1),
    ))  # fmt: skip
    each = [
        np.asarray(p, np.float64)[:, None, :, None] * w for p, w in zip(places, weight, strict=True)
    ]
    angle = np.sum(each, axis=0)
    code = "not-a-rotation"
    cos, sin = s.pick(
        "the rotation by the sum of the angles",
        (np.cos(angle), np.sin(angle)),
        *((code, f"takes {c} and {t} in place of cos and sin", (cosines, sines))
          for c, cosines in _cosines(each).items() for t, sines in _sines(each).items()),
        ("sections", "uses the first axis only", (np.cos(each[0]), np.sin(each[0]))),
        ("sections", "uses the last axis only", (np.cos(each[-1]), np.sin(each[-1]))),
        ("sections", "uses the mean of the angles, not their sum",
         (np.cos(angle / len(each)), np.sin(angle / len(each)))),
    )  # fmt: skip
    sign = s.factor("the sign of the rotation", float(e.sign), "sign")
    (a, b), (c, d) = e.pairs(), e.output_pairs()
    y = np.array(call.x, np.float64)
    x1, x2 = call.x[..., a], call.x[..., b]
    y[..., c], y[..., d] = x1 * cos - sign * x2 * sin, x2 * cos + sign * x1 * sin
    return y
