"""The corpus of right and wrong implementations, for every test of the judge.

A test module names the surfaces it is about in `SURFACES`; its tests take `wrong_case` or
`correct_case` as an argument and run once for each case of the corpus.
"""

import functools
import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "mutants"


@functools.cache
def load():
    """Import tests/mutants under a name of its own, whatever the import mode is."""
    pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    spec = importlib.util.spec_from_file_location(
        "posenc_ref_mutants", FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def corpus():
    """The module tests/mutants: WRONG and CORRECT."""
    return load()


def pytest_generate_tests(metafunc):
    surfaces = getattr(metafunc.module, "SURFACES", None)
    for name, which in (("wrong_case", "WRONG"), ("correct_case", "CORRECT")):
        if name in metafunc.fixturenames:
            cases = [c for c in getattr(load(), which) if surfaces is None or c.surface in surfaces]
            metafunc.parametrize(name, cases, ids=[f"{c.surface}-{c.name}" for c in cases])
