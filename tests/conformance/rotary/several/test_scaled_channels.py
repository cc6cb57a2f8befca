"""Functions that multiply channels, and rotate all or none of them."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

HALF, PARTIAL = RoPE(16, layout="half"), RoPE(16, layout="half", rotary_dim=8)


def times(factor, encoding=None, channels=slice(None)):
    def fn(x, p):
        y = np.array(x if encoding is None else encoding.apply(x, p), np.float32)
        y[..., channels] *= factor
        return y

    return fn


@pytest.mark.parametrize(
    ("fn", "encoding", "message"),
    [
        (times(-1), HALF, "nothing is rotated, and every channel is multiplied by -1"),
        (times(2), PARTIAL, "nothing is rotated, and every channel is multiplied by 2"),
        (
            times(2, channels=slice(4)), HALF,
            "nothing is rotated, and channels 0-3 are multiplied by 2",
        ),
        (times(-1, PARTIAL), PARTIAL, "every channel, rotated or not, is multiplied by -1"),
        (
            times(-1, PARTIAL, slice(8, 16)), PARTIAL,
            "channels outside the rotary slice are multiplied by -1",
        ),
    ],
)  # fmt: skip
def test_the_factor_is_named(fn, encoding, message):
    assert check(fn, encoding, "apply").findings[0].message == message
