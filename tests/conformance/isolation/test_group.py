"""What is known of the processes of a group: their memory, their number, and their end."""

import os
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import pytest

from posenc_ref.conformance.isolation import group
from posenc_ref.conformance.isolation.conversation import Conversation, Limits
from posenc_ref.conformance.isolation.group import LINUX, Group
from posenc_ref.conformance.isolation.judge import Child
from posenc_ref.conformance.isolation.streams import Silent
from tests.conformance.isolation.running import needs_proc

pytestmark = [needs_proc, pytest.mark.skipif(not LINUX, reason="known on Linux only")]
MIB = 1 << 20
SHARED = """
import mmap, sys
memory = mmap.mmap(-1, 64 << 20)
memory.write(b"x" * (64 << 20))
print("ready", flush=True)
sys.stdin.read()
"""
ANOTHER_SESSION = """
import os, sys, time
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    memory = b"x" * (64 << 20)
    os.write(writer, b"x")
    time.sleep(60)
os.read(reader, 1)
print("ready", flush=True)
sys.stdin.read()
"""
ANSWERS_FAST = """
import sys
memory = []
for line in sys.stdin:
    memory.append(b"x" * (1 << 20))
    print("yes", flush=True)
"""
HIDES = """
import ctypes, os, runpy, sys
hide_files = runpy.run_path(sys.argv[1])["hide_files"]
if os.getuid() == 0:
    os.setuid(65534)  # root may read every process
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)

def seen():
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.readlink(f"/proc/{parent}/fd/1")
        except PermissionError:
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

before = seen()
hide_files()
print(before, seen())
"""


@contextmanager
def running(source):
    """Start a program, and wait until it says that it is ready."""
    command = [sys.executable, "-S", "-c", source]
    program = Group(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert program.process.stdout.readline() == b"ready\n"
        yield program
    finally:
        program.end()
        program.process.stdin.close()
        program.process.stdout.close()


@pytest.mark.parametrize(("source", "others"), [(SHARED, False), (ANOTHER_SESSION, True)])
def test_memory_counts_wherever_it_is(source, others):
    with running(source) as program:
        assert 64 * MIB < program.memory() < 128 * MIB
        assert program.others() == others


def test_the_memory_of_a_process_that_answers_fast_is_looked_at():
    command = [sys.executable, "-S", "-u", "-c", ANSWERS_FAST]
    with closing(Conversation(command)) as talk:

        def answers():
            for _ in range(2000):
                assert talk.ask(b"\n", Limits(seconds=10, memory=48)) == b"yes\n"

        with pytest.raises(Silent, match="memory"):
            answers()


def test_pipes_do_not_get_the_numbers_of_closed_descriptors():
    source = "import runpy, os, sys; runpy.run_path(sys.argv[1])['fill_closed'](); print(os.pipe())"
    command = ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", sys.executable, "-S", "-c", source]
    done = subprocess.run([*command, group.__file__], capture_output=True, text=True, check=False)
    assert min(eval(done.stdout)) > 2


def test_another_process_of_the_user_cannot_open_the_output():
    command = [sys.executable, "-S", "-c", HIDES, group.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "1 0\n", done.stderr


def holds_the_lock():
    import ctypes

    yield os.getpid()
    ctypes.PyDLL(None).sleep(30)  # a PyDLL keeps the lock of Python


@pytest.mark.nightly
def test_a_function_that_holds_the_lock_ends_after_posenc_is_killed():
    reader, writer = os.pipe()
    parent = os.fork()
    if parent == 0:
        for pid in Child().run(holds_the_lock):
            os.write(writer, f"{pid}\n".encode())
            time.sleep(0.2)
            os.kill(os.getpid(), 9)
    os.close(writer)
    with open(reader, encoding="ascii") as file:
        pid = int(file.readline())
    os.waitpid(parent, 0)
    until = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}/environ") and _runs(pid):
        assert time.monotonic() < until
        time.sleep(0.05)


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False
