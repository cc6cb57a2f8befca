"""Rotations and tables in plain float32 NumPy, for tests that change one step of them.

They share no code with the specification.
"""

import numpy as np

from posenc_ref.conformance.harness.driver import Driver
from posenc_ref.conformance.harness.ledger import Ledger
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.harness.run import Run, Settings, describe

HEAD_DIM = 8


def inv_freq(dim=HEAD_DIM, base=10000.0):
    """Return the frequencies base ** (-2k/d), float32."""
    return (1.0 / base ** (np.arange(0, dim, 2) / dim)).astype(np.float32)


def rope(*, layout="half", base=10000.0, positions=None, before=None, after=None, block=None,
         frequencies=None):  # fmt: skip
    """Return an ``apply``; ``positions(p)``, ``before(x)`` and ``after(y, p)`` change its inputs
    and output, and ``block(cos, sin, p)`` returns the four entries of the matrix of a pair."""

    def apply(x, p):
        p = np.asarray(p)
        w = inv_freq(x.shape[-1], base) if frequencies is None else frequencies
        used = p if positions is None else positions(p)
        angle = np.asarray(used, np.float32)[..., None] * w
        cos, sin = np.cos(angle), np.sin(angle)
        a, b, c, d = (cos, -sin, sin, cos) if block is None else block(cos, sin, p[..., None])
        if p.ndim == 2:
            a, b, c, d = (t[:, None] for t in (a, b, c, d))
        kind = x.dtype
        x = x if before is None else before(x)
        x = x.astype(np.promote_types(np.float32, kind) if kind != "bfloat16" else np.float32)
        if layout == "half":
            x1, x2 = np.split(x, 2, axis=-1)
            y = np.concatenate([a * x1 + b * x2, c * x1 + d * x2], axis=-1)
        else:
            x1, x2 = x[..., ::2], x[..., 1::2]
            y = np.stack([a * x1 + b * x2, c * x1 + d * x2], axis=-1).reshape(x.shape)
        y = y if after is None else after(y, p)
        return y.astype(kind)

    return apply


def sinusoid(*, dim=HEAD_DIM, positions=None, after=None):
    """Return a ``table``, sine first, interleaved; ``positions`` and ``after`` change it."""

    def table(p):
        p = np.asarray(p)
        used = p if positions is None else positions(p)
        angle = np.asarray(used, np.float32)[:, None] * inv_freq(dim)
        rows = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(p.size, dim)
        return rows if after is None else after(rows, p)

    return table


def short(rows, fn):
    """Return ``fn`` with a table of so many rows: other positions raise IndexError."""

    def limited(*args):
        p = np.asarray(args[-1])
        if p.dtype.kind not in "iu" or (p.size and (p.min() < 0 or p.max() >= rows)):
            raise IndexError(f"no such row among {rows}")
        return fn(*args)

    return limited


def only(allowed, fn):
    """Return ``fn``, raising ValueError for positions that ``allowed`` rejects."""

    def choosy(*args):
        if not allowed(np.asarray(args[-1])):
            raise ValueError("positions not supported")
        return fn(*args)

    return choosy


def run_of(fn, encoding=None, surface="apply", *, head_dim=HEAD_DIM, **kwargs):
    """Return a run of the suite, for tests that call one judge or a part of it."""
    names = ("backend_name", "dtype", "tensor_layout", "inplace", "factory")
    driver = Driver(fn, **{name: kwargs.pop(name) for name in names if name in kwargs})
    report = Report("fn", surface, describe(encoding), driver.backend_name, driver.dtype)
    return Run(driver, encoding, Settings(head_dim=head_dim, **kwargs), Ledger(report))
