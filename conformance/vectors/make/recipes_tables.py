"""The vectors of sinusoidal and learned tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import DETRSine, Learned, Sinusoidal, Sinusoidal2D
from posenc_ref.conformance.exact.recipe import Group, Recipe, Theme, numbers, whole

PAPER = "Vaswani et al. 2017, Attention Is All You Need, arXiv:1706.03762, section 3.5"
T2T = "tensorflow/tensor2tensor, layers/common_attention.py, get_timing_signal_1d"
FAIRSEQ = "facebookresearch/fairseq, modules/sinusoidal_positional_embedding.py"
DIFFUSION = "Ho et al. 2020, DDPM, arXiv:2006.11239, appendix B; diffusers, get_timestep_embedding"
MUSICGEN = "facebookresearch/audiocraft, modules/transformer.py, create_sin_embedding"
XLM = "facebookresearch/XLM, transformer.py, create_sinusoidal_embeddings"
MOCO = "Chen et al. 2021, MoCo v3, arXiv:2104.02057; its code"
MAE = "He et al. 2021, Masked Autoencoders, arXiv:2111.06377; util/pos_embed.py"
DIT = "Peebles, Xie 2022, DiT, arXiv:2212.09748; diffusers, get_2d_sincos_pos_embed"
OMDET = "transformers, modeling_omdet_turbo.py, build_2d_sincos_position_embedding"
DETR = "Carion et al. 2020, DETR, arXiv:2005.12872; models/position_encoding.py"
DEFORMABLE = "Zhu et al. 2020, Deformable DETR, arXiv:2010.04159; models/position_encoding.py"
BERT = "Devlin et al. 2018, BERT, arXiv:1810.04805, section 3, learned position embeddings"
OPT = "Zhang et al. 2022, OPT, arXiv:2205.01068; transformers, OPTLearnedPositionalEmbedding"
ROBERTA = "facebookresearch/fairseq, utils.py, make_positions"


def sinusoidal() -> Theme:
    """The paper's table and its variants."""
    concat: dict[str, Any] = {"layout": "concat"}
    shifted: dict[str, Any] = {"layout": "concat", "denominator": "half-1"}
    plain = Sinusoidal(64)
    brief: dict[str, tuple[Sinusoidal, str]] = {
        "sinusoidal-128": (Sinusoidal(128), PAPER),
        "sinusoidal-64-offset-2": (Sinusoidal(64, offset=2), PAPER),
        "sinusoidal-65-extra-sin": (Sinusoidal(65, odd="extra-sin"), XLM),
        "sinusoidal-128-concat": (Sinusoidal(128, **concat), T2T),
        "sinusoidal-64-concat-scaled": (Sinusoidal(64, scale=0.125, **concat), T2T),
        "sinusoidal-64-concat-base-20": (Sinusoidal(64, base=20.0, **concat), T2T),
        "sinusoidal-64-concat-cos-first": (Sinusoidal(64, first="cos", **concat), MUSICGEN),
        "sinusoidal-33-zero-pad": (Sinusoidal(33, odd="zero-pad", **shifted), FAIRSEQ),
        "sinusoidal-100-half-1": (Sinusoidal(100, **shifted), T2T),
        "sinusoidal-64-half-1-offset-1": (Sinusoidal(64, offset=1, **shifted), FAIRSEQ),
        "sinusoidal-64-timesteps": (
            Sinusoidal(64, first="cos", position_scale=1000.0, **concat), DIFFUSION,
        ),
        "sinusoidal-64-denominator-30": (
            Sinusoidal(64, denominator=30.0, offset=3, position_scale=0.25, scale=2.0), DIFFUSION,
        ),
    }  # fmt: skip
    x = numbers("sinusoidal-16-add", 2, 3, 16)
    groups = (
        _full("sinusoidal-64", plain, PAPER),
        _brief("sinusoidal-64-concat", Sinusoidal(64, **concat), T2T),
        _brief("sinusoidal-64-half-1", Sinusoidal(64, **shifted), T2T),
        *(_brief(name, table, spec) for name, (table, spec) in brief.items()),
        Group(
            "sinusoidal-16-add", "add", Sinusoidal(16), PAPER,
            (Recipe("first", "Two rows of three tokens.", {"x": x}),),
        ),
    )  # fmt: skip
    return Theme("sinusoidal", "Sinusoidal tables", groups)


def _case(name: str, comment: str, *positions: float) -> Recipe:
    whole_numbers = all(float(p).is_integer() for p in positions)
    kind = np.int64 if whole_numbers else np.float64
    return Recipe(name, comment, {"positions": np.array(positions, dtype=kind)})


def _full(ident: str, table: Sinusoidal, spec: str) -> Group:
    cases = (
        _case("first", "The first four positions.", 0, 1, 2, 3),
        _case("scattered", "Unsorted, one of them twice.", 37, 5, 37),
        _case("far", "Past 256, 512, 5000 and 65536.", 257, 513, 5003, 65537),
        _case("past-million", "Next to 530762 quarter turns, and past 2**20.", 833719, 2**20 + 1),
        _case("negative", "Left of the origin.", -1, -64),
        _case("fractional", "Between tokens.", 0.5, 33.75),
    )  # fmt: skip
    return Group(ident, "table", table, spec, cases)


def _brief(ident: str, table: Sinusoidal, spec: str) -> Group:
    cases = (
        _case("first", "The first two positions.", 0, 1),
        _case("scattered", "Unsorted, past 256 and 5000.", 5003, 259),
    )
    return Group(ident, "table", table, spec, cases)


def grids() -> Theme:
    """The tables of whole images, in the order of their tokens."""
    tables: dict[str, tuple[Any, str]] = {
        "sinusoidal-32-grid": (Sinusoidal(32), PAPER),
        "sinusoidal2d-32-grid": (Sinusoidal2D(32), MOCO),
        "sinusoidal2d-32-wh-grid": (Sinusoidal2D(32, axis_order="wh"), MAE),
        "sinusoidal2d-32-extent-16-grid": (Sinusoidal2D(32, extent=16.0), DIT),
        "sinusoidal2d-8-columns-grid": (Sinusoidal2D(8, flatten="columns"), OMDET),
        "detr-32-grid": (DETRSine(32), DETR),
        "detr-32-base-20-grid": (DETRSine(32, base=20.0), DETR),
        "detr-8-counted-grid": (DETRSine(8, normalize=False), DETR),
        "detr-8-shifted-grid": (DETRSine(8, shift=-0.5, scale=1.0, eps=0.125), DEFORMABLE),
    }
    case = Recipe("2-by-3", "Two rows of three patches.", {"height": 2, "width": 3})
    groups = tuple(
        Group(name, "grid", table, spec, (case,)) for name, (table, spec) in tables.items()
    )
    return Theme("grids", "Tables of images", groups)


def learned() -> Theme:
    """Lookups, which are bit-equal."""
    weight = numbers("learned-weight", 12, 8)
    plain, opt = Learned(weight), Learned(weight, offset=2)
    roberta = Learned(weight, offset=2, padding_idx=1)
    bart = Learned(np.zeros((40, 4), np.float32), padding_idx=1)  # ids do not see the rows
    tokens = whole([5, 6, 7, 8, 1, 1], [1, 1, 9, 5, 5, 6], [5, 1, 6, 1, 7, 8])
    cases = (
        _case("first", "The first three positions.", 0, 1, 2),
        _case("scattered", "Unsorted, one of them twice, and the last row.", 5, 9, 5, 11),
    )
    shifted = (
        _case("first", "The first three positions.", 0, 1, 2),
        _case("scattered", "Unsorted, and the last row.", 5, 9, 4),
    )
    groups = (
        Group("learned-12", "table", plain, BERT, cases),
        Group("learned-12-offset-2", "table", opt, OPT, shifted),
        Group(
            "learned-40-tokens", "ids_from_tokens", bart, ROBERTA,
            (Recipe("padded", "Padding last, first and between.", {"input_ids": tokens}),),
        ),
        Group(
            "learned-12-tokens", "ids_from_tokens", roberta, ROBERTA,
            (Recipe("padded", "Padding last, first and between.", {"input_ids": tokens}),),
        ),
    )  # fmt: skip
    return Theme("learned", "Learned tables", groups)
