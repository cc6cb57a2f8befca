"""Models of transformers, exported by both exporters of torch: every layer is judged.

The expected encodings are written by hand from the configurations below.
"""

import contextlib
import io
import warnings

import onnx
import pytest

from posenc_ref import RoPE, YaRN
from posenc_ref.conformance import check
from posenc_ref.conformance.graphs.load import load_onnx

torch = pytest.importorskip("torch", reason="torch writes the models")
transformers = pytest.importorskip("transformers", reason="the models are of transformers")
pytestmark = pytest.mark.nightly  # an export takes up to 25 s

SIZES = {
    "vocab_size": 50, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 512,
}  # fmt: skip
GROUPED = SIZES | {"num_key_value_heads": 2}
LATENT = GROUPED | {
    "num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
    "topk_group": 1, "moe_intermediate_size": 16, "q_lora_rank": 16, "kv_lora_rank": 16,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16, "first_k_dense_replace": 2,
}  # fmt: skip
FACTOR_4 = {
    "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 128,
}  # fmt: skip
HALF = RoPE(16, layout="half")
DEEPSEEK = RoPE(16, layout="interleaved", rotary_dim=8, rotary_start=8, output_layout="half")
#: The class and the arguments of the configuration, and the encodings of its rotations.
MODELS = {
    "llama": ("Llama", GROUPED, [HALF]),
    "gpt-neox": ("GPTNeoX", SIZES | {"rotary_pct": 0.5}, [RoPE(16, layout="half", rotary_dim=8)]),
    "gpt-j": (
        "GPTJ",
        {"vocab_size": 50, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512,
         "rotary_dim": 8},
        [RoPE(16, layout="interleaved", rotary_dim=8)],
    ),
    "gemma-3": (
        "Gemma3Text",
        GROUPED | {"num_hidden_layers": 6, "head_dim": 16, "sliding_window": 64},
        [HALF, RoPE(16, layout="half", base=1e6)],
    ),
    "olmo-2": (
        "Olmo2", GROUPED | {"rope_parameters": FACTOR_4},
        [RoPE(16, layout="half", scaling=YaRN(4.0, 128, truncate=True))],
    ),
    "deepseek-v3": (
        "DeepseekV3", LATENT,
        [DEEPSEEK, RoPE(8, layout="interleaved", output_layout="half")],  # of q, and of k's slice
    ),
    "stablelm": (
        "StableLm", GROUPED | {"partial_rotary_factor": 0.5},
        [RoPE(16, layout="half", rotary_dim=8)],
    ),
}  # fmt: skip


class Positioned(torch.nn.Module):
    """A model that takes ids and their positions only."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, position_ids):
        mask = torch.ones_like(input_ids)
        return self.model(
            input_ids=input_ids, position_ids=position_ids, attention_mask=mask, use_cache=False
        )[0]


def exported(name, path, dynamo):
    kind, arguments, _ = MODELS[name]
    config = getattr(transformers, f"{kind}Config")(**arguments)
    config._attn_implementation = "eager"
    model = Positioned(transformers.AutoModel.from_config(config)).eval()
    ids, names = torch.arange(14).reshape(2, 7), ["input_ids", "position_ids"]
    free = {0: "batch", 1: "tokens"}
    axes = (
        {"dynamic_shapes": (free, free)} if dynamo else {"dynamic_axes": dict.fromkeys(names, free)}
    )
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, (ids, torch.arange(7).repeat(2, 1)), path, input_names=names, dynamo=dynamo,
            **axes,
        )  # fmt: skip
    return path


def passed(path, encodings):
    """Return the encodings that each part conforms to, with the number of its nodes."""
    found = load_onnx(path, head_dim=16)
    assert not found.problems
    return [(len(site.names), [e for e in encodings if conforms(site, e)]) for site in found.sites]


def conforms(site, encoding):
    return check(site.implementation("part"), encoding, max_position=400).passed


@pytest.mark.parametrize("dynamo", [False, True], ids=["script", "dynamo"])
@pytest.mark.parametrize("name", MODELS)
def test_every_rotation_of_an_exported_model_conforms(name, dynamo, tmp_path):
    if dynamo:
        pytest.importorskip("onnxscript", reason="torch's exporter of graphs uses it")
    encodings = MODELS[name][-1]
    parts = passed(exported(name, tmp_path / "model.onnx", dynamo), encodings)
    layers = MODELS[name][1].get("num_hidden_layers", 2)
    assert sum(count for count, _ in parts) == 2 * layers
    assert all(len(right) == 1 for _, right in parts)
    assert {right[0] for _, right in parts} == set(encodings)


def test_a_lost_minus_sign_in_one_layer_is_located(tmp_path):
    path = exported("llama", tmp_path / "model.onnx", dynamo=False)
    model = onnx.load(path)
    third = [node for node in model.graph.node if node.op_type == "Neg"][2]
    third.op_type = "Identity"
    onnx.save(model, path)
    wrong = [site for site in load_onnx(path, head_dim=16).sites if not conforms(site, HALF)]
    assert [site.names for site in wrong] == [["/model/layers.1/self_attn/Add"]]
