"""First findings on functions whose causes once had no name, or a wrong one."""

import numpy as np
import pytest

from posenc_ref import (
    BoxSine,
    FourierFeatures,
    LeViTBias,
    LongRoPE,
    MixedRoPE,
    RoPE,
    SelfExtend,
    Sinusoidal,
    XPos,
    relative_scores,
)
from posenc_ref.conformance import check
from tests.night import by_day

HALF = RoPE(32, layout="half")
SINES = Sinusoidal(32, layout="concat")
W = 10000.0 ** (-np.arange(16) / 16)


def waves(angle):
    return np.concatenate([np.sin(angle), np.cos(angle)], -1).astype(np.float32)


def added_phase(positions):
    return waves(np.asarray(positions)[:, None] * W + 2)


def stretched(positions):
    p = np.asarray(positions)
    return waves((p - p % 64 + p % 64 * 64 / 63)[:, None] * W)


def broken(positions):
    """A scale that holds up to position 40 only."""
    p = np.asarray(positions)
    return waves(np.where(p > 40, 3 * p - 7 * (p % 11), 1.25 * p)[:, None] * W)


def blocks(q, rel):
    n = len(q)
    i, j = np.indices((n, n))
    row = np.clip(n - 1 - i + j + (i >= 32), 0, 2 * n - 2)
    return np.einsum("id,ijd->ij", q, rel[row]).astype(q.dtype)


def appended(x):
    q, k = x.shape
    wide = np.concatenate([x, np.zeros((q, 1), x.dtype)], axis=1)
    return wide.reshape(k + 1, q)[:-1].reshape(q, k)


def rotated(x, at, encoding=HALF):
    return np.asarray(encoding.apply(x, at))


def short_table(x, positions):
    """A table of 1023 rows for the calls that end below 1024."""
    near = np.max(positions, initial=0) < 1024
    return rotated(x, np.minimum(positions, 1022) if near else positions)


def chunked(x, chunks):
    ends = np.cumsum(chunks)
    other = HALF.replace(layout="interleaved")
    parts = [
        rotated(x[:, :, b - n : b], np.arange(b - n, b), other if n == 1 else HALF)
        for n, b in zip(chunks, ends, strict=True)
    ]
    return np.concatenate(parts, axis=2)


def unsorted(x, offset):
    order = np.argsort(offset, kind="stable")
    at = np.asarray(offset)[order][:, None] + np.arange(x.shape[2])
    return rotated(x[order], at)[order]


def flat(x):
    b, s, d = x.shape
    rows = np.asarray(SINES.table(np.arange(b * s)))
    return (x + rows.reshape(b, s, d)).astype(x.dtype)


PARTIAL = RoPE(32, layout="half", rotary_dim=16)


def normed(x, weight, positions):
    size = np.mean(np.asarray(x[..., :16], np.float64) ** 2, axis=-1, keepdims=True)
    y = weight * x / np.sqrt(size + 1e-6)
    return rotated(y, positions, PARTIAL).astype(x.dtype)


WEIGHT = np.random.default_rng(5).standard_normal((2, 3, 8))
MIXED = MixedRoPE(16, weight=WEIGHT.transpose(1, 0, 2), layout="half")


def reshaped(x, positions):
    return rotated(x, positions, MIXED.replace(weight=WEIGHT.reshape(3, 2, 8)))


FOURIER = FourierFeatures(np.random.default_rng(6).standard_normal((6, 2)), unit="turn")


def short_pi(positions):
    v = np.asarray(positions, np.float64).T
    angle = v @ np.asarray(FOURIER.matrix).T * 2 * 3.1415
    value = np.zeros((len(v), 12), np.float32)
    sines, cosines = FOURIER.columns()
    value[:, sines], value[:, cosines] = np.sin(angle), np.cos(angle)
    return value


def half_angles(positions):
    x, y, w, h = np.asarray(positions, np.float64)
    t = 10000.0 ** (2 * np.arange(4) / 8)
    columns = []
    for n, c in enumerate((y, x, w, h)):
        angle = c[:, None] * 2 * np.pi / t
        angle = angle.astype(np.float16).astype(np.float64) if n > 1 else angle
        columns.append(np.stack([np.sin(angle), np.cos(angle)], -1).reshape(len(c), 8))
    return np.concatenate(columns, -1).astype(np.float32)


FAR = SelfExtend(RoPE(16, layout="half"), group=4, window=12)


def rounded_up(q, k):
    i = np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    j = np.arange(k.shape[2])
    far = i - j >= 12
    angle = (np.where(far, -(-i // 4) + 9, i) - np.where(far, j // 4, j))[..., None]
    angle = angle * 10000.0 ** (-np.arange(8) / 8)
    q1, q2, k1, k2 = q[..., :8], q[..., 8:], k[..., :8], k[..., 8:]
    along = np.einsum("bhid,bhjd->bhijd", q1, k1) + np.einsum("bhid,bhjd->bhijd", q2, k2)
    across = np.einsum("bhid,bhjd->bhijd", q1, k2) - np.einsum("bhid,bhjd->bhijd", q2, k1)
    return ((along * np.cos(angle) + across * np.sin(angle)).sum(-1) / 4).astype(q.dtype)


def zero_row(positions):
    p = np.asarray(positions)
    return np.where(p[:, None] == 0, 0, waves(p[:, None] * W)).astype(np.float32)


def copied_heads(x, positions):
    y = rotated(x, positions, PARTIAL).copy()
    y[..., 16:] = x[:, :1, :, 16:]
    return y


def whole_decay(q, k, q_at, k_at):
    at = [np.asarray(p) for p in (q_at, k_at)]
    zeta = (np.arange(16) / 16 + 0.4) / 1.4
    found = []
    for x, p, sign in ((q, at[0], 1), (k, at[1], -1)):
        p = p if p.ndim == 1 else p[:, None]
        size = zeta ** (sign * (p // 512))[..., None]
        cos, sin = np.cos(p[..., None] * W) * size, np.sin(p[..., None] * W) * size
        y = np.empty(x.shape)
        y[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
        y[..., 1::2] = x[..., 1::2] * cos + x[..., ::2] * sin
        found.append(y.astype(x.dtype))
    return tuple(found)


def last_key_head(q, k, q_at, k_at):
    y = rotated(k, k_at).copy()
    if 1 < k.shape[1] < q.shape[1]:
        y[:, -1] = k[:, -1]
    return rotated(q, q_at), y


def cached_keys(q, k, q_at, k_at):
    n = k.shape[2]
    return rotated(q, q_at), rotated(k, np.arange(n) if n > q.shape[2] else k_at)


def first_offset(x, offset):
    o = np.asarray(offset)[:, None] if np.ndim(offset) else np.full((x.shape[0], 1), offset)
    o = o[:1] + 0 * o if x.shape[2] == 1 else o
    return rotated(x, o + np.arange(x.shape[2]))


def set_counter(x, chunks):
    found, start, seen = [], 0, 0
    for n in chunks:
        found.append(rotated(x[:, :, seen : seen + n], start + np.arange(n)))
        seen += n
        start = n if n > 1 else start + n
    return np.concatenate(found, axis=2)


def longest_chunk(k, chunks):
    size = LONG.scaling.long_factor if max(chunks) > 64 else LONG.scaling.short_factor
    at = np.arange(sum(chunks))[:, None] * W / np.array(size)
    cos, sin = (LONG.attention_factor() * f(at) for f in (np.cos, np.sin))
    a, b = k[..., :16], k[..., 16:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(k.dtype)


def clamped_levit(q_len, k_len):
    y, x = np.divmod(np.arange(15), 3)
    row = np.minimum(abs(y[:, None] - y) * 5 + abs(x[:, None] - x), 14)
    return np.moveaxis(LEVIT.table[row], -1, 0)


def guessed_axis(x, positions):
    p = np.asarray(positions)
    if p.ndim == 1 and x.shape[1] == x.shape[2] > 1:
        return rotated(x.swapaxes(1, 2), p).swapaxes(1, 2)
    return rotated(x, p)


LONG = RoPE(
    32, layout="half",
    scaling=LongRoPE(tuple(1 + i / 50 for i in range(16)), tuple(2 + i / 3 for i in range(16)), 64,
                     factor=4.0),
)  # fmt: skip
LEVIT = LeViTBias(np.random.default_rng(5).normal(size=(15, 4)).astype(np.float32), window=(5, 3))
XPOS = XPos(32, layout="interleaved")


CASES = {
    "zero row": (zero_row, SINES, "table", "rows are zeros, where the declared position is 0"),
    "copied heads": (copied_heads, PARTIAL, "apply", "channels 16-31 of every head are those of"),
    "whole decay": (whole_decay, XPOS, "apply_qk", "is an integer: rounded down, as by //"),
    "last key head": (last_key_head, HALF, "apply_qk", "keys are not rotated, only for all heads"),
    "cached keys": (cached_keys, HALF, "apply_qk", "as if they started at 0, only in calls with K"),
    "first offset": (first_offset, HALF, "apply_offset",
                     "is the offset of the first row, where the length of the call is 1"),
    "set counter": (set_counter, HALF, "decode", "the offset is set to the chunk's length"),
    "longest chunk": (longest_chunk, LONG, "key_cache", "for the length of the longest chunk"),
    "clamped": (clamped_levit, LEVIT, "bias", "with the height h = 5, not |dy| w + |dx|, and is"),
    "guessed axis": (guessed_axis, HALF, "apply", "of token h, the number of the head, where"),
    "added phase": (added_phase, Sinusoidal(32, layout="concat", offset=2.0), "table",
                    "a constant angle of 2 rad is added to every pair: the offset 2 is added to"),
    "stretched": (stretched, SINES, "table", "within each block of 64 positions"),
    "broken": (broken, SINES, "table", "up to position 16, every frequency is 1.25 times"),
    "blocks": (blocks, None, "relative_scores", "one row too late, only in rows from 32 on"),
    "appended": (appended, None, "relative_shift", "the column of zeros is appended"),
    "short table": (short_table, HALF, "apply", "another position than declared: 1022 for 1023"),
    "chunked": (chunked, HALF, "decode", "pairs are interleaved, declared half, only in chunks of"),
    "unsorted": (unsorted, HALF, "apply_offset", "put back by the same permutation"),
    "flat": (flat, SINES, "add", "tokens are counted through all rows of the batch"),
    "normed": (normed, PARTIAL, "normed_apply", "the norm is over the 16 rotated channels only"),
    "reshaped": (reshaped, MIXED, "apply", "stored as (axes, heads, pairs), is reshaped"),
    "short pi": (short_pi, FOURIER, "table", "pi is written as 3.1415"),
    "half angles": (half_angles, BoxSine(32), "table",
                    "angles are rounded to float16, only in channels from 16 on"),
    "rounded up": (rounded_up, FAR, "scores", "the groups of far queries are rounded up"),
}  # fmt: skip


#: Cases of more than a second.
SLOW = {
    "short table", "chunked", "copied heads", "whole decay", "last key head", "cached keys",
    "first offset", "longest chunk", "guessed axis",
}  # fmt: skip


@pytest.mark.parametrize("name", by_day(CASES, CASES.keys() - SLOW))
def test_the_first_finding_names_the_cause(name):
    fn, encoding, surface, words = CASES[name]
    report = check(fn, encoding, surface)
    assert report.verdict == "deviates"
    assert words in report.findings[0].message, report


def test_scores_of_many_queries_are_judged():
    assert check(relative_scores, None, "relative_scores").verdict == "conforms"
