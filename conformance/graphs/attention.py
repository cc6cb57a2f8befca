"""Call the rotation inside ``com.microsoft.GroupQueryAttention`` as ``fn(x, positions)``.

The operator returns no rotated queries, but it returns the keys after the rotation, and the logits.
Keys that are already in the cache are not rotated again: with one-hot keys in the cache and the
scale 1, the logits of a query are its rotated channels, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_ref.conformance.adapters.onnx import open_session
from posenc_ref.conformance.calling.rotations import window_start

from .binding import Bound
from .model import Part
from .roles import supplied
from .session import MOST_CACHED, Unbound, first_line, run, table_dtype

#: The most tokens in one call; the logits have this size squared.
_BLOCK = 256


def attention_bound(
    tables: Part, interleaved: int, has_ids: bool, which: str, head_dims: list[int]
) -> Bound:
    """Return the rotation of the "keys" or "queries" of a node; ``tables`` computes cos and sin.

    The numbers of heads, the scale, the window, the normalization and the quantization of the cache
    do not matter for the rotation, so the call uses others.

    Raises
    ------
    Unbound
        If the tables cannot be computed, or ONNX Runtime refuses the node.
    """
    supply = supplied(tables)
    problem = ""
    code, dtype, cos = table_dtype(supply)
    rotation = _Attention(supply, code, interleaved, has_ids, which)
    for dim in dict.fromkeys((*head_dims, 2 * cos.shape[-1])):
        try:
            rotation(np.zeros((1, 1, 2, dim), cos.dtype), np.arange(2))
        except Exception as error:  # another size may fit
            problem = first_line(error)
            continue
        how = "positions in position_ids" if has_ids else "contiguous positions, from seqlens_k"
        seen = "the present keys" if which == "keys" else "the logits with one-hot keys"
        found = f"{which} from {seen}, {how}"
        return Bound(rotation, dtype, dim, found, remarks=rotation.remarks(dim))
    raise Unbound(problem)


class _Attention:
    """Rotates x (B, H, S, D) as keys or queries of the operator, one call for each batch row."""

    def __init__(
        self,
        tables: Callable[[np.ndarray], list[np.ndarray]],
        code: int,
        interleaved: int,
        has_ids: bool,
        which: str,
    ) -> None:
        self.tables, self.code, self.interleaved = tables, code, interleaved
        self.has_ids, self.which = has_ids, which
        self._sessions: dict[int, Any] = {}

    def __call__(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Return y like x."""
        at = np.broadcast_to(np.asarray(positions), (x.shape[0], x.shape[2]))
        if at.dtype.kind == "f" and (at != np.round(at)).any():
            raise ValueError("positions must be whole numbers: the operator takes integers")
        y = np.empty_like(x)
        for b in range(x.shape[0]):
            if not self.has_ids:
                window_start(at[b])
            ids = at[b].astype(np.int64)
            self._cos, self._sin = self.tables(ids)  # of the length of the whole call
            for s in range(0, x.shape[2], _BLOCK):
                some = slice(s, s + _BLOCK)
                y[b, :, some] = self._row(x[b, :, some], ids[some])
        return y

    def remarks(self, dim: int) -> tuple[str, ...]:
        """Return how the operator reads position_ids in a call without past keys, if not in full.

        The judged calls have past keys.
        """
        if not self.has_ids:
            return ()
        self._cos, self._sin = self.tables(np.arange(2))
        x = np.ones((2, 1, 2, dim), self._cos.dtype)
        rows = ([[1, 5], [7, 8]], [[1, 2], [1, 2]])
        given, counted = (self._run(x, x, 0, np.array(ids))[1] for ids in rows)
        if (given != counted).any():
            return ()
        return (
            "in a call without past keys, ONNX Runtime reads only the first number of position_ids "
            "and counts up from it in every row, so rows with left padding get wrong positions",
        )

    def _row(self, x: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return the rotated x (H, S, D) of one row at positions (S,)."""
        dim = x.shape[-1]
        past = dim if self.has_ids else int(at[0])
        if self.which == "keys":
            return np.asarray(self._run(x[None], x[None], past, at)[1][0, :, past:])
        if past >= dim:
            return np.asarray(self._run(x[None], x[None], past, at)[3][0, ..., :dim])
        return np.concatenate([self._query(x[:, i], int(p)) for i, p in enumerate(at)], axis=1)

    def _query(self, q: np.ndarray, past: int) -> np.ndarray:
        """Return the rotated q (H, 1, D) after fewer cached tokens than q (H, D) has channels."""
        dim = q.shape[-1]
        rows = -(-dim // max(1, past))
        several = np.broadcast_to(q[:, None], (rows, *q[:, None].shape))
        if past:
            logits = self._run(several, several, past, np.array([past]))[3][..., 0, :past]
        else:  # the only key is the token's own, at position 0
            keys = np.broadcast_to(np.eye(dim, dtype=q.dtype)[:, None, None], several.shape)
            _, present, _, logits = self._run(several, keys, 0, np.array([0]))
            factor = np.sum(present, axis=-1)[..., 0]
            if not np.array_equal(present, keys * factor[..., None, None]):
                raise ValueError(
                    "the operator rotates keys at position 0, so its queries cannot be measured"
                )
            logits = logits[..., 0, :1] / factor[..., None]
        return np.asarray(logits.transpose(1, 0, 2).reshape(len(q), -1)[:, None, :dim])

    def _run(self, q: np.ndarray, k: np.ndarray, past: int, at: np.ndarray) -> Any:
        """Run the operator on q and k (B, H, S, D) after ``past`` one-hot keys in the cache."""
        rows, heads, length, dim = q.shape
        if rows * heads * past * dim > MOST_CACHED:
            raise ValueError(f"a cache of {past} tokens is too large for {heads} heads")
        cache = np.zeros((rows, heads, past, dim), q.dtype)
        if self.which == "queries":
            one = (
                np.arange(rows * past).reshape(rows, past) if past < dim else np.arange(past)[None]
            )
            row, token = np.nonzero(np.broadcast_to(one < dim, (rows, past)))
            cache[row, :, token, np.broadcast_to(one, (rows, past))[row, token]] = 1

        def merged(a: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(a.transpose(0, 2, 1, 3).reshape(rows, length, heads * dim))

        total = past + length
        feeds = {
            "query": merged(q), "key": merged(k), "value": merged(np.zeros_like(k)),
            "past_key": cache, "past_value": np.zeros_like(cache), "cos_cache": self._cos,
            "sin_cache": self._sin, "seqlens_k": np.full(rows, total - 1, np.int32),
            "total_sequence_length": np.array(total, np.int32),
        }  # fmt: skip
        if self.has_ids:
            feeds["position_ids"] = np.broadcast_to(at, (rows, length)).copy()
        return run(self._session(heads), feeds)

    def _session(self, heads: int) -> Any:
        from onnx import TensorProto, helper

        if heads in self._sessions:
            return self._sessions[heads]
        names = ["query", "key", "value", "past_key", "past_value", "seqlens_k",
                 "total_sequence_length", "cos_cache", "sin_cache"]  # fmt: skip
        names += ["position_ids"] if self.has_ids else []
        types = dict.fromkeys(names, self.code) | {
            "seqlens_k": TensorProto.INT32, "total_sequence_length": TensorProto.INT32,
            "position_ids": TensorProto.INT64,
        }  # fmt: skip
        outputs = ["output", "present_key", "present_value"]
        outputs += ["output_qk"] if self.which == "queries" else []
        node = helper.make_node(
            "GroupQueryAttention", names, outputs, domain="com.microsoft", num_heads=heads,
            kv_num_heads=heads, do_rotary=1, rotary_interleaved=self.interleaved, scale=1.0,
            qk_output=int(self.which == "queries"),
        )  # fmt: skip

        def values(some: list[str]) -> list[Any]:
            return [helper.make_tensor_value_info(n, types.get(n, self.code), None) for n in some]

        graph = helper.make_graph([node], "attention", values(names), values(outputs))
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        self._sessions[heads] = open_session(model)
        return self._sessions[heads]
