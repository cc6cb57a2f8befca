"""Vision towers, against settings written by hand from the code of each."""

import math

import pytest

from posenc_ref import MultiAxisRoPE, from_config


def axial(head_dim, n, **kwargs):
    return MultiAxisRoPE(head_dim, sections=(n, n), spacing="restart", **kwargs)


TOWERS = [
    ({"model_type": "qwen2_vl_vision", "embed_dim": 1280, "num_heads": 16},
     axial(80, 20, layout="half")),
    ({"model_type": "qwen2_5_vl_vision", "hidden_size": 1280, "num_heads": 16},
     axial(80, 20, layout="half")),
    ({"model_type": "pixtral", "hidden_size": 1024, "num_attention_heads": 16,
      "rope_theta": 10000.0},
     MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="strided")),
    ({"model_type": "kimi_k25_vision", "hidden_size": 1152, "num_attention_heads": 16},
     axial(72, 18, layout="half", arrangement=(1, 0) * 18)),
    ({"model_type": "step3p5_vision", "hidden_size": 64, "num_attention_heads": 1},
     axial(64, 16, layout="half", arrangement=(1,) * 16 + (0,) * 16)),
    ({"model_type": "inkling2_vision", "hidden_size": 64, "num_attention_heads": 1},
     axial(64, 16, layout="interleaved", arrangement=(1,) * 16 + (0,) * 16)),
    ({"model_type": "gemma4_vision", "head_dim": 64},
     axial(64, 16, layout="blockwise", base=100.0)),
    ({"model_type": "llama4_vision_model", "hidden_size": 1408, "num_attention_heads": 16},
     axial(88, 22, layout="interleaved", offset=1.0)),
    ({"model_type": "dinov3_vit", "hidden_size": 384, "num_attention_heads": 6,
      "rope_theta": 100.0},
     axial(64, 16, layout="half", base=100.0, position_scale=2 * math.pi)),
    ({"model_type": "minimax_m3_vl_vision", "hidden_size": 1280, "num_attention_heads": 16},
     MultiAxisRoPE(80, sections=(13, 13, 13), layout="half", spacing="restart")),
    ({"model_type": "sam2_video", "memory_attention_hidden_size": 256,
      "memory_attention_downsample_rate": 1, "memory_attention_num_attention_heads": 1},
     axial(256, 64, layout="interleaved")),
    ({"model_type": "efficientloftr", "hidden_size": 256, "num_attention_heads": 8},
     axial(256, 64, layout="interleaved", arrangement="interleaved", offset=1.0)),
]  # fmt: skip


@pytest.mark.parametrize(("config", "encoding"), TOWERS, ids=lambda c: str(c)[:40])
def test_towers(config, encoding):
    model = from_config(config)
    assert model.only == encoding
    assert model.provenance["axes"].startswith("positions are (")


def test_a_tower_is_a_part():
    whole = {
        "model_type": "qwen2_5_vl",
        "text_config": {"model_type": "qwen2_5_vl_text", "rope_theta": 1e6},
        "vision_config": {"hidden_size": 1280, "num_heads": 16},
    }
    assert from_config(whole, part="vision_config").only == TOWERS[1][1]
    assert from_config(whole).only.sections == (16, 24, 24)
    with pytest.raises(ValueError, match=r"part must be one of .*vision_config"):
        from_config(whole, part="visual")
    assert from_config(whole, part="vision") == from_config(whole, part="vision_config")
    nested = {"model_type": "qwen2_5_omni", "thinker_config": whole}
    assert from_config(nested, part="vision").only == TOWERS[1][1]


def test_a_tower_under_the_name_of_the_whole():
    """As the files of Qwen2-VL have it."""
    tower = {"model_type": "qwen2_vl", "depth": 32, "embed_dim": 1280, "hidden_size": 3584,
             "num_heads": 16, "patch_size": 14}  # fmt: skip
    whole = {"model_type": "qwen2_vl", "hidden_size": 3584, "num_attention_heads": 28,
             "num_hidden_layers": 28, "vision_config": tower}  # fmt: skip
    assert from_config(whole, part="vision_config").only == TOWERS[0][1]
    assert from_config(whole).only.sections == (16, 24, 24)
    with pytest.raises(ValueError, match=r'pass the whole configuration and part="vision_config"'):
        from_config(tower)


def test_a_tower_refuses_what_it_does_not_read():
    with pytest.raises(ValueError, match="rope_type must be one of 'axial', 'default'"):
        from_config({"model_type": "pixtral", "rope_scaling": {"type": "linear", "factor": 2.0}})
    with pytest.raises(ValueError, match="divisible by 4 for two axes, got 70"):
        from_config({"model_type": "qwen3_vl_vision", "hidden_size": 140, "num_heads": 2})
    with pytest.raises(ValueError, match=r"head_dim must be .* = 64 for this tower, got 32"):
        from_config({"model_type": "pixtral", "head_dim": 32})
