"""Codes of findings outside the encoding: caches, positions, weights, layers, scales."""

from __future__ import annotations

from .code import Code, code

CODES: dict[str, Code] = dict(
    [
        code(
            "padding",
            "Padding tokens are counted, or do not use the row reserved for padding.",
            "positions of rows with padding, compared with counting their real tokens",
            "Count real tokens: cumsum(mask) - 1 (or padding_idx + cumsum(mask) for RoBERTa's "
            "rows), row by row.",
        ),
        code(
            "packing",
            "Documents that share a row do not start again at position 0.",
            "positions of packed documents, compared with counting from each one's start",
            "Subtract where the document starts: arange(total) - repeat(starts, lengths).",
        ),
        code(
            "shard-offset",
            "A rank's part of the sequence (or of the heads) is taken for the whole.",
            "the rank's values equal those of other tokens or heads than it holds",
            "Give every rank the positions (and slopes) that its tokens (and heads) have in the "
            "whole; zig-zag shards hold chunks r and 2 size - 1 - r.",
        ),
        code(
            "permutation",
            "Projection weights are permuted the wrong way, along the wrong axis, or over heads.",
            "the permuted rows equal those of the inverse, or of another, permutation",
            "Rows of each head: [0, d/2, 1, d/2 + 1, ...] from half to interleaved, on q and k.",
        ),
        code(
            "norm-order",
            "Norm and rotation are in the other order, or the norm is another one.",
            "the values equal those of the other order, with weights that are not all equal",
            "Normalise and weight q and k over head_dim first, then rotate.",
        ),
        code(
            "layer-schedule",
            "Layers with and without positional encoding are not the declared ones.",
            "the flags of all layers equal those of another schedule",
            "Compare the flags with the configuration's own; beware of names that say the "
            "opposite.",
        ),
        code(
            "softmax-scale",
            "Logits are multiplied by another factor than declared.",
            "the factor, or the common ratio of the logits to the declared ones",
            "1/sqrt(head_dim), unless the model states its own (DeepSeek: times mscale squared).",
        ),
        code(
            "table-offset",
            "Rows of a table are taken from another start than declared.",
            "the rows (or row numbers) equal those of shifted positions",
            "Add the declared offset once: OPT and BART start at row 2, RoBERTa at padding_idx + "
            "1.",
        ),
        code(
            "token-order",
            "Patches of an image are numbered in another order than row by row.",
            "the rows equal the declared ones in column-major, or mirrored, order",
            "Row-major: token = row * width + column.",
        ),
        code(
            "index-collision",
            "Different offsets share an index, so that they share a bias.",
            "elements of the index matrix that are equal although their offsets differ",
            "Multiply dy by 2w - 1, the number of values that dx can have.",
        ),
        code(
            "relative-shift",
            "Scores by distance are moved to the wrong keys.",
            "the result equals another shift of the input",
            "Drop the first row of the reshaped matrix; use 2S - 1 offsets where the future is "
            "seen.",
        ),
        code(
            "relative-symmetric",
            "An offset and its opposite are treated alike.",
            "the result equals one computed from the absolute offset",
            "Keep the sign: add the largest offset instead of taking the absolute value.",
        ),
        code(
            "relative-absolute",
            "A relative index depends on one position alone, or on both, not on their difference.",
            "the result equals one computed from the key's, or the query's, own position",
            "Index by the difference of positions.",
        ),
        code(
            "stale-cache",
            "Cached keys are rotated again, mixed or left behind, instead of once and alike.",
            "the cache equals one whose keys were rotated at every step, twice, or as at the "
            "length when they were inserted",
            "Cache either raw or rotated keys; rotate each once, and all of them anew when the "
            "frequencies change.",
        ),
        code(
            "harmless-convention",
            "Tensors differ from the declared ones, logits do not.",
            "q . k agrees in every call, although q and k do not",
            "Nothing needs mending, unless tensors are compared or cached keys are shared.",
        ),
    ]
)
