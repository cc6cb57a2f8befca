"""The encoding of a text or audio model from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc_ref._text import near, shown
from posenc_ref.dual_chunk import DualChunk
from posenc_ref.encoding import Encoding
from posenc_ref.limits import LENGTH
from posenc_ref.multi_axis import MultiAxisRoPE
from posenc_ref.rope import RoPE

from .config_facts import Settings
from .config_fields import count
from .config_heads import Head, head
from .config_layers import Kind, layers
from .config_rope import Rotary, rotary_parameters
from .config_schedule import schedule
from .config_scores import query_scale, softmax_scale
from .model_encoding import ModelEncoding

#: The entry of dual chunk attention.
_CHUNKS = "dual_chunk_attention_config"
_CHUNKS_READ = ("chunk_size", "local_size", "original_max_position_embeddings")
#: These choose the keys that a query attends to; they change no logit of the others.
_CHUNKS_OTHER = (
    "sparse_attention_config", "sparse_attention_enabled", "sparse_attention_last_q",
    "sparse_attention_threshold",
)  # fmt: skip


def text_model(settings: Settings, name: str) -> ModelEncoding:
    """Return the encodings of a text model by layer type, and the factors on its logits."""
    has_encoding = _has_encoding(settings)
    found = layers(settings)
    needed = {k.layer_type for k in found.kinds.values() if k.rotates}
    parameters = rotary_parameters(settings, sorted(needed)) if has_encoding else {}
    encodings: dict[str, Encoding | None] = {}
    provenance: dict[str, str] = {}
    dims, rotaries = set(), []
    for key, kind in found.kinds.items():
        rotary = parameters.get(kind.layer_type) if kind.rotates else None
        prefix = "" if len(needed) < 2 else f"{key}: "
        if rotary is None:
            encodings[key] = None
            continue
        place = head(settings, kind.layer_type, _fraction(rotary))
        encodings[key] = _encoding(settings, kind, rotary, place)
        dims.add(place.dim)
        rotaries.append(rotary)
        provenance |= {prefix + fact: of for fact, of in _sources(settings, rotary, place).items()}
    rotary = rotaries[0] if rotaries else None
    if not dims:
        dims = {head(settings, next(iter(found.kinds.values())).layer_type, None).dim}
    dim = dims.pop() if len(dims) == 1 else 0
    scale, scale_source = softmax_scale(settings, dim, rotary)
    scales, query_source = query_scale(settings, encodings, rotary)
    more = {
        "layout": settings.layout_source,
        "layer_types": found.source,
        "softmax_scale": scale_source,
        "query_scale": query_source,
    }
    return ModelEncoding(
        name,
        encodings=encodings,
        layer_types=found.names,
        softmax_scale=scale,
        query_scale=scales,
        values=settings.conventions.get("values", "plain"),
        sinks=tuple(t for t in encodings if _has_sinks(settings, t)),
        provenance=provenance | {fact: of for fact, of in more.items() if of},
    )


def _has_sinks(settings: Settings, layer_type: str) -> bool:
    """Return whether the heads of a layer type have sinks."""
    where = settings.conventions.get("sinks", [])
    return where == "all" or layer_type in where


def _has_encoding(settings: Settings) -> bool:
    """Return whether the model has a positional encoding; raise if that encoding is not rotary."""
    for key, wanted in settings.conventions.get("when", {}).items():
        value = settings.get(key)
        if value in wanted:
            continue
        if value is None or value is False or value == "nope":
            return False
        raise settings.wrong(
            f"it has no rotary encoding: {key} is {value!r}, where {wanted[0]!r} means a rotary one"
        )
    return True


def _fraction(rotary: Rotary) -> float | None:
    """Return ``partial_rotary_factor``, the fraction of a head's channels in the rotated slice.

    Return None if the configuration has no such entry, and for proportional RoPE: its slice is the
    whole head, and the entry is a parameter of the schedule.
    """
    return None if rotary.rope_type == "proportional" else rotary.partial


def _encoding(settings: Settings, kind: Kind, rotary: Rotary, place: Head) -> Encoding:
    conventions = settings.conventions
    scaling = schedule(settings, rotary) if kind.scaled else None
    base = rotary.base if kind.base is None else kind.base
    layout, output = settings.layout, conventions.get("output_layout")
    key = conventions.get("interleave_key")
    if key is not None and not isinstance(settings.get(key), bool | None):
        raise settings.wrong(f"{key} must be true or false, got {settings.get(key)!r}")
    if key is not None and not settings.get(key):
        layout, output = "half", None
    common: dict[str, Any] = {"layout": layout, "base": base, "scaling": scaling}
    common |= {"output_layout": output, "rotary_start": place.start}
    common |= {"sign": conventions.get("sign", 1)}
    try:
        if "sections" in conventions:
            sections, arrangement = _sections(settings, rotary, place.rotary_dim // 2)
            return MultiAxisRoPE(place.dim, sections=sections, arrangement=arrangement, **common)
        return _in_chunks(settings, RoPE(place.dim, rotary_dim=place.rotary_dim, **common))
    except (TypeError, ValueError) as error:
        if str(error).startswith("configuration of"):
            raise
        raise settings.wrong(f"{rotary.where}: {error}") from None


def _in_chunks(settings: Settings, rope: RoPE) -> RoPE | DualChunk:
    """Return the encoding of a layer: ``rope``, in dual chunks if the configuration has them.

    Source
        vLLM, rotary_embedding/__init__.py (``get_rope`` reads both sizes, and no frequency scaling
        beside them) and dual_chunk_flash_attn.py (the trained length; 0 means no factor).
    """
    given = settings.given(_CHUNKS)
    if given is None:
        return rope
    if not isinstance(given, Mapping):
        raise settings.wrong(f"{_CHUNKS} must be a mapping, got {shown(given)}")
    for key in given:
        if key not in (*_CHUNKS_READ, *_CHUNKS_OTHER):
            close = near(key, _CHUNKS_READ)
            hint = (
                f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(_CHUNKS_READ)}"
            )
            raise settings.wrong(f"{_CHUNKS} has the unknown entry {shown(key)}{hint}")
    if rope.scaling is not None:
        raise settings.wrong(
            f"{_CHUNKS} and a scaling of the frequencies, {rope.scaling!r}, are given: vLLM would "
            "ignore the scaling; set one of both to null"
        )
    trained = _chunks_size(settings, given, _CHUNKS_READ[2], minimum=0, default=0) or None
    size, local = (
        _chunks_size(settings, given, key, minimum=n)
        for n, key in ((1, _CHUNKS_READ[0]), (0, _CHUNKS_READ[1]))
    )
    try:
        return DualChunk(rope, chunk_size=size, local_size=local, original_max_position=trained)
    except (TypeError, ValueError) as error:
        raise settings.wrong(f"{_CHUNKS}: {error}") from None


def _chunks_size(
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
        raise settings.wrong(f"{_CHUNKS} needs {key!r}, a number of tokens")
    try:
        return count(f"{_CHUNKS}: {key}", value, minimum, LENGTH)
    except (TypeError, ValueError) as error:
        raise settings.wrong(str(error)) from None


def _sections(
    settings: Settings, rotary: Rotary, pairs: int
) -> tuple[tuple[int, ...], str | tuple[int, ...]]:
    """Return the number of channel pairs of every axis, and their arrangement.

    Source
        ``recomposition_frequencies`` of the models in transformers 5.23.  The sections are chunked
        in Qwen2-VL and interleaved in Qwen3-VL.  In Ernie 4.5 VL, pairs of height and width
        alternate, and the pairs of time follow.
    """
    arrangement = settings.conventions["arrangement"]
    default = settings.conventions["sections"]
    given: list[Any] = [rotary.keys.get(k) for k in ("mrope_section", "xdrope_section")]
    given = [sections for sections in given if sections is not None]
    if len(given) == 2 and list(given[0]) != list(given[1]):
        raise settings.wrong(f"{rotary.where}: mrope_section and xdrope_section disagree: {given}")
    if isinstance(default, int):  # a number of axes that take pairs in turn
        counts = [len(range(a, pairs, default)) for a in range(default)]
        return tuple(counts), arrangement
    if not given and default == "required":
        raise settings.wrong(
            f"{rotary.where} needs 'mrope_section', the number of pairs of each axis"
        )
    sections = _whole(settings, rotary.where, given[0] if given else default)
    if rotary.keys.get("mrope_interleaved") not in (None, arrangement == "interleaved"):
        raise settings.wrong(
            f"{rotary.where}: mrope_interleaved must be {arrangement == 'interleaved'}, because "
            f"this model's arrangement of sections is {arrangement!r}, got "
            f"{rotary.keys['mrope_interleaved']!r}"
        )
    if not given and arrangement == "interleaved" and sum(sections) != pairs:
        # The class's default sections fit another head size: divide the pairs evenly.
        own = [len(range(a, min(3 * n, pairs), 3)) for a, n in enumerate(sections)]
        sections = (pairs - own[1] - own[2], own[1], own[2])
    if sum(sections) != pairs:
        raise settings.wrong(
            f"{rotary.where}: mrope_section must add up to the {pairs} pairs of rotated channels, "
            f"got {sections}, {sum(sections)} in all"
            + ("" if given else f" ({settings.class_default})")
        )
    if arrangement != "ernie":
        return sections, arrangement
    height, width, time = sections
    if height != width:
        raise settings.wrong(
            f"{rotary.where}: the first two sections must be equal (height, width), got {sections}"
        )
    return (time, height, width), (1, 2) * height + (0,) * time


def _whole(settings: Settings, where: str, sections: Any) -> tuple[int, ...]:
    if len(sections) < 2:
        raise settings.wrong(
            f"{where}: mrope_section must list the number of pairs of each axis, got {sections!r}"
        )
    if any(n < 1 or not float(n).is_integer() for n in sections):
        raise settings.wrong(f"{where}: mrope_section must list whole numbers, got {sections!r}")
    return tuple(int(n) for n in sections)


def _sources(settings: Settings, rotary: Rotary, place: Head) -> Mapping[str, str]:
    found = {"head_dim": place.source, "base": rotary.base_source}
    if place.rotary_dim != place.dim:
        found["rotary_dim"] = place.rotary_source
    if rotary.rope_type not in ("default", "axial"):
        found["scaling"] = rotary.where if "default" in rotary.where else f"config: {rotary.where}"
        key = "original_max_position_embeddings"
        if rotary.rope_type == "yarn" and rotary.keys.get(key) is settings.get(key) is None:
            found["scaling"] += (
                f"; {key} is missing: max_position_embeddings replaces it, as in transformers"
            )
    if settings.given(_CHUNKS) is not None:
        found["chunks"] = f"config: {_CHUNKS}"
    if "axes" in settings.conventions:
        found["axes"] = f"positions are ({settings.conventions['axes']}): {settings.code}"
    return found
