"""The pages about fast paths do what they say, and name every reason for a slow one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FAST = ROOT / "docs" / "fast-paths.md"


@pytest.mark.parametrize("name", ["fast-paths.md", "scale.md"])
def test_the_python_of_a_page_runs(name):
    pytest.importorskip("torch", reason="the pages are about PyTorch's tensors too")
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
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
        reasons |= set(re.findall(r'"specification: ([^"{]+)', code))
        for line in re.findall(r"\bwhy = .*", code):
            reasons |= set(re.findall(r'"([a-z][^"{]*)', line))
    assert len(reasons) >= 10
    page = FAST.read_text(encoding="utf-8")
    assert {reason for reason in reasons if f"| `{reason.strip()}" not in page} == set()


def test_every_example_that_is_named_is_there():
    page = FAST.read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:examples/)?(\w+\.py)`", page))
    assert len(named) >= 5
    assert [name for name in named if not (ROOT / "examples" / name).is_file()] == []
