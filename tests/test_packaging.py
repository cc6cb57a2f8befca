"""The wheel is the repository: nothing missing, nothing extra, no generic import name."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

import posenc_ref

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = ("posenc_ref", "backends", "conformance")
#: In the repository and not in the wheel: drivers bound to one release of transformers.
UNSHIPPED = ("conformance/surveys/transformers_other",)

SMOKE = """
import importlib, sys
from pathlib import Path

for name in sys.argv[2:]:
    module = importlib.import_module(name)
    assert Path(module.__file__).is_relative_to(sys.argv[1]), f"{name} is {module.__file__}"

from posenc_ref import RoPE

frequencies = RoPE(8, layout="half").frequencies()
assert frequencies.shape == (4,), frequencies
assert frequencies[0] == 1.0, frequencies
"""


def python(*arguments, path, cwd):
    """Run Python with `path` in front of the installed packages and without the working folder."""
    environment = os.environ | {"PYTHONPATH": str(path)}
    command = [sys.executable, "-P", *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True)


def installed_name(path):
    """Return where a file of the repository is installed: backends/x in posenc_ref/backends/x."""
    relative = path.relative_to(ROOT)
    return relative if relative.parts[0] == "posenc_ref" else Path("posenc_ref") / relative


def is_shipped(path):
    return not path.relative_to(ROOT).as_posix().startswith(UNSHIPPED)


def repository_files():
    return {
        installed_name(path).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and is_shipped(path)
    }


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A folder with the wheel installed: sdist first, then the wheel from the sdist."""
    work = tmp_path_factory.mktemp("package")
    # A copy, because stale build/ and *.egg-info folders would be packaged with the tree.
    source = work / "source"
    source.mkdir()
    for name in ("pyproject.toml", "LICENSE", "README.md", "posenc_ref_pytest.py"):
        shutil.copy2(ROOT / name, source)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = python("-m", "build", "--no-isolation", "--outdir", work / "dist", path="", cwd=source)
    assert build.returncode == 0, build.stdout + build.stderr
    (wheel,) = (work / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as file:  # as pip does, but pip also compiles every file
        file.extractall(work / "target")
    return work / "target"


def test_every_package_is_listed():
    found = {
        ".".join(installed_name(init.parent).parts)
        for folder in FOLDERS
        for init in (ROOT / folder).rglob("__init__.py")
        if is_shipped(init)
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found


@pytest.mark.day
def test_the_wheel_holds_every_file(target):
    shipped = {
        path.relative_to(target).as_posix()
        for path in (target / "posenc_ref").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    expected = repository_files()
    assert sorted(expected - shipped) == [], "missing from the wheel: list it in pyproject.toml"
    assert sorted(shipped - expected) == []


@pytest.mark.day
def test_the_wheel_runs(target, tmp_path):
    modules = PROJECT["tool"]["setuptools"]["packages"]
    smoke = python("-c", SMOKE, target, *modules, path=target, cwd=tmp_path)
    assert smoke.returncode == 0, smoke.stderr


def test_what_is_not_in_the_wheel_says_so(target, tmp_path):
    arguments = ["-m", "posenc_ref.conformance", "sweep", "--family", "table"]
    run = python(*arguments, path=target, cwd=tmp_path)
    assert run.returncode == 2, run.stderr
    assert "--family table needs a checkout of the repository" in run.stderr


def test_top_level_names(target):
    names = {path.name for path in target.iterdir()} - {"bin", "Scripts", "__pycache__"}
    version = PROJECT["project"]["version"]
    assert names == {"posenc_ref", "posenc_ref_pytest.py", f"posenc_ref-{version}.dist-info"}


def test_the_version_agrees():
    assert posenc_ref.__version__ == PROJECT["project"]["version"]


def test_metadata(target, tmp_path):
    (distribution,) = distributions(name="posenc-ref", path=[str(target)])
    metadata = distribution.metadata
    assert metadata["License-Expression"] == "Apache-2.0"
    required = {text for text in distribution.requires if "extra" not in text}
    assert required == {"numpy>=2.0", "array-api-compat>=1.10"}
    (script,) = distribution.entry_points.select(group="console_scripts")
    assert (script.name, script.value) == ("posenc", "posenc_ref.conformance.__main__:main")
    (plugin,) = distribution.entry_points.select(group="pytest11")
    assert plugin.value == "posenc_ref_pytest"
    assert (target / "posenc_ref_pytest.py").is_file()
    load = f"from {script.module} import {script.attr}; assert callable({script.attr})"
    loaded = python("-c", load, path=target, cwd=tmp_path)
    assert loaded.returncode == 0, loaded.stderr


@pytest.mark.parametrize("name", ["backends", "conformance", "conformance.adapters"])
def test_mapped_folders_refuse_their_short_name(name, tmp_path):
    # Imported as `backends`, a module would exist twice, with two registries.
    run = python("-c", f"import {name}", path=ROOT, cwd=tmp_path)
    assert run.returncode != 0
    message = run.stderr.strip().splitlines()[-1]
    assert message.startswith("ImportError"), message
    assert f"posenc_ref.{name.partition('.')[0]}" in message
