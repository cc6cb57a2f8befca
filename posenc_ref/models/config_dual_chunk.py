"""Dual chunk attention from the entry ``dual_chunk_attention_config`` of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc_ref._text import near, shown
from posenc_ref.dual_chunk import DualChunk
from posenc_ref.limits import LENGTH
from posenc_ref.rope import RoPE

from .config_facts import Settings
from .config_fields import count

#: The configuration entry.
KEY = "dual_chunk_attention_config"
_READ = ("chunk_size", "local_size", "original_max_position_embeddings")
#: These choose the keys that a query attends to; they change no logit of the others.
_SPARSE = (
    "sparse_attention_config", "sparse_attention_enabled", "sparse_attention_last_q",
    "sparse_attention_threshold",
)  # fmt: skip


def with_chunks(settings: Settings, rope: RoPE) -> RoPE | DualChunk:
    """Return the encoding of a layer: ``rope``, in dual chunks if the configuration has them.

    Source
        vLLM, rotary_embedding/__init__.py (``get_rope`` reads both sizes, and no frequency scaling
        beside them) and dual_chunk_flash_attn.py (the trained length; 0 means no factor).
    """
    given = settings.given(KEY)
    if given is None:
        return rope
    if not isinstance(given, Mapping):
        raise settings.wrong(f"{KEY} must be a mapping, got {shown(given)}")
    for key in given:
        if key not in (*_READ, *_SPARSE):
            close = near(key, _READ)
            hint = f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(_READ)}"
            raise settings.wrong(f"{KEY} has the unknown entry {shown(key)}{hint}")
    if rope.scaling is not None:
        raise settings.wrong(
            f"{KEY} and a scaling of the frequencies, {rope.scaling!r}, are given: vLLM would "
            "ignore the scaling; set one of both to null"
        )
    trained = _size(settings, given, _READ[2], minimum=0, default=0) or None
    size, local = (
        _size(settings, given, key, minimum=n) for n, key in ((1, _READ[0]), (0, _READ[1]))
    )
    try:
        return DualChunk(rope, chunk_size=size, local_size=local, original_max_position=trained)
    except (TypeError, ValueError) as error:
        raise settings.wrong(f"{KEY}: {error}") from None


def _size(
    settings: Settings,
    given: Mapping[str, Any],
    key: str,
    *,
    minimum: int,
    default: int | None = None,
) -> int:
    value = given.get(key)
    value = default if value is None else value
    if value is None:
        raise settings.wrong(f"{KEY} needs {key!r}, a number of tokens")
    try:
        return count(f"{KEY}: {key}", value, minimum, LENGTH)
    except (TypeError, ValueError) as error:
        raise settings.wrong(str(error)) from None
