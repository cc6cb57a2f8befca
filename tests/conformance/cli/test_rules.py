"""Rules of position ids on the command line."""

import json

import pytest
from typer.testing import CliRunner

from posenc_ref.conformance.cli import app

FILE = """
import numpy as np
import posenc_ref as pr

RULE = pr.mrope_rule("qwen2_5_vl")

def get_rope_index(mm_token_type_ids, image_grid_thw=None, video_grid_thw=None,
                   second_per_grid_ts=None, attention_mask=None):
    grids = [() if g is None else g for g in (image_grid_thw, video_grid_thw, second_per_grid_ts)]
    ids = RULE.positions(mm_token_type_ids, image_grids=grids[0], video_grids=grids[1],
                         seconds_per_grid=grids[2], attention_mask=attention_mask)
    largest = np.where(attention_mask == 1, ids, -1).max(axis=(0, 2))
    return ids, (largest + 1 - attention_mask.sum(axis=1))[:, None]
"""
SURFACE = ["--surface", "mrope_position_ids", "--in-process"]


@pytest.fixture
def posenc(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run(*args):
        return CliRunner().invoke(app, ["check", "mine.py:get_rope_index", *SURFACE, *args])

    return run


def config(tmp_path, **vision):
    text = json.dumps({"model_type": "qwen2_5_vl", "vision_config": vision})
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    return str(tmp_path)


def test_the_rule_of_a_configuration(posenc, tmp_path):
    run = posenc("--config", config(tmp_path, tokens_per_second=2, spatial_merge_size=2))
    assert run.exit_code == 0, run.output
    assert "declared  MRoPEPositions(tokens_per_second=2.0)" in run.output
    assert "second_per_grid_ts=seconds_per_grid" in run.output
    run = posenc("--config", config(tmp_path, tokens_per_second=4))
    assert run.exit_code == 1
    assert "media-time" in run.output


def test_a_rule_as_an_expression_or_json(posenc, tmp_path):
    run = posenc("--encoding", "mropepositions(tokens_per_second=2)", "--ndjson", "made.ndjson")
    assert run.exit_code == 0, run.output
    head = json.loads((tmp_path / "made.ndjson").read_text(encoding="utf-8").splitlines()[0])
    assert head["encoding"]["tokens_per_second"] == 2.0
    run = posenc("--encoding", '{"positions": "MRoPEPositions"}', "--json")
    assert run.exit_code == 1
    assert json.loads(run.output)["findings"][0]["code"] == "media-time"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--preset", "llama-3.1-8b"], "--preset llama-3.1-8b has no rule of position ids"),
        (["--config", "none.json"], "there is no none.json"),
        (["--encoding", 'RoPE(64, layout="half")'], "is for rules of position ids"),
        (["--encoding", "MRoPEPositions(rate=2)"], "no field 'rate'"),
        ([], "the expected encoding is missing"),
    ],
)
def test_other_declarations_are_refused(posenc, args, message):
    run = posenc(*args)
    assert run.exit_code == 2, run.output
    assert message in run.output


def test_a_model_without_a_rule_is_refused(posenc, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    run = posenc("--config", "config.json")
    assert run.exit_code == 2
    assert "one whose multimodal positions are known: qwen2_vl" in run.output
