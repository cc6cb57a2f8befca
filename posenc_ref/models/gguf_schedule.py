"""Frequency schedules from the metadata and tensors of a GGUF file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Protocol

import numpy as np

from posenc_ref import _validate as validate
from posenc_ref.angles import decimal_context
from posenc_ref.limits import HEAD_DIM
from posenc_ref.schedules.given import GivenFrequencies
from posenc_ref.schedules.linear import LinearScaling
from posenc_ref.schedules.longrope import LongRoPE
from posenc_ref.schedules.scaling import FrequencySchedule, standard_schedule
from posenc_ref.schedules.yarn import YaRN

#: The known keys of {architecture}.rope; some do not affect the encoding.
KEYS = (
    "rope.dimension_count", "rope.dimension_count_swa", "rope.dimension_sections", "rope.freq_base",
    "rope.freq_base_swa", "rope.scale_linear", "rope.scaling.type", "rope.scaling.factor",
    "rope.scaling.alpha", "rope.scaling.attn_factor", "rope.scaling.original_context_length",
    "rope.scaling.finetuned", "rope.scaling.yarn_log_multiplier", "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
)  # fmt: skip
TYPES = ("none", "linear", "yarn", "longrope")
FREQS = "rope_freqs.weight"
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"


class Reader(Protocol):
    """The methods of ``Metadata`` that this module uses."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default."""

    def integer(self, key: str, default: int | None = None) -> int:
        """Return the integer value of a key."""

    def wrong(self, message: str) -> ValueError:
        """Return an error that names the architecture of this file."""


def gguf_schedule(
    meta: Reader, facts: Mapping[str, Any], tensors: Mapping[str, Any], base: float, rotary_dim: int
) -> FrequencySchedule | None:
    """Return the frequency schedule of a GGUF file, or None for plain RoPE.

    Source
        llama.cpp: ``load_hparams`` in llama-model.cpp (the type defaults to linear, the factor to
        1) and ``rope_yarn`` in ggml, where YaRN multiplies cos and sin by
        ``m = attn_factor * (1 + 0.1 ln factor)``.  In deepseek2 m is 1, because the softmax scale
        contains the factor instead.
    """
    kind = meta.get("rope.scaling.type", "linear")
    if kind not in TYPES:
        raise meta.wrong(f"rope.scaling.type must be one of {', '.join(TYPES)}, got {kind!r}")
    if meta.get("rope.scaling.alpha"):
        raise meta.wrong(
            f"rope.scaling.alpha must be absent or 0, got {meta.get('rope.scaling.alpha')!r}: "
            "remove it. If rope.freq_base is the base without alpha, replace it by "
            "freq_base * alpha ** (d / (d - 2))"
        )
    factor = float(meta.get("rope.scaling.factor", meta.get("rope.scale_linear", 0.0)) or 1.0)
    if factor <= 0:
        raise meta.wrong(f"rope.scaling.factor must be positive, got {factor!r}")
    attention = float(meta.get("rope.scaling.attn_factor", 1.0))
    if LONG in tensors or SHORT in tensors or kind == "longrope":
        return _longrope(meta, tensors, attention)
    if kind == "yarn" and float(meta.get("rope.scaling.yarn_ext_factor", 1.0)) != 0.0:
        return _yarn(meta, facts, factor, attention)
    if FREQS in tensors:
        return _divided(meta, tensors[FREQS], base, rotary_dim, 1.0 if kind == "none" else factor)
    if kind == "none" or factor == 1.0:
        return None
    return LinearScaling(factor)


def _yarn(
    meta: Reader, facts: Mapping[str, Any], factor: float, attention: float
) -> FrequencySchedule:
    extrapolation = float(meta.get("rope.scaling.yarn_ext_factor", 1.0))
    if extrapolation != 1.0:
        raise meta.wrong(f"rope.scaling.yarn_ext_factor must be 0 or 1, got {extrapolation!r}")
    attention *= float(meta.get("rope.scaling.yarn_attn_factor", 1.0))
    m = 1.0 if facts.get("latent") else attention * (1.0 + 0.1 * math.log(max(factor, 1.0)))
    context = meta.get("context_length")
    return YaRN(
        validate.real("rope.scaling.factor", factor, minimum=1.0),
        meta.integer("rope.scaling.original_context_length", context),
        beta_fast=float(meta.get("rope.scaling.yarn_beta_fast", 32.0)),
        beta_slow=float(meta.get("rope.scaling.yarn_beta_slow", 1.0)),
        truncate=facts.get("truncate", True),
        attention_factor=m,
    )


def _longrope(meta: Reader, tensors: Mapping[str, Any], attention: float) -> FrequencySchedule:
    for name in (LONG, SHORT):
        if name not in tensors:
            raise meta.wrong(
                f"tensors must contain {name!r}, the divisors of LongRoPE; it is missing"
            )
    return LongRoPE(
        _divisors(meta, SHORT, tensors[SHORT]),
        _divisors(meta, LONG, tensors[LONG]),
        meta.integer("rope.scaling.original_context_length", meta.get("context_length")),
        attention_factor=attention,
    )


def _divisors(meta: Reader, name: str, tensor: Any) -> list[float]:
    """Return the numbers of a tensor; raise unless they are finite and positive."""
    found = np.ravel(np.asarray(tensor))
    if found.dtype.kind not in "fiu":
        raise meta.wrong(f"the tensor {name!r} must hold numbers, got {found.dtype}")
    if found.size > HEAD_DIM or not (np.isfinite(found) & (found > 0)).all():
        raise meta.wrong(
            f"the tensor {name!r} must have at most {HEAD_DIM} finite and positive numbers"
        )
    return [float(n) for n in found]


def _divided(
    meta: Reader, divisors: Any, base: float, rotary_dim: int, factor: float
) -> FrequencySchedule:
    """Return plain RoPE's frequencies divided by a tensor, correctly rounded to float64."""
    numbers = _divisors(meta, FREQS, divisors)
    if len(numbers) != rotary_dim // 2:
        raise meta.wrong(
            f"the tensor {FREQS!r} must have one divisor for each of the {rotary_dim // 2} "
            f"rotated pairs, got {len(numbers)}"
        )
    plain = standard_schedule(base, rotary_dim)
    with decimal_context():
        divided = [w / Decimal(n) / Decimal(factor) for w, n in zip(plain, numbers, strict=True)]
    return GivenFrequencies([float(w) for w in divided])
