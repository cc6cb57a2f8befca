"""A range that is too long is refused before it becomes an array."""

import numpy as np
import pytest

from posenc_ref import ALiBi, RoPE, Sinusoidal

LONG = range(2**29)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ALiBi(4).bias(LONG, LONG), "the bias must have at most 4294967296 elements"),
        (lambda: RoPE(8, layout="half").apply(np.ones((1, 1, 4, 8)), LONG), "S = 4; got"),
        (
            lambda: Sinusoidal(8, layout="concat").add(np.ones((1, 4, 8)), LONG),
            "S = 4; got position",
        ),
    ],
)
def test_sizes_are_checked_before_a_range_is_copied(monkeypatch, call, message):
    def arange(*_, **__):
        raise MemoryError

    monkeypatch.setattr("posenc_ref._positions.np.arange", arange)
    with pytest.raises(ValueError, match=message):
        call()
