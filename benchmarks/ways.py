"""Candidates with Numba and without, and with several threads, in one process."""

import importlib
import importlib.util
import os

import numpy as np

from posenc_ref.backends.kernels import numba_loops, numpy_rotary, threads

NUMBA = importlib.util.find_spec("numba") is not None
#: With Numba imported, large arrays use it; the other thresholds leave them to NumPy.
_USUAL = numba_loops.LEAST, numpy_rotary._COMPILED
_NEVER = 2**62, 2**62
#: The number of threads beside one.
SEVERAL = 2
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def by(numba, call):
    """Return a call that leaves large arrays to Numba, or to NumPy."""
    if numba:
        importlib.import_module("numba")  # which the fast paths then use

    def run():
        numba_loops.LEAST, numpy_rotary._COMPILED = _USUAL if numba else _NEVER
        return call()

    return run


def multiply(x, out, several=1):
    """Multiply x by a number in one pass, with several threads."""
    k = np.float32(1.01)
    parts = threads.cuts(x.shape[1], several)
    threads.share(lambda at: np.multiply(x[:, at], k, out=out[:, at]), parts)
