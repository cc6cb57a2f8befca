"""Flags name properties of a case's inputs, and are recomputed from these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from posenc_ref import Encoding

from .view import View, beyond, on

#: What an implementation must do: "required": return the right result; "optional": return it or
#: raise; "note": anything.
LEVELS = ("required", "optional", "note")

#: The flag of a case that rejects no wrong implementation, and only pins the definition.
PINS = "PinsDefinition"


#: For each flag: name, level, codes, test, and the mistake that it catches.
_TABLE: tuple[tuple[str, str, str, Callable[[View], bool], str], ...] = (
    # positions
    ("FirstPositions", "required", "layout sign not-a-rotation position-origin", View.contiguous,
     "Mistakes that show at positions 0, 1, 2, ..., which every implementation must accept."),
    ("ScatteredPositions", "optional", "decode-offset wrong-row position-origin position-range",
     lambda v: v.positions.size > 0 and not v.contiguous(),
     "The index of a token used as its position, or a table with too few rows."),
    ("RepeatedPositions", "optional", "wrong-row",
     lambda v: v.positions.ndim == 1 and np.unique(v.positions).size < v.positions.size,
     "Tables that take every position to be the previous one plus 1."),
    ("PastBfloat16", "optional", "position-precision angle-precision", beyond(256),
     "Positions or angles in bfloat16, which merges integers past 256."),
    ("PastFloat16", "optional", "position-precision angle-precision position-range", beyond(2048),
     "Positions or angles in float16, which merges integers past 2048; tables that wrap."),
    ("LongContext", "optional", "position-range scaling-missing scaling-formula scaling-parameter",
     beyond(32767),
     "Tables clamped or wrapped at 4096 or 32768, positions in 16 bits."),
    ("PastMillion", "optional", "range-reduction position-precision", beyond(2**20),
     "Angles computed in float32 (or in float64 if exact angles are declared): their error grows "
     "with the angle. The angles of slow pairs are small and must be accurate."),
    ("NearQuarterTurn", "optional", "range-reduction", View.near_quarter_turn,
     "cos and sin that reduce large angles with an inaccurate pi. One of them is nearly 0 in this "
     "case, so the error shows."),
    ("NegativePositions", "note", "position-range wrong-row",
     lambda v: bool(v.positions.size and v.positions.min() < 0),
     "Negative positions clamped to 0, or wrapped to the end of a table."),
    ("FractionalPositions", "note", "position-range",
     lambda v: v.positions.dtype.kind == "f" and bool((v.positions % 1 != 0).any()),
     "Positions truncated to integers."),
    ("SinglePosition", "optional", "decode-offset",
     lambda v: v.positions.ndim == 1 and v.positions.size == 1 and v.positions[0] > 0,
     "A decoding step that is rotated as if it stood at position 0."),
    ("RowPositions", "optional", "row-offset position-axis",
     lambda v: v.positions.ndim > 1 and v.positions.shape[-2] > 1,
     "Rows of a batch that are given other positions than their own."),
    ("DistinctSizes", "required", "position-axis shape",
     lambda v: np.ndim(v.inputs.get("x", 0)) == 4 and len(set(v.inputs["x"].shape[:3])) == 3,
     "The head or batch axis used as the sequence axis (in this case B, H and S differ)."),
    ("Offset", "required", "decode-offset position-axis position-precision",
     lambda v: v.surface == "apply_offset" and len(set(v.inputs["offset"].tolist())) == 1,
     "A call with an offset, rotated as if it began at 0 or at another offset."),
    ("RowOffsets", "optional", "row-offset decode-offset",
     lambda v: v.surface == "apply_offset" and len(set(v.inputs["offset"].tolist())) > 1,
     "Rows of a batch that all start where the first one does."),
    ("Chunks", "required", "decode-offset row-offset", on("decode"),
     "Chunks that start at 0, at the number of earlier chunks, or one chunk too late."),
    ("KeyCache", "required", "stale-cache decode-offset", on("key_cache"),
     "Keys in a cache that are rotated again with every step, or never."),
    # rotary encodings
    ("HalfSplitPairs", "required", "layout mixed-layout",
     lambda v: v.rotary is not None and v.field("layout") == "half",
     "Adjacent pairs, although channels k and k + d/2 are declared."),
    ("AdjacentPairs", "required", "layout mixed-layout",
     lambda v: v.rotary is not None and v.field("layout") == "interleaved",
     "Half-split pairs, although channels 2k and 2k + 1 are declared."),
    ("BlockwisePairs", "required", "layout", lambda v: v.field("layout") == "blockwise",
     "Half-split pairs of the whole head, although each axis has its own block of channels."),
    ("OtherBase", "required", "base",
     lambda v: v.family in ("rotary", "table") and v.field("base", 10000.0) != 10000.0,
     "A base of 10000, built in or used as the default."),
    ("ReversedSign", "required", "sign", lambda v: v.field("sign", 1) == -1,
     "The usual direction of rotation, although the opposite one is declared."),
    ("PartialRotary", "required", "rotary-dim denominator proportional",
     lambda v: v.field("rotary_dim", 0) not in (0, v.field("head_dim", 0)),
     "All channels or the wrong ones rotated, or frequencies computed for the whole head."),
    ("TrailingSlice", "required", "rotary-dim", lambda v: v.field("rotary_start", 0) > 0,
     "The leading channels rotated, although the trailing ones are declared."),
    ("OtherOutputLayout", "required", "output-layout",
     lambda v: v.field("output_layout") is not None,
     "Results in the input layout, although another output layout is declared."),
    ("Scaled", "required", "scaling-missing scaling-formula scaling-parameter",
     lambda v: v.field("scaling") is not None,
     "A frequency schedule left out, of another kind, or with another parameter."),
    ("LengthDependent", "optional", "scaling-missing scaling-formula scaling-parameter",
     lambda v: v.rotary is not None and v.rotary.depends_on_length,
     "Frequencies that do not follow the length of the call."),
    ("AttentionFactor", "required", "attention-factor amplitude",
     lambda v: v.rotary is not None and v.rotary.attention_factor(v.length) != 1,
     "The factor m on cos and sin left out, squared, or computed from something else."),
    ("EqualAxes", "required", "sections position-scale",
     lambda v: v.several_axes() and not v.axes_differ(),
     "Text tokens rotated wrongly, although their position is the same on every axis."),
    ("IndependentAxes", "optional", "sections axis-order frequency-spacing", View.axes_differ,
     "Pairs that follow another axis than declared."),
    ("SummedAxes", "required", "not-a-rotation", lambda v: type(v.encoding).__name__ == "MixedRoPE",
     "Pairs that follow one axis, although every angle is a sum over all axes."),
    ("Decay", "required", "amplitude layout", lambda v: hasattr(v.encoding, "decays"),
     "Queries and keys scaled alike, or by another power of zeta."),
    ("Adjoint", "required", "sign amplitude", on("apply_vjp"),
     "The inverse taken for the gradient: it divides by m instead of multiplying."),
    # tables
    ("TableArrangement", "required", "layout phase-order", lambda v: hasattr(v.encoding, "columns"),
     "Sines and cosines in other columns than declared."),
    ("OtherDenominator", "required", "denominator",
     lambda v: v.field("denominator", "dim") != "dim",
     "Exponents divided by dim/2, although another denominator is declared."),
    ("TableOffset", "required", "position-origin",
     lambda v: v.family == "table" and v.field("offset", 0) != 0,
     "Rows counted from 0, although the table starts at a later position."),
    ("TableScale", "required", "amplitude position-scale",
     lambda v: v.field("scale", 1.0) != 1.0 or v.field("position_scale", 1.0) != 1.0,
     "A table, or positions, without their declared factor."),
    ("OddWidth", "required", "shape denominator",
     lambda v: v.family == "table" and v.field("dim", 0) % 2 == 1,
     "An odd width without its last column, or with the columns of the next even width."),
    # biases
    ("UnevenHeads", "required", "slopes bias-scale", View.uneven_heads,
     "One geometric series for a number of heads that is no power of two."),
    ("PowerOfTwoHeads", "required", "slopes bias-scale bias-sign",
     lambda v: v.family == "bias" and not v.uneven_heads() and hasattr(v.encoding, "slopes"),
     "Slopes that start at 1, or a bias with the wrong sign or factor."),
    ("FewQueries", "required", "bias-alignment",
     lambda v: "q_len" in v.inputs and v.inputs["q_len"] < v.inputs["k_len"],
     "Queries aligned with the first keys instead of the last."),
    ("BothDirections", "required", "future-keys bias-sign bucket-direction bucket-sign",
     lambda v: v.family == "bias"
     and (v.field("causal") is False or bool(v.field("bidirectional"))),
     "Keys after the query treated as in a decoder."),
    ("OneDirection", "required", "bucket-direction bucket-sign",
     lambda v: v.field("bidirectional") is False,
     "Buckets for both directions in a decoder."),
    ("BucketEdges", "required", "bucket-spacing", View.bucket_edges,
     "Buckets that start one distance early or late. The case has the first distance of every "
     "bucket, even where the logarithm is an integer (16, 32, 64)."),
    ("LastBucket", "required", "bucket-clamp",
     lambda v: v.surface == "bucket"
     and bool(np.abs(v.inputs["relative_position"]).max() > v.field("max_distance")),
     "A last bucket that starts at another distance, or does not hold all far distances."),
    # shifted keys, layouts and position ids
    ("ShiftedKeys", "required", "sign stale-cache", on("shift_keys"),
     "Cached keys moved the other way, or rotated anew."),
    ("EvictedKeys", "required", "stale-cache kept-keys", on("evict_keys"),
     "Kept keys that move too, or other keys that do not move."),
    ("NormFirst", "required", "norm-order layout", on("normed_apply"),
     "The norm applied after the rotation, over all heads, or without its weight."),
    ("ByDistance", "required", "relative-shift", on("relative_shift"),
     "Scores by distance that are assigned to the wrong keys."),
    ("ByOffset", "required", "relative-shift relative-symmetric relative-absolute",
     on("relative_scores"),
     "Offsets without their sign, with the opposite sign, or replaced by positions."),
    ("ChannelPermutation", "required", "layout permutation",
     on("convert_layout", "permute_weights"),
     "Channels moved by the inverse permutation, or from one head to another."),
    ("Padding", "required", "padding position-origin", on("position_ids", "ids_from_tokens"),
     "Padding counted as tokens."),
    ("Documents", "required", "packing position-origin", on("packed", "shard_positions"),
     "Documents of a packed batch that do not start at 0 again."),
    ("ContextParallel", "required", "shard-offset packing", on("shard_positions"),
     "Context-parallel ranks that count from 0, or hold contiguous shards."),
    ("Decoding", "required", "decode-offset", on("decode_positions"),
     "Steps counted from the padded length, from 0, or one too far."),
    ("SeveralPrompts", "optional", "padding decode-offset",
     lambda v: v.surface == "decode_positions" and np.ndim(v.inputs["prompt_len"]) > 0,
     "Rows of a batch that all go on from the longest prompt."),
    ("Pictures", "required", "axis-order position-origin",
     on("mrope_positions", "grid_positions", "grid"),
     "Rows and columns exchanged, patches in another order, wrong positions after a picture."),
    ("Lookup", "required", "wrong-row",
     lambda v: type(v.encoding).__name__ == "Learned" and v.surface == "table",
     "The wrong row of the table, or a rounded row: only equality passes."),
    ("Logits", "required", "amplitude bias-scale", on("scores"),
     "1/sqrt(d) missing, applied twice, or applied to the bias; m applied to q or k only."),
    ("Addition", "required", "amplitude", on("add"),
     "Embeddings scaled by another factor than declared."),
    (PINS, "required", "inaccurate", lambda v: False,  # decided by `kills`
     "No known wrong implementation of this surface and encoding fails this case. The case "
     "records the definition."),
)  # fmt: skip

#: The definition of each flag, as written to files. The codes are those of findings.
FLAGS: dict[str, dict[str, Any]] = {
    name: {"bug_type": codes.split(), "catches": catches, "level": level}
    for name, level, codes, _, catches in _TABLE
}


def level_of(flags: Sequence[str]) -> str:
    """Return the level of a case with these flags: the last of LEVELS that a flag has."""
    return max((FLAGS[name]["level"] for name in flags), key=LEVELS.index, default=LEVELS[0])


def flags_of(
    surface: str, encoding: Encoding | None, inputs: Mapping[str, Any], kills: Sequence[str]
) -> list[str]:
    """Return the flags of a case, in the order of the table."""
    view = View(surface, encoding, inputs)
    found = [name for name, _, _, test, _ in _TABLE if test(view)]
    return found if kills else [*found, PINS]
