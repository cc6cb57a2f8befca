"""Biases of positions: ALiBi's slopes, T5's buckets, the tables of windows."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import ALiBi, BEiTBias, Encoding, LeViTBias, LogCPB, SwinBias, T5Bias
from posenc_ref.conformance.adapters.transformers_bias import alibi, relative_bias
from posenc_ref.conformance.harness.implementation import Implementation

from .build import MissingArgument, build, configurations, fill
from .census import Place

Found = Iterator[tuple[Implementation, Any]]
#: Heads: a power of two, and another number.
HEADS = (8, 12)
#: A window that is not square, where a class takes one.
WINDOW = (4, 6)
#: The window that continuous biases were trained with.
PRETRAINED = (6, 6)
DIM = 12


def alibis(place: Place) -> Found:
    """Slopes, and the bias of every key: up to a constant for each row."""
    builder = getattr(importlib.import_module(place.file), place.owner)
    inside = place.model == "falcon"
    for heads in HEADS:
        encoding = ALiBi(heads, bias_inside_scale=inside)
        for surface in ("slopes", "bias"):
            found = alibi(builder, None, surface, heads, encoding)
            yield replace(found, surface=f"{surface}, {heads} heads"), encoding


def t5(place: Place) -> Found:
    """Buckets of relative positions, and the biases that they select."""
    special: dict[str, Callable[[Place], Found]] = {
        "rel_pos_bias": _layout,
        "rel_pos_x_bias": _layout,
        "rel_pos_y_bias": _layout,
        "rel_attn_embed": _wavlm,
    }
    if place.attribute in special:
        yield from special[place.attribute](place)
        return
    if place.owner == "RelativePositionBiasBase":
        yield _udop(place)
        return
    module, _ = build(place, {"relative_attention_num_buckets": 32})
    for surface in ("bucket", "bias"):
        if surface == "bias" and not _takes_lengths(module):
            continue
        found = relative_bias(module, surface, None, None)
        if found is None:
            raise MissingArgument("it has no buckets")
        encoding: Any = found.encoding
        if place.model == "pix2struct" and surface == "bias":  # a decoder's, always
            encoding = encoding.replace(bidirectional=False)
        yield found, encoding
    if hasattr(module, "compute_position_bias"):
        yield _mpnet(place, module)


def _takes_lengths(module: Any) -> bool:
    compute = getattr(module, "compute_bias", None)
    return compute is not None and "query_length" in inspect.signature(compute).parameters


def square(place: Place, bias: Callable[[int], Any]) -> Implementation:
    """A bias of as many queries as keys."""
    import torch

    def of_lengths(q_len: int, k_len: int) -> np.ndarray:
        if q_len != k_len:
            raise ValueError("it has as many queries as keys")
        with torch.no_grad():
            return np.asarray(bias(k_len).detach().numpy())

    return Implementation(call=of_lengths, surface="bias", name=place.name)


def _mpnet(place: Place, module: Any) -> tuple[Implementation, Encoding]:
    import torch

    table = module.relative_attention_bias.weight.detach().numpy()
    bias = square(place, lambda n: module.compute_position_bias(torch.zeros(1, n, 1))[0])
    return bias, T5Bias(table, scaled=True)


def _udop(place: Place) -> tuple[Implementation, Encoding]:
    import torch

    file = importlib.import_module(place.file)
    module = fill(file.RelativePositionBias1D(num_heads=3).eval())
    table = module.relative_attention_bias.weight.detach().numpy()
    return square(place, lambda n: module(torch.ones(1, n))[0]), T5Bias(table)


def _wavlm(place: Place) -> Found:
    file = importlib.import_module(place.file)
    cls = getattr(file, place.owner)
    module = fill(cls(24, 3, num_buckets=40, max_distance=100).eval())
    table = module.rel_attn_embed.weight.detach().numpy()
    encoding = T5Bias(table, num_buckets=40, max_distance=100, scaled=True)
    yield square(place, lambda n: module.compute_bias(n, n)), encoding


def _layout(place: Place) -> Found:
    """LayoutLM's kin: of the number of the token, and of the left or lower edge of its box."""
    import torch

    settings = {"has_relative_attention_bias": True, "has_spatial_attention_bias": True}
    module, _ = build(place, settings)
    weight = getattr(module, place.attribute).weight
    in_line, in_boxes = (
        getattr(module, old, None) or getattr(module, new)
        for old, new in (
            ("_calculate_1d_position_embeddings", "_cal_1d_pos_emb"),
            ("_calculate_2d_position_embeddings", "_cal_2d_pos_emb"),
        )
    )
    if place.attribute == "rel_pos_bias":
        bins, far = module.rel_pos_bins, module.max_rel_pos

        def bias(n: int) -> Any:
            return in_line(torch.arange(n)[None])[0]

    elif place.attribute not in inspect.getsource(in_boxes):
        raise MissingArgument("nothing in its file uses it: a weight that is left over")
    else:
        bins, far = module.rel_2d_pos_bins, module.max_rel_2d_pos
        other = {"rel_pos_x_bias": "rel_pos_y_bias"}.get(place.attribute, "rel_pos_x_bias")
        with torch.no_grad():
            getattr(module, other).weight.zero_()

        def bias(n: int) -> Any:
            return in_boxes(torch.arange(n)[None, :, None].expand(1, n, 4))[0]

    inside = place.model != "layoutlmv2"
    encoding = T5Bias(
        weight.detach().numpy().T.copy(), num_buckets=bins, max_distance=far, scaled=True,
        bias_inside_scale=inside,
    )  # fmt: skip
    yield square(place, bias), encoding


def windows(place: Place) -> Found:
    """The bias of a whole window: what softmax is given where queries and keys are zero."""
    if place.attribute == "rpb":
        raise MissingArgument(
            "its scores are computed by the natten library, which is not installed"
        )
    if place.model in ("beit", "data2vec"):
        for window in ((4, 4), WINDOW):
            found, encoding = _of_window(place, window)
            part = f"bias, a window of {window[0]} x {window[1]}"
            yield replace(found, surface=part), encoding
    else:
        yield _of_window(place, WINDOW)


def _of_window(place: Place, window: tuple[int, int]) -> tuple[Implementation, Encoding]:
    module, encoding = _window(place, window)

    def bias(q_len: int, k_len: int) -> np.ndarray:
        import torch

        if q_len != k_len:
            raise ValueError("a window asks as a whole")
        with softmax_inputs() as seen, torch.no_grad():
            out = _asked(module, k_len)
        whole = (out if not seen else seen[0]).detach().float().numpy()
        return np.asarray(whole[0])

    return Implementation(call=bias, surface="bias", name=place.name), encoding


def _asked(module: Any, tokens: int) -> Any:
    import torch

    names = list(inspect.signature(module.forward).parameters)
    if not names:
        return module()
    if names[0] == "window_size":
        return module(module.window_size)
    return module(torch.zeros(1, tokens, DIM))


def _window(place: Place, window: tuple[int, int]) -> tuple[Any, Encoding]:
    import torch

    given: dict[str, Any] = {
        "dim": DIM, "num_heads": 3, "window_size": window, "hidden_sizes": DIM, "key_dim": 4,
        "num_attention_heads": 3, "attention_ratio": 2, "resolution": 4,
        "pretrained_window_size": PRETRAINED,
    }  # fmt: skip
    module = _built(place, given, window)
    module.eval()
    kept = {place.attribute} if place.attribute != "continuous_position_bias_mlp" else set()
    with torch.no_grad():
        for name, p in module.named_parameters():
            if name in kept or name.startswith("continuous_position_bias_mlp"):
                p.normal_(generator=torch.Generator().manual_seed(len(name)))
            else:
                p.zero_()
    if place.attribute == "attention_biases":
        biases = module.attention_biases.detach().numpy().T.copy()
        return module, LeViTBias(biases, window=(4, 4))
    if place.attribute == "continuous_position_bias_mlp":
        first, _, last = module.continuous_position_bias_mlp
        parts = (first.weight, first.bias, last.weight)
        arrays = [p.detach().numpy() for p in parts]
        return module, LogCPB(*arrays, window=window, pretrained_window=PRETRAINED)
    table = module.relative_position_bias_table.detach().numpy()
    if place.model in ("beit", "data2vec"):
        return module, BEiTBias(table, window=window)
    return module, SwinBias(table, window=window)


def _built(place: Place, given: dict[str, Any], window: tuple[int, int]) -> Any:
    """The class with the first configuration of its file that it takes."""
    file = importlib.import_module(place.file)
    cls = getattr(file, place.owner)
    wanted = inspect.signature(cls).parameters
    arguments = {k: v for k, v in given.items() if k in wanted}
    if "config" not in wanted:
        return cls(**arguments)
    patch = 16
    settings = {"patch_size": patch, "image_size": tuple(patch * side for side in window)}
    for config in configurations(file, cls, settings):
        with contextlib.suppress(AttributeError):
            return cls(config=config, **arguments)
    raise MissingArgument("no configuration of its file fits")


@contextlib.contextmanager
def softmax_inputs() -> Iterator[list[Any]]:
    """A list that fills with what every softmax inside the block is given."""
    import torch

    seen: list[Any] = []
    places = [(torch.nn.functional, "softmax"), (torch, "softmax"), (torch.Tensor, "softmax")]
    originals = [getattr(owner, name) for owner, name in places]

    def catching(original: Any) -> Any:
        def caught(x: Any, *args: Any, **more: Any) -> Any:
            seen.append(x)
            return original(x, *args, **more)

        return caught

    for (owner, name), original in zip(places, originals, strict=True):
        setattr(owner, name, catching(original))
    try:
        yield seen
    finally:
        for (owner, name), original in zip(places, originals, strict=True):
            setattr(owner, name, original)
