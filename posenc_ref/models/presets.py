"""Presets: the positional encodings of named models, from their code and configurations.

Each preset is one line of ``data/presets.json``, with the keys ``config`` (a configuration for
:func:`from_config`) or ``encodings`` (encodings by layer type, for :func:`from_dict`), ``source``
(a name in ``sources``) and ``needs`` (facts, such as the base, that no public source states;
:func:`preset` raises unless the caller gives them).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from posenc_ref import _validate as validate
from posenc_ref._json import from_dict
from posenc_ref._text import shown
from posenc_ref.encoding import Encoding
from posenc_ref.schedules.scaling import FrequencySchedule

from .config import described_config
from .context import Described
from .model_encoding import ModelEncoding

#: The configuration entry for each fact.
_CONFIG_KEYS = {
    "base": "rope_theta",
    "head_dim": "head_dim",
    "short_factor": "short_factor",
    "long_factor": "long_factor",
    "beta_fast": "beta_fast",
    "original_max_position": "original_max_position_embeddings",
    "attention_factor": "attention_factor",
}
_INSIDE = ("short_factor", "long_factor", "beta_fast", "original_max_position", "attention_factor")
_CALLER = "the caller"


class Need(NamedTuple):
    """A fact that the caller of :func:`preset` must give, with the reason."""

    fact: str
    why: str


def presets() -> tuple[str, ...]:
    """Return the names of all presets.

    Returns
    -------
    tuple of str
        In the order of the data file.
    """
    return tuple(_table()["presets"])


def needs(name: str) -> tuple[Need, ...]:
    """Return the facts that the caller must give because no public source states them."""
    return tuple(Need(fact, why) for fact, why in _entry(name).get("needs", {}).items())


def preset(name: str, *, override: Mapping[str, Any] | None = None, **facts: Any) -> ModelEncoding:
    """Return the encoding of a named model, with the source of each fact in ``provenance``.

    Parameters
    ----------
    name : str
        One of :func:`presets`, such as ``"llama-3.1-8b"``, or the name of the model on the Hub,
        such as ``"meta-llama/Llama-3.1-8B"``.  Capital letters do not matter.
    override : mapping, optional
        Entries that replace those of the model's configuration, as in :func:`from_config`.
    **facts
        The facts that no public source states: ``preset("palm", head_dim=256, base=10000.0,
        layout="half")``.  If facts are missing, the error message lists them.  Any other field of
        the encodings may be changed: ``preset("qwen2.5-7b", scaling=YaRN(4.0, 32768))``.

    Returns
    -------
    ModelEncoding
        ``.only`` is its encoding if there is exactly one.

    Raises
    ------
    ValueError
        ``name`` is unknown (the message suggests similar names), a required fact is missing, a
        fact is not a field of the preset's encodings, or ``override`` is given for a preset that
        has encodings and no configuration.
    """
    return described_preset(name, override=override, **facts).model


def described_preset(
    name: str, *, override: Mapping[str, Any] | None = None, **facts: Any
) -> Described:
    """Return the encoding that :func:`preset` returns, with the lengths beside it."""
    name = resolve(name)
    entry = _entry(name)
    missing = [need for need in needs(name) if need.fact not in facts]
    if missing:
        listed = "; ".join(f"{fact}= ({why})" for fact, why in missing)
        raise ValueError(f"preset {name!r} is not complete, pass {listed}")
    if override is not None and "config" not in entry:
        raise ValueError(
            f"preset {name!r} has no configuration that override could change; change a field of "
            f"its encodings instead, such as {_field(entry)}=..."
        )
    if "config" in entry:
        found = _configured(entry, facts, override)
    else:
        found = Described(_declared(entry, facts))
    made = found.model
    source = _table()["sources"][entry["source"]]
    provenance = {fact: _sourced(of, source) for fact, of in made.provenance.items()}
    made = made.replace(
        name=name,
        layer_types=() if entry.get("layers") == "unknown" else made.layer_types,
        provenance=provenance | dict.fromkeys(facts, _CALLER),
    )
    hub = _hub()
    if found.length is None and name in hub["lengths"]:
        return found._replace(model=made, length=hub["lengths"][name], source=hub["source"])
    return found._replace(model=made)


def resolve(name: str) -> str:
    """Return the preset with this name, or of the model that has this name on the Hub.

    Return ``name`` itself if there is none.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {shown(name)}")
    wanted = name.lower().removeprefix("https://huggingface.co/").rstrip("/")
    if wanted in _table()["presets"]:
        return wanted
    ids = {hub_id.lower(): str(known) for hub_id, known in _hub()["ids"].items()}
    return ids.get(wanted, name)


def _hub() -> Mapping[str, Any]:
    from .config_facts import table  # with the first preset

    return table("hub_ids")


def _field(entry: Mapping[str, Any]) -> str:
    """Return the name of a field of the encodings of a preset."""
    fields = [key for body in entry["encodings"].values() for key in body if key != "encoding"]
    return next(iter([*entry.get("needs", {}), *fields]), "layout")


def _table() -> Mapping[str, Any]:
    from .config_facts import table  # with the first preset

    return table("presets")


def _entry(name: str) -> Mapping[str, Any]:
    known = _table()["presets"]
    name = resolve(name)
    if name not in known:
        import difflib  # only errors need it

        wanted = name.lower()
        ids = {hub_id.lower(): hub_id for hub_id in _hub()["ids"]} if "/" in name else {}
        near = [ids.get(n, n) for n in difflib.get_close_matches(wanted, [*known, *ids], n=3)]
        near = near or [n for n in known if wanted.rpartition("/")[2] in n]
        hint = f"did you mean {', '.join(map(repr, near[:5]))}? " if near else ""
        raise ValueError(
            f"preset {shown(name)} is not known; {hint}presets() lists all {len(known)}, and "
            "from_config reads any config.json"
        )
    found: Mapping[str, Any] = known[name]
    return found


def _sourced(of: str, source: str) -> str:
    """Return the provenance with "config" replaced by the source of the preset."""
    return source if of.startswith("config:") else of.replace("config:", f"{source}:")


def _configured(
    entry: Mapping[str, Any], facts: Mapping[str, Any], override: Mapping[str, Any] | None
) -> Described:
    config = dict(entry["config"])
    later = dict(facts)
    needed = entry.get("needs", {})
    inside = {_CONFIG_KEYS[f]: later.pop(f) for f in _INSIDE if f in needed and f in later}
    if inside:
        kind = {"rope_type": "longrope"} if "short_factor" in inside else {}
        factor = inside.pop("attention_factor", None)
        more = {} if factor is None else {"short_mscale": factor, "long_mscale": factor}
        own = inside | more
        config["rope_scaling"] = {**config.get("rope_scaling", {}), **kind, **own}
    for fact in ("base", "head_dim"):
        if fact in needed and fact in later:
            value = later.pop(fact)
            config[_CONFIG_KEYS[fact]] = value
            if fact == "head_dim" and "hidden_size" not in config:
                # Classes that derive the head size from the width have no entry head_dim.
                config |= {"hidden_size": value * 16, "num_attention_heads": 16}
    layout = later.pop("layout", None)
    made = described_config(config, layout=layout, override=override)
    return made._replace(model=changed(made.model, later))


def _declared(entry: Mapping[str, Any], facts: Mapping[str, Any]) -> ModelEncoding:
    needed = {f: facts[f] for f in entry.get("needs", {})}
    for fact, shape in entry.get("shapes", {}).items():
        given = np.shape(needed[fact])
        if given != tuple(shape):
            raise ValueError(
                f"{fact} must have the shape {tuple(shape)}, got {given}: {entry['needs'][fact]}"
            )
    encodings: dict[str, Encoding] = {
        layer_type: from_dict(_derived({**body, **needed}))
        for layer_type, body in entry["encodings"].items()
    }
    fields = {key for body in entry["encodings"].values() for key in body} - {"encoding"}
    made = ModelEncoding(
        "preset",
        encodings=encodings,
        provenance=dict.fromkeys(sorted(fields), "config: encodings"),
    )
    return changed(made, {f: v for f, v in facts.items() if f not in needed})


def _derived(body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with ``{"root_over_dim": c}`` replaced by ``sqrt(c / dim)``."""
    if isinstance(body.get("scale"), Mapping):
        width = validate.integer("dim", body["dim"], minimum=1)
        body["scale"] = (body["scale"]["root_over_dim"] / width) ** 0.5
    return body


def changed(made: ModelEncoding, facts: Mapping[str, Any]) -> ModelEncoding:
    """Return the model with some fields of every encoding changed, by the caller."""
    if not facts:
        return made
    encodings: dict[str, Encoding | None] = {}
    for layer_type, encoding in made.encodings.items():
        if encoding is None:
            encodings[layer_type] = None
            continue
        allowed = [key for key in encoding.to_dict() if key != "encoding"]
        for fact, value in facts.items():
            validate.choice("fact", fact, allowed)
            if fact == "scaling" and not isinstance(value, FrequencySchedule | None):
                raise TypeError(f"scaling must be a schedule such as YaRN(...), got {shown(value)}")
        encodings[layer_type] = encoding.replace(**facts)
    return made.replace(
        encodings=encodings,
        provenance={**made.provenance, **dict.fromkeys(facts, _CALLER)},
    )
