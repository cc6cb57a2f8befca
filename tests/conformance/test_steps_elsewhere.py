"""First findings on steps at another place, rows that wrap round, kept values and tiles.

On each of these functions the first finding was vague, or misleading, once.
"""

import numpy as np
import pytest

from posenc_ref import (
    FIRE,
    TUPE,
    ALiBi,
    Attention,
    AxialLearned,
    BoxSine,
    ChainBias,
    ConvPositions,
    DETRSine,
    DynamicBias,
    FoPE,
    ForgettingBias,
    FourierFeatures,
    Kerple,
    Learned,
    PaTH,
    Shaw,
    Sinusoidal,
    StandardizedSinusoidal,
    T5Bias,
    relative_index,
)
from posenc_ref.conformance import check
from posenc_ref.conformance.diagnosis.rounding import significant
from tests.night import by_day


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def last(n_q, n_k):
    return np.arange(n_k - n_q, n_k)[:, None], np.arange(n_k)


def wide(*arrays):
    return [np.asarray(a, np.float64) for a in arrays]


ODD = Sinusoidal(33, layout="concat", denominator="half-1", odd="zero-pad")
EXTRA = Sinusoidal(17, odd="extra-sin")
SINES = Sinusoidal(16)
BOX = BoxSine(32, axes="xy", axis_order="yx")
SHAW = Shaw(numbers(1, 12, 8), before=8)
POWER = Kerple((0.1, 0.4, 1.0), (0.005, 0.5, 1.8), form="power")
NET = numbers(2, 16, 1), numbers(3, 16), numbers(4, 4, 16)
FIRES = FIRE(*NET, c=0.3, length=16.0)
SILU = DynamicBias(
    (numbers(5, 8, 1), numbers(6, 3, 8)), (numbers(7, 8), numbers(8, 3)), log_distance=True
)
GATES = ForgettingBias(-np.abs(numbers(9, 2, 60)) - 0.5)
OF_CHAINS = np.repeat(range(4), 3)
COPIES = {
    "residue_index": [*range(3)] * 4,
    "asym_id": OF_CHAINS.tolist(),
    "entity_id": (OF_CHAINS % 2).tolist(),
    "sym_id": (OF_CHAINS // 2).tolist(),
}
CHAINS = ChainBias(numbers(10, 2, 21), max_offset=6, **COPIES)
FOURIER = FoPE(16, numbers(11, 1, 6, 5), numbers(12, 1, 6, 5), dropped_sin=0)
PATH = PaTH(numbers(13, 2, 40, 8), np.abs(numbers(14, 2, 40)))
T5 = T5Bias(numbers(17, 32, 2))
UNTIED = TUPE(numbers(15, 150, 2, 4), numbers(16, 150, 2, 4), bias=T5)
STRIDED = ConvPositions((numbers(18, 4, 2, 4),), (numbers(19, 4),), groups=2, stride=2)
THREE = ConvPositions(
    tuple(numbers(20 + n, 4, 2, 3) for n in range(3)), tuple(numbers(30 + n, 4) for n in range(3)),
    groups=2, layer_norm=True,
)  # fmt: skip
PATCHES = ConvPositions((numbers(23, 4, 1, 3, 3),), (numbers(24, 4),), groups=4, activation="none")
AXIAL = AxialLearned((numbers(25, 40, 4), numbers(26, 40, 4)), order=(1, 0))
EQUAL = Learned(np.repeat(numbers(27, 30, 4), 2, axis=0))
MEANS = StandardizedSinusoidal(16, 32)
PIXELS = DETRSine(16, normalize=False)
HALF_PIXELS = DETRSine(16, shift=-0.5)
NERF = FourierFeatures.nerf(4, include_input=True)


def half_of_an_odd_dim(positions):
    a = np.asarray(positions, float)[..., None] * 10000.0 ** (-np.arange(16) / 15.5)
    rows = np.concatenate([np.sin(a), np.cos(a), 0 * a[..., :1]], -1)
    return rows.astype(np.float32)


def surplus_cut_in_front(positions):
    a = np.asarray(positions, float)[..., None] * 10000.0 ** (-2 * np.arange(9) / 17)
    rows = np.empty((*a.shape[:-1], 17), np.float32)
    rows[..., ::2], rows[..., 1::2] = np.sin(a), np.cos(a[..., 1:])
    return rows


def cut_from_an_even_dim(positions):
    a = np.asarray(positions, float)[..., None] * 10000.0 ** (-np.arange(17) / 16)
    return np.concatenate([np.sin(a), np.cos(a)], -1)[..., :33].astype(np.float32)


def half_a_pixel_of_the_larger_side(height, width):
    y, x = np.indices((height, width)) + 1.0
    each = zip((y, x), (height, width), strict=True)
    axes = [2 * np.pi * (c / (n + 1e-6) - 0.5 / max(height, width)) for c, n in each]
    a = np.stack(axes).reshape(2, -1, 1) * 10000.0 ** (-np.arange(0, 8, 2) / 8)
    rows = np.stack([np.sin(a), np.cos(a)], -1).reshape(2, -1, 8)
    return np.concatenate([*rows], -1).astype(np.float32)


def last_band_in_all(points):
    x = np.stack([np.asarray(p, float) for p in points], -1) * np.pi
    waves = [lambda v: v / np.pi]
    for w in (1.0, 2.0, 4.0, 8.0):
        waves += [lambda v: np.sin(v * w), lambda v: np.cos(v * w)]  # noqa: B023
    return np.concatenate([wave(x) for wave in waves], -1).astype(np.float32)


def whole_width(points):
    return np.asarray(BOX.replace(base=100.0).table(points), np.float32)


def right_for_left(q, k):
    q, k, table = wide(q, k, SHAW.keys)
    i, j = last(q.shape[2], k.shape[2])
    rows = table[np.clip(j - i, -8, 3) + 3]
    return (q @ k.swapaxes(-1, -2) + np.einsum("bhid,ijd->bhij", q, rows)) / 8**0.5


def clamped_exponents(n_q, n_k):
    i, j = last(n_q, n_k)
    r1, r2 = (np.array(x)[:, None, None] for x in (POWER.r1, np.clip(POWER.r2, 0.01, 1)))
    return -r1 * np.abs(i - j).astype(float) ** r2


def threshold_after_log(n_q, n_k):
    i, j = last(n_q, n_k)
    x = np.log1p(0.3 * np.maximum(i - j, 0)) / (np.maximum(np.log1p(0.3 * i), 16.0) + 1e-6)
    return np.moveaxis(np.maximum(x[..., None] * NET[0][:, 0] + NET[1], 0) @ NET[2].T, -1, 0)


def active_at_the_end(n_q, n_k):
    y = np.asarray(SILU.bias(last(n_q, n_k)[0][:, 0], np.arange(n_k)), np.float64)
    return y / (1 + np.exp(-y))


def narrow_gates(n_q, n_k):
    sums = significant(np.cumsum(significant(GATES.log_gates, 8), -1), 8)
    return (sums[:, n_k - n_q : n_k, None] - sums[:, None, :n_k]).astype(np.float32)


def number_of_the_chain(n_q, n_k):
    moved = CHAINS.replace(sym_id=COPIES["asym_id"])
    return moved.bias(np.arange(n_k - n_q, n_k), np.arange(n_k))


def dropped_are_lost(q, k):
    q, k = wide(q, k)
    q[..., 5:8] = q[..., 13:] = 0
    i, j = last(q.shape[2], k.shape[2])
    return sum(FOURIER.terms(q, k, i[:, 0], j).values())


def mean_length(q, k):
    size = np.sqrt(np.sum(np.square(PATH.directions), -1, keepdims=True))
    w = PATH.directions / size.mean(axis=1, keepdims=True)
    q, k, w, beta = wide(q, k, w, PATH.beta)
    n_q, n_k = q.shape[2], k.shape[2]
    logits = np.zeros((*q.shape[:3], n_k))
    for t in range(n_k):
        step = np.sum(k[:, :, :t] * w[:, t, None], -1, keepdims=True) * w[:, t, None]
        k[:, :, :t] -= beta[:, t, None, None] * step
        if t >= n_k - n_q:
            i = t - n_k + n_q
            logits[:, :, i, : t + 1] = np.sum(q[:, :, i, None] * k[:, :, : t + 1], -1)
    return logits / 8**0.5


def rows_from_0(q, k):
    q, k, a, b = wide(q, k, UNTIED.position_queries, UNTIED.position_keys)
    places = np.einsum("ihd,jhd->hij", a[: q.shape[2]], b[: k.shape[2]])
    i, j = last(q.shape[2], k.shape[2])
    return (q @ k.swapaxes(-1, -2) + places) * UNTIED.own_scale(4) + T5.bias(i[:, 0], j)


def far_tiles(n_q, n_k):
    q, k = np.arange(n_k - n_q, n_k), np.arange(n_k)
    own = np.array(T5.bias(q, k))
    i, j = (np.arange(n) // 32 * 32 for n in (n_q, n_k))
    first = own[:, i[:, None], j]
    return np.where(k[j] - q[i][:, None] >= 32, first, own)


class LastRows:
    """Keeps the largest bias, and cuts its last rows."""

    def __init__(self):
        self.kept = np.zeros((4, 0, 0))

    def __call__(self, n_q, n_k):
        if self.kept.shape[-1] < n_k:
            self.kept = np.asarray(ALiBi(4, causal=False).bias(np.arange(n_k), np.arange(n_k)))
        return self.kept[:, -n_q:, :n_k]


class Regrown:
    """Keeps rows, and extends them from position 0 on."""

    def __init__(self):
        self.rows = SINES.table(np.arange(16))

    def __call__(self, x):
        more = np.arange(max(x.shape[1] - len(self.rows), 0))
        self.rows = np.concatenate([self.rows, SINES.table(more)])
        return (x + self.rows[: x.shape[1]]).astype(x.dtype)


def second_of_two(x):
    return np.asarray(STRIDED.replace(stride=1).convolve(x))[:, 1::2]


def residual_layers(x):
    for w, b in zip(THREE.weights, THREE.biases, strict=True):
        one = THREE.replace(weights=(w,), biases=(b,))
        x = x + np.asarray(one.convolve(x))
    return x


def last_kernel_in_the_middle(x):
    first, _, last = THREE.weights
    return np.asarray(THREE.replace(weights=(first, last, last)).convolve(x))


def biases_of_the_second(x):
    return np.asarray(THREE.replace(biases=(THREE.biases[1],) * 3).convolve(x))


def turned_grid(x, height, width):
    return PATCHES.convolve(x, width, height)


def columns_for_rows(height, width):
    one = AXIAL.tables[1]
    return np.asarray(AXIAL.replace(tables=(one, one)).grid(height, width))


def one_row_early(positions):
    p = np.asarray(positions)
    return EQUAL.weight[np.maximum(p - (p % 7 == 5), 0)]


def by_column(positions):
    every, rows = (Sinusoidal(16).table(np.asarray(p)) for p in (np.arange(32), positions))
    return ((rows - every.mean(0)) / (10 * every.std(0, ddof=1))).astype(np.float32)


def from_pixel_0(height, width):
    y, x = np.divmod(np.arange(height * width), width)
    both = [Sinusoidal(8).table(p) for p in (y, x)]
    return np.concatenate(both, -1).astype(np.float32)


def to_the_end(length):
    return SINES.table(np.linspace(0, length, length)).astype(np.float32)


def weights_of(q, k, bias):
    h, n_q, n_k = q.shape[1], q.shape[2], k.shape[2]
    k = np.repeat(k, h // k.shape[1], 1)
    s = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5 + bias
    return np.where(np.tri(n_q, n_k, n_k - n_q, dtype=bool), s, -np.inf)


def not_rescaled(q, k, v, q_at, k_at):
    q, k, v = wide(q, k, v)
    s = weights_of(q, k, ALiBi(4).bias(q_at, k_at))
    v = np.repeat(v, q.shape[1] // v.shape[1], 1)
    top, total, out = np.full((*s.shape[:3], 1), -1e30), 0.0, 0.0
    for a in range(0, s.shape[-1], 16):
        new = np.maximum(top, s[..., a : a + 16].max(-1, keepdims=True))
        p = np.exp(s[..., a : a + 16] - new)
        total = total * np.exp(top - new) + p.sum(-1, keepdims=True)
        out, top = out + p @ v[:, :, a : a + 16], new
    return (out / total).astype(np.float32)


def own_index(q, k, v, q_at, k_at):
    at = np.arange(len(k_at))
    s = weights_of(*wide(q, k), FIRES.bias(at[len(at) - len(q_at) :], at))
    p = np.exp(s - s.max(-1, keepdims=True))
    v = np.repeat(v, q.shape[1] // v.shape[1], 1)
    return (p / p.sum(-1, keepdims=True) @ v).astype(np.float32)


def eight_bits(window):
    return np.asarray(relative_index(window)) % 256


def rolled_by_keys(x):
    return np.stack([np.roll(row, i + 1 - x.shape[1]) for i, row in enumerate(x)])


def first_columns(q, rel):
    n = len(q)
    padded = np.pad(q @ rel.T, ((0, 0), (0, 1))).ravel()
    return np.pad(padded, (0, n - 1)).reshape(n + 1, 2 * n - 1)[:n, :n]


def first_row_for_all(mask):
    left = np.arange(mask.shape[1]) - (1 - mask[0]).sum()
    return np.broadcast_to(np.maximum(left, 0), mask.shape)


CASES = {
    "half dim": (half_of_an_odd_dim, ODD, "table", "k/15.5 (2k/31), not k/15; a base of 7429.64"),
    "odd dim": (surplus_cut_in_front, EXTRA, "table", "surplus frequency is cut off at the start"),
    "even dim": (cut_from_an_even_dim, ODD, "table", "are made for dim = 34, and the last column"),
    "half pixel": (half_a_pixel_of_the_larger_side, HALF_PIXELS, "grid", "by the larger side"),
    "last band": (last_band_in_all, NERF, "table", "of the bands are all the last one"),
    "whole width": (whole_width, BOX, "table", "the columns of all 2 coordinates, 32, not by"),
    "shift": (right_for_left, SHAW, "scores", "plus 3, and row -5 of the 12 rows wraps round"),
    "clamped": (clamped_exponents, POWER, "bias", "r2 clamped to 0.01 .. 1"),
    "threshold": (threshold_after_log, FIRES, "bias", "the threshold outside the logarithm"),
    "active": (active_at_the_end, SILU, "bias", "the last layer goes through the activation, silu"),
    "gates": (narrow_gates, GATES, "bias", "the sum of gates is one of rounded gates, and is it"),
    "copies": (number_of_the_chain, CHAINS, "bias", "is that of asym_id, the number of the chain"),
    "mean length": (mean_length, PATH, "scores", "by the mean length of the head's directions"),
    "dropped": (dropped_are_lost, FOURIER, "scores", "C = 0 and S = 0: their channels are lost"),
    "rows": (rows_from_0, UNTIED, "scores", "the queries in the position term are 0 .. Q - 1"),
    "tiles": (far_tiles, T5, "bias", "first pair, in tiles that begin at least a tile after"),
    "kept": (LastRows(), ALiBi(4, causal=False), "bias", "a kept bias of 4099 keys, of which que"),
    "regrown": (Regrown(), SINES, "add", "begins with 16 rows are numbered from 0 again"),
    "stride": (second_of_two, STRIDED, "convolve", "of every 2 tokens of the convolution the sec"),
    "residual": (residual_layers, THREE, "convolve", "the layers each add their input to their"),
    "one kernel": (last_kernel_in_the_middle, THREE, "convolve", "of layer 1 are those of layer 2"),
    "biases": (biases_of_the_second, THREE, "convolve", "of every layer are those of layer 1"),
    "turned": (turned_grid, PATCHES, "convolve_grid", "the tokens are reshaped to (width, height)"),
    "one table": (columns_for_rows, AXIAL, "grid", "the table of axis 0 is tables[1], that of"),
    "equal rows": (one_row_early, EQUAL, "table", "4 of 60 positions get wrong rows"),
    "by column": (by_column, MEANS, "table", "standard deviation are those of each column"),
    "pixel 0": (from_pixel_0, PIXELS, "grid", "the positions of pixels count from 0, not from 1"),
    "linspace": (to_the_end, SINES, "rows", "token i has the position i S / (S - 1)"),
    "online": (not_rescaled, Attention(ALiBi(4)), "attention", "in tiles of 16 keys, the sum of"),
    "index": (own_index, Attention(FIRES), "attention", "passed are ignored: a token has its ind"),
    "8 bits": (eight_bits, None, "relative_index", "the index is stored in 8 bits"),
    "rolled": (rolled_by_keys, None, "relative_shift", "rolled by K - 1 - i, not by Q - 1 - i"),
    "columns": (first_columns, None, "relative_scores", "reshape columns 0 .. S - 1 are kept"),
    "first row": (first_row_for_all, None, "position_ids", "whose padding is taken to be on"),
}  # fmt: skip
#: Cases of half a second or more, most of which fit many formulas.
SLOW = {"threshold", "active", "tiles", "kept", "linspace", "online", "index", "mean length"}


@pytest.mark.parametrize("name", by_day(CASES, CASES.keys() - SLOW))
def test_the_first_finding_names_the_cause(name):
    fn, encoding, surface, words = CASES[name]
    report = check(fn, encoding, surface)
    assert report.verdict == "deviates"
    assert words in report.findings[0].message, report
