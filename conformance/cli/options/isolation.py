"""Keep the checks of a manifest apart: each imports its own modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


@contextmanager
def own_modules(folder: Path) -> Iterator[None]:
    """Undo, at the end, the imports from ``folder`` and from folders put on the import path here.

    Otherwise a second function, whose file imports another ``helpers.py``, would get the first one.
    Installed libraries stay imported, and so does ``posenc_ref``: two copies of a class differ.
    """
    before, path = set(sys.modules), [*sys.path]
    try:
        yield
    finally:
        folders = {Path(name).resolve() for name in sys.path if name not in path}
        folders.add(folder.resolve())
        sys.path[:] = path
        for name in set(sys.modules) - before:
            own = name.partition(".")[0] == "posenc_ref"
            if not own and any(_lies_in(folder, sys.modules[name], name) for folder in folders):
                del sys.modules[name]


def _lies_in(folder: Path, module: ModuleType, name: str) -> bool:
    """Return whether the import path finds a module in ``folder`` itself, not in one below."""
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    if file is None or not Path(file).is_relative_to(folder):
        return False
    first = Path(file).relative_to(folder).parts[:1]
    return bool(first) and Path(first[0]).stem == name.partition(".")[0]
