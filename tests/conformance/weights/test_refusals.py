"""What a conversion refuses, and that nothing of the user's is written over."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from posenc_ref.conformance.weights import convert_checkpoint
from tests.conformance.weights.models import LLAMA, llama, numbers, write

AT = "model.layers.0.self_attn."


def without(tensors, *words):
    return {name: t for name, t in tensors.items() if not any(word in name for word in words)}


def fused(name, rows=128):
    return without(llama(num_hidden_layers=1), "_proj") | {
        f"{AT}{name}.weight": numbers(1, rows, 24)
    }


ONE = LLAMA | {"num_hidden_layers": 1}
CODEGEN = {"model_type": "codegen", "n_head": 4, "n_embd": 64, "n_layer": 1, "rotary_dim": 8}
REFUSED = {
    "too few rows": (
        llama(num_attention_heads=3), LLAMA, "q_proj.weight has 48 rows.*4 query heads of 16 = 64"
    ),
    "too many key rows": (
        llama(num_key_value_heads=4), LLAMA, "k_proj.weight has 64 rows.*2 key heads of 16 = 32"
    ),
    "another head_dim": (llama(), LLAMA | {"head_dim": 8}, "has .* rows.* heads of 8 = "),
    "no k": (
        without(llama(), "layers.1.self_attn.k_proj"), LLAMA, "key projection of layer 1 was not"
    ),
    "no q": (without(llama(), "q_proj"), LLAMA, "query projection of layer 0 was not found"),
    "k and v fused": (
        llama() | {f"{AT}kv_proj.weight": numbers(1, 64, 24)}, LLAMA, "keys and values in an order"
    ),
    "gptq": (
        without(llama(), "q_proj.weight") | {f"{AT}q_proj.qweight": numbers(1, 3, 64)}, LLAMA,
        "packed or quantised projection .qweight.",
    ),
    "bitsandbytes": (
        llama() | {f"{AT}q_proj.weight.absmax": numbers(1, 64)}, LLAMA,
        "packed or quantised projection .weight.absmax.",
    ),
    "a norm of another size": (
        llama() | {f"{AT}q_norm.weight": numbers(1, 24)}, LLAMA,
        "q_norm.weight has 24 weights, which are neither",
    ),
    "scales of blocks": (
        llama() | {f"{AT}q_proj.weight_scale_inv": numbers(1, 8, 3)}, LLAMA,
        "rows of .*q_proj.weight would leave their block",
    ),
    "no projections": (
        {"lm_head.weight": numbers(1, 4, 4)}, LLAMA, "no query and key projections were found"
    ),
    "two stacks": (
        llama("encoder.layers.{}.attn.") | llama("decoder.layers.{}.attn."), LLAMA,
        "in several places, 'decoder.', 'encoder.'.*--only",
    ),
    "fused, unknown model": (
        fused("query_key_value"), ONE, "q, k and v in an order that is not known.*--fused sections"
    ),
    "fused, wrong rows": (
        fused("qkv_proj", 144), ONE, "144 rows, which are not q, k and v: .*4 query and 2 key"
    ),
    "codegen": (fused("qkv_proj", 192), CODEGEN, "not known for model_type 'codegen'"),
    "no rotary encoding": (llama(), {"model_type": "gpt2"}, "has no rotary encoding"),
    "latent without its type": (
        llama(), {"n_heads": 4, "dim": 64, "qk_rope_head_dim": 8}, "must state its model_type"
    ),
    "no heads": (llama(), {"hidden_size": 24}, "must state num_attention_heads"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name, tmp_path):
    tensors, config, message = REFUSED[name]
    file = write(tmp_path / "a", tensors, config)
    with pytest.raises(ValueError, match=message):
        convert_checkpoint(file, tmp_path / "b", from_="half", to="interleaved")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


BOTH = "--from {} and --to {} are both {}"


@pytest.mark.parametrize(("model_type", "from_", "to", "message"), [
    ("cohere", "hf", "meta", BOTH.format("hf", "meta", "interleaved for model_type 'cohere'")),
    ("llama", "meta", "gguf", BOTH.format("meta", "gguf", "interleaved")),
    ("qwen3", "hf", "gguf", BOTH.format("hf", "gguf", "half for model_type 'qwen3'")),
    ("ministral", "hf", "gguf", "--to gguf: its layout is not known for model_type 'ministral'"),
    ("my_llama", "hf", "meta", "'my_llama' is not known.*on the command line, --from half"),
    ("llama", "huggingface", "meta", "--from must be one of half, interleaved, meta, hf, gguf"),
])  # fmt: skip
def test_conventions_depend_on_the_model(model_type, from_, to, message, tmp_path):
    file = write(tmp_path / "a", llama(), LLAMA | {"model_type": model_type})
    with pytest.raises(ValueError, match=message):
        convert_checkpoint(file, tmp_path / "b", from_=from_, to=to)


@pytest.mark.parametrize(("config", "same"), [
    ({"n_heads": 4, "n_kv_heads": 2, "dim": 64, "n_layers": 2}, True),  # Meta's params.json
    ({"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}, True),
    ({"num_attention_heads": 4, "head_dim": 16, "rotary_dim": 8}, False),
    ({"num_attention_heads": 4, "head_dim": 16, "partial_rotary_factor": 0.5}, False),
    ({"num_attention_heads": 4, "head_dim": 16, "rotary_start": 2, "rotary_dim": 8}, False),
])  # fmt: skip
def test_configurations_without_a_model_type(config, same, tmp_path):
    file = write(tmp_path / "a", llama())
    convert_checkpoint(file, tmp_path / "b", from_="hf", to="meta")
    convert_checkpoint(file, tmp_path / "c.safetensors", from_="half", to="meta", config=config)
    found = load_file(tmp_path / "b" / "model.safetensors"), load_file(tmp_path / "c.safetensors")
    name = "model.layers.0.self_attn.k_proj.weight"
    assert torch.equal(found[0][name], found[1][name]) is same
    rows = found[1][name].reshape(2, 16, 24)
    before = load_file(file)[name].reshape(2, 16, 24)
    first, count = config.get("rotary_start", 0), 16 if same else 8
    order = [first + i // 2 + i % 2 * (count // 2) for i in range(count)]
    assert torch.equal(rows[:, first : first + count], before[:, order])
    assert torch.equal(rows[:, first + count :], before[:, first + count :])
    assert torch.equal(rows[:, :first], before[:, :first])


def test_an_unknown_model_says_what_is_assumed(tmp_path):
    config = LLAMA | {"model_type": "my_llama", "rope_theta": 10000.0}
    file = write(tmp_path / "a", llama(), config)
    done = convert_checkpoint(file, tmp_path / "b", from_="half", to="meta")
    assert "model_type 'my_llama' is not known: heads of 16 are assumed" in str(done)
    assert len(done.moved) == 4


def test_towers_and_layers_without_positions_are_left_alone(tmp_path):
    config = LLAMA | {
        "model_type": "smollm3",
        "no_rope_layers": [1, 0],
        "use_sliding_window": False,
    }
    tower = llama("vision_tower.encoder.layers.{}.self_attn.")
    tensors = llama() | tower | {f"{AT.replace('self', 'cross')}q_proj.weight": numbers(1, 5, 5)}
    file = write(tmp_path / "a", tensors, config)
    done = convert_checkpoint(file, tmp_path / "b", from_="hf", to="meta")
    assert set(done.moved) == {f"{AT}q_proj.weight", f"{AT}k_proj.weight"}
    assert "left       2 query or key tensors: its layer does not rotate" in str(done)
    assert "left       4 query or key tensors: vision_tower.encoder.: not converted" in str(done)
    only = convert_checkpoint(
        file, tmp_path / "c", from_="hf", to="meta", config=LLAMA, only=["vision_tower"]
    )
    assert {name.split(".")[0] for name in only.moved} == {"vision_tower"}
    with pytest.raises(
        ValueError, match="--only audio names no attention layers; there are 'model"
    ):
        convert_checkpoint(file, tmp_path / "d", from_="hf", to="meta", only=["audio"])


def test_adapters_and_scales_follow_their_rows(tmp_path):
    """LoRA's B and a scale for each row move like the weight; A and single scales stay."""
    more = {}
    for name, rows in (("q_proj", 64), ("k_proj", 32)):
        more |= {
            f"{AT}{name}.weight_scale": numbers(3, rows, 1).abs(),
            f"{AT}{name}.input_scale": numbers(4, 1),
            f"{AT}{name}.lora_A.weight": numbers(5, 6, 24),
            f"{AT}{name}.lora_B.weight": numbers(6, rows, 6),
            f"{AT}{name}.lora_magnitude_vector": numbers(7, rows),
        }
    file = write(tmp_path / "a", llama() | more)
    done = convert_checkpoint(file, tmp_path / "b", from_="hf", to="meta")
    assert done.logits.layers == 3  # two layers and one adapter
    before, after = load_file(file), load_file(tmp_path / "b" / "model.safetensors")
    order = [i // 2 + i % 2 * 8 for i in range(16)]
    for name, tensor in before.items():
        if name in done.moved:
            heads = tensor.reshape(-1, 16, *tensor.shape[1:])
            tensor = heads[:, order].reshape(tensor.shape)
        assert torch.equal(tensor, after[name]), name
    moved = {name.removeprefix(AT) for name in done.moved if "q_proj" in name}
    parts = ("weight", "weight_scale", "lora_B.weight", "lora_magnitude_vector")
    assert moved == {f"q_proj.{part}" for part in parts} | {
        "model.layers.1.self_attn.q_proj.weight"
    }


def test_an_adapter_of_queries_alone_is_converted(tmp_path):
    lora = {
        f"{AT}q_proj.lora_A.weight": numbers(5, 6, 24),
        f"{AT}q_proj.lora_B.weight": numbers(6, 64, 6),
    }
    done = convert_checkpoint(write(tmp_path / "a", lora), tmp_path / "b", from_="hf", to="meta")
    assert done.moved == (f"{AT}q_proj.lora_B.weight",)
    assert (done.logits.layers, done.logits.skipped) == (0, 1)


def test_blocks_of_a_whole_head_allow_scales(tmp_path):
    """DeepSeek's 128 x 128 blocks with heads of 128: rows stay within their block."""
    config = LLAMA | {"head_dim": 128, "num_hidden_layers": 1}
    scales = {
        f"{AT}{n}_proj.weight_scale_inv": numbers(1, rows, 1) for n, rows in (("q", 4), ("k", 2))
    }
    file = write(tmp_path / "a", llama(**config) | scales, config)
    done = convert_checkpoint(file, tmp_path / "b", from_="hf", to="meta")
    assert not any("scale" in name for name in done.moved)


def test_fused_projections_as_told(tmp_path):
    """--fused says in which order an unknown model has q, k and v."""
    tensors = fused("query_key_value")
    file = write(tmp_path / "a", tensors, ONE)
    (name,) = (n for n in tensors if "query" in n)
    found = {}
    for order in ("sections", "groups"):
        out = tmp_path / f"{order}.safetensors"
        convert_checkpoint(file, out, from_="hf", to="meta", fused=order)
        same = (load_file(out)[name] == tensors[name]).all(dim=1).reshape(8, 16)
        found[order] = [head for head in range(8) if same[head].all()]
    assert found == {"sections": [6, 7], "groups": [3, 7]}  # the heads of v


def test_nothing_is_written_over(tmp_path):
    file = write(tmp_path / "a", llama())
    fields = {"from_": "hf", "to": "meta"}
    before = {path: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    with pytest.raises(ValueError, match="would replace the input"):
        convert_checkpoint(file, file, force=True, **fields)
    with pytest.raises(ValueError, match="would replace the input"):
        convert_checkpoint(file, tmp_path / "a", force=True, **fields)
    link = tmp_path / "link.safetensors"
    link.symlink_to(file)
    with pytest.raises(ValueError, match="would replace the input"):
        convert_checkpoint(file, link, force=True, **fields)
    taken = tmp_path / "taken.safetensors"
    taken.write_bytes(b"mine")
    with pytest.raises(ValueError, match="exists: name another output, or pass --force"):
        convert_checkpoint(file, taken, **fields)
    assert taken.read_bytes() == b"mine"
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").write_text("mine")
    (tmp_path / "b" / "config.json").write_text("mine")
    with pytest.raises(ValueError, match=r"config\.json exists"):
        convert_checkpoint(file, tmp_path / "b", **fields)
    convert_checkpoint(file, taken, force=True, **fields)
    convert_checkpoint(file, tmp_path / "b", force=True, **fields)
    assert taken.read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes() != b"mine"
    assert (tmp_path / "b" / "mine.txt").read_text() == "mine"
    assert json.loads((tmp_path / "b" / "config.json").read_text()) == LLAMA
    assert {path: path.read_bytes() for path in (tmp_path / "a").iterdir()} == before
    names = ["a", "b", "link.safetensors", "taken.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_damaged_and_missing_files(tmp_path):
    file = write(tmp_path / "a", llama())
    fields = {"output": tmp_path / "b", "from_": "hf", "to": "meta"}
    (tmp_path / "cut.safetensors").write_bytes(file.read_bytes()[:-5])
    for source, message in (
        (tmp_path / "cut.safetensors", "is no safetensors file"),
        (tmp_path / "none", "there is no file or folder"),
        (tmp_path / "a" / "config.json", "must be a .safetensors file"),
        (tmp_path, "holds no .safetensors file|cut.safetensors is no"),
    ):
        with pytest.raises(ValueError, match=message):
            convert_checkpoint(source, config=LLAMA, **fields)
    (tmp_path / "a" / "config.json").unlink()
    with pytest.raises(ValueError, match="--config is missing, and there is no config"):
        convert_checkpoint(file, **fields)
    index = tmp_path / "a" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": "model-2.safetensors"}}))
    with pytest.raises(ValueError, match="which is missing"):
        convert_checkpoint(index, config=LLAMA, **fields)
    index.write_text(json.dumps({"weight_map": {"x": "model.safetensors"}}))
    with pytest.raises(ValueError, match="the index places 'x' in model"):
        convert_checkpoint(index, config=LLAMA, **fields)
    index.unlink()
    save_file(llama(), tmp_path / "a" / "copy.safetensors")
    with pytest.raises(ValueError, match=r"in copy\.safetensors and in model"):
        convert_checkpoint(tmp_path / "a", config=LLAMA, **fields)
