"""The surfaces that vectors exist for: their arguments, and our own function of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import posenc_ref

Function = Callable[..., Any]


@dataclass(frozen=True)
class Surface:
    """The shape in which an encoding is exposed."""

    call: str  #: positional arguments in order, of which a case has those it needs, and outputs
    says: str  #: what the documentation says of it
    ours: Callable[[Any, str], Function]  #: of an encoding and a dtype

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the arguments."""
        return tuple(self.call.partition(" -> ")[0].split(", "))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(self.call.partition(" -> ")[2].split(", "))


def _method(name: str) -> Callable[[Any, str], Function]:
    return lambda e, dtype: getattr(e, name)


def _plain(fn: Function) -> Callable[[Any, str], Function]:
    return lambda e, dtype: fn


def _offset(e: Any, dtype: str) -> Function:
    return lambda x, offset: e.apply(x, offset[:, None] + np.arange(x.shape[-2]))


def _in_chunks(e: Any, dtype: str) -> Function:
    """Chunk by chunk, each from where the one before ended."""

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


def _bias(e: Any, dtype: str) -> Function:
    return lambda q_len, k_len: e.bias(
        range(k_len - q_len, k_len), range(k_len), dtype=np.dtype(dtype)
    )


def _scores(e: Any, dtype: str) -> Function:
    return lambda q, k: posenc_ref.scores(e, q, k, range(q.shape[-2]), range(k.shape[-2]))


SURFACES: dict[str, Surface] = {
    "apply": Surface(
        "x, positions -> y",
        "x (B, H, S, D) rotated to positions (S,), (B, S) or (A, B, S)",
        _method("apply"),
    ),
    "apply_offset": Surface(
        "x, offset -> y", "x (B, H, S, D) rotated, row b from position offset[b] on", _offset
    ),
    "decode": Surface(
        "x, chunks -> y",
        "x (B, H, S, D) fed in chunks of these lengths (a list) to one instance, joined again",
        _in_chunks,
    ),
    "key_cache": Surface(
        "k, chunks -> k", "the rotated keys in the cache after the last chunk", _in_chunks
    ),
    "apply_vjp": Surface(
        "x, positions, dy -> dx",
        "the gradient dx for the gradient dy of y: m R(-p) dy, whatever x",
        lambda e, dtype: lambda x, positions, dy: e.adjoint(dy, positions),
    ),
    "shift_keys": Surface(
        "k, delta -> k",
        "keys that were rotated before, moved on by delta positions",
        lambda e, dtype: lambda k, delta: e.shift(k, delta),
    ),
    "normed_apply": Surface(
        "x, weight, positions -> y",
        "x over its root mean square (eps 1e-6) times weight, then rotated",
        lambda e, dtype: lambda x, w, positions: posenc_ref.normed_apply(e, x, w, positions),
    ),
    "apply_queries": Surface(
        "x, positions -> y", "xPos's map of queries", _method("apply_queries")
    ),
    "apply_keys": Surface("x, positions -> y", "xPos's map of keys", _method("apply_keys")),
    "cos_sin": Surface(
        "positions -> cos, sin",
        "m cos and m sin at positions (S,), each (S, d/2); (S, d) is accepted",
        lambda e, dtype: lambda positions: e.cos_sin(positions, dtype=np.dtype(dtype)),
    ),
    "frequencies": Surface(
        "seq_len -> frequencies, attention_factor",
        "radians per position of every pair (d/2,), and m, which may be left out; seq_len is "
        "given where the scaling depends on it",
        _frequencies,
    ),
    "table": Surface(
        "positions -> table",
        "one row for each of positions (S,): (S, dim)",
        lambda e, dtype: lambda positions: e.table(positions, dtype=np.dtype(dtype)),
    ),
    "grid": Surface(
        "height, width -> table",
        "one row for each patch of an image: (height * width, dim), in the order of the tokens",
        lambda e, dtype: lambda height, width: e.grid(height, width, dtype=np.dtype(dtype)),
    ),
    "add": Surface(
        "x -> y",
        "x (B, S, dim) plus the rows of positions 0 .. S-1",
        lambda e, dtype: lambda x: e.add(x, range(x.shape[-2])),
    ),
    "slopes": Surface(
        "num_heads -> slopes",
        "the slope of every head, positive",
        lambda e, dtype: lambda num_heads: e.replace(num_heads=num_heads).slopes().astype(dtype),
    ),
    "bias": Surface(
        "q_len, k_len -> bias",
        "(H, Q, K) or what broadcasts to it; query i sits at k_len - q_len + i",
        _bias,
    ),
    "bucket": Surface(
        "relative_position -> bucket",
        "the bucket of each key position minus query position, integers",
        _method("bucket"),
    ),
    "scores": Surface(
        "q, k -> logits",
        "logits (B, H, Q, K) of positions 0 .. S-1, before mask and softmax, with the encoding's "
        "own scale",
        _scores,
    ),
    "convert_layout": Surface(
        "x, source, target, rotary_dim -> y",
        "the channels of x (..., head_dim) moved from one layout to the other",
        _plain(
            lambda x, source, target, rotary_dim: posenc_ref.convert_layout(
                x, source=source, target=target, rotary_dim=rotary_dim
            )
        ),
    ),
    "permute_weights": Surface(
        "w, n_heads -> w",
        "rows of w (H * D, hidden) moved from half-split to interleaved pairs",
        _plain(posenc_ref.permute_weights),
    ),
    "relative_shift": Surface(
        "x -> y",
        "scores (Q, K) by distance K-1 .. 0, moved to their keys; judged up to the query",
        _plain(posenc_ref.relative_shift),
    ),
    "relative_scores": Surface(
        "q, rel -> y",
        "q_i . rel[S - 1 - (i - j)] for q (S, d) and rel (2S - 1, d)",
        _plain(posenc_ref.relative_scores),
    ),
    "position_ids": Surface(
        "attention_mask -> position_ids",
        "positions that count the real tokens of each row (B, S); 0 for padding",
        _plain(posenc_ref.position_ids),
    ),
    "packed": Surface(
        "lengths -> position_ids",
        "positions of documents one after the other",
        _plain(posenc_ref.packed),
    ),
    "decode_positions": Surface(
        "prompt_len, n_steps -> position_ids",
        "positions of the tokens generated after prompts of so many real tokens",
        _plain(posenc_ref.decode_positions),
    ),
    "shard_positions": Surface(
        "cu_seqlens, cp_size, cp_rank -> position_ids",
        "positions of the tokens of a context-parallel rank: zig-zag halves of each sequence",
        _plain(posenc_ref.shard_positions),
    ),
    "mrope_positions": Surface(
        "token_types, image_grids, video_grids -> position_ids",
        "positions (3, B, S) of text (0), image (1) and video (2) tokens; grids (n, 3) in patches, "
        "merged two by two",
        _plain(
            lambda types, images, videos: posenc_ref.mrope_positions(
                types, image_grids=images, video_grids=videos
            )
        ),
    ),
    "grid_positions": Surface(
        "height, width, merge_size -> position_ids",
        "row and column (2, height * width) of every patch; the patches of a block of merge_size "
        "squared follow each other",
        _plain(
            lambda height, width, merge: posenc_ref.grid_positions(height, width, merge_size=merge)
        ),
    ),
    "ids_from_tokens": Surface(
        "input_ids -> position_ids",
        "positions of tokens where padding has a row of its own",
        _method("ids_from_tokens"),
    ),
}

#: Inputs that are handed over as a list of integers.
LISTS = ("chunks",)
#: Outputs that a function may leave out.
OPTIONAL = ("attention_factor",)


def own_function(surface: str, encoding: Any, dtype: str = "float32") -> Function:
    """``posenc_ref``'s function of a surface, as a vector wants to call it."""
    return SURFACES[surface].ours(encoding, dtype)
