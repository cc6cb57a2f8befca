"""Query scales: factors on the queries that grow with the position, apart from any rotation.

Softmax over more keys is flatter; these factors compensate by larger logits for late queries. The
factor multiplies the query alone, after rotation and normalisation, so a logit contains it once. (A
logit contains the square of an attention factor, which multiplies queries and keys.)
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from posenc_ref import _validate as validate
from posenc_ref._namespace import (
    FLOATING,
    Array,
    DType,
    astype,
    class_of,
    device_of,
    dtype_name,
    finish,
    is_array,
    is_lazy,
    namespace,
    send,
    widen,
)
from posenc_ref._positions import Positions, as_positions, broadcast_axes
from posenc_ref.encoding import Value
from posenc_ref.limits import POSITION, QUERY_FACTOR


class QueryScale(Value, abstract=True):
    """Base class: a factor for each query position.

    Error unit (see :mod:`posenc_ref.accuracy`)
        A = the factor, B = 0.
    """

    kind = "query_scale"
    first = 0  # the smallest position in the domain

    def _bounded(self, growth: str) -> None:
        """Raise ValueError if the factor, which grows, is too large at the last position."""
        with np.errstate(over="ignore", invalid="ignore"):
            most = float(self._factor(np.asarray([float(POSITION)]))[0])
        if not most <= QUERY_FACTOR:
            raise ValueError(
                f"{growth} must give a factor of at most 2**100 at position 2**40, got {most:g}"
            )

    def _factor(self, p: Array) -> Array:
        """Return the factors of float64 positions; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} defines no factor")

    def factor(self, positions: Any, *, dtype: DType = None) -> Array:
        """Return the factors (...) of positions (...), float64 unless ``dtype=`` is given.

        They have the library and device of ``positions``.

        Raises
        ------
        TypeError
            Positions are not integers or float32/float64 numbers.
        ValueError
            A position is below 0 (QueryTemperature: below ``-offset``).
        """
        p = self._positions(positions)
        return finish(send(self._factor(p.values), p.xp, p.device), dtype)

    def apply(self, q: Array, positions: Any) -> Array:
        """Return ``q * factor(positions)`` for q (..., S, head_dim), in q's dtype.

        positions are (S,), (B, S) with B on q's first axis, or have the axes ``q.shape[:-1]``.
        The product is computed in float64 (float32 if q's device has no float64) and rounded once.
        """
        if not is_array(q) or q.ndim < 2 or dtype_name(q) not in FLOATING:
            raise TypeError(
                f"q must be a real floating array of shape (..., S, head_dim), got "
                f"{f'{dtype_name(q)} {tuple(q.shape)}' if is_array(q) else class_of(q)}"
            )
        p = self._positions(positions, q)
        index = broadcast_axes(p, q)
        wide = widen(q)
        factor = astype(send(self._factor(p.values), namespace(q), device_of(q)), wide.dtype)
        return astype(wide * (factor[index] if index else factor)[..., None], q.dtype)

    def _positions(self, positions: Any, q: Array | None = None) -> Positions:
        p = as_positions(positions, x=q)
        xp = namespace(p.values)
        if is_lazy(p.values):
            values = xp.where(p.values >= self.first, p.values, xp.nan)
            return Positions(values, p.xp, p.device)
        if 0 not in p.shape and float(xp.min(p.values)) < self.first:
            raise ValueError(
                f"positions must be at least {self.first} for {type(self).__name__}, "
                f"got {float(xp.min(p.values)):g}"
            )
        return p


@dataclass(frozen=True, eq=False, repr=False)
class QueryTemperature(QueryScale):
    """Llama 4's temperature: a factor that rises after every ``original_max_position`` positions.

    Formula
        ``1 + beta * ln(1 + floor((p + offset) / original_max_position))``
    Source
        transformers 5.23: ``modeling_llama4.py``, ``Llama4TextAttention.forward`` (``attn_scale``
        0.1, ``floor_scale`` 8192, **offset 1**, and only in the layers without RoPE);
        ``modeling_ministral3.py`` and ``modeling_mistral4.py``, ``get_llama_4_attn_scale``
        (``llama_4_scaling_beta`` 0.1, ``original_max_position_embeddings``, **offset 0**, in every
        layer).  After Nakanishi 2025, arXiv:2501.19399.

    Parameters
    ----------
    beta : float
        At least 0; with 0 the factor is 1 everywhere.
    original_max_position : int
        The length of a step, at least 1.
    offset : int
        Added to the position.  With offset 1 each step begins one position earlier.

    Traps
        Llama 4 in transformers counts positions from the start of the cache, not by
        ``position_ids``: padding on the left and earlier packed documents are counted.  Llama 4
        multiplies by a float32 factor and then casts the product to the query's dtype; Ministral
        casts the factor first.
    """

    beta: float
    original_max_position: int
    _: KW_ONLY
    offset: int = 0

    def __post_init__(self) -> None:
        self._set(
            beta=validate.real("beta", self.beta, minimum=0.0),
            original_max_position=validate.integer(
                "original_max_position", self.original_max_position, minimum=1
            ),
            offset=validate.integer("offset", self.offset),
        )
        self._bounded("beta")

    @property
    def first(self) -> int:  # type: ignore[override]
        """The smallest position in the domain."""
        return -self.offset

    def _factor(self, p: Array) -> Array:
        xp = namespace(p)
        steps = xp.floor((p + self.offset) / self.original_max_position)
        return 1.0 + self.beta * xp.log1p(steps)


@dataclass(frozen=True, eq=False, repr=False)
class LogNScale(QueryScale):
    """Qwen's log-n attention: keeps the attention's entropy constant beyond the trained length.

    Formula
        ``max(1, ln(p + 1) / ln(train_length))``: p + 1 is the number of keys that a causal query
        attends to.
    Source
        Su 2021, kexue.fm/archives/8823 (the idea).  Qwen-7B, ``modeling_qwen.py``,
        ``QWenAttention``: a table for i = p + 1 = 1, 2, ... that holds ``log_L(i)`` if i is greater
        than L = ``seq_length``, else 1.

    Parameters
    ----------
    train_length : int
        ``seq_length`` of the configuration, at least 2.

    Traps
        Qwen's table has 32767 rows. It is used in inference only, and only if ``use_logn_attn`` is
        set.  fastllm takes ``ln(p)``, which is off by one position.
    """

    train_length: int

    def __post_init__(self) -> None:
        self._set(train_length=validate.integer("train_length", self.train_length, minimum=2))

    def _factor(self, p: Array) -> Array:
        xp = namespace(p)
        ratio = xp.log1p(p) / math.log(self.train_length)
        return xp.where(p >= self.train_length, ratio, 1.0 + 0.0 * p)


@dataclass(frozen=True, eq=False, repr=False)
class LogTemperature(QueryScale):
    """Inkling's temperature: like Llama 4's, without steps.

    Formula
        ``1 + beta * ln(max(1, (p + 1) / length))``
    Source
        transformers 5.23: ``modeling_inkling.py`` (the layers without a window) and
        ``modeling_inkling2.py``; ``log_scaling_alpha`` 0.1 and ``log_scaling_n_floor``.  The same
        factor also multiplies the learned relative term of the logits.

    Parameters
    ----------
    beta : float
        At least 0.
    length : int
        At least 1.  The factor is 1 while p + 1 is at most ``length``; for larger p it grows.
    """

    beta: float
    length: int

    def __post_init__(self) -> None:
        self._set(
            beta=validate.real("beta", self.beta, minimum=0.0),
            length=validate.integer("length", self.length, minimum=1),
        )
        self._bounded("beta")

    def _factor(self, p: Array) -> Array:
        xp = namespace(p)
        # Below p + 1 = length the logarithm would be negative.
        grown = xp.where(p + 1.0 > self.length, p + 1.0 - self.length, 0.0 * p)
        return 1.0 + self.beta * xp.log1p(grown / self.length)


@dataclass(frozen=True, eq=False, repr=False)
class PowerTemperature(QueryScale):
    """Beam's scale: a power of the position.

    Formula
        ``(1 + (p + 1) / length) ** exponent``
    Source
        transformers 5.23: ``modeling_beam.py``, ``compute_attention_scaling`` (exponent 0.1, length
        2048), in the layers without RoPE only.  Its docstring says ``1 + position / 2048`` where
        the code has ``position + 1``.

    Parameters
    ----------
    exponent : float
        At least 0.
    length : int
        At least 1.
    """

    exponent: float
    length: int

    def __post_init__(self) -> None:
        self._set(
            exponent=validate.real("exponent", self.exponent, minimum=0.0),
            length=validate.integer("length", self.length, minimum=1),
        )
        self._bounded("exponent")

    def _factor(self, p: Array) -> Array:
        xp = namespace(p)
        return xp.exp(self.exponent * xp.log1p((p + 1.0) / self.length))
