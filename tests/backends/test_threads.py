"""64 threads that share one encoding get the values of one thread, on every path."""

import multiprocessing.process
import os
import pickle
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, current_thread, main_thread

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.backends import backend, fused, toeplitz
from posenc_ref.backends.kernels import (
    numba_loops,
    numpy_rotary,
    phasor_factors,
    phasors,
    threads,
)
from tests.backends.test_fused import ROTARY, D

THREADS, TASKS = 64, 96
X = np.random.default_rng(17).standard_normal((2, 16, D)).astype(np.float32)


@pytest.fixture(autouse=True)
def threads_change_often():
    """Switch threads often, so that short races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def rotation(library, encoding, turn):
    home = backend(library)
    x = home.asarray(X, "float32", home.devices()[0])
    return lambda n: home.asnumpy(turn(encoding)(x, range(n, n + 16)))


def prepared(library, encoding):
    home = backend(library)
    x = home.asarray(X, "float32", home.devices()[0])
    ready = fused(encoding).prepare(range(200), like=x)
    return lambda n: home.asnumpy(ready(x, n))


def once(encoding):
    """Return one fused instance for all calls."""
    fast = fused(encoding)
    return lambda _: fast


def undone(encoding):
    fast = fused(encoding)
    return lambda _: fast.inverse  # made when it is first asked for


PATHS = {
    "specification": lambda: rotation("numpy", ROTARY["dynamic"], lambda e: e.apply),
    "specification on torch": lambda: rotation("torch", ROTARY["half"], lambda e: e.apply),
    "numpy": lambda: rotation("numpy", ROTARY["interleaved-partial"], once(ROTARY["half"])),
    "numpy, by length": lambda: rotation("numpy", ROTARY["dynamic"], once(ROTARY["dynamic"])),
    "numpy, inverse": lambda: rotation("numpy", ROTARY["half"], undone(ROTARY["half"])),
    "numpy, prepared": lambda: prepared("numpy", ROTARY["half-trailing"]),
    "torch": lambda: rotation("torch", ROTARY["half"], once(ROTARY["half"])),
    "torch, prepared": lambda: prepared("torch", ROTARY["interleaved"]),
    "jax": lambda: rotation("jax", ROTARY["half"], once(ROTARY["half"])),
    "jax, prepared": lambda: prepared("jax", ROTARY["interleaved"]),
    "dask": lambda: rotation("dask", ROTARY["half"], once(ROTARY["half"])),
    "table": lambda: (lambda f: lambda n: f(range(n, n + 40)))(fused(pr.Sinusoidal(16))),
    "bias": lambda: (lambda f: lambda n: f(n + 1, 40))(fused(pr.ALiBi(4))),
}


@pytest.mark.parametrize("path", PATHS)
def test_threads_get_the_values_of_one_thread(path):
    # Separate but equal encodings, so that the threads find no tables made.
    alone = [PATHS[path]()(n) for n in range(0, TASKS, 8)]
    call, start = PATHS[path](), Barrier(THREADS)

    def work(first):
        start.wait()
        return {n: call(n) for n in range(first, TASKS, THREADS // 2)}

    with ThreadPoolExecutor(THREADS) as pool:
        for found in pool.map(work, [n % (THREADS // 2) for n in range(THREADS)]):
            for n, got in found.items():
                if n % 8 == 0:
                    assert np.array_equal(got, alone[n // 8])


class Emptied(dict):
    """A dict that another thread seems to clear right after each look-up."""

    def __contains__(self, key):
        found = super().__contains__(key)
        self.clear()
        return found

    def get(self, key, default=None):
        found = super().get(key, default)
        self.clear()
        return found


def test_frequencies_dropped_by_another_thread():
    encoding = ROTARY["dynamic"].replace(base=5000.0)
    expected = encoding.apply(X, range(16))
    encoding.__dict__["_kept_turns"] = Emptied(encoding._kept_turns)
    for _ in range(2):
        assert np.array_equal(encoding.apply(X, range(16)), expected)


@pytest.fixture
def small_shares(monkeypatch):
    """Let threads share small arrays too; return the shares of each call."""
    seen = []

    def noted(work, parts):
        seen.append(len(parts))
        threads.share(work, parts)

    monkeypatch.setattr(threads, "_LEAST", 1)
    monkeypatch.setattr(
        phasor_factors, "BLOCK", 16 * 8 * 64
    )  # consecutive rows of small tables too
    for module in (numpy_rotary, phasors, numba_loops, toeplitz):
        monkeypatch.setattr(module, "share", noted)
    return seen


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["half", "interleaved-partial", "sections-half"])
def test_threads_share_a_rotation(name, dtype, small_shares):
    encoding = ROTARY[name]
    x = np.random.default_rng(3).standard_normal((2, 3, 37, D)).astype(dtype)
    at = np.random.default_rng(4).integers(0, 9000, (2, 37))
    for rows in (at, at[0]):
        given = rows if encoding.num_axes == 1 else np.stack([rows] * encoding.num_axes)
        one = fused(encoding, threads=1)(x, given)
        for n in (2, 3, 5):
            del small_shares[:]
            fast = fused(encoding, threads=n)
            assert np.array_equal(fast(x, given), one)
            placed = x.copy()
            fast(placed, given, out=placed)
            assert np.array_equal(placed, one)
            assert np.array_equal(fast(x[:, :, ::-1], given[..., ::-1]), one[:, :, ::-1])
            assert set(small_shares) <= {1, n}  # tables of few rows are made by one
            assert small_shares.count(n) >= 3
            assert np.array_equal(fast.inverse(one, given), fused(encoding).inverse(one, given))
            ready = fast.prepare(range(50), like=x) if encoding.num_axes == 1 else None
            if ready is not None:
                expected = fused(encoding)(x, range(5, 42))
                del small_shares[:]
                assert np.array_equal(ready(x, 5), expected)
                assert small_shares == [n]
                fast.prepare(range(3000), like=x)
                assert small_shares == [n, n]


def test_compiled_loops_share_no_scratch_memory(small_shares, monkeypatch):
    __import__("numba")
    monkeypatch.setattr(numpy_rotary, "_COMPILED", 1)
    x = np.random.default_rng(3).standard_normal((8, 4096, D)).astype(np.float32)
    expected = fused(ROTARY["half"], threads=1)(x, range(4096))
    fast = fused(ROTARY["half"], threads=4)
    for _ in range(5):
        placed = x.copy()
        path = fast(placed, range(4096), out=placed, explain=True)[1]
        assert path.startswith("numba: ")
        assert np.array_equal(placed, expected)
    assert small_shares.count(4) >= 5


@pytest.mark.parametrize("dim", [2, 34])
def test_one_pair_has_the_same_bits_for_every_number_of_threads(dim, small_shares):
    """As one complex number its bits would depend on the strides of the other axes."""
    encoding = pr.RoPE(dim, layout="interleaved", rotary_dim=2)
    x = np.random.default_rng(3).standard_normal((1, 4, 64, dim)).astype(np.float32)
    at = np.random.default_rng(4).integers(0, 9000, 64)
    x = x[:, :, ::-1]
    one = fused(encoding, threads=1)(x, at)
    for n in (2, 3, 64):
        fast = fused(encoding, threads=n)
        assert np.array_equal(fast(x, at), one)
        for goal in (x.copy(), x.transpose(2, 0, 1, 3).copy().transpose(1, 2, 0, 3)):
            fast(goal, at, out=goal)
            assert np.array_equal(goal, one)
    assert {2, 3, 64} <= set(small_shares)


@pytest.mark.parametrize("library", ["numpy", "numba"])
def test_threads_share_tables_and_biases(library, small_shares, monkeypatch):
    if library == "numba":
        __import__("numba")
        monkeypatch.setattr(numba_loops, "LEAST", 1)
    else:
        monkeypatch.delitem(sys.modules, "numba", raising=False)
    rotary, table, bias = ROTARY["sections-half"], pr.Sinusoidal(16), pr.ALiBi(4)
    at = np.stack([np.arange(3000) + k for k in range(3)])

    def made(n):
        out = np.empty((4, 50, 60))
        fused(bias, threads=n)(50, 60, out=out)
        few = np.empty((1, 50, 60))
        fused(pr.ALiBi(1), threads=n)(50, 60, out=few)
        cos, sin = fused(rotary, threads=n).cos_sin(at)
        one = fused(ROTARY["half"], threads=n).cos_sin(range(3000))
        fractions = np.arange(300) * 0.375
        rows = [fused(table, threads=n)(p) for p in (range(3000), fractions)]
        return out, few, cos, sin, *one, *rows

    alone = made(1)
    for n in (2, 3, 5):
        del small_shares[:]
        assert all(map(np.array_equal, made(n), alone))
        assert max(small_shares) == n
        assert len(small_shares) >= 6


def test_a_call_takes_no_more_threads_than_allowed(monkeypatch):
    mega = 2**20
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert [threads.count(None, size * mega) for size in (0, 1, 2, 3, 99)] == [1, 1, 2, 3, 3]
    assert [threads.count(n, 99 * mega) for n in (1, 2, 8)] == [1, 2, 8]
    assert threads.count(8, 3 * mega) == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setenv("MKL_NUM_THREADS", "0")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    assert threads.count(None, 99 * mega) == 2
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    monkeypatch.setattr(os, "cpu_count", lambda: 9)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 2, 5}, raising=False)
    assert threads.count(None, 10**6 * mega) == 3
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    assert threads.count(None, 10**6 * mega) == 9
    monkeypatch.setattr(multiprocessing.process, "parent_process", lambda: "another process")
    assert threads.count(None, 99 * mega) == 1
    assert threads.count(2, 99 * mega) == 2


def test_work_inside_a_thread_of_the_pool_is_not_shared_again():
    found, together = [], Barrier(3)

    def work(part):
        together.wait(10)  # each part has its own thread
        found.append(threads.count(4, 2**30))

    threads.share(work, [slice(0, 1)] * 3)
    assert sorted(found) == [1, 1, 4]


@pytest.mark.parametrize("raised", [RuntimeError("no new thread"), None])
def test_without_a_free_thread_the_caller_does_the_work(raised, monkeypatch):
    class Busy:
        def submit(self, *call):
            if raised:
                raise raised

    monkeypatch.setattr(threads, "_of_size", lambda size: Busy())
    done = []
    threads.share(done.append, [slice(0, 1), slice(1, 2), slice(2, 3)])
    assert done == [slice(0, 1), slice(1, 2), slice(2, 3)]


def test_all_parts_end_before_an_error_is_raised():
    both, ended = Barrier(2), []

    def work(part):
        both.wait(10)
        if part.start == 0:
            raise ValueError("the first part")
        time.sleep(0.05)
        ended.append(part)

    with pytest.raises(ValueError, match="the first part"):
        threads.share(work, [slice(0, 1), slice(1, 2)])
    assert len(ended) == 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no timers")
def test_all_parts_end_before_a_signal_handler_raises():
    """Else a pool thread writes into the result after Ctrl-C, while the caller goes on."""
    both, ended = Barrier(2), []

    def work(part):
        both.wait(10)
        if current_thread() is not main_thread():
            time.sleep(0.2)
        ended.append(part)

    def raise_error(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, raise_error)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            threads.share(work, [slice(0, 1), slice(1, 2)])
        assert len(ended) == 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_threads_raise_what_the_caller_asked_for(small_shares):
    x = np.full((4, 8, D), 60000.0, np.float16)
    fast = fused(ROTARY["half"], threads=4)
    for row in range(4):
        one = np.where(np.arange(4)[:, None, None] == row, x, np.float16(1))
        with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
            fast(one, range(8))
    assert 4 in small_shares


@pytest.mark.parametrize("asked", [0, -1, True, 1.5, "2"])
def test_the_number_of_threads_is_checked(asked):
    with pytest.raises((TypeError, ValueError), match="threads must be"):
        fused(ROTARY["half"], threads=asked)


def test_copies_and_texts_keep_the_number():
    fast = fused(ROTARY["half"], threads=2)
    assert pickle.loads(pickle.dumps(fast)).threads == fast.inverse.threads == 2
    assert repr(fast).endswith(", threads=2)")
    assert repr(fused(pr.ALiBi(2), threads=2)).endswith(", threads=2)")
    assert "threads" not in repr(fused(pr.Sinusoidal(4)))
