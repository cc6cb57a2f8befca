"""The command `posenc check --recorded`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from posenc_ref.conformance import cli

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "recorded"
DECLARED = ("--encoding", '{"encoding": "RoPE", "head_dim": 32, "layout": "half", "base": 500000}')
RIGHT, WRONG = EXAMPLES / "reference.npz", EXAMPLES / "port.npz"


def posenc(*arguments):
    return CliRunner().invoke(cli.app, ["check", *map(str, arguments)])


def test_exit_codes_and_findings():
    assert posenc("--recorded", RIGHT, *DECLARED).exit_code == 0
    done = posenc("--recorded", WRONG, *DECLARED, "--json")
    assert done.exit_code == 1
    report = json.loads(done.output)
    assert [f["code"] for f in report["findings"]] == ["base"]
    assert report["subject"] == str(WRONG)


def test_two_recordings():
    assert posenc("--recorded", RIGHT, "--against", RIGHT).exit_code == 0
    done = posenc("--recorded", WRONG, "--against", RIGHT)
    assert done.exit_code == 1
    assert "the base is 10000, declared 500000" in done.output


def test_a_report_is_written(tmp_path):
    posenc("--recorded", WRONG, *DECLARED, "--ndjson", tmp_path / "r.ndjson")
    shown = CliRunner().invoke(cli.app, ["report", str(tmp_path / "r.ndjson")])
    assert "the base is 10000, declared 500000" in shown.output


def test_roles_on_the_command_line():
    roles = ("--role", "k_before=layers.*.q", "--role", "k_after=layers.*.q_rot")
    assert posenc("--recorded", WRONG, *DECLARED, *roles).exit_code == 1
    exchanged = ("--role", "q_before=layers.*.q_rot", "--role", "q_after=layers.*.q")
    done = posenc("--recorded", RIGHT, *DECLARED, *exchanged)
    assert "error: sign" in done.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--recorded", RIGHT), "the expected encoding is missing"),
        (("--recorded", RIGHT, "--head-dim", 32), "the expected encoding is missing"),
        (("--recorded", RIGHT, *DECLARED, "--surface", "apply"), "--surface is not for --recorded"),
        (("--recorded", RIGHT, *DECLARED, "--role", "q"), "--role must be ROLE=NAME"),
        (("--recorded", "x.npz", *DECLARED), "there is no file or folder x.npz"),
        (("--recorded", RIGHT, "--preset", "llama-3.1-8b"), "reference.npz: no tensor layout fits"),
        (("rope.py:apply", "--recorded", RIGHT), "give one of TARGET"),
        (("rope.py:apply", "--against", RIGHT), "--against needs --recorded"),
    ],
)
def test_usage_errors(arguments, words):
    done = posenc(*arguments)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())


def test_identify():
    done = CliRunner().invoke(cli.app, ["identify", "--recorded", str(WRONG), "--json"])
    assert done.exit_code == 0
    bases = [card["encoding"]["base"] for card in json.loads(done.output)]
    assert bases == [500000.0, 10000.0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give one of TARGET (file.py:function), --exec"),
        (("rope.py:apply", "--recorded", RIGHT), "give one of TARGET"),
        (("--recorded", RIGHT, "--surface", "apply"), "--recorded takes only --role"),
        (("--recorded", "x.npz"), "there is no file or folder x.npz"),
    ],
)
def test_usage_errors_of_identify(arguments, words):
    done = CliRunner().invoke(cli.app, ["identify", *map(str, arguments)])
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
