"""Share the work on a NumPy array among threads: NumPy and compiled loops release the lock.

Every element is computed by the same operations, whichever thread computes it.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context

from posenc_ref import _validate as validate

from .guard import Guard

#: A thread for less than this many bytes costs more time than it saves.
_LEAST = 2**20
#: The variables that limit the threads of NumPy's own libraries, and by which users limit all.
_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_guard = Guard()
_pool: ThreadPoolExecutor | None = None
_mine = threading.local()


def checked(threads: int | None) -> int | None:
    """Return ``threads``; raise unless it is None or a positive integer."""
    return None if threads is None else validate.integer("threads", threads, minimum=1)


def count(threads: int | None, size: int) -> int:
    """Return how many threads work on ``size`` bytes, if at most ``threads`` are allowed.

    None allows as many as the environment variables of NumPy's own threads, or else one for every
    core of the process; in a worker process of ``multiprocessing``, one.
    """
    most = size // _LEAST
    if most < 2 or getattr(_mine, "works", False):
        return 1
    return max(1, min(_default() if threads is None else threads, most))


def _default() -> int:
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        return 1
    for name in _VARIABLES:
        first = os.environ.get(name, "").partition(",")[0].strip()
        if first.isdecimal() and int(first) > 0:
            return int(first)
    mine = hasattr(os, "sched_getaffinity")  # not on macOS and Windows
    return len(os.sched_getaffinity(0)) if mine else os.cpu_count() or 1


def cuts(length: int, parts: int, step: int = 1) -> list[slice]:
    """Return at most ``parts`` slices of 0 .. length - 1, which begin at multiples of ``step``."""
    blocks = -(-length // step)
    parts = max(1, min(parts, blocks))
    edges = [min(length, step * (blocks * i // parts)) for i in range(parts + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def share(work: Callable[[slice], object], parts: Sequence[slice]) -> None:
    """Call ``work`` with each of ``parts``, in this thread and others; return when all ended.

    A part is done by the first thread that is free, so a busy or missing thread costs time only.
    """
    if len(parts) == 1:
        work(parts[0])
        return
    left, working, errors = deque(parts), list[threading.Lock](), list[BaseException]()

    def some() -> None:
        mine = threading.Lock()
        with mine:
            working.append(mine)
            try:
                while left:
                    try:
                        part = left.popleft()
                    except IndexError:  # another thread was faster
                        return
                    work(part)
            except BaseException as error:
                errors.append(error)

    try:
        with suppress(RuntimeError):  # Python is ending, or the system allows no more threads
            pool = _of_size(len(parts) - 1)
            for _ in parts[1:]:
                pool.submit(copy_context().run, some)  # in a context with the caller's np.errstate
        some()
    except BaseException as error:
        errors.append(error)
    while True:
        try:
            left.clear()  # after an error there may be some
            for theirs in working:
                with theirs:
                    pass
            break
        except BaseException as error:  # of a signal handler: the others still write
            errors.append(error)
    if errors:
        raise errors[0]


def _of_size(size: int) -> ThreadPoolExecutor:
    """Return a pool of at least ``size`` threads; a smaller one ends when nobody uses it."""
    global _pool
    with _guard.lock:
        if _pool is None or _pool._max_workers < size:
            _pool = ThreadPoolExecutor(size, "posenc_ref", _begin)
        return _pool


def _begin() -> None:
    _mine.works = True


def _forget() -> None:
    """Drop the pool in a forked child, which has none of its threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
