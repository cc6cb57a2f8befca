"""The position ids of transformers' own models: the table, and that nobody is left out."""

import runpy

import pytest

from posenc_ref.conformance import check
from posenc_ref.conformance.adapters.transformers_mrope import mrope_model
from posenc_ref.mrope_rules import RULES
from tests.tool import TOOLS, tool

pytest.importorskip("torch", reason="PyTorch runs the models")
pytest.importorskip("transformers", reason="its models are what is judged")

PAGE = TOOLS.parent / "docs/generated/mrope-models.md"
SCRIPTS = sorted(PAGE.with_name("mrope-deviations").glob("*.py"))


@pytest.mark.nightly
def test_the_table_is_what_the_models_do():
    assert tool("mrope_models").document() == PAGE.read_text("utf-8")


@pytest.mark.nightly
def test_every_model_with_such_ids_is_judged_or_has_a_reason():
    module = tool("mrope_models")
    assert set(module.makers()) <= set(RULES) | set(module.UNJUDGED)
    talkers = {"qwen2_5_omni_talker", "qwen3_omni_moe_talker"}  # in the modules of their models
    others = {*RULES, *module.UNJUDGED} - set(module.makers())
    assert others == {"KeyeVL1_5", "neomme"} | talkers


@pytest.mark.nightly
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_shows_the_deviation(script):
    runpy.run_path(str(script))


@pytest.mark.nightly
def test_a_changed_model_is_noticed(monkeypatch):
    """The model itself is judged: a mistake in its own method reaches the verdict."""
    made = mrope_model("qwen3_vl", "generate")
    assert check(made, made.encoding).passed
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel

    right = Qwen3VLModel.get_vision_position_ids
    monkeypatch.setattr(
        Qwen3VLModel, "get_vision_position_ids", lambda *a, **k: right(*a, **k)[[0, 2, 1]]
    )
    assert check(made, made.encoding).codes == ["axis-order"]


def test_an_unknown_mode_or_model():
    with pytest.raises(ValueError, match="mode must be one of forward, generate, got 'train'"):
        mrope_model("qwen3_vl", "train")
    with pytest.raises(ValueError, match="model_type must be one whose multimodal positions"):
        mrope_model("llama")
