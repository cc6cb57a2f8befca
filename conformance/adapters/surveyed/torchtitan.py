"""Rotary encodings of torchtitan: of its language models, vision towers and FLUX."""

from __future__ import annotations

from functools import partial
from typing import Any

from posenc_ref import Llama3Scaling, MultiAxisRoPE, RoPE, Sinusoidal, YaRN, preset
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.calling.positions import require_indices
from posenc_ref.conformance.harness.implementation import Implementation

_LIBRARY = "torchtitan"
_PAIRS, _HALF = partial(RoPE, 64, layout="interleaved"), partial(RoPE, 64, layout="half")
#: The scaling in the configurations of DeepSeek-V3 and gpt-oss.
_DEEPSEEK: dict[str, Any] = {"scaling": "yarn", "rope_factor": 40.0, "original_seq_len": 4096}
_GPT_OSS: dict[str, Any] = {
    "scaling": "yarn",
    "rope_factor": 32.0,
    "original_seq_len": 4096,
    "truncate": False,
}
_SIDE = 512
_APPLY = partial(Implementation, surface="apply", name=_LIBRARY, backend="torch")


def functions() -> list[LibraryFunction]:
    """Return ComplexRoPE and CosSinRoPE with every scaling, MRoPE, and rotations of images."""
    common = functions_of(_LIBRARY, "models/common/rope.py: ")
    models = functions_of(_LIBRARY, "models/")
    yarn = partial(YaRN, 40.0, 4096, attention_factor=1.0)
    split = "the factor of cos and sin is in the scale of the softmax instead"
    grid = partial(MultiAxisRoPE, 64, sections=(16, 16), layout="interleaved")
    vectors = ("float32", "bfloat16")
    return [
        common("ComplexRoPE", "ComplexRoPE", _rope, _PAIRS(), dtypes=vectors),
        common("ComplexRoPE, llama", "ComplexRoPE",
               partial(_rope, scaling="llama", theta=500000.0),
               _PAIRS(base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)),
               dtypes=("float32",)),
        common("ComplexRoPE, DeepSeek-V3", "ComplexRoPE, _yarn_inv_freq",
               partial(_rope, **_DEEPSEEK), _PAIRS(scaling=yarn()), dtypes=("float32",),
               says=split),
        models("DeepSeek-V3 16B, softmax_scale", "deepseek_v3/__init__.py: _16b; "
               "deepseek_v3/model.py: Attention", _softmax_scale, _PAIRS(scaling=yarn()),
               dtypes=("float32",),
               says="mscale is 0.70 in the configuration that is DeepSeek-V2-Lite's otherwise"),
        common("CosSinRoPE", "CosSinRoPE", partial(_rope, "CosSinRoPE"), _HALF(), dtypes=vectors),
        common("CosSinRoPE, gpt-oss", "CosSinRoPE, _yarn_inv_freq",
               partial(_rope, "CosSinRoPE", theta=150000.0, **_GPT_OSS),
               _HALF(base=150000.0,
                     scaling=YaRN(32.0, 4096, attention_factor=1.0, truncate=False)),
               dtypes=("float32",), says=split),
        models("MRoPE", "qwen3_5/rope.py: MRoPE", _mrope,
               MultiAxisRoPE(64, sections=(11, 11, 10), layout="half",
                             arrangement="interleaved"), dtypes=vectors),
        models("Kimi K2.7 vision", "kimi_k2_7/vision_encoder.py: VisionRotaryEmbedding2D, "
               "_compute_2d_rope_cache", _kimi,
               grid(arrangement=(1, 0) * 16, spacing="restart"), dtypes=("float32",)),
        models("Muse Glimmer vision", "muse_glimmer/vision_encoder.py: "
               "MuseGlimmerVisionEncoder._make_2d_rope", _muse,
               grid(arrangement=(1,) * 16 + (0,) * 16, spacing="restart", offset=1.0),
               dtypes=("float32",), says="rows and columns are counted from 1"),
        models("FLUX", "flux/model/layers.py: EmbedND, rope, apply_rope", _flux,
               MultiAxisRoPE(128, sections=(8, 28, 28), layout="interleaved", spacing="restart"),
               dtypes=vectors),
        models("FLUX, bfloat16 ids", "flux/model/layers.py: EmbedND, rope, apply_rope; "
               "flux/parallelize.py: apply_fsdp", partial(_flux, half=True),
               MultiAxisRoPE(128, sections=(8, 28, 28), layout="interleaved", spacing="restart"),
               dtypes=("bfloat16",),
               says="as fully_shard casts the inputs of a model with bfloat16 parameters"),
        models("FLUX, timestep_embedding", "flux/model/layers.py: timestep_embedding", _timestep,
               Sinusoidal(64, layout="concat", first="cos", position_scale=1000.0),
               dtypes=("float32",), says="time_factor multiplies the timestep"),
    ]  # fmt: skip


def _rope(name: str = "ComplexRoPE", **settings: Any) -> Implementation:
    from torchtitan.models.common import rope

    cls = getattr(rope, name)
    module = cls(cls.Config(dim=64, max_seq_len=131072, **settings))

    def apply(x: Any, positions: Any) -> Any:
        require_indices(positions)
        rows = positions if positions.ndim > 1 else positions[None]
        return module(x, x, rows)[0]

    return _APPLY(apply, tensor_layout="bshd", head_dim=64)


def _softmax_scale() -> Implementation:
    import torch
    from torchtitan.models import deepseek_v3

    with torch.device("meta"):
        config = deepseek_v3._16b(attn_backend="flex", moe_comm_backend="standard")
        scale = config.layers[0].attention.build().softmax_scale
    declared = preset("deepseek-v2-lite")
    return Implementation(lambda: scale, "softmax_scale", _LIBRARY, declared, backend="torch")


def _mrope() -> Implementation:
    from torchtitan.models.qwen3_5.rope import MRoPE

    module = MRoPE(MRoPE.Config(dim=64, max_seq_len=131072, mrope_section=[11, 11, 10]))

    def apply(x: Any, positions: Any) -> Any:
        require_indices(positions)
        rows = positions if positions.ndim > 2 else positions[:, None]
        return module(x, x, rows.movedim(0, -1))[0]

    return _APPLY(apply, tensor_layout="bshd", head_dim=64, axes=3)


def _on_grid(table: Any) -> Implementation:
    """Adapt a table of complex numbers (rows, columns, pairs), in the order of the patches."""
    from torchtitan.models.common.rope import ComplexRoPE

    def apply(x: Any, positions: Any) -> Any:
        require_indices(positions)
        rows = positions if positions.ndim > 2 else positions[:, None]
        factors = table[rows[0], rows[1]][:, :, None]
        return ComplexRoPE.apply_rotary_emb(x, x, factors)[0]

    return _APPLY(apply, tensor_layout="bshd", head_dim=64, axes=2)


def _kimi() -> Implementation:
    from torchtitan.models.kimi_k2_7 import vision_encoder as library

    cls = library.VisionRotaryEmbedding2D
    frequencies = cls(cls.Config(head_dim=64))(_SIDE)
    grids = [[1, _SIDE, _SIDE]]
    cache = library._compute_2d_rope_cache(frequencies, grids, _SIDE**2, 64)
    return _on_grid(cache.reshape(_SIDE, _SIDE, 32))


def _muse() -> Implementation:
    import torch
    from torchtitan.models.muse_glimmer import vision_encoder as library

    class Encoder:
        rope_freq = library.VisionRopeFreq(
            library.VisionRopeFreq.Config(head_dim=64, rope_theta=10000.0)
        )

    method = library.MuseGlimmerVisionEncoder._make_2d_rope
    table = method(Encoder(), _SIDE, _SIDE, torch.device("cpu"))
    return _on_grid(table.reshape(_SIDE, _SIDE, 32))


def _flux(half: bool = False) -> Implementation:
    import torch
    from torchtitan.models.flux.model import layers

    config = layers.EmbedND.Config(dim=128, theta=10000, axes_dim=(16, 56, 56))
    module = layers.EmbedND(config)

    def apply(x: Any, positions: Any) -> Any:
        rows = positions if positions.ndim > 2 else positions[:, None]
        # FLUX makes float32 coordinates.
        ids = rows.movedim(0, -1).to(torch.bfloat16 if half else torch.float32)
        return layers.apply_rope(x, x, module(ids))[0]

    return _APPLY(apply, tensor_layout="bshd", head_dim=128, axes=3)


def _timestep() -> Implementation:
    from torchtitan.models.flux.model.layers import timestep_embedding

    def table(positions: Any) -> Any:
        return timestep_embedding(positions.float(), 64)

    return Implementation(table, "table", _LIBRARY, backend="torch")
