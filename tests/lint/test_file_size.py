"""No Python file has more than 400 lines."""

from tests.lint.sources import AUTHORS, require_no_violations, sources

LIMIT = 400


def violations(path, text):
    """Return the number of lines, in a list, if it is over the limit."""
    lines = len(text.splitlines())
    return [f"{lines} lines, the limit is {LIMIT}"] if lines > LIMIT else []


def test_no_file_is_long():
    folders = ("posenc_ref", "backends", "conformance", "tests", "tools", "benchmarks", "examples")
    require_no_violations(violations, sources(*folders, exempt=AUTHORS))


def test_a_long_file_is_found():
    assert violations("x.py", "x = 1\n" * LIMIT) == []
    assert violations("x.py", "x = 1\n" * (LIMIT + 1)) == ["401 lines, the limit is 400"]
