"""The truth of every surface in 50-digit mpmath."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from posenc_ref.conformance.exact import biases, rotation
from posenc_ref.conformance.exact.numbers import Real, Whole, computed

from . import exact_integers as integers
from . import exact_tables as tables
from .exact_scores import relative_scores, relative_shift, scores
from .registered import formula, registered, rotated

Inputs = Mapping[str, Any]
Truths = Mapping[str, Real | Whole]


def truths(surface: str, encoding: Any, inputs: Inputs) -> Truths:
    """The truth of every output of a case."""
    return ROUTES[surface](encoding, inputs)


ROUTES: dict[str, Callable[[Any, Inputs], Truths]] = {
    "apply": lambda e, i: {"y": rotated(e, i["x"], i["positions"])},
    "apply_offset": lambda e, i: {
        "y": rotated(e, i["x"], i["offset"][:, None] + np.arange(i["x"].shape[2]))
    },
    "decode": lambda e, i: {"y": rotated(e, i["x"], np.arange(i["x"].shape[2]))},
    "key_cache": lambda e, i: {"k": rotated(e, i["k"], np.arange(i["k"].shape[2]))},
    "apply_vjp": lambda e, i: {"dx": rotated(e, i["dy"], i["positions"], back=True)},
    "shift_keys": lambda e, i: {
        "k": rotated(e, i["k"], np.full(i["k"].shape[2], i["delta"]), again=True)
    },
    "normed_apply": lambda e, i: {
        "y": computed(rotated(e, rotation.normed(i["x"], i["weight"]), i["positions"]))
    },
    "apply_queries": lambda e, i: {"y": rotated(e, i["x"], i["positions"], decay=1)},
    "apply_keys": lambda e, i: {"y": rotated(e, i["x"], i["positions"], decay=-1)},
    "cos_sin": lambda e, i: rotation.cos_sin(formula(e), e, i["positions"]),
    "frequencies": lambda e, i: rotation.frequencies(formula(e), e, i.get("seq_len")),
    "table": lambda e, i: {"table": registered(e, i)},
    "grid": lambda e, i: {"table": tables.grid(e, i)},
    "add": lambda e, i: {"y": tables.add(e, i)},
    "slopes": lambda e, i: {"slopes": biases.slopes(e, i)},
    "bias": lambda e, i: {"bias": registered(e, i)},
    "bucket": lambda e, i: {"bucket": Whole(biases.bucket(e, i))},
    "scores": lambda e, i: {"logits": scores(e, i)},
    "convert_layout": lambda e, i: {"y": integers.convert_layout(i)},
    "permute_weights": lambda e, i: {"w": integers.permute_weights(i)},
    "relative_shift": lambda e, i: {"y": relative_shift(i)},
    "relative_scores": lambda e, i: {"y": relative_scores(i)},
    "position_ids": lambda e, i: {
        "position_ids": Whole(integers.position_ids(i), i["attention_mask"] == 1)
    },
    "packed": lambda e, i: {"position_ids": Whole(integers.packed(i))},
    "decode_positions": lambda e, i: {"position_ids": Whole(integers.decode_positions(i))},
    "shard_positions": lambda e, i: {"position_ids": Whole(integers.shard_positions(i))},
    "mrope_positions": lambda e, i: {"position_ids": Whole(integers.mrope_positions(i))},
    "grid_positions": lambda e, i: {"position_ids": Whole(integers.grid_positions(i))},
    "ids_from_tokens": lambda e, i: {"position_ids": Whole(tables.ids_from_tokens(e, i))},
}
