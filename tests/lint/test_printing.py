"""Commands print through one function, which makes foreign text printable."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The function itself, and the version, which has no foreign text.
ALLOWED = {"options/output.py": 1, "__init__.py": 1}
PRINTS = re.compile(r"\b(?:typer|click)\.(?:secho|echo)\(|(?<![\w.\"])print\(")


def test_commands_print_through_say():
    folder, found = ROOT / "conformance/cli", {}
    for path in sorted(folder.rglob("*.py")):
        count = len(PRINTS.findall(path.read_text(encoding="utf-8")))
        if count:
            found[path.relative_to(folder).as_posix()] = count
    assert found == ALLOWED, "print by say() of conformance/cli/options/output.py"
