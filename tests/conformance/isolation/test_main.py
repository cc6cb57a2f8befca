"""What ends the command ``posenc``: errors of its own, and readers that leave."""

import os
import sys
from contextlib import suppress

import pytest

from posenc_ref.conformance import __main__ as command
from posenc_ref.conformance import cli
from posenc_ref.conformance.isolation.child import _text
from posenc_ref.conformance.isolation.show import marked, show_output


@pytest.mark.parametrize("debug", ["", "1"])
def test_an_unexpected_exception_has_an_exit_code_of_its_own(debug, monkeypatch, capsys):
    def broken(names):
        raise KeyError("no such row")

    monkeypatch.setattr(cli, "make_app", broken)
    monkeypatch.setattr(sys, "argv", ["posenc", "presets"])
    monkeypatch.setattr(command, "end_all_on_signals", lambda: None)
    monkeypatch.setattr(command, "hide_files", lambda: None)
    monkeypatch.setenv("POSENC_DEBUG", debug)
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == command.INTERNAL == 70
    said = capsys.readouterr().err
    assert "posenc: error of posenc itself, and no verdict: KeyError: no such row" in said
    assert "please report it" in said
    assert ("Traceback" in said) == bool(debug)


@pytest.fixture
def ends(monkeypatch):
    """Return the exit code of ``posenc`` with these arguments, in this process."""
    monkeypatch.setattr(command, "end_all_on_signals", lambda: None)
    monkeypatch.setattr(command, "hide_files", lambda: None)

    def code(*arguments, **streams):
        for name, stream in streams.items():
            monkeypatch.setattr(sys, name, stream)
        monkeypatch.setattr(sys, "argv", ["posenc", *arguments])
        with pytest.raises(SystemExit) as ended:
            command.main()
        return ended.value.code

    return code


def test_a_closed_standard_output_is_refused(ends, capsys):
    assert ends("explain", stdout=None) == 2
    assert capsys.readouterr().err.startswith("posenc: standard output is closed, so no result")


#: The second catches OSError, which means a file that cannot be read.
COMMANDS = [["explain"], ["plan", "llama-3-8b", "--length", "8192"], ["--version"]]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", COMMANDS)
def test_output_that_cannot_be_written_has_an_exit_code_of_its_own(arguments, ends, capsys):
    with open("/dev/full", "w", encoding="utf-8") as full:
        assert ends(*arguments, stdout=full) == command.UNWRITABLE == 74
    assert capsys.readouterr().err == (
        "posenc: the output cannot be written: No space left on device; what was printed may be "
        "incomplete, and the exit code is no verdict\n"
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["explain", "nonsense"], ["presets"]])
def test_an_error_that_cannot_be_said_is_no_deviation(arguments, ends, monkeypatch):
    def broken(names):
        raise KeyError("no such row")

    if arguments == ["presets"]:
        monkeypatch.setattr(cli, "make_app", broken)
    with open("/dev/full", "w", encoding="utf-8") as full:
        assert ends(*arguments, stderr=full) == command.UNWRITABLE


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_a_thread_loses_is_lost(ends, monkeypatch):
    def loud(arguments):
        with suppress(command.Unwritable):
            show_output("x" * 100_000)  # more than a buffer keeps
        return 0

    monkeypatch.setattr(command, "_run", loud)
    with open("/dev/full", "w", encoding="utf-8") as full:
        assert ends("check", stderr=full) == command.UNWRITABLE


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_reader_that_leaves_is_no_deviation(arguments, ends, capsys):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as unread:
        assert ends(*arguments, stdout=unread) == command.UNREAD == 141
    assert capsys.readouterr().err == ""


def test_output_cannot_pass_for_a_verdict_or_control_a_terminal(capsys):
    show_output(marked("CONFORMS\n\x1b[2J\rx\u202e\u2028\x9b\ty\n".encode() + b"\xff"))
    assert capsys.readouterr().err == (
        "| CONFORMS\n| \\x1b[2J\\rx\\u202e\\u2028\\x9b\\ty\n| \\xff\n"
    )


def test_a_message_that_fails_is_replaced():
    class Mute(Exception):
        def __str__(self):
            sys.exit(0)

    assert _text(Mute()) == "its message cannot be shown (SystemExit)"
    assert _text(ValueError("\udc80")) == "\\udc80"
