"""Modules and functions of torch.compile, with the backend that compiles nothing."""

import torch

from tests.ports.wrapped import Module, rope

module = torch.compile(Module(500000.0), backend="eager", dynamic=True)


@torch.compile(backend="eager", dynamic=True)
def backwards(x, positions, theta: float = 10000.0):
    return rope(x, -positions, theta)
