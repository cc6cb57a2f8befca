"""First findings on logarithms, clamps, means and axes, which were vague or misleading once."""

import numpy as np
import pytest

from posenc_ref import (
    FIRE,
    ForgettingBias,
    Kerple,
    LogCPB,
    MultiAxisRoPE,
    StandardizedSinusoidal,
)
from posenc_ref.conformance import check
from posenc_ref.conformance.diagnosis.rounding import significant


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def offsets(n_q, n_k):
    return np.arange(n_k - n_q, n_k)[:, None] - np.arange(n_k)


KERPLE = Kerple((0.5, 1.25, 2.0), (0.25, 1.0, 1.75))
FIRES = FIRE(numbers(1, 8, 1), numbers(2, 8), numbers(3, 3, 8), c=0.1, length=24.0)
GATES = ForgettingBias(-np.abs(numbers(4, 3, 48)))
WINDOW = LogCPB(numbers(5, 16, 2), numbers(6, 16), numbers(7, 3, 16), window=(4, 6),
                pretrained_window=(3, 4))  # fmt: skip
MEANS = StandardizedSinusoidal(16, 42)
SECTIONS = MultiAxisRoPE(32, sections=(4, 6, 6), layout="half")
RESTART = MultiAxisRoPE(16, sections=(4, 4), layout="half", spacing="restart")


def distance_outside(n_q, n_k):
    r1, r2 = (np.reshape(r, (3, 1, 1)) for r in (KERPLE.r1, KERPLE.r2))
    return -r1 * np.log1p(r2) * np.abs(offsets(n_q, n_k))


def log_of_the_quotient(n_q, n_k):
    i = np.arange(n_k - n_q, n_k)[:, None]
    x = np.log1p(0.1 * np.maximum(offsets(n_q, n_k), 0) / np.maximum(i, 24))
    hidden = np.maximum(x[..., None] * FIRES.hidden[:, 0] + FIRES.hidden_bias, 0)
    return np.moveaxis(hidden @ FIRES.output.T, -1, 0)


def in_bfloat16(n_q, n_k):
    sums = significant(np.cumsum(significant(GATES.log_gates, 8), axis=-1), 8)[:, :n_k]
    return significant(sums[:, n_k - n_q :, None] - sums[:, None], 8)


def clamped_offsets(n_q, n_k):
    y, x = np.divmod(np.arange(24), 6)
    d = np.stack([(y[:, None] - y) / 2, (x[:, None] - x) / 3], axis=-1)
    d = np.clip(d, -1, 1)
    inputs = np.sign(d) * np.log2(1 + 8 * np.abs(d)) / 3
    hidden = np.maximum(inputs @ WINDOW.hidden.T + WINDOW.hidden_bias, 0)
    bias = np.moveaxis(16 / (1 + np.exp(-hidden @ WINDOW.output.T)), -1, 0)
    return bias[:, n_k - n_q : n_k, :n_k]


def centred_columns(positions):
    a = np.arange(42)[:, None] * 10000.0 ** (-np.arange(0, 16, 2) / 16)
    rows = np.stack([np.sin(a), np.cos(a)], axis=-1).reshape(42, 16)
    rows -= rows.mean(axis=0)
    return (rows / (10 * rows.std(ddof=1)))[positions]


def turned(x, cos, sin):
    """Rotate half-split pairs of x (B, H, S, D) by cos and sin (B, S, D) of every channel."""
    first, second = np.split(x, 2, axis=-1)
    half = np.concatenate([-second, first], axis=-1)
    return (x * cos[:, None] + half * sin[:, None]).astype(x.dtype)


def angles(encoding, positions):
    """Return the angles (B, S, pairs)."""
    return np.moveaxis(positions[encoding.axes()], 0, -1) * encoding.frequencies()


def every_axis_from_the_first(x, positions):
    w = 10000.0 ** (-np.arange(16) / 16)
    of = np.concatenate([w[:n] for n in (4, 6, 6)])
    a = np.moveaxis(positions[SECTIONS.axes()], 0, -1) * of
    a = np.concatenate([a, a], -1)
    return turned(x, np.cos(a), np.sin(a))


def doubled_for_neighbours(x, positions):
    a = np.repeat(angles(RESTART, positions), 2, axis=-1)
    return turned(x, np.cos(a), np.sin(a))


def back_by_starts(lengths):
    step, starts = np.ones(lengths.sum(), int), np.cumsum(lengths)[:-1]
    step[:1] = 0
    step[starts[starts < step.size]] = 1 - starts[starts < step.size]
    return np.cumsum(step)


CASES = {
    "outside": (distance_outside, KERPLE, "bias", "the distance is outside the logarithm"),
    "quotient": (log_of_the_quotient, FIRES, "bias", "of plain distances: the logarithm comes las"),
    "bfloat16": (in_bfloat16, GATES, "bias", "is rounded to bfloat16, as are the running sums"),
    "clamped": (clamped_offsets, WINDOW, "bias", "the normalised offset is clamped to -1 .. 1"),
    "columns": (centred_columns, MEANS, "table", "the deviation of the table without these means"),
    "sections": (every_axis_from_the_first, SECTIONS, "apply", "starts again at the first fre"),
    "neighbours": (doubled_for_neighbours, RESTART, "apply", "are doubled for interleaved pairs"),
    "starts": (back_by_starts, None, "packed", "positions jump back by the start of the document"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_first_finding_names_the_cause(name):
    fn, encoding, surface, words = CASES[name]
    report = check(fn, encoding, surface)
    assert report.verdict == "deviates"
    assert words in report.findings[0].message, report
