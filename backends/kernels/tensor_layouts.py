"""View tensors of any axis order as (batch, heads, sequence, channels)."""

from __future__ import annotations

from typing import Any

from posenc_ref._namespace import Array, namespace

TENSOR_LAYOUTS = ("bhsd", "bshd", "sbhd", "thd", "bs(hd)")


def heads_first(x: Array, layout: str, dim: int, back: Array | None = None) -> Any:
    """Return ``x`` viewed as (B, H, S, D), or as (H, S, D) for the layout ``thd``.

    With ``back``, an array in ``layout``, do the reverse: return x (B, H, S, D), or (H, S, D),
    viewed in ``layout`` with the shape of ``back``.
    """
    if layout == "bhsd":
        return x
    axes = {"bshd": 4, "sbhd": 4, "thd": 3, "bs(hd)": 3}[layout]
    given = x if back is None else back
    if not hasattr(given, "ndim") or given.ndim != axes:
        raise ValueError(
            f"x must have {axes} axes in tensor_layout {layout!r}, got shape "
            f"{tuple(getattr(given, 'shape', ()))}"
        )
    if layout == "bs(hd)":
        if given.shape[-1] % dim:
            raise ValueError(
                f"x's last axis must be a multiple of head_dim = {dim} in tensor_layout "
                f"{layout!r}, got {given.shape[-1]}"
            )
        if back is not None:
            return _reshaped(_moved(x, 1, 2), back.shape)
        return _moved(_reshaped(x, (*x.shape[:-1], x.shape[-1] // dim, dim)), 2, 1)
    if layout == "bshd":
        return _moved(x, 1, 2)
    if layout == "thd":
        return _moved(x, 0, 1)
    return _moved(x, 0, 2) if back is None else _moved(x, 2, 0)


def _moved(x: Array, start: int, goal: int) -> Any:
    # torch.compile cannot trace the look-up of a namespace.
    return (
        x.movedim(start, goal) if hasattr(x, "movedim") else namespace(x).moveaxis(x, start, goal)
    )


def _reshaped(x: Array, shape: tuple[int, ...]) -> Any:
    return x.reshape(shape) if hasattr(x, "movedim") else namespace(x).reshape(x, shape)
