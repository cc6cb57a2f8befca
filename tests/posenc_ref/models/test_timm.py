"""Configurations of timm, against its own rotary modules where timm is installed."""

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE, from_config
from posenc_ref.accuracy import BUDGET
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.models.config_facts import table
from posenc_ref.models.other.kinds import KINDS

ROOT = Path(__file__).resolve().parents[3]
NEEDED = "timm, which needs torchvision, is what is compared with"


def axial(dim, **fields):
    return MultiAxisRoPE(dim, sections=(dim // 4,) * 2, spacing="restart",
                         **{"layout": "interleaved", **fields})  # fmt: skip


@pytest.mark.parametrize(("config", "encoding", "axes"), [
    ({"architecture": "eva02_base_patch14_448"}, axial(64, position_scale=0.5), "(row, column)"),
    ({"architecture": "eva02_base_patch14_448", "model_args": {"img_size": 224}}, axial(64),
     "(row, column)"),
    ({"architecture": "eva02_base_patch14_448.mim_in22k_ft_in1k", "num_classes": 1000},
     axial(64, position_scale=0.5), "(row, column)"),
    ({"architecture": "vit_base_patch16_dinov3", "model_args": {"drop_path_rate": 0.1}},
     axial(64, layout="half", base=100.0, position_scale=2 * math.pi), "in [-1, 1]"),
    ({"architecture": "vit_pe_core_base_patch16_224"}, axial(64, offset=1.0), "(column, row)"),
    ({"architecture": "vit_small_patch16_rope_ape_224"}, axial(64, base=100.0), "(column, row)"),
    ({"architecture": "vit_small_patch16_rope_224", "model_args": {"rope_temperature": 10.0}},
     axial(64, base=10.0), "(column, row)"),
])  # fmt: skip
def test_rotations(config, encoding, axes):
    found = from_config(config)
    assert found.only == encoding
    assert axes in found.provenance["axes"]


def test_a_learned_table_beside_the_rotation_is_named():
    found = from_config({"architecture": "eva02_tiny_patch14_224"})
    assert "pos_embed" in found.provenance["table"]
    assert "table" not in from_config({"architecture": "vit_small_patch16_dinov3"}).provenance


@pytest.mark.parametrize(("config", "said"), [
    ({"architecture": "vit_base_patch16_224"}, "timm's vit_base_patch16_224: .*pos_embed; Learned"),
    ({"architecture": "swin_tiny_patch4_window7_224.ms_in1k"}, "SwinBias takes them"),
    ({"architecture": "resnet50"}, "encodes no positions"),
    ({"architecture": "twins_svt_small"}, "depthwise convolution of 3 x 3"),
    ({"architecture": "vit_base_patch16_rope_mixed_224"}, "give those of a head to MixedRoPE"),
    ({"architecture": "eva_giant_patch14_224"}, "learned table of the checkpoint, pos_embed"),
    ({"architecture": "vit_base_patch16_dinov4"}, "did you mean 'vit_base_patch16_dinov3"),
    ({"architecture": "vit_base_patch16_dinov3", "model_args": {"rope_type": "mixed"}},
     r"rope_type \(= 'mixed'\) of model_args may change positions"),
    ({"architecture": "vit_base_patch16_dinov3", "model_args": {"rope_grid_offset": 1.0}},
     "rope_grid_offset must be 0"),
    ({"architecture": "eva02_base_patch14_448", "model_args": {"ref_feat_shape": [8, 8]}},
     "ref_feat_shape .* may change positions"),
    ({"architecture": "eva02_base_patch14_448", "model_args": {"img_size": [224, 448]}},
     "must be square"),
    ({"architecture": "eva02_base_patch14_448", "model_args": {"img_size": [[1]]}},
     "img_size must be an integer"),
    ({"architecture": "eva02_base_patch14_448", "model_args": {"img_size": 7}}, "at least 14"),
    ({"architecture": "eva02_base_patch14_448", "model_args": []}, "model_args must be a mapping"),
    ({"architecture": "eva02_base_patch14_448", "model_args": {"rope_grid_indexing": "yx"}},
     "rope_grid_indexing must be"),
])  # fmt: skip
def test_refused(config, said):
    with pytest.raises(ValueError, match=said):
        from_config(config)


def test_every_family_has_a_kind():
    families = table("timm_models")["families"]
    assert {v["kind"] for v in families.values()} <= set(KINDS)
    names = [n for v in families.values() for n in v["models"]]
    assert len(names) == len(set(names)) > 1300
    assert set(table("timm_models")["rope"]) < set(names)


BUILT = {
    "eva02_tiny_patch14_336": 24,
    "vit_small_patch16_dinov3": 16,
    "vit_pe_core_tiny_patch16_384": 24,
    "vit_small_patch16_rope_224": 14,
    "eva02_base_patch16_clip_224": 14,
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", BUILT)
def test_rotations_are_those_of_timm(name):
    timm = pytest.importorskip("timm", reason=NEEDED)
    torch = pytest.importorskip("torch", reason=NEEDED)
    side = BUILT[name]
    model = timm.create_model(name, depth=1).eval()
    emb = model.rope.get_embed([side, side])
    found = from_config({"architecture": name})
    x = torch.randn(1, 1, side * side, 64, generator=torch.Generator().manual_seed(1))
    half = model.blocks[0].attn.rotate_half
    turned = timm.layers.apply_rot_embed_cat(x, emb, half=half)
    rows, columns = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    at = np.stack([rows.ravel(), columns.ravel()]).astype(float)
    if "column, row" in found.provenance["axes"]:
        at = at[::-1].copy()
    if "[-1, 1]" in found.provenance["axes"]:
        at = (2 * at + 1) / side - 1
    truth = apply_truth(found.only, x.numpy(), at[:, None])
    assert truth.score(turned.detach().numpy()).max() <= BUDGET["float32"]


@pytest.mark.nightly
def test_the_file_is_what_timm_says():
    pytest.importorskip("timm", reason=NEEDED)
    spec = importlib.util.spec_from_file_location(
        "t", ROOT / "tools" / "configurations" / "timm_models.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.text() == module.TARGET.read_text(encoding="utf-8"), (
        "run python tools/configurations/timm_models.py"
    )


def test_a_folder_is_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "vit_small_patch16_dinov3"}))
    assert from_config(tmp_path).only.head_dim == 64
