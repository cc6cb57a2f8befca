"""No hostile function hangs, passes by ending its process, or leaves a process behind."""

import json

import pytest
from typer.testing import CliRunner

from posenc_ref.conformance.cli import app
from tests.conformance.isolation.hostile import HOSTILE
from tests.conformance.isolation.running import (
    ENCODING,
    PAGE,
    check,
    needs_proc,
    posenc,
    require_verdict,
)

pytestmark = needs_proc
OPTIONS = ("--surface", "apply", "--max-position", "128")
BY_NAME = {one.name: one for one in HOSTILE}


def written(tmp_path, name):
    """Write the module of a function; return the target."""
    file = tmp_path / "hostile.py"
    file.write_text(BY_NAME[name].source, encoding="utf-8")
    return f"{file.name}:apply"


def test_there_are_a_hundred():
    assert len(BY_NAME) == len(HOSTILE) >= 100
    assert f"{len(HOSTILE)} functions" in PAGE.read_text(encoding="utf-8")


@pytest.mark.nightly
@pytest.mark.parametrize("name", BY_NAME)
def test_a_hostile_function(name, tmp_path):
    one = BY_NAME[name]
    ran = check(written(tmp_path, name), *OPTIONS, *one.options, cwd=tmp_path)
    require_verdict(ran, one.codes)
    assert ran.seconds < 60


@pytest.mark.nightly
def test_many_in_one_run(tmp_path):
    """One process judges all, and is started again after each crash."""
    names = ["os._exit 0, import", "segmentation fault, later", "sleep", "a process in a session",
             "print control characters"]  # fmt: skip
    tables = []
    for n, name in enumerate(names):
        (tmp_path / f"hostile{n}.py").write_text(BY_NAME[name].source, encoding="utf-8")
        tables.append(f'[[check]]\ntarget = "hostile{n}.py:apply"\nsurface = "apply"\n')
    tables[2] += "timeout = 1.5\n"
    tables.insert(0, '[[check]]\ntarget = "hostile3.py:nothing"\nsurface = "apply"\n')
    head = f"[defaults]\nencoding = {json.dumps(ENCODING)}\nmax-position = 128\n"
    (tmp_path / "posenc.toml").write_text(head + "".join(tables), encoding="utf-8")
    ran = posenc("ci", "--json", cwd=tmp_path)
    assert (ran.code, ran.left) == (2, ()), ran.out + ran.err
    cases = json.loads(ran.out)["cases"]
    assert [(case["verdict"], case["exit_code"]) for case in cases] == [
        ("error", 2), ("error", 3), ("error", 3), ("error", 3), ("conforms", 0), ("conforms", 0),
    ]  # fmt: skip
    reasons = [case["reason"] for case in cases]
    assert "has no 'nothing'" in reasons[0]
    assert reasons[1] == "the process that judged it ended with exit status 0"
    assert "was killed by SIGSEGV; it crashed in File" in reasons[2]
    assert "did not finish within 1.5 s" in reasons[3]
    assert cases[5]["report"]["printed"] == "1 line to standard output"
    assert "| \\x1b[2J\\x1b]0;title\\x07\\u202e\n" in ran.err


def test_a_function_that_exits_at_import_has_a_verdict_and_files(tmp_path):
    target = written(tmp_path, "os._exit 0, import")
    ran = check(target, "--ndjson", "r.ndjson", "--junit", "r.xml", cwd=tmp_path)
    require_verdict(ran, (3,))
    assert "error     the process that judged it ended with exit status 0\n" in ran.out
    assert '"verdict": "error"' in (tmp_path / "r.ndjson").read_text(encoding="utf-8")
    assert 'errors="1"' in (tmp_path / "r.xml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["sys.exit 0, import", "sys.exit 0, first", "GeneratorExit, first"]
)
def test_an_exit_in_the_process_of_the_command_is_no_pass(name, tmp_path):
    """With --in-process only what ends the process below Python leaves no verdict."""
    target = f"{tmp_path}/{written(tmp_path, name)}"
    words = ["check", target, "--encoding", ENCODING, *OPTIONS, "--in-process"]
    run = CliRunner().invoke(app, words)
    assert run.exit_code in ((3,) if "import" in name else (1,)), run.output
    assert run.stdout.startswith(("ERROR", "DEVIATES")), run.output


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["identify", "compare"])
@pytest.mark.parametrize(
    ("name", "codes"),
    [("os._exit 0, import", (3,)), ("sleep", (3,)),
     # It exits in a trial call, and agrees with itself in all others.
     ("sys.exit 0, first", (0, 1, 2, 3)), ("a daemon", (0, 1, 3))],
)  # fmt: skip
def test_other_commands(command, name, codes, tmp_path):
    target = written(tmp_path, name)
    targets = [target] * (2 if command == "compare" else 1)
    ran = posenc(command, *targets, "--head-dim", "8", "--surface", "apply", "--timeout", "10",
                 cwd=tmp_path)  # fmt: skip
    assert (ran.code in codes, ran.left) == (True, ()), (ran.code, ran.out, ran.err)
    assert ran.out.strip() or ran.err.strip()
    assert ran.code == 2 or ran.out.strip()
