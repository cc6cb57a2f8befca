"""Rotations that keep their tables between calls; own code."""

import numpy as np

INV_FREQ = 10000.0 ** (-np.arange(0, 64, 2) / 64)


def turn(x, cos, sin):
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


class Cache:
    """Its table starts at position 0, and grows with the last position."""

    def __init__(self):
        self.cos = self.sin = np.empty((0, 32))

    def make(self, first, end):
        angles = np.arange(first, end)[:, None] * INV_FREQ
        self.cos, self.sin = np.cos(angles), np.sin(angles)

    def __call__(self, x, offset=0):
        end = offset + x.shape[-2]
        if end > len(self.cos):
            self.make(0, end)
        return turn(x, self.cos[offset:end], self.sin[offset:end])


class StaleCache(Cache):
    """Its table starts at the offset of the call that made it."""

    def __call__(self, x, offset=0):
        n = x.shape[-2]
        if n > len(self.cos):
            self.make(offset, offset + n)
        return turn(x, self.cos[:n], self.sin[:n])


class FirstOffset(Cache):
    """The offset of the first call is kept, whatever later calls say."""

    first = None

    def __call__(self, x, offset=0):
        self.first = offset if self.first is None else self.first
        self.make(self.first, self.first + x.shape[-2])
        return turn(x, self.cos, self.sin)


stale = StaleCache()
