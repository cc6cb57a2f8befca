"""Encodings of vit-pytorch: sinusoids, rotations and biases in windows."""

from __future__ import annotations

from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np

from posenc_ref import (
    GivenFrequencies,
    LeViTBias,
    MixedRoPE,
    MultiAxisRoPE,
    Sinusoidal,
    Sinusoidal2D,
    Sinusoidal3D,
    SwinBias,
)
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.calling.positions import require_indices
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import captured, rows_of

_LIBRARY = "vit-pytorch"
_WINDOW = 7
_TABLE = ("float32",)
_APPLY = partial(Implementation, surface="apply", name=_LIBRARY, backend="torch", head_dim=64)


def functions() -> list[LibraryFunction]:
    """Return one function of each kind; most files of the library have copies of them."""
    function = functions_of(_LIBRARY, "")
    half: dict[str, Any] = {"layout": "concat", "denominator": "half-1"}
    swin = SwinBias(np.zeros(((2 * _WINDOW - 1) ** 2, 1)), window=(_WINDOW, _WINDOW))
    # torch.linspace(1, max_freq / 2, dim / 6) * pi, with max_freq = 10.
    pixel = GivenFrequencies(tuple((np.linspace(1.0, 5.0, 10) * np.pi).tolist()))
    vit_5 = MultiAxisRoPE(
        64, sections=(16, 16), layout="interleaved", spacing="restart", base=100000.0
    )
    axial = "vit_5.py: AxialRotaryEmbedding, Attention"
    return [
        function("posemb_sincos_1d", "simple_vit_1d.py: posemb_sincos_1d", _line,
                 Sinusoidal(64, **half), dtypes=_TABLE),
        function("posemb_sincos_2d", "simple_vit.py: posemb_sincos_2d", _plane,
                 Sinusoidal2D(64, axis_order="wh", **half), dtypes=_TABLE),
        function("posemb_sincos_3d", "simple_vit_3d.py: posemb_sincos_3d", _space,
                 Sinusoidal3D((16, 16, 16), axis_order="wht", **half), dtypes=_TABLE),
        function("sinusoidal_embedding", "cct.py: sinusoidal_embedding", _cct, Sinusoidal(64),
                 dtypes=_TABLE),
        function("GoldenGateRoPENd", "vit_nd_rotary.py: GoldenGateRoPENd, make_directions",
                 _golden, MixedRoPE(64, _golden_gate(4, 32, 2), layout="half"), dtypes=_TABLE,
                 says="frequencies from 1 to 10000 radians per patch"),
        function("NDRotaryEmbedding", "levjepa_nd.py: NDRotaryEmbedding, apply_rotary", _levjepa,
                 MultiAxisRoPE(64, sections=(10, 10, 10), layout="interleaved",
                               spacing="restart", scaling=pixel),
                 dtypes=_TABLE, says="coordinates are given, from -1 to 1 in the model"),
        function("AxialRotaryEmbedding", axial, _vit_5, vit_5, dtypes=_TABLE,
                 says="ViT-5, square images"),
        function("AxialRotaryEmbedding, bfloat16", axial, partial(_vit_5, side=14, half=True),
                 vit_5, dtypes=("bfloat16",),
                 says="positions, frequencies and angles have the dtype of the tokens"),
        function("AxialRotaryEmbedding, 32 x 128 patches", axial,
                 partial(_vit_5, rows=32), vit_5, dtypes=_TABLE,
                 says="ViT-5 takes image_size=(height, width)"),
        function("MaxViT", "max_vit.py: Attention", partial(_window, "max_vit"), swin,
                 dtypes=_TABLE),
        function("LeViT", "levit.py: Attention.apply_pos_bias", _levit,
                 LeViTBias(np.zeros((_WINDOW**2, 1)), window=(_WINDOW, _WINDOW)), dtypes=_TABLE,
                 says="the table is divided by the scale of the logits"),
        function("CrossFormer", "crossformer.py: DynamicPositionBias, Attention",
                 partial(_window, "crossformer"), swin, dtypes=_TABLE,
                 says="a network of the offset (rows, columns) gives the bias of all heads"),
    ]  # fmt: skip


def _line() -> Implementation:
    import torch
    from vit_pytorch.simple_vit_1d import posemb_sincos_1d

    table = posemb_sincos_1d(torch.zeros(1, 4096, 64))
    return Implementation(rows_of(table), "table", _LIBRARY, backend="torch")


def _plane() -> Implementation:
    from vit_pytorch.simple_vit import posemb_sincos_2d

    return Implementation(
        lambda height, width: posemb_sincos_2d(height, width, 64), "grid", _LIBRARY,
        backend="torch",
    )  # fmt: skip


def _space() -> Implementation:
    import torch
    from vit_pytorch.simple_vit_3d import posemb_sincos_3d

    def table(positions: Any) -> Any:
        require_indices(positions)
        end = int(positions.max()) + 1 if positions.numel() else 1
        if end > 4096:
            raise ValueError("positions must be below 4096: a call returns all rows")
        # The columns of an axis depend on that axis alone; those of the last axis come first.
        sides = [[end if axis == n else 1 for axis in range(3)] for n in (2, 1, 0)]
        thin = [
            posemb_sincos_3d(torch.zeros(1, *side, 48)).reshape(-1, 3, 16)[:, n]
            for n, side in enumerate(sides)
        ]
        return torch.cat([part[at] for part, at in zip(thin, positions.flip(0), strict=True)], -1)

    return Implementation(table, "table", _LIBRARY, backend="torch", axes=3)


def _cct() -> Implementation:
    from vit_pytorch.cct import sinusoidal_embedding

    return Implementation(
        rows_of(sinusoidal_embedding(2048, 64)[0]), "table", _LIBRARY, backend="torch"
    )


def _golden_gate(heads: int, pairs: int, axes: int) -> np.ndarray:
    """Return the frequencies (heads, axes, pairs) of Xiong's golden gate RoPE, in float64."""
    ratio = 2.0
    for _ in range(10):  # the library stops here, before the limit
        ratio = (1 + ratio) ** (1 / (axes + 1))  # ratio ** (axes + 1) = ratio + 1
    points = np.outer(np.arange(1, heads * pairs + 1), ratio ** -np.arange(1.0, axes + 1)) % 1
    # The quantiles of the normal distribution: uniform directions, once they have length 1.
    directions = np.vectorize(NormalDist().inv_cdf)(points)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    sizes = 1e4 ** np.linspace(0, 1, pairs)
    return np.moveaxis(directions.reshape(heads, pairs, axes) * sizes[:, None], -1, 1)


def _golden() -> Implementation:
    from vit_pytorch.vit_nd_rotary import GoldenGateRoPENd

    module = GoldenGateRoPENd(2, 4, 64)

    def apply(x: Any, positions: Any) -> Any:
        rows = positions if positions.ndim > 2 else positions[:, None]
        return module(x, rows.movedim(0, -1))

    return _APPLY(apply, axes=2, num_heads=4)


def _levjepa() -> Implementation:
    from vit_pytorch.levjepa_nd import NDRotaryEmbedding, apply_rotary

    module = NDRotaryEmbedding(64, 3)

    def apply(x: Any, positions: Any) -> Any:
        rows = positions if positions.ndim > 2 else positions[:, None]
        sin, cos = module(rows.movedim(0, -1).float())
        return apply_rotary(x, x, sin, cos)[0].to(x.dtype)

    return _APPLY(apply, axes=3)


def _vit_5(side: int = 64, half: bool = False, rows: int | None = None) -> Implementation:
    """Adapt the rotation of ``side ** 2`` patches, in ``rows`` rows."""
    import torch
    from vit_pytorch.vit_5 import AxialRotaryEmbedding, rotate_every_two

    module = AxialRotaryEmbedding(64, num_registers=4)
    high = side if rows is None else rows
    wide = side**2 // high
    tokens = torch.zeros(1, 4 + side**2, 64, dtype=torch.bfloat16 if half else torch.float32)
    sin, cos = (part[0, 0, 4:].reshape(high, wide, 64) for part in module(tokens))

    def apply(x: Any, positions: Any) -> Any:
        require_indices(positions)
        at = positions if positions.ndim > 2 else positions[:, None]
        if at.numel() and (int(at[0].max()) >= high or int(at[1].max()) >= wide):
            raise ValueError(f"positions must be in a grid of {high} x {wide} patches")
        angles = sin[at[0], at[1]][:, None], cos[at[0], at[1]][:, None]
        return (x * angles[1]) + (rotate_every_two(x) * angles[0])  # as Attention.forward does

    return _APPLY(apply, axes=2)


def _window(file: str) -> Implementation:
    """Adapt the attention of a window whose queries are 0, so that its logits are the bias."""
    import importlib

    import torch

    library = importlib.import_module(f"vit_pytorch.{file}")
    side = 2 * _WINDOW - 1
    if file == "max_vit":
        layer, heads = library.Attention(64, window_size=_WINDOW), 2
        x = torch.zeros(1, 1, 1, _WINDOW, _WINDOW, 64)
        table = layer.rel_pos_bias.weight.detach().numpy()
    else:
        layer, heads = library.Attention(64, "short", _WINDOW), 1
        x = torch.zeros(1, 64, _WINDOW, _WINDOW)
        axis = torch.arange(1.0 - _WINDOW, _WINDOW)
        offsets = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
        table = layer.dpb(offsets).detach().numpy().reshape(side**2, 1)
    torch.nn.init.zeros_(layer.to_qkv.weight)

    def bias(q_len: int, k_len: int) -> Any:
        if (q_len, k_len) != (_WINDOW**2, _WINDOW**2):
            raise ValueError(f"q_len and k_len must be {_WINDOW**2}: the layer has one window")
        owner = torch.nn.functional if file == "max_vit" else torch.Tensor
        with torch.no_grad(), captured(owner, "softmax", argument=0) as seen:
            layer(x)
        return seen[0][0, :heads]

    declared = SwinBias(table, window=(_WINDOW, _WINDOW))
    return Implementation(bias, "bias", _LIBRARY, declared, backend="torch", num_heads=heads)


def _levit() -> Implementation:
    import torch
    from vit_pytorch.levit import Attention

    layer = Attention(64, _WINDOW, heads=4)

    def bias(q_len: int, k_len: int) -> Any:
        if (q_len, k_len) != (_WINDOW**2, _WINDOW**2):
            raise ValueError(f"q_len and k_len must be {_WINDOW**2}: the layer has one grid")
        with torch.no_grad():
            return layer.apply_pos_bias(torch.zeros(1, 4, q_len, k_len))[0]

    table = layer.pos_bias.weight.detach().numpy() / layer.scale
    declared = LeViTBias(table, window=(_WINDOW, _WINDOW))
    return Implementation(bias, "bias", _LIBRARY, declared, backend="torch", num_heads=4)
