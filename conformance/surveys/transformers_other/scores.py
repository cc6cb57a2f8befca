"""Scores of attention classes of one head that are given their q and k: SAM, DeBERTa."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import DeBERTa, DecomposedRelative
from posenc_ref.conformance.harness.implementation import Implementation

from .bias import softmax_inputs
from .build import MissingArgument, build, fill
from .census import Place

Found = Iterator[tuple[Implementation, Any]]
#: Channels of the one head, and its grid.
DIM, GRID = 8, (3, 3)
ONE_HEAD: dict[str, Any] = {
    "hidden_size": DIM, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": DIM,
    "encoder_attention_heads": 1, "speech_encoder_attention_heads": 1,
}  # fmt: skip


def given() -> Any:
    """A projection that gives back what it was told to."""
    import torch

    class Given(torch.nn.Module):  # type: ignore[misc]  # torch is not typed here
        value: Any = None

        def forward(self, *_: Any) -> Any:
            return self.value

    return Given()


def one_headed(place: Place, asked: Callable[[Any, Any], Any]) -> Implementation:
    """``asked`` gives logits (N, S, S) for q and k (N, S, d): heads are asked one at a time."""
    import torch

    def logits(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        if q.shape[2] != k.shape[2]:
            raise ValueError("it has as many queries as keys")
        b, h, n, d = q.shape
        flat = [torch.as_tensor(np.asarray(x)).reshape(b * h, n, d) for x in (q, k)]
        with torch.no_grad():
            found = asked(*flat)
        return np.asarray(found.float().numpy()).reshape(b, h, n, n)

    return Implementation(call=logits, surface="scores", name=place.name)


def scores_of(
    place: Place, module: Any, sides: tuple[str, ...], ask: Callable[[int, int], Any]
) -> Implementation:
    """What softmax is given, where the projections called ``sides`` are q and k, or q, k, v."""
    import torch

    stubs = [given() for _ in sides]
    for name, stub in zip(sides, stubs, strict=True):
        setattr(module, name, stub)

    def asked(q: Any, k: Any) -> Any:
        values = (q, k) if len(stubs) > 1 else (torch.cat([q, k, k], dim=-1),)
        for stub, value in zip(stubs, values, strict=True):
            stub.value = value
        return first_softmax(lambda: ask(*q.shape[:2]))

    return one_headed(place, asked)


def first_softmax(run: Callable[[], Any]) -> Any:
    """What the first softmax inside ``run`` is given."""
    with softmax_inputs() as seen:
        run()
    if not seen:
        raise MissingArgument("it calls no softmax")
    return seen[0]


def array_of(weight: Any) -> np.ndarray:
    """A parameter as an array."""
    return np.asarray(weight.detach().numpy())


def decomposed(place: Place) -> Found:
    """SAM's kin: rows for the difference of heights, and of widths."""
    import torch

    if place.model == "vitdet":
        file = importlib.import_module(place.file)
        config = file.VitDetConfig(use_relative_position_embeddings=True, **_own(file.VitDetConfig))
        module = fill(file.VitDetAttention(config, input_size=GRID).eval())
    else:
        sizes = {"image_size": 4 * GRID[0], "patch_size": 4, "use_rel_pos": True, "window_size": 0}
        module = _windowless(place, {**ONE_HEAD, **sizes, "use_relative_position_embeddings": True})
    heights, widths = array_of(module.rel_pos_h), array_of(module.rel_pos_w)
    if len(heights) != 2 * GRID[0] - 1:
        raise MissingArgument(f"its grid has {(len(heights) + 1) // 2} rows, not {GRID[0]}")
    tokens = GRID[0] * GRID[1]
    asked = scores_of(place, module, ("qkv",), lambda b, n: module(torch.zeros(b, *GRID, DIM)))

    def logits(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Those of the first tokens of a whole grid."""
        n_q, n_k = q.shape[2], k.shape[2]
        if max(n_q, n_k) > tokens or n_q != n_k:
            raise ValueError(f"a grid of {tokens} tokens asks itself")
        whole = [np.pad(x, ((0, 0), (0, 0), (0, tokens - n_q), (0, 0))) for x in (q, k)]
        found: np.ndarray = asked.call(*whole)[:, :, :n_q, :n_k]
        return found

    made = replace(asked, call=logits)
    yield made, DecomposedRelative(heights, widths, grid=GRID)


def _own(cls: type) -> dict[str, Any]:
    return {"hidden_size": DIM, "num_attention_heads": 1}


def _windowless(place: Place, settings: dict[str, Any]) -> Any:
    import torch

    module, config = build(place, settings)
    cls = type(module)
    if "window_size" in inspect.signature(cls).parameters:
        torch.manual_seed(0)
        module = fill(cls(config, window_size=0).eval())
    return module


def disentangled(place: Place) -> Found:
    """DeBERTa and its second version, whose buckets SEW-D has as well."""
    import torch

    span = 16
    common = {**ONE_HEAD, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
    rel = torch.randn(2 * span, DIM, generator=torch.Generator().manual_seed(2))
    if place.model == "deberta":
        module, _ = build(place, {**common, "max_relative_positions": span})
        with torch.no_grad():
            module.q_bias.zero_()
        keys, queries = (array_of(p(rel))[None] for p in (module.pos_proj, module.pos_q_proj))

        def ask(b: int, n: int) -> Any:
            at = torch.arange(n)
            far = (at[:, None] - at)[None]
            mask = torch.ones(1, 1, n, n)
            return module(torch.zeros(b, n, DIM), mask, relative_pos=far, rel_embeddings=rel)

        yield scores_of(place, module, ("in_proj",), ask), DeBERTa(keys, queries)
        return
    buckets = {"max_relative_positions": 40, "position_buckets": span, "share_att_key": False}
    module, config = build(place, {**common, **buckets})
    for name, value in buckets.items():  # not all are fields of the configuration
        setattr(config, name, value)
    module = fill(type(module)(config).eval())
    keys, queries = (array_of(p(rel))[None] for p in (module.pos_key_proj, module.pos_query_proj))

    def ask_buckets(b: int, n: int) -> Any:
        mask = torch.ones(1, 1, n, n)
        return module(torch.zeros(b, n, DIM), mask, rel_embeddings=rel)

    made = scores_of(place, module, ("query_proj", "key_proj"), ask_buckets)
    yield made, DeBERTa(keys, queries, buckets=span, max_position=40)
