"""Replace the rope type of a default configuration, as for long-context models."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc_ref.conformance.surveys.record import one_line

from .case import Unjudged

#: The parameters of each rope type.  They make YaRN's attention factor differ from 1, and the
#: lengths are so short that positions below and above them are judged.
ROPE_TYPES: dict[str, dict[str, Any]] = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 2048},
    "yarn-untruncated": {"rope_type": "yarn", "factor": 32.0, "truncate": False,
                         "original_max_position_embeddings": 4096},  # as in gpt-oss
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 2048},
    "longrope": {"factor": 4.0, "original_max_position_embeddings": 2048},
}  # fmt: skip
#: Classes that take ``rope_scaling``, the older name, for some layers only.
OLDER_NAME = ("DeepseekV4Config",)


def rescaled(module: Any, config: Any, rope_type: str, settings: Mapping[str, Any]) -> Any:
    """Return a copy of ``config`` with another rope type instead of the default one.

    Raises :class:`Unjudged` if none of its ``rope_parameters`` has the rope type "default", or if
    the configuration class rejects ``rope_type``.
    """
    given = getattr(config, "rope_parameters", None)
    nested = isinstance(given, Mapping) and not isinstance(given.get("rope_type"), str)
    entries = given if nested else {"": given}
    changed: dict[str, Any] = {}
    for label, entry in (entries or {}).items():
        changed[label] = entry
        if isinstance(entry, Mapping) and entry.get("rope_type") == "default":
            changed[label] = {**entry, **_parameters(module, label, rope_type)}
    if changed == entries or not changed:
        raise Unjudged("refused", "its configuration has no rope type to replace")
    name = type(config).__name__
    key, value = "rope_parameters", changed if nested else changed[""]
    if name in OLDER_NAME:
        key, value = "rope_scaling", _parameters(module, next(iter(changed)), rope_type)
    try:
        return type(config)(**copy.deepcopy({**settings, key: value}))
    except Exception as error:
        reason = f"its configuration class rejects the rope type: {one_line(error, 200)}"
        raise Unjudged("refused", reason) from error


def _parameters(module: Any, label: str, rope_type: str) -> dict[str, Any]:
    found = {"rope_type": rope_type, **ROPE_TYPES[rope_type]}
    if rope_type == "longrope":
        table = getattr(module, f"{label}_inv_freq" if label else "inv_freq", None)
        if table is None:
            raise Unjudged("refused", "the module keeps no frequencies")
        pairs = int(table.numel())
        found["short_factor"] = [1.0 + k / pairs for k in range(pairs)]
        found["long_factor"] = [float(f) for f in np.round(np.geomspace(1, 16, pairs), 3)]
    return found
