"""Tables of images, videos, coordinates and factors: what goes wrong, and foreign ways to be right.

Each comes from a real divergence between libraries, or from a mistake that is reported again and
again.
"""

import numpy as np

from tests.mutants._case import correct, wrong

RNG = np.random.default_rng(11)
GAUSS = RNG.standard_normal((8, 2)).astype(np.float32)
ROWS, COLUMNS = (RNG.standard_normal((n, 6)).astype(np.float32) for n in (20, 16))
POINTS = RNG.standard_normal((40, 16)).astype(np.float32)


def image(dim=32, **fields):
    return {"encoding": "Sinusoidal2D", "dim": dim, **fields}


def detr(dim=32, **fields):
    return {"encoding": "DETRSine", "dim": dim, **fields}


def fourier(matrix, unit, **fields):
    return {"encoding": "FourierFeatures", "matrix": matrix, "unit": unit, **fields}


NERF = fourier(np.concatenate([2.0**level * np.eye(3) for level in range(6)]), "half-turn",
               layout="grouped")  # fmt: skip
SAM = fourier(GAUSS, "turn", offset=-0.5, position_scale=2.0)
AXIAL = {"encoding": "AxialLearned", "tables": [ROWS, COLUMNS]}
FLAT = {**AXIAL, "flat": True}
SUM = {
    "encoding": "Hybrid",
    "parts": [
        {"encoding": "Learned", "weight": POINTS},
        {"encoding": "Sinusoidal", "dim": 16, "layout": "concat"},
    ],
}
DATES = {
    "encoding": "Time2Vec",
    "weight": np.array([0.5, 3.0, -7.0, 11.0]),
    "bias": np.array([0.1, 0.7, 1.9, -0.4]),
}


def waves(values, pairs, base=10000.0, less=0):
    """Sines and cosines of ``value * base ** (-k / (pairs - less))``."""
    a = np.asarray(values, np.float32)[:, None] * (
        base ** (-np.arange(pairs) / (pairs - less))
    ).astype(np.float32)
    return np.sin(a), np.cos(a)


def places(height, width):
    y, x = np.divmod(np.arange(height * width), width)
    return y, x


# --- grids ---------------------------------------------------------------------------------------


@wrong(
    "axis-order",
    surface="grid",
    encoding=image(),
    thread="class: MAE names its halves the wrong way round",
)
def grid_with_the_width_first(height, width):
    """meshgrid(w, h), taken apart as if h came first."""
    y, x = places(height, width)
    return np.concatenate([*waves(x, 8), *waves(y, 8)], axis=1)


@wrong("denominator", surface="grid", encoding=image(), thread="class: MoCo v3's D/4 - 1")
def grid_over_a_quarter_less_one(height, width):
    """The slowest pair has frequency 1/10000."""
    y, x = places(height, width)
    return np.concatenate([*waves(y, 8, less=1), *waves(x, 8, less=1)], axis=1)


@wrong("layout", surface="grid", encoding=image(), thread="class: timm's stack")
def grid_with_all_sines_first(height, width):
    """[sin_h, sin_w, cos_h, cos_w]."""
    y, x = places(height, width)
    (sy, cy), (sx, cx) = waves(y, 8), waves(x, 8)
    return np.concatenate([sy, sx, cy, cx], axis=1)


@wrong(
    "token-order",
    surface="grid",
    encoding=image(axis_order="wh"),
    thread="class: OmDet-Turbo and RT-DETR",
)
def grid_listed_column_by_column(height, width):
    """meshgrid(w, h, indexing="ij"): right on square images of one patch a side only."""
    x, y = np.divmod(np.arange(height * width), height)
    return np.concatenate([*waves(x, 8), *waves(y, 8)], axis=1)


@wrong(
    "exponent", surface="grid", encoding=image(), thread="class: exponent 2k where k steps by two"
)
def grid_with_a_doubled_exponent(height, width):
    """base ** (-2k / (D/4))."""
    y, x = places(height, width)
    w = 10000.0 ** (-2 * np.arange(8) / 8)
    parts = [f(p[:, None] * w) for p in (y, x) for f in (np.sin, np.cos)]
    return np.concatenate(parts, axis=1).astype(np.float32)


@wrong(
    "position-scale",
    surface="grid",
    encoding=image(extent=16.0),
    thread="class: base_size",
)
def grid_without_its_extent(height, width):
    """base_size is for a table of another size, and forgotten."""
    y, x = places(height, width)
    return np.concatenate([*waves(y, 8), *waves(x, 8)], axis=1)


@correct(
    surface="grid", encoding=image(axis_order="wh", denominator="half-1"), thread="class: MoCo v3"
)
def grid_of_moco(height, width):
    """Row by row, the width's columns first."""
    y, x = places(height, width)
    return np.concatenate([*waves(x, 8, less=1), *waves(y, 8, less=1)], axis=1)


@correct(surface="grid", encoding=image(), thread="class: outer sums of two small tables")
def grid_by_broadcasting(height, width):
    """A table for the rows and one for the columns, repeated."""
    rows, columns = (np.concatenate(waves(np.arange(n), 8), axis=1) for n in (height, width))
    return np.concatenate([np.repeat(rows, width, 0), np.tile(columns, (height, 1))], axis=1)


# --- DETR ----------------------------------------------------------------------------------------


def detr_table(height, width, *, first=1.0, top=2 * np.pi, base=10000.0, swap=False):
    y, x = places(height, width)
    y, x = (y + first) / (height + 1e-6) * top, (x + first) / (width + 1e-6) * top
    parts = []
    for p in (x, y) if swap else (y, x):
        s, c = waves(p, 8, base)
        parts.append(np.stack([s, c], axis=-1).reshape(len(p), 16))
    return np.concatenate(parts, axis=1)


@wrong("position-origin", surface="grid", encoding=detr(), thread="class: cumsum starts at 1")
def detr_from_zero(height, width):
    """arange, where the cumulative sum of the mask begins with 1."""
    return detr_table(height, width, first=0.0)


@wrong("position-scale", surface="grid", encoding=detr(), thread="class: scale 1 for 2 pi")
def detr_without_two_pi(height, width):
    """Positions end at 1."""
    return detr_table(height, width, top=1.0)


@wrong("axis-order", surface="grid", encoding=detr(), thread="class: (x, y) as its learned table")
def detr_with_x_first(height, width):
    """The learned encoding has x first, the sines y."""
    return detr_table(height, width, swap=True)


@wrong("base", surface="grid", encoding=detr(base=20.0), thread="IDEA-Research/DAB-DETR#21")
def detr_with_the_old_temperature(height, width):
    """10000 for DAB-DETR's 20."""
    return detr_table(height, width)


@correct(surface="grid", encoding=detr(shift=-0.5), thread="class: Deformable DETR")
def detr_at_the_centres(height, width):
    """Half a pixel off."""
    return detr_table(height, width, first=0.5)


# --- coordinates ---------------------------------------------------------------------------------


def nerf_rows(v, factor):
    x = np.asarray(v, np.float32).T
    parts = [f(np.float32(factor * 2.0**level) * x) for level in range(6) for f in (np.sin, np.cos)]
    return np.concatenate(parts, axis=1)


@wrong("position-scale", surface="table", encoding=NERF, thread="class: nerf-pytorch")
def nerf_without_pi(v):
    """The paper has pi, the code that everybody copies has not."""
    return nerf_rows(v, 1.0)


@wrong("layout", surface="table", encoding=NERF, thread="class: all sines before all cosines")
def nerf_with_all_sines_first(v):
    """Columns of another order than by frequency."""
    x = np.asarray(v, np.float32).T
    parts = [f(np.float32(np.pi * 2.0**k) * x) for f in (np.sin, np.cos) for k in range(6)]
    return np.concatenate(parts, axis=1)


@correct(surface="table", encoding=NERF, thread="class: frequencies in the innermost loop")
def nerf_by_outer_product(v):
    """One outer product, reordered."""
    a = np.pi * np.asarray(v, np.float64).T[:, None] * 2.0 ** np.arange(6)[:, None]
    return np.concatenate([np.sin(a), np.cos(a)], axis=2).reshape(len(a), -1).astype(np.float32)


def sam_rows(v, factor=2 * np.pi, mapped=True):
    x = np.asarray(v, np.float32).T
    a = np.float32(factor) * ((2 * x - 1 if mapped else x) @ GAUSS.T)
    return np.concatenate([np.sin(a), np.cos(a)], axis=1)


@wrong("axis-order", surface="table", encoding=SAM, thread="class: (y, x) for (x, y)")
def sam_of_rows_and_columns(v):
    """Points as (row, column)."""
    return sam_rows(v[::-1])


@wrong("phase-order", surface="table", encoding=SAM, thread="class: the paper's cos first")
def sam_with_cosines_first(v):
    """[cos, sin] as Tancik et al. have it."""
    table = sam_rows(v)
    return np.concatenate([table[:, 8:], table[:, :8]], axis=1)


@wrong("position-scale", surface="table", encoding=SAM, thread="class: 2 pi missing")
def sam_without_two_pi(v):
    """The matrix is in turns."""
    return sam_rows(v, 1.0)


@correct(surface="table", encoding=SAM, thread="class: complex exponential")
def sam_by_complex_numbers(v):
    """exp of an imaginary number."""
    z = np.exp(2j * np.pi * ((2.0 * np.asarray(v).T - 1) @ GAUSS.T))
    return np.concatenate([z.imag, z.real], axis=1).astype(np.float32)


@wrong("layout", surface="table", encoding=DATES, thread="class: SineActivation puts it last")
def dates_with_the_line_last(t):
    """The linear component behind the sines."""
    t = np.asarray(t, np.float32)[:, None]
    a = t * DATES["weight"].astype(np.float32) + DATES["bias"].astype(np.float32)
    return np.concatenate([np.sin(a[:, 1:]), a[:, :1]], axis=1)


@wrong("phase-order", surface="table", encoding=DATES, thread="class: CosineActivation")
def dates_of_cosines(t):
    """Cosines for sines."""
    t = np.asarray(t, np.float32)[:, None]
    a = t * DATES["weight"].astype(np.float32) + DATES["bias"].astype(np.float32)
    return np.concatenate([a[:, :1], np.cos(a[:, 1:])], axis=1)


@correct(surface="table", encoding=DATES, thread="class: column by column")
def dates_column_by_column(t):
    """A list of columns."""
    line, *rest = [
        np.asarray(t) * w + b for w, b in zip(DATES["weight"], DATES["bias"], strict=True)
    ]
    return np.stack([line, *map(np.sin, rest)], axis=1).astype(np.float32)


# --- factors and sums ----------------------------------------------------------------------------


def looked_up(table, at):
    if np.any(np.asarray(at) < 0) or np.any(np.asarray(at) >= len(table)):
        raise IndexError("no such row")
    return table[at]


@wrong("axis-order", surface="grid", encoding=AXIAL, thread="class: DETR's learned x before y")
def factors_with_the_columns_first(height, width):
    """cat([x_emb, y_emb])."""
    y, x = places(height, width)
    return np.concatenate([looked_up(COLUMNS, x), looked_up(ROWS, y)], axis=1)


@correct(surface="grid", encoding=AXIAL, thread="class: repeated and tiled")
def factors_repeated(height, width):
    """Rows repeated, columns tiled."""
    rows, columns = (looked_up(t, np.arange(n)) for t, n in ((ROWS, height), (COLUMNS, width)))
    return np.concatenate([np.repeat(rows, width, 0), np.tile(columns, (height, 1))], axis=1)


@correct(surface="table", encoding=FLAT, thread="class: Reformer's broadcast")
def factors_broadcast(positions):
    """The whole table, cut."""
    rows = np.broadcast_to(ROWS[:, None], (20, 16, 6))
    columns = np.broadcast_to(COLUMNS, (20, 16, 6))
    return looked_up(np.concatenate([rows, columns], axis=2).reshape(320, 12), positions)


@wrong("amplitude", surface="table", encoding=SUM, thread="class: one of two tables forgotten")
def sum_without_its_sinusoid(positions):
    """The learned rows alone."""
    return looked_up(POINTS, positions)


@correct(surface="table", encoding=SUM, thread="class: added in float32")
def sum_in_float32(positions):
    """Learned and fixed."""
    return looked_up(POINTS, positions) + np.concatenate(waves(positions, 8), axis=1)
