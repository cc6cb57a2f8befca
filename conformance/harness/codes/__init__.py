"""The codes of findings: the meaning, the trigger and the remedy of each."""

from __future__ import annotations

from . import surroundings as codes_surfaces
from .code import Code, code

__all__ = ["CODES", "Code"]

_ENCODINGS: dict[str, Code] = dict(
    [
        code(
            "layout",
            "Channels are paired (or columns arranged) in the other layout than declared.",
            "one-hot inputs: the channels that are nonzero together are pairs of the other layout",
            "Either rotate the declared pairs, or permute the q and k projection weights (and "
            "their biases and norm weights) once with posenc_ref.permute_weights; never v.",
        ),
        code(
            "output-layout",
            "Pairs are read in one layout and written in another.",
            "one-hot inputs: the two channels that come out are not the two that went in",
            "Write each pair back to the channels it was read from; logits agree if q and k are "
            "both permuted, cached keys and tensors do not.",
        ),
        code(
            "mixed-layout",
            "cos and sin tables are built for one layout, the rotation pairs channels in another.",
            "the two rows of a pair turn by the angles of two different frequencies",
            "Use one layout throughout: cat(f, f) with (k, k + d/2) pairs, or repeat_interleave(f, "
            "2) with (2k, 2k + 1) pairs.",
        ),
        code(
            "sign",
            "The rotation turns the other way.",
            "measured frequencies have the opposite sign of the declared ones",
            "Rotate by +angle: y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin.",
        ),
        code(
            "base",
            "Frequencies are geometric with another base (theta, rope_theta).",
            "the slope of log frequency over the pair index fits another base, for every pair",
            "Pass the declared base; a configuration's default is often not the checkpoint's.",
        ),
        code(
            "exponent",
            "The exponent of the frequencies is doubled, halved, shifted or made per channel.",
            "log frequency over the pair index fits a multiple or a shift of the exponent",
            "Pair k has exponent 2k/d with k = 0 .. d/2 - 1; arange(0, d, 2) is already 2k.",
        ),
        code(
            "denominator",
            "The exponent is divided by another size: head_dim for rotary_dim, d/2 - 1 for d/2.",
            "log frequency over the pair index fits the declared base with another denominator",
            "Divide 2k by the declared size: d in the paper, rotary_dim in a partial rotation; k "
            "over d/2 - 1 is tensor2tensor's, fairseq's and Whisper's.",
        ),
        code(
            "frequency-spacing",
            "Frequencies differ from the declared ones and no single rule explains them.",
            "the measured and the declared frequency of every pair",
            "Compare the printed pairs with base ** (-2k/d).",
        ),
        code(
            "rotary-dim",
            "More, fewer or other channels are rotated than declared.",
            "one-hot inputs: the set of channels that pass through unchanged",
            "Rotate the declared channels (rotary_dim of them, from rotary_start on) and pass the "
            "others through bit for bit.",
        ),
        code(
            "scaling-missing",
            "The declared frequency scaling is not applied.",
            "measured frequencies equal the declared ones without their scaling",
            "Apply the configuration's rope scaling when the frequencies are built.",
        ),
        code(
            "scaling-formula",
            "Another frequency scaling is applied than the declared one, or it is written wrongly.",
            "measured frequencies equal those of another rule with the declared constants",
            "Write the declared rule; `posenc explain` shows its formula and its traps.",
        ),
        code(
            "scaling-parameter",
            "The declared frequency scaling is applied with another parameter than declared.",
            "measured frequencies equal the declared rule's with one parameter changed",
            "Pass the declared parameter on to where the frequencies are built.",
        ),
        code(
            "sections",
            "Channel pairs follow other position axes than declared.",
            "one axis moved at a time: the pairs that turn with it are not the declared ones",
            "Assign pairs to axes as the declared sections and arrangement say.",
        ),
        code(
            "axis-order",
            "The position axes are taken in another order (h and w exchanged, t last).",
            "one axis moved at a time: the pairs of another declared axis turn with it",
            "Stack the positions in the declared order of axes, or exchange them in the table.",
        ),
        code(
            "attention-factor",
            "cos and sin carry another attention factor than declared.",
            "the common amplitude of all rotated pairs",
            "Multiply both cos and sin by the declared factor, once.",
        ),
        code(
            "amplitude",
            "Values are scaled by a factor that was not declared.",
            "the ratio of the measured amplitude to the declared one",
            "Remove the factor, or declare it.",
        ),
        code(
            "not-a-rotation",
            "The map on a pair is not a rotation times a common factor.",
            "the two rows of a pair's 2 x 2 block are not orthogonal with equal norm",
            "Check cos and sin: each used once per row, sin with opposite signs.",
        ),
        code(
            "not-linear",
            "The output is not a linear function of x.",
            "f(2x) differs from 2 f(x), or f(x + y) from f(x) + f(y)",
            "The encoding must not normalise, clip or mix tokens.",
        ),
        code(
            "phase-order",
            "sin and cos are exchanged.",
            "the column (or table) declared a sine is 1 where its angle is 0, and the reverse",
            "Swap the two: sin first in the paper, cos first in diffusion timesteps.",
        ),
        code(
            "position-scale",
            "All positions are multiplied by a common factor.",
            "every frequency differs from the declared one by the same ratio",
            "Apply the interpolation factor once, as positions / factor.",
        ),
        code(
            "position-origin",
            "All positions are shifted by a constant.",
            "the angle at position 0 is the same number of positions for every pair",
            "The first token has position 0 (unless offset= declares otherwise).",
        ),
        code(
            "position-axis",
            "The head or batch index is taken for the position.",
            "positions decoded from the angles follow another axis than the sequence's",
            "Check the tensor layout the function expects, (B, H, S, D) or (B, S, H, D).",
        ),
        code(
            "position-range",
            "Positions are clamped, wrapped or truncated.",
            "positions decoded from the angles stop following the declared ones past a limit",
            "Extend the table, or raise an error past its end.",
        ),
        code(
            "row-offset",
            "Rows of a batch do not use their own positions.",
            "positions decoded from the angles of row b are those of another row",
            "Index the tables with the (B, S) positions, row by row.",
        ),
        code(
            "wrong-row",
            "Single positions get the values of another position.",
            "the position decoded from the angles differs from the declared one",
            "Check the table's indexing at the reported positions.",
        ),
        code(
            "decode-offset",
            "A call that does not start at position 0 is not rotated to offset + index.",
            "the positions used ignore the offset, apply it twice, are off by one, or count calls",
            "Use the given positions (or add the length of the cache), also for single tokens.",
        ),
        code(
            "proportional",
            "Partial rotation is spread over the whole head (p-RoPE) instead of a leading slice.",
            "one-hot inputs: channel k is paired with k + head_dim/2, only for the first pairs",
            "Rotate the first rotary_dim channels among themselves, exponents over rotary_dim.",
        ),
        code(
            "overflow",
            "base ** x overflows half precision, so that the slow frequencies become 0.",
            "the pairs that are not rotated are those whose timescale exceeds 65504",
            "Compute base ** x in float32 or better.",
        ),
        code(
            "uninitialised",
            "Values follow no sinusoid, or frequencies no order: memory that was never filled.",
            "columns that no amplitude, frequency and phase reproduce; frequencies that are 0, or "
            "in no order",
            "Fill the table (or the non-persistent buffer) after construction and after loading.",
        ),
        code(
            "state",
            "The result depends on earlier calls.",
            "the same call, replayed after longer ones, returns other values",
            "Key caches by everything they depend on, or rebuild them.",
        ),
        code(
            "angle-precision",
            "Angles or frequencies are computed in half precision.",
            "errors equal a model with bfloat16 or float16 frequencies, products or angles",
            "Build frequencies and angles in float32 or better, cast cos and sin last.",
        ),
        code(
            "position-precision",
            "Positions are held in half precision, so that neighbours merge.",
            "positions decoded from the angles are the declared ones rounded to bfloat16/float16",
            "Build positions in int64 or float32.",
        ),
        code(
            "table-precision",
            "cos and sin are rounded to half precision although the output is not.",
            "errors equal the true cos and sin rounded to bfloat16 or float16",
            "Keep the tables in float32, or declare precision='bfloat16'.",
        ),
        code(
            "range-reduction",
            "cos and sin themselves are inaccurate for large angles.",
            "errors grow with the angle, beyond what a float32 angle explains",
            "Use accurate cos and sin (no fast-math intrinsics), or reduce the angle first.",
        ),
        code(
            "inaccurate",
            "Values are wrong by more than rounding, and no named cause explains them.",
            "the worst score against the oracle, in units, with its place",
            "Reproduce the printed case and compare element by element.",
        ),
        code(
            "slopes",
            "ALiBi slopes differ from the published recipe.",
            "slopes fitted from the bias, head by head",
            "2 ** (-8h/n) holds for powers of two only; see posenc_ref.ALiBi.slopes.",
        ),
        code(
            "head-order",
            "Heads get each other's bias.",
            "the values of each head are those declared for another one",
            "Move the head axis of (Q, K, H) to the front with a transpose, never with a reshape.",
        ),
        code(
            "bias-sign",
            "The bias rewards distance instead of penalising it.",
            "the fitted slope over distance is positive",
            "Add -slope * distance: key minus query, not query minus key.",
        ),
        code(
            "bias-scale",
            "The whole bias is multiplied by a factor.",
            "one ratio to the declared bias, the same for every head and distance",
            "Add the bias after the 1/sqrt(d), unscaled.",
        ),
        code(
            "bias-missing",
            "The bias is not added, at all or in some calls.",
            "calls whose bias is the same for every key, where the declared one is not",
            "Add the rows of the queries' own positions, k_len - q_len + i, in every call.",
        ),
        code(
            "bias-alignment",
            "Queries are aligned with the wrong keys when q_len differs from k_len.",
            "the offset j - i at which the bias fits best",
            "Query i sits at k_len - q_len + i: the last query with the last key.",
        ),
        code(
            "future-keys",
            "Keys after the query get a bias of the wrong kind.",
            "the fitted slope at positive offsets, where the encoding is symmetric",
            "Use -slope * |i - j| in encoders.",
        ),
        code(
            "score-term",
            "A term of the logits is missing, subtracted or multiplied by another factor.",
            "a factor for every term, fitted to the logits; those of the others are 1",
            "Compare term by term with posenc_ref's terms(q, k, q_positions, k_positions).",
        ),
        code(
            "bucket-direction",
            "Buckets are bidirectional where causal ones were declared, or the reverse.",
            "which sign of the relative position shares a bucket",
            "Encoders are bidirectional, decoders are not.",
        ),
        code(
            "bucket-sign",
            "The relative position, or the offset that has a row, enters with the opposite sign.",
            "the bucket or row of an offset is that declared of its opposite",
            "Count offsets as declared; T5's relative_position is key minus query.",
        ),
        code(
            "bucket-clamp",
            "The last bucket starts elsewhere: max_distance or the final clamp differs.",
            "the first distance of the last bucket, and buckets outside the range",
            "Clamp to num_buckets - 1 after the floor, with the declared max_distance.",
        ),
        code(
            "bucket-spacing",
            "Distances are spread over the buckets by another rule.",
            "the first distance of each bucket",
            "Half of the buckets are exact, the others logarithmic up to max_distance.",
        ),
    ]
)
_CALLS: dict[str, Code] = dict(
    [
        code(
            "mutates-input",
            "An input array was written over.",
            "inputs compared with a copy taken before the call",
            "Work on a copy, or declare inplace=True.",
        ),
        code(
            "shape",
            "The result has another shape than the surface demands.",
            "the shape of the result",
            "Return what the surface says, for every batch, head and sequence size.",
        ),
        code(
            "dtype",
            "The result has a narrower dtype than the input.",
            "the dtype of the result",
            "Return x's dtype.",
        ),
        code(
            "nonfinite",
            "NaN or infinity comes out where finite numbers went in, or leaves its token.",
            "the first non-finite element of the result",
            "Check for overflow of base ** x in half precision, and division by zero.",
        ),
        code(
            "raises",
            "A required call raises an exception.",
            "the exception",
            "Contiguous int64 positions from 0 must be accepted.",
        ),
    ]
)
#: Every code by name.
CODES: dict[str, Code] = {**_ENCODINGS, **codes_surfaces.CODES, **_CALLS}
