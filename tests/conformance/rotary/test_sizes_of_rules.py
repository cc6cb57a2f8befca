"""Places and rules of wrong calls: what they rest on, and the numbers in them."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.diagnosis.rule import DECLARED, find_rule
from posenc_ref.conformance.harness.codes import CODES
from posenc_ref.conformance.harness.located.atoms import atoms
from posenc_ref.conformance.rotary.turned import FAR, Turned

ROPE = pr.RoPE(8, layout="half")
CALL = ("call", "")
LONGEST = "the length of the longest call so far"


def conditions(wrong, right):
    return [(atom.op, atom.values) for atom in atoms(CALL, np.array(wrong), np.array(right))]


def test_the_number_of_a_single_call_is_no_place():
    assert not conditions([55], [1, 2, 54, 56])
    assert not conditions(range(1, 37), [37])  # all calls but the last
    assert conditions([1], [2, 3]) == [("is", (1,))]
    assert conditions([3, 4, 5], [1, 2]) == [("from", (3,))]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            lambda p, n: np.minimum(p, n - 1),
            f"clamped to at most the larger of 63 and {LONGEST} - 1",
        ),
        (lambda p, n: p % n, f"modulo the larger of 64 and {LONGEST}"),
    ],
)
def test_a_table_with_a_smallest_size_that_grows(rule, words):
    longest = np.repeat([3, 9, 70, 200], 40)
    p = np.tile(np.r_[np.arange(20) * 7, np.arange(20) * 31 + 5000], 4)
    used = rule(p, np.maximum(longest, 64))
    found = find_rule(used, {DECLARED: p, LONGEST: longest})
    assert words in found.words
    assert np.array_equal(found.of({DECLARED: p, LONGEST: longest}), used)


def test_each_row_has_its_smallest_position():
    at = np.array([[5, 3, 9], [40, 41, 2]])
    found = Turned(ROPE, np.zeros((2, 1, 3, 8)), at).variables()
    assert found["the smallest position of the row"].tolist() == [[[3, 3, 3]], [[2, 2, 2]]]


def test_single_tokens_beyond_tables_are_called():
    single = [at for (_, _, n), at, *_ in FAR if n == 1]
    assert max(single) >= 2**15 > min(single)
    # Calls of several tokens there tell a path of single tokens from far positions.
    assert {at for (_, _, n), at, *_ in FAR if n > 1} <= {*single}
    assert max(at for _, at in FAR) >= 2**15


def test_exchanged_cos_and_sin_do_not_speak_of_timesteps():
    assert "timesteps" not in CODES["phase-order"].remedy


@pytest.mark.nightly
def test_single_tokens_in_slots_of_a_ring():
    def fn(x, positions):
        p = np.asarray(positions)
        return ROPE.apply(x, p % 256 if x.shape[2] == 1 else p)

    found = check(fn, ROPE).findings[0]
    assert found.message == (
        "the position used is the declared position modulo 256, where the length of the call is 1"
    )


@pytest.mark.nightly
def test_rows_moved_to_their_smallest_position():
    def fn(x, positions):
        p = np.asarray(positions)
        return ROPE.apply(x, p - p.min(axis=1, keepdims=True) if p.ndim == 2 and p.size else p)

    found = check(fn, ROPE).findings[0]
    assert found.message == (
        "the position used is the declared position - the smallest position of the row, where "
        "positions are (B, S)"
    )


@pytest.mark.nightly
def test_no_further_call_is_not_counted():
    def fn(x, positions):
        p, n = np.array(positions), x.shape[2]
        if n >= 128:
            p[..., n // 64 * 64 :] -= p[..., :1]
        return ROPE.apply(x, p)

    found = check(fn, ROPE).findings[0]
    assert "0 further calls" not in found.evidence


def test_rows_past_the_last_block_of_all_rows_and_heads():
    """A kernel runs over blocks of 32 rows of the flattened x; the rest is not rotated."""
    sizes = [(1, 1, 9), (2, 3, 7), (3, 2, 11), (1, 2, 40)]
    each = [Turned(ROPE, np.zeros((*size, 8)), np.arange(size[2]) + 3) for size in sizes]
    found = [one.variables() for one in each]
    shapes = [one.x.shape[:3] for one in each]
    flat = {
        name: np.concatenate(
            [np.broadcast_to(v[name], s).ravel() for v, s in zip(found, shapes, strict=True)]
        )
        for name in found[0]
    }
    index = np.concatenate([np.arange(np.prod(s)) for s in shapes])
    size = np.concatenate([np.full(np.prod(s), np.prod(s)) for s in shapes])
    used = np.where((size >= 32) & (index >= size // 32 * 32), 0, flat[DECLARED])
    words = find_rule(used, flat).words
    assert words.startswith("0, where the index in the flattened (B, H, S) is past the last")


@pytest.mark.parametrize("rounded", [0, 1])
def test_the_second_half_of_the_heads(rounded):
    heads = np.array([1, 2, 3, 5, 8])
    head = np.concatenate([np.arange(h) for h in heads])
    of = np.repeat(heads, heads)
    p = np.arange(head.size) * 3 + 7
    upper = (head >= (of + rounded) // 2) & (of > 1)
    found = find_rule(
        np.where(upper, 2 * p, p), {DECLARED: p, "the head": head, "the number of heads": of}
    )
    assert found.words.startswith(
        "2 times the declared position, where the head is at least half of the number of heads, "
        f"rounded {('down', 'up')[rounded]}"
    )


@pytest.mark.nightly
def test_heads_past_the_last_block_are_not_rotated():
    def fn(x, positions):
        y, h = np.array(ROPE.apply(x, positions)), x.shape[1]
        if h > 4:
            y[:, h // 4 * 4 :] = x[:, h // 4 * 4 :]
        return y

    found = check(fn, ROPE).findings[0]
    assert found.message.startswith(
        "tokens are not rotated, as at position 0, where the head is past the last multiple of 4"
    )
