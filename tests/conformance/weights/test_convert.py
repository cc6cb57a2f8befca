"""Converted checkpoints give the same attention as the originals, in transformers and in NumPy."""

import importlib
import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from posenc_ref.conformance.weights import convert_checkpoint, open_checkpoint
from tests.conformance.weights.models import LLAMA, llama, tiny, write

SMALL = {"hidden_size": 24, "intermediate_size": 16, "num_hidden_layers": 2, "vocab_size": 11}
#: The norms and the softmax of transformers compute in float32.
FLOAT32 = 64 * float(np.finfo(np.float32).eps)
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
TOKENS = torch.tensor([[3, 1, 4, 1, 5]])


def saved(model, folder):
    """Write a model's weights and configuration, and return the path of the weights."""
    return write(
        folder, {n: t.clone() for n, t in model.state_dict().items()}, model.config.to_dict()
    )


def test_llama_equals_an_attention_as_meta_writes_it(tmp_path):
    """Complex products of adjacent channels, as in Meta's code, on the converted weights."""
    model = tiny("Llama", **SMALL, **HEADS, head_dim=16, attention_bias=True)
    convert_checkpoint(saved(model, tmp_path / "hf"), tmp_path / "meta", from_="hf", to="meta")
    w = {
        n: t.double().numpy() for n, t in load_file(tmp_path / "meta" / "model.safetensors").items()
    }
    with torch.no_grad():
        expected = model.double()(TOKENS, output_attentions=True).attentions[0][0].numpy()

    x = w["model.embed_tokens.weight"][TOKENS[0]]
    x = x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + model.config.rms_norm_eps)
    x = x * w["model.layers.0.input_layernorm.weight"]
    turn = np.exp(1j * np.outer(np.arange(5), 10000.0 ** (-np.arange(0, 16, 2) / 16)))

    def project(name, n):
        at = f"model.layers.0.self_attn.{name}_proj."
        heads = (x @ w[f"{at}weight"].T + w[f"{at}bias"]).reshape(5, n, 8, 2)
        z = (heads[..., 0] + 1j * heads[..., 1]) * turn[:, None]
        return np.stack([z.real, z.imag], axis=-1).reshape(5, n, 16).swapaxes(0, 1)

    q, k = project("q", 4), project("k", 2).repeat(2, axis=0)
    scores = q @ k.swapaxes(1, 2) / 4 + np.triu(np.full((5, 5), -np.inf), 1)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    assert np.abs(weights - expected).max() <= FLOAT32


def adjacent(q, k, cos, sin, unsqueeze_dim=1, **_):
    """Rotate adjacent channels, in place of transformers' half-split function."""
    n = cos.shape[-1] // 2
    c, s = (t[..., :n].unsqueeze(unsqueeze_dim) for t in (cos, sin))

    def turn(x):
        a, b = x[..., : 2 * n : 2], x[..., 1 : 2 * n : 2]
        turned = torch.stack([a * c - b * s, b * c + a * s], dim=-1).flatten(-2)
        return torch.cat([turned, x[..., 2 * n :]], dim=-1)

    return turn(q), turn(k)


#: Models that transformers rotates half-split, with what is special about their weights.
MODELS = {
    "llama": ("Llama", {**HEADS, "head_dim": 16}, "q_proj"),
    "qwen2": ("Qwen2", {**HEADS, "head_dim": 8, "hidden_size": 32}, "q_proj.bias"),
    "qwen3": ("Qwen3", {**HEADS, "head_dim": 16}, "q_norm"),  # a norm over each head
    "olmo2": ("Olmo2", {**HEADS, "hidden_size": 32}, "k_norm"),  # a norm over all heads
    "phi3": ("Phi3", {**HEADS, "hidden_size": 64, "partial_rotary_factor": 0.5, "pad_token_id": 0},
             "qkv_proj"),
    "gpt_neox": ("GPTNeoX", {"num_attention_heads": 2, "hidden_size": 32, "rotary_pct": 0.5,
                             "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                                                 "partial_rotary_factor": 0.5}}, "query_key_value"),
    "qwen3_next": ("Qwen3Next", {**HEADS, "head_dim": 16, "layer_types": ["full_attention"] * 2,
                                 "mlp_only_layers": [0, 1], "num_experts": 2,
                                 "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8},
                   "q_proj"),  # a gate beside each query
    "falcon": ("Falcon", {"num_attention_heads": 4, "hidden_size": 32, "multi_query": True,
                          "alibi": False, "num_kv_heads": 4}, "query_key_value"),
    "falcon new": ("Falcon", {"num_attention_heads": 4, "hidden_size": 32, "num_kv_heads": 2,
                              "alibi": False, "new_decoder_architecture": True}, "query_key_value"),
    "falcon old": ("Falcon", {"num_attention_heads": 4, "hidden_size": 32, "multi_query": False,
                              "alibi": False, "bias": True}, "query_key_value.bias"),
    "persimmon": ("Persimmon", {"num_attention_heads": 4, "hidden_size": 64,
                                "partial_rotary_factor": 0.5}, "q_layernorm.bias"),
    "stablelm": ("StableLm", {**HEADS, "hidden_size": 64, "partial_rotary_factor": 0.5}, "q_proj"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_models_give_the_same_logits(name, tmp_path, monkeypatch):
    """The converted weights in the model with another rotation; and back again, bit for bit."""
    cls, fields, word = MODELS[name]
    model = tiny(cls, **SMALL | fields).double()
    file = saved(model, tmp_path / "hf")
    done = convert_checkpoint(file, tmp_path / "meta", from_="hf", to="interleaved")
    assert any(word in moved for moved in done.moved)
    assert done.logits.layers == 2
    with torch.no_grad():
        expected = model(TOKENS).logits
        name = name.partition(" ")[0]
        code = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
        monkeypatch.setattr(code, "apply_rotary_pos_emb", adjacent)
        before = model(TOKENS).logits
        model.load_state_dict(load_file(tmp_path / "meta" / "model.safetensors"), strict=False)
        after = model(TOKENS).logits
    assert (after - expected).abs().max() <= FLOAT32 * expected.abs().max()
    assert (before - expected).abs().max() > 1e-3 * expected.abs().max()
    convert_checkpoint(tmp_path / "meta", tmp_path / "back", from_="interleaved", to="hf")
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == file.read_bytes()


MLA = {
    **SMALL, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4,
    "kv_lora_rank": 12, "qk_rope_head_dim": 8, "qk_nope_head_dim": 10, "v_head_dim": 6,
    "first_k_dense_replace": 2,
}  # fmt: skip


@pytest.mark.parametrize("rank", [20, None])
def test_latent_attention_in_transformers_with_both_layouts(rank, tmp_path):
    """DeepSeek: only the rotated slice moves, and rope_interleave follows in config.json."""
    from transformers import AutoModelForCausalLM

    model = tiny("DeepseekV3", **MLA, q_lora_rank=rank).double()
    file = saved(model, tmp_path / "hf")
    done = convert_checkpoint(file, tmp_path / "half", from_="hf", to="half")
    words = {moved.split(".")[-2] for moved in done.moved}
    assert words == {"kv_a_proj_with_mqa", "q_b_proj" if rank else "q_proj"}
    assert "config.json now says rope_interleave: false" in str(done)
    other = AutoModelForCausalLM.from_pretrained(tmp_path / "half", attn_implementation="eager")
    with torch.no_grad():
        expected, found = model(TOKENS).logits, other.double()(TOKENS).logits
        model.load_state_dict(load_file(tmp_path / "half" / "model.safetensors"), strict=False)
        wrong = model(TOKENS).logits  # as if it were still interleaved
    assert other.config.rope_interleave is False
    assert (found - expected).abs().max() <= FLOAT32 * expected.abs().max()
    assert (wrong - expected).abs().max() > 1e-3 * expected.abs().max()


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float64"]
)
def test_every_dtype_is_moved_row_by_row(dtype, tmp_path):
    tensors = {n: t.to(getattr(torch, dtype)) for n, t in llama().items()}
    file = write(tmp_path / "a", tensors)
    done = convert_checkpoint(file, tmp_path / "b.safetensors", from_="hf", to="meta")
    assert done.logits.layers == 2
    found = load_file(tmp_path / "b.safetensors")
    for name, tensor in tensors.items():
        raw, now = (t.view(torch.uint8) for t in (tensor, found[name]))
        if "q_proj" in name or "k_proj" in name:
            heads = raw.reshape(-1, 2, 8, raw.shape[-1])  # (heads, halves, pairs, bytes)
            raw = heads.transpose(1, 2).reshape(now.shape)
        assert torch.equal(raw, now), name
    with safe_open(tmp_path / "b.safetensors", "np") as opened:
        assert opened.metadata() == {"format": "pt", "made": "by a test"}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int8"])
def test_values_of_every_dtype_are_those_of_torch(dtype, tmp_path):
    """All 256 codes, as the high byte of wider numbers."""
    codes = torch.arange(256, dtype=torch.uint8).reshape(16, 16)
    wide = dtype in ("bfloat16", "float16")
    tensor = (codes.to(torch.int16) * 256 + 7 if wide else codes).view(getattr(torch, dtype))
    save_file({"x": tensor}, tmp_path / "x.safetensors")
    (x,) = open_checkpoint(tmp_path / "x.safetensors").tensors.values()
    found = np.concatenate(list(x.values(16)))
    np.testing.assert_array_equal(found, tensor.double().numpy())


NAMES = {
    "meta": ("layers.{}.attention.", "wq wk wv wo"),
    "gguf": ("blk.{}.", "attn_q attn_k attn_v attn_output"),
    "gptj": ("transformer.h.{}.attn.", "q_proj k_proj v_proj out_proj"),
    "bert": ("encoder.layer.{}.attention.self.", "query key value dense"),
}


@pytest.mark.parametrize("convention", NAMES)
def test_names_of_other_programs(convention, tmp_path):
    """The same rows move under every name, biases too."""
    write(tmp_path / "a", llama(bias=True))
    write(tmp_path / "b", llama(*NAMES[convention], bias=True))
    done = [
        convert_checkpoint(tmp_path / x, tmp_path / f"{x}2", from_="hf", to="meta") for x in "ab"
    ]
    assert [len(d.moved) for d in done] == [8, 8]
    a, b = (list(load_file(tmp_path / x / "model.safetensors").values()) for x in ("a2", "b2"))
    order = [sorted(float(t.double().abs().sum()) for t in ts) for ts in (a, b)]
    assert order[0] == order[1]
    raws = [sorted(t.numpy().tobytes() for t in ts) for ts in (a, b)]
    assert raws[0] == raws[1]


def test_shards_are_converted_and_copied_with_what_belongs_to_them(tmp_path):
    """q and k of one layer in different shards; tokenizer and index are copied."""
    folder, tensors = tmp_path / "a", llama(bias=True)
    write(folder, tensors)
    names = sorted(tensors)
    shards = {f"model-0000{i + 1}-of-00003.safetensors": names[i::3] for i in range(3)}
    for shard, part in shards.items():
        save_file({name: tensors[name] for name in part}, folder / shard)
    (folder / "model.safetensors").rename(tmp_path / "whole.safetensors")
    index = {"weight_map": {name: shard for shard, part in shards.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "pytorch_model.bin").write_bytes(b"old")
    steps = []
    done = convert_checkpoint(
        folder, tmp_path / "b", from_="hf", to="meta", progress=lambda *step: steps.append(step)
    )
    assert steps == [*((shard, i, 3) for i, shard in enumerate(shards)), ("logits", 3, 3)]
    whole = tmp_path / "whole2.safetensors"
    convert_checkpoint(tmp_path / "whole.safetensors", whole, from_="hf", to="meta", config=LLAMA)
    expected, found = load_file(whole), {}
    for shard in shards:
        found |= load_file(tmp_path / "b" / shard)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)
    assert "not copied, because the old layout is in it: pytorch_model.bin" in str(done)
    copied = {file.name for file in (tmp_path / "b").iterdir()}
    assert copied == {*shards, "model.safetensors.index.json", "config.json", "tokenizer.json"}
    assert done.logits.layers == 2
    assert [file.name for file in tmp_path.iterdir() if "partial" in file.name] == []
