"""Rotary layers, tables and biases of KerasHub, on Keras's PyTorch backend."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import (
    ALiBi,
    Encoding,
    Learned,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    MultiAxisRoPE,
    NTKScaling,
    RoPE,
    Sinusoidal,
    Sinusoidal2D,
    SwinBias,
    T5Bias,
    YaRN,
)
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.adapters.rotations import on_grids
from posenc_ref.conformance.adapters.transformers_rotary import LONG, SHORT
from posenc_ref.conformance.calling.grids import Grid
from posenc_ref.conformance.calling.positions import require_indices, window_start
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import from_zero

LIBRARY = "keras-hub"
_LLAMA = "models.llama.llama_rotary_embedding.LlamaRotaryEmbedding"
_HALF = partial(RoPE, 64, layout="half")
_INTERLEAVED = partial(RoPE, 64, layout="interleaved")
_SIDE = 14
_LLAMA3: dict[str, Any] = {
    "frequency_adjustment_factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "pretraining_sequence_length": 8192, "max_wavelength": 500000,
}  # fmt: skip
_YARN: dict[str, Any] = {"rope_type": "yarn", "max_wavelength": 150000, "scaling_factor": 32.0}


def functions() -> list[LibraryFunction]:
    """Return the general layers, then those of single models."""
    layers = "layers/modeling/rotary_embedding.py: RotaryEmbedding"
    return [
        _entry("RotaryEmbedding", layers, _rotary, _HALF()),
        _entry("RotaryEmbedding, start_index", layers, partial(_rotary, offset=True), _HALF()),
        _entry("RotaryEmbedding, linear", layers, partial(_rotary, scaling_factor=4.0),
               _HALF(scaling=LinearScaling(4.0))),
        _entry("RotaryEmbedding, dynamic", layers,
               partial(_rotary, rope_type="dynamic", scaling_factor=4.0),
               _HALF(scaling=NTKScaling(4.0)),
               says="named dynamic; the factor does not depend on the length"),
        _entry("RotaryEmbedding, yarn", layers, partial(_rotary, **_YARN),
               _HALF(base=150000.0, scaling=YaRN(32.0, 4096))),
        _entry("RotaryEmbedding, yarn, truncate=False", layers,
               partial(_rotary, **_YARN, truncate=False),
               _HALF(base=150000.0, scaling=YaRN(32.0, 4096, truncate=False)), says="gpt-oss"),
        _entry("RotaryEmbedding, yarn, truncate=True", layers,
               partial(_rotary, **_YARN, truncate=True),
               _HALF(base=150000.0, scaling=YaRN(32.0, 4096))),
        _entry("LlamaRotaryEmbedding, Llama 3.1", "models/llama/llama_rotary_embedding.py: "
               "LlamaRotaryEmbedding", partial(_rotary, _LLAMA, **_LLAMA3),
               _HALF(base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))),
        _entry("LlamaRotaryEmbedding, position_scaling_factor",
               "models/llama/llama_rotary_embedding.py: LlamaRotaryEmbedding",
               partial(_rotary, _LLAMA, position_scaling_factor=4.0),
               _HALF(scaling=LinearScaling(4.0)),
               says="its documentation: the scaling factor used to scale positions of the tokens"),
        _entry("Phi3SuScaledRotaryEmbedding", "models/phi3/phi3_rotary_embedding.py: "
               "Phi3SuScaledRotaryEmbedding", _phi3,
               RoPE(96, layout="half", scaling=LongRoPE(SHORT, LONG, 4096, factor=32.0))),
        _entry("ESMRotaryEmbedding", "models/esm/esm_attention.py: ESMRotaryEmbedding", _esm,
               _HALF()),
        _entry("SmolLM3RotaryEmbedding", "models/smollm3/smollm3_layers.py: "
               "SmolLM3RotaryEmbedding; smollm3_utils.py: apply_rotary_pos_single", _smollm3,
               _HALF(base=5000000.0)),
        _entry("RoformrPositionalEmbedding", "models/roformer_v2/roformer_v2_attention.py: "
               "RoformrPositionalEmbedding", _roformer, _INTERLEAVED()),
        _entry("MoonshineRotaryEmbedding", "models/moonshine/moonshine_layers.py: "
               "MoonshineRotaryEmbedding; moonshine_multi_head_attention.py: "
               "_apply_rotary_pos_emb", _moonshine, _INTERLEAVED(rotary_dim=38)),
        _entry("FLUX", "models/flux/flux_maths.py: RotaryPositionalEmbedding, ApplyRoPE", _flux,
               _INTERLEAVED()),
        _entry("Qwen 3.5, text", "models/qwen3_5/qwen3_5_attention.py: _apply_mrope", _qwen,
               MultiAxisRoPE(64, sections=(11, 11, 10), layout="half",
                             arrangement="interleaved")),
        _entry("DINOV3RopePositionEmbedding", "models/dinov3/dinov3_layers.py: "
               "DINOV3RopePositionEmbedding", _dinov3,
               MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="restart", base=100.0,
                             position_scale=4 * np.pi / _SIDE, offset=0.5 - _SIDE / 2)),
        _entry("SAM3ViTRotaryEmbedding", "models/sam3/sam3_vision_encoder.py: "
               "SAM3ViTRotaryEmbedding; sam3_layers.py: SAM3RoPEAttention", _sam3,
               MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart",
                             arrangement=(1,) * 16 + (0,) * 16), says="the column comes first"),
        *_tables(),
    ]  # fmt: skip


def _tables() -> list[LibraryFunction]:
    sine = "layers/modeling/sine_position_encoding.py: SinePositionEncoding"
    return [
        _entry("SinePositionEncoding", sine, _sine, Sinusoidal(64)),
        _entry("SinePositionEncoding, mixed_bfloat16", sine, partial(_sine, dtype="mixed_bfloat16"),
               Sinusoidal(64), says="the table is added in bfloat16"),
        _entry("PositionEmbedding", "layers/modeling/position_embedding.py: PositionEmbedding",
               _learned, Learned(np.zeros((128, 64)))),
        _entry("VideoPrism", "models/video_prism/video_prism_layers.py: "
               "SinusoidalPositionalEmbedding", _video_prism,
               Sinusoidal(64, layout="concat", denominator="half-1")),
        _entry("D-FINE", "models/d_fine/d_fine_hybrid_encoder.py: "
               "DFineHybridEncoder.build_2d_sincos_position_embedding", _d_fine,
               Sinusoidal2D(64, axis_order="wh"),
               says="the caller adds it to tokens that are row by row"),
        _entry("AlibiBias", "layers/modeling/alibi_bias.py: AlibiBias", _alibi, ALiBi(12),
               says="a constant in each row is left out"),
        _entry("T5, buckets", "models/t5/t5_multi_head_attention.py: "
               "T5MultiHeadAttention._relative_position_bucket", _t5, T5Bias(np.zeros((32, 1)))),
        _entry("Swin", "models/swin_transformer/swin_transformer_layers.py: "
               "get_relative_position_index", _swin, _swin_zeros()),
    ]  # fmt: skip


def _entry(
    name: str, source: str, build: Callable[[], Implementation], expected: Encoding, says: str = ""
) -> LibraryFunction:
    return functions_of(LIBRARY, "src/")(name, source, build, expected, says=says)


def _of(path: str) -> Any:
    """Return a class or function below ``keras_hub.src``, on the backend of PyTorch."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"keras_hub.src.{module}"), name)


def _apply(call: Any, head_dim: int = 64, axes: int = 1) -> Implementation:
    return Implementation(call, "apply", LIBRARY, backend="torch", head_dim=head_dim, axes=axes)


def _swapped(x: Any, call: Callable[[Any], Any]) -> Any:
    """Return ``call`` of x (B, H, S, D) in Keras's layout (B, S, H, D)."""
    return call(x.transpose(1, 2)).transpose(1, 2).detach()


def _rotary(
    path: str = "layers.modeling.rotary_embedding.RotaryEmbedding", offset: bool = False,
    **settings: Any,
) -> Implementation:  # fmt: skip
    cls = _of(path)
    layers: dict[str, Any] = {}

    def apply(x: Any, positions: Any) -> Any:
        kind = str(x.dtype).removeprefix("torch.")
        layer = layers.setdefault(kind, cls(dtype=kind, **settings))
        at = {"start_index": window_start(positions)} if offset else {"positions": positions}
        return _swapped(x, lambda y: layer(y, **at))

    return _apply(apply)


def _phi3() -> Implementation:
    cls = _of("models.phi3.phi3_rotary_embedding.Phi3SuScaledRotaryEmbedding")
    layer = cls(SHORT, LONG, max_sequence_length=131072, pretraining_sequence_length=4096)

    def apply(x: Any, positions: Any) -> Any:
        start = window_start(positions)
        return _swapped(x, lambda y: layer(y, start_index=start))

    return _apply(apply, 96)


def _esm() -> Implementation:
    layer = _of("models.esm.esm_attention.ESMRotaryEmbedding")()
    return _apply(from_zero(lambda x: _swapped(x, lambda y: layer.call(y, y)[0])))


def _smollm3() -> Implementation:
    layer = _of("models.smollm3.smollm3_layers.SmolLM3RotaryEmbedding")(64, 1, 4096, 5e6, 1.0)
    rotate = _of("models.smollm3.smollm3_utils.apply_rotary_pos_single")

    def apply(x: Any, positions: Any) -> Any:
        cos, sin = layer(x.transpose(1, 2), start_index=window_start(positions))
        return rotate(x, cos, sin).detach()

    return _apply(apply)


def _roformer() -> Implementation:
    layer = _of("models.roformer_v2.roformer_v2_attention.RoformrPositionalEmbedding")(64)
    return _apply(from_zero(lambda x: _swapped(x, lambda y: layer.call([y]))))


def _moonshine() -> Implementation:
    layer = _of("models.moonshine.moonshine_layers.MoonshineRotaryEmbedding")(64, dtype="float32")
    rotate = _of("models.moonshine.moonshine_multi_head_attention._apply_rotary_pos_emb")

    def apply(x: Any, positions: Any) -> Any:
        import torch

        start = window_start(positions)
        angles = layer(torch.arange(start, start + x.shape[2]))
        return _swapped(x, lambda y: rotate(y, angles))

    return _apply(apply)


def _flux() -> Implementation:
    embed = _of("models.flux.flux_maths.RotaryPositionalEmbedding")()
    rotate = _of("models.flux.flux_maths.ApplyRoPE")()

    def apply(x: Any, positions: Any) -> Any:
        rows = positions if positions.ndim > 1 else positions[None]
        table = embed.call(rows.float(), 64, 10000)[:, None]
        return rotate.call(x, x, table)[0].to(x.dtype)

    return _apply(apply)


def _qwen() -> Implementation:
    import torch

    layer = _of("layers.modeling.rotary_embedding.RotaryEmbedding")()
    rotate = _of("models.qwen3_5.qwen3_5_attention._apply_mrope")

    def apply(x: Any, positions: Any) -> Any:
        rows = positions if positions.ndim == 3 else positions[:, None].expand(-1, len(x), -1)
        ids = torch.cat([rows[:1], rows]).transpose(0, 1)
        return _swapped(x, lambda y: rotate(y, layer, ids, [11, 11, 10], 64))

    return _apply(apply, axes=3)


def _dinov3() -> Implementation:
    import torch

    cls = _of("models.dinov3.dinov3_layers.DINOV3RopePositionEmbedding")
    layer = cls(64, 1, 100.0, 1, data_format="channels_last")

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        cos, sin = layer(torch.zeros(1, *sizes, 3))
        first, last = x.chunk(2, dim=-1)
        return x * cos.to(x.dtype) + torch.cat((-last, first), dim=-1) * sin.to(x.dtype)

    return on_grids(LIBRARY, call, grid=Grid(2, own=(_SIDE, _SIDE)))


def _sam3() -> Implementation:
    layer_of = _of("models.sam3.sam3_vision_encoder.SAM3ViTRotaryEmbedding")
    attention_of = _of("models.sam3.sam3_layers.SAM3RoPEAttention")

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        layer = layer_of(10000.0, 64, end_x=sizes[1], end_y=sizes[0])
        layer.build(None)
        attention = attention_of(64 * x.shape[1], x.shape[1])
        attention.height, attention.width = sizes
        y = x.transpose(1, 2)
        cos, sin = (table.value for table in layer.call(None))
        return attention.apply_rotary_pos_emb_2d(y, y, cos, sin)[0].transpose(1, 2).detach()

    return on_grids(LIBRARY, call)


def _rows(call: Callable[[Any], Any], surface: str = "table", **more: Any) -> Implementation:
    return Implementation(call, surface, LIBRARY, backend="torch", **more)


def _sine(dtype: str = "float32") -> Implementation:
    import torch

    layer = _of("layers.modeling.sine_position_encoding.SinePositionEncoding")(dtype=dtype)

    def rows(positions: Any) -> Any:
        require_indices(positions)
        length = int(positions.max()) + 1 if positions.numel() else 1
        return layer(torch.zeros(1, length, 64))[0][positions].float()

    return _rows(rows)


def _learned() -> Implementation:
    import torch

    layer = _of("layers.modeling.position_embedding.PositionEmbedding")(128)
    layer.build((1, 1, 64))

    def rows(positions: Any) -> Any:
        return layer(torch.zeros(1, len(positions), 64), positions=positions)[0].detach()

    table = layer.position_embeddings.value.detach().numpy()
    return _rows(rows, encoding=Learned(table))


def _video_prism() -> Implementation:
    import torch

    path = "models.video_prism.video_prism_layers.SinusoidalPositionalEmbedding"
    layer = _of(path)(64)

    def rows(positions: Any) -> Any:
        require_indices(positions)
        length = int(positions.max()) + 1 if positions.numel() else 1
        return layer(torch.zeros(1, length, 64))[0][positions]

    return _rows(rows)


def _d_fine() -> Implementation:
    cls = _of("models.d_fine.d_fine_hybrid_encoder.DFineHybridEncoder")
    build = cls.build_2d_sincos_position_embedding
    return Implementation(
        lambda height, width: build(width, height, 64)[0], "grid", LIBRARY, backend="torch"
    )


def _alibi() -> Implementation:
    import torch

    layer = _of("layers.modeling.alibi_bias.AlibiBias")()

    def bias(q_len: int, k_len: int) -> Any:
        return layer(torch.zeros(1, 12, q_len, k_len))[0]

    return _rows(bias, "bias", num_heads=12)  # type: ignore[arg-type]


def _t5() -> Implementation:
    bucket = _of("models.t5.t5_multi_head_attention.T5MultiHeadAttention")._relative_position_bucket
    return _rows(bucket, "bucket")


def _swin_zeros() -> SwinBias:
    return SwinBias(np.zeros((49, 3)), window=(4, 4))


def _swin() -> Implementation:
    import torch

    index = _of("models.swin_transformer.swin_transformer_layers.get_relative_position_index")
    table = torch.randn(49, 3, generator=torch.Generator().manual_seed(0))
    rows = torch.as_tensor(np.array(index(4, 4)))

    def bias(q_len: int, k_len: int) -> Any:
        if (q_len, k_len) != (16, 16):
            raise ValueError("q_len and k_len must be 16, the tokens of the window")
        return table[rows.reshape(16, 16)].permute(2, 0, 1)

    encoding = SwinBias(table.numpy(), window=(4, 4))
    return _rows(bias, "bias", encoding=encoding, num_heads=3)  # type: ignore[arg-type]
