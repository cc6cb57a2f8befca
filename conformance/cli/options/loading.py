"""Load the functions and encodings that arguments of the command line name.

Failures raise :class:`UsageError`, which says what is expected and suggests similar names.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import shlex
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from posenc_ref import Attention, ConvPositions, Encoding, PositionRule, from_dict
from posenc_ref._documents import parse_json, read_text, require_regular
from posenc_ref._registry import find
from posenc_ref._text import indented, one_line, shown
from posenc_ref.backends import backends
from posenc_ref.conformance.calling.instances import ROTATES, MethodOf, methods
from posenc_ref.conformance.guide.names import encodings
from posenc_ref.conformance.harness.expression import class_name, read_expression
from posenc_ref.conformance.harness.nearest import did_you_mean
from posenc_ref.limits import HEADS, LONG_TEXT, SHOWN

EXAMPLE = 'RoPE(64, layout="half")'


class UsageError(Exception):
    """The command line is wrong; the message says how to correct it.

    Its lines after the first are indented, whatever the names and values in it are.
    """

    def __init__(self, message: object) -> None:
        super().__init__(indented(message, LONG_TEXT))


def refuse_options(options: Mapping[str, object], recorded: Path | None) -> None:
    """Raise UsageError for an option that is given and needs, or excludes, ``--recorded``."""
    for option, value in options.items():
        if value is not None:
            needed_by = "needs --recorded" if recorded is None else "is not for --recorded tensors"
            raise UsageError(f"{option} {needed_by}")


def command_words(command: str) -> list[str]:
    """Return the program and the arguments of ``--exec``; quotes keep words together.

    On Windows a backslash belongs to a path; elsewhere it escapes the next character.
    """
    try:
        if os.name == "nt":
            return [word.strip('"') for word in shlex.split(command, posix=False)]
        return shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--exec is not a command line: {error}") from None


def is_onnx(target: str | None) -> bool:
    """Return whether TARGET names an ONNX model."""
    return target is not None and target.lower().endswith(".onnx")


def load_target(target: str) -> Any:
    """Return what ``file.py:name`` or ``package.module:name`` names: a function, class or object.

    Methods are allowed (``module:Class.method``).  The folder of the file, or the
    working folder for a module, is put on the import path.
    """
    source, colon, name = target.rpartition(":")
    if len(one_line(target)) != len(target):
        raise UsageError(f"TARGET must be one line of printable characters, got {shown(target)}")
    # C:\rope.py has a colon, and no function.
    if not colon or not source or not name or {"/", "\\"} & {*name}:
        raise UsageError(
            f"TARGET must be file.py:function or package.module:function, got {target!r}"
        )
    is_file = source.endswith(".py") or "/" in source or "\\" in source
    found: Any = _load_file(Path(source)) if is_file else _load_module(source)
    owner, done, sign = found, source, ":"
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{done} has no {part!r}{_near(part, _functions(found))}")
        owner, found = found, getattr(found, part)
        done, sign = f"{done}{sign}{part}", "."
    if isinstance(owner, type) and inspect.isfunction(found):
        static = isinstance(inspect.getattr_static(owner, part), staticmethod)
        return found if static else MethodOf(owner, part)
    if not callable(found) and not any(methods(found, ROTATES)):
        raise UsageError(f"{target} is a {type(found).__name__}, not a function")
    return found


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        folder = path.parent if path.parent.is_dir() else Path()
        others = [p.name for p in folder.glob("*.py")]
        raise UsageError(f"there is no file {path}{_near(path.name, others)}")
    path = path.resolve()
    _on_path(path.parent)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    hidden = sys.modules.get(path.stem)
    sys.modules[path.stem] = module  # dataclasses and pickle look up their module there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        if hidden is None:
            del sys.modules[path.stem]
        else:
            sys.modules[path.stem] = hidden
        package = _package_of(path)
        if "attempted relative import" in str(error) and package:
            return _load_module(package)
        raise UsageError(f"{path.name} cannot be run: {_where(error, path)}") from error
    return module


def _package_of(path: Path) -> str:
    """Return the name of a file as a module of its package, and make that package importable."""
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if len(names) > 1:
        _on_path(folder)
    return ".".join(names) if len(names) > 1 else ""


def _load_module(name: str) -> ModuleType:
    _on_path(Path.cwd())
    try:
        return importlib.import_module(name)
    except Exception as error:
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent and f"{name}.".startswith(f"{absent}."):
            raise UsageError(
                f"there is no module {absent!r} here; is it installed, or did you mean "
                f"{name.replace('.', '/')}.py:...?"
            ) from error
        raise UsageError(f"{name} cannot be imported: {_where(error)}") from error


def _on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _where(error: BaseException, path: Path | None = None) -> str:
    """Return the exception as one line, with the line number in the user's file."""
    frames = traceback.extract_tb(error.__traceback__)
    at = [f for f in frames if path is not None and f.filename == str(path)]
    line = error.lineno if isinstance(error, SyntaxError) else at[-1].lineno if at else None
    absent = error.name if isinstance(error, ModuleNotFoundError) else None
    install = next((f"; {b.install}" for b in backends() if b.module == absent), "")
    text = one_line(f"{type(error).__name__}: {error}")
    return text + (f" (line {line})" if line else "") + install


def _functions(owner: Any) -> list[str]:
    """Return the public callables that a class or module defines; imported ones are left out."""
    mine = getattr(owner, "__name__", None) if isinstance(owner, ModuleType) else None
    return [
        name
        for name, value in getattr(owner, "__dict__", {}).items()
        if not name.startswith("_")
        and callable(value)
        and (mine is None or getattr(value, "__module__", mine) == mine)
    ]


def _near(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean ...?``, or some of the known names, or "" if there are none."""
    names = sorted(known, key=str.lower)
    listed = f"; there is {', '.join(names[:12])}" if names else ""
    return did_you_mean(name, names) or listed


def load_encoding(text: str, surface: str | None = None) -> Encoding:
    """Return the encoding that a text, or the text in ``@file``, declares."""
    value = load_declaration(text, surface)
    if not isinstance(value, Encoding):
        where = text[1:] if text.startswith("@") else "--encoding"
        raise UsageError(f"{where} must declare an encoding such as {EXAMPLE}, got {value!r}")
    return value


def load_declaration(
    text: str, surface: str | None = None
) -> Encoding | Attention | PositionRule | ConvPositions:
    """Return the encoding, attention or rule of position ids that a text or ``@file`` declares.

    The text is JSON, or a call such as ``RoPE(64, layout="half")``, which is read and not run.
    Names of classes are found without case. Learned arrays that the surface does not use may be
    omitted (:func:`unread`).
    """
    where = "--encoding"
    if text.startswith("@"):
        path = Path(text[1:])
        try:
            require_regular(path)
        except ValueError as error:
            raise UsageError(f"--encoding: {error}") from error
        if not os.path.isfile(path):  # unlike Path.is_file, False for a name that is too long
            folder = path.parent if os.path.isdir(path.parent) else None
            others = [p.name for p in folder.glob("*.json")] if folder else []
            raise UsageError(
                f"--encoding: there is no file {one_line(path, SHOWN)}{_near(path.name, others)}"
            )
        try:
            where, text = str(path), read_text(path)
        except ValueError as error:
            raise UsageError(f"--encoding: {error}") from error
    data = _declared(text, where)
    if isinstance(data.get("encoding"), str):
        name = data["encoding"] = class_name(data["encoding"], "encoding")
        for field, rows in unread(surface).items():
            if name == _LEARNED[field]:
                data.setdefault(field, [[0.0]] * _rows(where, data, rows))
        if find("encoding", name) is None:
            known = [c.__name__ for c in encodings()]
            raise UsageError(f"{where}: there is no encoding {shown(name)}{_near(name, known)}")
    try:
        value = from_dict(data)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {error}") from error
    if not isinstance(value, Encoding | Attention | PositionRule | ConvPositions):
        raise UsageError(f"{where} must declare an encoding such as {EXAMPLE}, got {value!r}")
    return value


def _rows(where: str, data: dict[str, Any], rows: int) -> int:
    """Return the number of rows of a table that is made up."""
    count = data.get("num_buckets", rows)
    if type(count) is not int or not 1 <= count <= HEADS:
        raise UsageError(f"{where}: num_buckets must be 1 to {HEADS}, got {shown(count)}")
    return count


def is_encoding(text: str) -> bool:
    """Return whether a text has the form that :func:`load_declaration` reads, and is no name."""
    return text.lstrip().startswith(("{", "@")) or "(" in text


def _declared(text: str, where: str) -> dict[str, Any]:
    """Return the JSON form of the encoding that the text declares.

    Messages quote the command line's own text; of a file they give the place only.
    """
    own = where == "--encoding"
    if not text.lstrip().startswith(("{", "[", '"')):
        try:
            return read_expression(text)
        except ValueError as error:
            what = f": {error}" if own else f" is neither JSON nor a call such as {EXAMPLE}"
            raise UsageError(f"{where}{what}; write it like {_SHELL}") from (error if own else None)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        of = f" of {shown(text.strip())}" if own else ""
        raise UsageError(
            f"{where} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}{of}; "
            f"write it like {_SHELL}"
        ) from error
    except (ValueError, RecursionError):
        pass  # as for all documents
    try:
        data = parse_json(text, where)
    except ValueError as error:
        raise UsageError(error) from error
    if not isinstance(data, dict):
        got = shown(data) if own else f"a value of type {type(data).__name__}"
        raise UsageError(f"{where} must be a JSON object, got {got}; write it like {_SHELL}")
    return data


#: How an encoding is written on the command line.
_SHELL = (
    f"{EXAMPLE} or "
    '{"encoding": "RoPE", "head_dim": 64, "layout": "half"}'
    ", in single quotes for the shell"
)
#: Learned arrays that some surface does not use, each with its encoding.
_LEARNED = {"table": "T5Bias", "weight": "Learned"}


def unread(surface: str | None) -> dict[str, int]:
    """Return the number of rows to make up for each learned array that a surface does not use."""
    rows = {"table": 32, "weight": 1024}
    kept = {"bucket": ["table"], "ids_from_tokens": ["weight"], "configuration": [*rows]}
    return {name: rows[name] for name in kept.get(surface or "", ())}
