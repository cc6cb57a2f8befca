"""First findings on kept results, contexts and tables, on padding, shards and tables that end.

On functions like these the first finding was vague once.
"""

import numpy as np
import pytest

from posenc_ref import (
    ConvPositions,
    DynamicNTK,
    GivenFrequencies,
    Learned,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    MRoPEPositions,
    RoPE,
    Sinusoidal2D,
    XPos,
    relative_scores,
    relative_shift,
)
from posenc_ref.conformance import check
from tests.night import by_day

ROPE = RoPE(32, layout="half")


def turned(x, angle):
    """Rotate half-split pairs; ``angle`` broadcasts to (B, H, S, D/2)."""
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = np.split(x.astype(np.float64), 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def one_buffer():
    """Write all results of a shape into one array."""
    kept = {}

    def calls(steps):
        results = []
        for x, offset in steps:
            p = int(offset) + np.arange(x.shape[2])
            y = kept.setdefault(x.shape, np.empty_like(x))
            y[...] = turned(x, p[:, None] * ROPE.frequencies())
            results.append(y)
        return results

    return calls


def one_array(function):
    """Write the results of a shape into one array."""
    kept = {}

    def fn(*arguments):
        result = np.asarray(function(*arguments))
        held = kept.setdefault(result.shape, np.empty_like(result))
        held[...] = result
        return held

    return fn


def after_holes(mask):
    out = np.zeros(mask.shape, np.int64)
    for row, real in zip(out, np.asarray(mask) == 1, strict=True):
        for i in range(1, row.size):
            row[i] = row[i - 1] + 1 if real[i - 1] else 0
    return out


def rows_after_holes(ids):
    return np.where(ids != 1, after_holes(ids != 1) + 2, 1)


def shards(which):
    def of(bounds, size, rank):
        lengths = np.diff(bounds)
        chunk = int(which(lengths)) // (2 * size)
        each = [
            part * chunk + np.arange(n // (2 * size))
            for n in lengths
            for part in (rank, 2 * size - 1 - rank)
        ]
        return np.concatenate(each)

    return of


def rows_without_sign(window):
    h, w = window
    y, x = np.divmod(np.arange(h * w), w)
    return abs(y[:, None] - y) * (2 * w - 1) + x[:, None] - x + w - 1


def no_memory(x):
    y = np.array(relative_shift(x))
    y[:, : x.shape[1] - x.shape[0]] = 0
    return y


def skewed(q, rel):
    n = len(q)
    rows = np.pad(q @ rel.T, ((0, 0), (1, 0))).reshape(2 * n, n)[:-1]
    return rows.reshape(n, 2 * n - 1)[:, :n]


def oblong(types, images, videos, seconds, mask, steps):
    """Number images that are not square with height and width exchanged."""
    swap = [np.reshape(grids, (-1, 3))[:, [0, 2, 1]] for grids in (images, videos)]
    return MRoPEPositions().with_decoding(types, *swap, seconds, mask, steps)


def grid_of(key):
    kept = {}
    table = Sinusoidal2D(16)

    def grid(height, width):
        at = table.grid_positions(height, width)
        return kept.setdefault(key(height, width), table.table(at))

    return grid


KERNEL = np.random.default_rng(1).normal(size=(6, 2, 4)).astype(np.float32)
CONV = ConvPositions((KERNEL,), (np.ones(6, np.float32),), groups=3)


def streamed():
    kept = {}

    def convolve(x):
        left = kept.get(len(x), x[:, :0])
        if x.shape[1] >= 2:
            kept.clear()
            kept[len(x)] = x[:, -2:].copy()
        return np.asarray(CONV.convolve(np.concatenate([left, x], axis=1)))[:, left.shape[1] :]

    return convolve


def xpos(q, k, q_positions, k_positions):
    zeta = (np.arange(16) + 0.4) / 16.4

    def side(x, p, power):
        p = np.asarray(p, np.float64)
        p = p[..., None] if p.ndim == 1 else p[:, None, :, None]
        y = turned(x.astype(np.float64), p * ROPE.frequencies())
        return (y * np.tile(zeta ** (power * p / 512), 2)).astype(x.dtype)

    return side(q, q_positions, 1), side(k, k_positions, -1)


def rotate(change):
    def apply(x, positions):
        p = np.asarray(positions)
        p = p[..., None] if p.ndim == 1 else p[:, None, :, None]
        return turned(x, change(p))

    return apply


def looked_up(p):
    step = 2 * np.pi / 1000
    return np.floor(p * ROPE.frequencies() / step) * step


def two_tables(p):
    return (np.minimum(p // 64, 2047) * 64 + p % 64) * ROPE.frequencies()


TOKENS = Learned(np.random.default_rng(2).normal(size=(80, 4)), offset=0, padding_idx=1)

CASES = {
    "buffer of calls": (one_buffer(), ROPE, "calls", "both share memory"),
    "buffer of a shape": (
        one_array(relative_scores), None, "relative_scores", "overwritten by the next call",
    ),
    "holes": (after_holes, None, "position_ids", "starts again at 0 after a masked token"),
    "holes of ids": (
        rows_after_holes, TOKENS, "ids_from_tokens", "starts again after a padding token",
    ),
    "longest": (shards(np.max), None, "shard_positions", "the length of the longest"),
    "last": (shards(lambda n: n[-1]), None, "shard_positions", "the length of the last"),
    "sign of dy": (rows_without_sign, None, "relative_index", "dy is taken without its sign"),
    "memory": (no_memory, None, "relative_shift", "first K - Q columns, get 0"),
    "skewed": (skewed, None, "relative_scores", "the last row of the reshaped scores is dropped"),
    "triangle": (
        lambda q, rel: np.tril(relative_scores(q, rel)), None, "relative_scores",
        "only keys up to the query get scores",
    ),
    "oblong": (oblong, MRoPEPositions(), "mrope_position_ids", "height and width are exchanged"),
    "area": (grid_of(lambda h, w: h * w), Sinusoidal2D(16), "grid", "with as many patches"),
    "sides": (
        grid_of(lambda h, w: frozenset((h, w))), Sinusoidal2D(16), "grid", "in either order",
    ),
    "context": (streamed(), CONV, "convolve", "the last 2 tokens of the call before are kept"),
    "zeta": (xpos, XPos(32, layout="half"), "apply_qk", "is (k + gamma) / (d/2 + gamma)"),
    "angles": (rotate(looked_up), ROPE, "apply", "as in a table of 1000 angles"),
    "two tables": (rotate(two_tables), ROPE, "apply", "are used as 131008 + p % 64"),
}  # fmt: skip


@pytest.mark.parametrize("name", by_day(CASES, ("sign of dy", "longest")))
def test_first_finding_names_the_cause(name):
    fn, encoding, surface, words = CASES[name]
    report = check(fn, encoding, surface)
    assert words in report.findings[0].message, str(report)


DYNAMIC = RoPE(32, layout="half", scaling=DynamicNTK(4.0, 64))
BLENDED = RoPE(64, layout="half", base=500000.0, scaling=Llama3Scaling(4.0, 1.0, 4.0, 2048))
GIVEN = RoPE(8, layout="half", scaling=GivenFrequencies((0.01, 0.9, 0.3, 0.002)))
FACTORS = LongRoPE((1.0,) * 16, (2.0,) * 16, 128, attention_factor=(1.1, 1.3))


def kept_frequencies():
    longest = 0

    def apply(x, positions):
        nonlocal longest
        p = np.asarray(positions)
        longest = max(longest, int(p.max(initial=-1)) + 1)
        return np.asarray(DYNAMIC.apply(x, p, seq_len=longest))

    return apply


def own_lengths(x, positions):
    p = np.asarray(positions)
    if p.ndim == 1 or not p.size:
        return np.asarray(DYNAMIC.apply(x, p))
    return np.concatenate([np.asarray(DYNAMIC.apply(x[[b]], p[[b]])) for b in range(len(p))])


def geometric():
    plain, slow = (
        np.asarray(BLENDED.replace(scaling=scaling).frequencies())
        for scaling in (None, LinearScaling(4.0))
    )
    t = np.clip((2048 * plain / (2 * np.pi) - 1) / 3, 0, 1)
    return slow ** (1 - t) * plain**t


def rounded_alpha(n):
    alpha = np.floor(4 * max(n, 64) / 64 - 3)
    return (10000.0 * alpha ** (32 / 30)) ** (-np.arange(16) / 16)


def short_factor(n):
    long = RoPE(32, layout="half", scaling=FACTORS)
    return np.asarray(long.frequencies(n)), np.float64(1.1)


def from_smallest(x, offset):
    start = np.broadcast_to(np.asarray(offset), len(x))
    p = (start - start.min())[:, None] + np.arange(x.shape[2])
    return turned(x, p[:, None, :, None] * ROPE.frequencies())


OF_LENGTH = {
    "kept": (kept_frequencies(), DYNAMIC, "apply", "the frequencies of a longer call are kept"),
    "rows": (own_lengths, DYNAMIC, "apply", "has the frequencies of its own length"),
    "blend": (geometric, BLENDED, "frequencies", "the blend is geometric"),
    "sorted": (
        lambda: np.sort(GIVEN.frequencies()), GIVEN, "frequencies",
        "the declared ones in another order",
    ),
    "alpha": (rounded_alpha, DYNAMIC, "frequencies", "rounded to a whole number"),
    "factor": (
        short_factor, RoPE(32, layout="half", scaling=FACTORS), "frequencies",
        "the factor of short contexts is used in long ones",
    ),
    "smallest": (from_smallest, ROPE, "apply_offset", "offset[b] - min(offset)"),
}  # fmt: skip


@pytest.mark.parametrize("name", by_day(OF_LENGTH, ("sorted", "alpha")))
def test_first_finding_on_lengths_names_the_cause(name):
    fn, encoding, surface, words = OF_LENGTH[name]
    report = check(fn, encoding, surface)
    assert words in report.findings[0].message, str(report)
