"""Convert one rotary encoding to another by its channels, positions and factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import MixedRoPE, Rotary, XPos, layout_permutation
from posenc_ref.conformance.identify.names import is_same

from .conversion import SLACK, CannotBe, Conversion, times


@dataclass(frozen=True)
class _Map:
    """A rotary encoding as arrays of one row per pair, sorted by axis and falling frequency."""

    pairs: np.ndarray  #: (n, 2) input channels, exchanged for negative frequencies
    out: np.ndarray  #: (n, 2) output channels, likewise
    axis: np.ndarray
    w: np.ndarray

    @classmethod
    def of(cls, e: Rotary) -> _Map:
        axes = e.axes()
        axis = np.zeros(e.frequencies().size, dtype=int) if axes is None else axes
        w = e.sign * e.frequencies()
        order = np.lexsort((-np.abs(w), axis))
        pairs, out = (np.stack(p, axis=1)[order] for p in (e.pairs(), e.output_pairs()))
        back = (w[order] < 0)[:, None]
        pairs, out = (np.where(back, p[:, ::-1], p) for p in (pairs, out))
        return cls(pairs, out, axis[order], np.abs(w[order]))


def convert_rotary(result: Conversion, e: Any, t: Any, origin: float, scale: float | None) -> None:
    """Add the steps that convert encoding e to t, or raise CannotBe."""
    surface = result.surface
    moved, wanted = origin + getattr(e, "offset", 0.0), getattr(t, "offset", 0.0)
    own = e.head_dim**-0.5
    scaled = surface == "scores" and scale is not None and abs(scale / own - 1) > SLACK
    if is_same(e, t) and moved == wanted and not scaled:
        return
    for one in (e, t):
        if isinstance(one, XPos | MixedRoPE):
            raise CannotBe(f"{type(one).__name__} has no conversion")
    if e.head_dim != t.head_dim:
        raise CannotBe(f"the function has head_dim={e.head_dim}, the target {t.head_dim}")
    if e.num_axes != t.num_axes:
        raise CannotBe(f"the function has {e.num_axes} position axes, the target {t.num_axes}")
    a, b = _Map.of(e), _Map.of(t)
    ratio = _ratio(e, t, a, b)
    read, write = _channels(a, b, e.head_dim)
    factor = t.attention_factor() / e.attention_factor()
    whole = 2 * len(a.w) == e.head_dim
    if surface == "scores":
        if ratio != 1.0:
            raise CannotBe(
                f"positions would have to be multiplied by {ratio:.8g}, but fn(q, k) takes none"
            )
        squared = factor**2 * own / (scale or own)
        if not whole and factor != 1.0:
            raise CannotBe("attention factors differ, and logits also include unrotated channels")
        _permute(result, e, t, read, np.arange(e.head_dim))
        if abs(squared - 1) > SLACK:
            result.steps.append(f"multiply logits (or the softmax scale) by {squared:.9g}")
        result.body.append(f"return {times('fn(q[..., read], k[..., read])', squared)}")
        return
    at = result.move_positions(ratio, ratio * wanted - moved)
    if surface == "cos_sin":
        same = np.array_equal(a.w, e.frequencies()) and np.array_equal(b.w, t.frequencies())
        if e.num_axes > 1 or not same:
            raise CannotBe("the pairs are not sorted by falling frequency")
        sine = factor * e.sign  # the reference tables use +angle
        if sine != factor:
            result.steps.append("negate sin: the function returns sin(-angle)")
        if abs(factor - 1) > SLACK:
            result.steps.append(f"multiply cos and sin by {factor:.9g}")
        result.body += [
            f"cos, sin = fn({at})",
            f"return {times('cos', factor)}, {times('sin', sine)}",
        ]
        return
    _permute(result, e, t, read, write)
    back = np.array_equal(np.argsort(read), write)
    result.body.append(f"write = {'np.argsort(read)' if back else f'np.array({write.tolist()})'}")
    returned = "y"
    if abs(factor - 1) > SLACK:
        text = f"multiply rotated queries and keys by {factor:.9g}"
        if whole:
            text += f", or multiply the softmax scale by the square, {factor**2:.9g}"
            result.body.append(f"size = {factor!r}")
        else:
            text += ", only the rotated channels"
            turned = np.concatenate(t.output_pairs()).tolist()
            result.body += [f"size = np.ones({t.head_dim})", f"size[{turned}] = {factor!r}"]
        result.steps.append(text)
        returned = "(y * size).astype(y.dtype)"
    if surface == "apply":
        result.body += [f"y = fn(x[..., read], {at})[..., write]", f"return {returned}"]
        return
    q_at, k_at = (at.replace("positions", f"{x}_positions") for x in "qk")
    both = "q[..., write], k[..., write]"
    result.body += [
        f"q, k = fn(q[..., read], k[..., read], {q_at}, {k_at})",
        f"return {both}" if returned == "y" else f"return tuple({returned} for y in ({both}))",
    ]


def _ratio(e: Any, t: Any, a: _Map, b: _Map) -> float:
    """Return the factor on positions, or raise CannotBe if one factor is not enough."""
    if e.depends_on_length or t.depends_on_length:
        if e.scaling != t.scaling or e.base != t.base:
            which = "function" if e.depends_on_length else "target"
            raise CannotBe(
                f"the frequencies of the {which} depend on the length of the call: "
                f"build the function with base={t.base:g}, scaling={t.scaling!r}"
            )
        return 1.0
    if len(a.w) != len(b.w):
        raise CannotBe(f"the function rotates {len(a.w)} pairs, the target {len(b.w)}")
    if not np.array_equal(a.axis, b.axis):
        raise CannotBe("the numbers of pairs per axis (sections) differ")
    ratio = float(b.w.max() / a.w.max()) if a.w.max() > 0 else 1.0
    ratio = 1.0 if abs(ratio - 1) <= SLACK else ratio
    off = np.abs(a.w * ratio - b.w) > SLACK * b.w
    if off.any():
        off = np.abs(a.w - b.w) > SLACK * b.w
        k = int(np.argmax(off))
        fields = [f for f in ("base", "scaling", "spacing") if getattr(e, f, 0) != getattr(t, f, 0)]
        build = ", ".join(f"{f}={getattr(t, f)!r}" for f in fields if hasattr(t, f))
        raise CannotBe(
            f"{int(off.sum())} of {off.size} frequencies differ (pair {k}, counted from the "
            f"fastest, has {a.w[k]:.8g} rad per position, {b.w[k]:.8g} in the target), and no "
            f"change of inputs corrects it: build the function with {build or 'the target itself'}"
        )
    return ratio


def _channels(a: _Map, b: _Map, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the permutations of input channels (``read``) and output channels (``write``)."""
    read, write = np.zeros(dim, dtype=int), np.zeros(dim, dtype=int)
    read[a.pairs], write[b.out] = b.pairs, a.out
    still = [np.setdiff1d(np.arange(dim), p) for p in (a.pairs, b.pairs, a.out, b.out)]
    read[still[0]], write[still[3]] = still[1], still[2]
    return read, write


def _permute(result: Conversion, e: Any, t: Any, read: np.ndarray, write: np.ndarray) -> None:
    """Add a permutation of channels as a step and as code that defines ``read``."""
    straight = np.arange(read.size)
    if np.array_equal(read, straight):
        result.body.append(f"read = np.arange({read.size})")
        if not np.array_equal(write, straight):
            result.steps.append(
                "logits need no change; results have the channels in another order, and "
                "[..., write] restores the target's order"
            )
        return
    call = _layout_call(e, t, read)
    code = f"layout_permutation({read.size}, {call})" if call else f"np.array({read.tolist()})"
    result.body.append(f"read = {code}")
    if call:
        result.steps.append(
            "permute the rows of the q and k projections of the target model (weights, biases, q/k "
            f"norms): w = permute_weights(w, n_heads, {call}); logits then equal the target's"
        )
    elif e.sign != t.sign and e.replace(sign=t.sign) == t:
        result.steps.append(
            "the function rotates in the other direction: exchange the two channels of every pair, "
            "as [..., read] does (or negate positions, if the function takes negative ones)"
        )
    else:
        result.steps.append(
            "permute the rows of the q and k projections of the target model, head by head: "
            "w = w.reshape(n_heads, head_dim, -1)[:, read].reshape(w.shape)"
        )
    result.steps.append("or permute channels before and after the call, as the lines below do")


def _layout_call(e: Any, t: Any, read: np.ndarray) -> str:
    """Return the arguments of ``permute_weights``, or "" if it cannot do the permutation."""
    layouts = ("half", "interleaved")
    source, goal = getattr(t, "layout", ""), getattr(e, "layout", "")
    if source not in layouts or goal not in layouts or source == goal:
        return ""
    count = 2 * e.frequencies().size
    rotary = None if count == e.head_dim else count
    start = e.rotary_start
    expected = layout_permutation(
        e.head_dim, source=source, target=goal, rotary_dim=rotary, rotary_start=start
    )
    if not np.array_equal(expected, read):
        return ""
    part = "" if rotary is None else f", rotary_dim={rotary}"
    part += f", rotary_start={start}" if start else ""
    return f"source={source!r}, target={goal!r}{part}"
