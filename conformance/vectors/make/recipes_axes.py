"""Recipes for encodings with several position axes, RoPE-Mixed and xPos."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import MixedRoPE, MultiAxisRoPE, RIFLEx, XPos, YaRN
from posenc_ref.conformance.exact.recipe import Group, Theme, numbers, rotated, whole
from posenc_ref.conformance.exact.reference import FAR, PICTURE
from posenc_ref.conformance.registry.rotary import until_the_decay

from .recipes_biases import logits_of
from .recipes_rope import brief, frequencies_of

MROPE = "Wang et al. 2024, Qwen2-VL, arXiv:2409.12191, section 2.1; transformers, qwen2_vl"
QWEN3 = "Bai et al. 2025, Qwen3-VL, arXiv:2511.21631, section 2; transformers, qwen3_vl"
ERNIE = "transformers, ernie4_5_vl_moe (the axis of every pair)"
FLUX = "black-forest-labs/flux, math.py, rope; EmbedND in layers.py"
WAN = "Wan-Video/Wan2.1, wan/modules/model.py, rope_params and rope_apply"
AXIAL = "Heo et al. 2024, RoPE for Vision Transformer, arXiv:2403.13298, section 3.2 (RoPE-Axial)"
MIXED = "Heo et al. 2024, RoPE for Vision Transformer, arXiv:2403.13298, section 3.3, equation (14)"
PIXTRAL = "Agrawal et al. 2024, Pixtral 12B, arXiv:2410.07073, section 2.1; transformers, pixtral"
LLAMA4 = "meta-llama/llama-models, llama4/vision (one added to the coordinates)"
GEMMA = "transformers, gemma4 vision tower (a half-split block for each axis)"
DINO = "Siméoni et al. 2025, DINOv3, arXiv:2508.10104, section 3; rope_position_encoding.py"
LTX = "LTX-Video, arXiv:2501.00103, section 2.2; diffusers, LTXVideoRotaryPosEmbed"
RIFLEX = "Zhao et al. 2025, RIFLEx, arXiv:2502.15894, equation (8); thu-ml/RIFLEx"
XPOS = "Sun et al. 2022, xPos, arXiv:2212.10554, section 3.2, equation (12) and algorithm 1"


def _rows(group: Group) -> Group:
    """Return the group with another case, a batch of two rows."""
    e: Any = group.encoding
    positions = np.stack([whole(*at[: e.num_axes])[:, :1] for at in (FAR, PICTURE)], axis=1)
    case = rotated(
        group.id, "rows", "Two rows at positions of their own.", e.head_dim, positions, 2
    )
    return replace(group, cases=(*group.cases, case))


def _only(group: Group, *names: str) -> Group:
    """Return the group with only the named cases."""
    return replace(group, cases=tuple(case for case in group.cases if case.name in names))


def streams() -> Theme:
    """Return the M-RoPE vectors: text, images and videos in one sequence."""
    two = MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6)
    three = MultiAxisRoPE(
        128, sections=(24, 20, 20), layout="half", arrangement="interleaved", base=5e6
    )
    by_pair = (1, 2) * 22 + (0,) * 20
    ernie = MultiAxisRoPE(
        128, sections=(20, 22, 22), layout="interleaved", arrangement=by_pair, base=5e5
    )
    glm = MultiAxisRoPE(128, sections=(8, 12, 12), layout="interleaved")
    scaled = two.replace(scaling=YaRN(4.0, 32768))
    groups = (
        _rows(brief("mrope-128-chunked", two, MROPE)),
        _rows(brief("mrope-128-interleaved", three, QWEN3)),
        _only(brief("mrope-128-per-pair", ernie, ERNIE), "picture", "far"),
        _only(brief("mrope-128-partial", glm, MROPE), "picture", "far"),
        _only(brief("mrope-128-chunked-yarn", scaled, MROPE), "picture"),
        frequencies_of("mrope-128-chunked", two, MROPE),
    )
    return Theme("axes-mrope", "Multi-axis RoPE of language models: M-RoPE", groups)


def _restart(head_dim: int, layout: Any, *sections: int, **fields: Any) -> MultiAxisRoPE:
    """Return an encoding in which every axis starts with the highest frequency."""
    return MultiAxisRoPE(head_dim, sections=sections, layout=layout, spacing="restart", **fields)


def grids() -> Theme:
    """Return the vectors of vision towers, image models and video models."""
    alternating = _restart(72, "half", 18, 18, arrangement=(0, 1) * 18)
    strided = MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="strided")
    dino = _restart(96, "blockwise", 16, 16, 16, position_scale=(1.0, 0.5, 0.5))
    flux = _restart(128, "interleaved", 8, 28, 28)
    wan = _restart(128, "interleaved", 22, 21, 21)
    slow = RIFLEx(2, 66, periods=0.875)
    riflex = _restart(32, "interleaved", 4, 6, 6, base=256.0, scaling=slow, scaled_axes=(0,))
    groups = (
        brief("axial-80-restart", _restart(80, "half", 20, 20), AXIAL),
        brief("axial-72-alternating", alternating, AXIAL),
        brief("axial-88-from-one", _restart(88, "interleaved", 22, 22, offset=1.0), LLAMA4),
        brief("axial-64-strided", strided, PIXTRAL),
        brief("axial-64-blockwise", _restart(64, "blockwise", 16, 16, base=100.0), GEMMA),
        brief("axial-96-scaled-positions", dino, DINO),
        brief("axial-16-two-bases", _restart(16, "half", 4, 4, base=(100.0, 10000.0)), AXIAL),
        _only(brief("axial-128-restart", flux, FLUX), "picture", "far"),
        _only(brief("axial-128-restart-remainder", wan, WAN), "picture"),
        brief("axial-32-riflex", riflex, RIFLEX),
    )
    return Theme("axes-grids", "Multi-axis RoPE of vision towers, image and video models", groups)


def mixed() -> Theme:
    """Return the vectors of RoPE-Mixed and xPos."""
    weight = np.stack([numbers("rope-mixed-x", 8), numbers("rope-mixed-y", 8)]).astype(np.float64)
    groups = [brief("rope-mixed-16", MixedRoPE(16, weight / 4, layout="interleaved"), MIXED)]
    fractional = brief("rope-mixed-fractional", MixedRoPE.fractional(16, base=64.0), LTX)
    groups.append(fractional)
    plain, half = (XPos(16, layout=layout) for layout in ("interleaved", "half"))
    for xpos in (plain, half):
        for kind in ("queries", "keys"):
            ident, cases = f"xpos-16-{xpos.layout}-{kind}", until_the_decay(xpos, kind)
            groups.append(Group(ident, f"apply_{kind}", xpos, XPOS, cases))
    centred = half.replace(base=500000.0, scale_base=64.0, gamma=0.25, centre=10.0)
    says = "Logits of five tokens and two heads."
    groups += [
        logits_of("xpos-16-interleaved-scores", plain, XPOS, says),
        logits_of("xpos-16-half-centred-scores", centred, XPOS, says),
    ]
    return Theme("mixed-xpos", "RoPE-Mixed, and xPos with its decay", tuple(groups))
