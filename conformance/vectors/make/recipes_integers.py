"""Recipes for channel layouts and position ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.conformance.exact.recipe import Group, Recipe, Theme, numbers, whole

LAYOUT = "transformers, models/llama/convert_llama_weights_to_hf.py, permute, the other way round"
MASK = "transformers 5.23, generation/utils.py: attention_mask.cumsum(-1) - 1"
PACKED = "NVIDIA Transformer Engine, format thd; flash-attention, cu_seqlens of varlen"
DECODE = "vLLM: positions are the number of computed tokens of each request"
MROPE = "Wang et al. 2024, Qwen2-VL, arXiv:2409.12191, section 2.1; vLLM, get_rope_index"
GRID = "transformers, modeling_qwen2_vl.py, rot_pos_emb (blocks of merged patches)"
MEGATRON = "NVIDIA Megatron-LM, get_batch_on_this_cp_rank; TE, thd_get_partitioned_indices"


def layouts() -> Theme:
    """Return the vectors of layout changes of tensors and projection weights."""

    def convert(source: str, target: str, head_dim: int, rotary_dim: int) -> Group:
        ident = f"convert-{head_dim}-{source}-{target}-{rotary_dim}"
        layouts = {"source": source, "target": target, "rotary_dim": rotary_dim}
        case = Recipe("rows", "Two vectors.", {"x": numbers(ident, 2, head_dim), **layouts})
        return Group(ident, "convert_layout", None, LAYOUT, (case,))

    def permute(heads: int, head_dim: int) -> Group:
        ident = f"permute-{heads}-heads-of-{head_dim}"
        inputs = {"w": numbers(ident, heads * head_dim, 3), "n_heads": heads}
        case = Recipe("weights", "The weight of a projection of 3 input features.", inputs)
        return Group(ident, "permute_weights", None, LAYOUT, (case,))

    groups = (
        convert("half", "interleaved", 16, 16),
        convert("interleaved", "half", 16, 16),
        convert("half", "interleaved", 16, 12),
        convert("interleaved", "half", 16, 12),
        permute(1, 12),
        permute(3, 8),
    )
    return Theme("layouts", "Channels moved between layouts", groups)


def position_ids() -> Theme:
    """Return the vectors of padding, packing, decoding, context-parallel shards and images."""

    def group(ident: str, surface: str, spec: str, **cases: tuple[str, dict[str, Any]]) -> Group:
        made = tuple(Recipe(name.replace("_", "-"), *case) for name, case in cases.items())
        return Group(ident, surface, None, spec, made)

    right, left = [1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]
    none = np.zeros((0, 3), np.int64)
    prompts, bounds = whole(7, 1, 1021), whole(0, 16, 24, 56)

    def shard(size: int, rank: int) -> dict[str, Any]:
        return {"cu_seqlens": bounds, "cp_size": size, "cp_rank": rank}

    groups = (
        group(
            "position-ids", "position_ids", MASK,
            left=("Padding on the left.", {"attention_mask": whole(left, [1] * 6)}),
            right=("Padding on the right.", {"attention_mask": whole(right, [1] * 6)}),
            between=("Padding between tokens.", {"attention_mask": whole([1, 0, 1, 1, 0, 1])}),
        ),
        group(
            "packed", "packed", PACKED,
            three=("Documents of 5, 1 and 7 tokens.", {"lengths": whole(5, 1, 7)}),
            empty=("One of the documents is empty.", {"lengths": whole(3, 0, 2)}),
        ),
        group(
            "decode-positions", "decode_positions", DECODE,
            one=("A prompt of 7 tokens.", {"prompt_len": 7, "n_steps": 3}),
            rows=("Prompts of 7, 1 and 1021 tokens.", {"prompt_len": prompts, "n_steps": 4}),
        ),
        group(
            "shard-positions", "shard_positions", MEGATRON,
            first_of_2=("The first of two ranks.", shard(2, 0)),
            last_of_2=("The last of two ranks.", shard(2, 1)),
            third_of_4=("The third of four ranks.", shard(4, 2)),
        ),
        group(
            "mrope-positions", "mrope_positions", MROPE,
            picture=("Text, a picture of 4 x 6 patches, text.", {
                "token_types": whole([0, 0] + [1] * 6 + [0, 0]),
                "image_grids": whole([1, 4, 6]), "video_grids": none,
            }),
            video=("The batch: a long video of small frames, and a picture.", {
                "token_types": whole([0] + [2] * 8 + [0], [1] * 8 + [0, 0]),
                "image_grids": whole([1, 8, 4]), "video_grids": whole([4, 2, 4]),
            }),
        ),
        group(
            "grid-positions", "grid_positions", GRID,
            plain=("Not a square.", {"height": 3, "width": 5, "merge_size": 1}),
            merged=("Blocks of 2 x 2 patches.", {"height": 4, "width": 6, "merge_size": 2}),
        ),
    )  # fmt: skip
    return Theme("position-ids", "Positions of text tokens", groups)
