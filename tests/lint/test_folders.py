"""A folder of conformance imports only earlier ones, no imports form a circle, no folder is long.

Imports inside functions count. CONTRIBUTING.md lists the folders in the same order.
"""

import functools
import re
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePath

import pytest

from tests.lint.sources import ROOT, imported, importing, module_name, require_none, sources

#: Folders and files of conformance/. Each may import the earlier ones.
ORDER = (
    "harness", "calling", "oracle", "exact", "registry", "diagnosis", "phases",
    "rotary", "sequences", "table", "bias", "functions", "score", "attention",
    "surfaces", "sizes", "check", "assertions", "pytest", "guide",
    "identify", "recordings", "adapters", "graphs", "vectors", "isolation", "external", "weights",
    "compare",
    "surveys", "configurations", "plots", "cli",
    "__init__", "__main__",
)  # fmt: skip
#: The most Python files in a folder; the encodings in posenc_ref/ are one flat list.
MOST_FILES = 25


def graph(files):
    """Return the files that each file imports, by path."""
    paths = {module_name(path).removesuffix(".__init__"): path for path in files}

    def resolve(name):
        while name and name not in paths:
            name = name.rpartition(".")[0]
        return paths.get(name)

    found = {}
    for path, text in files.items():
        module = module_name(path)
        names = [name for node in importing(text) for name in imported(node, module)]
        found[path] = {resolve(name) for name in names} - {None, path}
    return found


def rank(path):
    """Return the place in ORDER of a file of conformance/."""
    return ORDER.index(PurePath(path).with_suffix("").parts[1])


def upward(imports):
    """Return the imports of conformance/ that point to a later folder."""
    inside = {path for path in imports if path.startswith("conformance/")}
    return [
        f"{path} imports {other}"
        for path in sorted(inside)
        for other in sorted(imports[path] & inside)
        if rank(other) > rank(path)
    ]


def circles(imports):
    """Return one circle for each import that has to be removed to leave none."""
    imports, found = {path: set(others) for path, others in imports.items()}, []
    while True:
        try:
            TopologicalSorter(imports).prepare()
        except CycleError as error:
            circle = error.args[1]  # each file is imported by the next one
            imports[circle[1]].remove(circle[0])
            found.append(" <- ".join(circle))
        else:
            return found


def long_folders(files):
    """Return the folders with more than MOST_FILES files."""
    counts = Counter(PurePath(path).parent.as_posix() for path in files)
    del counts["posenc_ref"]
    return [f"{folder}: {n} files" for folder, n in counts.items() if n > MOST_FILES]


def package():
    """Return the files of the three packages."""
    return sources("posenc_ref", "backends", "conformance")


@functools.cache
def imports():
    """Return the imports among the files of the three packages."""
    return graph(package())


@pytest.mark.day
def test_folders_import_only_earlier_folders():
    require_none(upward(imports()))


def test_no_imports_form_a_circle():
    require_none(circles(imports()))


def test_no_folder_is_long():
    require_none(long_folders([*package(), *sources("tools", "benchmarks", "examples")]))


def listed(page):
    """Return the folders of conformance/ in the first column of the page's tables."""
    cells = re.findall(r"^\| (`conformance/\w+/`.*?) \|", page, re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`(?:conformance/)?(\w+)/`", cell)]
    return [name for name in names if name in ORDER]


def test_contributing_lists_the_folders_in_this_order():
    folders = [name for name in ORDER if (ROOT / "conformance" / name).is_dir()]
    assert listed((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")) == folders


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("conformance/bias/judge.py", "from posenc_ref.conformance.score import judge"),
        ("conformance/bias/judge.py", "def f():\n    from posenc_ref.conformance import check"),
        ("conformance/bias/judge.py", "from .. import surfaces"),
        ("conformance/check.py", "import posenc_ref.conformance.cli.check"),
        ("conformance/cli/check.py", "from posenc_ref.conformance import NAME"),
    ],
)
def test_an_import_of_a_later_folder_is_found(path, text):
    names = ["score/judge", "check", "surfaces", "cli/check", "__init__", "table/judge"]
    others = {f"conformance/{name}.py": "" for name in names}
    assert len(upward(graph(others | {path: text}))) == 1
    right = {"conformance/bias/judge.py": "from posenc_ref.conformance.table.judge import x"}
    assert upward(graph(others | right)) == []


def test_a_circle_is_found():
    files = {
        "backends/__init__.py": "from .a import f",
        "backends/a.py": "from .b import f",
        "backends/b.py": "def f():\n    from . import c",
        "backends/c.py": "import posenc_ref.backends.a",
    }
    (found,) = circles(graph(files))
    assert sorted(set(found.split(" <- "))) == [f"backends/{x}.py" for x in "abc"]
    assert circles(graph(files | {"backends/c.py": "import numpy"})) == []


def test_a_long_folder_is_found():
    files = [f"conformance/bias/{n}.py" for n in range(MOST_FILES)]
    assert long_folders(files) == []
    assert long_folders([*files, "conformance/bias/x.py"]) == [
        f"conformance/bias: {MOST_FILES + 1} files"
    ]
