"""Shards equal the whole, by sequence (zig-zag halves of context parallelism) and by head."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.backends import backend, fused, score_mod
from tests.backends.comparison import close
from tests.backends.test_fused import ROTARY, D
from tests.night import by_day

LIBRARIES = ["numpy", "torch", "jax"]
#: Lengths of packed sequences, and the number of ranks.
GROUPS = [((16, 8), 2), ((16,), 4), ((24, 48, 12), 3)]


def several(encoding, at):
    """Return positions (S,), or three different rows of them for three axes."""
    return at if encoding.num_axes == 1 else np.stack([at, at // 4, at % 4])[: encoding.num_axes]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "name",
    by_day(["half-trailing", "interleaved", "sections-half", "dynamic"], {"dynamic"}),
)
def test_zig_zag_halves(name, library):
    """A token has the same bits in a shard and in the whole."""
    encoding, home = ROTARY[name], backend(library)
    call = fused(encoding)
    # JAX compiles for every shape: one group is enough there.
    for lengths, size in GROUPS[:1] if library == "jax" else GROUPS:
        total = sum(lengths)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        x = np.random.default_rng(total).standard_normal((2, 3, total, D))
        x = home.asarray(x, "float32", home.devices()[0])
        every = several(encoding, pr.packed(np.array(lengths)))
        for turn in (call, call.inverse, encoding.apply):
            whole = home.asnumpy(turn(x, every, seq_len=max(lengths)))
            held = []
            for rank in range(size):
                rows = pr.shard_indices(starts, size, rank)
                at = several(encoding, pr.shard_positions(starts, size, rank))
                shard = home.asnumpy(turn(x[:, :, rows], at, seq_len=max(lengths)))
                assert np.array_equal(shard, whole[:, :, rows])
                held.append(rows)
            assert np.array_equal(np.sort(np.concatenate(held)), np.arange(total))
        # Positions counted within the rank are wrong.
        own = several(encoding, np.arange(rows.size))
        assert not np.array_equal(home.asnumpy(call(x[:, :, rows], own, seq_len=64)), shard)


@pytest.mark.parametrize("library", LIBRARIES)
def test_logits_of_a_context_parallel_ring(library):
    """The tiles of queries of one rank with keys of another are those of the whole logits."""
    encoding, home = ROTARY["half-trailing"], backend(library)
    q, k = (np.random.default_rng(n).standard_normal((1, 2, 24, D)) for n in (1, 2))
    q, k = (home.asarray(x, "float32", home.devices()[0]) for x in (q, k))
    whole = home.asnumpy(pr.scores(encoding, q, k, range(24), range(24)))
    for ours in range(3):
        i = pr.shard_indices([0, 24], 3, ours)
        for theirs in range(3):
            j = pr.shard_indices([0, 24], 3, theirs)
            tile = home.asnumpy(pr.scores(encoding, q[:, :, i], k[:, :, j], i, j))
            size = (
                np.linalg.norm(home.asnumpy(q)[:, :, i], axis=-1)[..., None]
                * np.linalg.norm(home.asnumpy(k)[:, :, j], axis=-1)[:, :, None]
            )
            wide = whole[:, :, i][..., j].astype(np.float64)
            truth = pr.accuracy.Truth(wide, size, np.zeros(()))
            assert truth.score(tile, dtype="float32").max() <= pr.accuracy.budget("float32")


@pytest.mark.parametrize("heads", [8, 12])
def test_the_heads_of_a_rank(heads):
    """They are views of the whole bias; an ALiBi with fewer heads has other slopes."""
    encoding, size = pr.ALiBi(heads), 4
    whole = fused(encoding)(5, 9)
    local = heads // size
    for rank in range(size):
        mine = slice(rank * local, (rank + 1) * local)
        assert np.array_equal(whole[mine], encoding.bias(range(4, 9), range(9))[mine])
        assert np.shares_memory(whole[mine], whole)
        assert not np.array_equal(whole[mine], fused(pr.ALiBi(local))(5, 9))


def test_the_heads_of_a_rank_in_flex_attention():
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    encoding, size = pr.ALiBi(12), 4
    mod = score_mod(encoding, like=torch.ones(1, 12, 5, 8), offset=4)
    i, j = torch.arange(5)[:, None], torch.arange(9)
    for rank in range(size):
        for h in range(3):
            got = mod(torch.zeros(5, 9), torch.tensor(0), torch.tensor(3 * rank + h), i, j)
            want = encoding.bias(range(4, 9), range(9), dtype=np.float32)[3 * rank + h]
            assert np.array_equal(got.numpy(), want)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_dtensor_is_rotated_by_its_local_part(axis, rng):
    """The way of docs/scale.md works; a DTensor itself is refused, by the specification too."""
    torch = pytest.importorskip("torch", reason="PyTorch's sharded tensors are what is tried")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    encoding = ROTARY["half-trailing"]
    whole = torch.from_numpy(rng.standard_normal((2, 4, 8, D)))
    rank, size = 1, 2
    torch.distributed.init_process_group("fake", rank=rank, world_size=size, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (size,))
        part = whole.chunk(size, dim=axis)[rank].requires_grad_()
        x = DTensor.from_local(part, mesh, [Shard(axis)])
        at = np.arange(8) if axis != 2 else np.arange(8)[4:]
        for call in (fused(encoding), encoding.apply):
            with pytest.raises(TypeError, match=r"got a DTensor: pass x.to_local\(\)"):
                call(x, range(8))
        made = fused(encoding)(x.to_local(), at)
        turned = DTensor.from_local(made, x.device_mesh, x.placements)
        assert turned.shape == whole.shape
        expected = fused(encoding)(whole, range(8)).chunk(size, dim=axis)[rank]
        assert close(turned.to_local(), expected, "float64")
        turned.to_local().sum().backward()
        assert part.grad is not None
    finally:
        torch.distributed.destroy_process_group()
