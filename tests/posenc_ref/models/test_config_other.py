"""Configurations of models that no class of transformers rotates."""

import math

import numpy as np
import pytest

from posenc_ref import ALiBi, LogNScale, QwenNTK, RoPE, T5Bias, from_config
from posenc_ref.accuracy import BUDGET, Truth
from posenc_ref.models.config import described_config
from posenc_ref.models.config_facts import table

QWEN = {"model_type": "qwen", "hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128,
        "num_hidden_layers": 3, "rotary_pct": 1.0, "rotary_emb_base": 10000, "seq_length": 8192,
        "use_dynamic_ntk": True, "use_logn_attn": True, "use_flash_attn": "auto"}  # fmt: skip
GLM = {"model_type": "chatglm", "hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128,
       "num_layers": 28, "seq_length": 8192, "original_rope": True, "rope_ratio": 1}  # fmt: skip


@pytest.mark.parametrize(("config", "encoding"), [
    ({"model_type": "bloom", "n_head": 12, "n_layer": 2}, ALiBi(12)),
    ({"model_type": "bloom", "num_attention_heads": 16}, ALiBi(16)),
    ({"model_type": "mpt", "n_heads": 8, "attn_config": {"alibi": True, "alibi_bias_max": 16}},
     ALiBi(8, max_bias=16.0)),
    ({"model_type": "falcon", "alibi": True},
     ALiBi(71, bias_inside_scale=True)),
    (GLM, RoPE(128, layout="interleaved", rotary_dim=64)),
    (QWEN, RoPE(128, layout="half", scaling=QwenNTK(8192))),
    ({**QWEN, "use_dynamic_ntk": False, "rotary_pct": 0.5, "rotary_emb_base": 1e6},
     RoPE(128, layout="half", rotary_dim=64, base=1e6)),
])  # fmt: skip
def test_encodings(config, encoding):
    assert from_config(config).only == encoding


def test_slopes_are_those_of_the_library():
    from transformers.models.bloom.modeling_bloom import _get_alibi_slopes

    found = from_config({"model_type": "bloom", "n_head": 12}).only
    theirs = _get_alibi_slopes(12, "cpu").double().numpy()
    ours = -found.bias(np.array([1]), np.array([0]))[:, 0, 0]
    truth = Truth(ours, ours, np.zeros(12))
    assert truth.score(theirs.astype(np.float32)).max() <= BUDGET["float32"]


def test_log_n_attention_of_qwen():
    model = from_config(QWEN)
    assert model.query_scale == {"full_attention": LogNScale(8192)}
    # The code's table: log(i, 8192) for i = p + 1 greater than 8192.
    factor = model.query_scale["full_attention"].factor(np.array([16383]))[0]
    wanted = np.array([math.log(16384, 8192)])
    assert Truth(wanted, wanted, np.zeros(1)).score(factor[None])[0] <= BUDGET["float64"]
    assert not from_config({**QWEN, "use_logn_attn": False}).query_scale


def test_lengths():
    assert described_config(QWEN).length == 8192
    assert described_config({"model_type": "gpt2", "n_positions": 64, "n_embd": 8},
                            learned=True).length == 64  # fmt: skip


def test_sizes_of_learned_tables():
    def read(**config):
        return described_config(config, learned=True).model

    t5 = read(model_type="t5", num_heads=4, relative_attention_num_buckets=16)
    assert t5.encodings["decoder"] == T5Bias(
        np.zeros((16, 4)), num_buckets=16, max_distance=128, bidirectional=False
    )
    assert read(model_type="gpt2", n_positions=64, n_embd=8).only.weight.shape == (64, 8)
    opt = read(model_type="opt", max_position_embeddings=64, hidden_size=8).only
    assert (opt.weight.shape, opt.offset) == ((66, 8), 2)
    with pytest.raises(ValueError, match=r"but a learned table.*preset\('t5', table=...\)"):
        from_config({"model_type": "t5", "num_heads": 4})


FOPE = {
    "model_type": "interns1_pro_text", "hidden_size": 4096, "head_dim": 128,
    "num_attention_heads": 64, "num_key_value_heads": 4, "max_position_embeddings": 262144,
    "rope_theta": 5e6, "rope_scaling": {"rope_type": "default", "fope_init_factor": 0.5,
                                        "fope_sep_head": True, "num_inv_freq": None},
}  # fmt: skip


def test_fope_keeps_the_frequencies_that_turn_once():
    """The 45 pairs of 64 with theta ** (-k / 64) > 2 pi / 262144, for each of 4 key heads."""
    turns = 262144 / (2 * math.pi) * 5e6 ** (-np.arange(64) / 64)
    assert (turns > 1).sum() == 45
    outer = {"model_type": "interns1_pro", "text_config": FOPE}
    one = described_config(outer, learned=True).model.only
    assert one.cos_coef.shape == one.sin_coef.shape == (4, 45, 45)
    assert (one.head_dim, one.base, one.dropped_sin) == (128, 5e6, 1)
    rope = {"num_inv_freq": 30, "fope_sep_head": False}
    fewer = described_config({**FOPE, "rope_scaling": rope}, learned=True).model.only
    assert fewer.cos_coef.shape == (1, 30, 30)
    with pytest.raises(ValueError, match=r"learned cos_coef and sin_coef.*preset\('intern-s1-pro'"):
        from_config(outer)
    for wrong, said in (({"rope_type": "yarn"}, "rope_type must be"), ({"factor": 2}, "factor")):
        with pytest.raises(ValueError, match=said):
            described_config({**FOPE, "rope_scaling": wrong}, learned=True)


@pytest.mark.parametrize(("config", "said"), [
    ({**GLM, "rope_ratio": 500}, "rope_ratio .* changes the base, or the positions, by a factor"),
    ({**GLM, "position_encoding_2d": True}, "use the preset 'chatglm-6b'"),
    ({**QWEN, "seq_length": None}, "need seq_length"),
    ({"model_type": "mpt", "n_heads": 8, "attn_config": {"alibi": False}}, "alibi must be true"),
    ({"model_type": "bloom"}, "num_attention_heads is missing"),
    ({"model_type": "bert", "position_embedding_type": "relative_key", "hidden_size": 8,
      "max_position_embeddings": 8}, "learned weight"),
])  # fmt: skip
def test_refused(config, said):
    with pytest.raises(ValueError, match=said):
        from_config(config)


def test_relative_keys_of_bert_are_refused():
    bert = {"model_type": "bert", "hidden_size": 8, "max_position_embeddings": 8}
    with pytest.raises(ValueError, match="position_embedding_type must be 'absolute'"):
        described_config({**bert, "position_embedding_type": "relative_key"}, learned=True)


def test_the_tables_do_not_overlap():
    others = set(table("other_models")["models"])
    assert others & set(table("text_models")["models"]) == {"falcon"}
