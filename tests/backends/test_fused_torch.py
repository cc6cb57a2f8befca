"""The fused path on torch: the conformance suite, gradients, compilation, autocast, threads."""

import copy
import pickle
import threading

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.backends import fused
from posenc_ref.backends.kernels import torch_rotary
from posenc_ref.conformance import check
from tests.backends.comparison import close
from tests.backends.test_fused import FUSED, ROTARY, D, positions_of
from tests.night import by_day

torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
RNG = np.random.default_rng(12)


def tensor(rng, *shape, dtype="float32", grad=False):
    values = torch.from_numpy(rng.standard_normal(shape)).to(getattr(torch, dtype))
    return values.requires_grad_(grad)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, "float32") for name in ("half-trailing", "interleaved", "sections-half", "dynamic")]
    + [("half", "float64"), ("half", "float16"), ("interleaved-partial", "bfloat16")],
)  # fmt: skip
def test_the_suite_passes(name, dtype):
    encoding = ROTARY[name]
    fast = fused(encoding)
    report = check(lambda x, p: fast(x, p), encoding, "apply", backend="torch", dtype=dtype)
    assert report.passed, report


@pytest.mark.parametrize("name", ["half-trailing", "interleaved-partial"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_are_those_of_the_specification(name, dtype):
    """The encodings have a factor m != 1, which the gradient has once, not twice or inverted."""
    encoding = ROTARY[name]

    def vjp(x, positions, dy):
        x = x.detach().requires_grad_()
        fused(encoding)(x, positions).backward(dy)
        return x.grad

    report = check(vjp, encoding, "apply_vjp", backend="torch", dtype=dtype)
    assert report.passed, report


@pytest.mark.parametrize("name", by_day(FUSED, {"half-trailing", "interleaved-partial"}))
def test_gradcheck_twice(name, rng):
    encoding = ROTARY[name]
    at = positions_of(encoding, [3, 1, 400])
    x = tensor(rng, 2, 3, D, dtype="float64", grad=True)
    fast = fused(encoding)
    assert torch.autograd.gradcheck(lambda x: fast(x, at), x)
    assert torch.autograd.gradgradcheck(lambda x: fast(x, at), x)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # opcheck of torch 2.14 reads it
@pytest.mark.parametrize("name", ["half-trailing", "interleaved-partial"])
def test_the_operator_passes_opcheck(name, rng):
    """torch checks the schema, fake tensors, the registration of autograd and dynamic shapes."""
    encoding = ROTARY[name]
    x = tensor(rng, 2, 3, D, grad=True)
    fused(encoding)(x, range(3))  # registers it
    run = fused(encoding)._tables.runs[0]
    factor = tensor(rng, 3, run.size, 2) if run.interleaved else tensor(rng, 2, 3, run.size)
    arguments = (x, factor, run.interleaved, run.start, False)
    torch.library.opcheck(torch.ops.posenc_ref.rotate.default, arguments)


@pytest.mark.parametrize("name", ["half-trailing", "interleaved-partial", "sections-half"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_compile_makes_one_graph(name, dtype, rng):
    """``compile(fullgraph=True)`` captures forward and backward without a break."""
    torch._dynamo.reset()
    encoding = ROTARY[name]
    at = positions_of(encoding, range(7))
    x = tensor(rng, 2, 3, 7, D, dtype=dtype, grad=True)
    ready = fused(encoding).prepare(at, like=x)
    eager = ready(x)
    (expected,) = torch.autograd.grad(eager.sum(), x)
    compiled = torch.compile(lambda x: ready(x), fullgraph=True, backend="aot_eager")
    got = compiled(x)
    assert close(got, eager, dtype)
    assert close(torch.autograd.grad(got.sum(), x)[0], expected, dtype)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_inductor(rng):
    torch._dynamo.reset()
    encoding = ROTARY["half"]
    x = tensor(rng, 2, 3, 7, D, dtype="bfloat16", grad=True)
    ready = fused(encoding).prepare(range(9), like=x)
    compiled = torch.compile(lambda x: ready(x, 2), fullgraph=True)
    assert close(compiled(x), ready(x, 2), "bfloat16")


def test_autocast_does_not_change_angles(rng):
    encoding = ROTARY["half"]
    x = tensor(rng, 2, 4, D)
    far = np.array([3, 2**17 + 1, 2**20 + 3, 2**24 + 1])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = fused(encoding)(x, far)
    assert y.dtype == torch.float32
    assert torch.equal(y, fused(encoding)(x, far))
    assert close(y, encoding.apply(x.double(), far))


@pytest.mark.parametrize("name", ["half", "interleaved-partial"])
def test_torch_func(name, rng):
    encoding = ROTARY[name]
    x = tensor(rng, 4, 2, 3, D, dtype="float64")
    fast = fused(encoding)
    whole = fast(x, range(3))
    assert close(torch.func.vmap(lambda t: fast(t, range(3)))(x), whole, "float64")
    gradient = torch.func.grad(lambda t: fast(t, range(3)).square().sum())(x)
    m = encoding.attention_factor()
    factors = torch.ones(D, dtype=torch.float64)
    factors[np.concatenate(encoding.pairs())] = m * m
    assert close(gradient, 2 * x * factors, "float64")
    tangent = torch.func.jvp(lambda t: fast(t, range(3)), (x,), (whole,))[1]
    assert close(tangent, fast(whole, range(3)), "float64")


def test_out_and_in_place(rng):
    for name in FUSED:
        encoding = ROTARY[name]
        at = positions_of(encoding, range(7))
        x = tensor(rng, 2, 3, 7, D)
        fast = fused(encoding)
        expected = fast(x, at)
        out = torch.full_like(x, 7)
        assert fast(x, at, out=out) is out
        assert torch.equal(out, expected)
        placed = x.clone()
        assert fast(placed, at, out=placed) is placed
        assert torch.equal(placed, expected)
        both = torch.cat([x, x], dim=2)
        fast(both[:, :, :7], at, out=both[:, :, 3:10])
        assert torch.equal(both[:, :, 3:10], expected)
    with pytest.raises(ValueError, match="where gradients are wanted"):
        fused(ROTARY["half"])(tensor(rng, 2, D, grad=True), range(2), out=tensor(rng, 2, D))


def test_autograd_saves_tables_and_not_x(rng):
    x = tensor(rng, 1, 8, 512, D, grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        fused(ROTARY["half"])(x, range(512))
    assert kept
    assert all(t.numel() <= 512 * D for t in kept)


def test_strides_that_cannot_be_viewed_as_complex_numbers(rng):
    encoding = pr.RoPE(D, layout="interleaved")
    for x in (
        tensor(rng, 2, 5, D + 1)[..., 1:],
        tensor(rng, 2, 5, D + 1)[..., :D],
        tensor(rng, 2, D, 5).transpose(1, 2),
        tensor(rng, 5, D).expand(2, 5, D),
    ):
        assert close(fused(encoding)(x, range(5)), encoding.apply(x, range(5)))
        assert close(x, x.clone())


def test_threads_share_one_encoding(rng):
    fast = fused(ROTARY["half"])
    x = tensor(rng, 4, 64, D)
    alone = [fused(ROTARY["half"])(x, range(n, n + 64)) for n in range(16)]
    wrong = []

    def work(n):
        if not torch.equal(fast(x, range(n, n + 64)), alone[n]):
            wrong.append(n)

    threads = [threading.Thread(target=work, args=(n % 16,)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_refused_arguments(rng):
    ready = fused(ROTARY["half"]).prepare(range(4), like=tensor(rng, 1))
    with pytest.raises(TypeError, match=r"x must be a torch array of float32, .*float64"):
        ready(tensor(rng, 4, D, dtype="float64"))  # needs more exact tables
    with pytest.raises(TypeError, match="x must be a torch array"):
        ready(np.zeros((4, D), np.float32))
    with pytest.raises(TypeError, match=r"start must be an integer, .*pass positions"):
        ready(tensor(rng, 4, D), range(4))
    with pytest.raises(ValueError, match="out must have"):
        fused(ROTARY["half"])(tensor(rng, 4, D), range(4), out=tensor(rng, 3, D))


@pytest.mark.parametrize("name", ["half", "interleaved-partial"])
def test_tables_of_a_float32_parameter_serve_autocast(name, rng):
    """Autocast makes queries bfloat16; the same tables serve them, eagerly and compiled."""
    torch._dynamo.reset()
    encoding = ROTARY[name]
    ready = fused(encoding).prepare(range(20), like=torch.nn.Parameter(tensor(rng, 1)))
    assert repr(ready).endswith(".prepare(20 positions, torch float32, float16 or bfloat16)")
    for dtype in ("float32", "bfloat16", "float16"):
        x = tensor(rng, 2, 7, D, dtype=dtype)
        expected = fused(encoding)(x, range(5, 12))
        assert torch.equal(ready(x, 5), expected)
        compiled = torch.compile(lambda x: ready(x, 5), fullgraph=True, backend="eager")
        assert close(compiled(x), expected, dtype)


def test_forward_mode(rng):
    for encoding in (ROTARY["half-trailing"], ROTARY["interleaved"]):
        x = tensor(rng, 1, 2, D, dtype="float64")
        fast = fused(encoding)
        jacobians = [
            torch.autograd.functional.jacobian(f, x, strategy="forward-mode", vectorize=True)
            for f in (lambda t, fast=fast: fast(t, range(2)),
                      lambda t, encoding=encoding: encoding.apply(t, range(2)))
        ]  # fmt: skip
        assert close(*jacobians, "float64")
        assert jacobians[0].abs().sum() > 0


def test_tables_made_in_inference_mode_serve_training(rng):
    fast = fused(ROTARY["half"])
    x = tensor(rng, 2, 5, D)
    with torch.inference_mode(), torch.device("meta"):
        fast(x, range(5))
    fast(x.clone().requires_grad_(), range(5)).sum().backward()


def test_copies_and_pickles(rng):
    for encoding in (ROTARY["half"], ROTARY["interleaved-partial"]):
        fast = fused(encoding, tensor_layout="bshd")
        x = tensor(rng, 1, 5, 2, D)
        ready = fast.prepare(range(5), like=x)
        for one in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
            assert torch.equal(one(x, range(5)), fast(x, range(5)))
        for one in (copy.deepcopy(ready), pickle.loads(pickle.dumps(ready))):
            assert torch.equal(one(x), ready(x))


@pytest.mark.parametrize("name", ["half", "interleaved"])
def test_empty_tensors_and_expanded_axes(name, rng):
    fast = fused(ROTARY[name])
    for shape in ((2, 3, 0, D), (0, 3, 5, D)):
        assert fast(tensor(rng, *shape), range(shape[2])).shape == shape
        assert fast(np.zeros(shape, np.float32), range(shape[2])).shape == shape
    spread = np.broadcast_to(np.ones(D, np.float32), (1, 2, 5, D))
    assert np.array_equal(fast(spread, range(5)), fast(spread.copy(), range(5)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_new_tensors_in_large_pages_are_tensors_of_their_own(dtype, monkeypatch):
    monkeypatch.setattr(torch_rotary, "LARGE", 0)
    x = torch.randn(2, 3, 16, D, dtype=getattr(torch, dtype), requires_grad=True)
    fast = fused(ROTARY["half"])
    made = fast(x.detach(), range(16))
    assert made.untyped_storage().nbytes() == made.nbytes
    assert made.data_ptr() % 64 == 0
    y = fast(x, range(16))
    y.mul_(2)  # autograd forbids this for a view
    y.backward(torch.ones_like(y))
    assert torch.equal(x.grad, fast.inverse(torch.full_like(made, 2), range(16)))
    assert torch.equal(y.detach(), 2 * fast(x.detach(), range(16), out=torch.empty_like(made)))
