"""Rotations written by hand, right and wrong, that tests of compare take as A or B."""

import numpy as np

from posenc_ref.conformance import compare
from tests.conformance.handwritten import inv_freq, rope

DIM = 16
RANDOM = np.random.default_rng(5)
#: Frequencies that follow no rule, as if they had been learned.
LEARNED = RANDOM.uniform(0.001, 1.0, DIM // 2)
ORDER = RANDOM.permutation(DIM)
OTHER = RANDOM.permutation(DIM)
GEOMETRIC = inv_freq(DIM)
SPREAD = np.arange(DIM).reshape(2, DIM // 2).T.ravel()  # half-split channels, written side by side


def learned(layout="half", frequencies=LEARNED, **changes):
    return rope(layout=layout, frequencies=frequencies, **changes)


def moved(fn, order=ORDER):
    """Rotate the channels of fn in another order: its pairs match no known layout."""
    return lambda x, p: fn(x[..., order], p)[..., np.argsort(order)]


def clamped(last, **changes):
    return rope(positions=lambda p: np.minimum(p, last), **changes)


def backwards(cos, sin, p):
    return cos, sin, -sin, cos


def result(a, b, **options):
    return compare(a, b, "apply", head_dim=DIM, max_position=2**12, names=("A", "B"), **options)
