"""Write the link tree through which static type checkers see the whole package.

``backends/`` and ``conformance/`` lie beside ``posenc_ref/`` and become its subpackages through
the setuptools ``package-dir`` mapping. Type checkers do not follow that mapping, so this script
links the package as it is installed, in the git-ignored folder ``.types/``::

    .types/posenc_ref/<module>.py  -> posenc_ref/<module>.py
    .types/posenc_ref/backends     -> backends/
    .types/posenc_ref/conformance  -> conformance/

Run it before mypy or pyright, and again after adding a module. If symbolic links are not allowed,
it copies; then run it after every edit.
"""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAPPED = ("backends", "conformance")


def place(source: Path, target: Path) -> None:
    """Make `target` a link to `source`, or a copy of it where links are refused."""
    try:
        target.symlink_to(source, target_is_directory=source.is_dir())
    except OSError:
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)


def main(root: Path = ROOT) -> None:
    """Replace ``.types/`` under `root` by a fresh link tree."""
    tree = root / ".types"
    shutil.rmtree(tree, ignore_errors=True)
    package = tree / "posenc_ref"
    package.mkdir(parents=True)
    for source in sorted((root / "posenc_ref").iterdir()):
        if source.name != "__pycache__":
            place(source, package / source.name)
    for name in MAPPED:
        if (root / name).is_dir():
            place(root / name, package / name)


if __name__ == "__main__":
    main()
