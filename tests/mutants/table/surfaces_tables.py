"""Tables that come added, grids of patches, slopes of a rank: `add`, `grid`, `rank_slopes`."""

import numpy as np

from tests.mutants._case import alibi, correct, sinusoidal, wrong
from tests.mutants._parts import interleave, inv_freq, press_slopes

WEIGHT = np.random.default_rng(1).standard_normal((256, 8)).astype(np.float32)
LEARNED = {"encoding": "Learned", "weight": WEIGHT}


def sines(positions, base=10000.0):
    """Sinusoids of 32 columns."""
    a = np.asarray(positions, np.float32)[..., None] * inv_freq(32, base)
    return np.stack([np.sin(a), np.cos(a)], axis=-1).reshape(*np.shape(positions), 32)


# --- add -----------------------------------------------------------------------------------------


@wrong(
    "position-axis",
    surface="add",
    encoding=sinusoidal(32),
    thread="KasperGroesLudvigsen/influenza_transformer#9",
)
def added_by_batch(x):
    """pe[: x.size(0)] with x (B, S, dim)."""
    return x + sines(np.arange(x.shape[0]))[:, None]


@wrong("wrong-row", surface="add", encoding=sinusoidal(32), thread="DiffPoseTalk/DiffPoseTalk#20")
def added_one_row_to_all(x):
    """pe[:, x.shape[1], :] for pe[:, : x.shape[1], :]."""
    return x + sines(np.array([x.shape[1]]))


@wrong("amplitude", surface="add", encoding=sinusoidal(32), thread="class: sqrt(dim) inside")
def added_to_scaled_x(x):
    """x * sqrt(dim) belongs to the embedding, not to this function."""
    return x * np.float32(32**0.5) + sines(np.arange(x.shape[1]))


@wrong("base", surface="add", encoding=sinusoidal(32), thread="IDEA-Research/DAB-DETR#21")
def added_with_another_base(x):
    """Temperature 20."""
    return x + sines(np.arange(x.shape[1]), 20.0)


@wrong("mutates-input", surface="add", encoding=sinusoidal(32), thread="class: x += pe")
def added_in_place(x):
    """x is written over."""
    x += sines(np.arange(x.shape[1]))
    return x


@correct(surface="add", encoding=sinusoidal(32), thread="class: loops")
def added_column_by_column(x):
    """Column by column."""
    y = x.copy()
    p, w = np.arange(x.shape[1], dtype=np.float32), inv_freq(32)
    for k in range(16):
        y[..., 2 * k] += np.sin(p * w[k])
        y[..., 2 * k + 1] += np.cos(p * w[k])
    return y


@correct(surface="add", encoding=LEARNED, thread="class: learned table")
def added_from_a_learned_table(x):
    """A slice of the table."""
    if x.shape[1] > len(WEIGHT):
        raise ValueError("longer than the table")
    return x + WEIGHT[: x.shape[1]]


# --- grid ----------------------------------------------------------------------------------------


@wrong("token-order", surface="grid", encoding=LEARNED, thread="huggingface/transformers#41380")
def grid_by_columns(height, width):
    """meshgrid ij, flattened the other way."""
    return WEIGHT[np.arange(height * width).reshape(height, width).T.ravel()]


@wrong("token-order", surface="grid", encoding=LEARNED, thread="class: height for width")
def grid_with_height_for_width(height, width):
    """The number of a patch is y * height + x."""
    y, x = np.divmod(np.arange(height * width), width)
    return WEIGHT[y * height + x]


@wrong("table-offset", surface="grid", encoding=LEARNED, thread="class: row of the CLS token")
def grid_after_the_cls_row(height, width):
    """The first row is kept for a token that is not there."""
    return WEIGHT[1 : 1 + height * width]


@wrong("base", surface="grid", encoding=sinusoidal(32), thread="IDEA-Research/DAB-DETR#21")
def grid_with_another_base(height, width):
    """Temperature 20."""
    return sines(np.arange(height * width), 20.0)


@correct(surface="grid", encoding=LEARNED, thread="facebookresearch/mae#18")
def grid_in_rows(height, width):
    """Row by row; square grids only."""
    if height != width:
        raise ValueError("images are square")
    return WEIGHT[: height * width].reshape(height, width, 8).reshape(-1, 8)


@correct(surface="grid", encoding=sinusoidal(32), thread="class: flattened patches")
def grid_of_a_flat_table(height, width):
    """One axis over all patches."""
    return interleave(
        *(f(np.arange(height * width)[:, None] * inv_freq(32)) for f in (np.sin, np.cos))
    )


# --- rank_slopes ---------------------------------------------------------------------------------


@wrong("shard-offset", surface="rank_slopes", encoding=alibi(12), thread="class: local heads")
def rank_slopes_of_local_heads(num_heads, tp_size, tp_rank):
    """The slopes of a model with as many heads as the rank has."""
    return press_slopes(num_heads // tp_size)


@wrong("shard-offset", surface="rank_slopes", encoding=alibi(16), thread="class: rank left out")
def rank_slopes_of_the_first_rank(num_heads, tp_size, tp_rank):
    """Every rank takes the first heads."""
    return press_slopes(num_heads)[: num_heads // tp_size]


@wrong("head-order", surface="rank_slopes", encoding=alibi(16), thread="class: strided heads")
def rank_slopes_strided(num_heads, tp_size, tp_rank):
    """Every tp_size-th head."""
    return press_slopes(num_heads)[tp_rank::tp_size]


@wrong("slopes", surface="rank_slopes", encoding=alibi(12), thread="ml-explore/mlx#3071")
def rank_slopes_naive(num_heads, tp_size, tp_rank):
    """2 ** (-8h/n) for 12 heads."""
    n = num_heads // tp_size
    h = np.arange(1, num_heads + 1)[tp_rank * n : (tp_rank + 1) * n]
    return (2.0 ** (-8 * h / num_heads)).astype(np.float32)


@correct(surface="rank_slopes", encoding=alibi(12), thread="class: chunk of all slopes")
def rank_slopes_in_chunks(num_heads, tp_size, tp_rank):
    """All slopes, split."""
    return np.split(press_slopes(num_heads), tp_size)[tp_rank]
