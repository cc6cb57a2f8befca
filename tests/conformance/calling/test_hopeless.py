"""A function that takes long to raise the same again and again is not called a thousand times."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import NoConvention, bind
from posenc_ref.conformance.calling import trial

HALF = RoPE(8, layout="half")


@pytest.fixture
def at_once(monkeypatch):
    """Three calls are enough, whatever time they take."""
    monkeypatch.setattr(trial, "SAME", 3)
    monkeypatch.setattr(trial, "SECONDS", -1.0)


def test_the_same_exception_ends_the_trials(at_once):
    calls = []

    def rotate(x, at):
        calls.append(x)
        raise ValueError("no")

    with pytest.raises(NoConvention, match="because 3 calls raised ValueError: no"):
        bind(rotate, HALF)
    assert len(calls) < 10


def test_other_exceptions_in_between_change_nothing(at_once):
    calls = []

    def rotate(x, at):
        calls.append(x)
        if len(calls) % 2:
            raise ValueError("no")
        raise TypeError("no")

    with pytest.raises(NoConvention, match="because 3 calls raised"):
        bind(rotate, HALF)
    assert 5 <= len(calls) < 20


def test_fast_refusals_do_not_end_the_trials(monkeypatch):
    monkeypatch.setattr(trial, "SAME", 3)

    def rotate(x, at):
        if x.shape[-1] != 112:
            raise ValueError("the heads have 112 channels")
        angle = at[:, None] / 10000.0 ** (np.arange(56) / 56)
        cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    assert bind(rotate).head_dim == 112
    monkeypatch.setattr(trial, "SECONDS", -1.0)  # its code states the size
    assert bind(rotate).head_dim == 112


def test_many_fast_refusals_end_the_trials_if_no_name_tells_a_vector():
    calls = []

    def other(name, mode):
        calls.append(name)
        raise ValueError("no")

    with pytest.raises(NoConvention, match=f"because {trial.MANY_UNNAMED} calls raised"):
        bind(other)
    assert len(calls) < 2 * trial.MANY_UNNAMED


def test_a_named_number_is_not_taken_for_a_vector():
    calls = []

    def table(embed_dim, grid_size, cls_token):
        calls.append(embed_dim)
        raise ValueError("no")

    with pytest.raises(NoConvention):
        bind(table, surface="apply")
    assert not calls


def test_single_letters_may_be_vectors():
    def rotate(h, at):
        angle = at[:, None] / 10000.0 ** (np.arange(4) / 4)
        cos, sin = np.cos(angle).astype(h.dtype), np.sin(angle).astype(h.dtype)
        a, b = np.split(h, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    assert bind(rotate, HALF).surface == "apply"
