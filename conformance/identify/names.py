"""Equivalent encodings and parameters, the nearest known rule, and models with an encoding."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import Encoding, MixedRoPE, MultiAxisRoPE, RoPE, Rotary, XPos
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.harness.implementation import rotated_channels
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES

from .fit.blend import MSCALES
from .fit.measurement import PLAIN, Fit, Measurement, decimals, equal_range, fitted_base, nice
from .fit.schedule import fit


def same_as(encoding: RoPE, m: Measurement) -> Iterator[Encoding | str]:
    """Yield equivalent encodings, and changes of parameters that have no effect, in words."""
    if m.w.size == 1:
        other = "half" if encoding.layout == "interleaved" else "interleaved"
        yield encoding.replace(layout=other)
        yield "any base: the only pair has frequency 1 rad per position with every base"
    yield from _others(encoding, m)
    if encoding.sign < 0:
        yield "sign=1 with negated positions gives the same results"


def same_axes(encoding: MultiAxisRoPE) -> tuple[Encoding, ...]:
    """Return the encoding with linear scaling in place of a position scale, or vice versa."""
    scale, scaling = encoding.position_scale, encoding.scaling
    if isinstance(scaling, pr.LinearScaling) and scale == 1.0:
        return (encoding.replace(scaling=None, position_scale=1 / scaling.factor),)
    if scaling is None and isinstance(scale, float) and scale < 1.0:
        return (encoding.replace(scaling=pr.LinearScaling(1 / scale), position_scale=1.0),)
    return ()


def _others(encoding: RoPE, m: Measurement) -> Iterator[Encoding | str]:
    s: Any = encoding.scaling
    match s:
        case None:
            yield from _unscaled(encoding, m)
        case pr.NTKScaling():
            stretched = encoding.base * s.factor ** (m.rotary_dim / (m.rotary_dim - 2))
            yield encoding.replace(base=stretched, scaling=None)
            for factor in PLAIN:
                if factor * factor - factor + 1 == s.factor:
                    yield encoding.replace(scaling=pr.DynamicNTK(factor, 4096, policy="static"))
                    yield "with policy='static', DynamicNTK does not depend on max_position"
        case pr.LinearScaling():
            yield f"scaling=None and positions times {1 / s.factor:.8g} give the same results"
        case pr.YaRN():
            yield from _yarn(encoding, s, m)
        case pr.Llama3Scaling():
            yield _together(s, "original_max_position", "low_freq_factor", "high_freq_factor")
            if s.low_freq_factor == s.high_freq_factor:
                yield from _any_length(encoding, s, m)
        case pr.SuNTK(power=1.0):
            root = pr.LinearScaling(s.factor ** (2 / m.rotary_dim))
            yield encoding.replace(base=encoding.base * s.factor, scaling=root)
        case pr.Proportional():
            yield from _proportional(encoding, s, m)
        case pr.GivenFrequencies():
            yield from _given(m)


def _unscaled(encoding: RoPE, m: Measurement) -> Iterator[Encoding | str]:
    if 1 < m.w.size <= 2:
        yield "with two pairs, scaling only the second frequency has the effect of another base"
    if encoding.base in PUBLISHED_BASES or m.rotary_dim <= 2:
        return
    for known, scaling in product(PUBLISHED_BASES, map(pr.NTKScaling, PLAIN)):
        if m.meets(known, scaling):
            yield encoding.replace(base=known, scaling=scaling)


def _yarn(encoding: RoPE, s: Any, m: Measurement) -> Iterator[Encoding | str]:
    if s.attention_factor is not None:
        for one, all_dim in MSCALES:
            other = s.replace(attention_factor=None, mscale=one, mscale_all_dim=all_dim)
            if m.has_factor(other.magnitude(None)):
                yield encoding.replace(scaling=other)
    yield _together(s, "original_max_position", "beta_fast", "beta_slow")
    ratio = m.w / m.predicted(encoding.base)
    if not (np.abs(ratio * s.factor - 1) <= 2 * m.error).any():
        yield (
            "no frequency is divided by the whole factor, so other factors with another "
            "original_max_position give the same frequencies"
        )
    if s.truncate and s.blend in ("linear", "geometric"):
        yield from _any_length(encoding, s, m)


def _together(scaling: Any, *names: str) -> str:
    twice = scaling.replace(**{name: 2 * getattr(scaling, name) for name in names})
    return (
        f"the same results if {', '.join(names[:-1])} and {names[-1]} are all multiplied by the "
        f"same number, for example by 2: {twice!r}"
    )


def _any_length(encoding: RoPE, s: Any, m: Measurement) -> Iterator[str]:
    """Yield the range of original_max_position that gives the same frequencies."""

    def same(length: int) -> bool:
        try:
            return m.meets(encoding.base, s.replace(original_max_position=length))
        except ValueError:
            return False

    low, high = equal_range(int(s.original_max_position), same)
    if high > low:
        yield f"any original_max_position from {low} to {high} gives the same frequencies"


def _proportional(encoding: RoPE, s: Any, m: Measurement) -> Iterator[Encoding | str]:
    turning = int(np.count_nonzero(m.w))
    low, high = turning / m.w.size, (turning + 1) / m.w.size
    yield f"any fraction >= {low:.6g} and < {min(high, 1.0):.6g} gives the same frequencies"
    if encoding.layout == "interleaved" and encoding.output_layout is None and turning:
        base = float(encoding.base ** (turning / m.w.size))
        scaling = None if s.factor == 1.0 else pr.LinearScaling(s.factor)
        if base > 1.0:
            yield encoding.replace(base=base, scaling=scaling, rotary_dim=2 * turning)


def _given(m: Measurement) -> Iterator[str]:
    scale = float(m.w[0])
    if scale > 1.0 + float(m.error[0]) and (m.w > 0).all():
        base = fitted_base(m, 1 / scale)
        if base is not None:
            base = nice(base, float(m.error.max()) * 4)
            if m.agree(scale * m.predicted(base)).all():
                yield f"base={base:g} with positions multiplied by {_pi(scale)}"


def _pi(value: float) -> str:
    """Return a number as text; add ``= 2 pi``, ``= pi`` or ``= pi / 2`` if it has that value."""
    for words, known in (("2 pi", 2 * np.pi), ("pi", np.pi), ("pi / 2", np.pi / 2)):
        if abs(value - known) <= BUDGET["float32"] * ROUNDOFF["float32"] * known:
            return f"{value:.8g} = {words}"
    return f"{value:.8g}"


def unexplained(m: Measurement) -> tuple[str, ...]:
    """Describe frequencies without a rule: a rule with reversed pairs, or a divisor per pair."""
    if not (m.w > 0).all() or m.w.size < 4:
        return ()
    turned = fit(Measurement(m.w[::-1], m.sigma[::-1], roundoff=m.roundoff))
    if turned.named:
        rule = "" if turned.scaling is None else f" with {turned.scaling!r}"
        return (f"base={turned.base:g}{rule}, with the pairs in reverse order",)
    for base in PUBLISHED_BASES:
        divided = m.predicted(base) / m.w
        # With the full tolerance, every number would have a short neighbour.
        pairs = zip(divided.tolist(), (m.error / 8).tolist(), strict=True)
        short = [nice(v, e) for v, e in pairs]
        if all(float(f"{v:.5g}") == v for v in short):
            shown = ", ".join(f"{v:g}" for v in short[:3])
            return (
                f"base={base:g}, with a separate divisor for the frequency of each pair, as in "
                f"LongRoPE: {shown}, ..., {short[-1]:g}",
            )
    return ()


def _nearest(m: Measurement) -> tuple[Fit, np.ndarray] | None:
    """Return the rule that matches most pairs (at least half), or has the smallest error."""
    if m.w.size < 2 or not (m.w > 0).all():
        return None
    rated = []
    for n, found in enumerate(_candidates(m)):
        off = np.abs(np.log(m.w / m.predicted(found.base, found.scaling)))
        left = int((off > m.error).sum())
        rated.append((left if 2 * left < off.size else off.size, float(off.max()), n, found, off))
    return min(rated)[3:]


def nearest_fit(m: Measurement) -> Fit | None:
    """Return the nearest rule, or None."""
    found = _nearest(m)
    return None if found is None else found[0]


def nearest(m: Measurement) -> str:
    """Describe the nearest rule."""
    known = _nearest(m)
    if known is None:
        return ""
    found, off = known
    worst = float(off.max())
    rule = "" if found.scaling is None else f" with {found.scaling!r}"
    at, apart = int(np.argmax(off)), off > m.error
    first = int(np.argmax(apart))
    return (
        f"base={found.base:g}{rule}: {int((~apart).sum())} of {m.w.size} frequencies match, pair "
        f"{first} is the first that differs (by {100 * np.expm1(off[first]):.3g} %), pair {at} "
        f"differs most (by {100 * np.expm1(worst):.3g} %)"
    )


def _candidates(m: Measurement) -> Iterator[Fit]:
    """Yield published bases with usual factors, and the best fitted base."""
    fitted = fitted_base(m, 1.0)
    near = () if fitted is None else tuple(decimals(fitted, digits=3))
    for base in [b for b in (*PUBLISHED_BASES, *near) if b > 1.0]:
        yield Fit(base)
        for factor in PLAIN:
            yield Fit(base, pr.LinearScaling(factor))
            if m.rotary_dim > 2:
                yield Fit(base, pr.NTKScaling(factor))
    for _, e in known():
        match e:
            case pr.RoPE(scaling=pr.YaRN() | pr.Llama3Scaling()) if e.rotary_dim == m.rotary_dim:
                yield Fit(e.base, e.scaling)


@functools.cache
def known() -> tuple[tuple[str, Encoding], ...]:
    """Return the name and the encoding of every preset that needs no argument."""
    found = []
    for name in pr.presets():
        with suppress(ValueError):  # the preset needs an argument
            encodings = pr.preset(name).encodings.values()
            found += [(name, e) for e in encodings if e is not None]
    return tuple(found)


def used_by(encoding: Encoding) -> tuple[str, ...]:
    """Return the presets with an equivalent encoding."""
    return tuple(dict.fromkeys(name for name, other in known() if is_same(other, encoding)))


def slices(encoding: Encoding) -> tuple[str, ...]:
    """Return the presets whose rotated channels are those of ``encoding``, with their numbers.

    A function of the rotated channels alone has another ``head_dim`` and ``rotary_start``.
    """
    if not isinstance(encoding, RoPE):
        return ()
    rotated = rotated_channels(encoding)
    found = ((name, e) for name, e in known() if isinstance(e, RoPE))
    same = (_sliced(name, e) for name, e in found if is_same(rotated_channels(e), rotated))
    return tuple(dict.fromkeys(same))


def _sliced(name: str, encoding: RoPE) -> str:
    """Return the name of a preset with the channels that it rotates."""
    whole = encoding.rotary_dim == encoding.head_dim
    count = "all" if whole else str(encoding.rotary_dim)
    return f"{name} ({count} of its {encoding.head_dim} channels)"


def closest(encoding: Encoding) -> tuple[str, ...]:
    """Return the nearest presets with their other values.

    Presets with the same rule for another ``head_dim`` are nearest, then those that differ in one
    field, then in two.
    """
    mine = encoding.to_dict()
    fixed = {"head_dim", "dim", "num_heads"} & set(mine)
    rated: list[tuple[int, str, str]] = []
    for name, e in known():
        if type(e) is type(encoding):
            other = e.to_dict()
            apart = [f for f in mine if mine[f] != other[f]]
            count = len(apart)
            if isinstance(encoding, RoPE) and _resized(e, encoding):
                count, apart = 0, ["head_dim"]
            if apart and count <= 2 and (count == 0 or not fixed & set(apart)):
                values = ", ".join(f"{f}={getattr(e, f)!r}" for f in apart)
                rated.append((count, name, values))
    fewest = min(rated, default=(0,))[0]
    grouped: dict[str, dict[str, None]] = {}
    for n, name, values in rated:
        if n == fewest:
            grouped.setdefault(values, {})[name] = None  # layer types may share their values
    return tuple(
        f"{', '.join([*names][:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}, "
        f"which {'has' if len(names) == 1 else 'have'} {text}"
        for text, names in list(grouped.items())[:3]
    )


def _resized(one: Any, other: RoPE) -> bool:
    """Return whether two encodings differ in the size of the head alone."""
    if one.head_dim == other.head_dim:
        return False
    sizes = {"head_dim": other.head_dim, "rotary_dim": other.rotary_dim}
    alike = one.rotary_dim * other.head_dim == other.rotary_dim * one.head_dim
    try:
        return bool(alike and one.replace(**sizes, rotary_start=other.rotary_start) == other)
    except ValueError:  # a scaling with a number for each pair
        return False


def is_same(one: Encoding, other: Encoding) -> bool:
    """Return whether two encodings give the same results."""
    if any(not isinstance(e, Rotary) or isinstance(e, XPos | MixedRoPE) for e in (one, other)):
        return one == other
    return _numbers(one) == _numbers(other)


@functools.lru_cache(maxsize=1024)
def _numbers(encoding: Any) -> tuple[Any, ...]:
    """Return the numbers that determine the results of an encoding."""
    axes = encoding.axes()
    arrays = (*encoding.pairs(), *encoding.output_pairs(), np.zeros(1) if axes is None else axes)
    lengths = (None, 2**11, 2**14 + 1, 2**18 + 1) if encoding.depends_on_length else (None,)
    w = [tuple(encoding.frequencies(n).tolist()) for n in lengths]
    m = [encoding.attention_factor(n) for n in lengths]
    start = getattr(getattr(encoding, "scaling", None), "original_max_position", None)
    return (
        encoding.head_dim, encoding.sign, encoding.offset, *m, *w,
        start if encoding.depends_on_length else None,
        *(tuple(a.tolist()) for a in arrays),
    )  # fmt: skip
