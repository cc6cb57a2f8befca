"""Expected outputs of registered examples, computed once in 50 digits.

A process computes them once. Processes that share a folder (:func:`kept_in`) compute them once
between them: each reads from files what another has written.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from .output import Output
from .recipe import Recipe
from .reference import Entry

_ARRAYS = tuple(field.name for field in fields(Output) if field.type != "bool")
_folder: Path | None = None


@contextlib.contextmanager
def kept_in(folder: str | None) -> Iterator[None]:
    """Read and write the outputs in ``folder``, whose processes must run the same code."""
    global _folder
    before, _folder = _folder, None if folder is None else Path(folder)
    try:
        yield
    finally:
        _folder = before


@functools.cache
def cases(entry: Entry, name: str) -> tuple[tuple[Recipe, Output], ...]:
    """Return each case of one example, like :meth:`Entry.cases`."""
    file = None if _folder is None else _folder / f"{entry.name}-{name}.npz"
    if file is not None and file.exists():
        recipes = entry.group(name).cases
        return tuple(zip(recipes, _read(file, len(recipes)), strict=True))
    found = tuple(entry.cases(name))
    if file is not None:
        _write(file, [output for _, output in found])
    return found


def _write(file: Path, outputs: Sequence[Output]) -> None:
    """Write outputs of floats; another process sees the whole file or none."""
    arrays = {
        f"{n}-{name}": part
        for n, output in enumerate(outputs)
        for name in _ARRAYS
        if (part := getattr(output, name)) is not None
    }
    handle, path = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(handle, "wb") as new:
        np.savez(new, **arrays)
    os.replace(path, file)


def _read(file: Path, count: int) -> list[Output]:
    with np.load(file, allow_pickle=False) as held:
        return [
            Output(**{name: held[key] for name in _ARRAYS if (key := f"{n}-{name}") in held})
            for n in range(count)
        ]
