"""Arrays of more than 2**31 elements, and arrays in files.

Chosen rows hold random numbers, and all others zeros, which stay zeros: a number that is read or
written at an index modulo 2**31 or 2**32 shows, wherever it goes.
"""

import shutil
import sys
import tracemalloc

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import BUDGET, Truth
from posenc_ref.backends import fused
from tests.backends.test_fused import ROTARY, D

GIB = 2**30
BASE, DIM, LENGTH, HEADS = 10000.0, 128, 65600, 256
#: Rows (head, token) at the first elements, on both sides of element 2**31, and at the last.
AROUND = 2**31 // DIM
ROWS = [divmod(row, LENGTH) for row in (0, 1, 2**30 // DIM, AROUND - 1, AROUND, HEADS * LENGTH - 1)]


def test_the_rows_are_around_2_to_the_31():
    assert [head * LENGTH + token for head, token in ROWS[3:5]] == [AROUND - 1, AROUND]
    assert HEADS * LENGTH * DIM > 2**31 + DIM


@pytest.mark.parametrize("name", ["half-trailing", "interleaved"])
def test_arrays_in_files_take_the_fast_path(name, tmp_path, rng):
    x = np.memmap(tmp_path / "x", np.float32, "w+", shape=(2, 5, D))
    x[...] = rng.standard_normal(x.shape)
    out = np.memmap(tmp_path / "out", np.float32, "w+", shape=x.shape)
    expected = fused(ROTARY[name])(np.array(x), range(5))
    result, path = fused(ROTARY[name])(x, range(5), out=out, explain=True)
    assert result is out
    assert path.startswith("numpy: ")
    assert np.array_equal(out, expected)
    fused(ROTARY[name])(x, range(5), out=x)
    assert np.array_equal(x, expected)
    table = np.memmap(tmp_path / "table", np.float64, "w+", shape=(5, D))
    assert fused(pr.Sinusoidal(D))(range(5), out=table) is table
    assert np.array_equal(table, fused(pr.Sinusoidal(D))(range(5)))


@pytest.fixture
def folder(tmp_path):
    """A folder whose files are removed at once: pytest keeps those of the last three runs."""
    yield tmp_path
    shutil.rmtree(tmp_path)


def needs(memory, disk, folder):
    """Skip the test where less memory or disk is free than these numbers of GiB."""
    psutil = pytest.importorskip("psutil", reason="psutil says how much memory is free")
    free = psutil.virtual_memory().available / GIB
    if free < memory:
        pytest.skip(f"the test takes {memory} GiB of memory, {free:.1f} GiB are free")
    free = psutil.disk_usage(str(folder)).free / GIB
    if free < disk:
        pytest.skip(f"the test takes {disk} GiB of disk, {free:.1f} GiB are free")


def angles(positions):
    """Return the angles (S, DIM / 2): the paper's formula."""
    return np.multiply.outer(positions, BASE ** (-np.arange(0, DIM, 2) / DIM))


def rotated(row, position):
    """Return half-split pairs (x1, x2) of one row turned by the angles, with their error unit."""
    at = angles(position)
    x1, x2 = np.split(row.astype(np.float64), 2)
    value = np.concatenate([x1 * np.cos(at) - x2 * np.sin(at), x2 * np.cos(at) + x1 * np.sin(at)])
    return Truth(value, np.tile(abs(x1) + abs(x2), 2), np.zeros(()))


def fill(x, rng):
    """Write random numbers into the chosen rows of ``x`` (HEADS, LENGTH, DIM); return them."""
    made = {at: rng.standard_normal(DIM).astype(np.float16) for at in ROWS}
    for at, row in made.items():
        x[at] = row
    return made


def judge(rows, host, dtype, nonzero):
    """Compare the chosen rows; ``nonzero`` counts the elements of a head that are not zero."""
    for (head, token), row in rows.items():
        assert rotated(row, token).score(host(head, token), dtype=dtype).max() <= BUDGET[dtype]
    for head in range(HEADS):
        chosen = sum(at == head for at, _ in rows)
        assert nonzero(head) <= DIM * chosen


@pytest.mark.nightly
def test_a_rotation_from_file_to_file(folder, rng, monkeypatch):
    needs(2, 9, folder)
    monkeypatch.delitem(sys.modules, "numba", raising=False)  # other tests may have imported it
    x = np.memmap(folder / "x", np.float16, "w+", shape=(HEADS, LENGTH, DIM))
    out = np.memmap(folder / "out", np.float16, "w+", shape=x.shape)
    rows = fill(x, rng)
    tracemalloc.start()
    _, path = fused(pr.RoPE(DIM, layout="half"))(x, range(LENGTH), out=out, explain=True)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path == "numpy: halves, float32 inside"
    assert most < GIB / 4  # the tables take 64 MiB
    judge(rows, lambda *at: out[at], "float16", lambda head: np.count_nonzero(out[head]))


@pytest.mark.nightly
def test_the_specification_by_chunks_of_a_file(folder, rng):
    needs(3, 5, folder)
    x = np.memmap(folder / "x", np.float16, "w+", shape=(HEADS, LENGTH, DIM))
    rows = fill(x, rng)
    rope, positions = pr.RoPE(DIM, layout="half"), np.arange(LENGTH)
    for head in {head for head, _ in ROWS}:  # of the others all numbers are zero
        x[head] = rope.apply(x[head], positions)
    judge(rows, lambda *at: x[at], "float16", lambda head: np.count_nonzero(x[head]))


@pytest.fixture(params=["numpy", "numba"])
def writer(request, monkeypatch):
    """The library that writes large tables: numba if the program has imported it."""
    if request.param == "numba":
        pytest.importorskip("numba", reason="Numba's loops are what is tried")
    else:
        monkeypatch.delitem(sys.modules, "numba", raising=False)
    return request.param


@pytest.mark.nightly
def test_a_table_in_a_file(writer, folder):
    needs(2, 9, folder)
    length = 2**31 // DIM + 9
    out = np.memmap(folder / "out", np.float32, "w+", shape=(length, DIM))
    _, path = fused(pr.Sinusoidal(DIM))(np.arange(length), out=out, explain=True)
    assert path.startswith(writer)
    for first in (0, length // 2, 2**31 // DIM - 4, length - 4):
        at = np.arange(first, first + 4)
        interleaved = np.stack([np.sin(angles(at)), np.cos(angles(at))], -1).reshape(4, DIM)
        truth = Truth(interleaved, np.abs(interleaved), np.zeros(()))
        assert truth.score(out[at], dtype="float32").max() <= BUDGET["float32"]


@pytest.mark.nightly
def test_a_bias_in_a_file(writer, folder):
    needs(2, 9, folder)
    heads, length = 8, 16400
    out = np.memmap(folder / "out", np.float32, "w+", shape=(heads, length, length))
    _, path = fused(pr.ALiBi(heads))(length, length, out=out, explain=True)
    assert path.startswith(writer)
    keys = np.arange(length)
    around = divmod(2**31 // length, length)
    for head, query in ((0, 0), (3, 77), around, (around[0], around[1] + 1), (7, length - 1)):
        expected = -(2.0 ** -(head + 1)) * np.abs(query - keys)  # exact in float32
        causal = keys <= query
        assert np.array_equal(out[head, query, causal], expected[causal])


@pytest.mark.nightly
def test_a_tensor_in_place(folder, rng):
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    needs(6, 0, folder)
    x = torch.zeros(HEADS, LENGTH, DIM, dtype=torch.bfloat16)
    rows = {}
    for at in ROWS:
        x[at] = torch.from_numpy(rng.standard_normal(DIM).astype(np.float32))
        rows[at] = x[at].float().numpy()
    fused(pr.RoPE(DIM, layout="half"))(x, range(LENGTH), out=x)
    judge(
        rows,
        lambda *at: x[at].float().numpy(),
        "bfloat16",
        lambda head: int(torch.count_nonzero(x[head])),
    )
