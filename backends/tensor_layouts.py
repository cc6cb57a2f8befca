"""Other orders of the axes, as views with heads first and the sequence before the last axis."""

from __future__ import annotations

from typing import Any

from posenc_ref._namespace import Array, namespace

TENSOR_LAYOUTS = ("bhsd", "bshd", "sbhd", "thd", "bs(hd)")


def heads_first(x: Array, layout: str, dim: int, back: Array | None = None) -> Any:
    """``x`` as (B, H, S, D), or (H, S, D) for ``thd``; with ``back``, the way back to its shape."""
    if layout == "bhsd":
        return x
    axes = {"bshd": 4, "sbhd": 4, "thd": 3, "bs(hd)": 3}[layout]
    given = x if back is None else back
    if not hasattr(given, "ndim") or given.ndim != axes:
        raise ValueError(
            f"x must have {axes} axes in tensor_layout {layout!r}, got shape "
            f"{tuple(getattr(given, 'shape', ()))}"
        )
    xp = namespace(x)
    if layout == "bs(hd)":
        if given.shape[-1] % dim:
            raise ValueError(
                f"x's last axis must be a multiple of head_dim = {dim} in tensor_layout "
                f"{layout!r}, got {given.shape[-1]}"
            )
        if back is not None:
            return xp.reshape(xp.moveaxis(x, 1, 2), back.shape)
        return xp.moveaxis(xp.reshape(x, (*x.shape[:-1], x.shape[-1] // dim, dim)), 2, 1)
    if layout == "bshd":
        return xp.moveaxis(x, 1, 2)
    if layout == "thd":
        return xp.moveaxis(x, 0, 1)
    return xp.moveaxis(x, 0, 2) if back is None else xp.moveaxis(x, 2, 0)
