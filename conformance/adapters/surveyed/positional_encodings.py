"""The sinusoids of positional-encodings, on one, two and three axes."""

from __future__ import annotations

from functools import partial
from typing import Any

from posenc_ref import Sinusoidal, Sinusoidal2D, Sinusoidal3D
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.calling.positions import require_indices
from posenc_ref.conformance.harness.implementation import Implementation

_LIBRARY = "positional-encodings"
_DIM = 48
#: The most positions on an axis.
_LONGEST = 32768


def functions() -> list[LibraryFunction]:
    """Return every class of ``torch_encodings``, and two ways in which modules are used."""
    function = functions_of(_LIBRARY, "torch_encodings.py: ")
    line, plane = Sinusoidal(_DIM), Sinusoidal2D(_DIM, layout="interleaved")
    space = Sinusoidal3D((16, 16, 16), layout="interleaved")
    permuted = "channels before the axes"
    return [
        function("PositionalEncoding1D", "PositionalEncoding1D", _line, line),
        function("PositionalEncodingPermute1D", "PositionalEncodingPermute1D",
                 partial(_line, permuted=True), line, says=permuted),
        function("PositionalEncoding1D, bfloat16 module", "PositionalEncoding1D",
                 partial(_line, cast=True), line, dtypes=("bfloat16",),
                 says="after module.to(torch.bfloat16), as model.bfloat16() does"),
        function("PositionalEncoding1D, after a call in bfloat16", "PositionalEncoding1D",
                 partial(_line, first="bfloat16"), line,
                 says="cached_penc is returned if its shape is that of the tensor, whatever its "
                      "dtype"),
        function("Summer", "Summer, PositionalEncoding1D", _summer, line),
        function("PositionalEncoding2D", "PositionalEncoding2D", _plane, plane),
        function("PositionalEncodingPermute2D", "PositionalEncodingPermute2D",
                 partial(_plane, permuted=True), plane, says=permuted),
        function("PositionalEncoding3D", "PositionalEncoding3D", _space, space),
        function("PositionalEncodingPermute3D", "PositionalEncodingPermute3D",
                 partial(_space, permuted=True), space, says=permuted),
    ]  # fmt: skip


def _module(axes: int, permuted: bool) -> Any:
    """Return a function of a tensor (1, sizes of the axes, channels), and the module."""
    import torch
    from positional_encodings import torch_encodings

    name = f"PositionalEncoding{'Permute' if permuted else ''}{axes}D"
    module = getattr(torch_encodings, name)(_DIM)

    def rows(*sizes: int, dtype: str = "float32") -> Any:
        empty = torch.zeros(1, *sizes, _DIM, dtype=getattr(torch, dtype))
        found = module(empty.movedim(-1, 1) if permuted else empty)
        return (found.movedim(1, -1) if permuted else found)[0]

    return rows, module


def _line(permuted: bool = False, cast: bool = False, first: str = "") -> Implementation:
    import torch

    rows, module = _module(1, permuted)
    if cast:
        module.to(torch.bfloat16)

    def table(positions: Any) -> Any:
        end = _end(positions)
        if first:
            rows(end, dtype=first)
        return rows(end, dtype="bfloat16" if cast else "float32")[positions]

    return Implementation(table, "table", _LIBRARY, backend="torch")


def _summer() -> Implementation:
    from positional_encodings.torch_encodings import PositionalEncoding1D, Summer

    call = Summer(PositionalEncoding1D(_DIM))
    return Implementation(call, "add", _LIBRARY, backend="torch", head_dim=_DIM)


def _plane(permuted: bool = False) -> Implementation:
    rows, _ = _module(2, permuted)

    def grid(height: int, width: int) -> Any:
        return rows(height, width).reshape(height * width, _DIM)

    return Implementation(grid, "grid", _LIBRARY, backend="torch")


def _space(permuted: bool = False) -> Implementation:
    import torch

    rows, _ = _module(3, permuted)

    def table(positions: Any) -> Any:
        end = _end(positions)
        # The columns of an axis depend on that axis alone: three thin tables have all rows.
        sides = [[end if axis == n else 1 for axis in range(3)] for n in range(3)]
        thin = [rows(*side).reshape(-1, 3, _DIM // 3)[:, n] for n, side in enumerate(sides)]
        return torch.cat([part[at] for part, at in zip(thin, positions, strict=True)], -1)

    return Implementation(table, "table", _LIBRARY, backend="torch", axes=3)


def _end(positions: Any) -> int:
    """Return the number of rows of a table that has ``positions``."""
    require_indices(positions)
    end = int(positions.max()) + 1 if positions.numel() else 1
    if end > _LONGEST:
        raise ValueError(f"positions must be below {_LONGEST}: a call returns all rows from 0 on")
    return end
