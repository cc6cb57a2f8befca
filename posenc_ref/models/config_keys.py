"""Entries of a configuration that change positions or logits, and that are not read.

A configuration may hold entries that only other code reads: ``use_logn_attn`` is read by the code
of Qwen and ignored by transformers.  The encoding would then depend on who runs the model, so
:func:`refuse_unread` raises.  ``data/config_keys.json`` lists the known entries, one line each:

========  =========================================================================================
means     What the entry changes.
neutral   The values with which it changes nothing; null and "" are neutral for every entry.
layout    True for a switch between the layouts "half" (false) and "interleaved" (true).
needs     Another entry; while that one is absent or false, this one changes nothing.
never     True for an entry that no :class:`ModelEncoding` can express.
========  =========================================================================================

``harmless`` lists entries with a name like that of a positional entry, which change no position.

An unknown entry whose name is nearly that of a positional entry, such as ``rop_theta``, is a
misspelling: :func:`misspelt` finds the entry that was meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from posenc_ref._text import near, shown

from .config_facts import table

if TYPE_CHECKING:
    from .config_facts import Settings

#: Names of entries that concern positions.  Unknown entries with such a name are refused.
_PATTERN = re.compile(
    r"rope|rotary|rotate|alibi|yarn|mrope|logn|nope_|(^|_)ntk|pos(ition(al)?)?_emb\w*_type", re.I
)
#: Entries that every reader of rotary parameters reads.
_ALWAYS = frozenset({"rope_parameters", "rope_scaling", "rope_theta"})
#: Entries that most models read, and that change positions or the size of a head.
_COMMON = _ALWAYS | {
    "head_dim", "hidden_size", "num_attention_heads", "partial_rotary_factor", "layer_types",
    "sliding_window", "original_max_position_embeddings", "dual_chunk_attention_config",
}  # fmt: skip
#: How near a name must be to be a misspelling.  At 0.85 no default configuration of transformers
#: has one, besides the names in ``harmless``.
_NEAR = 0.85
#: Conventions that name an entry, or several, which the model reads.
_NAMING = (
    "interleave_key", "rotary_dim", "partial_keys", "base_keys", "layer_bases", "unscaled",
    "softmax", "when", "reads",
)  # fmt: skip


def is_positional(key: str) -> bool:
    """Return whether an entry with this name can change positions or logits."""
    if key in _ALWAYS or key in table("config_keys")["harmless"]:
        return False
    return key in table("config_keys")["keys"] or _PATTERN.search(key) is not None


def refuse_unread(settings: Settings) -> None:
    """Raise ValueError for an entry that changes positions and that this model does not read."""
    read = _read_by(settings)
    for key, value in settings.config.items():
        if value is None:
            continue
        if not is_positional(key):
            meant = None if settings.reads(key) else misspelt(key, {*_COMMON, *read})
            if meant is not None:
                raise settings.wrong(
                    f"the entry {key} (= {shown(value)}) is not known; did you mean {meant!r}? "
                    "If not, remove it or set it to null"
                )
            continue
        fact = table("config_keys")["keys"].get(key)
        if key in read and not (fact and fact.get("never")):
            continue
        if not _is_neutral(fact, value, settings):
            meant = misspelt(key, {*_COMMON, *read}) if fact is None else None
            raise settings.wrong(_message(key, value, fact, meant))
    keys = settings.conventions.get("base_keys", ())
    bases = keys.values() if isinstance(keys, Mapping) else ["rope_theta"]
    if "rope_theta" not in bases and settings.config.get("rope_theta") is not None:
        raise settings.wrong(f"rope_theta is not read; this model's bases are {', '.join(bases)}")


def misspelt(key: str, names: Iterable[str]) -> str | None:
    """Return the name that is meant by a key that is none of them, or None.

    A name with a word before or after it, such as ``v_head_dim``, is the name of something else.
    """
    names = sorted(names)
    if key in names or key in table("config_keys")["harmless"]:
        return None
    for name in near(key, names, cutoff=_NEAR):
        longer, shorter = sorted((key, name), key=len, reverse=True)
        if not longer.endswith(f"_{shorter}") and not longer.startswith(f"{shorter}_"):
            return name
    return None


def refuse_outside(outer: Mapping[str, Any], inner: Mapping[str, Any], part: str) -> None:
    """Raise ValueError for a positional entry outside the part of a model that is read.

    An entry that the part repeats with an equal value is no contradiction.
    """
    for key, value in outer.items():
        if value is None or value == inner.get(key):
            continue
        known = table("config_keys")["keys"].get(key, {})
        if key in _ALWAYS or (known and value not in known.get("neutral", ())):
            raise ValueError(
                f"config has {key} = {shown(value)} outside {part}, and {part} has "
                f"{shown(inner.get(key))}: move it into {part}, or remove it"
            )


def _read_by(settings: Settings) -> set[str]:
    """Return the entries that the configuration class or the conventions of this model name."""
    read = {"partial_rotary_factor", "partial_rotary_factors"}
    read |= set(table("config_defaults")["models"].get(settings.model_type, {}).get("fields", ()))
    for name in _NAMING:
        value = settings.conventions.get(name, ())
        if isinstance(value, Mapping):
            read |= set(value) | set(map(str, value.values()))
        else:
            read |= {value} if isinstance(value, str) else set(map(str, _many(value)))
    if settings.conventions.get("head") == "latent":
        read |= {"qk_nope_head_dim", "qk_rope_head_dim"}
    return read


def _many(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else ()


def _is_neutral(fact: Mapping[str, Any] | None, value: Any, settings: Settings) -> bool:
    if value in ("", [], {}) or (fact is None and value is False):
        return True
    if fact is None:
        return False
    if fact.get("layout"):
        return value is (settings.layout == "interleaved")
    if value == "rope_gptj":  # Cohere's name of interleaved pairs
        return settings.layout == "interleaved"
    needed = fact.get("needs")
    if needed is not None and not settings.config.get(needed):
        return True
    # 1 == True, and 0 == False
    return any(
        value == n and isinstance(value, bool) == isinstance(n, bool) for n in fact["neutral"]
    )


def _message(key: str, value: Any, fact: Mapping[str, Any] | None, meant: str | None) -> str:
    shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."
    what = f"changes {fact['means']}" if fact else "looks like a positional setting"
    why = "posenc-ref does not use it for this model"
    if fact is not None and fact.get("never"):
        why = "no encoding of posenc-ref can express that"
    why += "." if meant is None else f"; did you mean {meant!r}?"
    return (
        f"the entry {key} (= {shown}) {what}, but {why} If your implementation ignores it, remove "
        "it or set it to null"
    )
