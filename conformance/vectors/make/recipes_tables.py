"""Recipes for sinusoidal and learned tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import DETRSine, Learned, Sinusoidal, Sinusoidal2D
from posenc_ref.conformance.exact.recipe import Group, Recipe, Theme, numbers, whole
from posenc_ref.conformance.exact.reference import at

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
    """Return the vectors of the sinusoidal table and its variants."""

    def brief(ident: str, spec: str, dim: int, **fields: Any) -> Group:
        cases = (
            at("first", "The first two positions.", 0, 1),
            at("scattered", "Unsorted positions beyond 256 and 5000.", 5003, 259),
        )
        return Group(ident, "table", Sinusoidal(dim, **fields), spec, cases)

    concat: dict[str, Any] = {"layout": "concat"}
    shifted: dict[str, Any] = {"layout": "concat", "denominator": "half-1"}
    whole_table = (
        at("first", "The first four positions.", 0, 1, 2, 3),
        at("scattered", "Unsorted positions, one of them twice.", 37, 5, 37),
        at("far", "Positions beyond 256, 512, 5000 and 65536.", 257, 513, 5003, 65537),
        at("past-million", "Far positions; 833719 is near 530762 * pi/2.", 833719, 2**20 + 1),
        at("negative", "Negative positions.", -1, -64),
        at("fractional", "Fractional positions.", 0.5, 33.75),
    )
    added = {"x": numbers("sinusoidal-16-add", 2, 3, 16)}
    groups = (
        Group("sinusoidal-64", "table", Sinusoidal(64), PAPER, whole_table),
        brief("sinusoidal-64-concat", T2T, 64, **concat),
        brief("sinusoidal-64-half-1", T2T, 64, **shifted),
        brief("sinusoidal-128", PAPER, 128),
        brief("sinusoidal-64-offset-2", PAPER, 64, offset=2),
        brief("sinusoidal-65-extra-sin", XLM, 65, odd="extra-sin"),
        brief("sinusoidal-128-concat", T2T, 128, **concat),
        brief("sinusoidal-64-concat-scaled", T2T, 64, scale=0.125, **concat),
        brief("sinusoidal-64-concat-base-20", T2T, 64, base=20.0, **concat),
        brief("sinusoidal-64-concat-cos-first", MUSICGEN, 64, first="cos", **concat),
        brief("sinusoidal-33-zero-pad", FAIRSEQ, 33, odd="zero-pad", **shifted),
        brief("sinusoidal-100-half-1", T2T, 100, **shifted),
        brief("sinusoidal-64-half-1-offset-1", FAIRSEQ, 64, offset=1, **shifted),
        brief(
            "sinusoidal-64-timesteps", DIFFUSION, 64,
            first="cos", position_scale=1000.0, **concat,
        ),
        brief(
            "sinusoidal-64-denominator-30", DIFFUSION, 64,
            denominator=30.0, offset=3, position_scale=0.25, scale=2.0,
        ),
        Group(
            "sinusoidal-16-add", "add", Sinusoidal(16), PAPER,
            (Recipe("first", "Two rows of three tokens.", added),),
        ),
    )  # fmt: skip
    return Theme("sinusoidal", "Sinusoidal tables", groups)


def grids() -> Theme:
    """Return the vectors of tables of whole images, in the order of their tokens."""

    def group(ident: str, table: Any, spec: str) -> Group:
        case = Recipe("2-by-3", "Two rows of three patches.", {"height": 2, "width": 3})
        return Group(ident, "grid", table, spec, (case,))

    deformable = DETRSine(8, shift=-0.5, scale=1.0, eps=0.125)
    groups = (
        group("sinusoidal-32-grid", Sinusoidal(32), PAPER),
        group("sinusoidal2d-32-grid", Sinusoidal2D(32), MOCO),
        group("sinusoidal2d-32-wh-grid", Sinusoidal2D(32, axis_order="wh"), MAE),
        group("sinusoidal2d-32-extent-16-grid", Sinusoidal2D(32, extent=16.0), DIT),
        group("sinusoidal2d-8-columns-grid", Sinusoidal2D(8, flatten="columns"), OMDET),
        group("detr-32-grid", DETRSine(32), DETR),
        group("detr-32-base-20-grid", DETRSine(32, base=20.0), DETR),
        group("detr-8-counted-grid", DETRSine(8, normalize=False), DETR),
        group("detr-8-shifted-grid", deformable, DEFORMABLE),
    )
    return Theme("grids", "Tables of images", groups)


def learned() -> Theme:
    """Return the vectors of learned tables; rows in results must be bit-equal to the table's."""
    weight = numbers("learned-weight", 12, 8)
    bart = Learned(np.zeros((40, 4), np.float32), padding_idx=1)  # ids ignore the rows
    roberta = Learned(weight, offset=2, padding_idx=1)
    tokens = whole([5, 6, 7, 8, 1, 1], [1, 1, 9, 5, 5, 6], [5, 1, 6, 1, 7, 8])
    first = at("first", "The first three positions.", 0, 1, 2)
    comment = "Unsorted positions; one occurs twice, and one reads the last row of the table."
    twice = at("scattered", comment, 5, 9, 5, 11)
    shifted = at("scattered", "Unsorted positions; one reads the last row of the table.", 5, 9, 4)
    padded = Recipe("padded", "Padding last, first and between tokens.", {"input_ids": tokens})
    groups = (
        Group("learned-12", "table", Learned(weight), BERT, (first, twice)),
        Group("learned-12-offset-2", "table", Learned(weight, offset=2), OPT, (first, shifted)),
        Group("learned-40-tokens", "ids_from_tokens", bart, ROBERTA, (padded,)),
        Group("learned-12-tokens", "ids_from_tokens", roberta, ROBERTA, (padded,)),
    )
    return Theme("learned", "Learned tables", groups)
