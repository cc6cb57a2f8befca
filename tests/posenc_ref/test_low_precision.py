"""Which tables lose positions when they are computed in half precision; docs/tables.md has it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import posenc_ref as pr

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("half_precision", ROOT / "tools/half_precision.py")
tool = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tool)
PAGE = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")


@pytest.mark.nightly
def test_the_section_is_what_the_tool_writes():
    before, after = tool.around(PAGE)
    assert before + tool.section() + after == PAGE


def test_every_table_is_in_it():
    before, after = tool.around(PAGE)
    section = PAGE.removeprefix(before).removesuffix(after)
    # By the exported names: the registry holds classes that other tests define as well.
    exported = {name: getattr(pr, name) for name in pr.__all__ if name != "Table"}
    ours = [n for n, v in exported.items() if isinstance(v, type) and issubclass(v, pr.Table)]
    presets = [n for n in pr.presets() if n.startswith(("sinusoidal-", "timesteps-"))]
    assert len(ours) >= 10
    missing = {name for name in (*ours, *presets) if f"`{name}`" not in section}
    assert missing == {"Sinusoidal"}  # there by its presets


@pytest.mark.parametrize(("kind", "rows"), [("bfloat16", 769), ("float16", 3073)])
def test_positions_alone_explain_the_loss(kind, rows):
    """As many as there are integers of the format below 4096."""
    assert tool.distinct(tool.Half(kind)(np.arange(4096))[:, None]) == rows
    assert f"{rows} rows" in PAGE or f"{rows} in float16" in PAGE


@pytest.mark.parametrize(("kind", "rows"), [("bfloat16", 769), ("float16", 3073)])
def test_the_arithmetic_is_that_of_a_library(kind, rows):
    """Torch's own half-precision sinusoids keep as many rows."""
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    dtype = getattr(torch, kind)
    w = torch.tensor(pr.Sinusoidal(128).frequencies()).to(dtype)
    angle = torch.arange(4096).to(dtype)[:, None] * w
    table = torch.cat([angle.sin(), angle.cos()], dim=1).float().numpy()
    assert tool.distinct(table) == rows
