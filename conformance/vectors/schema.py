"""Check JSON against ``schema.json`` with jsonschema, which the extra ``cli`` installs."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

#: Longer messages are cut in the middle, because jsonschema quotes whole arrays.
_LONGEST = 200


@functools.cache
def schema() -> dict[str, Any]:
    """Return the content of ``schema.json``."""
    text = (Path(__file__).parent / "schema.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def violations(value: Any, definition: str = "file") -> list[str]:
    """Return each JSON path in ``value`` that violates a definition of the schema, and how."""
    return [
        f"{error.json_path.replace('$', definition, 1)}: {_short(error.message)}"
        for error in _validator(definition).iter_errors(value)
    ]


@functools.cache
def _validator(definition: str) -> Any:
    try:
        import jsonschema
    except ImportError as error:
        raise ImportError(
            f'verifying vectors needs jsonschema ({error}): pip install "posenc-ref[cli]"'
        ) from error
    return jsonschema.Draft202012Validator({**schema(), "$ref": f"#/$defs/{definition}"})


def _short(message: str) -> str:
    half = _LONGEST // 2
    return message if len(message) <= _LONGEST else f"{message[:half]} ... {message[-half:]}"
