"""RoPE-Mixed: rotary encodings in which each pair depends on all position axes, in each head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import real_numbers
from ._cached import cached_property
from ._namespace import Array, namespace
from .angles import TWO_PI, check_domain, decimal_context, tables, turns
from .rope import LAYOUT_ALIASES, LAYOUTS, check_start, layout_pairs
from .rotary import Rotary


@dataclass(frozen=True, eq=False, repr=False)
class MixedRoPE(Rotary):
    """Rotary position embedding with a learned frequency for every pair on every axis.

    Formula
        Pair j is rotated by the angle ``sum over axes a of p[a] * weight[a, j]``; with a weight for
        each head h, by ``sum over axes a of p[a] * weight[h, a, j]``.
    Source
        Heo et al. 2024, *Rotary Position Embedding for Vision Transformer*, arXiv:2403.13298,
        RoPE-Mixed.  LightGlue learns its angles the same way, as a linear map of coordinates.
        Mochi 1 (``pos_frequencies`` (3, heads, pairs) in diffusers' ``MochiRoPE``) learns them for
        every head.  LTX-Video and LTX-2: :meth:`fractional`.
    Traps
        Mochi's parameter has the axes (A, H, P); ``weight`` here has (H, A, P).  Its positions are
        frames and the centres of patches, scaled to one area and counted from the middle of the
        picture: they are fractions, and may be negative.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A as in :class:`RoPE`; B = ``hypot(x1, x2) * sum over axes a of |p[a] weight[a, j]|`` for
        the channels x1 and x2 of pair j.

    With ``weight`` (A, P) an instance describes one head, or heads that share their frequencies.
    With ``weight`` (H, A, P), x must be (..., H, S, head_dim), and ``head(h)`` is the encoding of
    one head.

    Parameters
    ----------
    head_dim : int
        Size of x's last axis.
    weight : array (A, P) or (H, A, P)
        Radians per position, finite, 2 P <= head_dim.  Kept as a copy in float64.
    layout : {"interleaved", "half"}
        Which channels form pair j; there is no default.
    rotary_start : int
        The first rotated channel.
    """

    head_dim: int
    weight: np.ndarray
    _: KW_ONLY
    layout: str
    rotary_start: int = 0

    sign = 1

    def __post_init__(self) -> None:
        head_dim = validate.size("head_dim", self.head_dim, minimum=2)
        weight = real_numbers("weight", self.weight, "(A, P) or (H, A, P)")
        if weight.ndim not in (2, 3) or 0 in weight.shape or 2 * weight.shape[-1] > head_dim:
            raise ValueError(
                "weight must have shape (A, P) or (H, A, P) with 1 <= P <= head_dim / 2 = "
                f"{head_dim // 2}, got {weight.shape}"
            )
        if not np.isfinite(weight).all():
            raise ValueError("weight must be finite")
        check_domain("weight", float(np.abs(weight).max()))
        weight.setflags(write=False)
        self._set(
            head_dim=head_dim,
            weight=weight,
            layout=validate.choice("layout", self.layout, LAYOUTS, LAYOUT_ALIASES),
            rotary_start=check_start(self.rotary_start, 2 * weight.shape[-1], head_dim),
        )

    @classmethod
    def fractional(
        cls, dim: int, *, axes: int = 3, num_heads: int | None = None, base: float = 10000.0
    ) -> MixedRoPE:
        """Return the rotation of LTX-Video and LTX-2, by positions in fractions of a video.

        Formula
            Pair ``A i + a`` of n A pairs follows axis a, by
            ``weight = pi / 2 * base ** (i / (n - 1))`` radians, i = 0 .. n - 1, with
            ``n = dim // (2 A)``; n = 1 has the exponent 0.  The other channels of ``dim`` do not
            turn.  The position on an axis is ``2 c - 1``, from -1 to 1, with ``c = p / extent`` for
            a coordinate p; the extents of LTX are 20 seconds and 2048 by 2048 pixels.
        Source
            LTX-Video, arXiv:2501.00103, section 2.2; diffusers, ``LTXVideoRotaryPosEmbed`` and
            ``LTX2AudioVideoRotaryPosEmbed``.
        Traps
            Frequencies ascend, and the channels that do not turn come first.  Vectors of all heads
            are rotated before they are split into heads, so heads differ.

        Parameters
        ----------
        dim : int
            The channels of all heads, even.
        axes : int
            A: 3 for videos, 1 for sound.
        num_heads : int, optional
            None: vectors of ``dim`` channels with interleaved pairs (LTX-Video, and LTX-2 with
            ``rope_type="interleaved"``).  A number: vectors (..., H, S, dim/H) with half-split
            pairs inside each head (LTX-2 with ``rope_type="split"``); pairs that do not turn
            are those of the first heads.
        base : float
            The ratio of the last frequency to the first.

        Examples
        --------
        >>> MixedRoPE.fractional(2048)
        MixedRoPE(2048, weight=<float64 (3, 1023)>, layout='interleaved', rotary_start=2)
        """
        dim = validate.size("dim", dim, minimum=2)
        axes = validate.integer("axes", axes, minimum=1)
        base = validate.real("base", base, above=1.0)
        n = dim // (2 * axes)
        if dim % 2 or n < 1:
            raise ValueError(f"dim must be even and at least 2 axes = {2 * axes}, got {dim}")
        with decimal_context():
            steps = [Decimal(i) / max(n - 1, 1) for i in range(n)]
            rising = [float(TWO_PI / 4 * Decimal(base) ** step) for step in steps]
        weight = np.zeros((axes, n * axes))
        for a in range(axes):
            weight[a, a::axes] = rising
        if num_heads is None:
            return cls(dim, weight, layout="interleaved", rotary_start=dim - 2 * n * axes)
        heads = validate.size("num_heads", num_heads, minimum=1)
        if dim % (2 * heads):
            raise ValueError(
                f"num_heads must divide dim / 2 = {dim // 2}, the number of pairs, got {heads}"
            )
        whole = np.concatenate([np.zeros((axes, dim // 2 - n * axes)), weight], axis=1)
        each = whole.reshape(axes, heads, -1).swapaxes(0, 1)
        return cls(dim // heads, each, layout="half")

    @property
    def num_axes(self) -> int:
        """The number A of position axes."""
        return int(self.weight.shape[-2])

    @property
    def heads(self) -> int | None:
        """The number H of heads with frequencies of their own; None if all heads share them."""
        return int(self.weight.shape[0]) if self.weight.ndim == 3 else None

    def head(self, index: int) -> MixedRoPE:
        """Return the encoding of head ``index``, whose weight is (A, P)."""
        if self.heads is None:
            return self
        at = validate.integer("index", index, minimum=0)
        if at >= self.heads:
            raise ValueError(f"index must be below the number of heads, {self.heads}, got {at}")
        return self._each[at]

    @cached_property
    def _each(self) -> tuple[MixedRoPE, ...]:
        return tuple(self.replace(weight=weight) for weight in self.weight)

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels of each pair j: ``rotary_start`` plus (2j, 2j+1), or (j, j + P)."""
        return layout_pairs(self.layout, self.weight.shape[-1], self.rotary_start)

    def decimal_frequencies(self, seq_len: int | None = None) -> tuple[Decimal, ...]:
        """Return the sum over the axes of the frequencies of every pair.

        This is the frequency of the pair at positions (p, p, ...), equal on all axes.
        """
        if self.heads is not None:
            raise ValueError(
                f"frequencies differ between the {self.heads} heads: ask head(h) for those of one"
            )
        with decimal_context():
            columns = self.weight.T.tolist()
            return tuple(sum(map(Decimal, column), Decimal(0)) for column in columns)

    def _fastest(self) -> float:
        """Return the largest |weight|: the frequencies of two axes may cancel in their sum."""
        return float(np.abs(self.weight).max())

    def cos_sin(self, positions: Any, **where: Any) -> tuple[Array, Array]:
        """Return cos and sin (..., S, P), or (..., H, S, P) if heads have their own frequencies.

        The arguments are those of :meth:`Rotary.cos_sin`.
        """
        if self.heads is None:
            return super().cos_sin(positions, **where)
        return _stacked([one.cos_sin(positions, **where) for one in self._each])

    def matrix(self, position: Any, *, seq_len: int | None = None) -> np.ndarray:
        """Return R (head_dim, head_dim), or (H, head_dim, head_dim), as :meth:`Rotary.matrix`."""
        if self.heads is None:
            return super().matrix(position, seq_len=seq_len)
        return np.stack([one.matrix(position, seq_len=seq_len) for one in self._each])

    def _tables_for(
        self, x: Array, positions: Any, seq_len: int | None, offset: float | None = None
    ) -> tuple[Array, Array, float]:
        if self.heads is None:
            return super()._tables_for(x, positions, seq_len, offset)
        validate.check_x(x, self.head_dim, "head_dim")
        if x.ndim < 3 or x.shape[-3] != self.heads:
            raise ValueError(
                f"x must have shape (..., H, S, {self.head_dim}) with H = {self.heads}, the heads "
                f"of weight, got {tuple(x.shape)}"
            )
        found = [
            one._tables_for(x[..., h, :, :], positions, seq_len, offset)
            for h, one in enumerate(self._each)
        ]
        return (*_stacked([(cos, sin) for cos, sin, _ in found]), 1.0)

    def _tables(
        self, positions: Array, seq_len: int | None, offset: float, **where: Any
    ) -> tuple[Array, Array]:
        """Return cos and sin of the angle summed over all axes, by the addition theorem."""
        rows = (
            [positions] if self.num_axes == 1 else [positions[a, ...] for a in range(self.num_axes)]
        )
        cos: Array = None
        sin: Array = None
        for at, weights in zip(rows, self.weight.tolist(), strict=True):
            c, s = tables(at, turns(tuple(map(Decimal, weights))), offset=offset, **where)
            cos, sin = (c, s) if cos is None else (cos * c - sin * s, sin * c + cos * s)
        return cos, sin


def _stacked(each: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the cosines and the sines of all heads, with the head axis before that of tokens."""
    cos, sin = zip(*each, strict=True)
    xp = namespace(cos[0])
    return xp.stack(cos, axis=-3), xp.stack(sin, axis=-3)
