"""The surfaces of functions that need no encoding: positions and relative indices."""

from __future__ import annotations

import posenc_ref

from .surface import Surface, plain

_NONE = ("none",)
_IDS = ("position_ids",)

POSITIONS = (
    Surface(
        "relative_index",
        "fn((height, width)) -> (N, N) integers; two are equal if and only if their offsets are",
        plain(posenc_ref.relative_index),
        ("window",),
        _NONE,
        meaning="the index (N, N) of the bias of every pair of N = height * width tokens",
        axes=("query", "key"),
    ),
    Surface(
        "relative_shift",
        "fn(x (Q, K)) -> (Q, K); column c of x holds distance K-1-c, column j of the result "
        "key j; keys after the query are not judged",
        plain(posenc_ref.relative_shift),
        ("x",),
        _NONE,
        outputs=("y",),
        meaning="x (Q, K) has column c for distance K-1-c, y has column j for key j; keys after "
        "the query are not judged",
        axes=("query", "key"),
    ),
    Surface(
        "relative_scores",
        "fn(q (S, d), rel (2S-1, d)) -> (S, S); rel[m] belongs to offset i-j = S-1-m",
        plain(posenc_ref.relative_scores),
        ("q", "rel"),
        _NONE,
        outputs=("y",),
        meaning="q_i . rel[S - 1 - (i - j)] for q (S, d) and rel (2S - 1, d)",
        axes=("query", "key"),
    ),
    Surface(
        "position_ids",
        "fn(attention_mask (B, S)) -> integers; judged where the mask is 1",
        plain(posenc_ref.position_ids),
        ("attention_mask",),
        _NONE,
        outputs=_IDS,
        meaning="positions that count the real tokens of each row (B, S); 0 for padding",
        axes=("batch row", "token"),
    ),
    Surface(
        "packed",
        "fn(lengths) -> integers (sum of lengths,); every document starts at 0",
        plain(posenc_ref.packed),
        ("lengths",),
        _NONE,
        outputs=_IDS,
        meaning="positions in packed documents; each document starts at 0",
        axes=("token",),
    ),
    Surface(
        "decode_positions",
        "fn(prompt_len, n_steps) -> integers (n_steps,), or (B, n_steps)",
        plain(posenc_ref.decode_positions),
        ("prompt_len", "n_steps"),
        _NONE,
        outputs=_IDS,
        meaning="positions of the tokens generated after prompts of prompt_len real tokens",
        axes=("batch row", "token"),
    ),
    Surface(
        "shard_positions",
        "fn(cu_seqlens, cp_size, cp_rank) -> integers: the positions of chunks cp_rank and "
        "2 cp_size - 1 - cp_rank of every sequence",
        plain(posenc_ref.shard_positions),
        ("cu_seqlens", "cp_size", "cp_rank"),
        _NONE,
        outputs=_IDS,
        meaning="positions of the tokens of a context-parallel rank: chunks cp_rank and "
        "2 cp_size - 1 - cp_rank of each sequence",
        axes=("token",),
    ),
    Surface(
        "mrope_positions",
        "fn(token_types, image_grids, video_grids) -> integers (3, B, S)",
        lambda e, dtype: (
            lambda types, images, videos: posenc_ref.mrope_positions(
                types, image_grids=images, video_grids=videos
            )
        ),
        ("token_types", "image_grids", "video_grids"),
        outputs=_IDS,
        meaning="positions (3, B, S) of text (0), image (1) and video (2) tokens; grids (n, 3) "
        "count patches, and 2 x 2 patches are one token",
    ),
    Surface(
        "mrope_position_ids",
        "fn(token_types (B, S), image_grids, video_grids, seconds_per_grid, attention_mask (B, S), "
        "n_steps) -> integers (3, B, S + n_steps): time, height and width of the prompt's tokens "
        "and of n_steps generated ones; judged where the mask is 1",
        lambda e, dtype: e.with_decoding,
        (
            "token_types",
            "image_grids",
            "video_grids",
            "seconds_per_grid",
            "attention_mask",
            "n_steps",
        ),
        ("positions",),
        meaning="positions of text (0), images (1), videos (2) and audio (3), and of the tokens "
        "generated after each row; grids (n, 3) count patches: frames, height, width",
        axes=("axis", "batch row", "token"),
    ),
    Surface(
        "mrope_packed",
        "fn(token_types (S,), image_grids, video_grids, seconds_per_grid, lengths) -> integers "
        "(3, S): time, height and width; every document starts at 0",
        lambda e, dtype: e.packed,
        ("token_types", "image_grids", "video_grids", "seconds_per_grid", "lengths"),
        ("positions",),
        meaning="positions of packed documents of text (0), images (1), videos (2) and audio (3); "
        "grids (n, 3) count patches: frames, height, width",
        axes=("axis", "token"),
    ),
    Surface(
        "grid_positions",
        "fn(height, width, merge_size) -> integers (2, height * width)",
        lambda e, dtype: (
            lambda height, width, merge: posenc_ref.grid_positions(height, width, merge_size=merge)
        ),
        ("height", "width", "merge_size"),
        outputs=_IDS,
        meaning="row and column (2, height * width) of every patch; the merge_size x merge_size "
        "patches of a block are consecutive",
    ),
)
