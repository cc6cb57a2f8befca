"""The check of ``schema.json``: the part of JSON Schema that this one schema uses, and no more.

Not the package jsonschema, because a vendored copy of the vectors should verify wherever NumPy is;
the tests compare the two on right and on broken files.  A keyword that is not implemented here is
an error, so that the schema cannot ask for something nobody looks at.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
_SILENT = {"$schema", "$defs", "title", "description"}


@functools.cache
def schema() -> dict[str, Any]:
    """The content of ``schema.json``."""
    text = (Path(__file__).parent / "schema.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def violations(value: Any, definition: str = "file") -> list[str]:
    """Where ``value`` breaks a definition of the schema, in words."""
    return list(_check(value, {"$ref": f"#/$defs/{definition}"}, definition))


_Keyword = Callable[[Any, Any, str, dict[str, Any]], Iterator[str]]


def _check(value: Any, rules: dict[str, Any], where: str) -> Iterator[str]:
    for keyword, rule in rules.items():
        if keyword in _SILENT:
            continue
        if keyword not in _KEYWORDS:
            raise NotImplementedError(
                f"schema.json uses {keyword!r}, which schema.py does not know"
            )
        yield from _KEYWORDS[keyword](value, rule, where, rules)


def _ref(value: Any, rule: str, where: str, rules: Any) -> Iterator[str]:
    yield from _check(value, schema()["$defs"][rule.removeprefix("#/$defs/")], where)


def _any_of(value: Any, rule: list[Any], where: str, rules: Any) -> Iterator[str]:
    tried = [list(_check(value, option, where)) for option in rule]
    if all(tried):
        yield f"{where} is none of {len(rule)} allowed forms ({min(tried, key=len)[0]})"


def _type(value: Any, rule: str, where: str, rules: Any) -> Iterator[str]:
    kinds = _TYPES[rule]
    if not isinstance(value, kinds) or (isinstance(value, bool) and rule == "integer"):
        yield f"{where} must be of type {rule}, got {type(value).__name__}"


def _enum(value: Any, rule: list[Any], where: str, rules: Any) -> Iterator[str]:
    if value not in rule:
        yield f"{where} must be one of {rule}, got {value!r}"


def _pattern(value: Any, rule: str, where: str, rules: Any) -> Iterator[str]:
    if isinstance(value, str) and not re.search(rule.replace("$", r"\Z"), value):
        yield f"{where} must match {rule}, got {value[:40]!r}"


def _length(value: Any, rule: int, where: str, rules: Any) -> Iterator[str]:
    if isinstance(value, str | list) and len(value) < rule:
        yield f"{where} must have at least {rule} of what it holds, got {len(value)}"


def _minimum(value: Any, rule: int, where: str, rules: Any) -> Iterator[str]:
    if isinstance(value, int) and value < rule:
        yield f"{where} must be at least {rule}, got {value}"


def _unique(value: Any, rule: bool, where: str, rules: Any) -> Iterator[str]:
    if isinstance(value, list) and len(value) > len({json.dumps(v) for v in value}):
        yield f"{where} names something twice"


def _items(value: Any, rule: dict[str, Any], where: str, rules: Any) -> Iterator[str]:
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _check(item, rule, f"{where}[{i}]")


def _required(value: Any, rule: list[str], where: str, rules: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{where} lacks {name!r}" for name in rule if name not in value)


def _properties(value: Any, rule: dict[str, Any], where: str, rules: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, own in rule.items():
            if name in value:
                yield from _check(value[name], own, f"{where}.{name}")


def _additional(value: Any, rule: Any, where: str, rules: dict[str, Any]) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    for name in value.keys() - rules.get("properties", {}).keys():
        if rule is False:
            yield f"{where} has an unknown member {name!r}"
        else:
            yield from _check(value[name], rule, f"{where}.{name}")


_KEYWORDS: dict[str, _Keyword] = {
    "$ref": _ref,
    "anyOf": _any_of,
    "type": _type,
    "enum": _enum,
    "pattern": _pattern,
    "minLength": _length,
    "minItems": _length,
    "minimum": _minimum,
    "uniqueItems": _unique,
    "items": _items,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
}
