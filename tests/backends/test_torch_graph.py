"""Every call of the fused path compiles to a whole graph, whatever changes between calls."""

import numpy as np
import pytest

from posenc_ref.backends import fused
from tests.backends.comparison import close
from tests.backends.test_fused import ROTARY, D, positions_of
from tests.backends.test_fused_torch import tensor
from tests.night import by_day

torch = pytest.importorskip("torch", reason="its compiler is what is tried")
from posenc_ref.backends import torch_graph  # noqa: E402  # it imports torch

FAR = 2**20
NAMES = ["half-trailing", "interleaved-partial", "sections-half"]


def whole(call, backend="aot_eager"):
    torch._dynamo.reset()
    return torch.compile(call, fullgraph=True, backend=backend)


SHAPES = {"bhsd": (3, 2, 7, D), "bshd": (3, 7, 2, D), "sbhd": (7, 3, 2, D), "thd": (7, 2, D),
          "bs(hd)": (3, 7, 2 * D)}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "layout"),
    [(name, "bhsd") for name in NAMES] + [("half-trailing", layout) for layout in SHAPES][1:],
)
def test_calls_without_prepared_tables(name, layout, rng):
    """Host positions do not break the graph, and gradients are right."""
    encoding = ROTARY[name]
    fast = fused(encoding, tensor_layout=layout)
    x = tensor(rng, *SHAPES[layout], grad=True)
    at = positions_of(encoding, range(FAR, FAR + 7))
    ready = fast.prepare(at, like=x)
    calls = [lambda x: fast(x, at), lambda x: ready(x)]
    for call in [*calls, lambda x: fast.inverse(x, at)] if layout == "bhsd" else calls:
        expected, got = call(x), whole(call)(x)
        assert close(got, expected)
        assert close(*[torch.autograd.grad(y.square().sum(), x)[0] for y in (got, expected)])


@pytest.mark.nightly
def test_lengths_and_positions_that_change(rng):
    """Two graphs serve all lengths and all positions."""
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    fast = fused(ROTARY["half"])
    call = whole(lambda q, k, at: fast.qk(q, k, at), counter)
    for length in (5, 9, 3, 12, 64):
        q, k = tensor(rng, 2, 4, length, D), tensor(rng, 2, 2, length, D)
        at = torch.from_numpy(rng.integers(0, FAR, (2, length)))
        for got, x in zip(call(q, k, at), (q, k), strict=True):
            assert close(got, fast(x, at))
    assert counter.frame_count <= 2
    ranges = whole(lambda q, k: fast.qk(q, k, range(q.shape[2])))
    for length in (5, 9):
        q = tensor(rng, 2, 4, length, D)
        assert all(close(got, fast(q, range(length))) for got in ranges(q, q))


def test_positions_of_every_kind_in_a_graph(rng):
    x = tensor(rng, 2, 3, 4, D, dtype="bfloat16")
    fast = fused(ROTARY["interleaved"])
    for at in (range(9, 1, -2), [4, 0, 7, FAR], np.array([[1, 2, 3, 4], [0, 9, FAR, 1]]),
               np.array([0.5, 1.25, 3, FAR]), torch.arange(4, dtype=torch.int32)):  # fmt: skip
        assert close(whole(lambda x, at=at: fast(x, at))(x), fast(x, at), "bfloat16")
    assert close(whole(lambda x: fast(x, 77))(x[:, :, :1]), fast(x[:, :, :1], 77), "bfloat16")
    wide = x.double()
    assert close(
        whole(lambda x: fast(x, [4, 0, 7, FAR]))(wide), fast(wide, [4, 0, 7, FAR]), "float64"
    )


def test_autocast_does_not_change_angles(rng):
    fast, x, at = fused(ROTARY["half"]), tensor(rng, 2, 3, D), [3, FAR + 1, 2**24 + 1]
    call = whole(lambda x: fast(x, at))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = call(x)
    assert got.dtype == torch.float32
    assert close(got, ROTARY["half"].apply(x.double(), at))


def test_lengths_in_a_graph(rng):
    encoding = ROTARY["dynamic"]
    fast, x = fused(encoding), tensor(rng, 2, 300, D)
    assert close(whole(lambda x: fast(x, range(300)))(x), fast(x, range(300)))
    some = x[:, :3]
    got = whole(lambda q, k: fast.qk(q, k, range(297, 300), range(300), seq_len=300))(some, x)
    for one, other in zip(got, fast.qk(some, x, range(297, 300), range(300)), strict=True):
        assert close(one, other)
    with pytest.raises(Exception, match="seq_len must be given"):
        whole(lambda q, k: fast.qk(q, k, range(297, 300), range(300)))(some, x)


@pytest.mark.day
def test_out_and_in_place(rng):
    fast, x = fused(ROTARY["half-trailing"]), tensor(rng, 2, 3, 5, D)
    ready, expected = fast.prepare(range(5), like=x), fast(x, range(5))
    for call in (lambda x, out: fast(x, range(5), out=out), lambda x, out: ready(x, out=out)):
        out, placed = torch.zeros_like(x), x.clone()
        whole(call)(x, out)
        assert close(out, expected)
        whole(lambda x, call=call: call(x, x))(placed)
        assert close(placed, expected)
    with pytest.raises(Exception, match="out must have x's shape"):
        whole(lambda x: ready(x, out=x[0]))(x)
    with pytest.raises(Exception, match="where gradients are wanted"):
        whole(lambda x: ready(x, out=torch.zeros_like(x)))(x.clone().requires_grad_())


def test_both_are_read_before_one_is_written(rng):
    fast = fused(ROTARY["half-trailing"])
    both = tensor(rng, 2, 6, 5, D)  # the out of q lies in k
    q, k = both[:, :3].clone(), both[:, 3:].clone()
    expected = [fast(y, range(5)) for y in (q, k)]
    got = whole(lambda b, out: fast.qk(b[:, :3], b[:, 3:], range(5), out=(b[:, 1:4], out)))(
        both, torch.zeros_like(k)
    )
    assert all(map(close, got, expected))
    (one, other), path = whole(lambda q, k: fast.qk(q, k, range(5), out=[None, k], explain=True))(
        q, k
    )
    assert other is k
    assert all(map(close, (one, other), expected))
    assert path.startswith("torch: ")
    with pytest.raises(Exception, match="out must be a pair"):
        whole(lambda q, k: fast.qk(q, k, range(5), out=q))(q, k)


@pytest.mark.parametrize("name", ["half-trailing", "interleaved"])
def test_a_start_known_when_the_graph_runs(name, rng):
    """One graph serves a whole decoding; rows outside the tables are NaN."""
    fast, x = fused(ROTARY[name]), tensor(rng, 2, 3, 2, D)
    ready = fast.prepare(range(9), like=x)
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    call = whole(lambda x, start: ready(x, start), counter)
    for start in range(8):
        assert close(call(x, torch.tensor(start)), ready(x, start))
    turned = np.concatenate(ROTARY[name].pairs())
    for start, bad in ((-1, [0]), (8, [1]), (100, [0, 1])):
        wrong = call(x, torch.tensor(start))[..., turned].isnan()
        assert wrong.all(-1)[0, 0].nonzero().flatten().tolist() == bad
        assert wrong.sum() == wrong.all(-1).sum() * turned.size
    assert counter.frame_count == 1
    with pytest.raises(Exception, match="start must be an integer without axes"):
        whole(lambda x, start: ready(x, start))(x, torch.tensor(1.0))


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_inductor_does_not_overwrite_kept_tables(rng):
    fast, x = fused(ROTARY["half"]), tensor(rng, 1, 1, 6, D)
    call = whole(lambda x, at: fast(x, at) * 2 + 1, "inductor")
    for _ in range(3):
        assert close(call(x, torch.arange(6)), fast(x, range(6)) * 2 + 1)


def test_the_operator_passes_opcheck():
    """torch checks the schema, fake tensors and dynamic shapes."""
    fast = fused(ROTARY["sections-half"])
    whole(lambda x: fast(x, range(3)))(torch.zeros(2, 3, D))  # registers it
    for at in (torch.arange(3), torch.arange(18).reshape(3, 2, 3)):
        given = (at, fast._tables.description, None, False, torch.device("cpu"))
        torch.library.opcheck(torch.ops.posenc_ref.phasors.default, given)
        made = torch.ops.posenc_ref.phasors(*given)
        assert torch.equal(made, torch.ops.posenc_ref.phasors(*given))
        made.zero_()  # as a graph may
        assert torch.ops.posenc_ref.phasors(*given).abs().sum() > 0


@pytest.mark.parametrize("name", ["half-trailing", "sections-half", "dynamic"])
def test_positions_wrapped_by_torch_func(name, rng):
    """vmap over positions, alone and with x, and inside grad; positions made inside grad."""
    encoding = ROTARY[name]
    fast, x = fused(encoding), tensor(rng, 4, 3, 5, D)
    at = torch.from_numpy(rng.integers(0, 900, (4, encoding.num_axes, 5)))
    at = at if encoding.num_axes > 1 else at[:, 0]
    each = torch.stack([fast(one, row) for one, row in zip(x, at, strict=True)])
    vmap, grad = torch.func.vmap, torch.func.grad
    assert close(vmap(fast)(x, at), each)
    assert close(vmap(fast, in_dims=(0, at.ndim - 1))(x, at.movedim(0, -1)), each)
    alone = torch.stack([fast(x[0], row) for row in at])
    assert close(vmap(lambda at: fast(x[0], at))(at), alone)
    rows = at if encoding.num_axes == 1 else at[:, 0]
    assert close(vmap(lambda at: fast(x[0], at))(rows), torch.stack([fast(x[0], r) for r in rows]))
    inner = grad(lambda x, at: fast(x, at).square().sum())
    expected = torch.stack([inner(one, row) for one, row in zip(x, at, strict=True)])
    assert close(vmap(inner)(x, at), expected)
    inside = grad(lambda x: fast(x, torch.arange(5)).square().sum())(x)
    assert close(inside, grad(lambda x: fast(x, range(5)).square().sum())(x))


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
def test_gradients_of_positions_in_torch_func(rng):
    encoding, x = ROTARY["half"], tensor(rng, 3, D)
    at = torch.tensor([0.5, 1.5, 7.0])
    found = [torch.func.grad(lambda at, t=turn: t(x, at)[:, 0].sum())(at)
             for turn in (fused(encoding), encoding.apply)]  # fmt: skip
    assert torch.equal(*found)
    assert found[0].abs().min() > 0


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", by_day(NAMES, {"interleaved-partial"}))
def test_large_tensors_are_rotated_by_the_operator(name, dtype, rng, monkeypatch):
    """New tensors lie in large pages; exported programs and transforms have no operator."""
    monkeypatch.setattr(torch_graph, "LARGE", 1)
    seen = []

    def keep(graph, inputs):
        seen.append([str(node.target) for node in graph.graph.nodes])
        return graph.forward

    fast = fused(ROTARY[name], tensor_layout="bshd")
    x = tensor(rng, 2, 7, 3, D, dtype=dtype, grad=True)
    at = positions_of(ROTARY[name], range(FAR, FAR + 7))
    for call in (fast.prepare(at, like=x), lambda x: fast(x, at), lambda x: fast.inverse(x, at)):
        expected = call(x)
        got = whole(call, keep)(x)
        assert any("rotate" in target for target in seen.pop())
        assert torch.equal(got, expected)
        assert close(whole(call)(x), expected, dtype)
        both = [torch.autograd.grad(y.square().sum(), x)[0] for y in (whole(call)(x), expected)]
        assert close(*both, dtype)
    free = torch.compile(lambda x: fast(x, at), fullgraph=True, backend=keep, dynamic=True)
    assert close(free(x), fast(x, at), dtype)
    ready = fused(ROTARY[name]).prepare(at, like=x)
    given = x.detach().transpose(1, 2)
    for call in (
        lambda x: torch.func.vmap(ready)(x),
        torch.func.grad(lambda x: ready(x).float().square().sum()),
        lambda x: torch.func.jvp(ready, (x,), (x + 1,))[1],
    ):
        assert close(whole(call)(given), call(given), dtype)

    class Module(torch.nn.Module):
        def forward(self, x):
            return ready(x)

    program = torch.export.export(Module(), (given,), strict=True)
    assert operators(program) == set()
    assert close(program.module()(given), ready(given), dtype)


def operators(program):
    """Return this package's operators in an exported program."""
    names = {str(node.target) for node in program.graph.nodes}
    return {name for name in names if "posenc_ref" in name}


@pytest.mark.parametrize(
    ("prepared", "strict"),
    [pytest.param(True, True, marks=pytest.mark.day), (True, False), (False, True), (False, False)],
)
def test_an_exported_attention(prepared, strict, rng):
    """With prepared tables, the program runs without this package; the model stays as it was."""
    fast = fused(ROTARY["half-trailing"])
    ready = fast.prepare(range(9), like=torch.zeros(1))

    class Attention(torch.nn.Module):
        def forward(self, q, k, v):
            if prepared:
                q, k = ready(q, 2), ready(k, 2)
            else:
                q, k = fast.qk(q, k, torch.arange(2, 2 + q.shape[-2]))
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    attention, given = Attention(), [tensor(rng, 2, 3, 5, D) for _ in range(3)]
    length = torch.export.Dim("S", min=2, max=7)
    program = torch.export.export(
        attention, tuple(given), dynamic_shapes=({2: length},) * 3, strict=strict
    )
    called = {"posenc_ref.phasors.default"}
    assert operators(program) == (called if strict and not prepared else set())
    for x in (given, [tensor(rng, 2, 3, 4, D) for _ in range(3)]):
        assert close(program.module()(*x), attention(*x))
        q, k = (ROTARY["half-trailing"].apply(y, range(2, 2 + y.shape[-2])) for y in x[:2])
        right = torch.nn.functional.scaled_dot_product_attention(q, k, x[2])
        assert close(program.module()(*x), right)


def test_positions_refused_in_a_graph(rng):
    call, x = fused(ROTARY["half"]), tensor(rng, 3, D)
    for at, message in ((torch.arange(3, device="meta"), "positions are on device meta"),
                        (torch.zeros(3, requires_grad=True), "must not require gradients"),
                        (torch.arange(4), "positions must have shape")):  # fmt: skip
        with pytest.raises(Exception, match=message):
            whole(lambda x, at: call(x, at))(x, at)
