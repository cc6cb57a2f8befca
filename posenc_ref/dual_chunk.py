"""Dual chunk attention: no query is rotated further from a key than the model was trained for."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from . import _validate as validate
from ._namespace import Array, astype, device_of, has_float64, namespace
from .rope import RoPE
from .rotary_score import RotaryScore, check_rope


@dataclass(frozen=True, eq=False, repr=False)
class DualChunk(RotaryScore):
    """Dual chunk attention (DCA).

    Formula
        ``scores_ij = t ** 2 R(i') q_i . R(j') k_j / sqrt(d)`` for keys up to the query, with
        ``C = chunk_size - local_size``, ``j' = j mod C``, and by the distance of the chunks,
        ``i // C - j // C``:
        0 (intra)       ``i' = i mod C``
        1 (successive)  ``i' = min(i mod C + C, chunk_size)``
        2 or more       ``i' = min(2C - 1, chunk_size)``
        ``t = max(1, 0.1 ln(L / original_max_position) + 1)``, where L is the largest position of
        the call plus 1; 1 without ``original_max_position``.
    Source
        An et al. 2024, *Training-Free Long-Context Scaling of Large Language Models*,
        arXiv:2402.17463, section 3; HKUNLP/ChunkLlama, chunkllama_attn_replace.py.  Qwen2.5-1M
        (arXiv:2501.15383) with vLLM, dual_chunk_rope.py and dual_chunk_flash_attn.py: the same
        positions, and t.
    Traps
        Chunks have C tokens, not ``chunk_size``.  The paper ends at its chunk size c minus 1,
        ``min(i mod s + s, c - 1)``; the released codes end at ``chunk_size``.  The paper's encoding
        is ``DualChunk(rope, chunk_size=c - 1, local_size=c - 1 - s)``.  vLLM multiplies keys by t
        and the softmax scale by t, which gives ``t ** 2``; while decoding, its cached keys keep the
        t of the length at which they were computed.  transformers does not read
        ``dual_chunk_attention_config``: it computes plain RoPE, which agrees for tokens of one
        chunk.  The first chunk of a sequence alone shows no mistake.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|scale|`` times the sum over channel pairs of ``m ** 2 ((|q1 k1| + |q2 k2|) |cos| +
        (|q2 k1| + |q1 k2|) |sin|)``, plus ``|q k|`` of the other channels; B = ``|scale|`` times
        the sum of ``m ** 2 (|q1| + |q2|) (|k1| + |k2|) (|i'| + |j'|) theta``, because
        implementations rotate q by i' and k by j'.  Both times ``t ** 2``.

    Parameters
    ----------
    rope : RoPE
        The rotation; its frequencies must not depend on the length.
    chunk_size : int
        The largest position of a query, at least 1.
    local_size : int
        ``chunk_size - C``, from 0 to ``chunk_size - 1``.  Queries up to this place in their chunk
        see the chunk before at its true distance.
    original_max_position : int, optional
        The trained length, for the factor ``t ** 2`` on the logits of longer sequences
        (``original_max_position_embeddings`` in configurations). None: no factor.
    """

    rope: RoPE
    _: KW_ONLY
    chunk_size: int
    local_size: int
    original_max_position: int | None = None

    def __post_init__(self) -> None:
        check_rope(self.rope)
        size = validate.integer("chunk_size", self.chunk_size, minimum=1)
        local = validate.integer("local_size", self.local_size, minimum=0)
        if local >= size:
            raise ValueError(
                f"local_size must be below chunk_size = {size}, so that a chunk has at least one "
                f"token, got {local}"
            )
        trained = self.original_max_position
        if trained is not None:
            trained = validate.integer("original_max_position", trained, minimum=1)
        self._set(chunk_size=size, local_size=local, original_max_position=trained)

    @property
    def chunk_length(self) -> int:
        """The number of tokens C of a chunk, ``chunk_size - local_size``."""
        return self.chunk_size - self.local_size

    @property
    def properties(self) -> frozenset[str]:
        """Only ``prefix``, and nothing with a factor that later tokens change."""
        return frozenset({"prefix"} if self.original_max_position is None else ())

    @property
    def telling_lengths(self) -> tuple[int, ...]:
        """The first and the last query that meets three chunks, and one between."""
        c = self.chunk_length
        lengths: tuple[int, ...] = (2 * c + 1, 2 * c + 1 + c // 2, 3 * c)
        if self.original_max_position is not None:
            lengths += (2 * self.original_max_position,)
        return tuple(dict.fromkeys(lengths))

    def _farthest(self, last: int) -> float:
        return min(last, 2 * self.chunk_length - 1, self.chunk_size)

    def _places(self, q_at: Array, k_at: Array) -> tuple[Array, Array]:
        c, xp = self.chunk_length, namespace(q_at)
        apart = q_at // c - k_at // c
        query, key = q_at % c + 0 * k_at, k_at % c + 0 * q_at
        next_to = xp.where(query + c < self.chunk_size, query + c, self.chunk_size + 0 * query)
        far = min(2 * c - 1, self.chunk_size) + 0 * query
        return xp.where(apart < 1, query, xp.where(apart < 2, next_to, far)), key

    def _temperature(self, q_at: Array, k_at: Array) -> Any:
        if self.original_max_position is None:
            return 1.0
        if 0 in (*q_at.shape, *k_at.shape):
            return 1.0
        xp = namespace(q_at)
        wide = xp.float64 if has_float64(xp, device_of(q_at)) else xp.float32
        last = [xp.max(at) for at in (q_at, k_at)]
        length = astype(xp.where(last[0] < last[1], last[1], last[0]) + 1, wide)
        ratio = length / float(self.original_max_position)
        ratio = xp.where(ratio < 1.0, xp.ones_like(ratio), ratio)
        return (0.1 * xp.log(ratio) + 1.0) ** 2
