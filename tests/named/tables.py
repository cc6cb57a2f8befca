"""Sinusoids: order of the halves, exponents, rows; and the grids of images."""

import math

import numpy as np

from ._case import right, wrong

HALVES, DENOMINATOR, FLOOR = "swapped halves", "half-1 for dim", "floor-division exponent"
COLUMNS, AXES, REVERSED = "column-order grid", "swapped axes", "reversed table cut to length"


def sinusoidal(dim, **fields):
    return {"encoding": "Sinusoidal", "dim": dim, **fields}


def image(dim, **fields):
    return {"encoding": "Sinusoidal2D", "dim": dim, **fields}


def omega(half, n=None, base=10000.0):
    return (1.0 / base ** (np.arange(half) / (half if n is None else n))).astype(np.float32)


def angles(positions, w):
    return np.asarray(positions, np.float32)[:, None] * w


def both(a):
    return np.concatenate([np.sin(a), np.cos(a)], axis=-1)


def interleaved(a):
    out = np.empty((a.shape[0], 2 * a.shape[1]), a.dtype)
    out[:, 0::2], out[:, 1::2] = np.sin(a), np.cos(a)
    return out


# --- the halves ----------------------------------------------------------------------------------


@wrong(HALVES, "phase-order", "cos", surface="table", encoding=sinusoidal(64, layout="concat"))
def cosines_then_sines(positions):
    a = angles(positions, omega(32))
    return np.concatenate([np.cos(a), np.sin(a)], axis=-1)


@wrong(HALVES, "phase-order", "sin", surface="table",
       encoding=sinusoidal(256, layout="concat", first="cos", denominator="half-1"))  # fmt: skip
def sines_then_cosines(positions):
    return both(angles(positions, omega(128, 127)))


@wrong(HALVES, "phase-order", "cos", surface="table", encoding=sinusoidal(100))
def cosines_in_the_even_columns(positions):
    a = angles(positions, omega(50))
    return np.stack([np.cos(a), np.sin(a)], axis=-1).reshape(len(a), 100)


@wrong(HALVES, "phase-order", "cos", surface="add", encoding=sinusoidal(32, layout="concat"))
def adds_cosines_first(x):
    a = angles(np.arange(x.shape[1]), omega(16))
    return x + np.concatenate([np.cos(a), np.sin(a)], axis=-1)


@wrong(HALVES, "phase-order", "cos", surface="table", encoding=sinusoidal(128, layout="concat"),
       backend="torch", dtype="bfloat16")  # fmt: skip
def cosines_then_sines_in_bfloat16(positions):
    import torch

    w = 10000 ** (-torch.arange(0, 128, 2) / 128)
    a = positions.float()[:, None] * w
    return torch.cat([a.cos(), a.sin()], dim=-1).to(torch.bfloat16)


@wrong(HALVES, "phase-order", "cos", surface="rows", encoding=sinusoidal(64, layout="concat"))
def rows_of_cosines_then_sines(seq_len):
    a = angles(np.arange(seq_len), omega(32))
    return np.concatenate([np.cos(a), np.sin(a)], axis=-1)


@wrong(HALVES, "phase-order", "cos", surface="rows", encoding=sinusoidal(32))
def cut_from_512_rows_of_cosines_and_sines(seq_len):
    a = angles(np.arange(512), omega(16))
    return np.stack([np.cos(a), np.sin(a)], axis=-1).reshape(512, 32)[:seq_len]


@wrong(HALVES, "phase-order", "cos", surface="grid", encoding=image(32))
def image_of_cosines_then_sines(height, width):
    y, x = np.divmod(np.arange(height * width), width)
    each = [angles(p, omega(8)) for p in (y, x)]
    return np.concatenate([f(a) for a in each for f in (np.cos, np.sin)], axis=-1)


@right(HALVES, surface="table", encoding=sinusoidal(64, layout="concat"))
def sines_first(positions):
    return both(angles(positions, omega(32)))


# --- the denominator -----------------------------------------------------------------------------


@wrong(DENOMINATOR, "denominator", "dim//2 - 1", surface="table", encoding=sinusoidal(64))
def denominator_of_tensor2tensor(positions):
    step = math.log(10000) / (32 - 1)
    return interleaved(angles(positions, np.exp(np.arange(32) * -step).astype(np.float32)))


@wrong(DENOMINATOR, "denominator", "dim//2 - 1", surface="table",
       encoding=sinusoidal(256, layout="concat"))  # fmt: skip
def denominator_of_fairseq(positions):
    return both(angles(positions, omega(128, 127)))


@wrong(DENOMINATOR, "denominator", "dim/2", surface="table",
       encoding=sinusoidal(96, layout="concat", denominator="half-1"))  # fmt: skip
def denominator_of_the_paper(positions):
    return both(angles(positions, omega(48)))


@wrong(DENOMINATOR, "denominator", "dim//2 - 1", surface="add",
       encoding=sinusoidal(32, layout="concat"))  # fmt: skip
def adds_with_another_denominator(x):
    return x + both(angles(np.arange(x.shape[1]), omega(16, 15)))


@wrong(DENOMINATOR, "denominator", "dim//2 - 1", surface="rows",
       encoding=sinusoidal(64, layout="concat"))  # fmt: skip
def rows_with_another_denominator(seq_len):
    return both(angles(np.arange(seq_len), omega(32, 31)))


@wrong(DENOMINATOR, "denominator", "dim//2 - 1", surface="table",
       encoding=sinusoidal(128, layout="concat"), backend="torch", dtype="bfloat16")  # fmt: skip
def denominator_of_tensor2tensor_in_bfloat16(positions):
    import torch

    w = torch.exp(torch.arange(64) * -(math.log(10000) / 63))
    a = positions.float()[:, None] * w
    return torch.cat([a.sin(), a.cos()], dim=-1).to(torch.bfloat16)


@wrong(DENOMINATOR, "denominator", "half-1", surface="grid", encoding=image(64))
def image_with_another_denominator(height, width):
    y, x = np.divmod(np.arange(height * width), width)
    return np.concatenate([both(angles(p, omega(16, 15))) for p in (y, x)], axis=-1)


@right(DENOMINATOR, surface="table", encoding=sinusoidal(96, layout="concat"))
def the_paper_itself(positions):
    return both(angles(positions, omega(48)))


# --- floor division ------------------------------------------------------------------------------


@wrong(FLOOR, "exponent", "floor", surface="table", encoding=sinusoidal(64))
def precedence_of_floor_division(positions):
    w = np.exp(np.arange(0, 64, 2) * (-math.log(10000.0) / 64 // 2)).astype(np.float32)
    return interleaved(angles(positions, w))


@wrong(FLOOR, "exponent", "floor", surface="table", encoding=sinusoidal(256, layout="concat"))
def floor_of_log_over_half(positions):
    w = np.exp(np.arange(128) * (-math.log(10000.0) // 128)).astype(np.float32)
    return both(angles(positions, w))


@wrong(FLOOR, "exponent", "floor", surface="table", encoding=sinusoidal(32))
def integer_exponents(positions):
    w = np.array([1 / 10000 ** (2 * (i // 2) // 32) for i in range(32)], np.float32)
    a = angles(positions, w)
    a[:, 0::2], a[:, 1::2] = np.sin(a[:, 0::2]), np.cos(a[:, 1::2])
    return a


def of_every_column(positions, dim):
    """The exponent 2 i // d, with i the number of the column and not of the pair."""
    a = angles(positions, np.array([1 / 10000 ** (2 * i // dim) for i in range(dim)], np.float32))
    a[:, 0::2], a[:, 1::2] = np.sin(a[:, 0::2]), np.cos(a[:, 1::2])
    return a


@wrong(FLOOR, "exponent", "floor", surface="table", encoding=sinusoidal(24))
def integer_exponents_of_every_column(positions):
    return of_every_column(positions, 24)


@wrong(FLOOR, "exponent", "floor", surface="table", encoding=sinusoidal(50))
def integer_exponents_that_step_inside_a_pair(positions):
    return of_every_column(positions, 50)


@wrong(
    FLOOR, "exponent", "floor", surface="add", encoding=sinusoidal(512), max_position=4096
)  # fmt: skip
def adds_integer_exponents_of_every_column(x):
    return x + of_every_column(np.arange(x.shape[1]), 512)


@wrong(FLOOR, "exponent", "floor", surface="table", encoding=sinusoidal(128))
def halved_twice(positions):
    w = np.array([1 / 10000 ** ((2 * k) // 2 / 128) for k in range(64)], np.float32)
    return interleaved(angles(positions, w))


@wrong(FLOOR, "exponent", "floor", surface="grid", encoding=image(64))
def image_with_floor_division(height, width):
    y, x = np.divmod(np.arange(height * width), width)
    w = np.exp(np.arange(16) * (-math.log(10000.0) / 32 // 2)).astype(np.float32)
    return np.concatenate([both(angles(p, w)) for p in (y, x)], axis=-1)


@wrong(FLOOR, "exponent", "floor", surface="add", encoding=sinusoidal(64))
def adds_with_floor_division(x):
    w = np.exp(np.arange(0, 64, 2) * (-math.log(10000.0) // 64)).astype(np.float32)
    return x + interleaved(angles(np.arange(x.shape[1]), w))


@right(FLOOR, surface="table", encoding=sinusoidal(64))
def true_division(positions):
    w = np.exp(np.arange(0, 64, 2) * (-math.log(10000.0) / 64)).astype(np.float32)
    return interleaved(angles(positions, w))


# --- grids ---------------------------------------------------------------------------------------


@wrong(COLUMNS, "token-order", "column by column", surface="grid", encoding=image(32))
def columns_first(height, width):
    x, y = (g.ravel() for g in np.meshgrid(np.arange(width), np.arange(height), indexing="ij"))
    return np.concatenate([both(angles(p, omega(8))) for p in (y, x)], axis=-1)


@wrong(COLUMNS, "token-order", "column by column", surface="grid",
       encoding=image(64, axis_order="wh"))  # fmt: skip
def columns_first_width_first(height, width):
    x, y = (g.ravel() for g in np.meshgrid(np.arange(width), np.arange(height), indexing="ij"))
    return np.concatenate([both(angles(p, omega(16))) for p in (x, y)], axis=-1)


@wrong(COLUMNS, "token-order", "column by column", surface="grid", encoding=sinusoidal(16))
def flattened_columns(height, width):
    rows = interleaved(angles(np.arange(height * width), omega(8)))
    return rows.reshape(height, width, 16).transpose(1, 0, 2).reshape(-1, 16)


@wrong(COLUMNS, "token-order", "column by column", surface="grid", encoding=image(32),
       backend="torch", dtype="bfloat16")  # fmt: skip
def columns_first_in_bfloat16(height, width):
    import torch

    return torch.tensor(columns_first(height, width)).to(torch.bfloat16)


@wrong(COLUMNS, "token-order", "column by column", surface="grid",
       encoding=image(48, layout="grouped"))  # fmt: skip
def grouped_columns_first(height, width):
    x, y = np.divmod(np.arange(height * width), height)
    h, w = (angles(p, omega(12)) for p in (y, x))
    return np.concatenate([np.sin(h), np.sin(w), np.cos(h), np.cos(w)], axis=-1)


@right(COLUMNS, surface="grid", encoding=image(32))
def rows_first(height, width):
    y, x = np.divmod(np.arange(height * width), width)
    return np.concatenate([both(angles(p, omega(8))) for p in (y, x)], axis=-1)


@wrong(AXES, "axis-order", "width", surface="grid", encoding=image(64))
def width_before_height(height, width):
    y, x = np.divmod(np.arange(height * width), width)
    return np.concatenate([both(angles(p, omega(16))) for p in (x, y)], axis=-1)


@wrong(AXES, "axis-order", "height", surface="grid", encoding=image(32, axis_order="wh"))
def height_before_width(height, width):
    y, x = np.divmod(np.arange(height * width), width)
    return np.concatenate([both(angles(p, omega(8))) for p in (y, x)], axis=-1)


@wrong(AXES, "axis-order", "width", surface="grid", encoding=image(128, denominator="half-1"))
def meshgrid_of_the_released_code(height, width):
    grid = np.stack(np.meshgrid(np.arange(width), np.arange(height)))  # w goes first
    return np.concatenate([both(angles(p.ravel(), omega(32, 31))) for p in grid], axis=-1)


@wrong(AXES, "axis-order", "width", surface="grid", encoding=image(48, layout="grouped"))
def grouped_width_before_height(height, width):
    y, x = np.divmod(np.arange(height * width), width)
    h, w = (angles(p, omega(12)) for p in (x, y))
    return np.concatenate([np.sin(h), np.sin(w), np.cos(h), np.cos(w)], axis=-1)


@wrong(AXES, "axis-order", "width", surface="grid", encoding=image(64), backend="torch",
       dtype="bfloat16")  # fmt: skip
def width_before_height_in_bfloat16(height, width):
    import torch

    return torch.tensor(width_before_height(height, width)).to(torch.bfloat16)


@right(AXES, surface="grid", encoding=image(64, axis_order="wh"))
def width_before_height_as_declared(height, width):
    return width_before_height(height, width)


# --- rows ----------------------------------------------------------------------------------------


def reversed_rows(dim, length, seq_len):
    """A table for relative distances, the farthest first, cut from the wrong end."""
    return both(angles(np.arange(length - 1, -1, -1), omega(dim // 2)))[:seq_len]


@wrong(REVERSED, "wrong-row", "reversed", surface="rows", encoding=sinusoidal(64, layout="concat"))
def first_rows_of_a_reversed_table(seq_len):
    return reversed_rows(64, 5000, seq_len)


@wrong(REVERSED, "wrong-row", "reversed", surface="rows", encoding=sinusoidal(32, layout="concat"))
def first_rows_of_a_short_reversed_table(seq_len):
    return reversed_rows(32, 3000, seq_len)


@wrong(REVERSED, "wrong-row", "reversed", surface="rows", encoding=sinusoidal(256, layout="concat"),
       backend="torch")  # fmt: skip
def first_rows_of_a_flipped_tensor(seq_len):
    import torch

    a = torch.arange(4096.0)[:, None] * torch.tensor(omega(128))
    return torch.cat([a.sin(), a.cos()], dim=-1).flip(0)[:seq_len]


@wrong(REVERSED, "wrong-row", "512 rows is reversed", surface="rows",
       encoding=sinusoidal(64, layout="concat"))  # fmt: skip
def first_rows_of_512_reversed_ones(seq_len):
    return reversed_rows(64, 512, seq_len)


@wrong(REVERSED, "wrong-row", "2048 rows is reversed", surface="rows",
       encoding=sinusoidal(64, layout="concat"), max_position=400)  # fmt: skip
def first_rows_of_2048_reversed_ones(seq_len):
    return reversed_rows(64, 2048, seq_len)


WEIGHT = np.random.default_rng(5).standard_normal((512, 16)).astype(np.float32)


@wrong(REVERSED, "wrong-row", "reversed", surface="rows",
       encoding={"encoding": "Learned", "weight": WEIGHT})  # fmt: skip
def first_rows_of_a_reversed_learned_table(seq_len):
    return WEIGHT[::-1][:seq_len].copy()


@wrong(REVERSED, "wrong-row", "reversed", surface="add",
       encoding=sinusoidal(64, layout="concat"))  # fmt: skip
def adds_the_first_rows_of_a_reversed_table(x):
    return x + reversed_rows(64, 5000, x.shape[1])


@wrong(REVERSED, "wrong-row", "reverse", surface="table",
       encoding=sinusoidal(64, layout="concat"))  # fmt: skip
def looks_rows_up_from_the_end(positions):
    return both(angles(4999 - np.asarray(positions), omega(32)))


@right(REVERSED, surface="rows", encoding=sinusoidal(64, layout="concat"), max_position=400)
def rows_of_a_buffer_of_401(seq_len):
    assert seq_len <= 401
    return both(angles(np.arange(401), omega(32)))[:seq_len]


@right(REVERSED, surface="rows", encoding=sinusoidal(64, layout="concat"))
def cut_before_it_is_reversed(seq_len):
    return reversed_rows(64, seq_len, seq_len)[::-1].copy()
