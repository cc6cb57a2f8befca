"""Presets, configurations and GGUF files on the command line."""

import json
import sys

import gguf
import numpy as np
import pytest
from typer.testing import CliRunner

from posenc_ref import RoPE, from_dict, preset, presets
from posenc_ref.conformance.adapters.gguf import from_gguf
from posenc_ref.conformance.cli import app
from posenc_ref.conformance.cli.options.loading import UsageError
from posenc_ref.conformance.cli.options.models import encoding_of, load_model

CODE = """
import numpy as np
def apply(x, p):
    d = x.shape[-1]
    a = np.asarray(p, float)[:, None] * {base} ** (-np.arange(0, d, 2) / d)
    c, s, h = np.cos(a), np.sin(a), d // 2
    x1, x2 = x[..., :h], x[..., h:]
    return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)
"""


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def code(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(base, name):
        path = tmp_path / f"{name}.py"
        path.write_text(CODE.format(base=base))
        return f"{path}:apply"

    return write


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps({"model_type": "gemma3_text", "head_dim": 64, "num_hidden_layers": 6})
    )
    return path


@pytest.mark.nightly
def test_check_against_a_preset(code):
    right = run("check", code(500000.0, "llama3"), "--preset", "llama-3-8b")
    assert (right.exit_code, "CONFORMS" in right.output) == (0, True), right.output
    wrong = run("check", code(500000.0, "llama31"), "--preset", "llama-3.1-8b")
    assert (wrong.exit_code, "scaling-missing" in wrong.output) == (1, True), wrong.output


def test_check_against_a_configuration(code, config):
    several = run("check", code(1e6, "both"), "--config", config)
    assert several.exit_code == 2
    assert "pass --layer-type, one of sliding_attention, full_attention" in several.output
    for layer_type, status in (("full_attention", 0), ("sliding_attention", 1)):
        found = run("check", code(1e6, layer_type), "--config", config, "--layer-type", layer_type)
        assert found.exit_code == status, found.output
    unknown = run("check", code(1e6, "x"), "--config", config, "--layer-type", "full")
    assert "--layer-type must be one of" in unknown.output


def test_check_says_what_it_wants(code):
    both = run("check", code(1e4, "y"), "--preset", "llama-3-8b", "--encoding", "{}")
    assert (both.exit_code, "give one of" in both.output) == (2, True)
    none = run("check", code(1e4, "z"))
    assert "--preset llama-3.1-8b" in none.output
    unknown = run("check", code(1e4, "w"), "--preset", "llama3.1-8b")
    assert (unknown.exit_code, "did you mean 'llama-3.1-8b'" in unknown.output) == (2, True)
    palm = run("check", code(1e4, "v"), "--preset", "palm")
    assert "pass head_dim=" in palm.output


def test_presets_are_listed():
    text = run("presets")
    assert text.exit_code == 0
    lines = text.output.splitlines()
    assert [line.split()[0] for line in lines[: len(presets())]] == list(presets())
    assert f"{len(presets())} presets; " in lines[-1]
    assert "needs head_dim, base, layout" in next(x for x in lines if x.startswith("palm "))
    rows = json.loads(run("presets", "--json").output)
    assert [row["name"] for row in rows] == list(presets())


def test_a_preset_is_shown_with_its_sources(config):
    text = run("presets", "llama-3.1-8b").output
    assert "Llama3Scaling(8.0, 1.0, 4.0, 8192)" in text
    assert "litgpt 0.5.13" in text
    shown = json.loads(run("presets", "llama-3.1-8b", "--json").output)
    assert from_dict(shown) == preset("llama-3.1-8b")
    assert "default of Gemma3TextConfig" in run("presets", config).output
    unknown = run("presets", "llama")
    assert (unknown.exit_code, "is not known" in unknown.output) == (2, True)


def test_layers_without_encoding_are_refused():
    model = load_model("llama-2-7b")
    assert encoding_of(model, None) == RoPE(128, layout="half")
    with pytest.raises(UsageError, match="layers of type 'nope' in x have no encoding"):
        encoding_of(type(model)("x", encodings={"nope": None}), "nope")
    with pytest.raises(UsageError, match="has no positional encoding"):
        encoding_of(type(model)("x", encodings={"nope": None}), None)


DIVISORS = np.array([1] * 20 + [1.5, 2.25] + [8] * 10, np.float32)


@pytest.fixture
def llama31(tmp_path):
    path = tmp_path / "small.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("small llama")
    writer.add_block_count(2)
    writer.add_context_length(131072)
    writer.add_embedding_length(256)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_freq_base(500000.0)
    writer.add_rope_dimension_count(64)
    writer.add_token_list(["a", "b"])
    writer.add_tensor("rope_freqs.weight", DIVISORS)
    writer.add_tensor("token_embd.weight", np.zeros((4, 256), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_gguf_file_is_read_back(llama31):
    model = from_gguf(llama31)
    assert model.name == "small llama"
    assert len(model.layer_types) == 2
    plain = RoPE(64, layout="interleaved", base=500000.0)
    assert model.only.layout == "interleaved"
    assert np.array_equal(model.only.frequencies()[:20], plain.frequencies()[:20])
    assert np.array_equal(model.only.frequencies()[22:], plain.frequencies()[22:] / 8)
    assert "rope_freqs" not in run("presets", llama31, "--json").output
    assert json.loads(run("presets", llama31, "--json").output) == model.to_dict()


def test_gguf_files_that_are_none(tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        from_gguf(tmp_path / "none.gguf")
    (tmp_path / "x.gguf").write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match=r"is no GGUF file: it begins with b'PK"):
        from_gguf(tmp_path / "x.gguf")
    found = run("presets", tmp_path / "x.gguf")
    assert (found.exit_code, "is no GGUF file" in found.output) == (2, True)


def test_without_the_package_it_says_what_to_install(llama31, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ImportError, match=r'pip install "posenc-ref\[gguf\]"'):
        from_gguf(llama31)
