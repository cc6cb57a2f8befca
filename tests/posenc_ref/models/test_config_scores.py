"""Effective logits: libraries put the factors in four places, and must agree there."""

import math

import numpy as np
import pytest
import torch
from transformers.models.deepseek_v3.configuration_deepseek_v3 import DeepseekV3Config
from transformers.models.deepseek_v3.modeling_deepseek_v3 import (
    DeepseekV3Attention,
    DeepseekV3RotaryEmbedding,
    apply_rotary_pos_emb_interleave,
)

import posenc_ref as pr
from posenc_ref import RoPE, from_config
from posenc_ref.accuracy import BUDGET, Truth
from posenc_ref.models.model_encoding import ModelEncoding

DEEPSEEK = {
    "model_type": "deepseek_v3", "num_hidden_layers": 1, "rope_theta": 10000.0,
    "rope_scaling": {
        "type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096,
        "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0,
    },
}  # fmt: skip
QWEN = {
    "model_type": "qwen2", "hidden_size": 64, "num_attention_heads": 1, "rope_theta": 1e6,
    "rope_scaling": {
        "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768,
    },
}  # fmt: skip
POSITIONS = np.array([0, 1, 17, 1000, 4095, 9000])


def inputs(dim, dtype=np.float64):
    rng = np.random.default_rng(5)
    return rng.standard_normal((2, 1, 6, dim)).astype(dtype)


def truth(model, q, k, positions=POSITIONS):
    """Our logits with their unit: A sums absolute products, B the angles of both sides."""
    encoding = model.only
    scale = model.softmax_scale or encoding.head_dim**-0.5
    m = encoding.attention_factor() ** 2
    first, second = encoding.pairs()
    size = [np.hypot(x[..., first], x[..., second]) for x in (q, k)]
    passed = np.setdiff1d(np.arange(encoding.head_dim), [*first, *second])
    turned = m * np.einsum("bhip,bhjp->bhij", *size)
    still = np.einsum("bhic,bhjc->bhij", *(abs(x[..., passed]) for x in (q, k)))
    w = encoding.frequencies()
    angle = [abs(positions)[:, None] * w * s for s in size]
    b = np.einsum("bhip,bhjp->bhij", angle[0], size[1])
    b += np.einsum("bhip,bhjp->bhij", size[0], angle[1])
    value = model.scores(None, q, k, positions, positions)
    return Truth(value, scale * (turned + still), scale * m * b)


def conforms(made, actual, dtype="float64"):
    return made.score(actual).max() <= BUDGET[dtype]


def yarn(base, d, factor, length):
    """The frequencies, as the paper of YaRN and DeepSeek's inference code write them."""
    j = np.arange(d // 2)
    w = base ** (-2 * j / d)
    low, high = (
        d * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in (32, 1)
    )
    low, high = max(math.floor(low), 0), min(math.ceil(high), d - 1)
    ramp = np.clip((j - low) / (high - low), 0, 1)
    return w * (1 - ramp) + w / factor * ramp


def turned(x, w, m=1.0, interleaved=False):
    """Rotate in float64, plainly."""
    angle = POSITIONS[:, None] * w
    x1, x2 = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., : w.size], x[..., w.size :])
    cos, sin = m * np.cos(angle), m * np.sin(angle)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def product(q, k, scale):
    return np.einsum("bhic,bhjc->bhij", q, k) * scale


def test_deepseek_as_its_reference_writes_it():
    """Plain cos and sin, and the factor in the softmax scale, on rotated and other channels."""
    q, k = inputs(192), inputs(192)[::-1]
    w = yarn(10000.0, 64, 40.0, 4096)
    both = [
        np.concatenate([x[..., :128], turned(x[..., 128:], w, interleaved=True)], axis=-1)
        for x in (q, k)
    ]
    g = 0.1 * math.log(40.0) + 1.0
    made = truth(from_config(DEEPSEEK), q, k)
    assert conforms(made, product(*both, 192**-0.5 * g * g))
    assert not conforms(made, product(*both, 192**-0.5))  # transformers before July 2026
    # Where only a slice rotates, a factor on cos and sin is not a factor on the logits.
    inside = [
        np.concatenate([x[..., :128], turned(x[..., 128:], w, g, interleaved=True)], axis=-1)
        for x in (q, k)
    ]
    assert not conforms(made, product(*inside, 192**-0.5))


def test_deepseek_as_transformers_computes_it():
    small = {"hidden_size": 64, "num_attention_heads": 1, "q_lora_rank": 8, "kv_lora_rank": 8}
    config = DeepseekV3Config(**DEEPSEEK | small)
    q, k = inputs(192, np.float32), inputs(192, np.float32)[::-1].copy()
    rotary = DeepseekV3RotaryEmbedding(config)
    cos, sin = rotary(torch.zeros(1), torch.tensor(POSITIONS)[None])
    ends = apply_rotary_pos_emb_interleave(*(torch.tensor(x[..., 128:]) for x in (q, k)), cos, sin)
    both = [
        np.concatenate([x[..., :128], end.numpy()], axis=-1)
        for x, end in zip((q, k), ends, strict=True)
    ]
    scale = DeepseekV3Attention(config, 0).scaling
    model = from_config(config.to_dict())
    made = truth(model, q.astype(float), k.astype(float))
    assert conforms(made, product(*both, scale).astype(np.float32), "float32")


def test_three_places_for_the_factor_of_yarn():
    q, k = inputs(64), inputs(64)[::-1]
    model = from_config(QWEN)
    made = truth(model, q, k)
    w = yarn(1e6, 64, 4.0, 32768)
    m = 0.1 * math.log(4.0) + 1.0
    on_the_table = product(turned(q, w, m), turned(k, w, m), 1 / 8)
    on_the_input = product(turned(m * q, w), turned(m * k, w), 1 / 8)  # mlx-lm
    on_the_logits = product(turned(q, w), turned(k, w), m * m / 8)  # torchtitan
    for placed in (on_the_table, on_the_input, on_the_logits):
        assert conforms(made, placed)
    assert not conforms(made, product(turned(q, w), turned(k, w), 1 / 8))
    twice = product(turned(m * q, w, m), turned(m * k, w, m), 1 / 8)
    assert not conforms(made, twice)


def test_query_temperature_and_layers_without_positions():
    model = from_config({"model_type": "llama4_text", "num_hidden_layers": 4, "head_dim": 8})
    q, k = inputs(8), inputs(8)[::-1]
    positions = np.array([0, 8190, 8191, 16383, 100000, 100001])
    plain = product(q, k, 8**-0.5)
    factor = 1.0 + 0.1 * np.log1p(np.floor((positions + 1) / 8192))
    terms = product(abs(q), abs(k), 8**-0.5) * factor[:, None]
    made = Truth(plain * factor[:, None], terms, np.zeros(terms.shape))
    logits = model.scores("full_attention", q, k, positions, positions)
    assert conforms(made, logits)
    assert not conforms(made, plain)
    # No rotation: any positions of the keys do.
    assert np.array_equal(model.scores("full_attention", q, k, positions, positions[::-1]), logits)
    rotated = model.scores("chunked_attention", q, k, positions, positions)
    encoding = model.encodings["chunked_attention"]
    assert np.array_equal(rotated, pr.scores(encoding, q, k, positions, positions))


@pytest.mark.parametrize("library", ["torch", "float32"])
def test_logits_follow_the_queries(library):
    model = from_config(QWEN)
    q, k = inputs(64, np.float32), inputs(64, np.float32)[::-1].copy()
    want = model.scores(None, q.astype(float), k.astype(float), POSITIONS, POSITIONS)
    if library == "torch":
        logits = model.scores(None, torch.tensor(q), torch.tensor(k), POSITIONS, POSITIONS)
        assert logits.dtype == torch.float32
        logits = logits.numpy()
    else:
        logits = model.scores(None, q, k, POSITIONS, POSITIONS)
    assert logits.dtype == np.float32
    assert np.array_equal(logits, want.astype(np.float32))


def test_query_positions_of_each_row():
    rope = RoPE(8, layout="half")
    model = ModelEncoding(
        "rows", encodings={"a": rope}, query_scale={"a": pr.QueryTemperature(0.5, 2)}
    )
    q, k = inputs(8), inputs(8)[::-1]
    rows = np.stack([np.arange(6), np.arange(6) + 3])
    both = model.scores(None, q, k, rows, rows)
    for b in range(2):
        alone = model.scores("a", q[b : b + 1], k[b : b + 1], rows[b], rows[b])
        assert np.array_equal(both[b], alone[0])


def test_a_softmax_scale_is_the_whole_factor():
    q, k = inputs(64), inputs(64)[::-1]
    config = {"model_type": "granite", "hidden_size": 64, "num_attention_heads": 1}
    quarter = from_config({**config, "attention_multiplier": 0.25})
    half = from_config({**config, "attention_multiplier": 0.5})
    logits = quarter.scores(None, q, k, POSITIONS, POSITIONS)
    assert np.array_equal(half.scores(None, q, k, POSITIONS, POSITIONS), 2 * logits)
    assert from_config({**config, "attention_multiplier": 0.125}).softmax_scale is None


def test_one_mscale_alone():
    """Hugging Face ignores it and DeepSeek does not: only where they agree it is read."""
    plain = from_config(QWEN).only
    for pair in ({"mscale": 1.0}, {"mscale": 1, "mscale_all_dim": 0}, {"mscale_all_dim": 0.0}):
        scaling = {**QWEN["rope_scaling"], **pair}
        assert from_config({**QWEN, "rope_scaling": scaling}).only == plain
    for pair in ({"mscale": 0.5}, {"mscale_all_dim": 1.0}):
        scaling = {**QWEN["rope_scaling"], **pair}
        with pytest.raises(ValueError, match="mscale and mscale_all_dim must both be given"):
            from_config({**QWEN, "rope_scaling": scaling})
