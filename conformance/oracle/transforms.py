"""Encodings derived from the declared one: its adjoint, the shift of keys, a single axis."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np

from posenc_ref import GivenFrequencies, LongRoPE, MixedRoPE, MultiAxisRoPE, RoPE, Rotary, YaRN
from posenc_ref.rope import LAYOUTS


class Derived(Rotary, abstract=True):
    """The encoding ``of`` on a single position axis.

    Its pairs, sign, offset and attention factor may differ from those of ``of``.
    """

    def __init__(self, of: Rotary, *, sign: int = 1, size: bool = True) -> None:
        self.of, self.sign, self.size = of, sign * of.sign, size
        self.head_dim, self.offset = of.head_dim, of.offset
        self.read_from: Callable[[], tuple[np.ndarray, np.ndarray]] = of.pairs
        self.written: Callable[[], tuple[np.ndarray, np.ndarray]] = of.output_pairs

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels from which pairs are read."""
        return self.read_from()

    def output_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels to which pairs are written."""
        return self.written()

    def decimal_frequencies(self, seq_len: int | None = None) -> tuple[Decimal, ...]:
        """Return the frequencies of the declared encoding."""
        return self.of.decimal_frequencies(seq_len)

    def attention_factor(self, seq_len: int | None = None) -> float:
        """Return the attention factor of ``of``, or 1 for an encoding made with ``size=False``."""
        return self.of.attention_factor(seq_len) if self.size else 1.0

    @property
    def depends_on_length(self) -> bool:
        """Return whether the declared frequencies depend on the length."""
        return self.of.depends_on_length

    def __repr__(self) -> str:
        return f"derived from {self.of!r}"


class Leading(Derived, abstract=True):
    """The first pairs of an encoding, with their declared frequencies, in any channels."""

    def __init__(self, of: Rotary, channels: tuple[np.ndarray, np.ndarray]) -> None:
        super().__init__(of)
        self.read_from = self.written = lambda: channels
        self.count = channels[0].size

    def decimal_frequencies(self, seq_len: int | None = None) -> tuple[Decimal, ...]:
        """Return the frequencies of the first pairs."""
        return self.of.decimal_frequencies(seq_len)[: self.count]


class _Several(Derived, abstract=True):
    """An encoding computed from the declared one, with the same position axes."""

    def axes(self) -> np.ndarray | None:
        return self.of.axes()

    @property
    def num_axes(self) -> int:
        return self.of.num_axes

    @property
    def weight(self) -> np.ndarray | None:
        """Return the frequencies of RoPE-Mixed, or None."""
        return getattr(self.of, "weight", None)

    def _tables(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        return self.of._tables(*args, **kwargs)


def alike(encoding: Rotary) -> Rotary:
    """Return ``encoding`` for text tokens, whose position is the same on every axis."""
    if encoding.num_axes == 1:
        return encoding
    if (
        isinstance(encoding, MultiAxisRoPE)
        and encoding.spacing == "global"
        and encoding.layout in LAYOUTS
        and encoding.output_layout in (None, *LAYOUTS)
        and encoding.position_scale == 1.0
        and encoding.offset == 0.0
    ):
        assert isinstance(encoding.base, float)
        return RoPE(
            encoding.head_dim,
            layout=encoding.layout,
            base=encoding.base,
            rotary_dim=encoding.rotary_dim,
            rotary_start=encoding.rotary_start,
            output_layout=encoding.output_layout,
            scaling=encoding.scaling,
            sign=encoding.sign,
        )
    return Derived(encoding)


def adjoint(encoding: Rotary) -> Rotary:
    """Return the encoding that applies the transpose of ``apply``, as gradients need it."""
    if isinstance(encoding, MixedRoPE):  # heads may differ
        return encoding.replace(weight=-encoding.weight)
    if isinstance(encoding, RoPE | MultiAxisRoPE):
        return encoding.replace(
            sign=-encoding.sign,
            layout=encoding.output_layout or encoding.layout,
            output_layout=encoding.layout,
        )
    turned = _Several(encoding, sign=-1)
    turned.read_from, turned.written = encoding.output_pairs, encoding.pairs
    return turned


def shift(encoding: Rotary) -> Rotary:
    """Return ``shift`` as an encoding: ``R(delta)`` on rotated keys, with m = 1 and offset 0."""
    encoding = alike(encoding)
    if isinstance(encoding, RoPE):
        scaling = encoding.scaling
        if isinstance(scaling, YaRN):
            scaling = scaling.replace(attention_factor=1.0, mscale=None, mscale_all_dim=None)
        elif isinstance(scaling, LongRoPE | GivenFrequencies):
            scaling = scaling.replace(attention_factor=1.0)
        return encoding.replace(
            scaling=scaling,
            layout=encoding.output_layout or encoding.layout,
            output_layout=None,
        )
    moved = Derived(encoding, size=False)
    moved.read_from = encoding.output_pairs
    moved.offset = 0.0
    return moved
