"""Build the site in build/site/html: python tools/build_site.py.

It needs ``pip install -e ".[site]"`` and no network. Every warning is an error.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import conformance_page  # noqa: E402
from tools.website.stage import stage  # noqa: E402

CONFIGURATION = ROOT / "tools/website"


def build(folder, *options):
    """Build the site in ``folder``/html from ``folder``/source; return Sphinx's exit code."""
    source = folder / "source"
    for part in (source, folder / "html"):  # no page of an earlier build stays
        shutil.rmtree(part, ignore_errors=True)
    stage(source)
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    command += ["--builder", "html", "--jobs", "auto", "--conf-dir", str(CONFIGURATION)]
    command += ["--doctree-dir", str(folder / "doctrees"), *options]
    failed = subprocess.run([*command, str(source), str(folder / "html")], cwd=ROOT).returncode
    if not failed:
        conformance_page.write(folder / "html/conformance/libraries", home="../../index.html")
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build/site")
    parser.add_argument("options", nargs="*", help="further options of sphinx-build")
    arguments = parser.parse_args()
    sys.exit(build(arguments.folder.resolve(), *arguments.options))
