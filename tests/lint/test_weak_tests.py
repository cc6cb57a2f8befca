"""Every test runs and can fail, and what is skipped says why."""

import ast
from fnmatch import fnmatch
from pathlib import PurePath

import pytest

from tests.lint.sources import require_no_violations, sources

# Where the reason stands when it is not given by keyword.
POSITION = {"skip": 0, "xfail": 0, "skipif": None, "importorskip": None}


def reason_of(call, *, mark):
    """Return the expression that gives a skip's reason, or None."""
    for keyword in call.keywords:
        if keyword.arg == "reason":
            return keyword.value
    # pytest.mark.xfail(condition) and skipif(condition) take their reason by keyword only.
    position = None if mark and call.func.attr == "xfail" else POSITION[call.func.attr]
    return call.args[position] if position is not None and call.args else None


def is_skip(node):
    """Return "mark" for pytest.mark.skip and its kin, "call" for pytest.skip(), else None."""
    if not isinstance(node, ast.Attribute) or node.attr not in POSITION:
        return None
    return {"pytest.mark": "mark", "pytest": "call"}.get(ast.unparse(node.value))


def violations(source):
    """Lines of `source` with a skip that gives no reason or an assertion that cannot fail."""
    found = []
    tree = ast.parse(source)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=function) if kind := is_skip(function):
                reason = reason_of(node, mark=kind == "mark")
                if reason is None or (isinstance(reason, ast.Constant) and not reason.value):
                    found.append(f"{node.lineno}: {ast.unparse(function)} without a reason")
            case ast.Attribute() if is_skip(node) == "mark" and id(node) not in called:
                found.append(f"{node.lineno}: {ast.unparse(node)} without a reason")
            case ast.Assert(test=ast.Constant(value=value)) if value:
                found.append(f"{node.lineno}: an assertion that is always true")
            case ast.Assert(test=ast.Tuple(elts=[_, *_])):
                found.append(f"{node.lineno}: asserts a tuple, which is always true")
            case ast.ExceptHandler(type=kind, body=[ast.Pass()]) if kind is None or (
                ast.unparse(kind) in ("Exception", "BaseException", "AssertionError")
            ):
                found.append(f"{node.lineno}: swallows failures")
    return found


@pytest.mark.day
def test_no_weak_test():
    require_no_violations(lambda path, text: violations(text), sources("tests"))


def uncollected(path, source, excluded, packages=()):
    """Return why pytest passes over tests in `source`, or imports them under a second name."""
    path = PurePath(path)
    functions = ast.FunctionDef | ast.ClassDef
    names = [node.name for node in ast.parse(source).body if isinstance(node, functions)]
    if not any(name.startswith(("test_", "Test")) or name == "test" for name in names):
        return []
    folders = [
        f"{part}/ is excluded"
        for part in path.parts[:-1]
        if any(fnmatch(part, pattern) for pattern in excluded)
    ]
    misnamed = [] if fnmatch(path.name, "test_*.py") else ["the file is not named test_*.py"]
    # pytest imports tests/mutants as mutants: whatever it registers is registered twice.
    package = ["the folder has an __init__.py"] if path.parent.as_posix() in packages else []
    return folders + misnamed + package


def test_every_test_is_collected(pytestconfig):
    excluded, files = pytestconfig.getini("norecursedirs"), sources("tests")
    packages = {path.removesuffix("/__init__.py") for path in files if path.endswith("__init__.py")}
    require_no_violations(lambda path, text: uncollected(path, text, excluded, packages), files)


@pytest.mark.parametrize(
    ("path", "excluded", "reasons"),
    [
        ("tests/conformance/test_a.py", ["conformance"], ["conformance/ is excluded"]),
        ("tests/a.py", [], ["the file is not named test_*.py"]),
        ("tests/named/test_a.py", [], ["the folder has an __init__.py"]),
        ("tests/conformance/test_a.py", ["build"], []),
    ],
)
def test_an_uncollected_test_is_found(path, excluded, reasons):
    assert uncollected(path, "def test_it(): pass", excluded, {"tests/named"}) == reasons
    assert uncollected(path, "def helper(): pass", excluded, {"tests/named"}) == []


@pytest.mark.parametrize(
    "wrong",
    [
        "pytest.skip()",
        "pytest.skip('')",
        "pytest.skip(reason='')",
        "pytest.mark.skip()",
        "@pytest.mark.skip\ndef test(): pass",
        "pytestmark = pytest.mark.skipif(condition)",
        "pytest.param(1, marks=pytest.mark.xfail)",
        "pytest.mark.xfail(condition)",
        "pytest.importorskip('cupy')",
        "torch = pytest.importorskip('torch').nn",
        "pytest.importorskip('cupy', reason='')",
        "assert True",
        "assert 'not empty'",
        "assert (a == b, 'message')",
        "try:\n    f()\nexcept Exception:\n    pass",
    ],
)
def test_a_weak_line_is_found(wrong):
    assert violations(wrong) != []


@pytest.mark.parametrize(
    "right",
    [
        "pytest.skip('no GPU here')",
        "pytest.mark.skip('no GPU here')",
        "pytest.mark.skipif(condition, reason='no GPU here')",
        "pytest.param(1, marks=pytest.mark.xfail(reason='torch#1'))",
        "pytest.importorskip('cupy', reason='CuPy compiles it')",
        "pytest.importorskip('torch', reason='PyTorch is compared with').nn",
        "assert a == b, 'message'",
        "assert False, 'unreachable'",
        "try:\n    f()\nexcept ValueError:\n    pass",
    ],
)
def test_an_honest_line_passes(right):
    assert violations(right) == []
