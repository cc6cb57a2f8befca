"""Attention biases of windows and convolutional positions of timm."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import (
    BEiTBias,
    ConvPositions,
    DecomposedRelative,
    Encoding,
    LeViTBias,
    LogCPB,
    SwinBias,
)
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.harness.implementation import Implementation

#: The window of all modules: its sides differ, which shows which one is used.
_WINDOW, _HEADS = (4, 6), 3
_function = functions_of("timm", "")


def functions() -> list[LibraryFunction]:
    """Return the biases of Swin, BEiT, Swin v2, LeViT and ConViT, and what is like them."""
    relative = "layers/pos_embed_rel.py: "
    swin, beit = SwinBias(_zeros(7 * 11), window=_WINDOW), BEiTBias(_zeros(80), window=_WINDOW)
    levit = LeViTBias(_zeros(24), window=_WINDOW)
    square = LeViTBias(_zeros(25), window=(5, 5))
    network = LogCPB(np.zeros((128, 2)), np.zeros(128), np.zeros((_HEADS, 128)), window=_WINDOW)

    def entry(
        name: str, source: str, build: Any, expected: Encoding, says: str = ""
    ) -> LibraryFunction:
        return _function(name, source, build, expected, says=says)

    return [
        entry("RelPosBias", f"{relative}RelPosBias", partial(_table, "RelPosBias"), swin),
        entry("RelPosBias, prefix_tokens", f"{relative}RelPosBias",
              partial(_table, "RelPosBias", prefix_tokens=1), beit),
        entry("RelPosBiasTf", f"{relative}RelPosBiasTf, reindex_2d_einsum_lookup",
              partial(_table, "RelPosBiasTf"), swin,
              says="offsets are key minus query, and a table for each head (MaxViT)"),
        entry("RelPosMlp, swin", f"{relative}RelPosMlp", partial(_network, ()), network),
        entry("RelPosMlp, swin, pretrained_window_size", f"{relative}RelPosMlp",
              partial(_network, (8, 7)), network.replace(pretrained_window=(8, 7))),
        _function("RelPosMlp, cr", f"{relative}RelPosMlp, gen_relative_log_coords",
                  partial(_network, (), "cr"), None, unknown="-",
                  says="a network of sign(d) ln(1 + |d|) for offsets d = (dy, dx); Swin v2 "
                       "divides d by the window and ends with a sigmoid"),
        entry("Swin", "models/swin_transformer.py: WindowAttention._get_rel_pos_bias",
              partial(_table, "WindowAttention"), swin),
        entry("BEiT", "models/beit.py: Attention._get_rel_pos_bias", partial(_beit, "Attention"),
              beit),
        entry("BEiT, shared", "models/beit.py: RelativePositionBias",
              partial(_beit, "RelativePositionBias"), beit),
        entry("LeViT", "models/levit.py: Attention.get_attention_biases",
              partial(_levit, "levit", "Attention"), levit),
        entry("TinyViT", "models/tiny_vit.py: Attention.get_attention_biases",
              partial(_levit, "tiny_vit", "Attention"), levit),
        entry("EfficientFormer", "models/efficientformer.py: Attention.get_attention_biases",
              partial(_levit, "efficientformer", "Attention"), levit),
        entry("EfficientFormerV2", "models/efficientformer_v2.py: Attention2d.get_attention_biases",
              partial(_levit, "efficientformer_v2", "Attention2d"), levit),
        entry("EfficientViT", "models/efficientvit_msra.py: CascadedGroupAttention",
              partial(_levit, "efficientvit_msra", "CascadedGroupAttention", (5, 5)), square),
        entry("MViTv2", "models/mvitv2.py: cal_rel_pos_type", partial(_decomposed, "mvitv2"),
              _decomposed_zeros()),
        entry("SAM", "models/vision_transformer_sam.py: get_decomposed_rel_pos_bias",
              partial(_decomposed, "vision_transformer_sam"), _decomposed_zeros()),
        entry("BotNet", "layers/bottleneck_attn.py: PosEmbedRel", partial(_decomposed, "botnet"),
              _decomposed_zeros(),
              says="offsets are key minus query: both tables are read from their ends"),
        _convolution("Twins", "models/twins.py: PosConv"),
        _convolution("DaViT", "models/davit.py: ConvPosEnc"),
    ]  # fmt: skip


def _zeros(rows: int) -> np.ndarray:
    return np.zeros((rows, _HEADS))


def _convolution(name: str, source: str) -> LibraryFunction:
    declared = ConvPositions((np.zeros((8, 1, 3, 3)),), (np.zeros(8),), groups=8,
                             activation="none", residual=True)  # fmt: skip
    return _function(name, source, partial(_convolved, name), declared)


def _random(module: Any, std: float = 1.0) -> Any:
    """Return the module with random parameters, which initialisation may have left at zero."""
    import torch

    drawn = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.0, std, generator=drawn)
    module.eval()  # LeViT's returns None
    return module


def _bias(call: Any, encoding: Encoding, tokens: int) -> Implementation:
    """Adapt a module whose bias is that of one whole window."""
    import torch

    def bias(q_len: int, k_len: int) -> Any:
        if (q_len, k_len) != (tokens, tokens):
            raise ValueError(f"q_len and k_len must be {tokens}, the tokens of the window")
        with torch.no_grad():
            return call()

    heads = encoding.num_heads  # type: ignore[attr-defined]
    return Implementation(bias, "bias", "timm", encoding, backend="torch", num_heads=heads)


def _values(parameter: Any) -> np.ndarray:
    return np.asarray(parameter.detach().numpy())


def _table(name: str, **settings: Any) -> Implementation:
    from timm.layers import pos_embed_rel
    from timm.models.swin_transformer import WindowAttention

    if name == "WindowAttention":
        module = _random(WindowAttention(24, _HEADS, window_size=_WINDOW))
        call = module._get_rel_pos_bias
    else:
        module = _random(getattr(pos_embed_rel, name)(_WINDOW, _HEADS, **settings))
        call = module.get_bias
    table = _values(module.relative_position_bias_table)
    if name == "RelPosBiasTf":
        table = table[:, ::-1, ::-1].reshape(_HEADS, -1).T
    if settings:
        return _bias(call, BEiTBias(table, window=_WINDOW), 25)
    return _bias(call, SwinBias(table, window=_WINDOW), 24)


def _network(pretrained: tuple[int, ...], mode: str = "swin") -> Implementation:
    from timm.layers.pos_embed_rel import RelPosMlp

    given = {"pretrained_window_size": pretrained} if pretrained else {}
    module = _random(RelPosMlp(_WINDOW, _HEADS, mode=mode, **given), 0.3)
    first, last = module.mlp.fc1, module.mlp.fc2
    encoding = LogCPB(*(_values(p) for p in (first.weight, first.bias, last.weight)),
                      window=_WINDOW, pretrained_window=pretrained or None)  # fmt: skip
    return _bias(module.get_bias, encoding, 24)


def _beit(name: str) -> Implementation:
    from timm.models import beit

    if name == "Attention":
        module = _random(beit.Attention(24, _HEADS, window_size=_WINDOW))
        call = module._get_rel_pos_bias
    else:
        module = call = _random(beit.RelativePositionBias(_WINDOW, _HEADS))
    return _bias(call, BEiTBias(_values(module.relative_position_bias_table), window=_WINDOW), 25)


def _levit(model: str, name: str, window: tuple[int, int] = _WINDOW) -> Implementation:
    import torch

    size = window[0] if model == "efficientvit_msra" else window
    cls = getattr(importlib.import_module(f"timm.models.{model}"), name)
    module = _random(cls(24, 8, num_heads=_HEADS, resolution=size))
    table = _values(module.attention_biases).T
    call = partial(module.get_attention_biases, torch.device("cpu"))
    return _bias(call, LeViTBias(table, window=window), window[0] * window[1])


def _decomposed_zeros() -> DecomposedRelative:
    return DecomposedRelative(np.zeros((7, 8)), np.zeros((11, 8)), grid=_WINDOW)


def _decomposed(model: str) -> Implementation:
    """Adapt the scores of a whole grid, from queries that are not scaled."""
    import torch

    drawn = torch.Generator().manual_seed(0)
    height, width = (torch.randn(2 * n - 1, 8, generator=drawn) for n in _WINDOW)
    n = _WINDOW[0] * _WINDOW[1]

    def scores(q: Any, k: Any) -> Any:
        if q.shape[2] != n or k.shape[2] != n:
            raise ValueError(f"q and k must have {n} tokens, those of the whole grid")
        logits = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
        flat = q.reshape(-1, n, 8)
        with torch.no_grad():
            if model == "mvitv2":
                from timm.models.mvitv2 import cal_rel_pos_type

                return cal_rel_pos_type(logits, q, False, _WINDOW, _WINDOW, height, width)
            if model == "botnet":
                from timm.layers.bottleneck_attn import PosEmbedRel

                module = PosEmbedRel(_WINDOW, 8, 1.0)
                module.height_rel.copy_(height.flip(0))
                module.width_rel.copy_(width.flip(0))
                return logits + module(flat).reshape(logits.shape)
            from timm.models.vision_transformer_sam import get_decomposed_rel_pos_bias

            bias = get_decomposed_rel_pos_bias(flat, height, width, _WINDOW, _WINDOW)
            return logits + bias.reshape(logits.shape)

    encoding = DecomposedRelative(height.numpy(), width.numpy(), grid=_WINDOW)
    return Implementation(scores, "scores", "timm", encoding, backend="torch", head_dim=8)


def _convolved(name: str) -> Implementation:
    import torch

    if name == "Twins":
        from timm.models.twins import PosConv

        module = _random(PosConv(8, 8))
        convolution = module.proj[0]
    else:
        from timm.models.davit import ConvPosEnc

        module = _random(ConvPosEnc(8))
        convolution = module.proj

    def convolve(x: Any, height: int, width: int) -> Any:
        with torch.no_grad():
            if name == "Twins":
                return module(x.clone(), (height, width))
            image = x.transpose(1, 2).reshape(len(x), 8, height, width)
            return module(image).flatten(2).transpose(1, 2)

    encoding = ConvPositions((_values(convolution.weight),), (_values(convolution.bias),),
                             groups=8, activation="none", residual=True)  # fmt: skip
    return Implementation(convolve, "convolve_grid", "timm", encoding, backend="torch")
