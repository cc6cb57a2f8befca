"""What a configuration says its rotary module should be: the one place that asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import posenc_ref
from posenc_ref import Encoding

from .implementation import Implementation
from .subject import Malformed, Refused, Subject


class Undeclared(Exception):
    """The configuration cannot be expressed (our gap); the message says why."""


def declared(
    implementation: Implementation, container: Any, config: Any, layer_type: str
) -> Encoding:
    """The encoding that ``config`` declares, as the module's functions see it.

    Raises :class:`Undeclared` where it cannot be expressed.
    """
    read = getattr(posenc_ref, "from_config", None)
    if read is not None:
        return _slice(_from_config(read, config, layer_type), implementation.head_dim)
    if implementation.axes > 1:
        raise Undeclared("several axes, pending")
    from .adapters import from_transformers

    try:
        layout = measured_layout(implementation)
    except (Refused, Malformed) as error:
        raise Undeclared(f"the pairs could not be measured: {error}") from error
    if not layout:
        raise Undeclared("pairs are neither interleaved nor half-split")
    said = from_transformers(container, layout=layout, layer_type=layer_type or None).encoding
    if said is None:
        raise Undeclared("the adapter cannot read this configuration")
    return said


def _from_config(read: Callable[..., Any], config: Any, layer_type: str) -> Encoding:
    try:
        model = read(config.to_dict())
        found: Encoding | None = model.encodings[layer_type] if layer_type else model.only
    except Exception as error:  # whatever it is, it is ours
        raise Undeclared(f"from_config: {type(error).__name__}: {error}") from error
    if found is None:
        raise Undeclared(f"from_config: layers of type {layer_type or 'any'} have no encoding")
    return found


def _slice(encoding: Encoding, head_dim: int | None) -> Encoding:
    """The rotary part alone, where functions see only the slice that latent attention rotates."""
    rotary_dim = getattr(encoding, "rotary_dim", None)
    whole = getattr(encoding, "head_dim", None)
    if head_dim is None or head_dim == whole or head_dim != rotary_dim:
        return encoding
    changes: dict[str, Any] = {"head_dim": head_dim, "rotary_start": 0}
    if isinstance(encoding, posenc_ref.RoPE):
        changes["rotary_dim"] = None
    return encoding.replace(**changes)


def measured_layout(implementation: Implementation) -> str:
    """How channels are paired, measured with one-hot inputs; an empty string for other pairs."""
    from .access import Access
    from .measure import measure
    from .report import Report
    from .run import Run

    assert implementation.head_dim is not None
    subject = Subject(
        implementation,
        implementation.backend,
        tensor_layout=implementation.tensor_layout,
        keeps_dtype=True,
    )
    run = Run(subject, None, Report("", "apply", "", implementation.backend, "float32"))
    access = Access(run, dim=implementation.head_dim)
    subject.apply(np.zeros((2, 3, 5, implementation.head_dim)), np.arange(5))
    access.learn()
    return measure(access, "float32").layout()
