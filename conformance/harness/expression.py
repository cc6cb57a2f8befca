"""Read an encoding written as in Python, such as ``RoPE(64, layout="half")``, without running it.

Only names of encodings and scalings, their arguments, and literals are read.
"""

from __future__ import annotations

import ast
import dataclasses
import warnings
from typing import Any

from posenc_ref._registry import classes, find
from posenc_ref._text import one_line, shown
from posenc_ref.limits import EXPRESSION, SHOWN

from .nearest import did_you_mean

#: The kinds of classes that an expression may name.
_KINDS = ("encoding", "scaling", "query_scale", "positions", "attention")


def read_expression(text: str) -> dict[str, Any]:
    """Return the JSON form of the encoding that ``text`` writes as a call of its class.

    Parameters
    ----------
    text : str
        For example ``RoPE(128, layout="half", scaling=YaRN(32.0, 4096))``.

    Returns
    -------
    dict
        As :func:`posenc_ref.from_dict` takes it; classes and values are not checked yet.

    Raises
    ------
    ValueError
        The text is no such call; the message quotes the part that cannot be read.
    """
    if len(text) > EXPRESSION:
        raise ValueError(f"must have at most {EXPRESSION} characters, got {len(text)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # such as 1if, which is refused below
            body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        why = getattr(error, "msg", error)
        raise ValueError(f"cannot be read: {why} in {shown(text)}") from error
    except (RecursionError, MemoryError):  # Python's parser says both of deep nesting
        raise ValueError(f"cannot be read: it is nested too deeply in {shown(text)}") from None
    if not isinstance(body, ast.Call | ast.Name | ast.Attribute):
        raise ValueError(f"must be one call, got {shown(text)}")
    try:
        return _called(body)
    except RecursionError:
        raise ValueError(f"cannot be read: it is nested too deeply in {shown(text)}") from None


def class_name(name: str, kind: str) -> str:
    """Return the name of the class of this kind, found without case, or ``name`` itself."""
    if find(kind, name):
        return name
    return {known.lower(): known for known in classes(kind)}.get(name.lower(), name)


def _called(node: ast.expr) -> dict[str, Any]:
    """Return the JSON form of a call; a bare name is a call without arguments."""
    call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    named = call.func
    cls = _class_of(named)
    name = cls.__name__
    found: dict[str, Any] = {cls.kind: name}
    if call.args:
        fields = [f.name for f in dataclasses.fields(cls) if not f.kw_only]
        if len(call.args) > len(fields):
            first = one_line(ast.unparse(call.args[len(fields)]), SHOWN)
            raise ValueError(f"{name}: give the name of the field with {first}, as in base=10000.0")
        found |= {f: _value(a) for f, a in zip(fields, call.args, strict=False)}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise ValueError(f"{name}: write out the fields of {shown(ast.unparse(keyword.value))}")
        if keyword.arg in found:
            raise ValueError(f"{name}: the field {shown(keyword.arg)} is given twice")
        found[keyword.arg] = _value(keyword.value)
    return found


def _class_of(node: ast.expr) -> type[Any]:
    """Return the class that is called."""
    module = node.value if isinstance(node, ast.Attribute) else None  # as in posenc_ref.RoPE
    if not isinstance(module or node, ast.Name):
        raise ValueError(f"{shown(ast.unparse(node))} must be the name of a class")
    written = node.attr if isinstance(node, ast.Attribute) else ast.unparse(node)
    for kind in _KINDS:
        if cls := find(kind, written):
            return cls
    for kind in _KINDS:  # without case, for which every class is imported
        if cls := find(kind, class_name(written, kind)):
            return cls
    near = did_you_mean(written, [name for kind in _KINDS for name in classes(kind)])
    raise ValueError(f"there is no encoding and no scaling {shown(written)}{near}")


def _value(node: ast.expr) -> Any:
    """Return a literal, in the types of JSON, or the JSON form of a nested call."""
    if isinstance(node, ast.Call):
        return _called(node)
    try:
        return _plain(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError) as error:
        raise ValueError(
            f"{shown(ast.unparse(node))} is no value: write numbers, texts, True, False, None, "
            "tuples, lists and nested classes"
        ) from error


def _plain(value: Any) -> Any:
    return [_plain(v) for v in value] if isinstance(value, tuple | list) else value
