"""Libraries with an environment of their own: what is listed, and each claim about them."""

import ast
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path

import pytest

from posenc_ref.conformance.adapters import library
from posenc_ref.conformance.check import check
from posenc_ref.conformance.surveys.expected import expected

ROOT = Path(__file__).parents[3]
CLAIMS = expected(ROOT / "conformance/surveys/libraries_expected.json")
SCRIPTS = ROOT / "docs/generated/library-deviations"
SURVEYED = [f for f in library.functions() if f not in library.carded()]
INSTALLED = [
    (f, dtype)
    for f in SURVEYED
    if f.library not in library.missing()
    for dtype in f.dtypes or ("float32",)
]


def named(entry):
    """The functions that an entry names."""
    every = library.functions()
    return [f for f in every if any(fnmatchcase(f.name, p) for p in entry.patterns)]


def claim_of(function):
    return next((entry for entry in CLAIMS if function in named(entry)), None)


def test_every_module_lists_functions_of_a_library_that_can_be_installed():
    assert {f.library for f in SURVEYED} <= set(library.LIBRARIES)
    for name in library.SURVEYED:
        assert import_module(f"posenc_ref.conformance.adapters.{name}").functions(), name


def test_every_claim_names_a_function_and_a_script():
    for entry in CLAIMS:
        assert named(entry), entry.title
        assert (SCRIPTS / entry.script).is_file(), entry.title
    assert {path.name for path in SCRIPTS.glob("*.py")} == {entry.script for entry in CLAIMS}


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_a_script_needs_no_posenc_ref_and_ends_in_an_assertion(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        name.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert not [name for name in imported if name.startswith("posenc_ref")]
    assert isinstance(tree.body[-1], ast.Assert), "the deviation is asserted, so it cannot vanish"


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")  # a library's own warning is no error
@pytest.mark.parametrize(
    ("function", "dtype"), INSTALLED, ids=[f"{f.name}-{dtype}" for f, dtype in INSTALLED]
)
def test_a_function_conforms_or_has_a_claim(function, dtype):
    if function.expected is None:
        pytest.skip(f"no encoding describes it: {function.says}")
    try:
        found = function.build()
    except (ImportError, RuntimeError) as error:  # a part that is missing, or a GPU
        pytest.skip(f"cannot be built: {error}")
    report = check(found, found.encoding or function.expected, dtype=dtype)
    claim = claim_of(function)
    assert (report.verdict, tuple(report.codes)) == (
        ("conforms", ()) if claim is None else ("deviates", claim.codes)
    )
