"""Encodings of TorchScale: xPos, RetNet's rotation, and T5's bias."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_ref import GivenFrequencies, RoPE, T5Bias, XPos
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import gathered

_LIBRARY = "torchscale"
#: The fastest pair turns by 1 radian per position, the slowest by 1/10000.
_RETNET = GivenFrequencies(tuple((1e4 ** -np.linspace(0, 1, 32)).tolist()))
_XPOS = XPos(64, layout="interleaved")


def functions() -> list[LibraryFunction]:
    """Return xPos, the rotation of retention, and T5's bias alone and in the decoder."""
    component = functions_of(_LIBRARY, "component/")
    architecture = functions_of(_LIBRARY, "architecture/")
    bias = "relative_position_bias.py: RelativePositionBias"
    t5 = T5Bias(np.zeros((32, 1)))
    return [
        component("XPOS", "xpos_relative_position.py: XPOS", _xpos, _XPOS, dtypes=("float32",)),
        component("XPOS, half-precision module", "xpos_relative_position.py: XPOS",
                  partial(_xpos, half=True), _XPOS, dtypes=("float16",),
                  says="after module.half(), as fairseq's --fp16 does; positions and angles then "
                       "are float16"),
        architecture("RetNetRelPos", "retnet.py: RetNetRelPos; "
                     "component/multiscale_retention.py: theta_shift", _retnet,
                     RoPE(64, layout="interleaved", scaling=_RETNET),
                     dtypes=("float32",), says="the exponents are linspace(0, 1, 32)"),
        component("RelativePositionBias, buckets", f"{bias}._relative_position_bucket",
                  partial(_bias, surface="bucket"), t5, dtypes=("float32",)),
        component("RelativePositionBias, causal buckets", f"{bias}._relative_position_bucket",
                  partial(_bias, surface="bucket", causal=True), t5.replace(bidirectional=False),
                  dtypes=("float32",)),
        component("RelativePositionBias", f"{bias}.forward", _bias, t5, dtypes=("float32",),
                  says="the first of q_len queries has position step"),
        architecture("Decoder", "decoder.py: Decoder.forward (rel_pos_buckets > 0)", _decoder, t5,
                     dtypes=("float32",),
                     says="incremental decoding, one token after the others; the bias is "
                          "bidirectional in the decoder too"),
    ]  # fmt: skip


def _xpos(half: bool = False) -> Implementation:
    from torchscale.component.xpos_relative_position import XPOS

    module = XPOS(64).half() if half else XPOS(64)

    def logits(q: Any, k: Any) -> Any:
        rows, keys = q.shape[-2], k.shape[-2]
        # As MultiheadAttention calls it, which has no axis for heads.
        flat = [x.reshape(-1, *x.shape[-2:]) for x in (q, k)]
        q_turned = module(flat[0], offset=keys - rows)
        k_turned = module(flat[1], downscale=True)
        return (q_turned @ k_turned.transpose(-1, -2) / 8).reshape(*q.shape[:-1], keys)

    return Implementation(logits, "scores", _LIBRARY, backend="torch", head_dim=64)


def _retnet() -> Implementation:
    from types import SimpleNamespace

    from torchscale.architecture.retnet import RetNetRelPos
    from torchscale.component.multiscale_retention import theta_shift

    args = SimpleNamespace(decoder_embed_dim=64, decoder_retention_heads=1, recurrent_chunk_size=64)
    (sin, cos), _ = RetNetRelPos(args)(2048)
    apply = gathered(cos, sin, lambda x, cos, sin: theta_shift(x, sin, cos).to(x.dtype))
    return Implementation(apply, "apply", _LIBRARY, backend="torch", head_dim=64)


def _bias(surface: str = "bias", causal: bool = False) -> Implementation:
    import torch
    from torchscale.component.relative_position_bias import RelativePositionBias

    module = RelativePositionBias(bidirectional=not causal, n_heads=4)
    table = module.relative_attention_bias.weight.detach().numpy()

    def bias(q_len: int, k_len: int) -> Any:
        with torch.no_grad():
            return module(1, q_len, k_len, step=k_len - q_len)

    buckets = partial(module._relative_position_bucket, bidirectional=not causal)
    return Implementation(
        buckets if surface == "bucket" else bias, surface, _LIBRARY,
        T5Bias(table, bidirectional=not causal), backend="torch", num_heads=4,
    )  # fmt: skip


def _decoder() -> Implementation:
    """Adapt a decoder of one layer; its bias is what the attention adds to the logits."""
    import torch
    from torchscale.architecture.config import DecoderConfig
    from torchscale.architecture.decoder import Decoder

    heads, width = (
        7,
        56,
    )  # the judge asks for 7 keys, and the sizes fit if heads and keys are as many
    config = DecoderConfig(
        vocab_size=2, decoder_embed_dim=width, decoder_attention_heads=heads, decoder_layers=1,
        decoder_ffn_embed_dim=8, rel_pos_buckets=32, max_rel_pos=128,
    )  # fmt: skip
    model = Decoder(config, embed_tokens=torch.nn.Embedding(2, width)).eval()
    seen = []

    def watch(module: Any, args: Any, settings: dict[str, Any]) -> None:
        seen.append(settings["rel_pos"])

    model.layers[0].self_attn.register_forward_pre_hook(watch, with_kwargs=True)

    def bias(q_len: int, k_len: int) -> Any:
        if q_len not in (1, k_len):
            raise ValueError("q_len must be 1, or k_len: the decoder takes no chunks")
        tokens = torch.zeros(1, k_len, dtype=torch.long)
        cache: dict[Any, Any] = {"is_first_step": True}
        with torch.no_grad():
            if q_len == k_len:
                model(tokens, incremental_state=cache)
            else:
                model(tokens[:, :-1], incremental_state=cache)
                cache["is_first_step"] = False
                model(tokens, incremental_state=cache)
        return seen[-1].view(heads, q_len, k_len)  # as MultiheadAttention.forward does

    table = model.self_attn_relative_position.relative_attention_bias.weight.detach().numpy()
    return Implementation(bias, "bias", _LIBRARY, T5Bias(table), backend="torch", num_heads=heads)
