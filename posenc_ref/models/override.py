"""Apply a serving override, such as vLLM's ``--hf-overrides``, to a configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from posenc_ref._documents import check_document
from posenc_ref._text import shown

from .config_rope import SPELLINGS, rope_type_of
from .context import Described

#: Entries of the rotary parameters that every type of scaling has.
_COMMON = frozenset({
    "rope_theta", "partial_rotary_factor", "mrope_section", "xdrope_section", "mrope_interleaved",
})  # fmt: skip
#: Entries that stand among the rotary parameters, or at the top level.
_EITHER = ("rope_theta", "partial_rotary_factor")


def override(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with some entries replaced.

    Mappings are merged entry by entry; null removes an entry.  ``rope_scaling`` and
    ``rope_parameters`` are two names of one mapping.  If its type of scaling changes, the entries
    of the former type are dropped, and the base stays.  A mapping that is itself a scaling, such
    as ``{"rope_type": "yarn", "factor": 4.0}``, means ``rope_scaling``.

    Parameters
    ----------
    config, changes : mapping
        Neither is changed.

    Raises
    ------
    TypeError
        ``changes`` is not a mapping, or its keys are not strings.
    """
    if not isinstance(changes, Mapping) or not all(isinstance(key, str) for key in changes):
        raise TypeError(
            'override must be a mapping such as {"rope_scaling": {"rope_type": "yarn", "factor": '
            f"4.0}}}}, got {shown(changes)}"
        )
    check_document(changes, "override")
    changes = _named(changes)
    made = dict(config)
    for key, value in changes.items():
        if key in SPELLINGS:
            _rotary(made, key, value)
        elif isinstance(value, Mapping) and isinstance(made.get(key), Mapping):
            made[key] = override(made[key], value)
        else:
            made[key] = value
    return made


def overridden(found: Described, changes: Mapping[str, Any]) -> Described:
    """Return a model whose sources name the override for each entry that it replaced."""
    names = "|".join(map(re.escape, _named(changes)))

    def source(of: str) -> str:
        return re.sub(rf"^config: (?=({names})\b)", "override: ", of)

    provenance = {fact: source(of) for fact, of in found.model.provenance.items()}
    model = found.model.replace(provenance=provenance)
    return found._replace(model=model, source=source(found.source))


def _named(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``{"rope_scaling": changes}`` if the changes are themselves a scaling."""
    if "rope_type" in changes or "type" in changes:
        return {"rope_scaling": changes}
    return changes


def _rotary(config: dict[str, Any], spelling: str, change: Any) -> None:
    """Replace the rotary parameters of ``config``, under the name that the change has."""
    held = [config.pop(name, None) for name in SPELLINGS]
    found = [mapping for mapping in held if isinstance(mapping, Mapping)]
    former: dict[str, Any] = {key: value for mapping in found for key, value in mapping.items()}
    if not isinstance(change, Mapping):
        # Without its scaling, a model keeps the base that stood among the rotary parameters.
        kept = {key: former[key] for key in _COMMON if key in former}
        config[spelling] = (kept or None) if change is None else change
        return
    for key in _EITHER:
        if change.get(key) is not None:
            config.pop(key, None)
    config[spelling] = _merged(former, change)


def _merged(former: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rotary parameters after the change; they may be nested by layer type."""
    named, before = rope_type_of(change), rope_type_of(former)
    if named is not None and named != before:
        former = {k: v for k, v in former.items() if k in _COMMON or isinstance(v, Mapping)}
    made = dict(former)
    if named is not None:
        made = {k: v for k, v in made.items() if k not in ("rope_type", "type")}
    for key, value in change.items():
        inner = made.get(key)
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            made[key] = _merged(inner, value)
        elif value is None and not isinstance(inner, Mapping):
            made.pop(key, None)
        else:  # null for a layer type means layers without an encoding
            made[key] = value
    return made
