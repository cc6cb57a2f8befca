"""Run ``posenc`` as a user does, and find the processes that it leaves behind."""

import os
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

ENCODING = '{"encoding": "RoPE", "head_dim": 8, "layout": "half"}'
#: Processes are found in /proc.
needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
#: The variable by which these tests know the processes of a run; posenc has a mark of its own.
TOKEN = "TEST_OF_POSENC"
WORDS = {0: ("CONFORMS",), 1: ("DEVIATES",), 3: ("ERROR", "INCONCLUSIVE")}


@dataclass(frozen=True)
class Ran:
    """What a run printed, its exit code, its seconds, and the processes that it left."""

    code: int
    out: str
    err: str
    seconds: float
    left: tuple[str, ...]


def processes(token, folder):
    """Return the processes with this token in their first environment, or in this folder."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            there = Path("/proc", name, "cwd").readlink() == Path(folder)
            if there or token in Path("/proc", name, "environ").read_bytes():
                command = Path("/proc", name, "cmdline").read_bytes()
                found.append(f"{name} {command.replace(bytes(1), b' ').decode(errors='replace')}")
        except OSError:  # ended meanwhile, or another user's
            continue
    return tuple(found)


def start(*arguments, cwd):
    """Start ``posenc``; return the process and the token of its run."""
    token = uuid.uuid4().hex
    process = subprocess.Popen(
        [sys.executable, "-m", "posenc_ref.conformance", *map(str, arguments)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd,
        env=os.environ | {TOKEN: token, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return process, token.encode()


def posenc(*arguments, cwd):
    """Run ``posenc`` with these arguments."""
    begin = time.perf_counter()
    process, token = start(*arguments, cwd=cwd)
    out, err = process.communicate(timeout=120)
    seconds = time.perf_counter() - begin
    text = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
    return Ran(process.returncode, *text, seconds, processes(token, cwd))


def check(*arguments, cwd):
    """Run ``posenc check`` for a small rotary encoding, up to position 128."""
    return posenc("check", *arguments, "--encoding", ENCODING, cwd=cwd)


def require_verdict(ran, codes):
    """Fail unless a run printed a verdict that fits its exit code, and left no process."""
    assert ran.code in codes, (ran.code, ran.out, ran.err[-2000:])
    if ran.code == 2:
        assert ran.out == ""
        assert ran.err.splitlines()[-1].startswith("posenc: "), ran.err
    else:
        assert ran.out.startswith(WORDS[ran.code]), ran.out
    assert ran.left == ()
    assert len(ran.err) < 300_000
