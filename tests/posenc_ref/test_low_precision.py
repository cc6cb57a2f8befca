"""Which tables lose positions when they are computed in half precision.

docs/generated/half-precision.md lists them.
"""

import numpy as np
import pytest

import posenc_ref as pr
from tests.tool import tool

TOOL = tool("half_precision")
PAGE = TOOL.PAGE.read_text(encoding="utf-8")


@pytest.mark.nightly
def test_the_page_is_what_the_tool_writes():
    assert TOOL.document() == PAGE


def test_every_table_is_in_it():
    # By the exported names: the registry holds classes that other tests define as well.
    exported = {name: getattr(pr, name) for name in pr.__all__ if name != "Table"}
    ours = [n for n, v in exported.items() if isinstance(v, type) and issubclass(v, pr.Table)]
    presets = [n for n in pr.presets() if n.startswith(("sinusoidal-", "timesteps-"))]
    missing = {name for name in (*ours, *presets) if f"`{name}`" not in PAGE}
    assert missing == {"Sinusoidal"}  # there by its presets


@pytest.mark.parametrize(("kind", "rows"), [("bfloat16", 769), ("float16", 3073)])
def test_positions_alone_explain_the_loss(kind, rows):
    """As many as there are integers of the format below 4096."""
    assert TOOL.distinct(TOOL.Half(kind)(np.arange(4096))[:, None]) == rows
    assert f"{rows} in {kind}" in PAGE


@pytest.mark.parametrize(("kind", "rows"), [("bfloat16", 769), ("float16", 3073)])
def test_the_arithmetic_is_that_of_a_library(kind, rows):
    """Torch's own half-precision sinusoids keep as many rows."""
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    dtype = getattr(torch, kind)
    w = torch.tensor(pr.Sinusoidal(128).frequencies()).to(dtype)
    angle = torch.arange(4096).to(dtype)[:, None] * w
    table = torch.cat([angle.sin(), angle.cos()], dim=1).float().numpy()
    assert TOOL.distinct(table) == rows
