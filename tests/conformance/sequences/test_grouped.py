"""A mistake of calls with fewer key heads than query heads is said to be one of these calls."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

ROPE = RoPE(8, layout="half")


def rows_of_the_first(q, k, q_at, k_at):
    grouped = q.shape[1] != k.shape[1]
    q_at = np.broadcast_to(q_at[:1], q_at.shape) if grouped and np.ndim(q_at) == 2 else q_at
    return ROPE.apply(q, q_at).astype(q.dtype), ROPE.apply(k, k_at).astype(k.dtype)


def positions_of_queries(q, k, q_at, k_at):
    grouped = q.shape[1] != k.shape[1] and q_at.shape == k_at.shape
    k_at = q_at if grouped else k_at
    return ROPE.apply(q, q_at).astype(q.dtype), ROPE.apply(k, k_at).astype(k.dtype)


def rows_of_the_first_from_6_heads_on(q, k, q_at, k_at):
    many = q.shape[1] >= 6 and np.ndim(q_at) == 2
    q_at = np.broadcast_to(q_at[:1], q_at.shape) if many else q_at
    return ROPE.apply(q, q_at).astype(q.dtype), ROPE.apply(k, k_at).astype(k.dtype)


@pytest.mark.parametrize(
    ("fn", "message", "place"),
    [
        (rows_of_the_first, "all rows of queries get the positions of the first one",
         "only in calls with H / H_kv >= 2"),
        (positions_of_queries, "keys get the positions of the queries",
         "only in calls with H / H_kv >= 2"),
        (rows_of_the_first_from_6_heads_on, "all rows of queries get the positions",
         "only in calls with H >= 6 (4 was not)"),
    ],
)  # fmt: skip
def test_shared_key_heads_are_told_from_numbers_of_heads(fn, message, place):
    (found,) = check(fn, ROPE, "apply_qk").findings
    assert found.message.startswith(message)
    assert place in found.message
