"""Tiles give the bits of the whole tensor; half precision is rounded once from float32."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.backends import fused
from posenc_ref.backends.kernels import torch_rotary, torch_tiles

torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")

D = 16
SHAPES = {
    "(S, D)": (37, D),
    "(B, H, S, D)": (2, 3, 37, D),
    "one token": (2, 5, 1, D),
    "no heads": (2, 0, 4, D),
}


def numbers(shape, dtype):
    values = np.random.default_rng(3).standard_normal(shape)
    return torch.from_numpy(values).to(getattr(torch, dtype))


def widened(fast, x, positions):
    """Return the result of the float32 path without tiles, rounded once."""
    with pytest.MonkeyPatch.context() as whole:
        whole.setattr(torch_rotary, "_SMALL", 2**40)
        return fast(x.float(), positions).to(x.dtype)


@pytest.fixture(autouse=True, params=[256, 4096, torch_tiles._TILE], ids="tile {}".format)
def tile(request, monkeypatch):
    """Tiles of one or two rows, of several heads, and of the usual size."""
    monkeypatch.setattr(torch_tiles, "_TILE", request.param)
    monkeypatch.setattr(torch_rotary, "_SMALL", 0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_results_are_rounded_once(layout, shape, dtype):
    fast, x = fused(pr.RoPE(D, layout=layout, rotary_dim=12)), numbers(shape, dtype)
    at = np.arange(shape[-2]) + 5
    want = widened(fast, x, at)
    assert torch.equal(fast(x, at), want)
    out = torch.full_like(x, float("nan"))
    assert torch.equal(fast(x, at, out=out), want)
    assert torch.equal(fast(x, at, out=x), want)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_positions_for_each_row_and_any_strides(dtype, layout):
    fast = fused(pr.RoPE(D, layout=layout))
    x = numbers((3, 9, 4, D), dtype).transpose(1, 2)  # (B, S, H, D) in memory
    rows = np.arange(27).reshape(3, 9) ** 2
    each = np.arange(108).reshape(3, 4, 9) ** 2
    for at in (np.arange(9), rows, rows[:1].repeat(3, 0), each, each[:1], each[:, :1]):
        want = widened(fast, x, at)
        assert torch.equal(fast(x, at), want)
        kept = x.clone()
        assert torch.equal(fast(kept, at, out=kept), want)
    wrong = widened(fast, x, rows[::-1].copy())
    assert not torch.equal(fast(x, rows), wrong)
