"""The rotary parameters of a configuration, in any spelling; unknown keys raise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from posenc_ref import _validate as validate
from posenc_ref._text import near, shown

from .config_facts import Settings
from .config_fields import check_rotary
from .config_heads import COUNTS

#: Keys of rope_parameters by rope_type: the required ones, then the optional ones.
KEYS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "default": ((), ()),
    "axial": ((), ()),
    "linear": (("factor",), ()),
    "dynamic": (("factor",), ("original_max_position_embeddings",)),
    "yarn": (
        ("factor",),
        (
            "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow",
            "mscale", "mscale_all_dim", "truncate",
        ),
    ),
    "longrope": (
        ("short_factor", "long_factor"),
        ("original_max_position_embeddings", "factor", "attention_factor"),
    ),
    "llama3": (
        ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"), (),
    ),
    "proportional": ((), ("factor",)),
}  # fmt: skip
_COMMON = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
_SECTIONS = ("mrope_section", "xdrope_section", "mrope_interleaved")
#: The two names of the mapping with the rotary parameters, of transformers 5 and 4.
SPELLINGS = ("rope_parameters", "rope_scaling")
#: Names of the rope types in other libraries.
_ALIASES = {
    "su": "longrope", "ntk": "dynamic", "pi": "linear", "deepseek_yarn": "yarn", "none": "default",
    "mrope": "default", "p-rope": "proportional", "llama3.1": "llama3",
}  # fmt: skip


def rope_type_of(parameters: Mapping[str, Any]) -> Any:
    """Return the type of scaling that rotary parameters name, or None."""
    return parameters.get("rope_type", parameters.get("type"))


class Rotary(NamedTuple):
    """The rotary parameters of one label (see :func:`rotary_parameters`).

    ``where`` is the name of the mapping that holds them.
    """

    where: str
    rope_type: str
    keys: Mapping[str, Any]
    base: float
    base_source: str
    partial: float | None


def rotary_parameters(settings: Settings, labels: Sequence[str]) -> dict[str, Rotary | None]:
    """Return the rotary parameters of each label.

    A label is a layer type, or a name that a model has for several layer types.  If the
    configuration has null for a label, its parameters are None: its layers have no encoding.
    """
    where, raw = _raw(settings)
    nested = {k for k, v in raw.items() if isinstance(v, Mapping)} | (set(raw) & set(labels))
    if nested and not settings.conventions.get("per_layer_type"):
        raise settings.wrong(
            f"{where} is nested by layer type ({', '.join(sorted(nested))}), but all layers of "
            "this model have the same rotary parameters"
        )
    found: dict[str, Rotary | None] = {}
    for label in labels:
        own, place = _own(settings, where, raw, nested, label)
        found[label] = None if own is None else _checked(settings, place, own, label)
    return found


def _raw(settings: Settings) -> tuple[str, Mapping[str, Any]]:
    """Return the name of the mapping of rotary parameters, and the mapping."""
    given = {name: settings.config.get(name) for name in SPELLINGS}
    for name, value in given.items():
        if value is not None and not isinstance(value, Mapping):
            raise settings.wrong(f"{name} must be a mapping or null, got {shown(value)}")
    both = [name for name in SPELLINGS if given[name]]
    if len(both) == 2:
        one, other = (_comparable(given[name]) for name in both)
        shared = set(one) & set(other)
        if any(one[key] != other[key] for key in shared) or (set(one) ^ set(other)) - {
            "rope_theta",
            "partial_rotary_factor",
        }:
            raise settings.wrong(
                f"rope_parameters and rope_scaling disagree: {shown(given['rope_parameters'])} and "
                f"{shown(given['rope_scaling'])}; give one of them"
            )
    if both:
        return both[0], given[both[0]]  # type: ignore[return-value]
    return f"rope_parameters ({settings.class_default})", settings.conventions.get("parameters", {})


def _comparable(values: Any) -> dict[str, Any]:
    found = {key: value for key, value in values.items() if value is not None and key != "type"}
    return found | {"rope_type": values.get("rope_type", values.get("type", "default"))}


def _own(
    settings: Settings, where: str, raw: Mapping[str, Any], nested: set[str], label: str
) -> tuple[Mapping[str, Any] | None, str]:
    """Return the rotary parameters of one label, and the name of the mapping that holds them."""
    if nested:
        unknown = {k for k in raw if k not in nested and raw[k] is not None} - {"rope_type"}
        if unknown - {"rope_theta"}:
            raise settings.wrong(
                f"{where} must have only layer types ({', '.join(sorted(nested))}), got "
                + ", ".join(sorted(unknown))
            )
        if label not in raw:
            raise settings.wrong(
                f"{where} has no entry for {label!r}, only for {', '.join(sorted(nested))}"
            )
        own = raw[label]
        if own is not None and not isinstance(own, Mapping):
            raise settings.wrong(f"{where}[{label!r}] must be a mapping or null, got {shown(own)}")
        return own, f"{where}[{label!r}]"
    if not raw or not settings.conventions.get("per_layer_type"):
        return raw, where
    flat = settings.conventions.get("flat_scaling")
    if flat is None:
        raise settings.wrong(
            f"{where} must be nested by layer type, with entries such as {label!r}, got the keys "
            + ", ".join(sorted(raw))
        )
    return (raw, where) if label in flat else ({}, where)


def _checked(settings: Settings, where: str, own: Mapping[str, Any], label: str) -> Rotary:
    conventions = settings.conventions
    rope_type = _rope_type(settings, where, own)
    # A tower's axes are fixed; transformers 5 calls its type "axial", earlier versions "default".
    usual = ["axial", "default"] if "spacing" in conventions else [t for t in KEYS if t != "axial"]
    allowed_types = conventions.get("rope_types", usual)
    if rope_type not in allowed_types:
        listed = ", ".join(map(repr, allowed_types))
        known = _ALIASES.get(rope_type)
        hint = f"; use {known!r}, which some libraries call {rope_type!r}"
        hint = hint if known in allowed_types else ""
        raise settings.wrong(
            f"{where}: rope_type must be one of {listed}, got {shown(rope_type)}{hint}"
        )
    needed, optional = KEYS[rope_type]
    further = [*conventions.get("ignored", ())]
    further += _SECTIONS if "sections" in conventions else []
    further += ["alpha"] if conventions.get("dynamic_alpha") else []
    further += ["short_mscale", "long_mscale"] if conventions.get("longrope") == "mscale" else []
    allowed = (*_COMMON, *needed, *optional, *further)
    for key in own:
        if key not in allowed:
            similar = near(key, allowed)
            hint = f"; did you mean {similar[0]!r}?" if similar else ""
            raise settings.wrong(
                f"{where} has the unknown key {shown(key)} (= {shown(own[key])}) for rope_type "
                f"{rope_type!r}{hint}; allowed: {', '.join(allowed)}"
            )
    try:
        check_rotary(own)
    except (TypeError, ValueError) as error:
        raise settings.wrong(f"{where}: {error}") from None
    keys = {k: v for k, v in own.items() if k in (*needed, *optional, *further)}
    for key in needed:
        if key not in own and not (key == "factor" and own.get("alpha") is not None):
            key_error = f"{where}: rope_type {rope_type!r} needs {key!r}; got the keys "
            if key == "original_max_position_embeddings" and settings.given(key) is not None:
                continue
            raise settings.wrong(key_error + (", ".join(map(str, own)) or "none"))
    base, base_source = _base(settings, where, own, label)
    return Rotary(where, rope_type, keys, base, base_source, _partial(settings, where, own, label))


def _rope_type(settings: Settings, where: str, own: Mapping[str, Any]) -> str:
    renames = settings.conventions.get("renames", {})
    given = [own[key] for key in ("rope_type", "type") if own.get(key) is not None]
    for name in given:
        if not isinstance(name, str):
            raise settings.wrong(f"{where}: rope_type must be a string, got {shown(name)}")
    names = [renames.get(name, name) for name in given]
    if len(set(names)) > 1:
        raise settings.wrong(
            f"{where}: rope_type and type disagree: {shown(given[0])} and {shown(given[1])}"
        )
    return names[0] if names else "default"


def _base(settings: Settings, where: str, own: Mapping[str, Any], label: str) -> tuple[float, str]:
    """Return the base and where it comes from: parameters, configuration, or class default."""
    keys = settings.conventions.get("base_keys", ["rope_theta"])
    if isinstance(keys, Mapping):
        names = [keys[label]] if label in keys else [*keys]
    else:
        names = list(dict.fromkeys([*keys, "rope_theta"]))
    candidates = {f"{where}: rope_theta": own.get("rope_theta")} | {
        f"config: {name}": _of_label(settings, name, label) for name in names
    }
    found = _agreed(settings, "base", "bases", candidates, 1.0)
    constant = settings.conventions.get("base")
    if constant is not None:
        if found and float(found[1]) != constant:
            place, value = found
            raise settings.wrong(f"{place} = {value!r}, but this model's base is {constant}")
        return float(constant), settings.code
    if found:
        return float(found[1]), found[0]
    default = settings.default(names[0]) if names != ["rope_theta"] else None
    default = settings.theta if default is None else default
    if isinstance(default, Mapping):
        if label not in default:
            raise settings.wrong(
                f"layer_types must be among {', '.join(map(repr, default))}, got {label!r}"
            )
        default = default[label]
    return float(default), settings.class_default


def _of_label(settings: Settings, key: str, label: str) -> Any:
    """Return the configuration entry ``key`` for the layers of type ``label``.

    If the entry is a list with one value for each layer, return the value of these layers.
    """
    value = settings.given(key)
    types = settings.given("layer_types")
    if not isinstance(value, list | tuple) or not types:
        return value
    found = {v for v, t in zip(value, types, strict=False) if t == label}
    if len(found) > 1:
        raise settings.wrong(
            f"{key} must have the same value for all {label} layers, got {sorted(found)}"
        )
    return next(iter(found), None)


def _partial(settings: Settings, where: str, own: Mapping[str, Any], label: str) -> float | None:
    names = ["partial_rotary_factor", *settings.conventions.get("partial_keys", ())]
    candidates = {f"{where}: partial_rotary_factor": own.get("partial_rotary_factor")}
    candidates |= {f"config: {n}": settings.given(n) for n in names if n not in COUNTS}
    candidates["config: partial_rotary_factors"] = _of_label(
        settings, "partial_rotary_factors", label
    )
    found = _agreed(settings, "partial_rotary_factor", "partial rotary factors", candidates, 0.0)
    return found and float(found[1])


def _agreed(
    settings: Settings, name: str, plural: str, candidates: Mapping[str, Any], above: float
) -> tuple[str, Any] | None:
    """Return the first place among ``candidates`` with a value, and the value.

    Return None if no place has one, and raise if the values differ.
    """
    found = {place: value for place, value in candidates.items() if value is not None}
    for place, value in found.items():
        try:
            validate.real(name, value, above=above)
        except (TypeError, ValueError) as error:
            raise settings.wrong(f"{place}: {error}") from None
    if len(set(map(float, found.values()))) > 1:
        listed = " and ".join(f"{place} = {value!r}" for place, value in found.items())
        raise settings.wrong(f"two different {plural}: {listed}")
    return next(iter(found.items()), None)
