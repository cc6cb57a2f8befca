"""The vectors of encodings with several position axes, of RoPE-Mixed and of xPos."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import MixedRoPE, MultiAxisRoPE, XPos, YaRN
from posenc_ref.conformance.exact.recipe import Group, Recipe, Theme, numbers, rotated, whole
from posenc_ref.conformance.exact.reference import FAR, PICTURE, rotations

from .recipes_biases import logits_of

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
XPOS = "Sun et al. 2022, xPos, arXiv:2212.10554, section 3.2, equation (12) and algorithm 1"


def _group(ident: str, encoding: Any, spec: str) -> Group:
    return Group(ident, "apply", encoding, spec, tuple(rotations(encoding, ident)))


def _rows(group: Group) -> Group:
    """The group with a batch of two rows besides."""
    e: Any = group.encoding
    positions = np.stack([whole(*at[: e.num_axes])[:, :1] for at in (FAR, PICTURE)], axis=1)
    case = rotated(
        group.id, "rows", "Two rows at positions of their own.", e.head_dim, positions, 2
    )
    return replace(group, cases=(*group.cases, case))


def _only(group: Group, *names: str) -> Group:
    """The group with some of its cases."""
    return replace(group, cases=tuple(case for case in group.cases if case.name in names))


def streams() -> Theme:
    """M-RoPE: text, pictures and videos in one sequence."""
    two = MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6)
    three = MultiAxisRoPE(
        128, sections=(24, 20, 20), layout="half", arrangement="interleaved", base=5e6
    )
    ernie = MultiAxisRoPE(
        128,
        sections=(20, 22, 22),
        layout="interleaved",
        arrangement=(1, 2) * 22 + (0,) * 20,
        base=5e5,
    )
    glm = MultiAxisRoPE(128, sections=(8, 12, 12), layout="interleaved")
    scaled = two.replace(scaling=YaRN(4.0, 32768))
    groups = (
        _rows(_group("mrope-128-chunked", two, MROPE)),
        _rows(_group("mrope-128-interleaved", three, QWEN3)),
        _only(_group("mrope-128-per-pair", ernie, ERNIE), "picture", "far"),
        _only(_group("mrope-128-partial", glm, MROPE), "picture", "far"),
        _only(_group("mrope-128-chunked-yarn", scaled, MROPE), "picture"),
        Group(
            "mrope-128-chunked-frequencies", "frequencies", two, MROPE,
            (Recipe("all", "Every pair.", {}),),
        ),
    )  # fmt: skip
    return Theme("axes-mrope", "Multi-axis RoPE of language models: M-RoPE", groups)


def grids() -> Theme:
    """Vision towers, image and video models."""
    sections = (16, 16)
    spaced = {"layout": "half", "spacing": "restart"}
    encodings: dict[str, tuple[MultiAxisRoPE, str]] = {
        "axial-80-restart": (MultiAxisRoPE(80, sections=(20, 20), **spaced), AXIAL),  # type: ignore[arg-type]
        "axial-72-alternating": (
            MultiAxisRoPE(72, sections=(18, 18), arrangement=(0, 1) * 18, **spaced),  # type: ignore[arg-type]
            AXIAL,
        ),
        "axial-88-from-one": (
            MultiAxisRoPE(
                88, sections=(22, 22), layout="interleaved", spacing="restart", offset=1.0
            ),
            LLAMA4,
        ),
        "axial-64-strided": (
            MultiAxisRoPE(64, sections=sections, layout="half", spacing="strided"),
            PIXTRAL,
        ),
        "axial-64-blockwise": (
            MultiAxisRoPE(64, sections=sections, layout="blockwise", spacing="restart", base=100.0),
            GEMMA,
        ),
        "axial-96-scaled-positions": (
            MultiAxisRoPE(
                96,
                sections=(16, 16, 16),
                layout="blockwise",
                spacing="restart",
                position_scale=(1.0, 0.5, 0.5),
            ),
            DINO,
        ),
        "axial-16-two-bases": (
            MultiAxisRoPE(16, sections=(4, 4), base=(100.0, 10000.0), **spaced),  # type: ignore[arg-type]
            AXIAL,
        ),
    }
    groups = [_group(name, encoding, spec) for name, (encoding, spec) in encodings.items()]
    wan = MultiAxisRoPE(128, sections=(22, 21, 21), layout="interleaved", spacing="restart")
    flux = MultiAxisRoPE(128, sections=(8, 28, 28), layout="interleaved", spacing="restart")
    groups.append(_only(_group("axial-128-restart", flux, FLUX), "picture", "far"))
    groups.append(_only(_group("axial-128-restart-remainder", wan, WAN), "picture"))
    title = "Multi-axis RoPE of vision towers, image and video models"
    return Theme("axes-grids", title, tuple(groups))


def mixed() -> Theme:
    """RoPE-Mixed and xPos."""
    weight = np.stack([numbers("rope-mixed-x", 8), numbers("rope-mixed-y", 8)]).astype(np.float64)
    turned = MixedRoPE(16, weight / 4, layout="interleaved")
    groups = [_group("rope-mixed-16", turned, MIXED)]
    for layout in ("interleaved", "half"):
        xpos = XPos(16, layout=layout)
        for kind in ("queries", "keys"):
            ident = f"xpos-16-{layout}-{kind}"
            cases = tuple(
                rotated(ident, name, comment, 16, whole(*p))
                for name, comment, p in (
                    ("first", "The first four positions.", (0, 1, 2, 3)),
                    ("far", "Where the decay is strong.", (511, 1024, 3071)),
                )
            )
            groups.append(Group(ident, f"apply_{kind}", xpos, XPOS, cases))
    centred = XPos(16, layout="half", base=500000.0, scale_base=64.0, gamma=0.25, centre=10.0)
    says = "Logits of five tokens and two heads."
    groups += [
        logits_of("xpos-16-interleaved-scores", XPos(16, layout="interleaved"), XPOS, says),
        logits_of("xpos-16-half-centred-scores", centred, XPOS, says),
    ]
    return Theme("mixed-xpos", "RoPE-Mixed, and xPos with its decay", tuple(groups))
