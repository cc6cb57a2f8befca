"""The corpus of right and wrong implementations, for every test of the judge.

A test module names the surfaces it is about in `SURFACES`; its tests take `wrong_case` or
`correct_case` as an argument and run once for each case of the corpus.
"""

import pytest

pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
from tests import mutants


@pytest.fixture(scope="session")
def corpus():
    """The module tests/mutants: WRONG and CORRECT."""
    return mutants


def pytest_generate_tests(metafunc):
    surfaces = getattr(metafunc.module, "SURFACES", None)
    for name, which in (("wrong_case", "WRONG"), ("correct_case", "CORRECT")):
        if name in metafunc.fixturenames:
            cases = [
                c for c in getattr(mutants, which) if surfaces is None or c.surface in surfaces
            ]
            metafunc.parametrize(name, cases, ids=[f"{c.surface}-{c.name}" for c in cases])
