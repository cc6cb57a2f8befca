"""Rotary position embedding (RoPE): one position axis, any slice of the head, both layouts."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from . import _validate as validate
from ._text import shown
from .rotary import Rotary
from .schedules.scaling import FrequencySchedule, standard_schedule

LAYOUTS = ("interleaved", "half")
LAYOUT_ALIASES = {
    "neox": "half", "gpt-neox": "half", "gpt_neox": "half", "llama": "half", "hf": "half",
    "rotate_half": "half", "split": "half", "half-split": "half", "half_split": "half",
    "gptj": "interleaved", "gpt-j": "interleaved", "gpt_j": "interleaved", "meta": "interleaved",
    "complex": "interleaved", "traditional": "interleaved", "adjacent": "interleaved",
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class RoPE(Rotary):
    """Rotary position embedding.

    Formula
        ``theta_k = base ** (-2k/d)``, k = 0 .. d/2-1, with d = rotary_dim;
        pair k of x is turned by the angle ``sign * p * theta_k`` and multiplied by the scaling's
        factor m.
    Source
        Su et al. 2021, *RoFormer*, arXiv:2104.09864, equations (14), (15) and (34).
        Half-split pairs: GPT-NeoX and the Hugging Face Llama code.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``m (|x1 cos| + |x2 sin|)`` in the first channel of a pair (x1, x2) and
        ``m (|x2 cos| + |x1 sin|)`` in the second, B = ``|p theta_k| m hypot(x1, x2)`` in both.
        Channels that pass through have A = B = 0.

    Parameters
    ----------
    head_dim : int
        Size of x's last axis.
    layout : {"interleaved", "half"}
        Which channels form pair k: (2k, 2k+1) as in the paper, GPT-J and Meta's Llama, or
        (k, k + d/2) as in GPT-NeoX and Hugging Face's Llama.  There is no default, because a wrong
        layout is the most common bug.
    base : float
        Often called theta or rope_theta; greater than 1.
    rotary_dim : int, optional
        The number of rotated channels, even. None: all; fewer than all is partial rotary.
    rotary_start : int
        The first rotated channel: 0 for the leading slice of partial rotary,
        ``head_dim - rotary_dim`` for the trailing one of latent attention (DeepSeek).
    output_layout : {"interleaved", "half"}, optional
        The layout of the result, if it differs from that of x: Hugging Face's DeepSeek-V3 reads
        interleaved pairs and writes half-split ones, which changes no logit. None: as ``layout``.
    scaling : FrequencySchedule, optional
        A frequency schedule for long contexts, such as ``YaRN(...)`` or ``Llama3Scaling(...)``.
    sign : {1, -1}
        -1 rotates in the opposite direction, which reverses the sign of the relative position in
        the logits.
    """

    head_dim: int
    _: KW_ONLY
    layout: str
    base: float = 10000.0
    rotary_dim: int | None = None
    rotary_start: int = 0
    output_layout: str | None = None
    scaling: FrequencySchedule | None = None
    sign: int = 1

    def __post_init__(self) -> None:
        head_dim = validate.size("head_dim", self.head_dim, minimum=1)
        d = head_dim if self.rotary_dim is None else self.rotary_dim
        name = "head_dim" if self.rotary_dim is None else "rotary_dim"
        d = validate.size(name, d, minimum=2)
        if d % 2:
            raise ValueError(f"{name} must be even (channels are rotated in pairs), got {d}")
        if d > head_dim:
            raise ValueError(f"rotary_dim must be at most head_dim = {head_dim}, got {d}")
        layout = validate.choice("layout", self.layout, LAYOUTS, LAYOUT_ALIASES)
        out = self.output_layout
        if out is not None:
            out = validate.choice("output_layout", out, LAYOUTS, LAYOUT_ALIASES)
        self._set(
            head_dim=head_dim,
            layout=layout,
            base=validate.real("base", self.base, above=1.0),
            rotary_dim=d,
            rotary_start=check_start(self.rotary_start, d, head_dim),
            output_layout=None if out == layout else out,
            scaling=check_scaling(self.scaling),
            sign=validate.choice("sign", self.sign, (1, -1)),
        )
        self.frequencies()  # raises if the schedule does not fit

    def _implied(self) -> tuple[str, ...]:
        return ("rotary_dim",) if self.rotary_dim == self.head_dim else ()

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels of every pair, by ``layout``, from ``rotary_start`` on."""
        return self._channels(self.layout)

    def output_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels of every pair in the output, by ``output_layout`` if one is given."""
        return self._channels(self.output_layout or self.layout)

    def _channels(self, layout: str) -> tuple[np.ndarray, np.ndarray]:
        assert self.rotary_dim is not None
        return layout_pairs(layout, self.rotary_dim // 2, self.rotary_start)

    def decimal_frequencies(self, seq_len: int | None = None) -> tuple[Decimal, ...]:
        """Return the frequencies ``base ** (-2k / rotary_dim)``, changed by ``scaling`` if any."""
        assert self.rotary_dim is not None
        if self.scaling is None:
            return standard_schedule(self.base, self.rotary_dim)
        return self.scaling.schedule(self.base, self.rotary_dim, validate.length_of(seq_len))

    def attention_factor(self, seq_len: int | None = None) -> float:
        """Return the factor m on cos and sin: that of the scaling, or 1."""
        return 1.0 if self.scaling is None else self.scaling.magnitude(validate.length_of(seq_len))

    @property
    def depends_on_length(self) -> bool:
        """Whether the scaling makes the frequencies depend on the length."""
        return self.scaling is not None and self.scaling.depends_on_length


def layout_pairs(layout: str, pairs: int, start: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the channels of ``pairs`` pairs: ``start`` plus (2k, 2k+1) or (k, k + pairs)."""
    k = np.arange(pairs)
    if layout == "interleaved":
        return start + 2 * k, start + 2 * k + 1
    return start + k, start + k + pairs


def check_start(start: Any, rotary_dim: int, head_dim: int) -> int:
    """Return ``rotary_start``; raise if the rotated slice does not fit into the head."""
    first = validate.integer("rotary_start", start, minimum=0)
    if first + rotary_dim > head_dim:
        raise ValueError(
            f"rotary_start must be at most head_dim - rotary_dim = {head_dim - rotary_dim}, "
            f"got {first}"
        )
    return first


def check_scaling(scaling: Any) -> FrequencySchedule | None:
    """Return ``scaling``; raise unless it is a schedule or None."""
    if scaling is not None and not isinstance(scaling, FrequencySchedule):
        raise TypeError(
            f"scaling must be None or a schedule such as LinearScaling(4.0), got {shown(scaling)}"
        )
    return scaling
