"""The codes of findings: the meaning, the trigger and the remedy of each."""

from __future__ import annotations

from . import surroundings
from .code import Code, read

__all__ = ["CODES", "Code"]

_ENCODINGS = """
# Channels: which ones are rotated, and which form a pair

layout: Channels are paired, or table columns are arranged, in another layout than declared.
  trigger: one-hot inputs: an input channel reaches the output channels of another layout's pair
  remedy: Either rotate the declared pairs, or permute the q and k projection weights (and their
    biases and norm weights) once with posenc_ref.permute_weights; never v.

output-layout: Pairs are read in one layout and written in another.
  trigger: one-hot inputs: a pair of input channels is written to two other output channels
  remedy: Write each pair back to the channels it was read from. If q and k are both permuted, the
    logits equal the declared ones; cached keys and tensors do not.

mixed-layout: cos and sin tables are built for one layout, the rotation pairs channels in another.
  trigger: the two output channels of a pair turn by the angles of two different frequencies
  remedy: Use one layout throughout: cat(f, f) with (k, k + d/2) pairs, or repeat_interleave(f, 2)
    with (2k, 2k + 1) pairs.

rotary-dim: More, fewer or other channels are rotated than declared.
  trigger: one-hot inputs: the set of channels that pass through unchanged
  remedy: Rotate the declared channels (rotary_dim of them, from rotary_start on) and pass the
    others through bit for bit.

proportional: Partial rotation is spread over the whole head (p-RoPE) instead of a leading slice.
  trigger: one-hot inputs: channel k is paired with k + head_dim/2, only for the first pairs
  remedy: Rotate the first rotary_dim channels among themselves, exponents over rotary_dim.

sign: The rotation turns the other way.
  trigger: measured frequencies have the opposite sign of the declared ones
  remedy: Rotate by +angle: y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin.

phase-order: sin and cos are exchanged.
  trigger: at angle 0, a column declared as sin is 1, or a column declared as cos is 0
  remedy: Exchange the two: at position 0, every sine is 0 and every cosine is 1. A rotary cos_sin
    returns (cos, sin); a table has the declared column first.

not-a-rotation: The map on a pair is not a rotation times a common factor.
  trigger: the two rows of a pair's 2 x 2 block are not orthogonal with equal norm
  remedy: Compute y1 = x1 cos - x2 sin and y2 = x2 cos + x1 sin, with the same cos and sin in both.

dropped-pairs: Channel pairs without a frequency of their own have another constant than declared.
  trigger: the values equal those of another sine, or of a rotation, in the dropped pairs
  remedy: Give dropped pairs C = 1 and the declared S, 0 or 1, at every position.

coefficients: Learned coefficients of cosines and sines are missing, exchanged or changed.
  trigger: the values equal those of other coefficients
  remedy: C sums the cosines times cos_coef over k, S sums the sines times sin_coef.

not-linear: The output of a token is not a linear function of its own x.
  trigger: f(2x) differs from 2 f(x), or f(x + y) from f(x) + f(y)
  remedy: The encoding must not normalise, clip or mix tokens.

# Frequencies: how far each pair turns per position

base: Frequencies are geometric with another base (theta, rope_theta).
  trigger: the slope of log frequency over the pair index fits another base, for every pair
  remedy: Pass the declared base; a configuration's default is often not the checkpoint's.

exponent: The exponent is doubled, halved or shifted, or uses the channel's index, not the pair's.
  trigger: log frequency over the pair index fits a multiple or a shift of the exponent
  remedy: Pair k has exponent 2k/d with k = 0 .. d/2 - 1; arange(0, d, 2) is already 2k.

denominator: The exponent is divided by another size: head_dim for rotary_dim, d/2 - 1 for d/2.
  trigger: log frequency over the pair index fits the declared base with another denominator
  remedy: Divide 2k by the declared size: d in the paper, rotary_dim in a partial rotation.
    tensor2tensor, fairseq and Whisper use the exponent k / (d/2 - 1).

frequency-spacing: Frequencies differ from the declared ones and no single rule explains them.
  trigger: measured frequencies differ from the declared ones, and no known mistake predicts them
  remedy: Compare the printed pairs with base ** (-2k/d).

scaling-missing: The declared frequency scaling is not applied.
  trigger: measured frequencies equal the declared ones without their scaling
  remedy: Apply the configuration's rope scaling when the frequencies are built.

scaling-formula: Another frequency scaling is applied than the declared one, or it is written
    wrongly.
  trigger: measured frequencies equal those of another rule with the declared constants
  remedy: Write the declared rule; `posenc explain` shows its formula and its traps.

scaling-parameter: The declared frequency scaling is applied with another parameter than declared.
  trigger: measured frequencies equal the declared rule's with one parameter changed
  remedy: Pass the declared parameter on to where the frequencies are built.

position-scale: All positions are multiplied by a common factor.
  trigger: every frequency differs from the declared one by the same ratio
  remedy: Apply the interpolation factor once, as positions / factor.

overflow: base ** x overflows half precision, so that the slow frequencies become 0.
  trigger: the pairs that are not rotated are those whose timescale exceeds 65504
  remedy: Compute base ** x in float32 or better.

uninitialised: A table or buffer was never filled: it holds what was in memory.
  trigger: table columns that are not sinusoids; frequencies that are all 0, or neither increase nor
    decrease
  remedy: Fill the table (or the non-persistent buffer) after construction and after loading.

# Axes of positions: images and videos

sections: Channel pairs follow other position axes than declared.
  trigger: if one position axis changes and the others are 0, other pairs rotate than declared
  remedy: Assign pairs to axes as the declared sections and arrangement say.

axis-order: The position axes are taken in another order (h and w exchanged, t last).
  trigger: if one position axis changes and the others are 0, another declared axis's pairs rotate
  remedy: Stack the positions in the declared order of axes, or exchange the axes when the table
    is built.

media-grid: Tokens of an image or video do not have the frame, row and column of their place.
  trigger: the position ids of the tokens equal those of another order or numbering of the grid
  remedy: The token in frame t, row h and column w of the merged grid has the start of the image
    plus (t, h, w).

media-extent: What follows an image or video starts at a wrong position.
  trigger: the position ids equal those of another rule for the start of the next text
  remedy: Start it at one more than the largest position so far, on any axis.

merge-size: Sizes of images or videos are counted in patches, before patches are merged to tokens.
  trigger: the position ids equal those of grids that are not divided by the merge size
  remedy: Divide height and width by spatial_merge_size first, as the tokens are counted.

media-time: Frames of a video, or its sound, have wrong times.
  trigger: the position ids equal those of other seconds per frame, another rate, other rounding,
    or another alignment of sound and video
  remedy: Frame k is at trunc(k * tokens_per_second * seconds_per_grid), unless the model counts
    frames or keeps fractions.

# Factors of values and logits

attention-factor: cos and sin carry another attention factor than declared.
  trigger: the common amplitude of all rotated pairs
  remedy: Multiply both cos and sin by the declared factor, once.

amplitude: Values are scaled by a factor that was not declared.
  trigger: the ratio of the measured amplitude to the declared one
  remedy: Remove the factor, or declare it.

# Positions: which position a token gets

position-origin: All positions are shifted by a constant.
  trigger: the angles at position 0 are those of another position, the same one for every pair
  remedy: The first token has position 0 (unless offset= declares otherwise).

position-axis: The head or batch index is used as the position.
  trigger: positions decoded from the angles follow another axis than the sequence's
  remedy: Check the tensor layout the function expects, (B, H, S, D) or (B, S, H, D).

position-range: Positions are clamped, wrapped or truncated.
  trigger: positions decoded from the angles stop following the declared ones past a limit
  remedy: Extend the table, or raise an error past its end.

row-offset: Rows of a batch do not use their own positions.
  trigger: positions decoded from the angles of row b are those of another row
  remedy: Index the tables with the (B, S) positions, row by row.

wrong-row: Single positions get the values of another position.
  trigger: the position decoded from the angles differs from the declared one
  remedy: Check the table's indexing at the reported positions.

decode-offset: A call that does not start at position 0 is not rotated to offset + index.
  trigger: the positions decoded from the angles begin at 0, at twice the offset, one before or
    after it, or at the number of earlier calls
  remedy: Use the given positions (or add the length of the cache), also for single tokens.

# Precision: rounding and the errors of cos and sin

angle-precision: Angles or frequencies are too coarse: half precision, or a table of few digits.
  trigger: the values equal those of frequencies, timescales or angles in bfloat16 or float16, or
    those of frequencies with few digits
  remedy: Build frequencies and angles in float32 or better, cast cos and sin last.

position-precision: Positions are held in half precision, so that several positions become equal.
  trigger: positions decoded from the angles are the declared ones rounded to bfloat16/float16
  remedy: Build positions in int64 or float32.

table-precision: cos and sin are rounded to half precision although the output is not.
  trigger: the values equal the exact cos and sin rounded to bfloat16 or float16
  remedy: Keep the tables in float32, or declare precision='bfloat16'.

range-reduction: cos and sin themselves are inaccurate for large angles.
  trigger: errors grow with the angle, beyond what a float32 angle explains
  remedy: Use accurate cos and sin (no fast-math intrinsics), or reduce the angle first.

inaccurate: Values are wrong by more than rounding, and no named cause explains them.
  trigger: the largest error against the reference, in units of the tolerance, with its index
  remedy: Compare the printed element with the declared formula, and then its neighbours.

# Biases: ALiBi and other functions of the distance

slopes: ALiBi slopes differ from the published recipe.
  trigger: slopes fitted from the bias, head by head
  remedy: 2 ** (-8h/n) holds for powers of two only; see posenc_ref.ALiBi.slopes.

head-order: Heads get each other's bias, frequencies or coefficients.
  trigger: the values of each head are those declared for another one
  remedy: Move the head axis of (Q, K, H) to the front with a transpose, never with a reshape.

bias-sign: The bias rewards distance instead of penalising it.
  trigger: the fitted slope over distance is positive
  remedy: Subtract slope * distance, so that distant keys get a lower bias.

bias-scale: The whole bias is multiplied by a factor.
  trigger: one ratio to the declared bias, the same for every head and distance
  remedy: Add the bias after the 1/sqrt(d), unscaled.

bias-missing: The bias is missing, in all calls or in some.
  trigger: the bias of a call is the same for every key, although the declared bias is not
  remedy: Add the rows of the queries' own positions, k_len - q_len + i, in every call.

bias-alignment: Queries are aligned with the wrong keys when q_len differs from k_len.
  trigger: the offset j - i at which the bias fits best
  remedy: Query i sits at k_len - q_len + i: the last query with the last key.

future-keys: Keys after the query get another bias than declared.
  trigger: the slope fitted to the bias of later keys, if the encoding is symmetric
  remedy: Use -slope * |i - j| in encoders.

score-term: A term of the logits is missing, subtracted or multiplied by another factor.
  trigger: a factor for every term, fitted to the logits; it is 1 for every correct term
  remedy: Compare term by term with posenc_ref's terms(q, k, q_positions, k_positions).

token-range: The sum or product from key to query has another order, first or last token.
  trigger: the logits equal those of a sum or product of another range, in another order, or one \
that starts again
  remedy: Take the tokens after the key, up to and with the query; keep a running sum or product \
between chunks and calls.

camera-matrix: Queries or keys are multiplied by another matrix of the camera than declared.
  trigger: the logits equal those of a transposed, inverted, missing or shared matrix
  remedy: Multiply q by the transpose of P, k and v by its inverse, the output of attention by P.

matrix-exponential: The rotation is another function of the generators than declared.
  trigger: the logits equal those of a product of exponentials, of a truncated series, or of a \
matrix that is not skew-symmetric
  remedy: Sum the generators of all axes, each times its coordinate, then take one matrix \
exponential of the sum.

# Buckets and indices of relative positions

bucket-direction: Buckets are bidirectional where causal ones were declared, or the reverse.
  trigger: whether all keys on one side of the query share a bucket
  remedy: Encoders are bidirectional, decoders are not.

bucket-sign: The relative position, or the offset that selects a table row, has the opposite sign.
  trigger: the bucket or row of each offset is the one declared for the opposite offset
  remedy: Count offsets as declared; T5's relative_position is key minus query.

bucket-clamp: The last bucket starts elsewhere: max_distance or the final clamp differs.
  trigger: the first distance of the last bucket; buckets below 0 or above num_buckets - 1
  remedy: Clamp to num_buckets - 1 after the floor, with the declared max_distance.

bucket-spacing: Distances are spread over the buckets by another rule.
  trigger: the first distance of each bucket
  remedy: Half of the buckets are exact, the others logarithmic up to max_distance.
"""
_CALLS = """
# Calls: what every function must do

mutates-input: An input array was written over.
  trigger: inputs compared with a copy taken before the call
  remedy: Work on a copy, or declare inplace=True.

shape: The result has another shape than the surface demands.
  trigger: the shape of the result
  remedy: Return what the surface says, for every batch, head and sequence size.

dtype: The result has a narrower dtype than the input.
  trigger: the dtype of the result
  remedy: Return the dtype of the input; without one, the dtype that was asked for.

nonfinite: Finite inputs give NaN or infinity, or a NaN in one token changes other tokens.
  trigger: the first non-finite element of the result
  remedy: Check for overflow of base ** x in half precision, and division by zero.

raises: A required call raises an exception.
  trigger: the exception
  remedy: Contiguous int64 positions from 0 must be accepted.
"""
#: Every code by name.
CODES = {one.name: one for one in read(_ENCODINGS + surroundings.TEXT + _CALLS)}
