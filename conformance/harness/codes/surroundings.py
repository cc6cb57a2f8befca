"""Codes of findings outside the encoding: caches, positions, weights, layers, scales."""

TEXT = """
# Positions: which position a token gets

padding: Padding tokens take up positions, or do not use the table row reserved for padding.
  trigger: positions of rows with padding, compared with counting their real tokens
  remedy: Count real tokens: cumsum(mask) - 1 (or padding_idx + cumsum(mask) for RoBERTa's rows),
    row by row.

packing: Documents that share a row do not start again at position 0.
  trigger: positions of packed documents, compared with counting from each one's start
  remedy: Subtract the start of each token's document: arange(total) - repeat(starts, lengths).

shard-offset: A rank's part of the sequence (or of the heads) is treated as the whole.
  trigger: the rank's values equal those of tokens or heads that another rank holds
  remedy: Give every rank the positions (and slopes) that its tokens (and heads) have in the whole;
    zig-zag shards hold chunks r and 2 size - 1 - r.

table-offset: Rows of a table are taken from another start than declared.
  trigger: the rows (or row numbers) equal those of shifted positions
  remedy: Give position p row p + the declared offset: 0 unless one is declared, 2 in OPT and BART,
    padding_idx + 1 in RoBERTa.

# Axes of positions: images and videos

token-order: Patches of an image are numbered in another order than row by row.
  trigger: the rows equal the declared ones in column-major, or mirrored, order
  remedy: Row-major: token = row * width + column.

# Factors of values and logits

softmax-scale: Logits are multiplied by another factor than declared.
  trigger: the factor, or the common ratio of the logits to the declared ones
  remedy: 1/sqrt(head_dim), unless the model states its own (DeepSeek: times mscale squared).

# Buckets and indices of relative positions

index-collision: Different offsets share an index, so that they share a bias.
  trigger: elements of the index matrix that are equal although their offsets differ
  remedy: Multiply dy by 2w - 1, the number of values that dx can have.

relative-shift: Scores (queries, distances) are moved to the wrong keys.
  trigger: the result equals another shift of the input
  remedy: Give each query and key the score of their own distance. If you pad and reshape, as
    Transformer-XL does, drop the first row of the reshaped matrix. If queries see later keys, use
    2S - 1 offsets.

relative-symmetric: An offset and its opposite are treated alike.
  trigger: the result equals one computed from the absolute offset
  remedy: Keep the sign: add the largest offset instead of taking the absolute value.

far-keys: Keys of another chunk, of a group or beyond a window have other distances than declared.
  trigger: the logits are those of a known wrong rule, or of whole distances that are measured
  remedy: Compare the relative positions with the encoding's offsets(q_positions, k_positions).

window-edge: The window ends, or a chunk begins, at another position than declared.
  trigger: logits agree with a window or a chunk of another length
  remedy: Count the tokens of the window or chunk as declared, and check < against <=.

relative-absolute: A relative index depends on one position alone, or on both, not on their
    difference.
  trigger: the result equals one computed from the key's, or the query's, own position
  remedy: Index by the difference of positions.

chain-bin: The bin of pairs without an offset (other chains or entities) is that of other pairs.
  trigger: the result equals one in which other pairs of tokens have this bin
  remedy: Chains are equal by asym_id, copies of one sequence by entity_id. AlphaFold 3's code gives
    the last bin of the chain block to different entities, its algorithm 3 to the same chain.

block-order: Blocks of a vector are concatenated in another order than the columns of the weight.
  trigger: the result equals one with the blocks in another order
  remedy: AlphaFold 3 concatenates residue, token, same entity, chain.

cyclic-offset: Offsets in a cyclic chain are not the shorter way round, or have lost their sign.
  trigger: the result equals one with offsets of an open chain, without sign, or modulo the period
  remedy: Use i - j - period * round((i - j) / period); the last residue is one before the first.

# Positions from a convolution

conv-padding: The values beyond the ends of the sequence are not zeros at both ends.
  trigger: the result equals one with zeros at one end, or with repeated or wrapped tokens
  remedy: Pad K // 2 zeros at both ends; if the kernel is even, drop the last token of the result.

conv-kernel: The kernel of a convolution is flipped or transposed, or another one than declared.
  trigger: the result equals one with the taps, or the channels of a group, in another order
  remedy: Weights are (outputs, inputs of the group, taps); tap 0 belongs to the earliest token.

conv-groups: Channels are sorted into groups by another rule.
  trigger: the result equals one with every groups-th channel in a group
  remedy: A group has consecutive channels.

conv-bias: The bias of a convolution is missing, subtracted or added twice.
  trigger: the result equals one with this change
  remedy: Add the bias once, after the sum.

conv-norm: The LayerNorm after a convolution is missing, over another axis, or at another place.
  trigger: the result equals one with this change
  remedy: data2vec-audio has a LayerNorm over the channels, without parameters, before GELU.

conv-layers: Layers are missing, or in another order.
  trigger: the result equals one of fewer layers, or of layers in reverse order
  remedy: Apply all declared layers, from the first to the last.

conv-residual: x is added although the declaration has the convolution alone, or the reverse.
  trigger: the difference from the declared result is x
  remedy: wav2vec 2.0 adds the result outside of the module; PEG and Twins add x inside.

weight-norm: The weight is normalised over other axes than declared, or not at all.
  trigger: the result equals one with the norm over other axes
  remedy: weight_norm(conv, dim=2): one gain and one norm for each tap, over all channels.

activation: Another activation function than declared is used.
  trigger: the result equals one with another activation
  remedy: wav2vec 2.0 has GELU with erf; PEG and Twins have none.

# Weights, layers and caches

permutation: Projection weights are permuted the wrong way, along the wrong axis, or across heads.
  trigger: the permuted rows equal those of the inverse, or of another, permutation
  remedy: Take the rows of each head in the order [0, d/2, 1, d/2 + 1, ...] to get from half to
    interleaved pairs, in the weights of q and k.

key-heads: Query heads read other key heads or value heads than declared.
  trigger: the output of attention equals one computed with another order of the key heads
  remedy: Query head h reads key head h // (H / H_kv): repeat each key head H / H_kv times.

value-rotation: Values of attention are not rotated as declared.
  trigger: the output equals one whose values have another rotation, or none
  remedy: Rotate the values to the positions of their keys, as the keys are, and the output back.

output-rotation: The output of attention is not rotated back to the position of its query.
  trigger: the output equals the weighted sum of rotated values with another rotation, or none
  remedy: Rotate the output by minus the position of the query, on the channels that are rotated.

sinks: The attention sinks of the heads are left out, or enter the softmax in another way.
  trigger: the output equals one computed without sinks, or with changed ones
  remedy: Add exp(sink) of the head to the denominator of its softmax, and no value to the sum.

norm-order: Norm and rotation are applied in the wrong order, or another norm than declared is used.
  trigger: with unequal norm weights, the values equal those of another order or of another norm
  remedy: Normalise and weight q and k over head_dim first, then rotate.

layer-schedule: Layers with and without positional encoding are not the declared ones.
  trigger: the flags of all layers equal those of another schedule
  remedy: Compare the flags with the configuration's own; no_rope_layers is 1 if a layer rotates.

state: The result depends on earlier calls.
  trigger: the same call, replayed after longer ones, returns other values
  remedy: Make every input that cached values depend on a part of the cache's key, or do not cache.

stale-cache: Some cached keys are rotated twice or not at all, or with other frequencies than the
    rest.
  trigger: the cache equals one whose keys were rotated at every step, or twice, or with the
    frequencies of the length at which each key was inserted
  remedy: Cache raw keys or rotated keys, and rotate each key once. If the frequencies change,
    rotate all raw keys again.

kept-keys: An eviction keeps or drops other keys of the cache than declared.
  trigger: the keys in the result are those of another number of kept keys, or of other dropped ones
  remedy: Keep the first keys, drop those after them, and keep all later ones.

harmless-convention: Tensors differ from the declared ones, but logits do not.
  trigger: q . k agrees in every call, although q and k do not
  remedy: Change nothing, unless other code compares these tensors or reads the same cached keys.
"""
