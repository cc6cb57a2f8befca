"""Read a manifest: the TOML file of ``posenc ci``, with a table for each function.

A table becomes a command line of ``posenc check``: its keys are the names of options, so whatever
``check`` accepts is accepted here, and ``check`` converts and judges it.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from posenc_ref._documents import check_document, read_text, require_regular
from posenc_ref._text import near, shown
from posenc_ref.limits import DEPTH

from .loading import UsageError

#: Options of ``check`` that belong to the whole run, so they are options of ``ci`` itself.
OF_THE_RUN = ("help", "json", "junit", "ndjson", "in-process")
TARGET, EXEC, DTYPE = "target", "exec", "dtype"
#: Options that take numbers, and those that take positive numbers alone; others take texts.
NUMBERS = ("head-dim", "max-position", "memory", "timeout")
POSITIVE = ("memory", "timeout")
#: Options whose value is a path, and those where it may stand after an @.
PATHS, WITH_PATH = ("config", "recorded", "against"), ("encoding", "override", "fact")
#: Only one of these declares the encoding: a check that has one ignores those of [defaults].
DECLARATIONS = ("encoding", "preset", "config")


@dataclass(frozen=True)
class Asked:
    """One check of a manifest."""

    name: str
    where: str  #: the file and the table, for messages
    arguments: tuple[str, ...]  #: of ``posenc check``


@dataclass(frozen=True)
class Keys:
    """The keys that a table may have: the options of ``posenc check``."""

    flags: frozenset[str]
    lists: frozenset[str]  #: options that may be given several times
    single: frozenset[str]

    @classmethod
    def of(cls, command: Any) -> Keys:
        """Return the keys for the click command of ``check``."""
        found: dict[str, set[str]] = {"flags": set(), "lists": set(), "single": set()}
        for option in command.params:
            if option.param_type_name != "option":
                continue
            name = max(option.opts, key=len).removeprefix("--")
            kind = "flags" if option.is_flag else "lists" if option.multiple else "single"
            found[kind].add(name)
        return cls(**{kind: frozenset(names - {*OF_THE_RUN}) for kind, names in found.items()})

    @property
    def every(self) -> list[str]:
        """Return all names, ``target`` first."""
        return [TARGET, *sorted(self.flags | self.lists | self.single)]


def read_manifest(path: Path, keys: Keys) -> list[Asked]:
    """Return the checks of a manifest.

    Raises
    ------
    UsageError
        If the file is not TOML, has no check, or a table has an unknown key or a value of a wrong
        type; the message names the file, the table and the key.
    """
    try:
        require_regular(path)
    except ValueError as error:
        raise UsageError(error) from error
    if not path.is_file():
        raise UsageError(
            f"there is no manifest {path}: name another file, or write one with a [[check]] table "
            "for each function"
        )
    try:
        body = tomllib.loads(read_text(path))
        check_document(body, str(path))
    except RecursionError:
        raise UsageError(
            f"{path} must have at most {DEPTH} levels of lists and tables, it has more"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    except ValueError as error:  # it is no text, too large, or a number has 5000 digits
        raise UsageError(f"{path} cannot be read: {error}") from error
    _known(str(path), "table", body, ["defaults", "check"])
    defaults, tables = body.get("defaults", {}), body.get("check", [])
    if not isinstance(defaults, dict):
        raise UsageError(f"{path}: [defaults] must be a table, got {shown(defaults)}")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{path}: write [[check]] with two brackets, a table for each function")
    if not tables:
        raise UsageError(
            f"{path} has no check: write a [[check]] table for each function, with its target "
            'such as "file.py:function"'
        )
    shared = [key for key in keys.every if key not in (TARGET, EXEC)]
    _known(f"{path}, [defaults]", "key", defaults, shared)
    _arguments(f"{path}, [defaults]", defaults, keys)  # a wrong value is reported once, and here
    found = []
    for n, table in enumerate(tables, 1):
        where = f"{path}, [[check]] {n}"
        _known(where, "key", table, keys.every)
        if (TARGET in table) == (EXEC in table):
            raise UsageError(f"{where}: give either target or exec")
        merged = _merged(defaults, table)
        dtypes = merged.get(DTYPE)
        several = dtypes if isinstance(dtypes, list) else [dtypes] if DTYPE in merged else []
        if isinstance(dtypes, list) and not dtypes:
            raise UsageError(f"{where}, key 'dtype': the list is empty; name at least one dtype")
        variants = [merged | {DTYPE: dtype} for dtype in several] or [merged]
        found += [(where, variant, _arguments(where, variant, keys)) for variant in variants]
    names = _names([variant for _, variant, _ in found])
    return [
        Asked(name, where, arguments)
        for name, (where, _, arguments) in zip(names, found, strict=True)
    ]


def _merged(defaults: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    declared = any(key in table for key in DECLARATIONS)
    kept = {k: v for k, v in defaults.items() if not (declared and k in DECLARATIONS)}
    return kept | dict(table)


def _known(where: str, what: str, table: Mapping[str, Any], allowed: Sequence[str]) -> None:
    for key in table:
        if key not in allowed:
            similar = near(key, allowed)
            hint = f"did you mean {similar[0]}? " if similar else ""
            raise UsageError(
                f"{where}: unknown {what} {shown(key)}; {hint}allowed: {', '.join(allowed)}"
            )


def _arguments(where: str, table: Mapping[str, Any], keys: Keys) -> tuple[str, ...]:
    """Return a table as arguments of ``posenc check``."""
    found = []
    for key, value in table.items():
        if key in keys.flags:
            if not isinstance(value, bool):
                raise UsageError(f"{where}, key {key!r}: must be true or false, got {shown(value)}")
            found += [f"--{key}"] if value else []
        elif key != TARGET:
            several = isinstance(value, list) and (key in keys.lists or key == DTYPE)
            for one in value if several else [value]:
                found.append(f"--{key}={_text(where, key, one)}")
    if TARGET in table:
        found += ["--", _text(where, TARGET, table[TARGET])]
    return tuple(found)


def _text(where: str, key: str, value: Any) -> str:
    """Return a value as the text of an option; a table becomes JSON, as ``--encoding`` takes it."""
    if isinstance(value, dict):
        return json.dumps(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and key not in NUMBERS:
        raise UsageError(f"{where}, key {key!r}: must be a text, got {shown(value)}: quote it")
    if is_number and key in POSITIVE and not value > 0:
        raise UsageError(f"{where}, key {key!r}: must be a positive number, got {shown(value)}")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(
            f"{where}, key {key!r}: must be one text or number, got {shown(value)}; only dtype and "
            "options that may be repeated take a list"
        )
    _require_inside(f"{where}, key {key!r}", key, str(value))
    return str(value)


def _require_inside(where: str, key: str, text: str) -> None:
    """Raise UsageError if a value names a file that is not below the manifest's folder.

    The code of target and exec may lie anywhere: a manifest is as trusted as the code it names.
    """
    if key in WITH_PATH:
        text = text.partition("=")[2] if key == "fact" else text
        if not text.startswith("@"):
            return
        text = text[1:]
    elif key not in PATHS:
        return
    # Windows reads both signs, and C: at the beginning.
    for path in (PurePosixPath(text), PureWindowsPath(text)):
        if path.anchor or ".." in path.parts:
            raise UsageError(
                f"{where}: must name a file in the manifest's folder or below it, by a relative "
                f"path without .., got {shown(text)}; copy the file there"
            )


def _names(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a name for each check: its target, and in brackets what tells it from others.

    An expectation is no part of the name, which would change when a bug is mended.
    """
    targets = [str(table.get(TARGET, table.get(EXEC))) for table in tables]
    found = []
    for target, table in zip(targets, tables, strict=True):
        own = [t for t, name in zip(tables, targets, strict=True) if name == target]
        keys = [key for key in table if key not in ("expect", "reason")]
        differing = [key for key in keys if any(t.get(key) != table[key] for t in own)]
        values = [str(table[key]) for key in differing if isinstance(table[key], str | int)]
        found.append(f"{target} [{', '.join(values)}]" if values else target)
    seen: Counter[str] = Counter()
    for n, name in enumerate(found):
        seen[name] += 1
        found[n] = f"{name} #{seen[name]}" if seen[name] > 1 else name
    return found
