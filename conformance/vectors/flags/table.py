"""The table of flags, and the flags of a case.  ``posenc explain`` describes the bug types."""

from collections.abc import Sequence

import numpy as np

from .flags import LEVELS, PINS, Flag
from .predicates import (
    attention_factor,
    axes_differ,
    beyond,
    bucket_edges,
    contiguous,
    near_quarter_turn,
    past_the_last_bucket,
    repeated,
    scattered,
    several_axes,
    sizes,
    symmetric,
    uneven_heads,
)
from .view import View

FLAGS: dict[str, Flag] = {
    # -- positions ---------------------------------------------------------------------------
    "FirstPositions": Flag(
        ("layout", "sign", "not-a-rotation", "position-origin"),
        "What is wrong at positions 0, 1, 2, ... already; every implementation must accept them.",
        contiguous,
    ),
    "ScatteredPositions": Flag(
        ("decode-offset", "wrong-row", "position-origin", "position-range"),
        "The index of the token taken for its position, or a table that ends early.",
        scattered,
        level="optional",
    ),
    "RepeatedPositions": Flag(
        ("wrong-row",),
        "Tables built by counting on from the first position.",
        repeated,
        level="optional",
    ),
    "PastBfloat16": Flag(
        ("position-precision", "angle-precision"),
        "Positions or angles in bfloat16, which merges integers past 256.",
        beyond(256),
        level="optional",
    ),
    "PastFloat16": Flag(
        ("position-precision", "angle-precision", "position-range"),
        "Positions or angles in float16, which merges integers past 2048; tables that wrap.",
        beyond(2048),
        level="optional",
    ),
    "LongContext": Flag(
        ("position-range", "scaling-missing", "scaling-formula", "scaling-parameter"),
        "Tables clamped or wrapped at 4096 or 32768, positions in 16 bits.",
        beyond(32767),
        level="optional",
    ),
    "PastMillion": Flag(
        ("range-reduction", "position-precision"),
        "Angles multiplied out in float32 (or in float64 where exact angles are declared), where "
        "whole turns eat the digits; slow pairs are still judged sharply.",
        beyond(2**20),
        level="optional",
    ),
    "NearQuarterTurn": Flag(
        ("range-reduction",),
        "cos and sin that reduce large angles with too short a pi: here one of them is nearly 0.",
        near_quarter_turn,
        level="optional",
    ),
    "NegativePositions": Flag(
        ("position-range", "wrong-row"),
        "Negative positions clamped to 0, or wrapped to the end of a table.",
        lambda v: bool(v.positions.size and v.positions.min() < 0),
        level="note",
    ),
    "FractionalPositions": Flag(
        ("position-precision", "wrong-row"),
        "Positions truncated to integers.",
        lambda v: v.positions.dtype.kind == "f" and bool((v.positions % 1 != 0).any()),
        level="optional",
    ),
    "SinglePosition": Flag(
        ("decode-offset",),
        "A decoding step that is rotated as if it stood at position 0.",
        lambda v: v.positions.ndim == 1 and v.positions.size == 1 and v.positions[0] > 0,
        level="optional",
    ),
    "RowPositions": Flag(
        ("row-offset", "position-axis"),
        "Rows of a batch that are given other positions than their own.",
        lambda v: v.positions.ndim > 1 and v.positions.shape[-2] > 1,
        level="optional",
    ),
    "DistinctSizes": Flag(
        ("position-axis", "shape"),
        "The head or batch axis taken for the sequence: the three sizes differ.",
        sizes,
    ),
    "Offset": Flag(
        ("decode-offset", "position-axis", "position-precision"),
        "A call that starts late, rotated as if it began at 0 or from the offset of another token.",
        lambda v: v.surface == "apply_offset" and len(set(v.inputs["offset"].tolist())) == 1,
    ),
    "RowOffsets": Flag(
        ("row-offset", "decode-offset"),
        "Rows of a batch that all start where the first one does.",
        lambda v: v.surface == "apply_offset" and len(set(v.inputs["offset"].tolist())) > 1,
        level="optional",
    ),
    "Chunks": Flag(
        ("decode-offset", "row-offset"),
        "Chunks that start at 0 again, at the number of the step, or after themselves.",
        lambda v: v.surface == "decode",
    ),
    "KeyCache": Flag(
        ("stale-cache", "decode-offset"),
        "Keys in a cache that are rotated again with every step, or never.",
        lambda v: v.surface == "key_cache",
    ),
    # -- rotary encodings --------------------------------------------------------------------
    "HalfSplitPairs": Flag(
        ("layout", "mixed-layout"),
        "Adjacent pairs where channels k and k + d/2 are declared.",
        lambda v: v.rotary is not None and v.field("layout") == "half",
    ),
    "AdjacentPairs": Flag(
        ("layout", "mixed-layout"),
        "Half-split pairs where channels 2k and 2k + 1 are declared.",
        lambda v: v.rotary is not None and v.field("layout") == "interleaved",
    ),
    "BlockwisePairs": Flag(
        ("layout",),
        "Pairs split over the whole head where each axis has a block of its own.",
        lambda v: v.field("layout") == "blockwise",
    ),
    "OtherBase": Flag(
        ("base",),
        "A base of 10000 that was built in, or taken for a default.",
        lambda v: v.family in ("rotary", "table") and v.field("base", 10000.0) != 10000.0,
    ),
    "ReversedSign": Flag(("sign",), "The usual direction.", lambda v: v.field("sign", 1) == -1),
    "PartialRotary": Flag(
        ("rotary-dim", "denominator", "proportional"),
        "The whole head rotated, exponents over the head, or the wrong slice.",
        lambda v: v.field("rotary_dim", 0) not in (0, v.field("head_dim", 0)),
    ),
    "TrailingSlice": Flag(
        ("rotary-dim",),
        "The leading channels rotated where the trailing ones are declared.",
        lambda v: v.field("rotary_start", 0) > 0,
    ),
    "OtherOutputLayout": Flag(
        ("output-layout",),
        "Pairs written back where they were read.",
        lambda v: v.field("output_layout") is not None,
    ),
    "Scaled": Flag(
        ("scaling-missing", "scaling-formula", "scaling-parameter"),
        "A frequency schedule left out, of another kind, or with another parameter.",
        lambda v: v.field("scaling") is not None,
    ),
    "LengthDependent": Flag(
        ("scaling-missing", "scaling-formula", "scaling-parameter"),
        "Frequencies that do not follow the length of the call.",
        lambda v: v.rotary is not None and v.rotary.depends_on_length,
        level="optional",
    ),
    "AttentionFactor": Flag(
        ("attention-factor", "amplitude"),
        "The factor m on cos and sin left out, squared, or computed from something else.",
        attention_factor,
    ),
    "EqualAxes": Flag(
        ("sections", "position-scale"),
        "Text tokens of a multi-axis encoding, which all axes see alike.",
        lambda v: several_axes(v) and not axes_differ(v),
    ),
    "IndependentAxes": Flag(
        ("sections", "axis-order", "frequency-spacing"),
        "Pairs that follow another axis than declared.",
        axes_differ,
        level="optional",
    ),
    "SummedAxes": Flag(
        ("not-a-rotation",),
        "One axis for each pair where every pair turns by the sum over all axes.",
        lambda v: type(v.encoding).__name__ == "MixedRoPE",
    ),
    "Decay": Flag(
        ("amplitude", "layout"),
        "Queries and keys scaled alike, or by another power of zeta.",
        lambda v: hasattr(v.encoding, "decays"),
    ),
    "Adjoint": Flag(
        ("sign", "amplitude"),
        "The inverse taken for the gradient: it divides by m instead of multiplying.",
        lambda v: v.surface == "apply_vjp",
    ),
    # -- tables ------------------------------------------------------------------------------
    "TableArrangement": Flag(
        ("layout", "phase-order"),
        "Sines and cosines in other columns than declared.",
        lambda v: hasattr(v.encoding, "columns"),
    ),
    "OtherDenominator": Flag(
        ("denominator",),
        "Exponents over dim/2 where another number is declared.",
        lambda v: v.field("denominator", "dim") != "dim",
    ),
    "TableOffset": Flag(
        ("position-origin",),
        "Rows counted from 0 where the table starts later.",
        lambda v: v.family == "table" and v.field("offset", 0) != 0,
    ),
    "TableScale": Flag(
        ("amplitude", "position-scale"),
        "A factor on the table or on positions left out.",
        lambda v: v.field("scale", 1.0) != 1.0 or v.field("position_scale", 1.0) != 1.0,
    ),
    "OddWidth": Flag(
        ("shape", "denominator"),
        "The last column of an odd width missing, or the table of the next even width cut.",
        lambda v: v.family == "table" and v.field("dim", 0) % 2 == 1,
    ),
    # -- biases ------------------------------------------------------------------------------
    "UnevenHeads": Flag(
        ("slopes", "bias-scale"),
        "One geometric series for a number of heads that is no power of two.",
        uneven_heads,
    ),
    "PowerOfTwoHeads": Flag(
        ("slopes", "bias-scale", "bias-sign"),
        "Slopes that start at 1, or a bias with the wrong sign or factor.",
        lambda v: v.family == "bias" and not uneven_heads(v) and hasattr(v.encoding, "slopes"),
    ),
    "FewQueries": Flag(
        ("bias-alignment",),
        "Queries aligned with the first keys instead of the last.",
        lambda v: "q_len" in v.inputs and v.inputs["q_len"] < v.inputs["k_len"],
    ),
    "BothDirections": Flag(
        ("future-keys", "bias-sign", "bucket-direction", "bucket-sign"),
        "Keys after the query treated as in a decoder.",
        symmetric,
    ),
    "OneDirection": Flag(
        ("bucket-direction", "bucket-sign"),
        "Buckets for both directions in a decoder.",
        lambda v: v.field("bidirectional") is False,
    ),
    "BucketEdges": Flag(
        ("bucket-spacing",),
        "Buckets that start one distance early or late: every first distance is there, ties of the "
        "logarithm (16, 32, 64) among them.",
        bucket_edges,
    ),
    "LastBucket": Flag(
        ("bucket-clamp",),
        "The last bucket starting elsewhere, or left behind by far distances.",
        past_the_last_bucket,
    ),
    # -- moved and counted -------------------------------------------------------------------
    "ShiftedKeys": Flag(
        ("sign", "stale-cache"),
        "Cached keys moved the other way, or rotated anew.",
        lambda v: v.surface == "shift_keys",
    ),
    "NormFirst": Flag(
        ("norm-order", "layout"),
        "The norm taken after the rotation, over all heads, or without its weight before.",
        lambda v: v.surface == "normed_apply",
    ),
    "ByDistance": Flag(
        ("relative-shift",),
        "Scores by distance that land at the wrong keys.",
        lambda v: v.surface == "relative_shift",
    ),
    "ByOffset": Flag(
        ("relative-shift", "relative-symmetric", "relative-absolute"),
        "Offsets whose sign, direction or size is lost.",
        lambda v: v.surface == "relative_scores",
    ),
    "ChannelPermutation": Flag(
        ("layout", "permutation"),
        "The permutation taken the other way round, or across heads.",
        lambda v: v.surface in ("convert_layout", "permute_weights"),
    ),
    "Padding": Flag(
        ("padding", "position-origin"),
        "Padding counted as tokens.",
        lambda v: v.surface in ("position_ids", "ids_from_tokens"),
    ),
    "Documents": Flag(
        ("packing", "position-origin"),
        "Documents of a packed batch that do not start at 0 again.",
        lambda v: v.surface in ("packed", "shard_positions"),
    ),
    "ContextParallel": Flag(
        ("shard-offset", "packing"),
        "Ranks that count their own tokens, or hold contiguous shards.",
        lambda v: v.surface == "shard_positions",
    ),
    "Decoding": Flag(
        ("decode-offset",),
        "Steps counted from the padded length, from 0, or one too far.",
        lambda v: v.surface == "decode_positions",
    ),
    "SeveralPrompts": Flag(
        ("padding", "decode-offset"),
        "Rows of a batch that all go on from the longest prompt.",
        lambda v: v.surface == "decode_positions" and np.ndim(v.inputs["prompt_len"]) > 0,
        level="optional",
    ),
    "Pictures": Flag(
        ("axis-order", "position-origin"),
        "Rows and columns exchanged, patches in another order, text after a picture at its end.",
        lambda v: v.surface in ("mrope_positions", "grid_positions", "grid"),
    ),
    "Lookup": Flag(
        ("wrong-row",),
        "Another row, or a row that was rounded: only equality passes.",
        lambda v: type(v.encoding).__name__ == "Learned" and v.surface == "table",
    ),
    "Logits": Flag(
        ("amplitude", "bias-scale"),
        "The scale 1/sqrt(d) forgotten, taken twice, or put on the bias; m taken once.",
        lambda v: v.surface == "scores",
    ),
    "Addition": Flag(
        ("amplitude",),
        "Embeddings scaled by another factor than declared.",
        lambda v: v.surface == "add",
    ),
    PINS: Flag(
        ("inaccurate",),
        "No wrong implementation of the corpus is declared as this and caught by this case; it "
        "fixes what the definition says.",
        lambda v: False,  # decided by `kills`
    ),
}


def level_of(flags: Sequence[str]) -> str:
    """The mildest level of the flags of a case."""
    return max((FLAGS[name].level for name in flags), key=LEVELS.index, default=LEVELS[0])


def flags_of(view: View, kills: Sequence[str]) -> list[str]:
    """The flags of a case, in the order of the table."""
    found = [name for name, flag in FLAGS.items() if flag.test(view)]
    return found if kills else [*found, PINS]
