"""Positions of text tokens: against plain loops, and against PyTorch's and transformers' own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from posenc_ref import (
    decode_positions,
    packed,
    position_ids,
    shard_indices,
    shard_positions,
)

MASKS = hnp.arrays(
    np.int64,
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=8),
    elements=st.integers(0, 1),
)


@given(mask=MASKS, padding=st.integers(-1, 3))
def test_real_tokens_are_counted(mask, padding):
    ids = position_ids(mask, padding=padding)
    assert ids.dtype == np.int64
    assert ids.shape == mask.shape
    for index in np.ndindex(mask.shape[:-1]):
        count = 0
        for s, real in enumerate(mask[index].tolist()):
            assert ids[(*index, s)] == (count if real else padding)
            count += real


@given(length=st.integers(1, 9), pad=st.integers(0, 6))
def test_padding_does_not_move_a_row(length, pad):
    """A left-padded row is the row without padding (B155 to B157 of the bug catalogue)."""
    left = [0] * pad + [1] * length
    assert position_ids(left)[pad:].tolist() == list(range(length))
    assert position_ids(left[::-1])[:length].tolist() == list(range(length))


@given(mask=MASKS.filter(lambda mask: mask.ndim == 2 and mask.shape[1] > 0))
def test_generation_of_transformers(mask):
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    transformers = pytest.importorskip(
        "transformers", reason="transformers is what is compared with"
    )

    class Model(transformers.GenerationMixin):
        pass

    theirs = Model()._prepare_position_ids_for_generation(
        torch.zeros(mask.shape, dtype=torch.long), {"attention_mask": torch.tensor(mask)}
    )
    assert (position_ids(mask) == theirs.numpy()).all()


@given(st.lists(st.integers(0, 9), max_size=8))
def test_documents_start_again(lengths):
    want = [i for n in lengths for i in range(n)]
    positions = packed(lengths)
    assert positions.tolist() == want
    assert positions.dtype == np.int64


@given(prompt=st.integers(0, 100), steps=st.integers(0, 10), more=st.integers(0, 5))
def test_decoding_counts_on(prompt, steps, more):
    assert decode_positions(prompt, steps).tolist() == [prompt + i for i in range(steps)]
    rows = decode_positions([prompt, prompt + more], steps)
    assert rows.shape == (2, steps)
    assert (rows[1] - rows[0] == more).all()
    assert (rows[0] == decode_positions(prompt, steps)).all()


def test_decoding_continues_a_padded_prompt():
    mask = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    ids = position_ids(mask)
    following = decode_positions(mask.sum(-1), 2)
    assert following[:, 0].tolist() == (ids[:, -1] + 1).tolist() == [3, 5]


SHARDS = st.integers(1, 4).flatmap(
    lambda size: st.tuples(
        st.just(size),
        st.lists(st.integers(0, 3).map(lambda n: n * 2 * size), min_size=0, max_size=5),
    )
)


@given(SHARDS)
def test_shards_of_every_sequence(drawn):
    size, lengths = drawn
    bounds = np.cumsum([0, *lengths])
    held = []
    for rank in range(size):
        want = []
        for length in lengths:
            chunk = length // (2 * size)
            first = [rank * chunk + i for i in range(chunk)]
            want += first + [length - (rank + 1) * chunk + i for i in range(chunk)]
        positions = shard_positions(bounds, size, rank)
        assert positions.dtype == np.int64
        assert positions.tolist() == want
        indices = shard_indices(bounds, size, rank)
        assert (packed(lengths)[indices] == positions).all()
        held += indices.tolist()
    # Together the ranks hold every token once.
    assert sorted(held) == list(range(sum(lengths)))


@given(size=st.integers(1, 5), chunk=st.integers(1, 4))
def test_the_load_balancer_of_pytorch(size, chunk):
    """Its order of one sequence is the shards of all ranks, one after the other."""
    pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    from torch.distributed.tensor.experimental._context_parallel import _load_balancer as theirs

    total = 2 * size * chunk
    mine = [i for rank in range(size) for i in shard_indices([0, total], size, rank).tolist()]
    order = theirs._HeadTailLoadBalancer(total, size, "cpu")._generate_indices()
    assert mine == order.reshape(-1).tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: position_ids([[0, 2]]), ValueError, "attention_mask must hold 1 for real tokens"),
        (lambda: position_ids([0.0, 1.0]), TypeError, "attention_mask must be integers.*float64"),
        (lambda: position_ids(1), ValueError, r"shape \(..., S\)"),
        (lambda: position_ids([1], padding=-2), ValueError, "padding must be at least -1"),
        (lambda: packed([3, -1]), ValueError, "lengths must be a flat list of counts"),
        (lambda: packed([[3]]), ValueError, "lengths must be a flat list of counts"),
        (lambda: packed([2.5]), TypeError, "lengths must be integers, got float64"),
        (lambda: decode_positions(3, -1), ValueError, "n_steps must be at least 0"),
        (lambda: decode_positions(-1, 1), ValueError, "prompt_len must be at least 0"),
        (lambda: decode_positions([[1]], 1), ValueError, r"one for each row \(B,\)"),
        (
            lambda: shard_positions([0, 6], 2, 0),
            ValueError,
            r"multiple of 2 \* cp_size = 4, got 6: pad",
        ),
        (lambda: shard_positions([0, 8], 2, 2), ValueError, "cp_rank must be below cp_size = 2"),
        (lambda: shard_positions([0, 8], 0, 0), ValueError, "cp_size must be at least 1"),
        (lambda: shard_positions([2, 8], 1, 0), ValueError, "cu_seqlens must rise from 0"),
        (lambda: shard_positions([0, 8, 4], 1, 0), ValueError, "cu_seqlens must rise from 0"),
        (lambda: shard_positions([], 1, 0), ValueError, "cu_seqlens must rise from 0"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_arrays_of_other_libraries_come_to_the_host():
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    jax = pytest.importorskip("jax", reason="JAX's arrays are what is tried")
    dask = pytest.importorskip("dask.array", reason="Dask's arrays are what is tried")
    mask = [[0, 1, 1], [1, 1, 0]]
    for array in (torch.tensor(mask), torch.tensor(mask).bool(), jax.numpy.asarray(mask)):
        ids = position_ids(array)
        assert isinstance(ids, np.ndarray)
        assert ids.tolist() == [[0, 0, 1], [0, 1, 0]]
    assert packed(torch.tensor([2, 1])).tolist() == [0, 1, 0]
    with pytest.raises(TypeError, match="attention_mask must be concrete"):
        position_ids(dask.from_array(np.array(mask)))
