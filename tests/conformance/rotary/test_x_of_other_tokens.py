"""Results that are made with x of another row, head or token."""

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE, RoPE
from posenc_ref.conformance import check

HALF = RoPE(16, layout="half")
AXES = MultiAxisRoPE(16, sections=(4, 4), layout="half")


def turned(x, positions, encoding=HALF):
    p = np.asarray(positions)
    if encoding.num_axes > 1 and p.ndim == 1:
        p = np.broadcast_to(p, (encoding.num_axes, 1, p.size))
    return np.asarray(encoding.apply(x, p))


def sines(x, positions, first, encoding=HALF):
    """Rotate, but make the second half of the result with another first half of x."""
    other = np.concatenate([np.broadcast_to(first, x[..., :8].shape), x[..., 8:]], axis=-1)
    y = turned(x, positions, encoding).copy()
    y[..., 8:] = turned(np.ascontiguousarray(other), positions, encoding)[..., 8:]
    return y


def first_head(x, positions):
    return sines(x, positions, x[:, :1, :, :8])


def first_head_on_axes(x, positions):
    return sines(x, positions, x[:, :1, :, :8], AXES)


def token_before(x, positions):
    first = x[..., :8]
    return sines(x, positions, np.concatenate([first[:, :, :1], first[:, :, :-1]], axis=2))


def first_row_of_single_tokens(x, positions):
    return sines(x, positions, x[:1, ..., :8] if x.shape[2] == 1 else x[..., :8])


def last_channels(x, positions):
    return sines(x, positions, np.where(np.arange(8) < 5, x[..., :8], x[:, -1:, :, :8]))


def groups_of_heads(x, positions):
    return turned(x[:, np.arange(x.shape[1]) // 2 * 2], positions)


def reshaped(x, positions):
    b, h, s, _ = x.shape
    return sines(x, positions, x[..., :8].reshape(b, s, h, 8).transpose(0, 2, 1, 3))


def one_row_of_memory_early(x, positions):
    flat = x[..., :8].reshape(-1, 8)
    return sines(x, positions, np.concatenate([flat[:1], flat[:-1]]).reshape(*x.shape[:3], 8))


SINES = "channels 8-15 of the result take channels 0-7 of x from "
OF_HEAD = f"{SINES}head 0, not from their own head"


NAMED = {
    first_head: OF_HEAD,
    first_head_on_axes: OF_HEAD,
    token_before: f"{SINES}the token before (token 0: from itself), not from their own token",
    first_row_of_single_tokens: f"{SINES}batch row 0, where the number of tokens is 1, not from "
    "their own batch row",
    last_channels: "channels 13-15 of the result take channels 5-7 of x from the last head, not "
    "from their own head",
    groups_of_heads: "every result is made with x from another head (its index: its own index "
    "rounded down to a multiple of 2), not from its own head",
    reshaped: f"{SINES}the head (s H + h) // S and the token (s H + h) modulo S, not from their "
    "own head and token",
    one_row_of_memory_early: f"{SINES}the token before (token 0: from itself) in the order (B, H, "
    "S) of all tokens, not from their own token",
}


@pytest.mark.parametrize("fn", NAMED, ids=lambda fn: fn.__name__)
def test_the_source_of_x_is_named(fn):
    encoding = AXES if fn is first_head_on_axes else HALF
    finding = check(fn, encoding, "apply").findings[0]
    assert (finding.code, finding.message) == ("wrong-row", NAMED[fn])


def test_the_source_of_x_is_named_where_only_the_start_is_passed():
    def fn(x, offset):
        return first_head(x, np.reshape(offset, (-1, 1)) + np.arange(x.shape[2]))

    finding = check(fn, HALF, "apply_offset").findings[0]
    assert (finding.code, finding.message) == ("wrong-row", OF_HEAD)


def test_the_source_of_x_is_named_in_half_precision():
    finding = check(first_head, HALF, "apply", dtype="float16").findings[0]
    assert (finding.code, finding.message) == ("wrong-row", OF_HEAD)


def minus_mean(x, positions):
    y = turned(x, positions)
    return y - y.mean(axis=1, keepdims=True) if x.size else y


def plus_tenth_of_the_token_before(x, positions):
    y = turned(x, positions)
    return y + 0.1 * np.concatenate([0 * y[:, :, :1], y[:, :, :-1]], axis=2)


def sums(x, positions):
    return np.cumsum(turned(x, positions), axis=2, dtype=x.dtype)


DEPENDS = {
    minus_mean: "other heads",
    plus_tenth_of_the_token_before: "the token before",
    sums: "earlier tokens",
}


@pytest.mark.parametrize("fn", DEPENDS, ids=lambda fn: fn.__name__)
def test_results_that_depend_on_other_tokens_are_called_so(fn):
    finding = check(fn, HALF, "apply").findings[0]
    assert finding.code == "not-linear"
    assert finding.message == f"the result of a token depends on x of {DEPENDS[fn]}"
