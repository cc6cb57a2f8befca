"""Write lines of Python that define ``fn``, the judged function, for arrays of NumPy."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from posenc_ref.conformance.harness.driver import Driver
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.report import Finding

#: How each library imports itself, where that is not ``import NAME``.
_IMPORTS = {"jax": "import jax.numpy as jnp", "dask": "import dask.array"}
#: How each library makes its array from ``a``, where that is not ``NAME.asarray(a)``.
_ARRAYS = {"jax": "jnp.asarray(a)", "dask": "dask.array.asarray(a)"}
#: The same for bfloat16, which NumPy lacks.
_COARSE = {
    "torch": "torch.asarray(a).to(torch.bfloat16 if a.dtype.kind == 'f' else torch.int64)",
    "jax": "jnp.asarray(a, 'bfloat16' if a.dtype.kind == 'f' else None)",
}


def runnable(finding: Finding, driver: Driver) -> Finding:
    """Return the finding with lines before the ones that reproduce it: they define ``fn``.

    A function that no import finds, such as a closure, gets a comment instead.
    """
    if not finding.reproduce:
        return finding
    library = driver.backend_name
    lines = imported(driver.fn, "fn" if library == "numpy" else "theirs")
    if library != "numpy":
        made = _ARRAYS.get(library, f"{library}.asarray(a)")
        made = _COARSE.get(library, made) if driver.dtype == "bfloat16" else made
        if driver.device is not None and library == "torch":
            made = made.replace("(a)", f"(a, device={driver.device!r})")
        lines += [
            _IMPORTS.get(library, f"import {library}"),
            "def fn(*args):",
            f"    return theirs(*({made} if isinstance(a, np.ndarray) else a for a in args))",
        ]
    first, *rest = finding.reproduce.splitlines()  # the first line imports NumPy
    return replace(finding, reproduce="\n".join([first, *lines, *rest]))


def imported(fn: Callable[..., Any], name: str) -> list[str]:
    """Return the lines that import ``fn`` as ``name``, or a comment if no import finds it."""
    if isinstance(fn, Implementation) and fn.how:
        return [f"# {name} calls the judged function: {fn.how}"]
    fn = fn.call if isinstance(fn, Implementation) else fn
    found = _place(fn)
    if found is None:
        return [f"# {name} is the judged function"]
    module, path = found
    first, *rest = path.split(".")
    lines = _search(module)
    if rest:
        return [*lines, f"from {module.__name__} import {first}", f"{name} = {path}"]
    alias = "" if first == name else f" as {name}"
    return [*lines, f"from {module.__name__} import {first}{alias}"]


def _place(fn: Callable[..., Any]) -> tuple[ModuleType, str] | None:
    """Return the module of ``fn`` and its name there, or None if it has none."""
    module = sys.modules.get(getattr(fn, "__module__", None) or "__main__")
    if module is None or module.__name__ == "__main__":
        return None
    path = getattr(fn, "__qualname__", "")
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part, None)
    if value is fn:
        return module, path
    names = [name for name, known in vars(module).items() if known is fn]
    return (module, names[0]) if names else None


def _search(module: ModuleType) -> list[str]:
    """Return the lines that put the folder of a single file on the import path, if it is needed."""
    file = getattr(module, "__file__", None)
    if file is None or "." in module.__name__:
        return []
    folder, here = Path(file).resolve().parent, Path.cwd()
    if folder == here or str(folder) in sysconfig.get_paths().values():
        return []
    shown = folder.relative_to(here) if folder.is_relative_to(here) else folder
    return ["import sys", f"sys.path.insert(0, {shown.as_posix()!r})"]
