"""What :func:`from_config` can read of each model type of transformers, and why not the rest.

``data/model_types.json`` describes the model types without an encoding to read;
``tools/configurations/config_kinds.py`` writes it from the installed transformers.  The kinds are:

===========  ===================================================================================
encoding     The configuration states the encoding: ``from_config`` reads it.
learned      The encoding has learned numbers, which are in the checkpoint.
convolution  A convolution over the tokens carries the positions.
none         The model encodes no positions.
parts        The model is made of other models, which ``part=`` names.
code         The configuration does not determine the encoding.
===========  ===================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from posenc_ref._text import near, shown
from posenc_ref.models.config_facts import known, table

KINDS = ("encoding", "learned", "convolution", "none", "parts", "code")
#: Model types of ``other_models.json`` with learned numbers.
_LEARNED = ("t5", "learned")


def canonical(model_type: str) -> str:
    """Return the ``model_type`` that the configuration class of this name has."""
    found: str = table("model_types")["aliases"].get(model_type, model_type)
    return found


def kind_of(model_type: str) -> str | None:
    """Return one of :data:`KINDS`, or None for a model type that is not known."""
    model_type = canonical(model_type)
    other = table("other_models")["models"].get(model_type)
    if other is not None and known(model_type) is None:
        return "learned" if other["kind"] in _LEARNED else "encoding"
    if known(model_type) is not None or model_type in table("config_defaults")["parts"]:
        return "encoding"
    if model_type in table("text_models")["refused"]:
        return "code"
    found = table("model_types")["models"].get(model_type)
    return None if found is None else str(found["kind"])


def inner_parts(model_type: str) -> Mapping[str, str]:
    """Return {part: default ``model_type``} for the parts of a model of the kind "parts"."""
    found: Mapping[str, str] = table("model_types")["models"].get(model_type, {}).get("parts", {})
    return found


def reason(model_type: str) -> str | None:
    """Return why a model type has no encoding to read, or None if it is not in the table."""
    found = table("model_types")["models"].get(model_type)
    if found is None:
        return None
    return f"model_type {shown(model_type)} {_WORDS[found['kind']](found)}"


def unknown(model_type: str) -> str:
    """Return the error message for a model type that :func:`from_config` does not read."""
    refused = table("text_models")["refused"].get(model_type)
    if refused is not None:
        return f"model_type {shown(model_type)} is not supported: {refused}"
    defaults = table("config_defaults")
    why = reason(model_type)
    if why is not None:
        version = defaults["transformers"]
        if table("model_types")["models"][model_type]["kind"] == "convolution":
            return f"{why} (transformers {version})"
        return (
            f"{why} (transformers {version}). If your model rotates queries and keys, pass "
            'layout="half" or layout="interleaved"'
        )
    names = [*table("text_models")["models"], *table("vision_models")["models"], *defaults["parts"]]
    similar = near(model_type, names)
    hint = f"; did you mean {similar[0]!r}?" if similar else "."
    return (
        f"model_type {shown(model_type)} is not known{hint} No configuration says how channels are "
        'paired: pass layout="half" (as in Llama) or layout="interleaved" (as in GPT-J)'
    )


def _learned(found: Mapping[str, Any]) -> str:
    shown_needs = list(found["needs"].items())
    listed = ", ".join(f"{path} ({cls})" for path, cls in shown_needs[:4])
    more = f" and {len(shown_needs) - 4} more" if len(shown_needs) > 4 else ""
    why = f"; {found['why']}" if "why" in found else ""
    return (
        "has a learned encoding, whose numbers are in the checkpoint and in no configuration: "
        f"{listed}{more}{why}. Give the numbers to the class in parentheses"
    )


def _parts(found: Mapping[str, Any]) -> str:
    listed = ", ".join(f"{part!r} ({model_type})" for part, model_type in found["parts"].items())
    return f"is made of other models: pass part=, one of {listed}"


_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "learned": _learned,
    "parts": _parts,
    "none": lambda found: f"encodes no positions: {found['why']}",
    "convolution": lambda found: (
        "has no encoding in its configuration: the positions come from a convolution over its "
        f"tokens, whose weights are in the checkpoint: {', '.join(found['needs'])}. Give them to "
        "ConvPositions"
    ),
    "code": lambda found: f"has no encoding that the configuration determines: {found['why']}",
}
