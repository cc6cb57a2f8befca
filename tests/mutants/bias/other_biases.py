"""Biases other than ALiBi's and T5's: wrong and right functions of `bias`."""

import numpy as np

from tests.mutants._case import correct, wrong
from tests.mutants._parts import distances
from tests.mutants.score.score_terms import table

# --- KERPLE --------------------------------------------------------------------------------------

R1, R2 = (1.5, 0.25, 0.6), (0.5, 0.03, 0.9)
KERPLE = {"encoding": "Kerple", "r1": list(R1), "r2": list(R2)}


def column(values):
    """One number for each head."""
    return np.array(values, np.float32)[:, None, None]


def kerple(q_len, k_len, r1=R1, r2=R2):
    """-r1 log(1 + r2 d), 0 for later keys."""
    d = np.maximum(distances(q_len, k_len), 0).astype(np.float32)
    return -column(r1) * np.log(1 + column(r2) * d)


@wrong(
    "bias-missing", surface="bias", encoding=KERPLE, thread="class: a plain tensor of zeros (NeMo)"
)
def kerple_of_zeros(q_len, k_len):
    """The parameter is a tensor of zeros: there is no bias at all."""
    return 0 * kerple(q_len, k_len)


@wrong("bias-missing", surface="bias", encoding=KERPLE, thread="class: no bias while decoding")
def kerple_for_several_queries_only(q_len, k_len):
    """A single query gets no bias."""
    return kerple(q_len, k_len) * np.float32(q_len > 1)


@wrong("bias-sign", surface="bias", encoding=KERPLE, thread="class: distance rewarded")
def kerple_rewarding_distance(q_len, k_len):
    """+r1 log(1 + r2 d)."""
    return -kerple(q_len, k_len)


@wrong("wrong-row", surface="bias", encoding=KERPLE, thread="class: parameters exchanged")
def kerple_parameters_exchanged(q_len, k_len):
    """-r2 log(1 + r1 d)."""
    return kerple(q_len, k_len, R2, R1)


@correct(surface="bias", encoding=KERPLE, thread="class: log1p, both directions")
def kerple_by_log1p(q_len, k_len):
    """log1p of the absolute distance."""
    d = np.abs(distances(q_len, k_len)).astype(np.float32)
    return -column(R1) * np.log1p(column(R2) * d)


# --- Sandwich ------------------------------------------------------------------------------------

SANDWICH = {"encoding": "Sandwich", "num_heads": 4, "dim": 8}


def sandwich(q_len, k_len, first=1, heads=None, constant=4):
    """Sum of cosines over the compression of each head."""
    waves = 10000.0 ** (-np.arange(first, first + 4, dtype=np.float32) / 4)
    d = distances(q_len, k_len).astype(np.float32)
    total = sum(np.cos(d * np.float32(w)) for w in waves) - np.float32(constant)
    return (total / column(2.0 * np.arange(1, 5) if heads is None else heads)).astype(np.float32)


@wrong("exponent", surface="bias", encoding=SANDWICH, thread="class: exponents from 0")
def sandwich_exponents_from_zero(q_len, k_len):
    """The Transformer's own frequencies."""
    return sandwich(q_len, k_len, first=0)


@wrong("bias-scale", surface="bias", encoding=SANDWICH, thread="class: 8h without 1/H")
def sandwich_without_the_number_of_heads(q_len, k_len):
    """Divided by 8h, not 8h/H."""
    return sandwich(q_len, k_len, heads=8.0 * np.arange(1, 5))


@wrong("head-order", surface="bias", encoding=SANDWICH, thread="class: heads reversed")
def sandwich_heads_reversed(q_len, k_len):
    """The last head gets the first one's compression."""
    return sandwich(q_len, k_len, heads=2.0 * np.arange(4, 0, -1))


@correct(surface="bias", encoding=SANDWICH, thread="class: constant left out")
def sandwich_without_the_constant(q_len, k_len):
    """dim/2 is not subtracted, which softmax does not see."""
    return sandwich(q_len, k_len, constant=0)


# --- FIRE ----------------------------------------------------------------------------------------

HIDDEN, SHIFT, OUT = table(6, 1, seed=0.2), table(6, seed=0.3), table(2, 6, seed=0.4)
FIRE = {"encoding": "FIRE", "hidden": HIDDEN, "hidden_bias": SHIFT, "output": OUT,
        "length": 64.0}  # fmt: skip


def fire(q_len, k_len, norm_of=lambda i: np.maximum(i, 64)):
    """f(psi(i - j) / psi(max(i, 64)))."""
    i = (k_len - q_len + np.arange(q_len, dtype=np.float32))[:, None]
    d = np.maximum(distances(q_len, k_len), 0).astype(np.float32)
    c = np.float32(0.1)
    norm = np.log(1 + c * np.asarray(norm_of(i), np.float32)) + np.float32(1e-6)
    x = np.log(1 + c * d) / norm
    y = np.maximum(x[..., None] * HIDDEN[:, 0] + SHIFT, 0) @ OUT.T
    return np.moveaxis(y, -1, 0)


@wrong("position-scale", surface="bias", encoding=FIRE, thread="class: no threshold")
def fire_without_the_threshold(q_len, k_len):
    """psi(i) divides, however short the sequence is."""
    return fire(q_len, k_len, lambda i: i)


@wrong(
    "position-scale", surface="bias", encoding=FIRE, thread="class: no progressive interpolation"
)
def fire_by_the_length_alone(q_len, k_len):
    """psi(64) divides, however far the query stands."""
    return fire(q_len, k_len, lambda i: 0 * i + 64)


@wrong("bias-sign", surface="bias", encoding=FIRE, thread="class: bias subtracted")
def fire_subtracted(q_len, k_len):
    """-f."""
    return -fire(q_len, k_len)


@correct(surface="bias", encoding=FIRE, thread="class: the paper's listing")
def fire_scores(q_len, k_len):
    """As the paper has it."""
    return fire(q_len, k_len)


# --- windows -------------------------------------------------------------------------------------

WINDOW = (3, 4)
SWIN_TABLE, BEIT_TABLE, LEVIT_TABLE = (table(n, 2, seed=0.5) for n in (35, 38, 12))
SWIN = {"encoding": "SwinBias", "table": SWIN_TABLE, "window": list(WINDOW)}
BEIT = {"encoding": "BEiTBias", "table": BEIT_TABLE, "window": list(WINDOW)}
LEVIT = {"encoding": "LeViTBias", "table": LEVIT_TABLE, "window": list(WINDOW)}


def apart():
    """dy and dx of query minus key, in a 3 x 4 window."""
    y, x = np.divmod(np.arange(12), 4)
    return y[:, None] - y, x[:, None] - x


def looked_up(rows, index, q_len, k_len):
    """table[index], heads first; only the whole window is known."""
    if (q_len, k_len) != index.shape:
        raise ValueError("the window has another size")
    return np.moveaxis(rows[index], -1, 0)


@wrong(
    "index-collision", surface="bias", encoding=SWIN, thread="microsoft/Swin-Transformer#59 (class)"
)
def swin_factor_of_the_other_axis(q_len, k_len):
    """dy times 2h - 1."""
    dy, dx = apart()
    return looked_up(SWIN_TABLE, (dy + 2) * 5 + dx + 3, q_len, k_len)


@wrong("bucket-sign", surface="bias", encoding=SWIN, thread="class: key minus query")
def swin_key_minus_query(q_len, k_len):
    """The transposed index."""
    dy, dx = apart()
    return looked_up(SWIN_TABLE, (2 - dy) * 7 + 3 - dx, q_len, k_len)


@correct(surface="bias", encoding=SWIN, thread="class: index by broadcasting")
def swin_bias(q_len, k_len):
    """As the paper's code has it."""
    dy, dx = apart()
    return looked_up(SWIN_TABLE, (dy + 2) * 7 + dx + 3, q_len, k_len)


def beit_index():
    """Swin's, framed by three rows of [CLS]."""
    dy, dx = apart()
    index = np.zeros((13, 13), int)
    index[1:, 1:] = (dy + 2) * 7 + dx + 3
    index[0, :], index[:, 0], index[0, 0] = 35, 36, 37
    return index


@wrong("wrong-row", surface="bias", encoding=BEIT, thread="class: [CLS] rows exchanged")
def beit_cls_rows_exchanged(q_len, k_len):
    """[CLS] to patches has the row of patches to [CLS]."""
    index = beit_index()
    index[0, 1:], index[1:, 0] = 36, 35
    return looked_up(BEIT_TABLE, index, q_len, k_len)


@wrong("bias-scale", surface="bias", encoding=BEIT, thread="class: bias inside 1/sqrt(d)")
def beit_bias_divided(q_len, k_len):
    """Divided by 8."""
    return looked_up(BEIT_TABLE, beit_index(), q_len, k_len) / np.float32(8)


@correct(surface="bias", encoding=BEIT, thread="class: an index with a frame")
def beit_bias(q_len, k_len):
    """As the code has it."""
    return looked_up(BEIT_TABLE, beit_index(), q_len, k_len)


@wrong("head-order", surface="bias", encoding=LEVIT, thread="class: heads reversed")
def levit_heads_reversed(q_len, k_len):
    """The last head first."""
    dy, dx = apart()
    return looked_up(LEVIT_TABLE, abs(dy) * 4 + abs(dx), q_len, k_len)[::-1]


@correct(surface="bias", encoding=LEVIT, thread="class: offsets in order of appearance")
def levit_bias(q_len, k_len):
    """Rows are numbered as the offsets of the first token appear."""
    dy, dx = apart()
    seen = {}
    index = [[seen.setdefault((a, b), len(seen)) for a, b in zip(*rows, strict=True)]
             for rows in zip(abs(dy), abs(dx), strict=True)]  # fmt: skip
    return looked_up(LEVIT_TABLE, np.array(index), q_len, k_len)


CPB = {
    "encoding": "LogCPB",
    "hidden": table(64, 2, seed=0.6),
    "hidden_bias": table(64, seed=0.7),
    "output": table(2, 64, seed=0.8) / 8,
    "window": [4, 4],
}


def log_cpb(q_len, k_len, order=(0, 1), unit=3.0):
    """16 sigmoid(f(log2(1 + 8 d) / log2(8)))."""
    y, x = np.divmod(np.arange(16), 4)
    d = np.stack([y[:, None] - y, x[:, None] - x], axis=-1)[..., list(order)] / np.float32(3)
    t = (np.sign(d) * np.log2(1 + 8 * np.abs(d)) / np.float32(unit)).astype(np.float32)
    f = np.maximum(t @ CPB["hidden"].T + CPB["hidden_bias"], 0) @ CPB["output"].T
    if (q_len, k_len) != (16, 16):
        raise ValueError("the window has another size")
    return np.moveaxis(16 / (1 + np.exp(-f)), -1, 0)


@wrong("axis-order", surface="bias", encoding=CPB, thread="class: (dx, dy)")
def log_cpb_of_dx_dy(q_len, k_len):
    """The network gets (dx, dy)."""
    return log_cpb(q_len, k_len, (1, 0))


@wrong("position-scale", surface="bias", encoding=CPB, thread="class: log2(8) forgotten")
def log_cpb_without_log2_of_8(q_len, k_len):
    """log2(1 + 8 d) itself."""
    return log_cpb(q_len, k_len, unit=1.0)


@correct(surface="bias", encoding=CPB, thread="class: a table of offsets computed once")
def log_cpb_bias(q_len, k_len):
    """As the code has it."""
    return log_cpb(q_len, k_len)
