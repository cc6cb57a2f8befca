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
  remedy: Add the declared offset once: OPT and BART start at row 2, RoBERTa at padding_idx + 1.

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

far-keys: Keys are rotated by other distances from the query than declared, such as keys in another
    chunk, in a group or beyond the window.
  trigger: the logits are those of a known wrong rule, or of whole distances that are measured
  remedy: Compare the relative positions with the encoding's offsets(q_positions, k_positions).

window-edge: The window ends, or a chunk begins, at another position than declared.
  trigger: logits agree with a window or a chunk of another length
  remedy: Count the tokens of the window or chunk as declared, and check < against <=.

relative-absolute: A relative index depends on one position alone, or on both, not on their
    difference.
  trigger: the result equals one computed from the key's, or the query's, own position
  remedy: Index by the difference of positions.

chain-bin: Pairs of different chains, residues or entities have the bin of an offset, or other pairs
    than declared have the bin without an offset.
  trigger: the result equals one in which other pairs of tokens have this bin
  remedy: Chains are equal by asym_id, copies of one sequence by entity_id. AlphaFold 3's code gives
    the last bin of the chain block to different entities, its algorithm 3 to the same chain.

block-order: Blocks of a vector are concatenated in another order, so that the weight's columns meet
    the wrong blocks.
  trigger: the result equals one with the blocks in another order
  remedy: AlphaFold 3 concatenates residue, token, same entity, chain.

cyclic-offset: Offsets in a cyclic chain are not the shorter way round, or have lost their sign.
  trigger: the result equals one with offsets of an open chain, without sign, or modulo the period
  remedy: Use i - j - period * round((i - j) / period); the last residue is one before the first.

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
