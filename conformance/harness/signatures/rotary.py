"""The surfaces of rotary encodings."""

from __future__ import annotations

from typing import Any

import numpy as np

import posenc_ref

from .surface import ROWS, Function, Surface, X, method

#: The smallest ``max_position``: positions below it are always judged.
_LEAST = 128


def _from(e: Any, offset: np.ndarray, tokens: int) -> np.ndarray:
    """Return the positions of consecutive tokens, the same on all axes, from ``offset`` (B,) on."""
    at = np.asarray(offset)[:, None] + np.arange(tokens)
    return at if e.num_axes == 1 else np.broadcast_to(at, (e.num_axes, *at.shape))


def _in_chunks(e: Any, dtype: str) -> Function:
    """Return a function that rotates a sequence chunk by chunk, at consecutive positions."""

    def fed(x: np.ndarray, chunks: list[int]) -> np.ndarray:
        ends = np.cumsum(chunks).tolist()
        parts = [
            e.apply(x[..., end - n : end, :], range(end - n, end))
            for n, end in zip(chunks, ends, strict=True)
        ]
        return np.concatenate(parts, axis=-2)

    return fed


def _frequencies(e: Any, dtype: str) -> Function:
    return lambda seq_len=None: (
        e.frequencies(seq_len).astype(dtype),
        np.asarray(e.attention_factor(seq_len), dtype),
    )


def _permuted(e: Any, dtype: str) -> Function:
    sizes = {}
    if e is not None:
        sizes = {name: getattr(e, name) for name in ("head_dim", "rotary_dim", "rotary_start")}
    return lambda w, n_heads: posenc_ref.permute_weights(w, n_heads, **sizes)


ROTARY = (
    Surface(
        "apply",
        "fn(x, positions) -> like x; --tensor-layout sets the axis order of both",
        method("apply"),
        ("x", "positions"),
        ("rotary", "heads"),
        "functions.judge:judge_apply",
        "identify.rotary:identify",
        ("y",),
        "x (B, H, S, D) rotated to positions (S,), (B, S) or (A, B, S)",
        one_map=True,
        least=_LEAST,
        axes=X,
    ),
    Surface(
        "apply_qk",
        "fn(q, k, q_positions, k_positions) -> (q', k')",
        lambda e, dtype: (
            lambda q, k, q_at, k_at: (
                getattr(e, "apply_queries", e.apply)(q, q_at),
                getattr(e, "apply_keys", e.apply)(k, k_at),
            )
        ),
        ("q", "k", "q_positions", "k_positions"),
        ("rotary",),
        "sequences.judge_qk:judge",
        meaning="q and k (B, H, S, D) rotated to their positions, each (S,), (B, S) or (A, B, S)",
        least=_LEAST,
        axes=X,
    ),
    Surface(
        "apply_vjp",
        "fn(x, positions, dy) -> dx, the transposed (not the inverse) rotation of dy",
        lambda e, dtype: lambda x, positions, dy: e.adjoint(dy, positions),
        ("x", "positions", "dy"),
        ("rotary",),
        "sequences.judge_vjp:judge",
        outputs=("dx",),
        meaning="the gradient of x for the gradient dy of y: dy rotated by the transpose, whatever "
        "x is",
        one_map=True,
        least=_LEAST,
        axes=X,
    ),
    Surface(
        "apply_offset",
        "fn(x, offset (B,)) -> like x; row b starts at offset[b]",
        lambda e, dtype: lambda x, offset: e.apply(x, _from(e, offset, x.shape[-2])),
        ("x", "offset"),
        ("rotary",),
        "sequences.judge_offsets:judge",
        outputs=("y",),
        meaning="x (B, H, S, D) rotated, row b from position offset[b] on",
        one_map=True,
        least=_LEAST,
        axes=X,
    ),
    Surface(
        "calls",
        "fn([(x, offset), ...]) -> a list; independent calls of one instance, in order",
        lambda e, dtype: lambda calls: [e.apply(x, range(at, at + x.shape[-2])) for x, at in calls],
        ("x", "offset"),
        ("rotary",),
        "sequences.judge_calls:judge",
        meaning="each x (B, H, S, D) rotated to the positions from its offset on",
        one_map=True,
        least=_LEAST,
        axes=X,
    ),
    Surface(
        "decode",
        "fn(x, chunks) -> like x, fed in chunks of these lengths to one incremental instance",
        _in_chunks,
        ("x", "chunks"),
        ("rotary",),
        "sequences.judge_chunks:judge_decode",
        outputs=("y",),
        meaning="the joined results of one instance that gets x (B, H, S, D) in chunks of these "
        "lengths",
        one_map=True,
        least=_LEAST,
        axes=X,
    ),
    Surface(
        "key_cache",
        "fn(k, chunks) -> all keys, with the frequencies of the length after the last chunk",
        _in_chunks,
        ("k", "chunks"),
        ("rotary",),
        "sequences.judge_chunks:judge_key_cache",
        outputs=("k",),
        meaning="the rotated keys in the cache after the last chunk",
        one_map=True,
        least=_LEAST,
        axes=X,
    ),
    Surface(
        "shift_keys",
        "fn(rotated_k, delta) -> like rotated_k, moved on by delta positions",
        lambda e, dtype: lambda k, delta: e.shift(k, delta),
        ("k", "delta"),
        ("rotary",),
        "sequences.judge_shift:judge",
        outputs=("k",),
        meaning="the rotated keys k, rotated further by delta positions",
        one_map=True,
        least=_LEAST,
        axes=X,
    ),
    Surface(
        "evict_keys",
        "fn(rotated_k, kept, dropped) -> (B, H, S - dropped, D): the first kept keys, and those "
        "after the next dropped ones, moved back by dropped positions",
        lambda e, dtype: lambda k, kept, dropped: posenc_ref.evict_keys(e, k, kept, dropped),
        ("k", "kept", "dropped"),
        ("rotary",),
        outputs=("k",),
        meaning="the rotated keys of a full cache, whose positions are then their places in the "
        "cache: attention sinks, or a context shift with n_keep",
        one_map=True,
        axes=X,
    ),
    Surface(
        "cos_sin",
        "fn(positions) -> (cos, sin), each (S, d/2) or (S, d)",
        lambda e, dtype: lambda positions: e.cos_sin(positions, dtype=np.dtype(dtype)),
        ("positions",),
        ("rotary",),
        "table.judge:judge_cos_sin",
        "identify.table:cos_sin",
        ("cos", "sin"),
        "cos and sin at positions (S,), times the attention factor, each (S, d/2); (S, d) is "
        "accepted",
        least=_LEAST,
        axes=ROWS,
    ),
    Surface(
        "frequencies",
        "fn() -> (d/2,), or (frequencies, attention factor); fn(seq_len) if they depend on the "
        "length",
        _frequencies,
        ("seq_len",),
        ("rotary",),
        "rotary.judge_frequencies:judge",
        "identify.table:frequencies",
        ("frequencies", "attention_factor"),
        "radians per position of every pair (d/2,), and the attention factor, which may be left "
        "out; seq_len is given if the scaling depends on the length",
        axes=("pair",),
    ),
    Surface(
        "permute_weights",
        "fn(w (H*D, hidden), n_heads) -> like w; rows from half to interleaved",
        _permuted,
        ("w", "n_heads"),
        ("none", "rope"),
        outputs=("w",),
        meaning="rows of w (H * D, hidden) moved from half-split to interleaved pairs",
    ),
    Surface(
        "normed_apply",
        "fn(x, weight (D,), positions) -> like x: RMSNorm over the head, then rotated",
        lambda e, dtype: lambda x, w, positions: posenc_ref.normed_apply(e, x, w, positions),
        ("x", "weight", "positions"),
        ("rotary",),
        outputs=("y",),
        meaning="x divided by its root mean square (eps 1e-6), times weight, then rotated",
        one_map=True,
        axes=X,
    ),
    Surface(
        "apply_queries",
        "fn(x, positions) -> like x",
        method("apply_queries"),
        ("x", "positions"),
        outputs=("y",),
        meaning="xPos's map of queries",
        axes=X,
    ),
    Surface(
        "apply_keys",
        "fn(x, positions) -> like x",
        method("apply_keys"),
        ("x", "positions"),
        outputs=("y",),
        meaning="xPos's map of keys",
        axes=X,
    ),
    Surface(
        "convert_layout",
        "fn(x, source, target, rotary_dim) -> like x",
        lambda e, dtype: (
            lambda x, source, target, rotary_dim: posenc_ref.convert_layout(
                x, source=source, target=target, rotary_dim=rotary_dim
            )
        ),
        ("x", "source", "target", "rotary_dim"),
        outputs=("y",),
        meaning="the channels of x (..., head_dim) moved from one layout to the other",
        axes=X,
    ),
)
