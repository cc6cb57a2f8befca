"""Patches of a grid whose positions come in another order."""

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE
from posenc_ref.conformance import check

PATCHES = MultiAxisRoPE(16, sections=[4, 4], layout="half", spacing="restart")


def blocks(height, width):
    """Return the cells of a grid in the order of blocks of 4 x 4."""
    return [
        r * width + c
        for a in range(0, height, 4)
        for b in range(0, width, 4)
        for r in range(a, min(a + 4, height))
        for c in range(b, min(b + 4, width))
    ]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (blocks, "have positions in the order of blocks of 4 x 4 (row by row in each block), "
         "declared row by row"),
        (lambda h, w: np.argsort(blocks(h, w)), "are numbered by the place of their patch in the "
         "order of blocks of 4 x 4, declared row by row"),
        (lambda h, w: np.arange(h * w).reshape(h, w)[::-1].ravel(),
         "have the rows from the last to the first"),
        (lambda h, w: np.r_[1:h * w, 0], "are in another order: token 0 is at row 0, column 1"),
    ],
)  # fmt: skip
def test_the_order_of_the_patches_is_named(order, message):
    def fn(x, height, width):
        at = np.array(order(height, width))
        return PATCHES.apply(x, np.stack([at // width, at % width])[:, None])

    found = check(fn, PATCHES, "apply").findings[0]
    assert (found.code, found.message) == ("axis-order", f"the tokens of a grid {message}")
