"""The Python files of the repository, and what they import, for the lints of this folder."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Functions that import a module by its name.
CALLS = ("import_module", "__import__", "find_spec")
#: What authors from outside wrote is kept as it came: no lint of style applies.
AUTHORS = tuple(f"{one.relative_to(ROOT)}/" for one in ROOT.glob("tests/authors/*/"))


def sources(*folders, exempt=()):
    """Return the text of every Python file under these folders, by its path from the root."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    return {path: text for path, text in texts.items() if not path.startswith(tuple(exempt))}


def require_none(found):
    """Fail and list what was found, one on a line."""
    found = list(found)
    assert not found, "\n".join(["", *found])


def require_no_violations(violations, files):
    """Fail and list everything that ``violations(path, text)`` returns for these files."""
    require_none(
        [f"{path}: {found}" for path, text in files.items() for found in violations(path, text)]
    )


def module_name(path):
    """Return the import name of a file: backends/x.py is posenc_ref.backends.x."""
    parts = Path(path).with_suffix("").parts
    parts = parts if parts[0] == "posenc_ref" else ("posenc_ref", *parts)
    return ".".join(parts)


def importing(source):
    """Yield the nodes of a file that may import: expressions only where a function imports."""
    calls = any(name in source for name in CALLS)
    left = [ast.parse(source)]
    while left:
        node = left.pop()
        yield node
        left += [
            child
            for child in ast.iter_child_nodes(node)
            if calls or not isinstance(child, ast.expr)
        ]


def imported(node, module):
    """Return the full names that an import statement, or import_module("name"), asks for."""
    package = module.removesuffix(".__init__").split(".")
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(names=names, level=level, module=origin):
            if level:
                # One dot is the package itself: for a module, its name without the last part.
                depth = len(package) - level + module.endswith(".__init__")
                origin = ".".join([*package[:depth], *([origin] if origin else [])])
            return [f"{origin}.{alias.name}" for alias in names]
        case ast.Call(args=[ast.Constant(value=str(name)), *_], func=function):
            called = getattr(function, "attr", getattr(function, "id", ""))
            return [name] if called in CALLS else []
    return []
