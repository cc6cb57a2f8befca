"""List what is public, and compare the list with the one committed: python tools/public_api.py.

The list is ``docs/generated/public-api.txt``; ``--write`` renews it.  docs/releasing.md says
what the list promises.
"""

import argparse
import difflib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import typer  # noqa: E402

import posenc_ref  # noqa: E402
from posenc_ref import backends, conformance  # noqa: E402
from posenc_ref.conformance.cli import app  # noqa: E402

FILE = ROOT / "docs" / "generated" / "public-api.txt"


def lines() -> list[str]:
    """Return a line for everything that is public."""
    found = [f"specification {posenc_ref.SPEC_VERSION}"]
    for package in (posenc_ref, backends, conformance):
        for name in sorted(package.__all__):
            found += _named(f"{package.__name__}.{name}", getattr(package, name))
    found += [f"surface {name}" for name in sorted(conformance.SURFACES)]
    found += [f"code {name}" for name in sorted(conformance.CODES)]
    found += [f"preset {name}" for name in sorted(posenc_ref.presets())]
    return [*found, *_commands()]


def _named(name: str, value: Any) -> Iterator[str]:
    """Yield a line for a public object, and for each public name that a class defines itself.

    Names of a public base class are listed there.
    """
    yield name + (_parameters(value) if callable(value) else "")
    if not inspect.isclass(value):
        return
    public = (getattr(posenc_ref, other) for other in posenc_ref.__all__)
    listed = {other for other in public if inspect.isclass(other)} - {value}
    bases = [base for base in value.__mro__ if base in listed or base.__module__ == "builtins"]
    inherited = set().union(*map(dir, bases))
    for inner in sorted(dir(value)):
        found = inspect.getattr_static(value, inner)
        if inner.startswith("_") or (inner in inherited and inner not in vars(value)):
            continue
        function = getattr(found, "__func__", found)
        yield f"{name}.{inner}" + (_parameters(function) if inspect.isfunction(function) else "")


def _parameters(value: Any) -> str:
    """Return the names of parameters, with = after those that may be left out."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    words = []
    for p in parameters:
        if p.name == "self":
            continue
        if p.kind is p.KEYWORD_ONLY and "*" not in words and not any(w[0] == "*" for w in words):
            words.append("*")
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        words.append(stars + p.name + ("=" if p.default is not p.empty else ""))
    return f"({', '.join(words)})"


def _commands() -> Iterator[str]:
    """Yield a line for every command of ``posenc``, and for each of its options."""
    group = typer.main.get_command(app)
    for name, command in sorted(getattr(group, "commands", {}).items()):
        yield f"posenc {name}"
        for parameter in command.params:
            names = [*parameter.opts, *parameter.secondary_opts]
            yield from (f"posenc {name} {one}" for one in sorted(names) if one != "--help")


def changes() -> list[str]:
    """Return the lines that the committed list lacks (+) or has too many (-)."""
    before = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    return [line for line in difflib.ndiff(before, lines()) if re.match(r"[+-] ", line)]


def main() -> int:
    """Compare or write the list."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="renew the committed list")
    if parser.parse_args().write:
        FILE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
    found = changes()
    print("\n".join(found) or f"{len(lines())} public names, as committed")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
