"""Put a mutant into a process that has imported the package already.

A mutant inside a function needs no import: the function gets the code of the mutant. For a mutant
that changes what a module or a class does when it is imported, the module is imported again. If
that decides nothing, the mutant needs a process that has not imported the package.
"""

from __future__ import annotations

import gc
import inspect
import sys
import warnings
from collections.abc import Iterator
from types import CodeType, FunctionType

Key = tuple[str, str, int]


def functions() -> dict[Key, list[FunctionType]]:
    """Return all functions of this process by file, qualified name and first line."""
    found: dict[Key, list[FunctionType]] = {}
    for thing in gc.get_objects():
        if type(thing) is FunctionType:
            code = thing.__code__
            key = (code.co_filename, code.co_qualname, code.co_firstlineno)
            found.setdefault(key, []).append(thing)
    return found


def reload(module: str, text: str) -> None:
    """Import a module again, from a text: its functions, old and new, see its new constants.

    What other modules imported from it stays old, and what it registers is registered twice. So
    tests may fail afterwards, with a mutant or without: those that do tell nothing.
    """
    if module in sys.modules:
        namespace = sys.modules[module].__dict__
        exec(_compiled(text, namespace["__file__"]), namespace)


def swap(found: dict[Key, list[FunctionType]], filename: str, before: str, after: str) -> bool:
    """Give the functions of a file the mutant's code; return False if an import must do that."""
    old, new = (_compiled(text, filename) for text in (before, after))
    changed = _changed(old, new)
    for mine, theirs in changed or ():
        for function in found.get((filename, mine.co_qualname, mine.co_firstlineno), ()):
            function.__code__ = theirs
    return changed is not None


def _compiled(text: str, filename: str) -> CodeType:
    with warnings.catch_warnings(action="ignore"):  # a mutant may compare a literal with ``is not``
        return compile(text, filename, "exec", dont_inherit=True)


def _changed(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    """Return the functions that differ, or hold one that does; None if an import differs."""
    mine, theirs = list(_inner(old)), list(_inner(new))
    is_function = bool(old.co_flags & inspect.CO_OPTIMIZED)
    same = _own(old) == _own(new)
    if len(mine) != len(theirs) or not (same or is_function) or old.co_freevars != new.co_freevars:
        return None
    parts = [_changed(*pair) for pair in zip(mine, theirs, strict=True)]
    if any(part is None for part in parts):
        return None
    found = [pair for part in parts for pair in part or ()]
    return [*found, (old, new)] if is_function and (found or not same) else found


def _inner(code: CodeType) -> Iterator[CodeType]:
    return (value for value in code.co_consts if isinstance(value, CodeType))


def _own(code: CodeType) -> tuple[object, ...]:
    """Return what a code does, without the functions that it makes and without line numbers."""
    values = [(type(v), repr(v)) for v in code.co_consts if not isinstance(v, CodeType)]
    return code.co_code, values, code.co_names, code.co_varnames, code.co_exceptiontable
