"""The examples in C, JavaScript and Rust, right and with a mistake, and ``posenc check --exec``."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from typer.testing import CliRunner

from posenc_ref import RoPE, from_dict
from posenc_ref.conformance import CODES, check, cli, from_command
from posenc_ref.conformance.external import wire as exec_wire
from tests.night import by_day

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "any_language"
DECLARED = RoPE(64, layout="half", base=500000.0)
#: A mistake each: what is written instead of what, and the code it must get.
MISTAKES = {
    "rope.c": [
        (
            "double angle = position * pow(500000.0, -(double)k / half);",
            "float w = (float)pow(500000.0, -(double)k / half); uint32_t cut;"
            "memcpy(&cut, &w, 4); cut = (cut + 0x7fff + (cut >> 16 & 1)) & 0xffff0000u;"
            "memcpy(&w, &cut, 4); double angle = position * w;",
            "angle-precision",
        ),
        ("(double)(int64_t)bits", "(double)(int16_t)bits", "position-range"),
    ],
    "rope.mjs": [
        (
            "[row * dim + k, row * dim + half + k]",
            "[row * dim + 2 * k, row * dim + 2 * k + 1]",
            "layout",
        ),
        ("const BASE = 500000;", "const BASE = 10000;", "base"),
    ],
    "rope.rs": [
        (
            "(*a * cos - *b * sin, *b * cos + *a * sin)",
            "(*a * cos + *b * sin, *b * cos - *a * sin)",
            "sign",
        ),
        ("bits as i64 as f64", "bits as i64 as f64 + 1.0", "position-origin"),
    ],
}
#: The tests of a pull request need no compiler of Rust.
BY_DAY = ("rope.c", "rope.mjs")
#: The most calls of a whole check: each crosses the pipe.
CALLS = 300
#: What a compiler says about an example is an error.
COMPILERS = {
    ".c": ("gcc -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -Wall -Wextra -Werror", "-lm"),
    ".rs": ("rustc -O -D warnings", ""),
}


@pytest.fixture
def built(tmp_path):
    """A function that makes the command of an example, perhaps with something replaced."""

    def build(name, old="", new=""):
        text = (FOLDER / name).read_text(encoding="utf-8")
        assert not old or text.count(old) == 1
        source = tmp_path / name
        source.write_text(text.replace(old, new) if old else text, encoding="utf-8")
        if name.endswith(".mjs"):
            return [needed("node"), str(source)]
        before, after = COMPILERS[source.suffix]
        compiler, *flags = before.split()
        binary = tmp_path / "rope"
        made = subprocess.run(
            [needed(compiler), *flags, "-o", str(binary), str(source), *after.split()],
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr
        return [str(binary)]

    return build


def needed(tool):
    """The path of a tool; without it the test is skipped, which CI turns into a failure."""
    path = shutil.which(tool)
    if path is None:
        pytest.skip(reason=f"{tool} is not installed, and the example is for it")
    return path


@pytest.mark.parametrize("name", by_day(MISTAKES, BY_DAY))
def test_the_examples_conform_in_few_calls(built, name):
    served = from_command(built(name), "apply", DECLARED)
    report = check(served)
    assert report.passed, report
    assert report.subject == name
    assert report.accuracy.precision.startswith("float64 angles")
    assert any("Refusal: positions must be (S,)" in limit for limit in report.limits)
    print(f"{name}: {served.call._count} calls")
    assert served.call._count < CALLS


CODES_OF = [(name, mistake[2]) for name, mistakes in MISTAKES.items() for mistake in mistakes]


@pytest.mark.parametrize(
    "mistake",
    by_day(CODES_OF, {("rope.mjs", "layout")}),
    ids="-".join,
)
def test_a_mistake_in_an_example_is_named(built, mistake):
    name, code = mistake
    ((old, new),) = [(old, new) for old, new, named in MISTAKES[name] if named == code]
    report = check(from_command(built(name, old, new), "apply", DECLARED))
    assert report.verdict == "deviates", report
    assert report.codes[0] == code
    assert code in CODES


def test_the_c_example_is_short_and_needs_no_library():
    text = (FOLDER / "rope.c").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 110
    included = {line.split()[1] for line in text.splitlines() if line.startswith("#include")}
    assert included <= {f"<{name}.h>" for name in ("math", "stdint", "stdio", "stdlib", "string")}


# --- the lines of a whole check -------------------------------------------------------------------

SCHEMAS = files("posenc_ref.conformance") / "schemas"


def validator(name):
    schema = json.loads((SCHEMAS / f"exec_{name}.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", by_day(MISTAKES, BY_DAY))
def test_every_line_follows_its_schema(built, tmp_path, name):
    program = " ".join(built(name))
    # Fresh instances of the function are further processes, which append their lines.
    listening = ["sh", "-c", f"tee -a {tmp_path}/request | {program} | tee -a {tmp_path}/answer"]
    served = from_command(listening, "apply", RoPE(8, layout="half", base=500000.0))
    assert check(served, max_position=128).passed
    served.call.close()  # tee has written everything once it has ended
    for kind in ("request", "answer"):
        lines = (tmp_path / kind).read_bytes().splitlines()
        assert len(lines) > 50
        right = validator(kind)
        for line in lines:
            right.validate(json.loads(line))


ARRAY = {"dtype": "float32", "shape": [1], "hex": "3f800000"}


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("answer", {"id": 1, "result": [1.0, 2.0]}),
        ("answer", {"id": 1, "result": ARRAY | {"dtype": "float8"}}),
        ("answer", {"id": 1, "result": ARRAY | {"hex": "0x3f8000"}}),
        ("answer", {"id": 1, "result": ARRAY | {"hex": "3f80000"}}),
        ("answer", {"id": 1, "result": ARRAY | {"shape": [-1]}}),
        ("answer", {"id": 1, "result": {"dtype": "float32", "hex": "3f800000"}}),
        ("answer", {"id": 1, "result": None}),
        ("answer", {"id": 1, "result": "1.0"}),
        ("answer", {"id": 1, "result": ARRAY, "refused": "no"}),
        ("answer", {"id": 1, "refused": " "}),
        ("answer", {"id": 1}),
        ("answer", {"result": ARRAY}),
        ("answer", {"id": 0, "protocol": 2}),
        ("request", {"id": 1, "call": "apply"}),
        ("request", {"id": 1, "call": "hello", "arguments": []}),
        ("request", {"id": 0, "call": "hello", "protocol": 1}),
    ],
)
def test_a_schema_refuses_what_is_none(kind, line):
    assert not validator(kind).is_valid(line)


@pytest.mark.parametrize(
    "line",
    [
        {"id": 1, "result": ARRAY},
        {"result": [ARRAY, ARRAY], "id": 1},
        {"id": 1, "result": [ARRAY, 1.5]},
        {"id": 1, "result": 1.5},
        {"id": 1, "result": []},
        {"id": 1, "refused": "no"},
        {"id": 0, "refused": "no"},
        {"id": 0, "protocol": 1, "name": "mine", "version": "2", "built": "today"},
    ],
)
def test_a_schema_accepts_what_the_suite_accepts(line):
    validator("answer").validate(line)
    if line["id"]:
        exec_wire.outcome(exec_wire.read_answer(json.dumps(line).encode(), 1))


# --- the command line -----------------------------------------------------------------------------


@pytest.fixture
def posenc():
    return lambda *arguments: CliRunner().invoke(cli.app, ["check", *arguments])


ENCODING = ["--encoding", json.dumps(DECLARED.to_dict())]


@pytest.mark.nightly
def test_a_program_on_the_command_line(built, posenc):
    command = " ".join(built("rope.c"))
    result = posenc("--exec", command, *ENCODING)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("CONFORMS  rope.c  (apply, numpy, float32)")
    result = posenc("--exec", command, "--encoding", json.dumps(RoPE(64, layout="half").to_dict()))
    assert result.exit_code == 1, result.output
    assert "error: base: " in result.stdout


@pytest.mark.nightly
def test_a_program_is_identified(built):
    command = " ".join(built("rope.c"))
    result = CliRunner().invoke(
        cli.app, ["identify", "--exec", command, "--head-dim", "64", "--max-position", "128"]
    )
    assert result.exit_code == 0, result.output
    assert f"is           {DECLARED!r}" in result.stdout
    neither = CliRunner().invoke(cli.app, ["identify", "a.py:f", "--exec", command])
    assert neither.exit_code == 2


@pytest.mark.nightly
def test_words_of_a_command_are_taken_as_a_shell_does(tmp_path, built, posenc):
    binary = tmp_path / "my rope"
    Path(*built("rope.c")).rename(binary)
    assert posenc("--exec", f"'{binary}'", *ENCODING).exit_code == 0
    assert posenc("--exec", str(binary), *ENCODING).exit_code == 2


def test_a_deadline_on_the_command_line(posenc, tmp_path):
    slow = tmp_path / "slow.py"
    slow.write_text(
        'import time\ninput()\nprint(\'{"id":0,"protocol":1}\', flush=True)\ntime.sleep(60)',
        encoding="utf-8",
    )
    begin = time.perf_counter()
    result = posenc("--exec", f"{sys.executable} {slow}", "--timeout", "2", *ENCODING)
    assert result.exit_code == 3
    assert "did not answer call 1" in result.stdout
    assert "within 2 s" in result.stdout
    assert time.perf_counter() - begin < 60  # the program was not waited for


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*ENCODING], "give one of TARGET"),
        (["rope.py:apply", "--exec", "./rope", *ENCODING], "give one of TARGET"),
        (["--exec", "./rope"], "the expected encoding is missing"),
        (["--exec", "", *ENCODING], "name a program"),
        (["--exec", "./rope 'a", *ENCODING], "No closing quotation"),
        (["--exec", "./no-such-program", *ENCODING], "cannot be started: No such file"),
        (["--exec", "./rope", "--surface", "aply", *ENCODING], "did you mean apply"),
        (["--exec", "true", "--timeout", "-1", *ENCODING], "positive number of seconds"),
        (["--exec", "true", "--memory", "0", *ENCODING], "positive number of MiB"),
        (["--recorded", "a.npz", "--timeout", "1", *ENCODING], "not for --recorded tensors"),
    ],
)
def test_a_usage_error_teaches(posenc, arguments, said):
    result = posenc(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("program", "said"),
    [("true", "instead of answering hello"), ("false", 'did not answer "hello"')],
)
def test_a_program_that_does_not_answer_has_an_error_as_verdict(posenc, program, said):
    result = posenc("--exec", program, *ENCODING)
    assert (result.exit_code, result.stderr) == (3, "")
    head, *lines = result.stdout.splitlines()
    assert head.startswith(f"ERROR  {program}  (apply, numpy, float32)")
    assert said in next(line for line in lines if line.startswith("error "))


# --- docs/any-language.md -------------------------------------------------------------------------

PAGE = (FOLDER.parents[1] / "docs" / "any-language.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_lines_on_the_page_are_what_the_program_reads_and_writes(built):
    hello, call, refused = (block.splitlines() for block in blocks("json"))
    requests, answers = [hello[0], call[0]], [json.loads(hello[1]), json.loads(call[1])]
    run = subprocess.run(built("rope.c"), input="\n".join(requests) + "\n", text=True,
                         capture_output=True, check=True)  # fmt: skip
    assert [json.loads(line) for line in run.stdout.splitlines()] == answers
    for line in requests:
        validator("request").validate(json.loads(line))
    for line in (*answers, json.loads(refused[0])):
        validator("answer").validate(line)


def test_requests_are_spelled_as_on_the_page(built, tmp_path):
    hello, call, _ = (block.splitlines() for block in blocks("json"))
    program = f"tee {tmp_path}/request | {' '.join(built('rope.c'))}"
    encoding = from_dict(json.loads(hello[0])["encoding"])
    served = from_command(["sh", "-c", program], "apply", encoding)
    served(np.array([1, 0], np.float32).reshape(1, 1, 1, 2), np.array([1]))
    served.call.close()
    sent_hello, sent_call = (tmp_path / "request").read_text().splitlines()
    assert sent_call == call[0]
    # to_dict has the fields that the page leaves out
    assert from_dict(json.loads(sent_hello)["encoding"]) == encoding
    assert sent_hello.startswith(hello[0].partition('"head_dim"')[0])


@pytest.mark.nightly
def test_the_commands_on_the_page_run(tmp_path):
    shutil.copy(FOLDER / "rope.c", tmp_path)
    needed("gcc")
    needed("sh")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    (block,) = blocks("sh")
    run = subprocess.run(["sh", "-e", "-c", block], cwd=tmp_path, text=True, capture_output=True,
                         env=os.environ | {"PATH": path})  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("CONFORMS  rope.c")
    (block,) = blocks("python")
    run = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, text=True,
                         capture_output=True)  # fmt: skip
    assert run.returncode == 0, run.stderr


def test_the_function_on_the_page_is_that_of_the_program():
    (block,) = blocks("rust")
    assert block in (FOLDER / "rope.rs").read_text(encoding="utf-8")


def test_the_lengths_on_the_page_are_those_of_the_programs():
    for name in MISTAKES:
        lines = len((FOLDER / name).read_text(encoding="utf-8").splitlines())
        assert re.search(rf"{re.escape(name)}\) \([^)]*{lines} lines\)", PAGE), (name, lines)
