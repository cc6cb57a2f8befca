"""The commands that compare configurations and plan a length."""

import json
import sys

import gguf
import numpy as np
import pytest
from typer.testing import CliRunner

from posenc_ref.conformance.cli import app


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


HF = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2,
      "max_position_embeddings": 131072, "rope_theta": 500000.0, "rope_scaling": {
          "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}}  # fmt: skip


def divisors():
    """The tensor of llama.cpp's converter: one float32 divisor for each pair."""
    found = []
    for k in range(32):
        w = 500000.0 ** (-2 * k / 64)
        turns = 8192 * w / (2 * np.pi)
        t = min(max((turns - 1) / 3, 0), 1)
        found.append(1 / ((1 - t) / 8 + t))
    return np.array(found, np.float32)


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(HF))
    return folder


@pytest.fixture
def converted(tmp_path):
    def write(base=500000.0):
        path = tmp_path / f"llama-{base:g}.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_block_count(2)
        writer.add_context_length(131072)
        writer.add_embedding_length(256)
        writer.add_head_count(4)
        writer.add_rope_freq_base(base)
        writer.add_rope_dimension_count(64)
        writer.add_tensor("rope_freqs.weight", divisors())
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


def test_a_checkpoint_against_its_gguf_conversion(checkpoint, converted):
    same = run("diff", checkpoint, converted())
    assert same.exit_code == 0, same.output
    assert "llama.cpp's converter permutes the weights" in same.output
    assert "the same frequencies, up to a rounding of" in same.output
    assert "no visible difference (above 2**-9); tried: every position below 131072" in same.output
    other = run("diff", converted(10000.0), checkpoint)
    assert other.exit_code == 1
    assert "differs   base: 10000 against 500000" in other.output


def test_an_override_of_each_kind_of_source(checkpoint, converted):
    theta = run("diff", checkpoint, checkpoint, "--override-b", '{"rope_theta": 1e6}')
    assert (theta.exit_code, "base: 500000 against 1000000" in theta.output) == (1, True)
    path = converted()
    moved = run("diff", path, path, "--override-a", '{"llama.rope.freq_base": 1e6}')
    assert (moved.exit_code, "base: 1000000 against 500000" in moved.output) == (1, True)
    wrong = run("diff", path, path, "--override-a", '{"rope_theta": 1e6}')
    assert (wrong.exit_code, "such as llama.rope.freq_base" in wrong.output) == (2, True)
    name = "meta-llama/Llama-3.1-8B"
    yarn = '{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 8192}'
    changed = run("diff", name, name, "--override-b", yarn)
    assert "Llama3Scaling(8.0, 1.0, 4.0, 8192) against YaRN(4.0, 8192)" in changed.output


@pytest.mark.parametrize(("text", "said"), [
    ("{", "is not JSON"), ("[1]", "must be a JSON object such as"), ("{}", "must be a JSON object"),
    ("@none.json", "cannot be read"),
    ('{"rope_theta": 500000.0}', "changes neither the encoding nor the length"),
    ('{"rope_scaling": {"factr": 3}}', "did you mean 'factor'?"),
    ('{"dual_chunk_attention_config": {"chunk_size": 8}}', "changes the positions of long"),
])  # fmt: skip
def test_overrides_that_are_wrong(checkpoint, text, said):
    for command in (["diff", checkpoint, checkpoint, "--override-b", text],
                    ["plan", checkpoint, "--length", "4", "--override", text]):  # fmt: skip
        found = run(*command)
        assert (found.exit_code, said in found.output) == (2, True), found.output


def test_an_unknown_name(checkpoint):
    found = run("diff", checkpoint, "meta-llama/Lama-3.1-8B")
    assert (found.exit_code, "did you mean 'meta-llama/Llama-3.1-8B'" in found.output) == (2, True)


def test_diff_as_json(checkpoint):
    found = run("diff", checkpoint, "llama-3.2-1b", "--json")
    body = json.loads(found.output)
    assert (body["verdict"], found.exit_code) == ("differ", 1)
    assert body["others"] == ["layers: 2 against 16"]
    assert body["rows"][0]["differences"] == ["Llama3Scaling.factor: 8 against 32"]
    assert body["rows"][0]["effect"]["first"] > 0


def test_check_takes_an_override(tmp_path, monkeypatch, checkpoint):
    monkeypatch.setattr(sys, "path", [*sys.path])
    code = tmp_path / "plain_rope.py"
    code.write_text(
        "from posenc_ref import RoPE\napply = RoPE(64, layout='half', base=500000.0).apply\n"
    )
    target = f"{code}:apply"
    scaled = run("check", target, "--config", checkpoint)
    assert (scaled.exit_code, "scaling-missing" in scaled.output) == (1, True)
    plain = run("check", target, "--config", checkpoint, "--override", '{"rope_scaling": null}')
    assert plain.exit_code == 0, plain.output
    without = run("check", target, "--head-dim", 64, "--override", "{}")
    assert (without.exit_code, "--override needs --preset or --config" in without.output) == (
        2,
        True,
    )


@pytest.mark.nightly
def test_plan(checkpoint, tmp_path):
    found = run("plan", checkpoint, "--length", 65536, "--plot", tmp_path / "plan.svg")
    assert found.exit_code == 0, found.output
    assert "unseen    no pair reaches an angle" in found.output
    assert (tmp_path / "plan.svg").exists()
    again = run("plan", checkpoint, "--length", 65536, "--plot", tmp_path / "plan.svg")
    assert (again.exit_code, "exists already" in again.output) == (2, True)
    body = json.loads(run("plan", checkpoint, "--length", 131072, "--json").output)
    made = body["llama, layers of type full_attention"]
    assert made["trained"] == 131072
    assert "never seen" not in [pair["state"] for pair in made["pairs"]]
    # An override is planned, not trained.
    plain = '{"rope_scaling": null, "max_position_embeddings": 262144}'
    tried = run("plan", checkpoint, "--length", 131072, "--json", "--override", plain)
    (other,) = json.loads(tried.output).values()
    assert other["trained"] == 131072
    for p, own in zip(other["pairs"], made["pairs"], strict=True):
        assert p["trained_turns"] == own["trained_turns"]
    assert other["pairs"][-1]["state"] == "never seen"
    longer = run("plan", checkpoint, "--length", 8, "--json", "--override",
                 '{"max_position_embeddings": 262144}')  # fmt: skip
    (stated,) = json.loads(longer.output).values()
    assert stated["trained"] == 262144


def test_plan_needs_a_length_of_training():
    found = run("plan", "gpt-j-6b", "--length", 4096)
    assert (found.exit_code, "--trained" in found.output) == (2, True)
    assert run("plan", "gpt-j-6b", "--length", 4096, "--trained", 2048).exit_code == 0
    wrong = run("plan", "gemma-3-4b", "--length", 8, "--layer-type", "full")
    assert "--layer-type must be one of sliding_attention, full_attention" in wrong.output
    sliding = run("plan", "gemma-3-4b", "--length", 8, "--trained", 8)
    assert sliding.output.count("the window of these layers is unknown") == 1
    bias = run("plan", "bloom", "--fact", "num_heads=4", "--length", 256)
    assert "at distance 255: from -63.75" in bias.output
