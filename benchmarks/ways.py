"""Candidates with Numba and without, and limits of one or several threads, in one process."""

import importlib
import importlib.util
import os

import numpy as np

from posenc_ref.backends.kernels import numba_loops, numpy_rotary, threads

NUMBA = importlib.util.find_spec("numba") is not None
#: With Numba imported, large arrays use it; the other thresholds leave them to NumPy.
_USUAL = numba_loops.LEAST, numpy_rotary._COMPILED
_NEVER = 2**62, 2**62
#: The threads of all candidates, and those of a few more candidates beside one thread.
THREADS, SEVERAL = int(os.environ["OMP_NUM_THREADS"]), 2
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def by(numba, call):
    """Return a call that leaves large arrays to Numba, or to NumPy."""
    if numba:
        importlib.import_module("numba")  # which the fast paths then use

    def run():
        numba_loops.LEAST, numpy_rotary._COMPILED = _USUAL if numba else _NEVER
        return call()

    return run


def with_numba(explain):
    """Return whether a loop of Numba serves a call, of which ``explain`` returns the path.

    Numba leaves small arrays to NumPy, and a row with its name must not measure that.
    """
    return NUMBA and by(True, explain)().startswith("numba: ")


def multiply(x, out, several=THREADS):
    """Multiply x by a number in one pass, with several threads."""
    k = np.float32(1.01)
    _share(lambda at: np.multiply(x[:, at], k, out=out[:, at]), x.shape[1], several)


def copy(x, out):
    """Copy x (B, H, S, D)."""
    _share(lambda at: np.copyto(out[:, at], x[:, at]), x.shape[1], THREADS)


def fill(*arrays):
    """Write a number into all of the arrays."""
    for out in arrays:
        _share(lambda at, out=out: out[at].fill(1), len(out), THREADS)


def fill_fresh(*likes):
    """Write a number into new arrays."""
    fill(*map(np.empty_like, likes))


def _share(work, length, several):
    threads.share(work, threads.cuts(length, several))
