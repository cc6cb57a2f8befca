"""The attention operators of ONNX Runtime that rotate inside, and how each of them is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .attention import attention_bound
from .attention_defined import defined_bound
from .attention_sparse import sparse_bound
from .binding import Bound
from .model import Part, attributes, kind


@dataclass(frozen=True)
class Kind:
    """The indices of the inputs of an operator that concern the rotation."""

    tables: tuple[int, int]  #: cos_cache and sin_cache
    cache: int  #: the keys before the call, whose last axis is the size of a head
    ids: int | None  #: position_ids
    runs: bool = True  #: whether ONNX Runtime has a CPU kernel


GROUP_QUERY = "com.microsoft.GroupQueryAttention"
SPARSE = "com.microsoft.SparseAttention"
#: Operators with tables among their inputs; they rotate if ``do_rotary`` is set.
KINDS = {
    GROUP_QUERY: Kind((7, 8), 3, 9),
    SPARSE: Kind((9, 10), 3, None),
    "com.microsoft.PagedAttention": Kind((8, 9), 3, None, runs=False),
    "com.microsoft.SparsePagedAttention": Kind((14, 15), 3, None, runs=False),
    "com.microsoft.DynamicSparseAttention": Kind((11, 12), 3, 13, runs=False),
}
_NO_TABLES = "it takes no cos and sin, and ONNX Runtime does not rotate in it on a CPU"
_INDEXER = "ONNX Runtime has no CPU kernel, and it returns indices of tokens only"
#: Why operators that may rotate are not judged.
UNJUDGED = {
    "com.microsoft.Attention": _NO_TABLES,
    "com.microsoft.DecoderMaskedSelfAttention": _NO_TABLES,
    "com.microsoft.QAttention": "ONNX Runtime ignores the attribute on a CPU and rotates nothing",
    "com.microsoft.SparseAttentionIndexer": _INDEXER,
    "com.microsoft.PackedSparseAttentionIndexer": _INDEXER,
}


def unjudged(node: Any) -> str:
    """Return why a node that may rotate inside is not judged; empty if it is, or has no need."""
    reason = UNJUDGED.get(kind(node), "")
    if reason is _INDEXER:
        return f"({kind(node)}) is not judged: {reason}"
    rotates = reason and attributes(node).get("do_rotary")
    return f"({kind(node)}, do_rotary=1) is not judged: {reason}" if rotates else ""


def attention_calls(
    node: Any, part: Part, head_dims: list[int]
) -> Iterator[tuple[str, str, Callable[[], Bound]]]:
    """Yield what is judged of a node, a key that is equal for equal nodes, and how to bind it.

    ``part`` computes cos and sin.
    """
    of, settings = KINDS[kind(node)], attributes(node)
    interleaved = int(settings.get("rotary_interleaved", 0))
    ids = of.ids is not None and len(node.input) > of.ids and bool(node.input[of.ids])
    key = f"{interleaved} {ids}"
    if not of.runs:
        start = int(settings.get("rotary_offset", 0))
        title = f"{kind(node)}, by its definition: ONNX Runtime has no CPU kernel"
        yield title, f"{key} {start}", lambda: defined_bound(part, interleaved, start, head_dims)
    elif kind(node) == SPARSE:
        yield f"{SPARSE}, keys", key, lambda: sparse_bound(part, interleaved, head_dims)
    else:
        for which in ("keys", "queries"):
            yield (
                f"{GROUP_QUERY}, {which}",
                f"{which} {key}",
                lambda which=which: attention_bound(  # type: ignore[misc]
                    part, interleaved, ids, which, head_dims
                ),
            )
