"""What the command line does on Windows and macOS, as far as Linux can show it."""

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from posenc_ref.conformance import __main__
from posenc_ref.conformance.cli.options import loading
from posenc_ref.conformance.cli.options.apart import MEMORY, memory_limit
from posenc_ref.conformance.cli.options.loading import UsageError, command_words, load_target
from posenc_ref.conformance.isolation import group, streams

ROPE = """
def rope(x, positions):
    return x
"""


@pytest.mark.parametrize(
    ("target", "file"),
    [
        (r"C:\code\rope.py:rope", r"C:\code\rope.py"),
        ("C:/code/rope.py:rope", "C:/code/rope.py"),
        (r"D:rope.py:rope", "D:rope.py"),
        (r"\\server\share\rope.py:rope", r"\\server\share\rope.py"),
    ],
)
def test_a_drive_letter_is_part_of_the_file(target, file, monkeypatch):
    asked = []

    def read(path):
        asked.append(path)
        raise UsageError("stop")

    monkeypatch.setattr(loading, "_load_file", read)
    with pytest.raises(UsageError, match="stop"):
        load_target(target)
    assert asked == [Path(file)]


@pytest.mark.parametrize("target", [r"C:\code\rope.py", "C:/code/rope.py"])
def test_a_drive_letter_is_no_module(target):
    with pytest.raises(UsageError, match=r"TARGET must be file\.py:function"):
        load_target(target)


def test_a_backslash_belongs_to_a_path_of_windows(monkeypatch):
    asked = r'"C:\Program Files\rope.exe" --layout C:\new.json'
    monkeypatch.setattr(loading, "os", SimpleNamespace(name="nt"))
    assert command_words(asked) == [r"C:\Program Files\rope.exe", "--layout", r"C:\new.json"]
    monkeypatch.setattr(loading, "os", SimpleNamespace(name="posix"))
    assert command_words(r"'my rope' a\ b") == ["my rope", "a b"]
    with pytest.raises(UsageError, match="--exec is not a command line: No closing quotation"):
        command_words("'rope")


@pytest.mark.parametrize("encoding", ["cp1252", "cp437"])
def test_a_console_without_the_characters_of_a_name(encoding, tmp_path, monkeypatch):
    """Windows' consoles and pipes may have an encoding of 256 characters."""
    (tmp_path / "поворот.py").write_text(ROPE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(__main__, "end_all_on_signals", lambda: None)
    monkeypatch.setattr(__main__, "hide_files", lambda: None)
    asked = ["check", "--in-process", "поворот.py:rope", "--encoding", 'RoPE(8, layout="half")']
    monkeypatch.setattr(sys, "argv", ["posenc", *asked])
    console = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(console, encoding=encoding))
    with pytest.raises(SystemExit) as end:
        __main__.main()
    sys.stdout.flush()
    out = console.getvalue().decode(encoding)
    assert end.value.code == 1
    assert out.startswith("DEVIATES")
    assert r"\u043f\u043e\u0432\u043e\u0440\u043e\u0442.py:rope" in out


def test_a_group_without_proc_is_its_session(monkeypatch):
    """On macOS and Windows there is no /proc: nothing is known of other processes, or memory."""
    monkeypatch.setattr(group, "LINUX", False)
    sleeping = group.Group([sys.executable, "-c", "import time; time.sleep(60)"])
    assert sleeping.memory() == 0
    assert not sleeping.others()
    assert sleeping.end() != 0


def test_output_is_read_where_a_pipe_cannot_be_asked(monkeypatch):
    """Windows' pipes cannot say whether they have data: the reading thread waits for it."""
    monkeypatch.setattr(streams, "sys", SimpleNamespace(platform="win32"))
    reader, writer = os.pipe()
    shown = []
    capture = streams.Capture(os.fdopen(reader, "rb", 0), shown.append)
    os.write(writer, b"one\ntwo\n")
    os.close(writer)
    capture.close(5)
    assert "".join(shown) == "| one\n| two\n"
    assert capture.last(1) == ["two"]


def test_a_limit_of_memory_that_would_have_no_effect_is_refused(monkeypatch):
    assert memory_limit(None) == MEMORY
    assert memory_limit(100) == 100
    with pytest.raises(UsageError, match="--memory must be a positive number of MiB, got 0"):
        memory_limit(0)
    monkeypatch.setattr(group, "LINUX", False)
    assert memory_limit(None) == MEMORY
    with pytest.raises(UsageError, match="--memory limits processes on Linux only"):
        memory_limit(100)
