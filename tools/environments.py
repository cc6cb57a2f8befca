"""The environments in which tools/libraries.py and tools/identified judge releases of libraries.

The rows are in `.ci/libraries.toml`; uv makes an environment for each.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.claims import claims  # noqa: E402

MANIFEST = ROOT / ".ci" / "libraries.toml"
#: The seconds after which a release is given up.
LIMIT = 1800


@dataclass(frozen=True)
class Row:
    """A release of a library, with what else is installed with it."""

    library: str
    release: str
    python: str
    packages: tuple[str, ...]
    newest: bool  #: the last release in the manifest is judged in more dtypes
    scripts: tuple[str, ...] = ()  #: the scripts of the claims about the library
    alone: bool = False  #: whether its own requirements are not installed

    @property
    def name(self) -> str:
        """Return the library and its release."""
        return f"{self.library} {self.release}"


def rows(manifest: dict[str, Any]) -> list[Row]:
    """Return the rows of a manifest."""
    common, scripts = manifest["common"], {}
    for claim in claims():
        scripts.setdefault(claim.library, {})[claim.script] = None
    return [
        Row(
            library,
            release,
            one.get("python", common["python"]),
            _packages(
                library,
                common["packages"],
                one.get("packages", ()),
                one.get("pins", {}).get(release, ()),
            ),
            release == one["releases"][-1],
            tuple(scripts.get(library, ())),
            release in one.get("alone", ()),
        )
        for library, one in manifest["libraries"].items()
        for release in one["releases"]
    ]


def _packages(library: str, *lists: Iterable[str]) -> tuple[str, ...]:
    """Return the packages of all lists; a later list replaces those of the same name.

    ``library`` is left out, because the row has its release.
    """
    named = {package.partition("==")[0]: package for packages in lists for package in packages}
    named.pop(library, None)
    return tuple(named.values())


def install(row: Row, folder: Path, python: Path, wheel: Path, uv: list[str]) -> str:
    """Make the environment of a row; return why it cannot be made, or an empty text."""
    release = f"{row.library}=={row.release}"
    wanted = [*row.packages, f"posenc-ref[cli] @ {wheel.as_uri()}"]
    install = [*uv, "pip", "install", "--quiet", "--python", str(python)]
    commands = [
        [*uv, "venv", "--quiet", "--python", row.python, str(folder)],
        [*install, *wanted] if row.alone else [*install, release, *wanted],
        *([[*install, "--no-deps", release]] if row.alone else []),
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        if done.returncode:
            return " ".join(done.stderr.split())[:600] or f"exit code {done.returncode}"
    return ""


def versions(python: Path, uv: list[str], names: list[str]) -> dict[str, str]:
    """Return the versions of Python and of the packages ``names`` in an environment."""
    asked = [str(python), "-c", "import platform; print(platform.python_version())"]
    found = {"python": subprocess.run(asked, capture_output=True, text=True).stdout.strip()}
    listed = [*uv, "pip", "list", "--quiet", "--format", "json", "--python", str(python)]
    every = json.loads(subprocess.run(listed, capture_output=True, text=True, check=True).stdout)
    versions = {one["name"]: one["version"] for one in every}
    return found | {name: versions[name] for name in dict.fromkeys(names) if name in versions}


def variables() -> dict[str, str]:
    """Return the variables of a subprocess: one thread, and no downloads."""
    return os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}


def uv_command(parser: argparse.ArgumentParser, manifest: dict[str, Any]) -> list[str]:
    """Return the command of uv, which installs nothing newer than the manifest says."""
    program = shutil.which(
        "uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    if program is None:
        parser.error("uv makes the environments and is not installed: pip install uv")
    os.environ.setdefault("UV_EXCLUDE_NEWER", manifest["common"]["exclude-newer"])
    return [program, "--no-python-downloads"]


def build_wheel(uv: list[str], folder: Path) -> Path:
    """Build posenc_ref from this checkout and return the wheel."""
    subprocess.run([*uv, "build", "--quiet", "-o", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel
