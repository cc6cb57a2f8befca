"""The sweep of transformers: what it finds, how it is judged, kept, continued and written."""

import ast
import json
import re
import runpy
from pathlib import Path

import pytest
from typer.testing import CliRunner

import posenc_ref as pr
from posenc_ref.conformance import Finding, Report, cli, sweep_document, sweep_show
from posenc_ref.conformance import sweep as sweeping
from posenc_ref.conformance.sweep import Sweep, sweep
from posenc_ref.conformance.sweep_apart import Worker
from posenc_ref.conformance.sweep_census import Target, census, read
from posenc_ref.conformance.sweep_expected import Expected, expected, explanation, stale
from posenc_ref.conformance.sweep_judge import judge_case
from posenc_ref.conformance.sweep_record import Case, Judged, judged

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

DOCS = Path(__file__).parents[2] / "docs"
SCRIPTS = sorted((DOCS / sweep_document.SCRIPTS).glob("*.py"))
LLAMA = Target("llama", "LlamaRotaryEmbedding", "LlamaConfig")

SOURCE = """
class TinyRotaryEmbedding(nn.Module): ...
class TinyRoPEAttention(nn.Module): ...
class TinyUnusedRotaryEmbedding(nn.Module): ...

class TinyEncoder:
    def __init__(self, config: TinyEncoderConfig, other: int):
        self.rotary = TinyRotaryEmbedding(config=config)

class TinyDecoder:
    def __init__(self, config: TinyConfig | None):
        self.rotary = TinyRotaryEmbedding(self.config.text_config)
        self.plain = TinyRotaryEmbedding(config, scaled=False)
"""


def lines_of(case):
    return list(judge_case(case))


def test_targets_are_read_from_the_calls_that_build_them():
    assert sorted(t.name for t in read("tiny", SOURCE)) == [
        "tiny.TinyRotaryEmbedding(TinyConfig, scaled=False)",
        "tiny.TinyRotaryEmbedding(TinyConfig.text_config)",
        "tiny.TinyRotaryEmbedding(TinyEncoderConfig)",
        "tiny.TinyUnusedRotaryEmbedding",
    ]


def test_the_census_finds_every_file_that_defines_a_rotary_class():
    models = Path(transformers.__file__).parent / "models"
    pattern = re.compile(r"^class \w*(Rotary|RoPE|Rope)\w*Embedding\(", re.MULTILINE)
    files = {
        path.parent.name
        for path in models.glob("*/modeling_*.py")
        if pattern.search(path.read_text(encoding="utf-8"))
    }
    assert files <= {target.model for target in census()}
    assert len(files) > 150


@pytest.mark.parametrize(
    ("only", "found"),
    [
        (["llama"], ["llama.LlamaRotaryEmbedding(LlamaConfig)"]),
        (["gptj", "llama"], ["gptj.GPTJAttention", "llama.LlamaRotaryEmbedding(LlamaConfig)"]),
        (["qwen2_vl.*vision*"], ["qwen2_vl.Qwen2VLVisionRotaryEmbedding(Qwen2VLVisionConfig)"]),
        (["no such model"], []),
    ],
)
def test_only_names_models_and_modules(only, found):
    assert [target.name for target in census(only)] == found


def test_a_module_conforms():
    (line,) = lines_of(Case(LLAMA))
    assert line.outcome == "conforms"
    assert line.encoding == repr(pr.RoPE(128, layout="half"))
    assert line.precision == "float32 angles"
    assert line.name == "llama.LlamaRotaryEmbedding(LlamaConfig)"
    assert line.seconds > 0


def test_every_layer_type_is_judged():
    target = Target("gemma3", "Gemma3RotaryEmbedding", "Gemma3TextConfig")
    lines = lines_of(Case(target, "yarn"))
    assert [line.layer_type for line in lines] == ["full_attention", "sliding_attention"]
    assert {line.outcome for line in lines} == {"conforms"}
    assert all("YaRN(4.0, 2048)" in line.encoding for line in lines)
    assert lines[0].name.endswith(") yarn [full_attention]")


def test_a_wrong_module_deviates(monkeypatch):
    from transformers.models.llama import modeling_llama

    monkeypatch.setattr(modeling_llama, "rotate_half", lambda x: -torch.roll(x, 1, -1))
    (line,) = lines_of(Case(LLAMA))
    assert line.outcome == "deviates"
    assert explanation(line, expected()) is None


def test_a_module_with_layer_types_it_has_not_is_judged_all_the_same():
    """ESM's forward takes a layer type, and has none."""
    (line,) = lines_of(Case(Target("esm", "EsmRotaryEmbedding", "EsmConfig")))
    assert line.outcome == "conforms"
    assert "absolute" in line.settings


def test_the_module_is_judged_as_a_checkpoint_leaves_it(monkeypatch):
    """Loading fills tables a second time: what goes wrong there is wrong in every model."""
    from transformers.models.llama import modeling_llama

    real = modeling_llama.LlamaPreTrainedModel._init_weights

    def doubled(self, module):
        real(self, module)
        module.inv_freq *= 2

    monkeypatch.setattr(modeling_llama.LlamaPreTrainedModel, "_init_weights", doubled)
    (line,) = lines_of(Case(LLAMA))
    assert line.outcome == "deviates"
    assert line.codes[0] in ("position-scale", "base", "exponent", "frequency-spacing")


def test_what_is_not_filled_again_comes_with_the_checkpoint(monkeypatch):
    from transformers.models.llama import modeling_llama

    monkeypatch.setattr(modeling_llama.LlamaPreTrainedModel, "_init_weights", lambda *_: None)
    (line,) = lines_of(Case(LLAMA))
    assert line.outcome == "conforms"


def test_what_cannot_be_declared_is_a_gap_of_ours(monkeypatch):
    from posenc_ref.conformance import sweep_declared

    def no(config):
        raise RuntimeError("not read yet")

    monkeypatch.setattr(sweep_declared, "from_config", no)
    (line,) = lines_of(Case(LLAMA))
    assert line.outcome == "gap"
    assert "not read yet" in line.reason
    assert "64 half-split pairs" in line.measured  # its properties are judged all the same


@pytest.mark.parametrize(
    ("case", "outcome", "reason"),
    [
        (Case(Target("lightglue", "LightGluePositionalEncoder")), "undrivable", "keypoints"),
        (Case(Target("llama", "LlamaMLP")), "undrivable", "nothing in Module"),
        (Case(Target("clvp", "ClvpRotaryPositionalEmbedding"), "yarn"), "refused", "no rope type"),
        (Case(Target("phi3", "Phi3RotaryEmbedding", "Phi3Config"), "yarn"), "refused", "longrope"),
    ],
)
def test_what_is_not_judged_says_why(case, outcome, reason):
    (line,) = lines_of(case)
    assert line.outcome == outcome
    assert reason in line.reason


def test_a_module_that_fails_on_an_accepted_configuration_deviates():
    (line,) = lines_of(Case(Target("mixtral", "MixtralRotaryEmbedding", "MixtralConfig"), "yarn"))
    assert (line.outcome, line.codes) == ("deviates", ("raises",))
    assert "NoneType" in line.messages[0]


SCORES = [
    ("llama", "LlamaRotaryEmbedding", "LlamaConfig", "default", ["conforms"]),
    ("cohere2", "Cohere2RotaryEmbedding", "Cohere2Config", "default", ["conforms"] * 2),
    ("deepseek_v3", "DeepseekV3RotaryEmbedding", "DeepseekV3Config", "yarn", ["conforms"]),
    ("qwen2_vl", "Qwen2VLRotaryEmbedding", "Qwen2VLTextConfig", "default", ["conforms"]),
    ("hunyuan_vl", "HunYuanVLRotaryEmbedding", "HunYuanVLTextConfig", "default", ["deviates"]),
    ("gptj", "GPTJAttention", "", "default", ["undrivable"]),
]


@pytest.mark.parametrize(("model", "module", "config", "rope", "outcomes"), SCORES)
def test_logits_of_attention_classes(model, module, config, rope, outcomes):
    lines = lines_of(Case(Target(model, module, config), rope, surface="scores"))
    assert [line.outcome for line in lines] == outcomes
    assert all(" scores" in line.name for line in lines)


@pytest.mark.parametrize("wrong", ["scale", "slice", "layout", "unrotated"])
def test_wrong_logits_deviate(monkeypatch, wrong):
    from transformers.models.llama import modeling_llama

    real = modeling_llama.apply_rotary_pos_emb
    attention = modeling_llama.LlamaAttention.__init__

    def apply(q, k, cos, sin):
        if wrong == "slice":
            cos, sin = cos.clone(), sin.clone()
            cos[..., :8], sin[..., :8] = 1, 0
        if wrong == "unrotated":
            return real(q, k, cos, sin)[0], k
        if wrong == "layout":
            return (x * cos + torch.roll(x, 1, -1) * sin for x in (q, k))
        return real(q, k, cos, sin)

    def built(self, config, layer_idx):
        attention(self, config, layer_idx)
        self.scaling *= 1.001 if wrong == "scale" else 1.0

    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", apply)
    monkeypatch.setattr(modeling_llama.LlamaAttention, "__init__", built)
    (line,) = lines_of(Case(LLAMA, surface="scores"))
    assert (line.outcome, line.codes) == ("deviates", ("inaccurate",))


def line_of(**changes):
    return Judged("m.C(X)", "m.C(X)", "m", "C").replace(**{"outcome": "conforms", **changes})


ENTRY = Expected(
    ("m.C(*",), "title", "deviates", "reason", ("sign",), "convention", "paper", "c.py"
)


def test_an_expectation_explains_its_own_outcome_only():
    deviating = line_of(outcome="deviates", codes=("sign",))
    assert explanation(deviating, [ENTRY]) is ENTRY
    for other in (
        line_of(),
        line_of(outcome="gap"),
        deviating.replace(codes=("sign", "base")),
        deviating.replace(case="n.C(X)"),
    ):
        assert explanation(other, [ENTRY]) is None
    assert stale([deviating], [ENTRY]) == []
    assert stale([line_of()], [ENTRY]) == ["m.C(*: deviates sign"]
    assert stale([line_of(outcome="refused")], [ENTRY]) == []
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
    deviating = line_of(outcome="deviates", codes=("sign",))
    refused = line_of(outcome="refused")
    assert Sweep([line_of(), refused], {}, known=()).exit_code == 0
    assert Sweep([deviating], {}, known=(ENTRY,)).exit_code == 0
    assert Sweep([deviating], {}, known=()).exit_code == 1
    assert Sweep([line_of()], {}, known=(ENTRY,)).exit_code == 1  # no longer true
    assert Sweep([line_of(outcome="gap")], {}, known=(ENTRY,)).exit_code == 1
    assert Sweep([line_of(outcome="gap", surface="scores")], {}, known=()).exit_code == 0
    assert Sweep([deviating.replace(surface="scores")], {}, known=()).exit_code == 1


def test_a_report_becomes_a_line():
    report = Report("s", "apply", "e", "torch", "float32")
    report.findings = [
        Finding("sign", "backwards", "there"),
        Finding("dtype", "n", severity="note"),
    ]
    line = judged(line_of(), report)
    assert (line.outcome, line.codes, line.messages) == ("deviates", ("sign",), ("backwards",))
    assert line.notes == ("dtype: n",)
    report.findings = []
    assert judged(line_of(), report).outcome == "gap"  # nothing was judged
    report.controls = {"c": False}
    assert "vacuous" in judged(line_of(), report).reason


def test_lines_survive_their_file():
    line = line_of(codes=("a", "b"), score=float("inf"), limits=("x",))
    body = json.loads(json.dumps(line.to_dict()))
    assert body["name"] == line.name
    assert Judged.from_dict(body) == line.replace(score=None)


class Fake:
    """A worker that judges nothing; the sweep's own business is looked at."""

    def __init__(self, time_limit):
        self.time_limit = time_limit

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def judge(self, case):
        Fake.asked.append(case.name)
        if case.target.model in Fake.broken:
            raise KeyboardInterrupt
        return [case.blank().replace(outcome="conforms", seconds=1.0)]


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(sweeping, "Worker", Fake)
    Fake.asked, Fake.broken = [], set()
    return Fake


ONLY = ["llama", "gptj", "mixtral"]


def read_lines(path):
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


def test_the_file_has_a_line_for_each_table_and_a_footer(fake, tmp_path):
    path = tmp_path / "sweep.ndjson"
    seen = []
    found = sweep(
        ONLY, rope_types=("default", "yarn"), file=path, processes=1,
        progress=lambda lines, done, expected: seen.append((len(lines), done, expected)),
    )  # fmt: skip
    head, *lines, foot = read_lines(path)
    assert head["versions"] == found.versions == sweeping.versions()
    assert sorted(line["name"] for line in lines) == sorted(line.name for line in found.lines)
    assert foot["footer"]
    assert foot["counts"]["conforms"] == len(lines) == 6
    assert (foot["models"], foot["modules"]) == (3, 3)
    assert seen[0] == (0, 0, 6)
    assert seen[-1] == (6, 6, 6)


def test_an_interrupted_sweep_is_continued(fake, tmp_path):
    path = tmp_path / "sweep.ndjson"
    fake.broken = {"llama"}
    with pytest.raises(KeyboardInterrupt):
        sweep(ONLY, file=path, processes=1)
    assert all("footer" not in line for line in read_lines(path))
    before, fake.asked, fake.broken = set(fake.asked), [], set()
    found = sweep(ONLY, file=path, resume=True, processes=1)
    assert len(found.lines) == 3
    assert "llama.LlamaRotaryEmbedding(LlamaConfig)" in fake.asked
    assert before - {"llama.LlamaRotaryEmbedding(LlamaConfig)"} == {"gptj.GPTJAttention"}
    assert "gptj.GPTJAttention" not in fake.asked
    assert sum("case" in line for line in read_lines(path)) == 3
    assert sum("footer" in line for line in read_lines(path)) == 1


def test_a_file_of_other_versions_is_not_continued(fake, tmp_path):
    path = tmp_path / "sweep.ndjson"
    sweep(["llama"], file=path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(transformers.__version__, "4.0.0", 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"written with transformers 4\.0\.0"):
        sweep(["llama"], file=path, resume=True)
    path.write_text('{"a": 1}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="is no sweep"):
        sweep(["llama"], file=path, resume=True)


@pytest.mark.slow
def test_a_worker_ends_what_takes_too_long_and_goes_on():
    with Worker(0.01) as worker:
        (line,) = worker.judge(Case(LLAMA))
        assert (line.outcome, line.reason) == ("gap", "the time limit of 0.01 s was reached")
        worker.time_limit = 300.0
        (line,) = worker.judge(Case(LLAMA))
        assert line.outcome == "conforms"
        worker._process.kill()
        (line,) = worker.judge(Case(LLAMA))
        assert "ended with exit code -9" in line.reason
        (line,) = worker.judge(Case(Target("llama", "NoSuchClass")))
        assert "NoSuchClass" in line.reason


def test_what_is_printed():
    deviating = line_of(
        case="m.D(X)", outcome="deviates", codes=("sign",), messages=("backwards",), score=1e6
    )
    found = Sweep([line_of(), deviating, line_of(outcome="refused")], {}, known=(ENTRY,))
    text = sweep_show.plain(found)
    assert re.search(r"m\.D\(X\) +DEVIATES +> 999 +sign", text)
    assert "m.D(X): sign: backwards  [UNEXPLAINED]" in text
    assert "m.C(*: deviates sign" in text  # no longer so
    assert "2 judged, 1 conforming, 1 deviating, 0 our gap, 0 not drivable" in text
    assert "1 rope types refused" in text


def test_the_document_has_claims_evidence_and_scripts(tmp_path):
    (tmp_path / sweep_document.SCRIPTS).mkdir()
    (tmp_path / sweep_document.SCRIPTS / "c.py").write_text("print('wrong')\n", encoding="utf-8")
    deviating = line_of(outcome="deviates", codes=("sign",), messages=("backwards",))
    gap = line_of(case="m.E(X)", outcome="gap", reason="beyond us", settings="built with care")
    yarn = line_of(case="m.C(X) yarn", rope_type="yarn", outcome="refused", reason="never heard")
    text = sweep_document.markdown(Sweep([deviating, gap, yarn], {}, known=(ENTRY,)), tmp_path)
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
    known = {entry.script for entry in expected() if entry.outcome == "deviates"}
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
    for entry in expected():
        assert entry.reason in text
    for path in SCRIPTS:
        assert path.read_text(encoding="utf-8").strip() in text
    assert "Unexplained" not in text
