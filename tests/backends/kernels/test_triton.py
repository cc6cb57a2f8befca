"""The Triton kernel on a CPU, by the model of ``triton_model.py`` or by Triton's interpreter.

pip install triton && TRITON_INTERPRET=1 pytest tests/backends/kernels/test_triton.py
"""

import importlib
import mmap
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import Truth, budget
from posenc_ref.backends import fused
from posenc_ref.backends.kernels import torch_rotary
from posenc_ref.conformance import check
from tests.backends.kernels.rotary_cases import NO_RESERVE
from tests.backends.test_fused import FUSED, ROTARY, D, positions_of
from tests.night import by_day

torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
triton_model = pytest.importorskip(
    "tests.backends.kernels.triton_model", reason="the model of Triton runs on PyTorch"
)
RNG = np.random.default_rng(18)
MODULE = "posenc_ref.backends.kernels.triton_rotary"


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    """The module of the kernel, to which CPU tensors are sent."""
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    with monkeypatch.context() as importing:  # only here, because torch looks for Triton too
        if not os.environ.get("TRITON_INTERPRET"):
            importing.setitem(sys.modules, "triton", triton_model.triton)
            importing.setitem(sys.modules, "triton.language", triton_model.language)
        module = importlib.import_module(MODULE)
    monkeypatch.setattr(torch_rotary, "_in_one_launch", lambda x: True)
    yield module
    sys.modules.pop(MODULE, None)


def tensor(rng, *shape, dtype="float32", grad=False):
    values = torch.from_numpy(rng.standard_normal(shape)).to(getattr(torch, dtype))
    return values.requires_grad_(grad)


def right(encoding, x, at, y, turn="apply"):
    """Return whether y is rotated in float32 or wider, rounded once, and otherwise equal to x."""
    name = str(x.dtype).rpartition(".")[2]
    wide, got = (t.detach().double().numpy() for t in (x, y))
    size = np.zeros(wide.shape)
    for pair in encoding.pairs():
        size[..., pair] = np.linalg.norm(wide, axis=-1, keepdims=True)
    truth = Truth(getattr(encoding, turn)(wide, at), size, np.zeros(()))
    return truth.score(got, dtype=name).max() <= min(4, budget(name))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", FUSED)
def test_values(name, dtype, rng):
    encoding = ROTARY[name]
    fast = fused(encoding)
    for shape in ((5,), (2, 5), (2, 3, 5)):
        at = rng.integers(0, 2**30, shape)
        at = positions_of(encoding, at)
        x = tensor(rng, 2, 3, 5, D, dtype=dtype)
        assert right(encoding, x, at, fast(x, at))
        assert right(encoding, x, at, fast.inverse(x, at), "inverse")
        placed, out = x.clone(), torch.full_like(x, 7)
        fast(placed, at, out=placed)
        fast(x, at, out=out)
        assert torch.equal(placed, out)
        assert right(encoding, x, at, out)


def test_shapes_and_strides(rng):
    for name in ("half-trailing", "interleaved-partial"):
        encoding = ROTARY[name]
        for shape in ((D,), (4, D), (7, 4, D), (1, 9, 4, D), (2, 1, 3, 4, D), (2, 3, 0, D)):
            x = tensor(rng, *shape) if len(shape) > 1 else tensor(rng, 1, D)
            assert fused(encoding)(x, range(x.shape[-2])).shape == x.shape
            assert x.numel() == 0 or right(
                encoding, x, range(x.shape[-2]), fused(encoding)(x, range(x.shape[-2]))
            )
        for x in (
            tensor(rng, 2, 4, 3, D).transpose(1, 2),
            tensor(rng, 2, 3, 4, 2 * D)[..., ::2],
            tensor(rng, 2, 3, 4, D + 1)[..., 1:],
            tensor(rng, 4, D).expand(2, 3, 4, D),
            tensor(rng, 2, 4, 3, 3, D)[:, :, 1].transpose(1, 2),
        ):
            assert right(encoding, x, range(4), fused(encoding)(x, range(4)))
            into = torch.zeros(2, 4, 3, 2 * D).transpose(1, 2)[..., 1 : 2 * D : 2]
            fused(encoding)(x, range(4), out=into)
            assert right(encoding, x, range(4), into)
    wide = pr.RoPE(12, layout="half")  # pairs that are no power of two
    x = tensor(rng, 3, 70, 12)
    assert right(wide, x, range(70), fused(wide)(x, range(70)))
    ready = fused(wide).prepare(range(100), like=x)
    assert right(wide, x, range(9, 79), ready(x, 9))


def test_the_suite_passes():
    """In float32, because Triton's interpreter truncates to bfloat16, where a GPU rounds."""
    encoding = ROTARY["half-trailing"]
    fast = fused(encoding)
    before = len(triton_model.LAUNCHES)
    report = check(lambda x, p: fast(x, p), encoding, "apply", backend="torch")
    assert report.passed, report
    assert os.environ.get("TRITON_INTERPRET") or len(triton_model.LAUNCHES) > before + 50


@pytest.mark.parametrize(
    "name", by_day(["half-trailing", "interleaved-partial"], {"interleaved-partial"})
)
def test_gradients(name, rng):
    encoding = ROTARY[name]
    x, fast = tensor(rng, 2, 3, D, dtype="float64", grad=True), fused(encoding)
    assert torch.autograd.gradcheck(lambda x: fast(x, [3, 1, 400]), x)
    assert torch.autograd.gradgradcheck(lambda x: fast(x, [3, 1, 400]), x)


def test_explain_names_the_kernel(monkeypatch, rng):
    half = fused(ROTARY["half"])
    path = half(tensor(rng, 5, D), range(5), explain=True)[1]
    assert path == "torch: halves, float32, by a Triton kernel"
    monkeypatch.undo()
    monkeypatch.setattr(torch_rotary, "_triton", lambda: False)
    assert half(tensor(rng, 5, D), range(5), explain=True)[1] == "torch: halves, float32"
    elsewhere = SimpleNamespace(is_cuda=True)
    assert torch_rotary.kernel(elsewhere) == ", by torch's own kernels: Triton is not installed"


def test_cpu_tensors_do_not_use_triton(monkeypatch, rng):
    monkeypatch.undo()
    assert not torch_rotary._in_one_launch(tensor(rng, 2, D))


@pytest.mark.parametrize("strides", [(2**30 + 64, D, D, 1), (0, D, 1, 2**31 // (D - 1) + 9)])
def test_offsets_of_more_than_32_bits(strides, rng):
    """Rows, or channels, lie more than 2**31 elements apart in memory that is never touched."""
    shape = (3 if strides[0] else 1, 1, 1, D)
    last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    assert last > 2**31
    room = mmap.mmap(-1, 2 * (last + 1), flags=mmap.MAP_PRIVATE | NO_RESERVE)
    x = torch.frombuffer(room, dtype=torch.float16).as_strided(shape, strides)
    values = tensor(rng, *shape, dtype="float16")
    for layout in ("interleaved", "half"):
        encoding = pr.RoPE(D, layout=layout)
        x.copy_(values)
        fused(encoding)(x, [7], out=x)
        assert right(encoding, values, [7], x)


def test_autograd_detects_writes_in_place(rng):
    """Rotating a tensor in place that autograd has saved is an error in backward."""
    x, w = tensor(rng, 3, D), tensor(rng, 3, D, grad=True)
    product = (w * x).sum()
    fused(ROTARY["half"])(x, range(3), out=x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
