"""Position 0 of encodings with an offset: right although the frequencies are wrong, or wrong."""

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE
from posenc_ref.conformance import check

#: The angles of position p are 2 (p + 3) theta.
ENCODING = MultiAxisRoPE(
    32, sections=(8, 8), layout="interleaved", spacing="restart", offset=3.0, position_scale=2.0
)
FREQUENCIES = 10000.0 ** (-np.arange(8) / 8)


def rotated(step, start):
    """Return a function whose angles are (step p + start) theta."""

    def apply(x, positions):
        rows = positions if positions.ndim == 3 else positions[:, None]
        used = np.asarray(rows, np.float64) * step + start
        angle = np.concatenate([axis[..., None] * FREQUENCIES for axis in used], -1)[:, None]
        turned = (x[..., ::2] + 1j * x[..., 1::2].astype(np.float64)) * np.exp(1j * angle)
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape).astype(x.dtype)

    return apply


def findings(step, start):
    return check(rotated(step, start), ENCODING, surface="apply").findings


@pytest.mark.parametrize(
    ("step", "message", "remedy"),
    [
        (1.892, "every frequency is 0.946 times the declared one", "by 1.057"),
        (1.0, "positions are not multiplied by the declared 2.0", "by 2."),
        (-2.0, "the rotation turns the other way: by -angle", "Rotate by +angle"),
    ],
)
def test_wrong_frequencies_leave_position_0_right(step, message, remedy):
    (found,) = findings(step, 6.0)
    assert found.message == f"{message}, but position 0 has the declared angles"
    assert remedy in found.remedy
    assert found.remedy.endswith("Leave the angles of position 0 as they are.")


@pytest.mark.parametrize(
    ("step", "start", "messages"),
    [
        (1.0, 3.0, ["positions are not multiplied by the declared 2.0"]),
        (1.0, 4.0, ["positions are not multiplied by the declared 2.0",
                    "position 0 has the angles of position 4, declared 3"]),
        (2.0, 4.0, ["position 0 has the angles of position 2, declared 3"]),
        (2.0, 6.0, []),
    ],
)  # fmt: skip
def test_an_origin_goes_with_the_frequencies_used(step, start, messages):
    found = [one.message for one in findings(step, start)]
    assert found[: len(messages)] == messages
    assert bool(found) == bool(messages)
