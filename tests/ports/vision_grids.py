"""Rotations of whole images: grids fixed in a constructor, or given by height and width."""

import torch
from torch import nn


def turn(x, angles):
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)


def angles_of(rows, columns, dim, theta=10000.0):
    steps = theta ** (-torch.arange(dim // 4).float() / (dim // 4))
    return torch.cat((rows.float()[:, None] * steps, columns.float()[:, None] * steps), dim=-1)


def rope_2d(x, height, width, theta=10000.0):
    cells = torch.arange(height * width)
    return turn(x, angles_of(cells // width, cells % width, x.shape[-1], theta))


def divided_by_height(x, height, width, theta=10000.0):
    cells = torch.arange(height * width)
    return turn(x, angles_of(cells // height, cells % height, x.shape[-1], theta))


def rope_of_shape(q, k, shape):
    return rope_2d(q, *shape), rope_2d(k, *shape)


def down_the_columns(q, k, hw):
    height, width = hw
    cells = torch.arange(height * width)
    at = angles_of(cells % height, cells // height, q.shape[-1])
    return turn(q, at), turn(k, at)


class VisionRotaryEmbeddingFast(nn.Module):
    """EVA-02: ``dim`` is half a head, and positions are those of the pretrained grid."""

    def __init__(self, dim, pt_seq_len=16, ft_seq_len=None, theta=10000):
        super().__init__()
        side = ft_seq_len or pt_seq_len
        at = self.places(side) / side * pt_seq_len
        grid = torch.meshgrid(at, at, indexing="ij")
        self.register_buffer("angles", angles_of(*(g.flatten() for g in grid), 2 * dim, theta))

    def places(self, side):
        return torch.arange(side)

    def forward(self, t):
        return turn(t, self.angles)


class BothEnds(VisionRotaryEmbeddingFast):
    def places(self, side):
        return torch.linspace(0, side, side)


class Attention(nn.Module):
    """The grid is that of the images, in pixels."""

    def __init__(self, head_dim, img_size=(224, 224), patch_size=16):
        super().__init__()
        self.grid_size = (img_size[0] // patch_size, img_size[1] // patch_size)
        self.head_dim = head_dim

    def rotate(self, q, k):
        return rope_of_shape(q, k, self.grid_size)


fitted = Attention(64, (112, 192))


def by_axis(x, pos_h, pos_w):
    at = angles_of(pos_h.flatten(), pos_w.flatten(), x.shape[-1])
    return turn(x, at.reshape(*pos_h.shape[:-1], 1, -1, at.shape[-1]))


def by_axis_of_tuple(q, k, positions):
    return by_axis(q, *positions), by_axis(k, *positions)


def width_first(x, pos_x, pos_y):
    return by_axis(x, pos_x, pos_y)
