"""Calls of functions of visual positions, which the suite has as test vectors only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref.conformance.functions.function import Arguments, Plain

#: (height, width) in patches.
_GRIDS = ((4, 4), (2, 6), (8, 4), (12, 8), (4, 20))
_MERGES = (2, 1, 4, 3)


def _grids(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    for merge in _MERGES:
        for h, w in _GRIDS:
            if h % merge == 0 and w % merge == 0:
                yield Arguments(f"merge_size {merge}", (h, w, merge), False)


def _sequences(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    for merge in (2, 1):
        image, video = (1, 4 * merge, 6 * merge), (3, 4 * merge, 2 * merge)
        i, v = ([kind] * (t * h * w // merge**2) for kind, (t, h, w) in ((1, image), (2, video)))
        none = np.zeros((0, 3), np.int64)
        for name, row, images, videos in (
            ("text", [0] * 7, none, none),
            ("an image", [0, 0, *i, 0, 0, 0], np.array([image]), none),
            ("two images", [*i, 0, *i, 0], np.array([image, image]), none),
            ("a video", [0, *v, 0, 0], none, np.array([video])),
            ("an image and a video", [0, *i, 0, *v, 0], np.array([image]), np.array([video])),
        ):
            yield Arguments(f"{name}, merge size {merge}", (np.array([row]), images, videos), False)


#: How each function is called; there is no judge with mistakes.
VISION: dict[str, Plain] = {
    "grid_positions": Plain(_grids, lambda encoding: (), "raises"),
    "mrope_positions": Plain(_sequences, lambda encoding: (), "raises"),
}
