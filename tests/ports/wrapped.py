"""Functions whose signature a compiler or a wrapper hides."""

import functools

import numpy as np
import torch
from torch import nn


@torch.jit.script
def rope(x, positions, theta: float = 10000.0):
    half = x.shape[-1] // 2
    angles = positions[..., None].float() * theta ** (-torch.arange(half).float() / half)
    if angles.ndim == 3:
        angles = angles[:, None]
    a, b = x[..., :half], x[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


@torch.jit.script
def rope_from_one(x, positions, theta: float = 10000.0):
    return rope(x, positions + 1, theta)


def logged(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@logged
def with_start(x, start_pos=0):
    return rope(x, torch.arange(start_pos, start_pos + x.shape[-2]))


def anything(*args):
    return rope(*args)


class Module(nn.Module):
    def __init__(self, theta: float = 10000.0):
        super().__init__()
        self.theta = theta

    def forward(self, x, positions):
        return rope(x, positions, self.theta)


scripted = torch.jit.script(Module(500000.0))


class Both:
    def _turn(self, x, positions, sign):
        return rope(x, sign * positions)

    rotate = functools.partialmethod(_turn, sign=1)
    rotate_back = functools.partialmethod(_turn, sign=-1)


@functools.partial(np.vectorize, signature="(d),()->(d)")
def one_vector(v, position):
    half = v.size // 2
    angle = position * 10000.0 ** (-np.arange(half) / half)
    a, b, cos, sin = v[:half], v[half:], np.cos(angle), np.sin(angle)
    return np.concatenate((a * cos - b * sin, b * cos + a * sin)).astype(v.dtype)
