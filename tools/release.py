"""Check that every file names the same release: python tools/release.py v0.1.0.

Prints what does not fit, and exits with 1 if there is anything.  docs/releasing.md describes the
steps of a release.
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The files that give the version of the package, each with the line that gives it.
PLACES = {
    "pyproject.toml": r'^version = "(.+)"$',
    "posenc_ref/__init__.py": r'^__version__ = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "recipe/recipe.yaml": r'^  version: "(.+)"$',
}


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """Return what keeps ``root`` from being released as ``tag``."""
    found = []
    wanted = tag.removeprefix("v")
    if not re.fullmatch(r"v\d+\.\d+\.\d+((a|b|rc)\d+)?", tag):
        found.append(f"the tag must be v and a version, such as v0.1.0, got {tag}")
    for file, pattern in PLACES.items():
        given = re.findall(pattern, (root / file).read_text(encoding="utf-8"), re.MULTILINE)
        if given != [wanted]:
            found.append(f"{file}: the version must be {wanted}, got {', '.join(given) or 'none'}")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"^## (.+)$", changelog, re.MULTILINE)
    if first is None or not re.fullmatch(rf"{re.escape(wanted)}, \d{{4}}-\d\d-\d\d", first[1]):
        got = "none" if first is None else first[1]
        found.append(f"CHANGELOG.md: the first section must be '{wanted}, DATE', got '{got}'")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found += [
        f"pyproject.toml: the address {name} exists nowhere: {address}"
        for name, address in project["urls"].items()
        if re.match(r"https://[^/]*\.example(/|$)", address)
    ]
    return found


def main() -> int:
    """Check the release that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tag", help="the tag of the release, such as v0.1.0")
    found = problems(parser.parse_args().tag)
    print("\n".join(found) or "every file names this release")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
