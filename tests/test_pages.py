"""The pages in docs/ do what they say, their links lead somewhere, and generated ones say how."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.night import by_day

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FAST = DOCS / "fast-paths.md"
MARKDOWN = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
GENERATED = sorted((DOCS / "generated").glob("*.md"))


def relative(path):
    return path.relative_to(ROOT).as_posix()


def anchors(path):
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", MARKDOWN, ids=relative)
def test_every_relative_link_leads_somewhere(path):
    broken, text = [], path.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"\w+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("path", GENERATED, ids=relative)
def test_a_generated_page_begins_with_its_command(path):
    title, paragraph, *_ = path.read_text(encoding="utf-8").split("\n\n")
    assert title.startswith("# ")
    (command,) = re.findall(r"`((?:python|posenc) [^`]+)`", paragraph)
    for program in re.findall(r"\S+/\w+\.py", command.partition(" --")[0]):
        assert (ROOT / program).is_file(), program


@pytest.mark.parametrize(
    "name",
    by_day(
        [
            "fast-paths.md",
            "install.md",
            "models.md",
            "recorded.md",
            "scale.md",
            "signatures.md",
            "tutorials/own-encoding.md",
            "unit.md",
            "weights.md",
        ],
        {"models.md", "signatures.md"},
    ),
)
def test_the_python_of_a_page_runs(name):
    pytest.importorskip("torch", reason="the pages are about PyTorch's tensors too")
    page = (DOCS / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert blocks
    command = [sys.executable, "-c", "\n".join(blocks)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr


def test_every_reason_for_the_specification_is_explained():
    """As far as it is fixed text: a name in braces ends it."""
    reasons = set()
    for path in (ROOT / "backends").glob("*.py"):
        code = path.read_text(encoding="utf-8")
        reasons |= set(re.findall(r'"no fast path: ([^"{]+)', code))
        for line in re.findall(r"\bwhy = .*", code):
            reasons |= set(re.findall(r'"([a-z][^"{]*)', line))
    assert "positions require gradients" in reasons
    page = FAST.read_text(encoding="utf-8")
    assert {reason for reason in reasons if f"| `{reason.strip()}" not in page} == set()


def test_every_example_that_is_named_is_there():
    page = FAST.read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:examples/)?(\w+\.py)`", page))
    assert "which_path.py" in named
    assert [name for name in named if not (ROOT / "examples" / name).is_file()] == []


@pytest.mark.parametrize(
    ("thing", "most"),
    [
        ("a surface", 5),
        ("an encoding", 6),
        ("a score", 6),
        ("a code", 3),
        ("a library", 5),
    ],
)
def test_a_thing_is_added_in_few_files(thing, most):
    """As many as the steps, and as the walk that is recorded, which edited files like those."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.search(rf"^## Adding {thing}\n(.*?)^## ", text, re.DOTALL | re.MULTILINE)[1]
    assert len(re.findall(r"^\d\. ", section, re.MULTILINE)) <= most
    (walk,) = re.findall(r"^```text\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    files = re.findall(r"^ (\S+) +\| +\d+ [+-]+$", walk, re.MULTILINE)
    assert 0 < len(files) == len(walk.splitlines()) <= most
    assert [name for name in files if not (ROOT / name).parent.is_dir()] == []
