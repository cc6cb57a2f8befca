"""The tables of sines that a configuration states in full: nothing of them is learned.

Each line of ``data/other_models.json`` with the kind "sines" has the encoding, and ``dim``: the
configuration entries, or products of entries, that may hold its number of columns.  Further keys:

========  ======================================================================================
padding   The entry with the row of the padding, which the first position follows, and the number
          that stands for a missing entry.
fields    Fields of the encoding that configuration entries hold.
only      Configuration entries with the value that the code must have for this table, and the
          value that stands for a missing entry.
scaled    True if the table is multiplied by 1 / sqrt(dim).
========  ======================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from posenc_ref._json import from_dict
from posenc_ref._text import shown
from posenc_ref.models.config_facts import Settings
from posenc_ref.table import Table


def sines(settings: Settings, facts: Mapping[str, Any]) -> Table:
    """Return the table of sines of a model of ``data/other_models.json``."""
    for key, (wanted, missing) in facts.get("only", {}).items():
        value = settings.given(key)
        value = missing if value is None else value
        if value != wanted or isinstance(value, bool) is not isinstance(wanted, bool):
            raise settings.wrong(
                f"{key} must be {shown(wanted)} for a table of sines, got {shown(value)}; any "
                "other value means another encoding, or none"
            )
    body = {**facts["encoding"], "dim": _dim(settings, facts["dim"])}
    if "padding" in facts:
        key, missing = facts["padding"]
        padding = settings.given(key)
        body["offset"] = (missing if padding is None else settings.integer(key, minimum=0)) + 1
    for field, key in facts.get("fields", {}).items():
        if settings.given(key) is not None:
            body[field] = settings.given(key)
    if body.get("width_base") is not None and body["width_base"] == body.get("base"):
        del body["width_base"]
    if facts.get("scaled"):
        body["scale"] = body["dim"] ** -0.5
    try:
        made = from_dict(body)
    except (TypeError, ValueError) as error:
        raise settings.wrong(str(error)) from None
    assert isinstance(made, Table)
    return made


def _dim(settings: Settings, names: list[str]) -> int:
    for name in names:
        factors = name.split(" * ")
        if all(settings.given(factor) is not None for factor in factors):
            return math.prod(settings.integer(factor) for factor in factors)
    raise settings.wrong(f"{' or '.join(names)} is missing: the number of columns")
