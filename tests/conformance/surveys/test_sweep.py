"""The sweep of transformers: how it is run, kept, continued, explained and written."""

import ast
import importlib.util
import json
import re
import runpy
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from posenc_ref.conformance import Finding, Report, cli
from posenc_ref.conformance.surveys import runner
from posenc_ref.conformance.surveys.expected import Expected, expected, explanation, stale
from posenc_ref.conformance.surveys.record import Outcome, versions
from posenc_ref.conformance.surveys.tables import plain_text
from posenc_ref.conformance.surveys.transformers import census, judge
from posenc_ref.conformance.surveys.transformers import document as sweep_document
from posenc_ref.conformance.surveys.transformers import show as sweep_show
from posenc_ref.conformance.surveys.transformers import sweep as sweeping
from posenc_ref.conformance.surveys.transformers.case import RotaryCase, judged_or_gap
from posenc_ref.conformance.surveys.transformers.census import Target
from posenc_ref.conformance.surveys.transformers.judge import judge_case
from posenc_ref.conformance.surveys.transformers.sweep import EXPECTED, KEYS, Sweep, sweep
from posenc_ref.conformance.surveys.transformers_other.build import takes
from posenc_ref.conformance.surveys.worker import Worker

transformers = pytest.importorskip("transformers", reason="transformers is what is judged")
torch = pytest.importorskip("torch", reason="PyTorch runs the modules that are judged")

DOCS = Path(__file__).parents[3] / "docs/generated"
SCRIPTS = sorted((DOCS / sweep_document.SCRIPTS).glob("*.py"))
LLAMA = Target("llama", "LlamaRotaryEmbedding", "LlamaConfig")


def line_of(**changes):
    blank = Outcome(group="m", surface="apply", dtype="float32", case="m.C(X)", target="m.C(X)",
                    module="C", rope_type="default")  # fmt: skip
    return blank.replace(**{"verdict": "conforms", **changes})


ENTRY = Expected(
    ("m.C(*",), "title", "deviates", "reason", ("sign",), "convention", "paper", "c.py",
    "every checkpoint", "one logit from position 8 on", "not reported",
)  # fmt: skip


def test_an_expectation_explains_its_own_outcome_only():
    deviating = line_of(verdict="deviates", codes=("sign",))
    assert explanation(deviating, [ENTRY]) is ENTRY
    for other in (
        line_of(),
        line_of(verdict="gap"),
        deviating.replace(codes=("sign", "base")),
        deviating.replace(case="n.C(X)"),
    ):
        assert explanation(other, [ENTRY]) is None
    assert stale([deviating], [ENTRY]) == []
    assert stale([line_of()], [ENTRY]) == ["m.C(*: deviates sign"]
    assert stale([line_of(verdict="refused")], [ENTRY]) == []
    assert stale([line_of(case="n.C(X)")], [ENTRY]) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": "conforms"},
        {"claim": "perhaps"},
        {"claim": ""},
        {"reason": ""},
        {"evidence": ""},
        {"script": ""},
        {"reach": ""},
        {"effect": ""},
        {"upstream": ""},
    ],
)
def test_a_claim_needs_evidence(changes):
    with pytest.raises(ValueError, match=r"title: .*(a deviation|must be|is needed)"):
        Expected(**{**ENTRY.__dict__, **changes})


def test_layer_types_in_patterns_are_no_wildcards():
    entry = Expected(("m.C(X) [full]",), "t", "gap", "reason")
    assert entry.covers(line_of(layer_type="full"))
    assert not entry.covers(line_of(layer_type="f"))


def test_the_exit_code():
    deviating = line_of(verdict="deviates", codes=("sign",))
    refused = line_of(verdict="refused")
    assert Sweep([line_of(), refused], known=()).exit_code == 0
    assert Sweep([deviating], known=(ENTRY,)).exit_code == 0
    assert Sweep([deviating], known=()).exit_code == 1
    assert Sweep([line_of()], known=(ENTRY,)).exit_code == 1  # no longer true
    assert Sweep([line_of(verdict="gap")], known=(ENTRY,)).exit_code == 1
    assert Sweep([line_of(), line_of(verdict="gap", surface="scores")], known=()).exit_code == 0
    assert Sweep([deviating.replace(surface="scores")], known=()).exit_code == 1


def test_a_report_becomes_a_line():
    report = Report("s", "apply", "e", "torch", "float32")
    report.findings = [
        Finding("sign", "backwards", "there"),
        Finding("dtype", "n", severity="note"),
    ]
    line = judged_or_gap(line_of(), report)
    assert (line.verdict, line.codes, line.messages) == ("deviates", ("sign",), ("backwards",))
    assert line.notes == ("dtype: n",)
    report.findings = []
    assert judged_or_gap(line_of(), report).verdict == "gap"  # nothing was judged
    report.controls = {"c": False}
    assert "wrong on purpose" in judged_or_gap(line_of(), report).reason


def test_lines_survive_their_file():
    line = line_of(codes=("a", "b"), worst=float("inf"), limits=("x",))
    body = json.loads(json.dumps(line.to_dict(KEYS)))
    assert body["name"] == line.name
    assert Outcome.from_dict(body, KEYS) == line.replace(worst=None)


class Fake:
    """A worker that judges nothing; the sweep's own business is looked at."""

    def __init__(self, judge, time_limit):
        self.time_limit = time_limit

    def close(self):
        pass

    def stop(self):
        Fake.stopped += 1

    def outcomes(self, case):
        Fake.asked.append(case.name)
        if case.target.model in Fake.broken:
            raise KeyboardInterrupt
        return [case.blank().replace(verdict="conforms", seconds=1.0)]


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(runner, "Worker", Fake)
    Fake.asked, Fake.broken, Fake.stopped = [], set(), 0
    return Fake


ONLY = ["llama", "gptj", "mixtral"]


def read_lines(path):
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.nightly
def test_the_file_has_a_line_for_each_table_and_a_footer(fake, tmp_path):
    path = tmp_path / "sweep.ndjson"
    seen = []
    found = sweep(
        ONLY, rope_types=("default", "yarn"), file=path, processes=1,
        progress=lambda name, done, expected: seen.append((done, expected)),
    )  # fmt: skip
    head, *lines, foot = read_lines(path)
    assert head["kind"] == "sweep"
    assert head["versions"] == {**versions(), **sweeping.libraries()}
    assert sorted(line["name"] for line in lines) == sorted(line.name for line in found.outcomes)
    assert foot["event"] == "footer"
    assert foot["verdicts"]["conforms"] == foot["counts"]["outcome"] == len(lines) == 6
    assert (foot["models"], foot["modules"]) == (3, 3)
    assert seen[0] == (0, 6)
    assert seen[-1] == (6, 6)


@pytest.mark.nightly
def test_an_interrupted_sweep_is_continued(fake, tmp_path):
    path = tmp_path / "sweep.ndjson"
    fake.broken = {"llama"}
    with pytest.raises(KeyboardInterrupt):
        sweep(ONLY, file=path, processes=1)
    assert all(line["event"] != "footer" for line in read_lines(path))
    assert fake.stopped == 1
    before, fake.asked, fake.broken = set(fake.asked), [], set()
    found = sweep(ONLY, file=path, resume=True, processes=1)
    assert len(found.outcomes) == 3
    assert "llama.LlamaRotaryEmbedding(LlamaConfig)" in fake.asked
    assert before - {"llama.LlamaRotaryEmbedding(LlamaConfig)"} == {"gptj.GPTJAttention"}
    assert "gptj.GPTJAttention" not in fake.asked
    assert sum("case" in line for line in read_lines(path)) == 3
    assert sum(line["event"] == "footer" for line in read_lines(path)) == 1


@pytest.mark.nightly
def test_a_file_of_other_versions_is_not_continued(fake, tmp_path):
    path = tmp_path / "sweep.ndjson"
    sweep(["llama"], file=path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(transformers.__version__, "4.0.0", 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"other versions \(transformers 4\.0\.0\)"):
        sweep(["llama"], file=path, resume=True)
    path.write_text('{"a": 1}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="is no sweep"):
        sweep(["llama"], file=path, resume=True)


@pytest.mark.nightly
def test_a_worker_ends_what_takes_too_long_and_goes_on():
    with closing(Worker(judge_case, 0.01)) as worker:
        assert list(worker.outcomes(RotaryCase(LLAMA))) == [
            "the process that judged it did not finish within 0.01 s"
        ]
        worker.time_limit = 300.0
        (line,) = worker.outcomes(RotaryCase(LLAMA))
        assert line.verdict == "conforms"
        worker.stop()
        (reason,) = worker.outcomes(RotaryCase(LLAMA))
        assert reason == "the process that judged it was killed by SIGKILL"
        (reason,) = worker.outcomes(RotaryCase(Target("llama", "NoSuchClass")))
        assert "NoSuchClass" in reason


def test_what_is_printed():
    deviating = line_of(
        case="m.D(X)", verdict="deviates", codes=("sign",), messages=("backwards",), worst=1e6
    )
    found = Sweep([line_of(), deviating, line_of(verdict="refused")], known=(ENTRY,))
    text = plain_text(sweep_show.parts(found))
    assert re.search(r"m\.D\(X\) +none +DEVIATES +> 999 +none +sign", text)
    assert "none: not measured, or no finding" in text
    assert "m.D(X): sign: backwards  [UNEXPLAINED]" in text
    assert "m.C(*: deviates sign" in text  # no longer so
    assert "2 judged, 1 conforming, 1 deviating, 0 our gap, 0 not drivable" in text
    assert "1 rope types refused" in text


def test_the_document_has_claims_evidence_and_scripts(tmp_path):
    (tmp_path / sweep_document.SCRIPTS).mkdir()
    (tmp_path / sweep_document.SCRIPTS / "c.py").write_text("print('wrong')\n", encoding="utf-8")
    deviating = line_of(verdict="deviates", codes=("sign",), messages=("backwards",))
    gap = line_of(case="m.E(X)", verdict="gap", reason="beyond us", settings="built with care")
    yarn = line_of(case="m.C(X) yarn", rope_type="yarn", verdict="refused", reason="never heard")
    text = sweep_document.markdown(Sweep([deviating, gap, yarn], known=(ENTRY,)), tmp_path)
    for expected_text in (
        "### title (convention)",
        "*Evidence.* paper",
        "```python\nprint('wrong')\n```",
        "- `m.E(X)`: beyond us",
        "| apply | yarn | float32 | 0 | 0 | 0 | 0 | 1 |",
        "- 1: never heard",
        "- `m.E(X)` is built with care.",
        "`posenc sweep --rope-type default --rope-type yarn --markdown FILE`",
    ):
        assert expected_text in text


def test_the_document_names_first_the_dtype_of_replaced_rope_types(tmp_path):
    lines = [line_of(dtype="bfloat16"), line_of(), line_of(case="m.C(X) yarn", rope_type="yarn")]
    text = sweep_document.markdown(Sweep(lines), tmp_path)
    assert "--rope-type yarn --dtype float32 --dtype bfloat16 --markdown FILE`" in text


@pytest.mark.nightly
def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["sweep", "--only", "llama", "--json", "s.ndjson", "--markdown", "s.md"]
    result = CliRunner().invoke(cli.app, [*arguments, "--processes", "1"])
    assert result.exit_code == 0, result.output
    assert "1 conforming, 0 deviating" in result.output
    assert "| llama.LlamaRotaryEmbedding(LlamaConfig) | RoPE(128, layout='half') | ok |" in Path(
        "s.md"
    ).read_text(encoding="utf-8")
    assert len(read_lines(Path("s.ndjson"))) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nosuchmodel"], "no rotary module is called 'nosuchmodel'"),
        (["--rope-type", "yarm"], "--rope-type must be one of default, linear"),
        (["--dtype", "float8"], "--dtype must be one of"),
        (["--surface", "bias"], "--surface must be one of apply, scores"),
        (["--json", "a", "--resume", "b"], "give one of them"),
    ],
)
def test_mistaken_users(arguments, message):
    result = CliRunner().invoke(cli.app, ["sweep", *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_every_deviation_on_record_has_its_script():
    known = {entry.script for entry in expected(EXPECTED) if entry.outcome == "deviates"}
    assert {path.name for path in SCRIPTS} == known


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_deviation_shows_without_this_project(path, capsys):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    modules += [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    assert not [name for name in modules if name.startswith("posenc_ref")]
    assert any(isinstance(n, ast.Assert) for n in ast.walk(tree))
    runpy.run_path(str(path))
    assert capsys.readouterr().out


def test_the_document_of_this_repository_is_of_these_scripts_and_claims():
    text = (DOCS / "transformers-sweep.md").read_text(encoding="utf-8")
    for entry in expected(EXPECTED):
        assert entry.reason in text
    for path in SCRIPTS:
        assert path.read_text(encoding="utf-8").strip() in text
    assert "Unexplained" not in text


@pytest.mark.parametrize("absent", ["transformers", "torch"])
def test_a_missing_library_is_one_line_with_what_to_install(monkeypatch, absent):
    census._every.cache_clear()
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == absent else there(name)
    )
    said = CliRunner().invoke(cli.app, ["sweep", "--only", "llama"])
    assert (said.exit_code, said.stdout) == (2, "")
    (line,) = [line for line in said.stderr.splitlines() if "not installed" in line]
    assert line.startswith(f"posenc: {absent} is not installed; pip install ")


def test_without_transformers_the_sweep_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install 'transformers>=5'"):
        census.models_folder()


def test_a_case_counts_its_own_seconds(monkeypatch):
    clock = iter([3.0, 10.0, 12.5])
    monkeypatch.setattr(judge.time, "process_time", lambda: next(clock))
    monkeypatch.setattr(judge, "_outcomes", lambda case: [Outcome(), Outcome()])
    assert [line.seconds for line in judge_case(None)] == [7.0, 2.5]


def test_a_function_takes_the_parameters_it_names():
    def named(x, scale):
        raise AssertionError("it is not called")

    assert takes(named, "x")
    assert takes(named, "x", "scale")
    assert not takes(named, "x", "other")
