"""Cases that the CUDA kernel must pass, on a GPU or on the model of one.

    python -m tests.backends.kernels.rotary_cases build/rotary.so ...     # one line for each

Every case runs ``fused(encoding)`` as a user would and compares with the specification.  The error
of rotated channels is measured in roundings of the norm of their pair, at any position; other
channels must be equal bit for bit.
"""

import itertools
import mmap
import sys

import ml_dtypes
import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import Truth
from posenc_ref.backends import cupy_device, fused
from tests.backends.kernels import rotary_model
from tests.backends.kernels.rotary_checks import MOST, STRIDES, exact, memory, random, right
from tests.backends.kernels.rotary_model import Array
from tests.backends.test_fused import DTYPES, ROTARY, D, positions_of

FAR = 2**30
#: The flag of Linux for memory that is allocated on first access; Python has it from 3.13 on.
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
CASES = {}


def case(function):
    CASES[function.__name__.replace("_", " ")] = function
    return function


@case
def every_encoding_and_dtype():
    for name, dtype in itertools.product(ROTARY, DTYPES):
        if name == "other-output":
            continue
        encoding = ROTARY[name]
        at = positions_of(encoding, np.random.default_rng(1).integers(0, FAR, 5))
        right(encoding, random(2, 3, 5, D, dtype=dtype), at, seq_len=700)


@case
def all_strides():
    for how, dtype, layout in itertools.product(STRIDES, DTYPES, ("interleaved", "half")):
        encoding = pr.RoPE(40, layout=layout, rotary_dim=16, rotary_start=8)
        x = memory(how, (2, 5, 3, 40), dtype)
        right(encoding, x, range(FAR, FAR + 3))
        right(encoding, x, range(3), out=rotary_model.poisoned(memory("bshd", x.shape, dtype)))
        right(encoding, x, [7, 3, 2**20], out=x)


@case
def kinds_of_positions():
    encoding = pr.RoPE(16, layout="half", scaling=pr.YaRN(4.0, 512))
    x = random(2, 3, 4, 16)
    rows = np.array([[5, -1, FAR, 7], [0, 2**39, -FAR, 1]])
    right(encoding, x, rows)
    for kind in (np.int64, np.int32, np.uint8):
        small = np.array([[5, 1, 9, 7], [0, 200, 100, 1]]).astype(kind)
        right(encoding, x, small, given=Array(small))
        right(encoding, x, small[0], given=Array(small[0]))
        right(encoding, x, small[:1], given=Array(small[:1]))
    wide = np.zeros((4, 4), np.int64)
    wide[:, ::2] = rows.T
    right(encoding, x, rows, given=Array(wide[:, ::2].T))
    every = np.arange(24).reshape(2, 3, 4) * 1009
    right(encoding, x, every)
    right(encoding, x, every, given=Array(every))
    right(encoding, x, every[:, :1], given=Array(every[:, :1]))
    right(encoding, x, range(9, 1, -2))
    right(encoding, x[:, :, :1], 77)
    right(encoding, x[0], rows[0])
    right(encoding, x[:, 0], rows)
    right(encoding, x[0, 0], rows[0], given=Array(rows[0]))
    unsigned = np.array([3, 2**39, 1, 0], np.uint64)
    right(encoding, x, unsigned, given=Array(unsigned))


@case
def fractional_positions():
    for dtype, layout in itertools.product(DTYPES, ("interleaved", "half")):
        encoding = pr.RoPE(32, layout=layout)
        x = random(2, 3, 4, 32, dtype=dtype)
        rows = np.array([[0.5, 3.25, 1e6 + 0.125, 2], [7, 0, -0.5, 1]])
        right(encoding, x, rows[0], path="from a table")
        right(encoding, x, rows, path="from a table")
        right(encoding, x, rows, given=Array(rows), path="from a table")
        right(encoding, memory("odd rows", x.shape, dtype), rows, path="from a table")


@case
def several_axes():
    for name, dtype in itertools.product(("sections-half", "sections-interleaved", "blockwise"),
                                         ("float64", "bfloat16")):  # fmt: skip
        encoding = ROTARY[name]
        x = random(2, 3, 4, D, dtype=dtype)
        count = encoding.num_axes
        at = np.random.default_rng(3).integers(0, 2**20, (count, 2, 4))
        right(encoding, x, at)
        right(encoding, x, at, given=Array(at))
        right(encoding, x, at[:, 0], given=Array(at[:, 0]))
        right(encoding, x, at[0, 0], given=Array(at[0, 0]))
        right(encoding, x, at + 0.5, path="from a table")
    moved = pr.MultiAxisRoPE(D, sections=(8, 8), layout="half", offset=3)
    right(moved, random(2, 3, 4, D), at[:2])
    right(moved, random(2, 3, 4, D), at[:2], given=Array(at[:2]))
    half = pr.MultiAxisRoPE(D, sections=(8, 8), layout="half", offset=0.5)
    right(half, random(2, 3, 4, D), at[:2], path="from a table")


@case
def interleaved_and_half_runs():
    encoding = pr.MultiAxisRoPE(34, sections=(16, 1), layout="blockwise")
    for dtype in DTYPES:
        x = random(2, 3, 4, 34, dtype=dtype)
        at = positions_of(encoding, range(4))
        right(encoding, x, at)
        right(encoding, x, at, out=x)


@case
def more_axes_than_a_launch_has():
    encoding = pr.RoPE(32, layout="half", rotary_dim=16)
    x = random(2, 3, 2, 5, 4, 32)
    right(encoding, x, range(4))
    right(encoding, x[:, ::2], range(4))
    right(encoding, x.transpose(2, 0, 3, 1, 4, 5), range(4))
    at = np.arange(2 * 3 * 2 * 5 * 4).reshape(x.shape[:-1])
    right(encoding, x[:, ::2], at[:, ::2])
    right(encoding, x, at[:, :1])  # shared by an axis in the middle
    right(encoding, x[:, ::2], at[:, ::2], given=Array(at[:, ::2]))
    right(encoding, x[:, ::2], at[:, ::2] + 0.5, path="from a table")


@case
def partial_blocks():
    for heads, tokens, dim in ((1, 1, 2), (1, 130, 2), (17, 33, 64), (35, 1, 16), (1, 3, 6)):
        for layout in ("interleaved", "half"):
            encoding = pr.RoPE(dim, layout=layout)
            right(encoding, random(2, heads, tokens, dim), range(tokens))
            right(encoding, random(heads, tokens, dim, dtype="float16"), range(tokens))
    many = random(16 * 65535 + 5, 1, 2)  # more heads than a grid has blocks of sixteen
    right(pr.RoPE(2, layout="half"), many, [7], out=many)
    wide = pr.RoPE(1200, layout="half", rotary_dim=1100)  # more pairs than threads
    right(wide, random(2, 3, 1200), range(3))


@case
def offsets_of_more_than_32_bits():
    """Two rows far apart in memory that is never touched."""
    apart = 2**32
    room = mmap.mmap(-1, 2 * (apart + 64), flags=mmap.MAP_PRIVATE | NO_RESERVE)
    line = np.frombuffer(room, np.float16)
    x = np.lib.stride_tricks.as_strided(line, (2, 2, 1, 32), (2 * apart, 64, 64, 2))
    x[...] = random(*x.shape, dtype="float16")
    encoding = pr.RoPE(32, layout="half", rotary_dim=16)
    right(encoding, x, [[3], [FAR]])
    right(encoding, x, [[3], [FAR]], out=x)


@case
def a_row_alone():
    """A row has the same bits alone, among others, and if loaded one element at a time."""
    for dtype, layout in itertools.product(DTYPES, ("interleaved", "half")):
        fast = fused(pr.RoPE(64, layout=layout))
        x, at = random(3, 19, 37, 64, dtype=dtype), np.arange(37) * 1009
        whole = fast(Array(x), at).host
        alone = fast(Array(x[1:2, 4:5, 20:21].copy()), at[20:21]).host
        wide = np.zeros((*x.shape[:-1], 128), x.dtype)[..., ::2]
        wide[...] = x
        assert np.array_equal(alone, whole[1:2, 4:5, 20:21])
        assert np.array_equal(fast(Array(wide), at).host, whole)


@case
def empty_arrays():
    encoding = pr.RoPE(8, layout="half")
    for shape in ((0, 3, 4, 8), (2, 0, 4, 8), (2, 3, 0, 8)):
        right(encoding, random(*shape), range(shape[2]))


@case
def queries_and_keys_in_one_launch():
    library = sys.modules["cupy"]
    for name, dtype in itertools.product(("half", "interleaved", "half-partial-backwards"), DTYPES):
        encoding = ROTARY[name]
        fast = fused(encoding)
        q, k = random(2, 6, 4, D, dtype=dtype), random(2, 2, 4, D, dtype=dtype, seed=6)
        rows = np.array([[5, 1, FAR, 7], [0, 9, 2, 1]])
        for at, given in ((rows, rows), (rows, Array(rows)), (range(4), range(4))):
            before = len(library.launched)
            found = fast.qk(Array(q), Array(k), given)
            assert len(library.launched) == before + 1
            assert exact(encoding, q, at, found[0].host)
            assert exact(encoding, k, at, found[1].host)
        placed = Array(q.copy()), Array(k.copy())
        assert fast.qk(*placed, rows, out=placed)[1] is placed[1]
        assert exact(encoding, k, rows, placed[1].host)
        long = random(2, 2, 9, D, dtype=dtype)
        found = fast.qk(Array(q), Array(long), range(5, 9), range(9))
        assert exact(encoding, q, range(5, 9), found[0].host)
        assert exact(encoding, long, range(9), found[1].host)
    at = np.arange(2 * 6 * 4).reshape(2, 6, 4)  # each head has its own
    found = fast.qk(Array(q), Array(q), at)
    assert exact(encoding, q, at, found[1].host)


@case
def tensor_layouts():
    encoding = ROTARY["half"]
    x = random(2, 5, 3, D)
    for layout, shape in {"bshd": (2, 5, 3, D), "sbhd": (2, 5, 3, D), "thd": (5, 3, D),
                          "bs(hd)": (2, 5, 3 * D)}.items():  # fmt: skip
        given = x[0] if layout == "thd" else x.reshape(shape)
        order = {"sbhd": (1, 2, 0, 3), "thd": (1, 0, 2)}.get(layout, (0, 2, 1, 3))
        first = given.reshape(2, 5, 3, D) if layout == "bs(hd)" else given
        heads = first.transpose(order)
        rows = heads.shape[-2]
        for out in (None, Array(rotary_model.poisoned(given))):
            y = fused(encoding, tensor_layout=layout)(Array(given), range(rows), out=out)
            assert y.shape == shape
            turned = y.host.reshape(first.shape).transpose(order)
            assert exact(encoding, heads, range(rows), turned)


@case
def overlapping_out():
    encoding = pr.RoPE(32, layout="half", rotary_dim=16)
    memory = random(9, 32)
    true = memory[:8].copy()
    fused(encoding)(Array(memory[:8]), range(8), out=Array(memory[1:]))
    assert exact(encoding, true, range(8), memory[1:])
    same = memory[::2]
    right(encoding, same, range(5), out=same)  # one memory, two arrays
    twice = np.broadcast_to(random(32), (3, 32))
    right(encoding, twice, range(3))
    sliding = np.lib.stride_tricks.as_strided(random(99), (3, 32), (4, 4))
    for own in (twice, sliding):
        with pytest.raises(ValueError, match="out must not overlap itself"):
            fused(encoding)(Array(random(3, 32)), range(3), out=Array(own))


@case
def prepared_tables():
    for name, dtype in itertools.product(("half", "interleaved-partial", "blockwise"), DTYPES):
        encoding = ROTARY[name]
        x = random(2, 3, 4, D, dtype=dtype)
        for rows in (np.arange(100, 150), np.arange(50) * 0.75):
            at = positions_of(encoding, rows)
            ready = fused(encoding).prepare(at, like=Array(x), seq_len=200)
            for start in (0, 7, 46):
                here = at[..., start : start + 4]
                assert exact(encoding, x, here, ready(Array(x), start).host, 200)


@case
def beyond_the_domain():
    """Rows beyond the domain are NaN and set the flag; a table is never read outside its rows."""
    encoding = pr.RoPE(32, layout="half", rotary_dim=16)
    fast = fused(encoding)
    for dtype in DTYPES:
        x = random(2, 3, 4, 32, dtype=dtype)
        assert not cupy_device.out_of_bounds()
        limit = 2**40
        at = np.array([limit, -limit, limit + 1, -(2**63)])
        y = fast(Array(x), Array(at)).host
        assert cupy_device.out_of_bounds()
        assert not cupy_device.out_of_bounds()
        assert np.isnan(y[..., 2:, :16].astype(np.float64)).all()
        assert np.array_equal(y[..., 16:], x[..., 16:])
        assert exact(encoding, x[..., :2, :], at[:2], y[..., :2, :])
        ready = fast.prepare(range(9), like=Array(x))
        ready._tables.positions = Array(np.array([8, 9, -1, 0]))
        ready._tables.rows = 4
        y = ready(Array(x)).host
        assert cupy_device.out_of_bounds()
        assert np.isnan(y[..., 1:3, :16].astype(np.float64)).all()
        known = [0, 3]
        assert exact(encoding, x[..., known, :], [8, 0], y[..., known, :])


@case
def subnormals_infinities_and_nan():
    encoding = pr.RoPE(32, layout="half")
    for dtype in DTYPES:
        x = random(1, 1, 3, 32, dtype=dtype)
        small = ml_dtypes.finfo(x.dtype).smallest_subnormal
        x[..., 0, :] = (np.arange(32) - 9) * np.float64(small) * 3
        x[..., 1, 3], x[..., 2, 5] = np.nan, np.inf
        y = fused(encoding)(Array(x), [7, 7, 7]).host
        assert exact(encoding, x[..., :1, :], [7], y[..., :1, :])
        assert np.count_nonzero(y[..., 0, :]) >= 30
        broken = ~np.isfinite(y.astype(np.float64))
        assert [np.flatnonzero(row).tolist() for row in broken[0, 0]] == [[], [3, 19], [5, 21]]


@case
def adjoint():
    """The adjoint is the encoding with the other sign."""
    for dtype in ("float64", "float32"):
        scaling = pr.YaRN(8.0, 512)
        there, back = (pr.RoPE(32, layout="half", scaling=scaling, sign=s) for s in (1, -1))
        x = random(2, 3, 4, 32, dtype=dtype)
        at = np.array([3, FAR, 5, 1])
        y = right(back, x, at)
        true = there.adjoint(x.astype(np.float64), at)
        size = np.abs(x.astype(np.float64)) + np.abs(np.roll(x.astype(np.float64), 16, axis=-1))
        found = Truth(true, there.attention_factor() * size, np.zeros(())).score(y, dtype=dtype)
        assert found.max() <= MOST[dtype]


@case
def a_captured_graph():
    """A call that was made before sends, allocates and waits for nothing."""
    library = sys.modules["cupy"]
    encoding = ROTARY["half"]
    fast = fused(encoding)
    x, at = Array(random(2, 3, 4, D)), Array(np.array([1, 2, 3, FAR]))
    ready = fast.prepare(range(9), like=x)
    first = fast(x, at).host, ready(x, 3).host, fast(x, [4, 1, 7, 7]).host
    library.stream.capturing = True
    try:
        again = fast(x, at).host, ready(x, 3).host, fast(x, [4, 1, 7, 7]).host
        with pytest.raises(ValueError, match=r"while a graph is captured.* of an earlier call"):
            fast(x, [4, 1, 7, 8])
        with pytest.raises(ValueError, match="must be int64, got int32"):
            fast(x, Array(np.arange(4, dtype=np.int32)))
        with pytest.raises(ValueError, match="out must be x, or share no memory"):
            fast(x[:1, :2], at, out=x[:1, 1:])
    finally:
        library.stream.capturing = False
    assert all(map(np.array_equal, first, again))


def failure(path):
    """Return the first case that the library at ``path`` fails, and why; None if it passes all."""
    rotary_model.install(path)
    for name, run in CASES.items():
        try:
            run()
        except AssertionError as error:
            return f"{name}: {error}".splitlines()[0]
    return None


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(path, failure(path) or "right", sep="\t", flush=True)
