"""The surfaces of table and bias encodings, of logits and of whole models."""

from __future__ import annotations

from typing import Any

import numpy as np

import posenc_ref
from posenc_ref import ALiBi, Attention, ModelEncoding

from .surface import ROWS, Function, Surface, method


def _bias(e: Any, dtype: str) -> Function:
    return lambda q_len, k_len: e.bias(
        range(k_len - q_len, k_len), range(k_len), dtype=np.dtype(dtype)
    )


def _attention(e: Any, dtype: str) -> Function:
    if isinstance(e, ModelEncoding):
        e = e.attention()
    of = e if isinstance(e, Attention) else Attention(e)
    return lambda q, k, v, q_at, k_at, sinks=None: of.output(q, k, v, q_at, k_at, sinks=sinks)


def _rank_slopes(e: Any, dtype: str) -> Function:
    def own(num_heads: int, tp_size: int, tp_rank: int) -> np.ndarray:
        held = num_heads // tp_size
        slopes = ALiBi(num_heads, max_bias=e.max_bias).slopes()
        return slopes[tp_rank * held : (tp_rank + 1) * held]

    return own


TABLES_AND_BIASES = (
    Surface(
        "table",
        "fn(positions) -> (S, dim)",
        lambda e, dtype: lambda positions: e.table(positions, dtype=np.dtype(dtype)),
        ("positions",),
        ("table",),
        "table.judge:judge_table",
        "identify.sinusoid:identify",
        ("table",),
        "one row for each of positions (S,): (S, dim)",
        least=128,
        axes=ROWS,
    ),
    Surface(
        "add",
        "fn(x (B, S, dim)) -> x plus the rows of positions 0 .. S-1",
        lambda e, dtype: lambda x: e.add(x, range(x.shape[-2])),
        ("x",),
        ("table",),
        "table.judge_grid_add:judge_add",
        outputs=("y",),
        meaning="x (B, S, dim) plus the rows of positions 0 .. S-1",
        axes=("batch row", "token", "channel"),
    ),
    Surface(
        "grid",
        "fn(height, width) -> (height * width, dim), row-major",
        lambda e, dtype: lambda height, width: e.grid(height, width, dtype=np.dtype(dtype)),
        ("height", "width"),
        ("table",),
        "table.judge_grid_add:judge_grid",
        outputs=("table",),
        meaning="one row for each patch of an image: (height * width, dim), in the order of the "
        "tokens",
        axes=ROWS,
    ),
    Surface(
        "convolve",
        "fn(x (B, S, dim)) -> (B, S, dim)",
        method("convolve"),
        ("x",),
        ("convolution",),
        meaning="the output of the layers, without x unless the declaration has residual",
        axes=("batch row", "token", "channel"),
    ),
    Surface(
        "convolve_grid",
        "fn(x (B, height * width, dim), height, width) -> like x",
        method("convolve"),
        ("x", "height", "width"),
        ("convolution grid",),
        meaning="the output of the layers for patches, row by row, with x if the declaration has "
        "residual",
        axes=("batch row", "patch", "channel"),
    ),
    Surface(
        "slopes",
        "fn(num_heads) -> (H,)",
        lambda e, dtype: lambda n: e.replace(num_heads=n).slopes().astype(dtype),
        ("num_heads",),
        ("alibi",),
        "bias.judge_slopes:judge_slopes",
        "identify.slopes:identify",
        ("slopes",),
        "the slope of every head, positive",
        axes=("head",),
    ),
    Surface(
        "bias",
        "fn(q_len, k_len) -> broadcastable to (H, Q, K); query i has position k_len - q_len + i",
        _bias,
        ("q_len", "k_len"),
        ("bias",),
        "bias.judge:judge_bias",
        "identify.bias:identify",
        ("bias",),
        "(H, Q, K), or an array that broadcasts to it; query i has position k_len - q_len + i",
        axes=("head", "query", "key"),
    ),
    Surface(
        "bucket",
        "fn(relative_position) -> integers; relative_position is key position minus query position",
        method("bucket"),
        ("relative_position",),
        ("t5",),
        "bias.judge_buckets:judge_bucket",
        "identify.buckets:identify",
        ("bucket",),
        "the bucket of every relative position (key position minus query position), integers",
    ),
    Surface(
        "scores",
        "fn(q, k) -> logits (B, H, Q, K) before the mask; query i has position K - Q + i",
        lambda e, dtype: (
            lambda q, k: posenc_ref.scores(
                e, q, k, np.arange(k.shape[-2] - q.shape[-2], k.shape[-2]), range(k.shape[-2])
            )
        ),
        ("q", "k"),
        ("rotary", "table", "bias", "score", "model"),
        "score.judge:judge",
        "identify.scores:identify",
        ("logits",),
        "logits (B, H, Q, K) of positions 0 .. S-1, before mask and softmax, with the encoding's "
        "own scale",
        axes=("batch row", "head", "query", "key"),
    ),
    Surface(
        "attention",
        "fn(q (B, H, Q, D), k (B, H_kv, K, D), v (B, H_kv, K, D_v), q_positions, k_positions) -> "
        "(B, H, Q, D_v); with sinks declared, sinks (H,) is the last argument",
        _attention,
        ("q", "k", "v", "q_positions", "k_positions", "sinks"),
        ("rotary", "bias", "score", "model", "attention"),
        "attention.judge:judge",
        "identify.attention:identify",
        meaning="softmax(logits) v before the output projection, of q, k and v before their "
        "rotation; queries are the last Q tokens, and see no later key unless Attention("
        "causal=False) is declared; v is k if Attention(values='shared') is",
        axes=("batch row", "head", "query", "channel"),
    ),
    Surface(
        "rank_slopes",
        "fn(num_heads, tp_size, tp_rank) -> the slopes of the rank's own heads",
        _rank_slopes,
        ("num_heads", "tp_size", "tp_rank"),
        ("alibi",),
        meaning="the slopes (H / tp_size,) of the heads of one tensor-parallel rank",
        axes=("head",),
    ),
    Surface(
        "ids_from_tokens",
        "fn(input_ids) -> integers, for Learned(padding_idx=)",
        method("ids_from_tokens"),
        ("input_ids",),
        ("padded table",),
        outputs=("position_ids",),
        meaning="positions computed from token ids, as in RoBERTa, where padding has a row of its "
        "own",
        axes=("batch row", "token"),
    ),
    Surface(
        "rows",
        "fn(seq_len) -> (S, dim)",
        lambda e, dtype: lambda n: np.asarray(posenc_ref.rows(e, n)),
        ("seq_len",),
        ("table",),
        meaning="the rows of positions 0 .. seq_len-1, (S, dim)",
        axes=ROWS,
    ),
    Surface(
        "layers",
        "fn(n_layers) -> a bool for each layer: whether it has a positional encoding",
        lambda model, dtype: lambda n: posenc_ref.layers(model, n),
        ("n_layers",),
        ("model",),
        meaning="n_layers values",
        axes=("layer",),
    ),
    Surface(
        "softmax_scale",
        "fn() -> the product of all factors on q . k before the softmax",
        lambda model, dtype: lambda: posenc_ref.softmax_scale(model),
        (),
        ("model",),
        meaning="one number, such as 1/sqrt(head_dim)",
    ),
)
