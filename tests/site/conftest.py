"""The sources of the site, the built site, and a browser."""

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def staged(tmp_path_factory):
    """Return the folder with the sources of every page, without pictures."""
    from tools.website.stage import stage

    folder = tmp_path_factory.mktemp("site") / "source"
    stage(folder, drawn=False)
    return folder


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Return the folder of the built site."""
    for name in ("sphinx", "myst_nb", "pydata_sphinx_theme", "ziamath"):
        pytest.importorskip(name, reason='pip install -e ".[site]"')
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "tools/build_site.py", str(folder)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder / "html"


@pytest.fixture(scope="session")
def address(built):
    """Return the address at which the built site is served."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    handler = functools.partial(Quiet, directory=built)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def chromium():
    """Return a headless Chromium."""
    sync = pytest.importorskip("playwright.sync_api", reason='pip install -e ".[browser]"')
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium is installed")
    with sync.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
