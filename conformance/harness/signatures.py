"""How every surface calls a function, and what it wants back: one line each."""

from __future__ import annotations

#: x, q and k are (B, H, S, D), positions (S,), sometimes (B, S), or (A, B, S) for A > 1 axes.
CALLS: dict[str, str] = {
    "apply": "fn(x, positions) -> like x; in another tensor layout with --tensor-layout",
    "apply_qk": "fn(q, k, q_positions, k_positions) -> (q', k')",
    "apply_vjp": "fn(x, positions, dy) -> dx, the adjoint m R(-p) dy and not the inverse",
    "apply_offset": "fn(x, offset (B,)) -> like x; row b starts at offset[b]",
    "calls": "fn([(x, offset), ...]) -> a list; independent calls of one instance, in order",
    "decode": "fn(x, chunks) -> like x, fed in chunks of these lengths to one incremental instance",
    "key_cache": "fn(k, chunks) -> all keys after the last chunk, rotated as at the last length",
    "shift_keys": "fn(rotated_k, delta) -> like rotated_k, moved on by delta positions",
    "cos_sin": "fn(positions) -> (cos, sin), each (S, d/2) or (S, d)",
    "frequencies": "fn() -> (d/2,), or (frequencies, attention factor); fn(seq_len) where they "
    "depend on the length",
    "table": "fn(positions) -> (S, dim)",
    "add": "fn(x (B, S, dim)) -> x plus the rows of positions 0 .. S-1",
    "grid": "fn(height, width) -> (height * width, dim), row-major",
    "slopes": "fn(num_heads) -> (H,)",
    "rank_slopes": "fn(num_heads, tp_size, tp_rank) -> the slopes of the rank's own heads",
    "bias": "fn(q_len, k_len) -> broadcastable to (H, Q, K); query i stands at k_len - q_len + i",
    "bucket": "fn(relative_position) -> integers; key minus query goes in",
    "scores": "fn(q, k) -> logits (B, H, Q, K) before the mask; query i stands at K - Q + i",
    "permute_weights": "fn(w (H*D, hidden), n_heads) -> like w; rows from half to interleaved",
    "normed_apply": "fn(x, weight (D,), positions) -> like x: RMSNorm over the head, then rotated",
    "relative_index": "fn((height, width)) -> (N, N), equal exactly where the offsets are",
    "relative_shift": "fn(x (Q, K)) -> (Q, K), columns by distance K-1 .. 0; judged on j <= i",
    "relative_scores": "fn(q (S, d), rel (2S-1, d)) -> (S, S); rel[m] is the offset i-j = S-1-m",
    "position_ids": "fn(attention_mask (B, S)) -> integers; judged where the mask is 1",
    "packed": "fn(lengths) -> integers (sum of lengths,); every document starts at 0",
    "decode_positions": "fn(prompt_len, n_steps) -> integers (n_steps,), or (B, n_steps)",
    "shard_positions": "fn(cu_seqlens, cp_size, cp_rank) -> integers; zig-zag halves of sequences",
    "ids_from_tokens": "fn(input_ids) -> integers, for Learned(padding_idx=)",
    "rows": "fn(seq_len) -> (S, dim)",
    "layers": "fn(n_layers) -> a bool for each layer: whether it has a positional encoding",
    "softmax_scale": "fn() -> the whole factor on q . k",
}
