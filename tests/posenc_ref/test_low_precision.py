"""Which tables lose positions when they are computed in half precision.

docs/generated/half-precision.md lists them.
"""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.encoding import _REGISTRY
from posenc_ref.table import Table
from tests.tool import tool

TOOL = tool("half_precision")
PAGE = TOOL.PAGE.read_text(encoding="utf-8")


def test_the_page_is_what_the_tool_writes():
    assert TOOL.document() == PAGE


def test_every_table_is_in_it():
    page = TOOL.document()
    forms = [name for name, cls in _REGISTRY["encoding"].items() if issubclass(cls, Table)]
    presets = [n for n in pr.presets() if n.startswith(("sinusoidal-", "timesteps-"))]
    ours = [f for f in forms if _REGISTRY["encoding"][f].__module__.startswith("posenc_ref.")]
    assert len(ours) >= 10
    missing = {name for name in (*ours, *presets) if f"`{name}`" not in page}
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
