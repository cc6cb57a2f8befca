"""Regression tests: tensors that the fused path once crashed on, or rotated wrongly."""

import types

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.backends import fused
from posenc_ref.backends.kernels import torch_rotary, torch_state
from tests.backends.comparison import close
from tests.backends.test_fused import ROTARY, D

torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")


def at_address(rng, dtype, places):
    """Return a tensor (3, D) that starts ``places`` elements after a multiple of 64 bytes."""
    kind = np.dtype(dtype)
    room = np.zeros(3 * D * kind.itemsize + 256, np.uint8)
    start = -room.ctypes.data % 64 + places * kind.itemsize
    x = room[start : start + 3 * D * kind.itemsize].view(kind).reshape(3, D)
    x[...] = rng.standard_normal(x.shape)
    return torch.from_numpy(x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_addresses_not_aligned_to_a_complex_number(dtype, rng):
    """Such memory, shared with NumPy, crashes torch's complex kernels."""
    encoding = pr.RoPE(D, layout="interleaved", rotary_dim=D - 2)
    fast = fused(encoding)
    for places in (0, 1, 3):
        x, out = at_address(rng, dtype, places), at_address(rng, dtype, 3 - places)
        expected = encoding.apply(x, range(3))
        assert close(fast(x, range(3)), expected, dtype)
        assert close(fast(x, range(3), out=out), expected, dtype)
        assert close(fast(x, range(3), out=x), expected, dtype)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
def test_gradients_reach_positions():
    """A table has no gradient for positions, so the specification runs."""
    encoding = pr.RoPE(D, layout="half")
    x, at = torch.ones(3, D), torch.tensor([0.5, 1.5, 7.0], requires_grad=True)
    grads = []
    for turn in (fused(encoding), encoding.apply):
        (grad,) = torch.autograd.grad(turn(x, at)[:, 0].sum(), at)
        grads.append(grad)
    assert torch.equal(*grads)
    assert grads[0].abs().min() > 0
    assert fused(encoding)(x, at, explain=True)[1] == "no fast path: positions require gradients"
    with torch.no_grad():
        assert fused(encoding)(x, at, explain=True)[1].startswith("torch: ")


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_outs_of_queries_and_keys_must_not_share_memory(kind, rng):
    q, k = (rng.standard_normal((2, 3, D)).astype(np.float32) for _ in range(2))
    if kind == "torch":
        q, k = torch.from_numpy(q), torch.from_numpy(k)
    fast = fused(ROTARY["half"])
    for out in ((k, q), (q, q), (None, q), (k[:], None)):
        with pytest.raises(ValueError, match="out must be two arrays that share no memory"):
            fast.qk(q, k, range(3), out=out)
    with pytest.raises(TypeError, match="out must be a pair"):
        fast.qk(q, k, range(3), out=q)
    expected = fast(q, range(3)), fast(k, range(3))
    packed = np.zeros((2, 2, 3, D), np.float32)  # interleaved in memory, but apart
    parts = [packed[:, n] if kind == "numpy" else torch.from_numpy(packed)[:, n] for n in (0, 1)]
    for part, x in zip(parts, (q, k), strict=True):
        part[...] = x
    for got, right in zip(fast.qk(*parts, range(3), out=parts), expected, strict=True):
        assert np.array_equal(np.asarray(got), np.asarray(right))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_an_out_that_overlaps_the_other_input_in_part(kind, dtype, rng):
    """A buffer of 4 query heads, 2 key heads and a free one cannot be moved by a head."""
    buffer = rng.standard_normal((2, 7, 3, D)).astype(dtype)
    if kind == "torch":
        buffer = torch.from_numpy(buffer)
    before, free = np.asarray(buffer).copy(), buffer[:, :0]
    q, k = buffer[:, :4], buffer[:, 4:6]
    fast = fused(ROTARY["half"])
    new = [np.zeros_like(before) if kind == "numpy" else torch.zeros_like(buffer) for _ in range(2)]
    apart, twice = [n[:, 5:7] for n in new], new[0]
    for out in (
        (buffer[:, 1:5], buffer[:, 5:7]),
        (buffer[:, 1:5], apart[0]),
        (twice[:, :4], buffer[:, 3:5]),
        (twice[:, :4], twice[:, 3:5]),
        (twice[:, :4], twice[:, :2]),
    ):
        with pytest.raises(ValueError, match="out must be two arrays that share no memory"):
            fast.qk(q, k, range(3), out=out)
        assert np.array_equal(np.asarray(buffer), before)
    assert fast.qk(free, free, range(3), out=(free, free))[0] is free  # empty arrays share nothing
    expected = fast(q, range(3)), fast(k, range(3))
    for got, right in zip(
        fast.qk(q, k, range(3), out=(twice[:, :4], buffer[:, 4:6])), expected, strict=True
    ):
        assert np.array_equal(np.asarray(got), np.asarray(right))


def test_tensors_of_two_storages_that_overlap(rng):
    """Tensors made from NumPy have storages of their own, also for one piece of memory."""
    memory = rng.standard_normal((6, 3, D)).astype(np.float32)
    x, out = torch.from_numpy(memory[:4]), torch.from_numpy(memory[1:5])
    expected = fused(ROTARY["half"])(x.clone(), range(3))
    assert torch.equal(fused(ROTARY["half"])(x, range(3), out=out), expected)


@pytest.mark.parametrize("start", [1.5, "1", None, np.array([1])])
def test_a_start_that_is_not_an_integer(start):
    ready = fused(ROTARY["half"]).prepare(range(9), like=np.zeros(1, np.float32))
    with pytest.raises(TypeError, match="start must be an integer, "):
        ready(np.zeros((3, D), np.float32), start)


def test_tables_are_kept_for_each_stream_of_a_device(monkeypatch):
    """They are not made while a graph is captured, whose replay would read freed memory."""
    stream = types.SimpleNamespace(cuda_stream=1)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: stream.cuda_stream == 2)
    one = torch_state.device_and_stream("cuda:1")
    torch_state.not_captured("cuda:1")
    stream.cuda_stream = 2
    assert one != torch_state.device_and_stream("cuda:1")
    assert torch_state.device_and_stream("cpu") == torch_state.device_and_stream(
        torch.device("cpu")
    )
    torch_state.not_captured("cpu")
    for make in (
        lambda: torch_rotary.make_tables((), np.zeros((3, 4), complex), 8, "cuda:1"),
        lambda: torch_rotary.send_phasors(np.zeros((3, 4), complex), "cuda:1"),
    ):
        with pytest.raises(ValueError, match="while a graph is captured"):
            make()
