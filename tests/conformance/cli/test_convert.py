"""``posenc convert``: options, outputs and exit codes."""

import json
import sys

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from posenc_ref.conformance.cli import app
from posenc_ref.conformance.weights import convert
from tests.conformance.weights.models import LLAMA, llama, write


def run(*arguments):
    return CliRunner().invoke(app, ["convert", *map(str, arguments)])


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "a", llama())


def test_there_and_back(file, tmp_path):
    out, back = tmp_path / "new" / "meta", tmp_path / "back.safetensors"
    config = file.parent / "config.json"
    there = run(file, "--from", "hf", "--to", "meta", "--config", config, "-o", out)
    assert there.exit_code == 0
    assert "layout     half -> interleaved, heads of 16" in there.output
    assert "moved      rows of 4 tensors: k_proj.weight x2, q_proj.weight x2" in there.output
    assert "unchanged  5 tensors and all headers: compared byte for byte" in there.output
    assert "q.k of 2 layers before and after agree within 1e-15" in there.output
    again = run(file, "--from", "hf", "--to", "meta", "-o", out)
    assert (again.exit_code, "pass --force" in again.output) == (2, True)
    found = run(out, "--from", "meta", "--to", "hf", "-o", back, "--json")
    assert found.exit_code == 0
    assert json.loads(found.output)["logits"]["layers"] == 2
    assert back.read_bytes() == file.read_bytes()
    assert json.loads((out / "config.json").read_text()) == LLAMA


@pytest.mark.parametrize("order", [("--compare", "a", "b"), ("a", "--compare", "b")])
def test_compare(order, file, tmp_path):
    run(file, "--from", "hf", "--to", "meta", "-o", tmp_path / "b")
    paths = [word if word.startswith("-") else tmp_path / word for word in order]
    found = run(*paths)
    assert found.exit_code == 0
    assert "layers 0-1     q weight       permuted: half -> interleaved" in found.output
    assert run(*paths, "--from", "hf", "--to", "meta").exit_code == 0
    assert run(*paths, "--from", "meta", "--to", "hf").exit_code == 1
    assert run(*paths, "--config", file.parent / "config.json").exit_code == 0
    data = json.loads(run(*paths, "--json").output)
    assert data["verdict"] == "permuted"
    assert data["pairs"][0]["order"]["dim"] == 16
    weights = load_file(file)
    name = "model.layers.1.self_attn.k_proj.weight"
    write(tmp_path / "b", weights | {name: torch.roll(weights[name], 1, 0)})
    found = run(*paths)
    assert found.exit_code == 1
    assert f"NEITHER  {name}: rows in an order of no layout" in found.output


@pytest.mark.parametrize(("arguments", "message"), [
    ((), "--from and --to and -o must be given"),
    (("--from", "hf", "--to", "meta"), "-o must be given"),
    (("other", "--from", "hf", "--to", "meta", "-o", "x"), "one checkpoint is converted at a time"),
    (("--compare",), "--compare takes two checkpoints"),
    (("other", "--compare", "-o", "x"), "--compare takes two checkpoints and at most"),
    (("other", "--compare", "--from", "hf"), "--compare takes --from and --to together"),
    (("none", "--compare"), "there is no file or folder none"),
    (("--from", "hf", "--to", "half", "-o", "x"), "there is nothing to convert"),
    (("--from", "hf", "--to", "meta", "-o", "x", "--config", "none"), "no configuration none"),
    (("--from", "hf", "--to", "meta", "-o", "x", "--fused", "rows"), "--fused must be one of"),
])  # fmt: skip
def test_usage_errors(arguments, message, file):
    found = run(file, *arguments)
    assert found.exit_code == 2
    assert message in found.output


@pytest.mark.parametrize("package", ["safetensors", "gguf"])
def test_a_missing_package_is_named(package, file, tmp_path, monkeypatch):
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, package, None)
    found = run(tmp_path / "x.gguf" if package == "gguf" else file, file, "--compare")
    assert found.exit_code == 2
    assert f"the {package} package reads" in found.output
    assert f'pip install "posenc-ref[{"gguf" if package == "gguf" else "weights"}]"' in found.output


def test_a_failed_verification(file, tmp_path, monkeypatch):
    monkeypatch.setattr(convert, "differing_bytes", lambda *_: ["lm_head.weight: 3 bytes"])
    found = run(file, "--from", "hf", "--to", "meta", "-o", tmp_path / "b")
    assert found.exit_code == 1
    assert "nothing was written: bytes that must stay differ: lm_head.weight" in found.output
    assert not (tmp_path / "b").exists()
