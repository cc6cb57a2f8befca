"""Sizes of vectors that a function states: in its code, in its object, in its exceptions."""

import numpy as np
import pytest

from posenc_ref.conformance.calling import bind, bind_rotation
from posenc_ref.conformance.calling.size_order import stated_sizes

FREQUENCIES = 1e4 ** (-np.arange(56) / 56)


def _turned(u, m, w):
    angle = m[..., None] * w
    c, s = np.cos(angle), np.sin(angle)
    a, b = u[..., : w.size], u[..., w.size :]
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(u.dtype)


def by_default(u, m, *, size_of_head=80):
    return _turned(u, m, 1e4 ** (-np.arange(0, size_of_head, 2) / size_of_head))


def by_global(u, m):
    return _turned(u, m, FREQUENCIES)


def _closed():
    w = 1e4 ** (-np.arange(44) / 44)
    return lambda u, m: _turned(u, m, w)


by_closure = _closed()


class Refusing:
    """Its code has no size: its exception has."""

    def __call__(self, u, m):
        dim = int("1" + "20")
        if u.shape[-1] != dim:
            raise ValueError(f"expected {dim}, got {u.shape[-1]}")
        return _turned(u, m, 1e4 ** (-np.arange(0, dim, 2) / dim))


class Named:
    def __init__(self):
        self.head_size = 96

    def __call__(self, x, positions):
        return _turned(x.reshape(*x.shape[:-1], -1), positions, 1e4 ** (-np.arange(48) / 48))


@pytest.mark.parametrize(
    ("function", "dim"), [(by_default, 80), (by_global, 112), (by_closure, 88), (Refusing(), 120)]
)
def test_unknown_names_and_a_rare_size(function, dim, monkeypatch):
    monkeypatch.setattr(bind_rotation, "MANY_UNNAMED", 32)
    assert bind(function).head_dim == dim


def test_the_size_that_an_object_names_comes_first():
    assert next(stated_sizes(Named())) == 96
    assert bind(Named()).head_dim == 96
