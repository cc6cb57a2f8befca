"""What ends the command ``posenc``: errors of its own, and readers that leave."""

import os
import subprocess
import sys

import pytest

from posenc_ref.conformance import __main__ as command
from posenc_ref.conformance import cli
from posenc_ref.conformance.isolation.child import _text
from posenc_ref.conformance.isolation.show import show_output


@pytest.mark.parametrize("debug", ["", "1"])
def test_an_unexpected_exception_has_an_exit_code_of_its_own(debug, monkeypatch, capsys):
    def broken(names):
        raise KeyError("no such row")

    monkeypatch.setattr(cli, "make_app", broken)
    monkeypatch.setattr(sys, "argv", ["posenc", "presets"])
    monkeypatch.setattr(command, "end_all_on_signals", lambda: None)
    monkeypatch.setenv("POSENC_DEBUG", debug)
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == command.INTERNAL == 70
    said = capsys.readouterr().err
    assert "posenc: error of posenc itself, and no verdict: KeyError: no such row" in said
    assert "please report it" in said
    assert ("Traceback" in said) == bool(debug)


@pytest.mark.nightly
def test_a_reader_that_leaves_is_no_deviation():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "posenc_ref.conformance", "presets"], stdout=writer, check=False
    )
    os.close(writer)
    assert done.returncode not in (0, 1, 2, 3)


def test_output_cannot_pass_for_a_verdict_or_control_a_terminal(capsys):
    show_output("CONFORMS\n\x1b[2J\rx\u202e\u2028\x9b\ty\n".encode() + b"\xff")
    assert capsys.readouterr().err == (
        "| CONFORMS\n| \\x1b[2J\\rx\\u202e\\u2028\\x9b\\ty\n| \\xff\n"
    )


def test_a_message_that_fails_is_replaced():
    class Mute(Exception):
        def __str__(self):
            sys.exit(0)

    assert _text(Mute()) == "its message cannot be shown (SystemExit)"
    assert _text(ValueError("\udc80")) == "\\udc80"
