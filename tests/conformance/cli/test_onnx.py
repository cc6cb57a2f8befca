"""ONNX models as the target of `posenc check` and `posenc identify`, and `posenc export`."""

import json
import runpy
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner

from posenc_ref.conformance import cli
from tests.conformance.graphs.build import FLOAT, INT64, MICROSOFT, Graph, operator, tables

ROPE = '{"encoding": "RoPE", "head_dim": 32, "layout": "half"}'

GEMMA = {
    "model_type": "gemma3_text", "head_dim": 32, "num_attention_heads": 4, "hidden_size": 128,
    "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"],
    "rope_theta": 1e6, "rope_local_base_freq": 1e4, "max_position_embeddings": 4096,
}  # fmt: skip


def posenc(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


@pytest.fixture
def model(tmp_path):
    """A model with two layers that rotate alike."""
    onnx.save(operator(), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def layered(path, bases):
    """A model with one rotation for each base."""
    g = Graph()
    ids = g.input("position_ids", INT64, "batch", "tokens")
    outputs = []
    for layer, base in enumerate(bases):
        x = g.input(f"x{layer}", FLOAT, "batch", 4, "tokens", 32)
        cos, sin = tables(32, base=base)
        y = g("RotaryEmbedding", x, ids, cos, sin, name=f"layer.{layer}", domain=MICROSOFT)
        outputs.append(y)
    onnx.save(g.model(*outputs), path)
    return path


def test_the_example_is_what_its_program_writes():
    folder = Path(__file__).parents[3] / "examples" / "onnx"
    made = runpy.run_path(str(folder / "make.py"))["model"]()
    assert onnx.load(folder / "two_layers.onnx") == made


def test_check_judges_every_distinct_part_once(model):
    result = posenc("check", model, "--encoding", ROPE)
    assert result.exit_code == 0, result.output
    assert "model.onnx:layer.0.q_rotary and 1 other  (apply" in result.output
    assert "called    RotaryEmbedding: x as (B, H, S, D)" in result.output
    assert result.output.count("CONFORMS") == 1
    wrong = posenc("check", model, "--encoding", ROPE.replace("half", "interleaved"), "--json")
    assert wrong.exit_code == 1
    assert [f["code"] for f in json.loads(wrong.output)["findings"]] == ["layout"]


def test_identify_names_the_encoding_of_a_model(model):
    result = posenc("identify", model)
    assert result.exit_code == 0, result.output
    assert "RoPE(32, layout='half')" in result.output
    body = json.loads(posenc("identify", model, "--json", "--node", "layer.1.q_rotary").output)
    assert body["subject"].endswith("model.onnx:layer.1.q_rotary")


@pytest.mark.nightly
def test_every_layer_type_of_a_model_must_occur(tmp_path):
    """Gemma 3 has base 10,000 in sliding layers and another one in full layers."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(GEMMA))
    declared = ("--config", config, "--max-position", 1023)
    one = posenc("check", layered(tmp_path / "model.onnx", [1e4]), *declared)
    assert one.exit_code == 3, one.output
    assert "as layer type 'sliding_attention'" in one.output
    assert "no part has the encoding of the layer type 'full_attention'" in one.output
    swapped = posenc("check", layered(tmp_path / "model.onnx", [1e6, 1e4]), *declared)
    assert swapped.exit_code == 1, swapped.output
    words = (
        "layer.1: it has the encoding of layer type 'sliding_attention', and layer 1 is declared"
    )
    assert f"DEVIATES  {words} 'full_attention'" in swapped.output
    both = posenc("check", layered(tmp_path / "model.onnx", [1e4, 1e6]), *declared)
    assert both.exit_code == 0, both.output
    wrong = posenc("check", layered(tmp_path / "model.onnx", [1e4, 5e5]), *declared)
    assert wrong.exit_code == 1, wrong.output
    assert "as no layer type, of sliding_attention, full_attention" in wrong.output


def test_the_lines_that_reproduce_a_finding_load_the_part(model, capsys):
    wrong = posenc("check", model, "--encoding", ROPE.replace("half", "interleaved"), "--json")
    (finding,) = json.loads(wrong.output)["findings"]
    exec(finding["reproduce"], {})
    printed = finding["reproduce"].rpartition("# ")[2].split()
    assert [f"{float(t):.6g}" for t in capsys.readouterr().out.split()] == printed


def test_several_parts_are_identified_together(tmp_path):
    path = layered(tmp_path / "model.onnx", [1e4, 1e6])
    result = posenc("identify", path, "--max-position", 1023)
    assert result.exit_code == 0, result.output
    assert "2 parts, 2 distinct" in result.output
    assert result.output.count("IDENTITY") == 2
    parts = json.loads(posenc("identify", path, "--max-position", 1023, "--json").output)["parts"]
    assert [part["card"]["encoding"].get("base", 1e4) for part in parts] == [1e4, 1e6]


def test_several_parts_are_judged_together_and_recorded_one_by_one(tmp_path):
    path = layered(tmp_path / "model.onnx", [1e4, 1e6, 1e4])
    declared = ("--encoding", ROPE, "--max-position", 1023)
    result = posenc("check", path, *declared, "--json")
    assert result.exit_code == 1
    body = json.loads(result.output)
    assert [part["nodes"] for part in body["parts"]] == [["layer.0", "layer.2"], ["layer.1"]]
    assert [part["report"]["verdict"] for part in body["parts"]] == ["conforms", "deviates"]
    expected = ("--expect", "base", "--reason", "issue 1")
    refused = posenc("check", path, *declared, *expected)
    assert refused.exit_code == 2
    assert "choose a part with --node, of layer.0, layer.1" in refused.output
    assert posenc("check", path, *declared, *expected, "--node", "layer.1").exit_code == 0


def test_a_report_can_be_recorded(model, tmp_path):
    path = tmp_path / "report.ndjson"
    assert posenc("check", model, "--encoding", ROPE, "--ndjson", path).exit_code == 0
    assert "CONFORMS" in posenc("report", path).output


USAGE = {
    "does not apply to an ONNX model": ("--backend", "torch"),
    "rotates heads of 32 channels": ("--encoding", ROPE.replace("32", "64")),
    "has the name 'layer.9'": ("--node", "layer.9"),
}


@pytest.mark.parametrize("text", USAGE)
def test_usage_errors_name_the_argument(text, model):
    arguments = USAGE[text]
    if "--encoding" not in arguments:
        arguments = ("--encoding", ROPE, *arguments)
    result = posenc("check", model, *arguments)
    assert result.exit_code == 2
    assert text in result.output


def test_a_node_needs_a_model():
    result = posenc("check", "examples/my_rope.py:half", "--encoding", ROPE, "--node", "q")
    assert result.exit_code == 2
    assert "--node needs a TARGET that is an ONNX model" in result.output


def test_export_writes_a_model_that_check_accepts(tmp_path):
    path = tmp_path / "rope.onnx"
    result = posenc("export", ROPE, "-o", path)
    assert result.exit_code == 0, result.output
    assert "takes     x (batch, heads, tokens, 32), position_ids (batch, tokens)" in result.output
    assert posenc("check", path, "--encoding", ROPE).exit_code == 0
    assert posenc("check", path, "--encoding", ROPE[:-1] + ', "base": 5e5}').exit_code == 1


def test_export_replaces_a_file_only_with_force(tmp_path):
    path = tmp_path / "rope.onnx"
    path.write_text("mine")
    result = posenc("export", ROPE, "-o", path)
    assert result.exit_code == 2
    assert "exists: choose another name, or pass --force" in result.output
    assert path.read_text() == "mine"
    assert posenc("export", ROPE, "-o", path, "--force").exit_code == 0
    assert path.read_bytes() != b"mine"


def test_export_writes_nothing_that_deviates(tmp_path, monkeypatch):
    from posenc_ref.conformance.cli import export as command
    from posenc_ref.conformance.graphs.export import export

    def wrong(encoding, *args, **kwargs):
        return export(type(encoding)(32, layout="half", base=500.0), *args, **kwargs)

    monkeypatch.setattr(command, "export", wrong)
    path = tmp_path / "rope.onnx"
    result = posenc("export", ROPE, "-o", path)
    assert result.exit_code == 1
    assert "was not written: the model deviates" in result.output
    assert not path.exists()


def test_export_of_a_table_needs_a_length_and_an_onnx_name(tmp_path):
    sinusoidal = '{"encoding": "Sinusoidal", "dim": 32}'
    refused = posenc("export", sinusoidal, "-o", tmp_path / "table.onnx")
    assert refused.exit_code == 2
    assert "length must be given for Sinusoidal, --length N on the command" in refused.output
    assert posenc("export", ROPE, "-o", tmp_path / "rope.txt").exit_code == 2
    written = posenc("export", sinusoidal, "-o", tmp_path / "table.onnx", "--length", 64)
    assert written.exit_code == 0, written.output
    identified = posenc("identify", tmp_path / "table.onnx")
    assert "Sinusoidal(32)" in identified.output
