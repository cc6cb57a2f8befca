"""Tables that are looked up by the edges and sizes of boxes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import Learned
from posenc_ref.conformance.harness.implementation import Implementation

from .build import MissingArgument, build, call
from .census import Place
from .lookup import Looked, looked_up

#: Methods that embed boxes, where it is not the forward.
METHOD = re.compile("(calc|calculate)_spatial_position_embeddings$")


def subjects(place: Place) -> Iterator[tuple[Implementation, Any]]:
    """The rows of boxes whose edges, or whose sizes, are the positions."""
    import torch

    module, _ = build(place, {"pad_token_id": 1})
    table = getattr(module, place.attribute)
    weight = table.weight.detach().numpy()
    method = next((n for n in dir(type(module)) if METHOD.search(n)), "forward")
    size = place.attribute[0] in "hw"

    def rows(positions: np.ndarray) -> np.ndarray:
        p = torch.as_tensor(np.asarray(positions))
        if place.model == "udop":  # fractions of the page, cut off to rows
            p = (p + 0.5) / (len(weight) - 1)
        first = torch.zeros_like(p) if size else p
        boxes = torch.stack([first, first, p, p], dim=-1)[None]
        given = {
            "bbox": boxes,
            "input_ids": torch.full((1, len(p)), 7),
            "position_ids": torch.zeros(1, len(p), dtype=torch.int64),
        }
        with looked_up(table) as seen, torch.no_grad(), contextlib.suppress(Looked):
            call(getattr(module, method), given)
        if not seen:
            raise MissingArgument("its forward looks nothing up in the table")
        return np.asarray(weight[seen[0].reshape(-1)])

    made = Implementation(call=rows, surface="table", name=place.name)
    yield made, Learned(weight)
