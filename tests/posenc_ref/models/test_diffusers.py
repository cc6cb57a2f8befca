"""Configurations of diffusers: what is read, what is refused, and the presets made of them."""

import importlib.util
import json
from pathlib import Path

import pytest

from posenc_ref import (
    LongRoPE,
    MixedRoPE,
    MultiAxisRoPE,
    RoPE,
    Sinusoidal2D,
    Sinusoidal3D,
    from_config,
    preset,
)
from posenc_ref.models.config_facts import table

ROOT = Path(__file__).resolve().parents[3]
MODELS = table("diffusers_models")["models"]
FACTORS = {"short_factor": [1.0 + i / 48 for i in range(48)],
           "long_factor": [2.0 + i for i in range(48)]}  # fmt: skip


def of(name, **entries):
    return from_config({"_class_name": name, **entries})


def test_video_tables_of_cogvideox():
    found = of("CogVideoXTransformer3DModel", num_attention_heads=2, attention_head_dim=16)
    assert found.only == Sinusoidal3D((8, 12, 12), axis_order="twh")
    assert "spatial_interpolation_scale" in found.provenance["axes"]


@pytest.mark.parametrize(("config", "encoding"), [
    ({"_class_name": "FluxTransformer2DModel", "axes_dims_rope": [8, 12, 12],
      "attention_head_dim": 32},
     MultiAxisRoPE(32, sections=(4, 6, 6), layout="interleaved", spacing="restart")),
    ({"_class_name": "HunyuanImageTransformer2DModel", "rope_axes_dim": [16, 56, 56],
      "rope_theta": 100.0},
     MultiAxisRoPE(128, sections=(8, 28, 28), layout="interleaved", spacing="restart",
                   base=100.0)),
    ({"_class_name": "Cosmos3OmniTransformer", "rope_scaling": {"mrope_section": [32, 16, 16]}},
     MultiAxisRoPE(128, sections=(32, 16, 16), layout="half", arrangement="interleaved",
                   base=5e6)),
    ({"_class_name": "HiDreamImageTransformer2DModel", "axes_dims_rope": [64, 32, 32]},
     MultiAxisRoPE(128, sections=(32, 16, 16), layout="interleaved", spacing="restart")),
    ({"_class_name": "CogView3PlusTransformer2DModel"}, Sinusoidal2D(2560, axis_order="wh")),
    ({"_class_name": "OmniGenTransformer2DModel", "rope_scaling": FACTORS},
     RoPE(96, layout="half", scaling=LongRoPE(FACTORS["short_factor"], FACTORS["long_factor"],
                                              4096, factor=32.0))),
])  # fmt: skip
def test_entries_are_read(config, encoding):
    assert from_config(config).only == encoding


def test_ltx_rotates_by_fractions():
    found = of("LTXVideoTransformer3DModel", num_attention_heads=2, attention_head_dim=16)
    assert found.only == MixedRoPE.fractional(32)


def test_every_field_has_its_source():
    found = of("Flux2Transformer2DModel", rope_theta=100.0).provenance
    assert found["base"] == "config: rope_theta"
    assert found["head_dim"] == "default of Flux2Transformer2DModel in diffusers 0.42.1"
    assert found["layout"] == "diffusers 0.42.1, transformer_flux2.py"


@pytest.mark.parametrize(("name", "encoding"), [
    ("cosmos-1.0", of("CosmosTransformer3DModel").only),
    ("lumina-image-2.0", MultiAxisRoPE(96, sections=(16,) * 3, layout="interleaved",
                                       spacing="restart")),
    ("z-image", MultiAxisRoPE(128, sections=(16, 24, 24), layout="interleaved",
                              spacing="restart", base=256.0)),
    ("stable-diffusion-3-medium", Sinusoidal2D(1536, axis_order="wh", position_scale=1 / 3)),
    ("pixart-alpha-xl-2-1024", Sinusoidal2D(1152, axis_order="wh", extent=32.0)),
    ("dit-xl-2-256", Sinusoidal2D(1152, axis_order="wh", extent=16.0)),
])  # fmt: skip
def test_presets(name, encoding):
    assert preset(name).only == encoding


# Entries as the files of released models have them, which change no frequency.
RELEASED = {
    "CogVideoXTransformer3DModel": {
        "use_rotary_positional_embeddings": True, "use_learned_positional_embeddings": True,
        "spatial_interpolation_scale": 1.0, "temporal_interpolation_scale": 2.0},
    "CogView4Transformer2DModel": {"rope_axes_dim": [512, 512], "pos_embed_max_size": 256},
    "CogView3PlusTransformer2DModel": {"pos_embed_max_size": 64},
    "CosmosTransformer3DModel": {"extra_pos_embed_type": None, "max_size": [128, 240, 240]},
    "QwenImageTransformer2DModel": {"use_layer3d_rope": True, "guidance_embeds": False},
    "WanTransformer3DModel": {"rope_max_seq_len": 2048, "pos_embed_seq_len": 514,
                              "image_dim": 1280},
    "ZImageTransformer2DModel": {"axes_lens": [1536, 512, 512], "axes_dims": [32, 48, 48]},
    "Lumina2Transformer2DModel": {"axes_lens": [300, 512, 512], "scaling_factor": 1.0},
}  # fmt: skip


@pytest.mark.parametrize("name", RELEASED)
def test_entries_that_change_no_frequency(name):
    own = {k: v for k, v in RELEASED[name].items() if k == "use_rotary_positional_embeddings"}
    assert of(name, **RELEASED[name]).only == of(name, **own).only


def test_kandinsky_has_two_encodings():
    found = of("Kandinsky5Transformer3DModel", axes_dims=[8, 4, 4]).encodings
    assert found["text"] == RoPE(16, layout="interleaved")
    assert found["attention"].sections == (4, 2, 2)


@pytest.mark.parametrize(("config", "said"), [
    ({"_class_name": "FluxTransformer3DModel"}, "did you mean 'FluxTransformer2DModel'"),
    ({"_class_name": "FluxPipeline"}, "Pass the config.json of the folder 'transformer'"),
    ({"_class_name": "FluxTransformer2DModel", "rope_theta": 1e6},
     r"rope_theta \(= 1000000.0\) may change positions, .*no such entry"),
    ({"_class_name": "Cosmos3OmniTransformer", "unified_3d_mrope_temporal_modality_margin": 1},
     r"posenc-ref reads its default 15000"),
    ({"_class_name": "FluxTransformer2DModel", "axes_dims_rope": [16, 57, 55]}, "even numbers"),
    ({"_class_name": "FluxTransformer2DModel", "axes_dims_rope": 56}, "a number for each axis"),
    ({"_class_name": "FluxTransformer2DModel", "axes_dims_rope": [64, 64, 64]},
     r"must add up to the 128 channels of a head, got 64\+64\+64 = 192"),
    ({"_class_name": "FluxTransformer2DModel", "axes_dims_rope": [16, 56, 50]},
     r"axes_dims_rope must add up to the 128 .*16\+56\+50 = 122"),
    ({"_class_name": "WanTransformer3DModel", "attention_head_dim": None}, "attention_head_dim"),
    ({"_class_name": "CosmosTransformer3DModel", "rope_scale": [1.0]}, "must list 3 numbers"),
    ({"_class_name": "CosmosTransformer3DModel", "rope_scale": [1e308] * 3}, "small enough"),
    ({"_class_name": "Cosmos3OmniTransformer", "rope_scaling": 2.0}, "rope_scaling must be a map"),
    ({"_class_name": "AuraFlowTransformer2DModel"}, "its positions are learned: pos_embed"),
    ({"_class_name": "SanaTransformer2DModel"}, "without interpolation_scale it encodes no pos"),
    ({"_class_name": "ErnieImageTransformer2DModel"}, "two channels of a pair different angles"),
    ({"_class_name": "CogVideoXTransformer3DModel", "use_learned_positional_embeddings": True},
     "its positions are learned: patch_embed.pos_embedding"),
])  # fmt: skip
def test_refused(config, said):
    with pytest.raises(ValueError, match=said):
        from_config(config)


def test_part_and_layout_are_refused():
    with pytest.raises(ValueError, match="part must be None"):
        from_config({"_class_name": "FluxTransformer2DModel"}, part="text_config")
    changed = from_config({"_class_name": "FluxTransformer2DModel"},
                          override={"axes_dims_rope": [32, 48, 48]})  # fmt: skip
    assert changed.only.sections == (16, 24, 24)


def test_a_folder_is_read(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps({"_class_name": "FluxTransformer2DModel", "_diffusers_version": "0.30"})
    )
    assert from_config(tmp_path).only == preset("flux.1").only


def tool():
    spec = importlib.util.spec_from_file_location(
        "d", ROOT / "tools" / "configurations" / "diffusers_defaults.py"
    )
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.nightly
def test_every_class_of_diffusers_is_accounted_for():
    pytest.importorskip("diffusers", reason="diffusers has the classes")
    module = tool()
    assert set(module.classes()) <= set(MODELS)
    assert set(MODELS) - set(module.classes()) == {"DualTransformer2DModel"}  # combines two
    assert module.text() == module.TARGET.read_text(encoding="utf-8"), (
        "run python tools/configurations/diffusers_defaults.py"
    )
