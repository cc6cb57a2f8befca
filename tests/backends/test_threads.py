"""64 threads that share one encoding get the values of one thread, on every path."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.backends import backend, fused
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
