"""Tokens whose positions are made in another order of axes, or by what an instance counts."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from tests.night import by_day

ROPE = pr.RoPE(32, layout="half")


def rotated(x, positions):
    """Return x rotated to positions that broadcast to all axes but the last."""
    angles = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(16) / 16)
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = x[..., :16], x[..., 16:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def by_reshape(x, positions):
    """Rotate (B, H, S, D) that is reshaped, not transposed, to (B, S, H, D)."""
    b, h, s, d = x.shape
    p = np.broadcast_to(positions, (b, s))[..., None]
    return rotated(x.reshape(b, s, h, d), p).reshape(x.shape)


def tokens_first(x, positions):
    """Rotate (B, H, S, D) that is reshaped, not transposed, to (S, B, H, D)."""
    b, h, s, d = x.shape
    return rotated(x.reshape(s, b, h, d), np.asarray(positions)[:, None, None]).reshape(x.shape)


def in_chunks(rotate):
    def decode(x, chunks):
        ends = np.cumsum(chunks)
        parts = (
            rotate(x[:, :, end - n : end], end - n + np.arange(n))
            for n, end in zip(chunks, ends, strict=True)
        )
        return np.concatenate(list(parts), axis=2)

    return decode


def from_offset(x, offset):
    return by_reshape(x, np.asarray(offset)[:, None] + np.arange(x.shape[2]))


def flat_rows(x, positions):
    """Read positions (B, S) that are flattened as (S, B)."""
    p = np.asarray(positions)
    return rotated(x, p if p.ndim == 1 else p.T.reshape(p.shape)[:, None])


def flat(of):
    """Make the positions of (B, S) on one axis of tokens."""

    def function(x, offset):
        b, _, s, _ = x.shape
        return rotated(x, of(np.asarray(offset), b, s).reshape(b, 1, s))

    return function


def last_tile(of):
    """Rotate the tokens after the last whole tile of 4 to the position of one token."""

    def function(x, positions):
        n = x.shape[2]
        start, at = n // 4 * 4, np.arange(n)
        at[start:] = of(start, n)
        p = np.asarray(positions)[..., at]
        return rotated(x, p if p.ndim == 1 else p[:, None])

    return function


def counting(goes_on, begun=False):
    """Count on from the call before in calls of some kind."""

    def function(pairs):
        found, end = [], 0 if begun else None
        for x, offset in pairs:
            n = x.shape[2]
            start = end if end is not None and goes_on(offset, n, end) else offset
            end = start + n
            found.append(rotated(x, start + np.arange(n)))
        return found

    return function


GOES_ON = "goes on where the one before it ended, whatever its offset"
RESHAPED = "(h S + s) // H, as where x is reshaped, not transposed, to (B, S, H, D)"
CASES = {
    "apply": ("apply", by_reshape, RESHAPED),
    "offset": ("apply_offset", from_offset, RESHAPED),
    "calls": (
        "calls",
        lambda pairs: [from_offset(x, np.full(len(x), offset)) for x, offset in pairs],
        RESHAPED,
    ),
    "chunks": ("decode", in_chunks(by_reshape), RESHAPED),
    "cache": ("key_cache", in_chunks(by_reshape), RESHAPED),
    "tokens first": ("decode", in_chunks(tokens_first), "((b H + h) S + s) // (B H), as where"),
    "rows": ("apply", flat_rows, "if (rows, tokens) is transposed and reshaped to its own shape"),
    "tiled": (
        "apply_offset",
        flat(lambda offset, b, s: np.tile(offset, s) + np.tile(np.arange(s), b)),
        "the offsets are tiled, not repeated",
    ),
    "repeated": (
        "apply_offset",
        flat(lambda offset, b, s: np.repeat(offset, s) + np.repeat(np.arange(s), b)),
        "the index is repeated, not tiled",
    ),
    "last of the tile before": (
        "apply",
        last_tile(lambda start, n: max(start - 1, 0)),
        "tokens after the last whole tile of 4 have the position of the last token before them",
    ),
    "last": ("apply", last_tile(lambda start, n: n - 1), "have the position of the last of them"),
    "single": ("calls", counting(lambda o, n, end: n == 1), f"a call of one token {GOES_ON}"),
    "several": ("calls", counting(lambda o, n, end: n > 1), f"a call of several tokens {GOES_ON}"),
    "no gaps": ("calls", counting(lambda o, n, end: o > end), "positions have no gaps"),
    "begun": (
        "calls",
        counting(lambda o, n, end: o > 0, begun=True),
        f"a call with an offset other than 0 {GOES_ON}, and the first one at 0",
    ),
}


@pytest.mark.parametrize("name", by_day(CASES, {"calls", "repeated", "tiled", "no gaps", "begun"}))
def test_the_order_is_named(name):
    surface, fn, words = CASES[name]
    report = check(fn, ROPE, surface)
    assert words in report.findings[0].message, report
