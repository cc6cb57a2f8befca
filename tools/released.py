"""Add the days on which releases were published to the report: python tools/released.py.

It asks the package index, which has them (PEP 700), for every release in
`docs/generated/libraries.ndjson` without one.  The page of libraries shows them.
"""

import argparse
import json
import os
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.utils import parse_sdist_filename, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import libraries  # noqa: E402
from tools.claims import REPORT  # noqa: E402

JSON = "application/vnd.pypi.simple.v1+json"


def days(project: Mapping[str, Any]) -> dict[str, str]:
    """Return the day of the first file of every release of a project, from the index's JSON."""
    found: dict[str, str] = {}
    for file in project["files"]:
        name, day = file["filename"], (file.get("upload-time") or "")[:10]
        parse = parse_wheel_filename if name.endswith(".whl") else parse_sdist_filename
        try:
            release = str(parse(name)[1])
        except ValueError:  # an installer for one system, or a name from before the rules
            continue
        if day:
            found[release] = min(day, found.get(release, day))
    return found


def asked(library: str) -> dict[str, str]:
    """Return the days of a library's releases from the package index."""
    index = os.environ.get("UV_DEFAULT_INDEX", "https://pypi.org/simple").rstrip("/")
    request = urllib.request.Request(f"{index}/{library}/", headers={"Accept": JSON})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return days(json.load(answer))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    found = libraries.read(REPORT)
    missing = {one.environment["library"] for one in found.values()
               if "released" not in one.environment}  # fmt: skip
    known = {library: asked(library) for library in sorted(missing)}
    for one in found.values():
        library, release = one.environment["library"], one.environment["release"]
        if release in known.get(library, {}):
            one.environment["released"] = known[library][release]
    libraries.write(REPORT, found, list(found))
