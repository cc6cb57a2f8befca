"""First findings on one function of each class of causes; all were vague, or misleading, once."""

from itertools import pairwise

import numpy as np
import pytest

from posenc_ref import (
    ALiBi,
    LongRoPE,
    ModelEncoding,
    MultiAxisRoPE,
    PoPE,
    RoPE,
    Sinusoidal,
    Sinusoidal2D,
    SwinBias,
    T5Bias,
)
from posenc_ref.conformance import check
from tests.authors import cases
from tests.night import by_day

HALF = RoPE(16, layout="half")
AXES = MultiAxisRoPE(16, sections=(2, 3, 3), layout="interleaved", spacing="restart")
SINES = Sinusoidal(16)
TABLE = T5Bias(np.random.default_rng(0).standard_normal((32, 2)))
ALIBI = ALiBi(2)
SWIN = SwinBias(np.random.default_rng(1).standard_normal((15, 2)), window=(2, 3))


def rotated(x, at, encoding=HALF):
    return np.asarray(encoding.apply(x, at))


def by_axes(change):
    """Return a rotation whose positions (A, ...) ``change`` gives."""

    def apply(x, positions):
        p = np.asarray(positions)
        p = p if p.ndim > 1 else np.broadcast_to(p, (3, *p.shape))
        return np.asarray(AXES.apply(x, np.stack(change(*p))))

    return apply


def torn(x, positions):
    """The second channel of every pair takes the cos and sin of the last axis."""
    p = np.asarray(positions)
    p = p if p.ndim > 1 else np.broadcast_to(p, (3, *p.shape))
    y = np.array(AXES.apply(x, p))
    w = np.concatenate([10000.0 ** (-np.arange(n) / n) for n in AXES.sections])
    angle = p[2][..., None] * w
    angle = angle[:, None] if angle.ndim == 3 else angle
    y[..., 1::2] = x[..., 1::2] * np.cos(angle) + x[..., ::2] * np.sin(angle)
    return y


def sines_of_the_pair_before(x, positions):
    angle = np.asarray(positions, float)[..., None] * 10000.0 ** (-np.arange(8) / 8)
    angle = angle[:, None] if angle.ndim == 3 else angle
    cos, sin = np.cos(angle), np.sin(np.roll(angle, 1, -1))
    a, b = np.split(x.astype(np.float64), 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def half_in_half(x, positions):
    y = np.array(rotated(x, positions))
    y[..., 8:] = y[..., 8:].astype(np.float16)
    return y


def batch_base(x, positions):
    return rotated(x, positions, HALF if len(x) == 1 else HALF.replace(base=500000.0))


def last_not_turned(x, positions):
    y = np.array(rotated(x, positions))
    if x.shape[2] > 1 and x.shape[2] % 8:
        y[:, :, -1] = x[:, :, -1]
    return y


def rows_rolled(x, positions):
    p = np.asarray(positions)
    return rotated(x, np.roll(p, 1, 0) if p.ndim == 2 else p)


def halved_far(x, positions):
    p = np.asarray(positions, float)
    return rotated(x, np.where(p >= 2048, 2048 + (p - 2048) / 2, p))


def power(x, positions):
    """Rotations to the power of the position, in single precision."""
    z = np.exp(1j * 10000.0 ** (-np.arange(8) / 8)).astype(np.complex64)
    turned = z ** np.asarray(positions, np.int64)[..., None]
    turned = turned[:, None] if turned.ndim == 3 else turned
    y = (x[..., :8] + 1j * x[..., 8:]) * turned
    return np.concatenate([y.real, y.imag], -1).astype(x.dtype)


def one_head(q, k, q_at, k_at):
    keys = rotated(k, k_at)
    return rotated(q, q_at), np.broadcast_to(keys[:, :1], keys.shape).copy()


def largest_offset(calls):
    most, found = 0, []
    for x, offset in calls:
        most = max(most, offset)
        found.append(rotated(x, most + np.arange(x.shape[2])))
    return found


def late_rows(positions):
    p = np.asarray(positions)
    return SINES.table(p + (p >= 512)).astype(np.float32)


def rows_before(x):
    table = SINES.table(np.arange(x.shape[1]))
    y = x + table
    y[1:] = x[1:] + np.roll(table, 1, axis=0)
    return y.astype(x.dtype)


def reversed_rows(x):
    table = SINES.table(np.arange(x.shape[1]))
    y = x + table
    y[1:] = x[1:] + table[::-1]
    return y.astype(x.dtype)


def stepped_cosines(positions):
    angle = np.asarray(positions, float)[:, None] * 10000.0 ** (-np.arange(8) / 8)
    cos = np.sin(np.rint((angle + np.pi / 2) * 1024) / 1024)
    return np.stack([np.sin(angle), cos], -1).reshape(len(angle), 16).astype(np.float32)


def column_before(height, width):
    """If the width is no multiple of 4, the last column has the position of the one before."""
    row, column = np.divmod(np.arange(height * width), width)
    column = np.where((column == width - 1) & (width % 4 > 0), column - 1, column)
    return Sinusoidal2D(16).table(np.stack([row, column])).astype(np.float32)


def doubled_neighbours(q_len, k_len):
    bias = np.array(TABLE.bias(np.arange(k_len - q_len, k_len), np.arange(k_len)))
    near = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len) == 1
    return np.where(near, 2 * bias, bias).astype(np.float32)


def added_to_the_first_key(q_len, k_len):
    bias = np.array(SWIN.bias(np.arange(k_len - q_len, k_len), np.arange(k_len)))
    bias[..., 0] += 1
    return bias


def tile_before(q_len, k_len):
    at = np.arange(k_len - q_len, k_len)
    start = q_len // 16 * 16
    at[start:] -= 16 * (start > 0)
    return np.array(ALIBI.bias(at, np.arange(k_len))).astype(np.float32)


def logits(q, k):
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    n, m = q.shape[2], k.shape[2]
    return q.astype(float), k.astype(float), np.arange(m - n, m), np.arange(m)


def capped_product(q, k):
    a, b, q_at, k_at = logits(q, k)
    product = a @ np.swapaxes(b, -1, -2) / q.shape[-1] ** 0.5
    return (30 * np.tanh(product / 30) + ALIBI.bias(q_at, k_at)).astype(q.dtype)


def normed_operands(q, k):
    a, b, q_at, k_at = logits(q, k)
    a, b = (HALF.apply(x / np.sqrt((x * x).mean(-1, keepdims=True)), at)
            for x, at in ((a, q_at), (b, k_at)))  # fmt: skip
    return (a @ np.swapaxes(b, -1, -2) / 4).astype(q.dtype)


def raw_keys(q, k):
    a, b, q_at, k_at = logits(q, k)
    waves = np.cos((k_at - q_at[:, None])[..., None] * 10000.0 ** (-np.arange(16) / 16))
    return (np.einsum("bhid,bhjd,ijd->bhij", np.logaddexp(0, a), b, waves) / 4).astype(q.dtype)


def groups_dealt(q, k):
    k = np.tile(k, (1, q.shape[1] // k.shape[1], 1, 1))
    n, m = q.shape[2], k.shape[2]
    a, b = HALF.apply(q, np.arange(m - n, m)), HALF.apply(k, np.arange(m))
    return (a @ np.swapaxes(b, -1, -2) / 4).astype(q.dtype)


def far_tokens(x, positions):
    at = np.broadcast_to(positions, (*np.shape(positions)[:-1], x.shape[2])).copy()
    at[..., 512:] -= 512
    return rotated(x, at)


def bounded(x, positions):
    return np.clip(rotated(x, positions), -3, 3)


def logarithmic(positions):
    angle = np.log1p(np.asarray(positions, float))[:, None] * 10000.0 ** (-np.arange(8) / 8)
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(len(angle), 16).astype(np.float32)


def last_columns_left(positions):
    return (SINES.table(np.asarray(positions)) * (np.arange(16) < 12)).astype(np.float32)


def halves_of_columns(height, width):
    table = Sinusoidal2D(16).table(np.stack(np.divmod(np.arange(height * width), width)))
    return np.concatenate([table[:, ::2], table[:, 1::2]], -1).astype(np.float32)


def aligned_right(lengths):
    most = max(map(int, lengths), default=0)
    return np.concatenate([[], *(np.arange(most - n, most) for n in lengths)]).astype(int)


def steps_in_pairs(prompt, steps):
    prompt = np.asarray(prompt)
    return prompt[:, None] + np.arange(steps) if prompt.ndim else prompt + np.arange(steps) // 2 * 2


def later_chunk(bounds, size, rank):
    found = [np.zeros(0, int)]
    for start, stop in pairwise(bounds):
        n = int(stop - start) // (2 * size)
        found += [np.arange(rank * n, rank * n + n)]
        found += [np.arange((2 * size - 1 - rank) * n, (2 * size - rank) * n) + int(start)]
    return np.concatenate(found)


FACTORS = LongRoPE(tuple(1 + np.arange(8) / 8), tuple(2 + np.arange(8.0)), 4096, factor=8.0)
LONG = RoPE(16, layout="half", scaling=FACTORS)
LAYERS = ModelEncoding(
    "every fourth", encodings={"rope": HALF, "nope": None}, layer_types=("rope",) * 3 + ("nope",)
)
LAYERS = LAYERS.replace(layer_types=LAYERS.layer_types * 6)


CASES = {
    "frames from 0": (by_axes(lambda t, h, w: (t - t.min(-1, keepdims=True), h, w)), AXES, "apply",
                      "position on axis 0 - the smallest position on axis 0 of the row"),
    "one less": (by_axes(lambda t, h, w: (np.maximum(t - 1, 0), h, w)), AXES, "apply",
                 "on axis 0 - 1, where the declared position on axis 0 is at least 1"),
    "a sum": (by_axes(lambda t, h, w: (t, h, h + w)), AXES, "apply",
              "is the declared position on axis 2 + the position on axis 1"),
    "torn": (torn, AXES, "apply", "the second channel of pairs 0-4 follows axis 2"),
    "other sines": (sines_of_the_pair_before, HALF, "apply",
                    "sin of pair k is that of pair k - 1, modulo 8, cos that of pair k"),
    "half in half": (half_in_half, HALF, "apply", "channels 8-15 of the result are rounded to fl"),
    "batch base": (batch_base, HALF, "apply",
                   "the base is 500000, declared 10000, only in calls with B >= 2"),
    "last token": (last_not_turned, HALF, "apply", "tokens are not rotated, as at position 0, whe"),
    "rolled rows": (rows_rolled, HALF, "apply", "the same token of the row before, or of the last"),
    "halved far": (halved_far, HALF, "apply",
                   "positions p from 2048 on are replaced by 2048 + (p - 2048) / 2"),
    "power": (power, HALF, "apply", "cos ** 2 + sin ** 2 drifts from 1: a rounded rotation"),
    "one head": (one_head, HALF, "apply_qk", "keys: every head is that of the first"),
    "largest offset": (largest_offset, HALF, "calls", "the index in the call + the largest offset"),
    "late rows": (late_rows, SINES, "table", "+ 1, where the declared position is at least 512"),
    "rows before": (rows_before, SINES, "add",
                    "of token (s - 1) modulo S, where the batch row is at least 1"),
    "reversed rows": (reversed_rows, SINES, "add", "reverse order, only in batch rows from 1 on"),
    "stepped": (stepped_cosines, SINES, "table",
                "the angles plus pi/2 of cos are rounded to the nearest step, in steps of 2 ** -"),
    "column before": (column_before, Sinusoidal2D(16), "grid",
                      "the column used is the column - 1, where"),
    "doubled": (doubled_neighbours, TABLE, "bias",
                "every wrong value is 2 times the declared one; wrong: query minus key 1"),
    "added": (added_to_the_first_key, SWIN, "bias",
              "every wrong value is the declared one + 1; wrong: key 0 of a call"),
    "tile before": (tile_before, ALIBI, "bias",
                    "queries of the last, incomplete tile of 16 have the positions of the tile "),
    "capped": (capped_product, ALIBI, "scores", "q . k is capped before the bias is added: 30 *"),
    "normed": (normed_operands, HALF, "scores", "queries and keys go through RMSNorm"),
    "groups dealt": (groups_dealt, HALF, "scores", "query head h uses the key head h modulo H_kv"),
    "far tokens": (far_tokens, HALF, "apply",
                   "the declared position - 512, where the index in the call is at least 512"),
    "bounded": (bounded, HALF, "apply", "the result is limited to at least -3 and at most 3"),
    "logarithmic": (logarithmic, SINES, "table", "the angles are those of log(1 + p), not of the"),
    "columns left": (last_columns_left, SINES, "table", "columns are the same at every posit"),
    "halves": (halves_of_columns, Sinusoidal2D(16), "grid", "they are the declared columns 0, 2"),
    "aligned right": (aligned_right, None, "packed", "that the document is shorter than the long"),
    "steps in pairs": (steps_in_pairs, None, "decode_positions",
                       "- 1, where the number of the step modulo 2 is 1"),
    "later chunk": (later_chunk, None, "shard_positions",
                    "+ the start of the document, where the number of the rank's chunk is 1"),
    "short factors": (lambda length: LONG.frequencies(1), LONG, "frequencies",
                      "the frequencies do not depend on the length: policy is 'short'"),
    "every sixth": (lambda n: [i % 6 != 5 for i in range(n)], LAYERS, "layers",
                    "every 6th layer is one of the layers without an encoding"),
    "raw keys": (raw_keys, PoPE(16), "scores", "sizes of keys are keys, without softplus"),
}  # fmt: skip
#: Cases of tests/authors of these classes.
AUTHORS = {
    "b001": "the last tile of 16 keys is moved back so that it is full",
    "b132": "the angles plus pi/2 of cos are rounded",
    "f012": "cos ** 2 + sin ** 2 drifts from 1",
    "f025": "the second channel of pairs 0-39 follows axis 2",
    "f157": "the distance query - key is clamped to at most 11, not to -12 .. 12",
    "g102": "sizes of keys are keys, without softplus",
    "g114": "of token (s - 1) modulo S",
    "g141": "the declared position on axis 0 - the smallest position on axis 0",
}
#: Those of less than 0.3 s, and one with several axes.
DAY = {
    "late rows", "steps in pairs", "later chunk", "short factors", "every sixth", "columns left",
    "other sines", "one head", "reversed rows", "capped", "aligned right", "added", "one less",
}  # fmt: skip


@pytest.mark.parametrize("name", by_day(CASES, DAY))
def test_the_first_finding_names_the_cause(name):
    fn, encoding, surface, words = CASES[name]
    report = check(fn, encoding, surface)
    assert report.verdict == "deviates"
    assert words in report.findings[0].message, report


@pytest.mark.parametrize("name", by_day(AUTHORS, ()))
def test_the_cause_of_an_author_s_function_has_a_name(name):
    case = cases()[name]
    report = check(case["fn"], case["encoding"], case["surface"], **case["settings"])
    assert AUTHORS[name] in report.findings[0].message, report
