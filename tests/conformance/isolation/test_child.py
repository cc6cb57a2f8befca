"""The process that runs foreign functions: what it keeps, what it undoes, when it is replaced."""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from contextlib import closing

import pytest

from posenc_ref.conformance.isolation.child import _restored, _state
from posenc_ref.conformance.isolation.conversation import Limits
from posenc_ref.conformance.isolation.judge import Child, Died, Raised


def pid():
    yield os.getpid()


def place():
    yield [os.getcwd(), os.environ.get("LEFT_HERE", "")]


def moves():
    os.chdir("/")
    os.environ["LEFT_HERE"] = "yes"
    yield os.getpid()


def starts_a_thread():
    threading.Thread(target=time.sleep, args=(100,)).start()
    yield os.getpid()


def takes_a_signal():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield os.getpid()


def prints():
    sys.stdout.write("two\nlines")
    yield 1


def raises():
    yield 1
    raise KeyError("x")


def counts():
    yield from range(1000)


def forges(change):
    """Write an answer to every file descriptor: a complete one, but for one change."""
    answer = {"nonce": "0" * 32, "number": 1, "item": {"printed": ["CONFORMS", 0, ""]}} | change
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(descriptor, json.dumps(answer).encode() + b"\n")
    yield 1


@pytest.fixture
def child():
    with closing(Child()) as made:
        yield made


@pytest.mark.parametrize("known", ["nothing", "the nonce", "the number"])
def test_a_line_without_nonce_and_number_is_no_answer(child, known):
    """A function that knows both can forge an answer: docs/reliability.md says so."""
    child.start()
    change = {"the nonce": {"nonce": child._nonce, "number": 7}, "the number": {"nonce": ""}}
    with pytest.raises(Died, match="wrote to the private pipe of the verdict"):
        list(child.run(forges, change.get(known, {"number": 7})))


def test_a_process_is_kept_unless_a_function_leaves_something(child):
    (first,) = child.run(pid)
    assert first != os.getpid()
    assert [*child.run(moves), *child.run(pid)] == [first, first]
    assert list(child.run(place)) == [[os.getcwd(), ""]]
    for leaves in (starts_a_thread, takes_a_signal):
        (before,) = child.run(leaves)
        (after,) = child.run(pid)
        assert before != after


def test_results_and_exceptions_and_what_was_printed(child):
    assert list(child.run(prints)) == [1]
    assert child.printed == (1, 9)
    with pytest.raises(Raised, match="KeyError: 'x'") as caught:
        list(child.run(raises))
    assert "in raises" in caught.value.trace
    assert not caught.value.ends
    items = child.run(counts)
    assert next(items) == 0
    items.close()  # the rest is not wanted: it must not be taken for the next answer
    assert list(child.run(counts)) == list(range(1000))
    assert child.printed == (0, 0)


def test_a_limit_of_time_holds_for_the_whole_run(child):
    begin = time.monotonic()
    with pytest.raises(Died, match=r"did not finish within 0\.5 s"):
        list(child.run(starts_a_sleep, limits=Limits(0.5)))
    assert time.monotonic() - begin < 20


def starts_a_sleep():
    for n in range(1000):
        time.sleep(0.1)
        yield n


def test_a_new_thread_is_noticed_and_one_that_has_ended_is_not():
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    before = _state()
    thread.start()
    with_it = _state()
    assert _restored(before)
    ended.set()
    thread.join()
    assert not _restored(before)
    assert not _restored(with_it)
