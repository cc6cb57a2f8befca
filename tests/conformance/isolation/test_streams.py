"""How much of what a process prints is shown, after control characters became escapes."""

import os
import re

import pytest

from posenc_ref.conformance.isolation import streams
from posenc_ref.conformance.isolation.show import MARK

OUTPUTS = {
    "plain": b"x" * 200,
    "lines": b"abc\n" * 60,
    "empty lines": b"\n" * 200,
    "escapes": b"\x1b[2J\n" * 60,
    "one line of escapes": b"\x1b" * 300,
    "no text": b"\xff\xfe" * 200,
    "written right to left": "\u202e\n".encode() * 90,
    "words": "фу\n".encode() * 80,
    "short": b"one\ntwo",
    "nothing": b"",
}


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
def test_what_is_shown_is_bounded_as_shown(output, size, monkeypatch):
    """The parts have sizes of their own, since a process may write its output in any."""
    monkeypatch.setattr(streams, "SHOWN", 100)
    monkeypatch.setattr(streams, "KEPT", 40)
    monkeypatch.setattr(streams, "_CHUNK", size)
    reader, writer = os.pipe()
    os.write(writer, output)
    os.close(writer)
    shown = []
    capture = streams.Capture(os.fdopen(reader, "rb", 0), shown.append)
    capture.close(5.0)
    assert capture.bytes == len(output)
    text = "".join(shown)
    assert all(line.startswith(MARK) for line in text.splitlines())
    assert text.replace("\n", "").isprintable()
    note = re.search(r"\| \.\.\. (\d+) more bytes, which end with:\n", text)
    beginning, end = (text, "") if note is None else (text[: note.start()], text[note.end() :])
    assert len(beginning.encode()) <= 100
    assert len(end.encode()) <= 40
    assert bool(end) == (note is not None)
    if output in (OUTPUTS["plain"], OUTPUTS["lines"]):  # which are shown as they are
        first = beginning.replace(MARK, "").encode().rstrip(b"\n")
        assert output.startswith(first)
        assert output.strip().endswith(end.replace(MARK, "").encode().strip())
        assert len(output) - int(note[1]) - len(first) in (0, 1)  # 1 is the end of the line
