"""A file does one thing: nobody should have to scroll through 400 lines to find it."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 400


def violations(source):
    """Return the number of lines of `source`, in a list, if it is over the limit."""
    lines = len(source.splitlines())
    return [f"{lines} lines, the limit is {LIMIT}"] if lines > LIMIT else []


def files():
    folders = ("posenc_ref", "backends", "conformance", "tests", "tools", "benchmarks", "examples")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_file_size(path):
    assert violations(path.read_text(encoding="utf-8")) == []


def test_a_long_file_is_found():
    assert violations("x = 1\n" * LIMIT) == []
    assert violations("x = 1\n" * (LIMIT + 1)) == ["401 lines, the limit is 400"]
