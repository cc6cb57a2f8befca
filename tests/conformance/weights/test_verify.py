"""Wrong conversions fail their verification, and leave nothing behind."""

from dataclasses import replace

import numpy as np
import pytest

from posenc_ref import permute_weights
from posenc_ref.conformance.weights import ConversionError, convert, convert_checkpoint
from posenc_ref.conformance.weights.verify import differing_bytes
from tests.conformance.weights.models import LLAMA, llama, numbers, write

NORMED = LLAMA | {"model_type": "qwen3"}
FUSED = {
    "model_type": "phi3", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "partial_rotary_factor": 0.5, "pad_token_id": 0,
}  # fmt: skip


def tensors(config):
    """Return the tensors of Llama, Qwen3 or Phi-3."""
    if config is FUSED:
        return {"model.layers.0.self_attn.qkv_proj.weight": numbers(1, 64, 32)}
    found = llama(bias=True)
    for layer in range(2 if config is NORMED else 0):
        for i, name in enumerate(("q_norm", "k_norm")):
            found[f"model.layers.{layer}.self_attn.{name}.weight"] = numbers(50 + layer + i, 16)
    return found


def changed(part, index):
    """Return a change of the moves whose names contain ``part``: other rows, or none (None)."""

    def change(moves):
        for move in moves:
            if part not in move.tensor.name:
                yield move
            elif index is not None:
                yield replace(move, index=index(len(move.index)))

    return change


def with_heads(n, **fields):
    """Return the index of a half-split tensor read as n heads."""
    return lambda rows: permute_weights(np.arange(rows), n, head_dim=rows // n, **fields)


def back(rows):
    """Return the index of the inverse permutation."""
    return permute_weights(
        np.arange(rows), rows // 16, head_dim=16, source="interleaved", target="half"
    )


WRONG = {
    "k with the number of query heads": (LLAMA, changed("k_proj", with_heads(4)), "q.k of the"),
    "q as one head": (LLAMA, changed("q_proj.weight", with_heads(1)), "q.k of the"),
    "biases left out": (LLAMA, changed("bias", None), "q.k of the"),
    "the bias of k left out": (LLAMA, changed("k_proj.bias", None), "q.k of the"),
    "the inverse permutation": (LLAMA, changed("_proj", back), "q.k of the"),
    "norms left out": (NORMED, changed("norm", None), "q.k of the"),
    "one norm left out": (NORMED, changed("k_norm", None), "q.k of the"),
    "v moved in a fused matrix": (FUSED, changed("qkv", with_heads(4, rotary_dim=8)), "not rotate"),
    "all channels of partial heads": (FUSED, changed("qkv", with_heads(4)), "not rotate"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_conversions_are_caught(name, tmp_path, monkeypatch):
    config, change, message = WRONG[name]
    file = write(tmp_path / "a", tensors(config), config)
    convert_checkpoint(file, tmp_path / "right", from_="hf", to="interleaved")
    made = convert.make_plan

    def make_plan(*args, **fields):
        plan = made(*args, **fields)
        plan.moves = list(change(plan.moves))
        return plan

    monkeypatch.setattr(convert, "make_plan", make_plan)
    with pytest.raises(ConversionError, match=message):
        convert_checkpoint(file, tmp_path / "wrong", from_="hf", to="interleaved")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "right"]


@pytest.mark.parametrize("at", [0, 20, -1])
def test_one_changed_byte_is_found(at, tmp_path):
    """In the length of the header, in the header, and in the last tensor."""
    file = write(tmp_path / "a", tensors(LLAMA))
    raw = bytearray(file.read_bytes())
    other = tmp_path / "b.safetensors"
    other.write_bytes(raw)
    assert differing_bytes(file, other, []) == []
    raw[at] ^= 1
    other.write_bytes(raw)
    assert len(differing_bytes(file, other, [])) == 1
    other.write_bytes(raw[:-1])
    assert differing_bytes(file, other, []) == ["b.safetensors: the size"]


def test_weights_that_show_nothing_are_counted(tmp_path):
    """Keys of zero give the same logits in every layout."""
    found = llama()
    found["model.layers.1.self_attn.k_proj.weight"] *= 0
    done = convert_checkpoint(write(tmp_path / "a", found), tmp_path / "b", from_="hf", to="meta")
    assert (done.logits.layers, done.logits.skipped) == (1, 1)
    assert "1 layer not compared" in str(done)
