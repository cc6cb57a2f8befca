"""Write lines of Python that define ``fn``, the judged function, for arrays of NumPy."""

from __future__ import annotations

import inspect
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import replace
from keyword import iskeyword
from pathlib import Path
from types import ModuleType
from typing import Any

from posenc_ref import Encoding
from posenc_ref.conformance.calling.instances import MethodOf
from posenc_ref.conformance.harness.driver import Driver
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.report import Finding

#: How each library imports itself, where that is not ``import NAME``.
_IMPORTS = {"jax": "import jax.numpy as jnp", "dask": "import dask.array"}
#: How each library makes its array from ``a``, where that is not ``NAME.asarray(a)``.
#: A copy has its elements in order, which ``x[..., channels]`` of NumPy has not.
_ARRAYS = {
    "torch": "torch.asarray(a.copy())",
    "jax": "jnp.asarray(a)",
    "dask": "dask.array.asarray(a)",
}
#: The same for bfloat16, which NumPy lacks.
_COARSE = {
    "torch": "torch.asarray(a.copy()).to(torch.bfloat16 if a.dtype.kind == 'f' else torch.int64)",
    "jax": "jnp.asarray(a, 'bfloat16' if a.dtype.kind == 'f' else None)",
}


def declaration(encoding: Encoding) -> tuple[str, str]:
    """Return the names to import from posenc_ref, and the encoding as a Python expression."""
    shown = repr(encoding)
    if "<" in shown:  # long lists are shortened
        return "from_dict", f"from_dict({encoding.to_dict()!r})"
    scaling = getattr(encoding, "scaling", None)
    values = [encoding] if scaling is None else [encoding, scaling]
    return ", ".join(type(value).__name__ for value in values), shown


def runnable(finding: Finding, driver: Driver) -> Finding:
    """Return the finding with the lines that define ``fn``.

    A function that no import finds, such as a closure, gets a comment instead.
    """
    if not finding.reproduce:
        return finding
    first, *rest = finding.reproduce.splitlines()  # the first line imports NumPy
    at = next((i for i, line in enumerate(rest) if line.startswith("encoding = ")), -1) + 1
    imports, defined = definition(driver, "fn", rest[at - 1] if at else "")
    return replace(
        finding, reproduce="\n".join([first, *imports, *rest[:at], *defined, *rest[at:]])
    )


def definition(driver: Driver, name: str, declared: str = "") -> tuple[list[str], list[str]]:
    """Return the imports, and the lines that define a driver's function for arrays of NumPy.

    ``declared`` is the line between them, if it defines ``encoding``.
    """
    fn, library = driver.fn, driver.backend_name
    what = "the judged function" if name == "fn" else "the function that is the declaration"
    own = {"fn": "theirs"}.get(name, f"their_{name}") if library != "numpy" else name
    if isinstance(fn, Implementation) and fn.how and fn.bound is not None:
        imports, call = _bound(fn.bound, f"{name}_target", what, declared)
        method = getattr(getattr(fn.call, "__func__", None), "__name__", "")
        views = (Implementation.queries.__name__, Implementation.pair.__name__)
        lines = [f"{own} = {call}{f'.{method}' * (method in views)}"]
    else:
        imports, lines = imported(fn, own, what), []
    if library == "numpy":
        return imports, lines
    made = _ARRAYS.get(library, f"{library}.asarray(a)")
    made = _COARSE.get(library, made) if driver.dtype == "bfloat16" else made
    if driver.device is not None and library == "torch":
        made = made.replace("a.copy()", f"a.copy(), device={driver.device!r}")
    imports.append(_IMPORTS.get(library, f"import {library}"))
    lines += [
        f"def {name}(*args):",
        f"    return {own}(*({made} if isinstance(a, np.ndarray) else a for a in args))",
    ]
    return imports, lines


def _bound(bound: Mapping[str, Any], name: str, what: str, declared: str) -> tuple[list[str], str]:
    """Return the imports for a call of ``bind`` with these arguments, and the call."""
    given = dict(bound)
    lines = imported(given.pop("target"), name, what)
    if "table" in given:
        more = imported(given["table"], "table", "what makes its tables")
        lines += [line for line in more if line not in lines]
        given["table"] = "table"
    lines += ["from posenc_ref.conformance import bind"]
    if "encoding" in given:
        names, given["encoding"] = declaration(given["encoding"])
        if declared == f"encoding = {given['encoding']}":
            given["encoding"] = "encoding"
        else:
            lines += [f"from posenc_ref import {names}"]
    as_code = ("encoding", "table")
    settings = (f"{n}={v if n in as_code else repr(v)}" for n, v in given.items())
    return lines, f"bind({', '.join([name, *settings])})"


def imported(fn: Any, name: str, what: str) -> list[str]:
    """Return the lines that import ``fn`` as ``name``, or a comment if no import finds it."""
    if isinstance(fn, Implementation) and fn.how:
        return [f"# {name} calls {what}: {fn.how}"]
    fn = fn.call if isinstance(fn, Implementation) else fn
    method = f".{fn.name}" if isinstance(fn, MethodOf) else ""
    found = _place(fn.owner if isinstance(fn, MethodOf) else fn)
    if found is None:
        return [f"# {name} is {what}"]
    module, path = found
    file = getattr(module, "__file__", None)
    if file is not None and (method or not _importable(module.__name__)):
        source = _shown(Path(file)) if "." not in module.__name__ else module.__name__
        return [
            "from posenc_ref.conformance.cli.options.loading import load_target",
            f"{name} = load_target({f'{source}:{path}{method}'!r})",
        ]
    first, *rest = path.split(".")
    lines = _search(module)
    if rest:
        return [*lines, f"from {module.__name__} import {first}", f"{name} = {path}"]
    alias = "" if first == name else f" as {name}"
    return [*lines, f"from {module.__name__} import {first}{alias}"]


def _importable(name: str) -> bool:
    """Return whether an import statement finds a file of this name in the first folder."""
    words = name.split(".")
    if not all(word.isidentifier() and not iskeyword(word) for word in words):
        return False
    return name not in sys.stdlib_module_names


def _place(fn: Any) -> tuple[ModuleType, str] | None:
    """Return the module of ``fn`` and its name there, or None if it has none."""
    if inspect.ismethod(fn) and not inspect.isclass(fn.__self__):
        owner = _place(fn.__self__)
        if owner is not None:
            return owner[0], f"{owner[1]}.{fn.__name__}"
    module = sys.modules.get(getattr(fn, "__module__", None) or "__main__")
    module = sys.modules["__main__"] if module is None else module
    path = getattr(fn, "__qualname__", "")
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part, None)
    if module.__name__ != "__main__" and (value is fn or _alike(value, fn)):
        return module, path
    # The attributes of a compiled function may name the compiler's module.
    for place in (module, *reversed(sys.modules.values())):
        if not isinstance(place, ModuleType):  # None keeps a module from being imported
            continue
        names = [name for name, known in vars(place).items() if known is fn]
        if names and place.__name__ != "__main__":
            return place, names[0]
    return None


def _alike(value: Any, fn: Any) -> bool:
    """Return whether a value is ``fn`` of a file that was loaded again, such as for its tables."""
    if isinstance(fn, type) and isinstance(value, type):
        return value.__qualname__ == fn.__qualname__ and vars(value).keys() == vars(fn).keys()
    return inspect.isfunction(fn) and inspect.isfunction(value) and fn.__code__ == value.__code__


def _search(module: ModuleType) -> list[str]:
    """Return the lines that put the folder of a single file on the import path, if it is needed."""
    file = getattr(module, "__file__", None)
    if file is None or "." in module.__name__:
        return []
    folder = Path(file).resolve().parent
    if str(folder) in sysconfig.get_paths().values():
        return []
    return ["import sys", f"sys.path.insert(0, {_shown(folder)!r})"]


def _shown(path: Path) -> str:
    """Return a path from the working folder if it is below it."""
    path, here = path.resolve(), Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()
