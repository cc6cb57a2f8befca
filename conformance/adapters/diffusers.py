"""Functions of ``diffusers``: rotary encodings of images and videos, and their tables."""

from __future__ import annotations

from functools import partial
from typing import Any

from posenc_ref import LinearScaling, MultiAxisRoPE, RoPE, Sinusoidal
from posenc_ref.conformance.calling.positions import require_indices
from posenc_ref.conformance.harness.implementation import Implementation

from .library import LibraryFunction, functions_of
from .rotations import row_by_row

LIBRARY = "diffusers"
_EMBEDDINGS = "models/embeddings.py: "
#: The number of positions on every axis of a video.
_SIDE = 1024
_function = functions_of(LIBRARY, "")
_table = partial(Implementation, surface="table", name=LIBRARY, backend="torch")


def functions() -> list[LibraryFunction]:
    """Return the rotary functions of one position axis, those of several axes, and the tables."""
    both = f"{_EMBEDDINGS}get_1d_rotary_pos_embed, apply_rotary_emb"
    return [
        _function("apply_rotary_emb", both, _one, RoPE(64, layout="interleaved"), fast=True),
        _function("apply_rotary_emb, use_real_unbind_dim=-2", both, partial(_one, unbind=-2),
                  RoPE(64, layout="half"), says="with repeat_interleave_real=False (Stable Audio)"),
        _function("apply_rotary_emb, complex", both, partial(_one, real=False),
                  RoPE(64, layout="interleaved"), says="use_real=False (Lumina)"),
        _function("get_1d_rotary_pos_embed, linear_factor", both, partial(_one, linear_factor=4.0),
                  RoPE(64, layout="interleaved", scaling=LinearScaling(4.0))),
        _function("get_1d_rotary_pos_embed, ntk_factor", both, partial(_one, ntk_factor=8.0),
                  RoPE(64, layout="interleaved", base=80000.0),
                  says="ntk_factor multiplies the base; NTK-aware scaling (NTKScaling) multiplies "
                       "the base by factor ** (d / (d - 2))"),
        _function("FLUX", "models/transformers/transformer_flux.py: FluxPosEmbed; "
                  f"{_EMBEDDINGS}apply_rotary_emb", _flux,
                  MultiAxisRoPE(128, sections=(8, 28, 28), layout="interleaved",
                                spacing="restart")),
        _function("Wan", "models/transformers/transformer_wan.py: WanRotaryPosEmbed; "
                  f"{_EMBEDDINGS}apply_rotary_emb", _wan,
                  MultiAxisRoPE(128, sections=(22, 21, 21), layout="interleaved",
                                spacing="restart")),
        _function("CogVideoX", f"{_EMBEDDINGS}get_3d_rotary_pos_embed (grid_type='slice'), "
                  "apply_rotary_emb", _cogvideo,
                  MultiAxisRoPE(64, sections=(8, 12, 12), layout="interleaved", spacing="restart")),
        _function("get_2d_rotary_pos_embed_from_grid", f"{_EMBEDDINGS}"
                  "get_2d_rotary_pos_embed_from_grid, apply_rotary_emb", _two,
                  MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart"),
                  says="position axis 0, called h in the source, is the column of the patch"),
        _function("CogView4",
                  "models/transformers/transformer_cogview4.py: CogView4RotaryPosEmbed; "
                  f"{_EMBEDDINGS}apply_rotary_emb", _cogview,
                  MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="restart")),
        *_tables(),
    ]  # fmt: skip


def _tables() -> list[LibraryFunction]:
    timestep = f"{_EMBEDDINGS}get_timestep_embedding"
    halves = partial(Sinusoidal, 64, layout="concat")
    return [
        _function("get_timestep_embedding", timestep, _timestep, halves(denominator="half-1"),
                  fast=True),
        _function("get_timestep_embedding, as Stable Diffusion", timestep,
                  partial(_timestep, flip_sin_to_cos=True, downscale_freq_shift=0),
                  halves(first="cos")),
        _function("get_timestep_embedding, scale 1000", timestep,
                  partial(_timestep, flip_sin_to_cos=True, downscale_freq_shift=0, scale=1000.0),
                  halves(first="cos", position_scale=1000.0), says="scale multiplies angles"),
        _function("get_1d_sincos_pos_embed_from_grid",
                  f"{_EMBEDDINGS}get_1d_sincos_pos_embed_from_grid", _sincos, halves()),
        _function("SinusoidalPositionalEmbedding", f"{_EMBEDDINGS}SinusoidalPositionalEmbedding",
                  _sinusoidal, Sinusoidal(64)),
    ]  # fmt: skip


def _apply(call: Any, head_dim: int = 64, axes: int = 1) -> Implementation:
    """Adapt a function with (S, D) tables by calling it once per row of the batch."""
    return Implementation(
        row_by_row(call, axes), "apply", LIBRARY, backend="torch", head_dim=head_dim, axes=axes
    )


def _one(unbind: int = -1, real: bool = True, **settings: Any) -> Implementation:
    from diffusers.models.embeddings import apply_rotary_emb, get_1d_rotary_pos_embed

    def call(x: Any, positions: Any) -> Any:
        table = get_1d_rotary_pos_embed(
            64, positions, use_real=real, repeat_interleave_real=unbind == -1, **settings
        )
        if real:
            return apply_rotary_emb(x, table, use_real_unbind_dim=unbind)
        # Lumina's layout is (B, S, H, D), and its table has a batch axis.
        return apply_rotary_emb(x.transpose(1, 2), table[None], use_real=False).transpose(1, 2)

    return _apply(call)


def _flux() -> Implementation:
    from diffusers.models.embeddings import apply_rotary_emb
    from diffusers.models.transformers.transformer_flux import FluxPosEmbed

    module = FluxPosEmbed(10000, [16, 56, 56])
    return _apply(lambda x, p: apply_rotary_emb(x, module(p.T)), 128, 3)


def _thin(tables: Any, widths: tuple[int, ...]) -> Any:
    """Return a function that rotates vectors, with a table for each of three position axes.

    One table for all combinations of three positions is too large.  ``tables`` returns the
    (cos, sin) of a grid; ``widths`` are the numbers of channels per axis.
    """
    import torch

    sides = ((_SIDE, 1, 1), (1, _SIDE, 1), (1, 1, _SIDE))
    ends = torch.tensor([0, *widths]).cumsum(0).tolist()
    parts = [
        [table.reshape(_SIDE, -1)[:, ends[i] : ends[i + 1]] for table in tables(*side)]
        for i, side in enumerate(sides)
    ]

    def call(x: Any, positions: Any) -> Any:
        from diffusers.models.embeddings import apply_rotary_emb

        require_indices(positions)
        rows = [[table[p] for table in part] for part, p in zip(parts, positions, strict=True)]
        cos, sin = (torch.cat(tables, -1) for tables in zip(*rows, strict=True))
        return apply_rotary_emb(x, (cos, sin))

    return call


def _wan() -> Implementation:
    import torch
    from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed

    module = WanRotaryPosEmbed(128, (1, 1, 1), _SIDE)
    widths = (module.t_dim, module.h_dim, module.w_dim)
    return _apply(_thin(lambda *side: module(torch.zeros(1, 1, *side)), widths), 128, 3)


def _cogvideo() -> Implementation:
    from diffusers.models.embeddings import get_3d_rotary_pos_embed

    def tables(t: int, h: int, w: int) -> Any:
        return get_3d_rotary_pos_embed(64, None, (h, w), t, grid_type="slice", max_size=(h, w))

    return _apply(_thin(tables, (16, 24, 24)), 64, 3)


def _two() -> Implementation:
    from diffusers.models.embeddings import apply_rotary_emb, get_2d_rotary_pos_embed_from_grid

    def call(x: Any, positions: Any) -> Any:
        table = get_2d_rotary_pos_embed_from_grid(64, positions, use_real=True)
        return apply_rotary_emb(x, table)

    return _apply(call, 64, 2)


def _cogview() -> Implementation:
    import torch
    from diffusers.models.embeddings import apply_rotary_emb
    from diffusers.models.transformers.transformer_cogview4 import CogView4RotaryPosEmbed

    side = 160
    tables = CogView4RotaryPosEmbed(64, 1, (side, side))(torch.zeros(1, 1, side, side))

    def call(x: Any, positions: Any) -> Any:
        require_indices(positions)
        row, column = positions
        rows = [table.reshape(side, side, -1)[row, column] for table in tables]
        return apply_rotary_emb(x, rows, use_real_unbind_dim=-2)

    return _apply(call, 64, 2)


def _timestep(**settings: Any) -> Implementation:
    from diffusers.models.embeddings import get_timestep_embedding

    return _table(lambda steps: get_timestep_embedding(steps, 64, **settings))


def _sincos() -> Implementation:
    import torch
    from diffusers.models.embeddings import get_1d_sincos_pos_embed_from_grid

    def rows(positions: Any) -> Any:
        table = get_1d_sincos_pos_embed_from_grid(64, positions.to(torch.float64), output_type="pt")
        return table.to(torch.float32)

    return _table(rows)


def _sinusoidal() -> Implementation:
    import torch
    from diffusers.models.embeddings import SinusoidalPositionalEmbedding

    module = SinusoidalPositionalEmbedding(64, max_seq_length=2048)

    def rows(positions: Any) -> Any:
        require_indices(positions)
        return module(torch.zeros(1, int(positions.max()) + 1, 64))[0][positions]

    return _table(rows)
