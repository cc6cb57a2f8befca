"""A run in which everything was refused or skipped is red, however it was started.

Only an expected ``raises`` that is found may be green: it is declared, with a reason.
"""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import posenc_ref
from posenc_ref import RoPE
from posenc_ref.backends import backend
from posenc_ref.conformance import assert_conforms, check, cli, load_vectors
from posenc_ref.conformance.check import SURFACES
from posenc_ref.conformance.surveys import verify
from posenc_ref.conformance.surveys.ndjson_writer import recording
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.transformers.sweep import Sweep
from posenc_ref.conformance.surveys.verify import Options
from posenc_ref.conformance.vectors.files import MANIFEST, shipped
from posenc_ref.conformance.vectors.verify import verify_vectors
from tests.mutants import CORRECT

HALF = RoPE(8, layout="half")
#: One correct implementation for each surface.
ONE_EACH = {case.surface: case for case in reversed(CORRECT)}


@pytest.fixture
def posenc():
    return lambda *arguments: CliRunner().invoke(cli.app, list(map(str, arguments)))


def refusing(*args):
    raise NotImplementedError("not here")


# --- check and assert_conforms --------------------------------------------------------------------


def test_there_is_a_correct_implementation_of_every_surface():
    assert ONE_EACH.keys() == SURFACES.keys()


@pytest.mark.parametrize("surface", SURFACES)
def test_a_function_that_refuses_everything(surface):
    case = ONE_EACH[surface]
    encoding = None if case.encoding is None else posenc_ref.from_dict(case.encoding)
    report = check(refusing, encoding, surface)
    assert report.verdict in ("deviates", "inconclusive"), report
    assert report.exit_code in (1, 3)
    assert not report.passed
    for code in {"raises", "shape"} - {*report.codes}:  # what is expected and found may pass
        with pytest.raises(AssertionError, match="too little was judged"):
            assert_conforms(
                refusing, encoding, surface, expected_failure={"code": code, "reason": "not here"}
            )


def test_a_function_that_answers_only_what_is_empty():
    def empty_only(x, positions):
        return x if x.size == 0 else refusing()

    report = check(empty_only, HALF, "apply")
    assert not report.passed


def test_a_function_that_answers_only_the_first_call():
    calls = iter([True])

    def once(x, positions):
        return HALF.apply(x, positions) if next(calls, False) else refusing()

    report = check(once, HALF, "apply")
    assert (report.verdict, report.codes) == ("deviates", ["raises"]), report


def test_a_program_that_refuses_everything(posenc, tmp_path):
    program = tmp_path / "refusing.py"
    program.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    request = json.loads(line)\n"
        "    hello = request['call'] == 'hello'\n"
        "    said = {'protocol': 1} if hello else {'refused': 'not here'}\n"
        "    print(json.dumps({'id': request['id'], **said}), flush=True)\n",
        encoding="utf-8",
    )
    told = json.dumps(HALF.to_dict())
    done = posenc("check", "--exec", f"{sys.executable} {program}", "--encoding", told)
    assert done.exit_code == 1, done.output
    assert "executed  0 cases" in done.output


# --- verify, sweep and report ---------------------------------------------------------------------


@pytest.fixture
def absent(monkeypatch):
    """The one backend there is cannot be imported."""
    gone = dataclasses.replace(backend("cupy"), module="no_such_module")
    monkeypatch.setattr(verify, "backends", lambda: (gone,))


def test_a_verification_that_skips_everything(absent):
    found = verify.verify(Options(only="cupy"))
    assert found.counts["skipped"] == len(found.outcomes) > 0
    assert found.exit_code == 3


def test_the_command_verify_that_skips_everything(absent, posenc):
    done = posenc("verify", "--only", "cupy", "--processes", 0)
    assert done.exit_code == 3, done.output
    assert "NOTHING was executed" in done.output


def test_a_verification_that_executes_one_check_is_green(absent, monkeypatch):
    both = (*verify.backends(), backend("numpy"))
    monkeypatch.setattr(verify, "backends", lambda: both)
    found = verify.verify(Options(only="*learned", dtypes=("float32",)))
    assert found.counts["skipped"] > 0
    assert found.exit_code == 0


@pytest.mark.parametrize("verdicts", [[], ["refused"], ["refused", "refused"]])
def test_a_sweep_in_which_everything_was_refused(verdicts):
    lines = [Outcome(case="m.C(X)", surface="apply", verdict=verdict) for verdict in verdicts]
    judged = Outcome(case="m.C(X)", surface="apply", verdict="conforms")
    assert Sweep(lines, known=()).exit_code == 3
    assert Sweep([*lines, judged], known=()).exit_code == 0


@pytest.mark.parametrize("form", [[], ["--markdown"]])
def test_a_recorded_check_that_executed_nothing(form, posenc, tmp_path):
    path = tmp_path / "r.ndjson"
    facts = {"subject": "f", "surface": "apply", "declared": "R", "backend": "numpy"}
    facts |= {"backend_version": "2", "dtype": "float32"}
    with recording(path, "check", HALF, **facts) as record:
        record.report(check(refusing, HALF, "apply"), 0.0)
    done = posenc("report", path, *form)
    assert done.exit_code == 3, done.output
    assert f"no case was executed in {path}" in done.stderr


def test_a_recorded_verification_that_executed_nothing(absent, posenc, tmp_path):
    path = tmp_path / "v.ndjson"
    done = posenc("verify", "--only", "cupy", "--processes", 0, "--ndjson", path)
    assert done.exit_code == 3, done.output
    assert posenc("report", path).exit_code == 3


# --- vectors --------------------------------------------------------------------------------------


def test_vectors_without_a_case(posenc, tmp_path):
    manifest = json.loads((shipped() / MANIFEST).read_text("utf-8"))
    (tmp_path / MANIFEST).write_text(json.dumps(manifest | {"files": {}}), encoding="utf-8")
    found = verify_vectors(tmp_path)
    assert found.cases == 0
    assert not found.passed
    done = posenc("vectors", tmp_path, "--verify")
    assert done.exit_code == 1, done.output
    with pytest.raises(ValueError, match=f"no vector in {tmp_path}"):
        load_vectors(folder=tmp_path)


@pytest.mark.parametrize(
    "choice", [{"surface": "aply"}, {"encoding": "Ropes"}, {"flags": ["NoSuchFlag"]}]
)
def test_a_choice_of_vectors_that_leaves_none(choice):
    (key,) = choice
    with pytest.raises(ValueError, match=f"there is no vector with {key}="):
        load_vectors(**choice)


# --- pytest itself --------------------------------------------------------------------------------

SKIPS = "import pytest\n\ndef test_a():\n    pytest.skip({reason!r})\n"


@pytest.mark.parametrize(
    ("text", "ci", "code"),
    [
        (SKIPS.format(reason="no cuda here"), "true", pytest.ExitCode.NO_TESTS_COLLECTED),
        (SKIPS.format(reason="no torch here"), "true", pytest.ExitCode.TESTS_FAILED),
        pytest.param(
            SKIPS.format(reason="no cuda") + "\n\ndef test_b():\n    pass\n",
            "true",
            0,
            marks=pytest.mark.nightly,
        ),
        (SKIPS.format(reason="no torch here"), "", 0),
        pytest.param("", "true", pytest.ExitCode.NO_TESTS_COLLECTED, marks=pytest.mark.nightly),
    ],
    ids=["only what may be skipped", "what may not", "one passes", "not in CI", "no test"],
)
def test_our_own_tests(text, ci, code, tmp_path):
    shutil.copy(Path(__file__).parents[2] / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(text, encoding="utf-8")
    ask = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    env = {**os.environ, "CI": ci}
    done = subprocess.run([*ask, str(tmp_path)], env=env, capture_output=True, text=True)
    assert done.returncode == code, done.stdout
