"""Mixed axes and LongRoPE, right."""

import functools

import numpy as np

WEIGHT = np.array([[0.9, 0.31, 0.11, 0.04], [-0.2, 0.47, 0.07, -0.13]])


def mixed_complex(x, positions):
    """RoPE-Mixed: product of one complex phase per axis."""
    p = np.asarray(positions, dtype=np.float64)
    p = np.stack([p, p]) if p.ndim == 1 else p
    phase = functools.reduce(np.multiply, [np.exp(1j * p[a][..., None] * WEIGHT[a]) for a in (0, 1)])
    phase = phase[:, None] if phase.ndim == 3 else phase
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * phase
    y = np.empty(x.shape, x.dtype)
    y[..., 0::2], y[..., 1::2] = z.real, z.imag
    return y


class TwoTables:
    """LongRoPE: both tables are kept, the longer one grows; the call chooses."""

    def __init__(self, short, long, limit, factor, base=10000.0):
        k = np.arange(len(short))
        plain = base ** -(k / len(short))
        self.inv = {False: plain / np.array(short), True: plain / np.array(long)}
        self.limit, self.m = limit, np.sqrt(1 + np.log(factor) / np.log(limit))

    def __call__(self, x, positions):
        p = np.asarray(positions, dtype=np.float64)
        n = int(p.max()) + 1 if p.size else 0
        ang = p[..., None] * self.inv[n > self.limit]
        ang = ang[:, None] if ang.ndim == 3 else ang
        h = x.shape[-1] // 2
        a, b = x[..., :h] * self.m, x[..., h:] * self.m
        return np.concatenate([a * np.cos(ang) - b * np.sin(ang), a * np.sin(ang) + b * np.cos(ang)],
                              axis=-1).astype(x.dtype)


two_tables = TwoTables([1.0, 1.1, 1.3, 1.6], [1.0, 2.0, 5.0, 12.0], 64, 16.0)
