"""Positional encodings from the ``config.json`` of a model of diffusers.

Such a configuration has ``_class_name`` instead of ``model_type``.  ``data/diffusers_models.json``
holds the facts about each class that only its code states, and ``data/diffusers_defaults.json``
the defaults of its arguments, which ``tools/configurations/diffusers_defaults.py`` writes.  The
keys of a line:

===========  ===================================================================================
kind         "axes" (MultiAxisRoPE), "rope" (RoPE), "grid" (Sinusoidal2D), "video"
             (Sinusoidal3D), "fractional" (MixedRoPE.fractional), or, without an encoding to
             read, "learned", "none" or "code".
file         The file of the class in ``diffusers/models/transformers``.
head, dim    The size of a head, or the number of columns: an entry, "a / b" or "a * b".
sections     The rule for the pairs of each axis, or the entry with the channels of each axis.
base         The base: a number, or an entry.
layout, ...  Fields of the encoding.
axes         The axes, in their order, and how positions are counted.
when         Entries with the values for which this line holds ("given": any but null); ``else``
             is the line otherwise.
or           For null sections: the entry, its key and the value that hold them.
missing      For null sections: the number of axes, which share the head equally.
repeat       The number of axes, if ``sections`` is one number of pairs for all of them.
also         Entries that change no frequency: ``axes`` says what they do.
text         True if text tokens have a RoPE of their own, with the same base.
why          Why there is no encoding to read.
===========  ===================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from posenc_ref import _validate as validate
from posenc_ref._text import near, shown
from posenc_ref.encoding import Encoding
from posenc_ref.mixed import MixedRoPE
from posenc_ref.models.config_facts import table
from posenc_ref.models.model_encoding import ModelEncoding
from posenc_ref.multi_axis import MultiAxisRoPE
from posenc_ref.rope import RoPE
from posenc_ref.schedules.longrope import LongRoPE
from posenc_ref.sinusoidal_2d import Sinusoidal2D, Sinusoidal3D

from .diffusers_entries import Entries, version


def is_diffusers(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration names a class of diffusers, and no model type."""
    return isinstance(config.get("_class_name"), str) and "model_type" not in config


def diffusers_model(config: Mapping[str, Any]) -> ModelEncoding:
    """Return the encoding of a model of diffusers from its configuration.

    ``provenance["axes"]`` names the axes of the positions, in order.

    Raises
    ------
    ValueError
        The class is unknown, or its configuration states no encoding; the message says why.  Or an
        entry is missing, wrong, or changes positions and is not read.
    """
    name = config["_class_name"]
    models = table("diffusers_models")["models"]
    if name not in models:
        similar = near(name, models)
        hint = f"; did you mean {similar[0]!r}?" if similar else ""
        raise ValueError(
            f"_class_name {shown(name)} is no transformer of diffusers "
            f"{table('diffusers_models')['diffusers']} that posenc-ref knows{hint}. Pass the "
            "config.json of the folder 'transformer', not that of the pipeline"
        )
    entries = Entries(name, config, table("diffusers_defaults")["models"].get(name, {}))
    facts = models[name]
    while "when" in facts and not _holds(entries, facts["when"]):
        facts = {"file": facts["file"], **facts["else"]}
    if facts["kind"] not in READ:
        raise entries.wrong(facts["why"])
    try:
        encodings = READ[facts["kind"]](entries, facts)
    except (TypeError, ValueError) as error:
        raise entries.wrong(str(error)) from None
    entries.used.update(facts.get("also", ()))
    entries.refuse_unread()
    return ModelEncoding(
        name, encodings=encodings, provenance=_provenance(entries, facts, encodings)
    )


def _provenance(
    entries: Entries, facts: Mapping[str, Any], encodings: Mapping[str, Encoding | None]
) -> dict[str, str]:
    """Return the source of each field: an entry, a default of the class, or its code."""
    source = f"{version()}, {facts['file']}.py"
    fields = {key for e in encodings.values() if e is not None for key in e.to_dict()}
    found = dict.fromkeys(sorted(fields - {"encoding"}), source)
    named = {"head_dim": facts.get("head"), "dim": facts.get("dim"), "base": facts.get("base"),
             "sections": facts.get("sections")}  # fmt: skip
    for field, expression in named.items():
        keys = re.findall(r"\w+", expression) if isinstance(expression, str) else []
        keys = [key for key in keys if key in entries.used]
        if field in fields and keys:
            found[field] = "; ".join(dict.fromkeys(map(entries.source, keys)))
    if "axes" in facts:
        found["axes"] = f"positions are ({facts['axes']}): {source}"
    return found


def _holds(entries: Entries, when: Mapping[str, Sequence[Any] | str]) -> bool:
    return all(
        entries.get(key) is not None if allowed == "given" else entries.get(key) in allowed
        for key, allowed in when.items()
    )


def _base(entries: Entries, facts: Mapping[str, Any]) -> float:
    base = facts["base"]
    return validate.real(base, entries.get(base), above=1.0) if isinstance(base, str) else base


def _fields(facts: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: facts[name] for name in names if name in facts}


def _axes(entries: Entries, facts: Mapping[str, Any]) -> dict[str, Encoding | None]:
    channels = _channels(entries, facts)
    head = sum(channels) if facts["head"] == "sum" else entries.count(facts["head"])
    base: Any = _base(entries, facts)
    shared = facts["sections"] not in _RULES and "repeat" not in facts
    if shared and sum(channels) != head:
        raise ValueError(
            f"{facts['sections']} must add up to the {head} channels of a head, got "
            f"{'+'.join(map(str, channels))} = {sum(channels)}"
        )
    sections = tuple(c // 2 for c in channels)
    if facts["sections"] == "cosmos":  # an NTK factor for each axis
        scale = _numbers("rope_scale", entries.get("rope_scale"), 3)
        try:
            base = tuple(
                base * s ** (c / (c - 2)) if c > 2 else base
                for s, c in zip(scale, channels, strict=True)
            )
        except OverflowError:
            given = shown(entries.get("rope_scale"))
            raise ValueError(
                f"rope_scale must be small enough for bases in float64, got {given}"
            ) from None
    more = _fields(facts, "arrangement")
    if "interpolation" in facts:
        keys = facts["interpolation"]
        more["position_scale"] = tuple(
            1 / validate.real(key, entries.get(key), above=0.0) for key in keys
        )
    made = MultiAxisRoPE(
        head, sections=sections, layout=facts["layout"], base=base,
        spacing=facts.get("spacing", "restart"), **more,
    )  # fmt: skip
    if not facts.get("text"):
        return {"attention": made}
    return {"attention": made, "text": RoPE(head, layout=facts["layout"], base=base)}


def _channels(entries: Entries, facts: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the number of rotated channels of each axis."""
    rule = facts["sections"]
    if rule in _RULES:
        return tuple(_RULES[rule](entries.count(facts["head"])))
    value = entries.get(rule)
    if value is None and "or" in facts:
        key, inner, default = facts["or"]
        outer = {} if entries.get(key) is None else entries.get(key)
        if not isinstance(outer, Mapping):
            raise ValueError(f"{key} must be a mapping, got {shown(outer)}")
        value = outer.get(inner, default)
    if value is None and "missing" in facts:
        head = entries.count(facts["head"])
        return (head // facts["missing"],) * int(facts["missing"])
    if isinstance(value, int) and not isinstance(value, bool) and "repeat" in facts:
        return (2 * value,) * int(facts["repeat"])
    found = tuple(int(n) for n in _numbers(rule, value))
    if facts.get("spacing") == "global":  # M-RoPE: pairs; the first axis has the rest
        head = entries.count(facts["head"])
        return (head - 2 * sum(found[1:]), *(2 * n for n in found[1:]))
    if any(n % 2 for n in found):
        raise ValueError(f"{rule} must be even numbers of channels, got {shown(value)}")
    return found


def _numbers(key: str, value: Any, count: int | None = None) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or (count is not None and len(value) != count):
        wanted = "a number for each axis" if count is None else f"{count} numbers"
        raise ValueError(f"{key} must list {wanted}, got {shown(value)}")
    return tuple(validate.real(f"{key}[{i}]", v, above=0.0) for i, v in enumerate(value))


def _wan(head: int) -> tuple[int, ...]:
    space = 2 * (head // 6)
    return head - 2 * space, space, space


#: The channels of each axis that follow from the size of a head.
_RULES: Mapping[str, Any] = {
    "wan": _wan,
    "cosmos": _wan,
    "halves": lambda head: (head // 2,) * 2,
    "thirds": lambda head: (head // 3,) * 3,
    "cogvideox": lambda head: (head // 4, head // 8 * 3, head // 8 * 3),
}


def _rope(entries: Entries, facts: Mapping[str, Any]) -> dict[str, Encoding | None]:
    head = entries.count(facts["head"])
    rotary = facts.get("rotary", "all")
    scaling = None
    if facts.get("longrope"):
        factors = entries.get("rope_scaling")
        if not isinstance(factors, Mapping):
            raise ValueError(f"rope_scaling must be a mapping of factors, got {shown(factors)}")
        original = entries.count("original_max_position_embeddings")
        longest = entries.count("max_position_embeddings")
        keys = ("short_factor", "long_factor")
        short, long = (_numbers(f"rope_scaling.{k}", factors.get(k), head // 2) for k in keys)
        scaling = LongRoPE(short, long, original, factor=longest / original)
    encoding = RoPE(
        head,
        layout=facts["layout"],
        base=_base(entries, facts),
        rotary_dim={"all": head, "half": head // 2}.get(rotary) or entries.count(rotary),
        scaling=scaling,
    )
    return {"attention": encoding}


def _grid(entries: Entries, facts: Mapping[str, Any]) -> dict[str, Encoding | None]:
    """Return the sines that ``PatchEmbed`` adds to the patches of an image."""
    dim = entries.count(facts["dim"])
    if facts.get("table") == "plain":
        return {"patches": Sinusoidal2D(dim, axis_order="wh")}
    base_size = entries.count("sample_size") // entries.count("patch_size")
    most = entries.get("pos_embed_max_size") if facts.get("table") == "crop" else None
    if most is not None:
        scale = base_size / validate.integer("pos_embed_max_size", most, minimum=1)
        return {"patches": Sinusoidal2D(dim, axis_order="wh", position_scale=scale)}
    given = entries.get("interpolation_scale") if "interpolation_scale" in entries.defaults else 1
    if given is None:  # PixArt; its code divides the size of the sample by 64
        given = max(entries.count("sample_size") // 64, 1)
    if facts.get("table") == "latte":
        given = max(entries.count("sample_size") // 64, 1)
    scale = validate.real("interpolation_scale", given, above=0.0)
    return {"patches": Sinusoidal2D(dim, axis_order="wh", extent=base_size / scale)}


def _video(entries: Entries, facts: Mapping[str, Any]) -> dict[str, Encoding | None]:
    for key in ("spatial_interpolation_scale", "temporal_interpolation_scale"):
        validate.real(key, entries.get(key), above=0.0)
    dim = entries.count(facts["dim"])
    sections = (dim // 4, 3 * dim // 8, 3 * dim // 8)
    return {"patches": Sinusoidal3D(sections, axis_order="twh")}


def _fractional(entries: Entries, facts: Mapping[str, Any]) -> dict[str, Encoding | None]:
    """Return the rotation of LTX's videos; the largest sizes change positions only."""
    for key in facts.get("extents", ()):
        entries.get(key)
    heads = entries.count("num_attention_heads")
    kind = entries.get("rope_type")
    if kind not in (None, "interleaved", "split"):
        raise ValueError(f"rope_type must be 'interleaved' or 'split', got {shown(kind)}")
    dim = heads * entries.count("attention_head_dim")
    split = heads if kind == "split" else None
    base = _base(entries, facts)
    return {"attention": MixedRoPE.fractional(dim, num_heads=split, base=base)}


#: The kinds of lines with an encoding, and the reader of each.
READ: Mapping[str, Any] = {
    "axes": _axes, "rope": _rope, "grid": _grid, "video": _video, "fractional": _fractional,
}  # fmt: skip
