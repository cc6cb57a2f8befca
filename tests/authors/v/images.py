"""Tables of images, videos, boxes and coordinates."""
import math

import numpy as np
import torch


def _sincos(pos, dim, base=10000.0):
    omega = base ** (-np.arange(dim // 2, dtype=np.float64) / (dim / 2))
    out = np.asarray(pos, np.float64)[..., None] * omega
    return np.concatenate([np.sin(out), np.cos(out)], axis=-1)


# ---- i01 (wrong): LoFTR: -math.log(10000.0) / d//2 is (-log / d) // 2
def table_loftr(positions):
    d = 64
    y, x = positions[0].double(), positions[1].double()
    div = torch.exp(torch.arange(0, d // 2, 2).double() * (-math.log(10000.0) / d // 2))
    pe = torch.empty(*y.shape, d, dtype=torch.float64)
    h = d // 2
    pe[..., 0:h:2] = torch.sin(y[..., None] * div)
    pe[..., 1:h:2] = torch.cos(y[..., None] * div)
    pe[..., h::2] = torch.sin(x[..., None] * div)
    pe[..., h + 1::2] = torch.cos(x[..., None] * div)
    return pe


# ---- i02 (wrong): meshgrid(w, h), "w goes first", then named emb_h: columns of the width first
def grid_mae(height, width):
    d = 64
    grid_h = np.arange(height, dtype=np.float32)
    grid_w = np.arange(width, dtype=np.float32)
    grid = np.stack(np.meshgrid(grid_w, grid_h), axis=0)  # here w goes first
    emb_h = _sincos(grid[0].reshape(-1), d // 2)
    emb_w = _sincos(grid[1].reshape(-1), d // 2)
    return np.concatenate([emb_h, emb_w], axis=1)


# ---- i03 (wrong): indexing="ij" on (w, h): tokens are listed column by column
def grid_flattened_columns(height, width):
    d = 32
    gw, gh = torch.meshgrid(torch.arange(width), torch.arange(height), indexing="ij")
    omega = 1.0 / 10000 ** (torch.arange(d // 4).double() / (d // 4))
    out_h = gh.flatten()[:, None] * omega[None]
    out_w = gw.flatten()[:, None] * omega[None]
    return torch.cat([out_h.sin(), out_h.cos(), out_w.sin(), out_w.cos()], dim=1)


# ---- i04 (wrong): the scale of both axes comes from the height
def grid_scaled_by_height(height, width, base_size=16):
    d = 64
    step = base_size / height
    y, x = np.mgrid[0:height, 0:width] * step
    return np.concatenate([_sincos(y.ravel(), d // 2), _sincos(x.ravel(), d // 2)], axis=-1)


# ---- i05 (wrong): big_vision: the exponent is divided by D/4 - 1
def table_mocov3(positions):
    width = 64
    y, x = (np.asarray(p, np.float64) for p in positions)
    omega = np.arange(width // 4) / (width // 4 - 1)
    omega = 1.0 / 10000.0 ** omega
    y = np.einsum("...m,d->...md", y, omega)
    x = np.einsum("...m,d->...md", x, omega)
    return np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)], axis=-1)


# ---- i06 (wrong): a table made for a fixed 14 x 14 grid: the row of (y, x) is y * 14 + x
class FixedGridTable:
    def __init__(self, d=64, side=14):
        y, x = np.divmod(np.arange(64 * side), side)
        self.table = np.concatenate([_sincos(y, d // 2), _sincos(x, d // 2)], -1)
        self.side = side

    def __call__(self, height, width):
        # rows are stored row-major, so a smaller image is a prefix
        return self.table[: height * width]


grid_prefix_of_table = FixedGridTable()


# ---- i07 (wrong, two): base 1000 (from maxjcohen) and cosines first in each axis
def table_two_2d(positions):
    d = 48
    w = 1000.0 ** (-np.arange(d // 4) / (d // 4))
    parts = []
    for axis in positions:
        a = np.asarray(axis, np.float64)[..., None] * w
        parts += [np.cos(a), np.sin(a)]
    return np.concatenate(parts, axis=-1)


# ---- i08 (wrong): video: the columns of the width are computed from the rows (copy and paste)
def table_video_copy_paste(positions):
    t, h, w = (p.double() for p in positions)

    def axis(p, n):
        inv = 10000.0 ** (-torch.arange(0, n, 2).double() / n)
        a = p[..., None] * inv
        return torch.stack([a.sin(), a.cos()], -1).flatten(-2)

    emb_t = axis(t, 16)
    emb_h = axis(h, 24)
    emb_w = axis(h, 24)
    return torch.cat([emb_t, emb_h, emb_w], dim=-1)


# ---- i09 (wrong): CogVideoX port: one frequency table of the spatial width for all three axes
def table_video_shared_frequencies(positions):
    sections = (16, 24, 24)
    omega = 10000.0 ** (-np.arange(12) / 12)
    out = []
    for p, n in zip(positions, sections):
        a = np.asarray(p, np.float64)[..., None] * omega[: n // 2]
        out.append(np.concatenate([np.sin(a), np.cos(a)], -1))
    return np.concatenate(out, -1)


# ---- i10 (wrong): DETR with the temperature of DAB-DETR ignored
def table_detr_default_temperature(positions):
    temperature = 10000
    num_pos_feats = 32
    y_embed, x_embed = positions[0], positions[1]
    dim_t = torch.arange(num_pos_feats, dtype=torch.float64, device=y_embed.device)
    dim_t = temperature ** (2 * torch.div(dim_t, 2, rounding_mode="floor") / num_pos_feats)
    pos_x = x_embed[..., None].double() / dim_t
    pos_y = y_embed[..., None].double() / dim_t
    pos_x = torch.stack((pos_x[..., 0::2].sin(), pos_x[..., 1::2].cos()), dim=-1).flatten(-2)
    pos_y = torch.stack((pos_y[..., 0::2].sin(), pos_y[..., 1::2].cos()), dim=-1).flatten(-2)
    return torch.cat((pos_y, pos_x), dim=-1)


# ---- i11 (wrong): DETR's positions count from 0 (arange), not from 1 (cumsum)
def grid_detr_from_zero(height, width):
    f, eps, scale = 16, 1e-6, 2 * math.pi
    y = np.broadcast_to(np.arange(height, dtype=np.float64)[:, None], (height, width))
    x = np.broadcast_to(np.arange(width, dtype=np.float64)[None, :], (height, width))
    y = y / (y[-1:, :] + 1 + eps) * scale
    x = x / (x[:, -1:] + 1 + eps) * scale
    t = 10000 ** (2 * (np.arange(f) // 2) / f)
    out = []
    for c in (y, x):
        a = c.reshape(-1, 1) / t
        a[:, 0::2], a[:, 1::2] = np.sin(a[:, 0::2]), np.cos(a[:, 1::2])
        out.append(a)
    return np.concatenate(out, -1)


# ---- i12 (wrong): Deformable DETR: half a pixel is subtracted after the division
def grid_deformable(height, width):
    f, eps, scale = 16, 1e-6, 2 * math.pi
    ones = np.ones((height, width))
    y, x = ones.cumsum(0), ones.cumsum(1)
    y = (y / (y[-1:, :] + eps) - 0.5 / max(height, width)) * scale
    x = (x / (x[:, -1:] + eps) - 0.5 / max(height, width)) * scale
    t = 10000.0 ** (np.arange(0, f, 2) / f)
    pairs = [np.stack([np.sin(c.ravel()[:, None] / t), np.cos(c.ravel()[:, None] / t)], -1)
             for c in (y, x)]
    return np.concatenate(pairs, axis=1).reshape(height * width, 2 * f)


# ---- i13 (wrong): boxes: the height's columns are made of w
def table_boxes_w_twice(positions):
    dim = 128
    scale, f = 2 * math.pi, dim // 4
    dim_t = 10000 ** (2 * (np.arange(f) // 2) / f)

    def sine(c):
        a = np.asarray(c, np.float64)[..., None] * scale / dim_t
        return np.stack([np.sin(a[..., 0::2]), np.cos(a[..., 1::2])], -1).reshape(*a.shape)

    x, y, w, h = positions
    return np.concatenate([sine(y), sine(x), sine(w), sine(w)], axis=-1)


# ---- i14 (wrong): DAB-DETR has 128 hard-coded, for a model of width 512
def table_boxes_hard_coded(positions):
    d_model = 256
    f = d_model // 4
    dim_t = torch.arange(f, dtype=torch.float64)
    dim_t = 10000 ** (2 * torch.div(dim_t, 2, rounding_mode="trunc") / 128)
    out = []
    for at in (1, 0, 2, 3):
        e = positions[at].double() * (2 * math.pi)
        e = e[..., None] / dim_t
        out.append(torch.stack((e[..., 0::2].sin(), e[..., 1::2].cos()), dim=-1).flatten(-2))
    return torch.cat(out, dim=-1)


# ---- i15 (wrong): PETR's pos2posemb3d with coordinates in 0 .. 1 and no 2 pi
def table_points_no_turn(positions):
    f = 20
    t = 10000 ** (2 * (np.arange(f) // 2) / f)
    rows = []
    for c in (positions[1], positions[0], positions[2]):
        a = np.asarray(c, np.float64)[..., None] / t
        b = np.empty_like(a)
        b[..., ::2], b[..., 1::2] = np.sin(a[..., ::2]), np.cos(a[..., 1::2])
        rows.append(b)
    return np.concatenate(rows, -1)


# ---- i19 (wrong, two): the paper's order x, y, w, h, and the factor 2 pi twice
def table_boxes_two(positions):
    n = 64
    scale = 2 * math.pi
    dim_t = 10000 ** (torch.arange(0, n, 2, dtype=torch.float64) / n)
    boxes = torch.movedim(positions.double(), 0, -1) * scale  # (..., 4): x, y, w, h
    a = boxes[..., None] * scale / dim_t
    return torch.stack((a.sin(), a.cos()), -1).flatten(-3)


# ---- right -----------------------------------------------------------------------------------
# i16: timm's grouped order by one einsum over both axes
def right_grouped(positions):
    d = 64
    w = 10000.0 ** -(torch.arange(d // 4, dtype=torch.float64) / (d // 4))
    p = torch.stack([positions[0].double(), positions[1].double()])
    a = torch.einsum("a...,k->...ak", p, w).flatten(-2)
    return torch.cat([a.sin(), a.cos()], -1)


# i17: DETR sine by real masks, in float64, loops over pixels
def right_detr_loops(height, width):
    f = 16
    out = np.zeros((height * width, 2 * f))
    for r in range(height):
        for c in range(width):
            place = ((r + 1) / (height + 1e-6), (c + 1) / (width + 1e-6))
            for a, v in enumerate(place):
                for k in range(f // 2):
                    ang = v * math.tau / 10000 ** (2 * k / f)
                    out[r * width + c, a * f + 2 * k] = math.sin(ang)
                    out[r * width + c, a * f + 2 * k + 1] = math.cos(ang)
    return out


# i18: boxes through complex numbers; the result is a strided view of a wider array
def right_boxes_complex(positions):
    dim, n = 64, 4
    f = dim // n
    w = 2 * np.pi * 10000.0 ** (-np.arange(f // 2) / (f // 2))
    order = [positions[1], positions[0], positions[2], positions[3]]
    z = np.exp(1j * np.stack([np.asarray(c, np.float64)[..., None] * w for c in order], -2))
    wide = np.zeros((*z.shape[:-2], dim, 2))
    wide[..., 0] = np.stack([z.imag, z.real], -1).reshape(*z.shape[:-2], dim)
    return wide[..., 0]
