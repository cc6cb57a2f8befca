"""Every model type of the installed transformers gives an encoding, or says why not."""

import collections
import importlib
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

from posenc_ref import DETRSine, Sinusoidal, Sinusoidal2D, from_config
from posenc_ref.accuracy import BUDGET
from posenc_ref.models.config_facts import table
from posenc_ref.models.other.kinds import KINDS, canonical, kind_of

ROOT = Path(__file__).resolve().parents[3]
SMALL = {"encoder_layers": 1, "decoder_layers": 1, "num_hidden_layers": 1, "vocab_size": 9,
         "encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_attention_heads": 2,
         "attention_heads": 2, "n_head": 2, "n_layer": 1, "layers": 1,
         "ffn_dim": 4, "encoder_ffn_dim": 4, "decoder_ffn_dim": 4, "intermediate_size": 4,
         "max_position_embeddings": 40, "max_source_positions": 40, "n_positions": 40,
         "pad_token_id": 3}  # fmt: skip


def test_every_model_type_is_accounted_for():
    found = collections.Counter(kind_of(name) for name in CONFIG_MAPPING_NAMES)
    assert set(found) <= set(KINDS), [n for n in CONFIG_MAPPING_NAMES if kind_of(n) is None]
    assert found == {
        "encoding": 411, "learned": 214, "parts": 83, "none": 75, "code": 14, "convolution": 7,
    }  # fmt: skip


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_counts_them():
    module = tool("configurations/configurations_page")
    assert module.text() == module.PAGE.read_text(encoding="utf-8"), (
        "run python tools/configurations/configurations_page.py"
    )


def test_the_parts_of_composites_are_accounted_for():
    for model_type, entry in table("model_types")["models"].items():
        for part, inner in entry.get("parts", {}).items():
            assert kind_of(inner) in KINDS, (model_type, part)


def test_an_unknown_model_type_has_no_kind():
    assert kind_of("lama") is None
    assert canonical("gpt-sw3") == "gpt2"


@pytest.mark.parametrize(("config", "said"), [
    ({"model_type": "vit"}, r"'vit' has a learned encoding.* embeddings.position_embeddings \(Lea"),
    ({"model_type": "resnet"}, r"'resnet' encodes no positions: a network of convolutions"),
    ({"model_type": "hubert"}, r"positions come from a convolution over its tokens"),
    ({"model_type": "clip"}, r"pass part=, one of 'text_config' \(clip_text_model\), 'vision_conf"),
    ({"model_type": "clip", "text_config": {"model_type": "clip_text_model"}}, r"pass part=, one"),
    ({"model_type": "wav2vec2"}, r"checkpoint: encoder.pos_conv_embed. Give them to ConvPositions"),
    ({"architecture": "twins_svt_small"}, r"PosConv.* give them to ConvPositions"),
    ({"model_type": "bart"}, r"encoder.embed_positions.weight .*preset\('bart', weight="),
    ({"model_type": "gpt2"}, r"it is wpe.weight of the checkpoint.*preset\('gpt-2', weight="),
    ({"model_type": "umt5"}, r"relative_attention_bias.weight .*each layer"),
    ({"model_type": "t5", "architectures": ["Chronos2Model"], "rope_theta": 1e4},
     r"chronos-forecasting, not T5: .*rotate as RoPE\(d_kv, layout='half', base=rope_theta\)"),
    ({"model_type": "boltz"}, r"not supported: .*ResidueBias"),
    ({"model_type": "kimi_k3"}, r"not supported: its code is not in transformers"),
    ({"model_type": "perceiver"}, r"no encoding that the configuration determines: its prepro"),
    ({"model_type": "timesfm", "hidden_size": 8}, r"use_positional_embedding must be True"),
    ({"model_type": "detr", "d_model": 8, "position_embedding_type": "learned"},
     r"position_embedding_type must be 'sine' for a table of sines, got 'learned'"),
    ({"model_type": "marian"}, r"d_model or hidden_size is missing"),
    ({"model_type": "marian", "d_model": 8, "rope_theta": 1e4},
     r"rope_theta \(= 10000.0\) is not read"),
])  # fmt: skip
def test_reasons(config, said):
    with pytest.raises(ValueError, match=said):
        from_config(config)


def test_parts_of_composites_are_read():
    with pytest.raises(ValueError, match="'clip_vision_model' has a learned encoding"):
        from_config({"model_type": "clip"}, part="vision")
    kosmos = {"model_type": "kosmos-2", "text_config": {"embed_dim": 8, "pad_token_id": 0}}
    kosmos["text_config"]["model_type"] = "kosmos_2_text_model"
    assert from_config(kosmos).only.offset == 1


# The default configurations that are refused though their model type is read, with the reason.
ROTATED = r"rotated channels must be an even number"
SECTIONS = r"mrope_section must add up|needs 'mrope_section'"
PARTS = r"has several parts: pass part="
DEFAULTS = {
    **dict.fromkeys(("glm4_moe", "glm4v_moe", "glm4v_moe_text", "qwen3_omni_moe", "esmfold2",
                     "qwen3_omni_moe_text", "qwen3_omni_moe_thinker"), ROTATED),
    **dict.fromkeys(("glm46v", "glm4v", "glm4v_text", "glm_image", "glm_image_text", "glmga",
                     "hunyuan_vl", "hunyuan_vl_text"), SECTIONS),
    **dict.fromkeys(("blt", "dia", "nemotron3_5_transcribe_audio", "sam3_video", "t5gemma",
                     "t5gemma2"), PARTS),
    **dict.fromkeys(("seamless_m4t", "wav2vec2-bert", "wav2vec2-conformer", "esm"),
                    r"position_embeddings?_type is .* means a rotary one"),
    **dict.fromkeys(("sam3", "sam3_lite_text"), r"has a learned encoding"),
    **dict.fromkeys(("glm5_next", "inkling2"), r"is not supported: "),
    "granitemoehybrid": "none of its layers has attention",
    "musicflamingo": "outside text_config",
    "timesfm": "use_positional_embedding must be True",
    "timm_wrapper": "timm.s resnet50: it encodes no positions: ",
}  # fmt: skip
#: Composites whose default part is read.
READ = {"kosmos-2", "kosmos-2.5", "tipsv2", "videoprism"}
#: Composites of which transformers makes no default configuration.
NO_DEFAULT = {"gemma4_assistant", "nougat"}


@pytest.mark.nightly
@pytest.mark.parametrize("name", CONFIG_MAPPING_NAMES)
def test_default_configurations_are_read_or_refused_as_their_kind_says(name):
    data = {"model_type": name} if name in NO_DEFAULT else CONFIG_MAPPING[name]().to_dict()
    kind = kind_of(name)
    if name in DEFAULTS or (kind != "encoding" and name not in READ):
        learned = table("other_models")["models"].get(canonical(name), {}).get("kind")
        said = (
            DEFAULTS.get(name)
            or {
                "learned": "a learned encoding|but a learned" if learned else "a learned encoding",
                "convolution": "a convolution over its tokens",
                "none": "encodes no positions: ",
                "parts": "is made of other models: pass part=, one of ",
                "code": "is not supported: |that the configuration determines: ",
            }[kind]
        )
        with pytest.raises(ValueError, match=said):
            from_config(data)
    else:
        assert from_config(data).encodings


@pytest.mark.nightly
def test_the_table_is_what_the_installed_models_say():
    module = tool("configurations/config_kinds")
    assert module.text() == module.TARGET.read_text(encoding="utf-8"), (
        "run python tools/configurations/config_kinds.py"
    )


# For each model type: its class, entries of a small configuration, the tensor with its table, and
# the row of position 0 where the padding is row 3.
BUILT = {
    "marian": ("MarianModel", {"d_model": 8}, "encoder.embed_positions.weight", 0),
    "pegasus": ("PegasusModel", {"d_model": 8}, "decoder.embed_positions.weight", 0),
    "informer": ("InformerModel", {"d_model": 8, "prediction_length": 4},
                 "encoder.embed_positions.weight", 0),
    "autoformer": ("AutoformerModel", {"d_model": 8, "prediction_length": 4},
                   "encoder.embed_positions.weight", 0),
    "time_series_transformer": ("TimeSeriesTransformerModel", {"d_model": 8,
                                "prediction_length": 4}, "encoder.embed_positions.weight", 0),
    "m2m_100": ("M2M100Model", {"d_model": 8}, "encoder.embed_positions.weights", 4),
    "speech_to_text": ("Speech2TextModel", {"d_model": 8, "input_channels": 1,
                       "conv_channels": 4, "max_target_positions": 40},
                       "decoder.embed_positions.weights", 4),
    "nllb-moe": ("NllbMoeModel", {"d_model": 8, "num_experts": 2, "num_sparse_decoder_layers": 0,
                 "num_sparse_encoder_layers": 0}, "encoder.embed_positions.weights", 4),
    "fsmt": ("FSMTModel", {"d_model": 8, "src_vocab_size": 9, "tgt_vocab_size": 9},
             "encoder.embed_positions.weight", 4),
    "xglm": ("XGLMModel", {"d_model": 8, "num_layers": 1, "pad_token_id": 1},
             "embed_positions.weights", 2),
    "ctrl": ("CTRLModel", {"n_embd": 8, "dff": 4}, "pos_encoding", 0),
    "videomae": ("VideoMAEModel", {"hidden_size": 8, "image_size": 32},
                 "embeddings.position_embeddings", 0),
    "qwen3_asr_encoder": ("transformers.models.qwen3_asr.modeling_qwen3_asr.Qwen3ASREncoder",
                          {"d_model": 8, "downsample_hidden_size": 4},
                          "positional_embedding.positional_embedding", 0),
    "musicgen_decoder": ("transformers.models.musicgen.modeling_musicgen.MusicgenModel",
                         {"hidden_size": 8, "num_codebooks": 1},
                         "decoder.embed_positions.weights", 0),
}  # fmt: skip
MODELING = "transformers.models"
BUILT |= {
    "kosmos_2_text_model": (f"{MODELING}.kosmos2.modeling_kosmos2.Kosmos2TextModel",
                            {"embed_dim": 8}, "model.embed_positions.weights", 4),
    "kosmos_2_5_text_model": (f"{MODELING}.kosmos2_5.modeling_kosmos2_5.Kosmos2_5TextModel",
                              {"embed_dim": 8}, "model.embed_positions.weights", 4),
    "musicgen_melody_decoder": (
        f"{MODELING}.musicgen_melody.modeling_musicgen_melody.MusicgenMelodyModel",
        {"hidden_size": 8, "num_codebooks": 1}, "decoder.embed_positions.weights", 0),
    "qwen2_5_omni_audio_encoder": (
        f"{MODELING}.qwen2_5_omni.modeling_qwen2_5_omni.Qwen2_5OmniAudioEncoder", {"d_model": 8},
        "positional_embedding.positional_embedding", 0),
    "qwen3_omni_moe_audio_encoder": (
        f"{MODELING}.qwen3_omni_moe.modeling_qwen3_omni_moe.Qwen3OmniMoeAudioEncoder",
        {"d_model": 8, "downsample_hidden_size": 4},
        "positional_embedding.positional_embedding", 0),
    "tipsv2_text_model": (f"{MODELING}.tipsv2.modeling_tipsv2.Tipsv2TextModel",
                          {"hidden_size": 8}, "embeddings.position_embedding.weights", 0),
    "videoprism_text_model": (f"{MODELING}.videoprism.modeling_videoprism.VideoPrismTextModel",
                              {"hidden_size": 8}, "embeddings.position_embedding", 0),
}  # fmt: skip
BY_DAY = ("marian", "m2m_100", "xglm", "ctrl", "musicgen_decoder")


def built(model_type, name, entries):
    cls = CONFIG_MAPPING[model_type]
    default = cls(**{k: v for k, v in entries.items() if k == "prediction_length"})
    config = cls(**{k: v for k, v in {**SMALL, **entries}.items() if hasattr(default, k)})
    module, _, attribute = name.rpartition(".")
    owner = importlib.import_module(module) if module else transformers
    return getattr(owner, attribute)(config), config


@pytest.mark.parametrize("model_type", [
    pytest.param(name, marks=() if name in BY_DAY else pytest.mark.nightly) for name in BUILT
])  # fmt: skip
def test_tables_of_sines_are_those_of_the_models(model_type):
    name, entries, path, start = BUILT[model_type]
    model, config = built(model_type, name, entries)
    *owner, leaf = path.split(".")
    theirs = getattr(model.get_submodule(".".join(owner)), leaf).detach().reshape(-1, 8)
    theirs = theirs[start:][:20].numpy()
    found = from_config(config.to_dict()).only
    truth = found.truth(np.arange(len(theirs)))
    assert len(theirs) > 3
    assert truth.score(theirs).max() <= BUDGET["float32"]


def test_the_padding_moves_the_table():
    config = {"model_type": "fsmt", "d_model": 8}
    assert from_config({**config, "pad_token_id": 0}).only.offset == 1
    assert from_config(config).only.offset == 2  # the class's default is 1


@pytest.mark.parametrize(("config", "encoding"), [
    ({"model_type": "dab-detr", "hidden_size": 8, "temperature_height": 20,
      "temperature_width": 10}, DETRSine(8, base=20.0, width_base=10.0)),
    ({"model_type": "dab-detr", "hidden_size": 8}, DETRSine(8, base=20.0)),
    ({"model_type": "deformable_detr", "d_model": 8}, DETRSine(8, shift=-0.5)),
    ({"model_type": "rt_detr", "encoder_hidden_dim": 8, "positional_encoding_temperature": 99},
     Sinusoidal2D(8, base=99.0)),
    ({"model_type": "canary_decoder", "hidden_size": 16}, Sinusoidal(16, layout="concat",
                                                                     scale=0.25)),
    ({"model_type": "fun_asr_nano_encoder", "num_mel_bins": 4, "num_stacked_frames": 3},
     Sinusoidal(12, layout="concat", denominator="half-1", offset=1)),
])  # fmt: skip
def test_settings_of_the_tables(config, encoding):
    assert from_config(config).only == encoding


def test_messages_name_tensors_that_exist():
    model = transformers.ViTModel(transformers.ViTConfig(num_hidden_layers=1, hidden_size=12))
    with pytest.raises(ValueError, match="learned") as raised:
        from_config({"model_type": "vit"})
    (path,) = re.findall(r"configuration: (\S+) \(Learned\)", str(raised.value))
    assert path in dict(model.named_parameters())
    assert torch.is_tensor(model.state_dict()[path])
