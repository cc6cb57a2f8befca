"""Rotary encodings with several position axes: M-RoPE, vision towers, image and video models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from . import _validate as validate
from ._text import shown
from .angles import decimal_context
from .rope import LAYOUT_ALIASES, LAYOUTS, check_scaling, check_start, layout_pairs
from .rotary import Rotary
from .schedules.scaling import FrequencySchedule, standard_schedule

ARRANGEMENTS = ("chunked", "interleaved")
SPACINGS = ("global", "restart", "strided")


@dataclass(frozen=True, eq=False, repr=False)
class MultiAxisRoPE(Rotary):
    """Rotary position embedding in which every channel pair follows one of several axes.

    Formula
        Pair j is turned by the angle ``sign * (p[axis_j] + offset) * theta_j`` and multiplied by
        the scaling's factor m.  ``theta_j = position_scale * base ** -e_j``; ``spacing`` defines
        the exponent e_j.
    Source
        M-RoPE: Wang et al. 2024, *Qwen2-VL*, arXiv:2409.12191, section 2.1 and the Hugging Face
        code of Qwen2-VL (chunked), Qwen3-VL (interleaved), Ernie 4.5 VL (axis per pair).
        Axial: Qwen2-VL vision, Llama 4 vision, DINOv3, SAM 2, FLUX (``restart``); Pixtral
        (``strided``); Gemma 4 vision (``blockwise``).
    Error unit (see :mod:`posenc_ref.accuracy`)
        A as in :class:`RoPE`, B = ``|(p[axis_j] + offset) theta_j| m hypot(x1, x2)``.

    Parameters
    ----------
    head_dim : int
        Size of x's last axis.
    sections : sequence of int
        The number of channel *pairs* of each axis, in the order of the axes of ``positions``.
        Channels outside all pairs pass through.
    layout : {"interleaved", "half", "blockwise"}
        Which channels form pair j: (2j, 2j+1), (j, j + P) with P the number of pairs, or half-split
        inside the block of channels of each axis (chunked only).
    arrangement : {"chunked", "interleaved"} or sequence of int
        The axis of each pair. "chunked": the pairs of an axis form a block. "interleaved": with A
        axes, axis a > 0 takes pairs a, a + A, a + 2A, ... up to its number of pairs, and axis 0 the
        rest. A sequence states the axis of every pair.
    spacing : {"global", "restart", "strided"}
        The exponent of pair j, which is pair i = 0, 1, ... of axis a. "global": j/P. "restart":
        i/n with n the number of pairs of the axis, so every axis starts at the highest frequency.
        "strided": (A i + a)/P.
    base : float or sequence of float
        One number for all axes, or one for each (not with ``spacing="global"``).
    scaling : FrequencySchedule, optional
        Changes the frequencies; with ``spacing="restart"``, those of each axis separately.
    scaled_axes : sequence of int, optional
        The axes whose frequencies ``scaling`` changes, by default all; needs ``spacing="restart"``
        and a scaling with m = 1, and is None without a scaling.  (0,) for :class:`RIFLEx`, which
        changes the time axis alone.
    rotary_start, output_layout, sign
        As in :class:`RoPE`.
    offset : float
        Added to positions: 1 for Llama 4 vision.
    position_scale : float or sequence of float
        Multiplies positions, one number for all axes or one for each: 2 pi for DINOv3.
    """

    head_dim: int
    _: KW_ONLY
    sections: tuple[int, ...]
    layout: str
    arrangement: str | tuple[int, ...] = "chunked"
    spacing: str = "global"
    base: float | tuple[float, ...] = 10000.0
    scaling: FrequencySchedule | None = None
    scaled_axes: tuple[int, ...] | None = None
    rotary_start: int = 0
    output_layout: str | None = None
    offset: float = 0.0
    position_scale: float | tuple[float, ...] = 1.0
    sign: int = 1

    def __post_init__(self) -> None:
        head_dim = validate.size("head_dim", self.head_dim, minimum=2)
        sections = _integers("sections", self.sections, minimum=1)
        if len(sections) < 2:
            raise ValueError(
                f"sections must have a number for each of at least two axes, got {sections}; "
                "use RoPE for one axis"
            )
        if 2 * sum(sections) > head_dim:
            raise ValueError(
                f"sections must add up to at most head_dim / 2 = {head_dim // 2} pairs, got "
                f"{sections}, which add up to {sum(sections)}"
            )
        layouts = (*LAYOUTS, "blockwise")
        layout, out = self.layout, self.output_layout
        layout = validate.choice("layout", layout, layouts, LAYOUT_ALIASES)
        if out is not None:
            out = validate.choice("output_layout", out, layouts, LAYOUT_ALIASES)
        self._set(
            head_dim=head_dim,
            sections=sections,
            layout=layout,
            arrangement=_arrangement(self.arrangement, sections),
            spacing=validate.choice("spacing", self.spacing, SPACINGS),
            base=_per_axis("base", self.base, len(sections), above=1.0),
            scaling=check_scaling(self.scaling),
            scaled_axes=_scaled(self.scaled_axes, len(sections)),
            rotary_start=check_start(self.rotary_start, 2 * sum(sections), head_dim),
            output_layout=None if out == layout else out,
            offset=validate.real("offset", self.offset),
            position_scale=_per_axis("position_scale", self.position_scale, len(sections)),
            sign=validate.choice("sign", self.sign, (1, -1)),
        )
        self._consistent()
        self.frequencies()  # raises if the schedule does not fit

    def _consistent(self) -> None:
        if "blockwise" in (self.layout, self.output_layout) and self.arrangement != "chunked":
            raise ValueError(
                f"layout 'blockwise' needs arrangement 'chunked', got {shown(self.arrangement)}"
            )
        if self.spacing != "restart" and isinstance(self.base, tuple):
            raise ValueError(
                f"base must be one number unless spacing is 'restart', got {self.base}"
            )
        if self.spacing == "strided" and len(set(self.sections)) > 1:
            raise ValueError(f"spacing 'strided' needs equal sections, got {self.sections}")

        if self.scaling is None:
            self._set(scaled_axes=None)
        if self.scaled_axes is None:
            return
        if self.spacing != "restart":
            raise ValueError(
                f"scaled_axes needs spacing 'restart', where axes have frequencies of their own, "
                f"got {self.spacing!r}"
            )
        if self.depends_on_length or self.attention_factor() != 1.0:
            raise ValueError(
                "scaled_axes needs a scaling that does not depend on the length and has m = 1, got "
                f"{self.scaling!r}"
            )

    @property
    def rotary_dim(self) -> int:
        """The number of rotated channels."""
        return 2 * sum(self.sections)

    def axes(self) -> np.ndarray:
        """Return the axis of every pair, by the ``arrangement``."""
        count, pairs = len(self.sections), sum(self.sections)
        if self.arrangement == "chunked":
            return np.repeat(np.arange(count), self.sections)
        if self.arrangement == "interleaved":
            axes = np.zeros(pairs, dtype=int)
            for a in range(1, count):
                axes[a : count * self.sections[a] : count] = a
            return axes
        return np.array(self.arrangement, dtype=int)

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels of every pair, by the ``layout``, from ``rotary_start`` on."""
        return self._channels(self.layout)

    def output_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels of every pair in the output, by ``output_layout`` if one is given."""
        return self._channels(self.output_layout or self.layout)

    def _channels(self, layout: str) -> tuple[np.ndarray, np.ndarray]:
        if layout != "blockwise":
            return layout_pairs(layout, sum(self.sections), self.rotary_start)
        starts = self.rotary_start + 2 * np.cumsum([0, *self.sections[:-1]])
        blocks = [
            layout_pairs("half", n, int(s)) for n, s in zip(self.sections, starts, strict=True)
        ]
        return np.concatenate([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks])

    def decimal_frequencies(self, seq_len: int | None = None) -> tuple[Decimal, ...]:
        """Return the frequencies ``position_scale * base ** -e_j``, after ``scaling`` if any."""
        count, axes = len(self.sections), self.axes()
        # The index of every pair among the pairs of its axis.
        own = [int(np.sum(axes[:j] == a)) for j, a in enumerate(axes)]
        if self.spacing == "restart":
            chosen_axes = range(count) if self.scaled_axes is None else self.scaled_axes
            tables = [
                self._schedule(b, 2 * n, seq_len)
                if a in chosen_axes
                else standard_schedule(b, 2 * n)
                for a, (b, n) in enumerate(zip(_each(self.base, count), self.sections, strict=True))
            ]
            chosen = [tables[a][i] for a, i in zip(axes, own, strict=True)]
        else:
            assert isinstance(self.base, float)
            table = self._schedule(self.base, self.rotary_dim, seq_len)
            index = list(range(len(own)))
            if self.spacing == "strided":
                index = [count * i + int(a) for a, i in zip(axes, own, strict=True)]
            chosen = [table[j] for j in index]
        scales = _each(self.position_scale, count)
        with decimal_context():
            return tuple(w * Decimal(scales[a]) for w, a in zip(chosen, axes, strict=True))

    def _schedule(self, base: float, dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        if self.scaling is None:
            return standard_schedule(base, dim)
        return self.scaling.schedule(base, dim, validate.length_of(seq_len))

    def attention_factor(self, seq_len: int | None = None) -> float:
        """Return the factor m on cos and sin: that of the scaling, or 1."""
        return 1.0 if self.scaling is None else self.scaling.magnitude(validate.length_of(seq_len))

    @property
    def depends_on_length(self) -> bool:
        """Whether the scaling makes the frequencies depend on the length."""
        return self.scaling is not None and self.scaling.depends_on_length


def _is_sequence(value: Any) -> bool:
    array = isinstance(value, np.ndarray) and value.ndim > 0
    return array or (isinstance(value, Sequence) and not isinstance(value, str))


def _integers(name: str, values: Any, *, minimum: int) -> tuple[int, ...]:
    if not _is_sequence(values):
        raise TypeError(f"{name} must be a sequence of integers, got {shown(values)}")
    return tuple(validate.integer(f"{name}[{i}]", v, minimum=minimum) for i, v in enumerate(values))


def _scaled(value: Any, count: int) -> tuple[int, ...] | None:
    """Return the axes that a scaling changes, in order; None for all of them."""
    if value is None:
        return None
    axes = _integers("scaled_axes", value, minimum=0)
    if not axes or len(set(axes)) < len(axes) or max(axes) >= count:
        raise ValueError(
            f"scaled_axes must name some of the axes 0 .. {count - 1}, each once, got {axes}"
        )
    return None if len(axes) == count else tuple(sorted(axes))


def _per_axis(name: str, value: Any, count: int, above: float = 0.0) -> float | tuple[float, ...]:
    """Return ``value`` as a float if it is equal for all axes, else as a tuple by axis."""
    if not _is_sequence(value):
        return validate.real(name, value, above=above)
    if len(value) != count:
        raise ValueError(
            f"{name} must be one number, or a sequence of {count} numbers, one for each axis; got "
            f"{len(value)} numbers"
        )
    each = tuple(validate.real(f"{name}[{i}]", v, above=above) for i, v in enumerate(value))
    return each[0] if len(set(each)) == 1 else each


def _each(value: float | tuple[float, ...], count: int) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,) * count


def _arrangement(value: Any, sections: tuple[int, ...]) -> str | tuple[int, ...]:
    count, pairs = len(sections), sum(sections)
    if isinstance(value, str):
        chosen = str(validate.choice("arrangement", value, ARRANGEMENTS))
        for a, n in enumerate(sections):
            if chosen == "interleaved" and a and a + count * (n - 1) >= pairs:
                raise ValueError(
                    f"arrangement 'interleaved' has no room for {n} pairs of axis {a}: the axis "
                    f"takes pairs {a}, {a + count}, {a + 2 * count}, ... below {pairs}"
                )
        return chosen
    axes = _integers("arrangement", value, minimum=0)
    counted = tuple(axes.count(a) for a in range(count))
    if counted != sections or len(axes) != pairs:
        raise ValueError(
            f"arrangement must name the axis of each of the {pairs} pairs, and sections states "
            f"that the axes have {sections} pairs; got {len(axes)} entries, in which they have "
            f"{counted}"
        )
    return axes
