"""No hostile program hangs, fills the memory, or leaves a process behind."""

import os
import signal
import stat
import sys
import time

import pytest

from tests.conformance.isolation.hostile_programs import HOSTILE
from tests.conformance.isolation.running import (
    ENCODING,
    PAGE,
    check,
    needs_proc,
    processes,
    require_verdict,
    start,
)

pytestmark = needs_proc
BY_NAME = {one.name: one for one in HOSTILE}
#: Those that only the end of the whole group, readers with a deadline, and the mark stop.
DAILY = ("sh with a child without environment", "leaves a daemon")


def written(tmp_path, one):
    """Write a program, and its script if it has one; return the command."""
    program, script = tmp_path / "program.py", tmp_path / "program.sh"
    program.write_text(one.source, encoding="utf-8")
    if not one.shell:
        return f"{sys.executable} {program}"
    text = one.shell.replace("$PROGRAM", f"{sys.executable} {program}")
    script.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def test_there_are_fifty():
    assert len(BY_NAME) == len(HOSTILE) >= 50
    assert f"{len(HOSTILE)} programs" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in DAILY else pytest.mark.nightly) for name in BY_NAME],
)
def test_a_hostile_program(name, tmp_path):
    one = BY_NAME[name]
    command = written(tmp_path, one)
    options = ("--max-position", "128", *one.options)
    ran = check("--exec", command, *options, cwd=tmp_path)
    require_verdict(ran, one.codes)
    assert ran.seconds < 60


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, *[pytest.param(s, marks=pytest.mark.nightly) for s in
                                 (signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)]]
)  # fmt: skip
def test_a_signal_to_posenc_ends_the_program(number, tmp_path):
    one = BY_NAME["sh with a child that sleeps"]
    process, token = start(
        "check", "--exec", written(tmp_path, one), "--encoding", ENCODING, cwd=tmp_path
    )
    until = time.monotonic() + 60
    while not any(
        "program.py" in line.partition("--exec")[0] for line in processes(token, tmp_path)
    ):
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(1.0)
    os.kill(process.pid, number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert (out, processes(token, tmp_path)) == (b"", ())
