"""ONNX's eight node tests of RotaryEmbedding (onnx 1.23): shapes, attributes, tolerance.

Random numbers are uniform in [0, 1), positions in 0 .. 49. `rotate` computes the expected outputs;
it was compared once with ONNX's reference function.
"""

from dataclasses import dataclass

import numpy as np

#: What ONNX compares with: |actual - expected| <= ATOL + RTOL |expected|.
RTOL, ATOL = 1e-3, 1e-7
#: Rows of the tables that are indexed by position.
ROWS = 50


@dataclass(frozen=True)
class NodeTest:
    """One test: the shape of the input, the attributes, and whether there are position_ids."""

    name: str
    shape: tuple = (2, 4, 3, 8)
    indexed: bool = True
    interleaved: bool = False
    rotary_dim: int = 0
    num_heads: int = 0

    def attributes(self):
        """Return the arguments of a kernel that are not arrays."""
        return {
            "interleaved": self.interleaved,
            "rotary_dim": self.rotary_dim,
            "num_heads": self.num_heads,
        }

    def inputs(self, seed):
        """(x, cos, sin, position_ids or None)."""
        draw = np.random.RandomState(seed)
        batch, tokens = self.shape[0], self.shape[-2]
        x = draw.rand(*self.shape).astype(np.float32)
        ids = draw.uniform(0, ROWS, (batch, tokens)).astype(np.int64) if self.indexed else None
        table = (ROWS,) if self.indexed else (batch, tokens)
        sin, cos = (draw.rand(*table, (self.rotary_dim or 8) // 2) for _ in "sc")
        return x, cos.astype(np.float32), sin.astype(np.float32), ids


NODE_TESTS = (
    NodeTest("rotary_embedding"),
    NodeTest("3d_input", shape=(2, 3, 32), num_heads=4),
    NodeTest("interleaved", interleaved=True),
    NodeTest("with_rotary_dim", rotary_dim=4),
    NodeTest("with_interleaved_rotary_dim", rotary_dim=4, interleaved=True),
    NodeTest("no_position_ids", indexed=False),
    NodeTest("no_position_ids_interleaved", indexed=False, interleaved=True),
    NodeTest("no_position_ids_rotary_dim", indexed=False, rotary_dim=4),
)


def passes(kernel, test, seed):
    """Whether a kernel passes one of the tests; an exception does not."""
    x, cos, sin, ids = test.inputs(seed)
    expected = rotate(x, cos, sin, ids, **test.attributes())
    try:
        actual = kernel(x.copy(), cos, sin, ids, **test.attributes())
    except (IndexError, ValueError):
        return False
    close = np.abs(actual - expected) <= ATOL + RTOL * np.abs(expected)
    return actual.shape == expected.shape and bool(close.all())


def rotate(x, cos, sin, ids=None, *, interleaved=False, rotary_dim=0, num_heads=0):
    """The operator: tables are given, rows chosen by position or as they come."""
    heads = split(x, num_heads)
    rows = (cos, sin) if ids is None else (cos[ids], sin[ids])
    y = turn(heads, *(t[:, None] for t in rows), interleaved=interleaved, rotary_dim=rotary_dim)
    return merge(y, x)


def split(x, num_heads):
    """(B, S, H * D) or (B, H, S, D) to (B, H, S, D)."""
    if x.ndim == 4:
        return x
    return x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)


def merge(y, x):
    """Back to the shape of x."""
    return y if x.ndim == 4 else y.swapaxes(1, 2).reshape(x.shape)


def turn(x, cos, sin, *, interleaved, rotary_dim):
    """Rotate the leading channels of x (B, H, S, D) by tables (B, 1, S, rotary_dim / 2)."""
    d = rotary_dim or x.shape[-1]
    y = x.copy()
    one, two = pair(d, interleaved)
    y[..., one] = cos * x[..., one] - sin * x[..., two]
    y[..., two] = sin * x[..., one] + cos * x[..., two]
    return y


def pair(d, interleaved):
    """The first and the second channels of the pairs."""
    return (slice(0, d, 2), slice(1, d, 2)) if interleaved else (slice(0, d // 2), slice(d // 2, d))
