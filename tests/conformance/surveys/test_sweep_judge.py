"""What the sweep finds in transformers, and what it says about it: census, judging, logits."""

import re
from pathlib import Path

import pytest

import posenc_ref as pr
from posenc_ref.conformance.surveys.expected import expected, explanation
from posenc_ref.conformance.surveys.transformers.case import RotaryCase as Case
from posenc_ref.conformance.surveys.transformers.census import Target, census, read
from posenc_ref.conformance.surveys.transformers.judge import judge_case
from posenc_ref.conformance.surveys.transformers.sweep import EXPECTED
from posenc_ref.conformance.surveys.worker import outcomes_here

transformers = pytest.importorskip("transformers", reason="transformers is what is judged")
torch = pytest.importorskip("torch", reason="PyTorch runs the modules that are judged")

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
    return list(outcomes_here(judge_case, case))


def test_targets_are_read_from_the_calls_that_build_them():
    assert sorted(t.name for t in read("tiny", SOURCE)) == [
        "tiny.TinyRotaryEmbedding(TinyConfig, scaled=False)",
        "tiny.TinyRotaryEmbedding(TinyConfig.text_config)",
        "tiny.TinyRotaryEmbedding(TinyEncoderConfig)",
        "tiny.TinyUnusedRotaryEmbedding",
    ]


@pytest.mark.nightly
def test_the_census_finds_every_file_that_defines_a_rotary_class():
    models = Path(transformers.__file__).parent / "models"
    pattern = re.compile(r"^class \w*(Rotary|RoPE|Rope)\w*Embedding\(", re.MULTILINE)
    files = {
        path.parent.name
        for path in models.glob("*/modeling_*.py")
        if pattern.search(path.read_text(encoding="utf-8"))
    }
    assert files <= {target.model for target in census()}
    assert "llama" in files


@pytest.mark.nightly
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
    assert line.verdict == "conforms"
    assert line.encoding == repr(pr.RoPE(128, layout="half"))
    assert line.precision == "float32 angles"
    assert line.name == "llama.LlamaRotaryEmbedding(LlamaConfig)"
    assert line.seconds > 0


@pytest.mark.nightly
def test_every_layer_type_is_judged():
    target = Target("gemma3", "Gemma3RotaryEmbedding", "Gemma3TextConfig")
    lines = lines_of(Case(target, "yarn"))
    assert [line.layer_type for line in lines] == ["full_attention", "sliding_attention"]
    assert {line.verdict for line in lines} == {"conforms"}
    assert all("YaRN(4.0, 2048)" in line.encoding for line in lines)
    assert lines[0].name.endswith(") yarn [full_attention]")


def test_a_wrong_module_deviates(monkeypatch):
    from transformers.models.llama import modeling_llama

    monkeypatch.setattr(modeling_llama, "rotate_half", lambda x: -torch.roll(x, 1, -1))
    (line,) = lines_of(Case(LLAMA))
    assert line.verdict == "deviates"
    assert explanation(line, expected(EXPECTED)) is None


def test_a_module_with_layer_types_it_has_not_is_judged_all_the_same():
    """ESM's forward takes a layer type, and has none."""
    (line,) = lines_of(Case(Target("esm", "EsmRotaryEmbedding", "EsmConfig")))
    assert line.verdict == "conforms"
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
    assert line.verdict == "deviates"
    assert line.codes[0] in ("position-scale", "base", "exponent", "frequency-spacing")


def test_what_is_not_filled_again_comes_with_the_checkpoint(monkeypatch):
    from transformers.models.llama import modeling_llama

    monkeypatch.setattr(modeling_llama.LlamaPreTrainedModel, "_init_weights", lambda *_: None)
    (line,) = lines_of(Case(LLAMA))
    assert line.verdict == "conforms"


def test_what_cannot_be_declared_is_a_gap_of_ours(monkeypatch):
    from posenc_ref.conformance.surveys.transformers import declared as sweep_declared

    def no(config):
        raise RuntimeError("not read yet")

    monkeypatch.setattr(sweep_declared, "from_config", no)
    (line,) = lines_of(Case(LLAMA))
    assert line.verdict == "gap"
    assert "not read yet" in line.reason
    assert "64 half-split pairs" in line.measured  # its properties are judged all the same


@pytest.mark.parametrize(
    ("case", "outcome", "reason"),
    [
        (
            Case(Target("musicflamingo", "MusicFlamingoRotaryEmbedding")),
            "undrivable",
            "timestamps",
        ),
        (Case(Target("llama", "LlamaMLP")), "undrivable", "nothing in Module"),
        (
            Case(Target("clvp", "ClvpRotaryPositionalEmbedding"), "yarn"),
            "refused",
            "no rope type",
        ),
        (
            Case(Target("phi3", "Phi3RotaryEmbedding", "Phi3Config"), "yarn"),
            "refused",
            "longrope",
        ),
    ],
)
def test_what_is_not_judged_says_why(case, outcome, reason):
    (line,) = lines_of(case)
    assert line.verdict == outcome
    assert reason in line.reason


def test_a_module_that_fails_on_an_accepted_configuration_deviates():
    (line,) = lines_of(Case(Target("mixtral", "MixtralRotaryEmbedding", "MixtralConfig"), "yarn"))
    assert (line.verdict, line.codes) == ("deviates", ("raises",))
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
    assert [line.verdict for line in lines] == outcomes
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
    assert (line.verdict, line.codes) == ("deviates", ("inaccurate",))
