"""The modules, tests and surfaces that tools/mutate.py names exist."""

from posenc_ref.conformance import SURFACES
from tests.lint.sources import ROOT, require_none
from tests.tool import tool


def missing(groups):
    """Return the names of files and surfaces that do not exist."""
    found = []
    for _, modules in groups.values():
        for module, tests in modules.items():
            files = [module, *(f"tests/{name}" for name in tests if name.endswith(".py"))]
            found += [name for name in files if not (ROOT / name).is_file()]
            surfaces = [s for name in tests if not name.endswith(".py") for s in name.split()[1:]]
            found += [name for name in surfaces if name not in SURFACES]
    return found


def test_everything_named_exists():
    require_none(missing(tool("mutate").GROUPS))


def test_a_missing_name_is_found():
    wrong = {
        "tools/mutate.py": ("test_gone.py", "corpus apply gone"),
        "gone.py": ("test_pages.py",),
    }
    assert missing({"group": (1, wrong)}) == ["tests/test_gone.py", "gone", "gone.py"]
