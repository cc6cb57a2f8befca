"""Scores with a rotation for each pair of positions: dual chunks, Self-Extend, ReRoPE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc_ref import DualChunk, ReRoPE, RoPE, SelfExtend, YaRN
from posenc_ref.conformance.exact.digits import mpmath
from posenc_ref.conformance.exact.error_numbers import Counted, cos, dot, root, sin, total
from posenc_ref.conformance.exact.reference import tokens
from posenc_ref.conformance.exact.rotation import channels
from posenc_ref.conformance.exact.schedules import frequencies, magnitude

from . import each_key, register

Vector = Sequence[Any]

_ROPE = RoPE(8, layout="half", base=100.0)
_PART = RoPE(6, layout="interleaved", base=50.0, rotary_dim=4, rotary_start=2, sign=-1)
_YARN = RoPE(4, layout="half", scaling=YaRN(4.0, 16))


def product(rope: RoPE, q: Vector, k: Vector, query: Any, key: Any) -> Counted:
    """Return ``R(query) q . R(key) k`` by the relative position, ``key - query``."""
    d = rope.rotary_dim or rope.head_dim
    m = magnitude(rope.scaling, None)
    pairs = channels(rope, d // 2)
    offset = Counted(key) - Counted(query)
    terms = []
    for (a, b), w in zip(pairs, frequencies(rope.scaling, rope.base, d, None), strict=True):
        angle = offset * w * rope.sign
        crossed = Counted(q[b]) * k[a] - Counted(q[a]) * k[b]
        terms.append(dot((q[a], q[b]), (k[a], k[b])) * cos(angle) + crossed * sin(angle))
    rotated = {c for pair in pairs for c in pair}
    passed = [c for c in range(rope.head_dim) if c not in rotated]
    found: Counted = total(terms) * m * m
    return found + dot([q[c] for c in passed], [k[c] for c in passed])


@register(
    DualChunk,
    spec="An et al. 2024, arXiv:2402.17463, section 3; vLLM, dual_chunk_rope.py and "
    "dual_chunk_flash_attn.py",
    examples={
        "dual-chunk": DualChunk(_ROPE, chunk_size=4, local_size=1),
        "dual-chunk-temperature": DualChunk(
            _PART, chunk_size=3, local_size=2, original_max_position=4
        ),
    },
    inputs=lambda e: [tokens(f"dual-chunk-{e.chunk_size}", 2, e.head_dim, 10)],
)
def dual_chunk(e: DualChunk, h: int, q: Vector, keys: Sequence[Vector], i: int, at: Any) -> Vector:
    """Return the logits of one query, key by key."""
    return [_dual_chunk(e, q, k, i, j, max(at)) for k, j in zip(keys, at, strict=True)]


def _dual_chunk(e: DualChunk, q: Vector, k: Vector, i: int, j: int, last: int) -> Counted:
    length = e.chunk_size - e.local_size
    (chunk_i, query), (chunk_j, key) = divmod(i, length), divmod(j, length)
    if chunk_i - chunk_j == 1:
        query = min(query + length, e.chunk_size)
    elif chunk_i - chunk_j > 1:
        query = min(length - 1 + length, e.chunk_size)
    t = mpmath().mp.mpf(1)
    if e.original_max_position is not None and last + 1 > e.original_max_position:
        ratio = mpmath().mp.mpf(last + 1) / e.original_max_position
        t += mpmath().mp.log(ratio) * mpmath().mp.mpf(0.1)
    logit: Counted = product(e.rope, q, k, query, key) * (t * t)
    return logit / root(len(q))


@register(
    SelfExtend,
    spec="Jin et al. 2024, LLM Maybe LongLM, arXiv:2401.01325, section 3 and algorithm 1",
    examples={
        "self-extend": SelfExtend(_ROPE, group=2, window=3),
        "self-extend-yarn": SelfExtend(_YARN, group=3, window=2),
    },
)
@each_key
def self_extend(e: SelfExtend, h: int, q: Vector, k: Vector, i: int, j: int) -> Counted:
    """Return the product at the positions, or at those of their groups."""
    if i - j < e.window:
        return product(e.rope, q, k, i, j) / root(len(q))
    query = i // e.group + (e.window - e.window // e.group)
    return product(e.rope, q, k, query, j // e.group) / root(len(q))


@register(
    ReRoPE,
    spec="Su 2023, kexue.fm/archives/9708; bojone/rerope, rerope_patch.py, leaky_rerope_patch.py",
    examples={
        "rerope": ReRoPE(_ROPE, window=3),
        "rerope-leaky": ReRoPE(_PART, window=2, factor=4.0),
    },
)
@each_key
def rerope(e: ReRoPE, h: int, q: Vector, k: Vector, i: int, j: int) -> Counted:
    """Return the product at the positions, or at those of the slower rotation."""
    query, key = mpmath().mp.mpf(i), mpmath().mp.mpf(j)
    if i - j >= e.window:
        if e.factor is None:
            query, key = mpmath().mp.mpf(e.window), mpmath().mp.mpf(0)
        else:
            query, key = (query + e.window * (e.factor - 1)) / e.factor, key / e.factor
    return product(e.rope, q, k, query, key) / root(len(q))
