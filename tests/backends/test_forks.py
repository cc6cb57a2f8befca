"""A process that forks while another thread works does not leave the child waiting for ever."""

import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref import sinusoidal
from posenc_ref.backends import fused
from posenc_ref.backends.kernels import threads
from posenc_ref.backends.kernels.guard import Guard

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork, which Windows lacks"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning"),  # of JAX, if another test used it
]
X = np.ones((1, 4, 8), np.float32)


def in_child(call):
    """Return how a forked child ends that makes a call: 0, or a signal after two seconds."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(2)
        status = 1
        try:
            call()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def held():
    """Return a function that lets another thread enter a context, until the test ends."""
    leave, threads = threading.Event(), []

    def hold(context):
        entered = threading.Event()

        def work():
            with context:
                entered.set()
                leave.wait()

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        entered.wait()

    yield hold
    leave.set()
    for thread in threads:
        thread.join()


def test_a_lock_of_another_thread_stays_with_the_parent(held):
    plain, guard = threading.Lock(), Guard()
    held(plain)
    held(guard.lock)
    assert in_child(lambda: plain.acquire(timeout=0.2) or os._exit(7)) == 7
    assert in_child(lambda: guard.lock.acquire()) == 0
    assert guard.lock.locked()


def test_fused_works_in_a_child_that_was_forked_while_tables_were_looked_up(held):
    fast = fused(pr.RoPE(8, layout="half"))
    expected = fast(X, range(4))
    held(fast._tables.kept._guard.lock)
    assert in_child(lambda: np.testing.assert_array_equal(fast(X, range(4)), expected)) == 0


def test_a_child_forked_by_the_thread_that_holds_the_lock(held):
    guard, other = Guard(), Guard()
    held(other.lock)

    def both():
        with guard.lock, other.lock:
            pass

    with guard.lock:
        assert in_child(both) == 0
    with guard.lock:
        assert guard.lock.locked()


def test_an_encoding_works_in_a_child_that_was_forked_while_it_was_measured(monkeypatch):
    """functools.cached_property of Python 3.11 holds a lock of the whole class meanwhile."""
    parent, began, end = os.getpid(), threading.Event(), threading.Event()
    turns = sinusoidal.turns

    def slow(frequencies):
        if os.getpid() == parent:
            began.set()
            end.wait()
        return turns(frequencies)

    monkeypatch.setattr(sinusoidal, "turns", slow)
    thread = threading.Thread(target=lambda: pr.Sinusoidal(8).table([1]))
    thread.start()
    began.wait()
    assert in_child(lambda: pr.Sinusoidal(8).table([1])) == 0
    end.set()
    thread.join()


def test_a_signal_while_tables_are_made_leaves_the_cache_usable():
    fast, fired = fused(pr.RoPE(8, layout="half")), []

    class Interrupted(Exception):
        pass

    def handler(number, frame):
        fired.append(number)
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    gc.disable()  # an exception inside JAX's callback of the collector could not be caught here
    try:
        for _ in range(40):
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            try:
                began = time.monotonic()
                while time.monotonic() - began < 1:
                    fast(X, range(len(fired), len(fired) + 4))
                    fused(pr.RoPE(8, layout="half", base=1e4 + time.monotonic()))(X, range(4))
            except Interrupted:
                continue
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert len(fired) == 40
    found = fast(X, range(4))
    np.testing.assert_array_equal(found, fused(pr.RoPE(8, layout="half"))(X, range(4)))


def test_a_child_starts_threads_of_its_own(held):
    def by_two():
        both = threading.Barrier(2)
        threads.share(lambda part: both.wait(1), [slice(0, 1)] * 2)

    by_two()
    time.sleep(0.05)  # until the thread of the parent waits for more
    held(threads._guard.lock)
    assert in_child(by_two) == 0
