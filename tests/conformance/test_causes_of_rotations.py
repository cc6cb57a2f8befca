"""First findings on wrong rotations, tables and position ids whose causes were vague, or false."""

import numpy as np
import pytest

from posenc_ref import (
    DynamicNTK,
    LongRoPE,
    MRoPEPositions,
    MultiAxisRoPE,
    Proportional,
    RoPE,
    XPos,
    YaRN,
    packed,
)
from posenc_ref.conformance import check
from tests.night import by_day

HALF = RoPE(16, layout="half")
PAIRS = 10000.0 ** (-np.arange(8) / 8)
AXES = MultiAxisRoPE(16, sections=(2, 3, 3), layout="half")
TURNS = MultiAxisRoPE(
    16, sections=(4, 4), layout="half", spacing="restart", base=100.0, position_scale=2 * np.pi
)
ORDERED = MultiAxisRoPE(16, sections=(2, 3, 3), layout="half", arrangement=(1, 2) * 3 + (0, 0))
XPOS = XPos(16, layout="half")
SLICE = RoPE(24, layout="half", rotary_dim=8)
JOINED = RoPE(32, layout="interleaved", rotary_dim=16, rotary_start=16, output_layout="half")
NTK = DynamicNTK(2.0, 128)


def rotated(x, at, encoding=HALF):
    return np.asarray(encoding.apply(x, at))


def by_angle(x, angle):
    a, b = np.split(x.astype(np.float64), 2, axis=-1)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def over_heads(y):
    return y[:, None] if y.ndim == 3 else y


def on_axes(positions, count):
    p = np.asarray(positions)
    return p if p.ndim > 1 else np.broadcast_to(p, (count, *p.shape))


def text_by_time(x, positions):
    p = np.array(on_axes(positions, 3))
    if (p == p[0]).all():
        p[1:] = 0
    return rotated(x, p, AXES)


def rows_for_axes(x, positions):
    p = on_axes(positions, 3)
    return rotated(x, p.transpose(1, 0, 2) if p.ndim == 3 and p.shape[1] == 3 else p, AXES)


def one_axis_in_turns(x, positions):
    p = on_axes(positions, 2)
    w = 100.0 ** (-np.arange(4) / 4)
    angle = np.concatenate([2 * np.pi * p[0][..., None] * w, p[1][..., None] * w], -1)
    return by_angle(x, over_heads(angle))


def axis_by_axis(x, positions):
    p, axes = on_axes(positions, 3), ORDERED.axes()
    w = np.empty(8)
    w[np.argsort(axes, kind="stable")] = PAIRS
    angle = np.moveaxis(p[axes], 0, -1) * w
    return by_angle(x, over_heads(angle))


def moved_tile(x, positions):
    """The last tile of 32 tokens is moved back; its positions are those before the move."""
    n, p = x.shape[2], np.asarray(positions)
    by = -n % 32 if n > 32 else 0
    at = np.arange(n)
    return rotated(x, p[..., np.minimum(np.where(at >= n - 32, at + by, at), n - 1)])


def flat_tokens(x, positions):
    """The row t H + h of (T H, D) takes the position of token (t H + h) modulo T."""
    tokens, heads, _ = x.shape
    at = (np.arange(tokens * heads) % tokens).reshape(tokens, heads)
    return by_angle(x, np.asarray(positions)[at][..., None] * PAIRS)


def offsets_along_heads(x, offset):
    b, h, n, _ = x.shape
    at = np.asarray(offset)[:, None] + np.arange(n)
    return by_angle(x, (at[None] if b == h else at[:, None])[..., None] * PAIRS)


def clamped_slice(x, offset):
    n = x.shape[2]
    start = np.clip(np.asarray(offset), 0, 1024 - n)
    return by_angle(x, (start[:, None] + np.arange(n))[:, None, :, None] * PAIRS)


def counted_through_rows(x, chunks):
    ends = np.cumsum(chunks)
    starts = np.repeat(ends - chunks, chunks)
    return rotated(x, np.arange(x.shape[2]) - starts + starts * len(x))


def queries_for_keys(q, k, q_at, k_at):
    at = q_at if q.shape[2] == k.shape[2] else np.arange(k.shape[2])
    return rotated(q, q_at), rotated(k, at)


def groups_first(q, k, q_at, k_at):
    y, shared = rotated(q, q_at), k.shape[1]
    split = y.reshape(len(y), shared, -1, *y.shape[2:])
    return np.ascontiguousarray(split.swapaxes(1, 2)).reshape(y.shape), rotated(k, k_at)


def own_centres(q, k, q_at, k_at):
    def one(x, p, keys):
        p = np.asarray(p, np.float64)
        n = (p - (p.min(-1, keepdims=True) + p.max(-1, keepdims=True)) / 2) / XPOS.scale_base
        zeta = np.exp((-1 if keys else 1) * n[..., None] * np.log(XPOS.decays()))
        y = np.concatenate([zeta, zeta], -1)
        return (by_angle(x.astype(np.float64), over_heads(p[..., None] * PAIRS))
                * over_heads(y)).astype(x.dtype)  # fmt: skip

    return one(q, q_at, False), one(k, k_at, True)


def frames_only(types, images, videos, seconds, lengths):
    """What follows an image starts after its last frame."""
    found, at, items = [], 0, [iter(np.reshape(g, (-1, 3)).tolist()) for g in (images, videos)]
    starts, i = set((np.cumsum(lengths) - lengths).tolist()), 0
    while i < len(types):
        at = 0 if i in starts else at
        if types[i] == 0:
            found.append(np.full((3, 1), at))
            i, at = i + 1, at + 1
            continue
        t, h, w = next(items[types[i] - 1])
        grid = np.indices((t, h // 2, w // 2)).reshape(3, -1)
        found.append(grid + at)
        i, at = i + grid.shape[1], at + t
    return np.concatenate([np.zeros((3, 0)), *found], axis=1).astype(np.int64)


def descending(bounds, size, rank):
    found = [np.zeros(0, int)]
    for n in np.diff(bounds):
        chunk = int(n) // (2 * size)
        found += [rank * chunk + np.arange(chunk)]
        found += [(2 * size - rank) * chunk - 1 - np.arange(chunk)]
    return np.concatenate(found)


def running_sums(positions):
    step = PAIRS.astype(np.float32)
    p = np.asarray(positions)
    if p.dtype.kind != "i" or np.abs(p).max(initial=0) >= 2**17:
        angle = p[:, None] * PAIRS
    else:
        sums = np.cumsum(np.tile(step, (int(np.abs(p).max()), 1)), 0, dtype=np.float32)
        angle = np.sign(p)[:, None] * np.vstack([0 * step, sums])[np.abs(p)].astype(np.float64)
    return np.cos(angle), np.sin(angle)


def by_tokens(x, positions):
    alpha = 2 * max(x.shape[2], 128) / 128 - 1
    w = (10000.0 * alpha ** (16 / 14)) ** (-np.arange(8) / 8)
    angle = np.asarray(positions, float)[..., None] * w
    return by_angle(x, over_heads(angle))


def alpha_of(power, alpha):
    return lambda n: (10000.0 * max(alpha(max(n, 128)), 1) ** power) ** (-np.arange(8) / 8)


CASES = {
    "text by time": (text_by_time, AXES, "apply", "calls with equal positions on all axes (te"),
    "rows for axes": (rows_for_axes, AXES, "apply", "with as many rows as axes are read as (B, A"),
    "in turns": (one_axis_in_turns, TURNS, "apply", "positions of axis 1 are multiplied by 0.159"),
    "axis by axis": (axis_by_axis, ORDERED, "apply", "handed out axis by axis, in the order of ax"),
    "moved tile": (moved_tile, HALF, "apply", "the last block of 32 tokens is moved back to be"),
    "along heads": (offsets_along_heads, HALF, "apply_offset", "the offsets lie along the axis"),
    "clamped slice": (clamped_slice, HALF, "apply_offset", "clamped to 1024 - S, as a slice"),
    "through rows": (counted_through_rows, HALF, "decode",
                     "the number of tokens of all batch rows in earlier chunks"),
    "queries for keys": (queries_for_keys, HALF, "apply_qk",
                         "in calls with as many of both, and 0, 1, 2, ... otherwise"),
    "groups first": (groups_first, HALF, "apply_qk", "are in the order g * H_kv + j"),
    "own centres": (own_centres, XPOS, "apply_qk", "is counted from the middle (smallest + "),
    "frames only": (frames_only, MRoPEPositions(), "mrope_packed", "starts at its start + the nu"),
    "descending": (descending, None, "shard_positions", "second chunk of a rank are in de"),
    "running sums": (running_sums, HALF, "cos_sin", "angles are running sums of the frequ"),
    "by tokens": (by_tokens, HALF.replace(scaling=NTK), "apply",
                  "the number of tokens of a call is taken for its length"),
    "parenthesis": (alpha_of(16 / 14, lambda n: 4 * (n / 128 - 3)),
                    HALF.replace(scaling=DynamicNTK(4.0, 128)),
                    "frequencies", "multiplied by (max(factor * (L / 128 - (factor - 1)), 1))"),
    "head in power": (alpha_of(40 / 38, lambda n: 2 * n / 128 - 1),
                      RoPE(40, layout="half", rotary_dim=16, scaling=NTK), "frequencies",
                      "(40/38), with head_dim in place of rotary_dim"),
    "denominator": (lambda: 1e6 ** (-np.arange(64) / 80), RoPE(128, layout="half", base=1e6),
                    "frequencies", "k/80 (2k/160), not k/64; a base of 63095.7 in place of"),
    "ratio in half": (lambda: float(np.float16(10000.0 ** (-1 / 8))) ** np.arange(8), HALF,
                      "frequencies", "ratios of neighbouring frequencies are rounded to float16"),
    "another's factor": (
        lambda: (RoPE(16, layout="half", scaling=YaRN(8.0, 4096)).frequencies(),
                 np.sqrt(1 + np.log(8) / np.log(4096))),
        RoPE(16, layout="half", scaling=YaRN(8.0, 4096)), "frequencies", "as in LongRoPE"),
}  # fmt: skip
#: Those of less than 0.3 s.
DAY = {
    "along heads", "clamped slice", "queries for keys", "groups first", "frames only", "descending",
    "parenthesis", "head in power", "denominator", "ratio in half", "another's factor",
}  # fmt: skip


@pytest.mark.parametrize("name", by_day(CASES, DAY))
def test_the_first_finding_names_the_cause(name):
    fn, encoding, surface, words = CASES[name]
    report = check(fn, encoding, surface)
    assert report.verdict == "deviates"
    assert words in report.findings[0].message, report


@pytest.mark.nightly
def test_flat_rows_of_packed_tokens_are_named():
    report = check(flat_tokens, HALF, "apply", tensor_layout="thd")
    assert "the position of token (t H + h) modulo B S" in report.findings[0].message, report


def test_numbers_of_calls_are_no_place_where_their_inputs_differ():
    factors = LongRoPE(tuple(1 + np.arange(8) / 8), tuple(2 + np.arange(8.0)), 128, factor=8.0)
    long = RoPE(16, layout="half", scaling=factors)
    report = check(lambda n: long.frequencies(n + 1), long, "frequencies")
    assert "one token early" in report.findings[0].message
    assert "call number" not in str(report)
    assert "from call" not in str(report)


def test_remedies_fit_the_surface():
    def shifted(k, by):
        at = np.full(k.shape[2], by)
        part = rotated(k[..., 16:], at, RoPE(16, layout="interleaved"))
        return np.concatenate([k[..., :16], part], -1)

    finding = check(shifted, JOINED, "shift_keys").findings[0]
    assert finding.code == "layout"
    assert "permute" not in finding.remedy
    whole = check(rotated, HALF.replace(rotary_dim=8), "apply").findings[0]
    assert "Divide the exponents by 8, not by 16" in whole.remedy


@pytest.mark.parametrize(("first", "words"), [(True, "second"), (False, "first")])
def test_a_channel_is_overwritten_in_some_pairs(first, words):
    def fn(x, positions):
        y, wide = rotated(x.astype(np.float64), positions), x.astype(np.float64)
        angle = np.asarray(positions)[..., None] * PAIRS[:3]
        angle = over_heads(angle)
        cos, sin = np.cos(angle), np.sin(angle)
        a, b = wide[..., :3], wide[..., 8:11]
        if first:
            y[..., 8:11] = b * cos + y[..., :3] * sin
        else:
            y[..., :3] = a * cos - y[..., 8:11] * sin
        return y.astype(x.dtype)

    found = check(fn, HALF, "apply").findings[0]
    assert found.message.startswith(f"the {words} channel is computed from the ")
    assert found.message.endswith("which has overwritten it, only in pairs 0-2")


def test_the_length_of_dynamic_ntk_is_not_clamped():
    def fn(n):
        alpha = 2.0 * n / 128 - 1
        return (10000.0 * (alpha if alpha > 0 else 1.0) ** (16 / 14)) ** (-np.arange(8) / 8)

    found = check(fn, RoPE(16, layout="half", scaling=NTK), "frequencies").findings[0]
    assert found.message.endswith("in calls up to the trained length too, where that is above 0")


def test_other_pairs_stand_still():
    declared = RoPE(16, layout="half", scaling=Proportional(0.25))
    found = check(lambda: PAIRS * (np.arange(8) > 4), declared, "frequencies").findings[0]
    assert found.message == "pairs 5-7 turn, declared pairs 0-1: the others have frequency 0"


@pytest.mark.nightly
def test_the_mended_layout_of_a_slice_conforms():
    def across(x, positions):
        order = np.r_[0:4, 12:16, 4:12, 16:24]
        back = np.argsort(order)
        return rotated(x[..., order], positions, SLICE)[..., back]

    report = check(across, SLICE, "apply")
    assert "still fail" not in report.findings[0].remedy, report


def test_documents_of_text_alone_stay_right():
    assert (np.asarray(frames_only(np.zeros(5), [], [], [], [2, 3])) == packed([2, 3])).all()
