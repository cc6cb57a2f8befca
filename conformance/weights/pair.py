"""One tensor in two checkpoints, and whether all tensors of two checkpoints tell the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .heads import Model
from .rows import Order


@dataclass(frozen=True)
class Pair:
    """One tensor in both checkpoints.

    Parameters
    ----------
    stack : str
        The prefix of the names, such as "mtp."; "" for the main stack of layers.
    role : str
        "q", "k", "latent", "qkv", "q_norm" or "k_norm".
    part : str
        "weight" or "bias".
    layer : int, optional
    names : tuple of str
        The names in the two checkpoints.
    order : Order, optional
        How the rows of the second are ordered in the first; None if they differ.
    rounded : str
        The dtype to whose rounding they agree; "" if they are equal.
    difference : float
        The largest difference of two elements in the same place.
    """

    stack: str
    role: str
    part: str
    layer: int | None
    names: tuple[str, str]
    order: Order | None
    rounded: str
    difference: float

    @property
    def said(self) -> str:
        """The result in words."""
        if self.order is None:
            return f"neither: the largest difference is {self.difference:.3g}"
        within = f" (within the rounding of {self.rounded})" if self.rounded else ""
        return f"{self.order}{within}"


def problem_of(
    pairs: list[Pair],
    missing: Mapping[str, str],
    layouts: tuple[str, str] | None,
    model: Model | None,
) -> str:
    """Return why b is not a up to one change of layout, or ""."""
    first = next((p for p in pairs if p.order is None or p.order.kind == "reordered"), None)
    if first is not None:
        return f"{first.names[1]}: {first.said.removeprefix('neither: ')}"
    if missing:
        return f"{len(missing)} query or key tensors are only in one of them"
    turned = [p for p in pairs if p.order is not None and not _still(p, model)]
    for pair in turned:
        wrong = _unlike(pair, turned[0], model)
        if wrong:
            return f"{pair.names[1]}: {wrong}"
    wanted = layouts and ("same" if layouts[0] == layouts[1] else "permuted")
    found = turned[0].order if turned else None
    if wanted and found is not None and found.kind != wanted:
        return f"they are {found.kind}, expected {_said(layouts)}"
    if layouts and found is not None and wanted == "permuted" and _way(found) not in (layouts, ()):
        return (
            f"they are converted from {found.source} to {found.target}, expected {_said(layouts)}"
        )
    return ""


def _said(layouts: tuple[str, str] | None) -> str:
    return " to ".join(layouts or ())


def _still(pair: Pair, model: Model | None) -> bool:
    """Return whether the configuration says that queries and keys of the layer do not rotate."""
    return model is not None and model.at(pair.layer) is None


def _way(order: Order) -> tuple[str, ...]:
    """Return the layouts before and after; () if the change is its own inverse."""
    return () if order.rotary_dim == 4 else (order.source, order.target)


def _unlike(pair: Pair, first: Pair, model: Model | None) -> str:
    """Return how the order of a tensor differs from that of the first one, or from the model's."""
    order, other = pair.order, first.order
    assert order is not None
    assert other is not None
    if order.kind != other.kind or (_way(order) and _way(other) and _way(order) != _way(other)):
        own = model is not None or pair.layer == first.layer
        hint = "" if own else " (if not all layers of this model rotate, pass --config)"
        return f"{pair.said}, but {first.names[1]}: {first.said}{hint}"
    if order.kind == "same":
        return ""
    if model is None:
        latent = "latent" in (pair.role, first.role)
        same = order.rotary_dim == other.rotary_dim and (latent or order.dim == other.dim)
        return "" if same else (
            f"{order}, but {first.names[1]}: heads of {other.dim}. One was permuted with a wrong "
            "number of heads; if heads differ in this model, pass --config"
        )  # fmt: skip
    heads = model.at(pair.layer)
    if heads is None or pair.role in ("latent", "qkv"):
        return ""
    dim = heads.dim * (2 if model.gated and pair.role == "q" else 1)
    right = (dim, heads.rotary_dim, heads.rotary_start)
    if (order.dim, order.rotary_dim, order.rotary_start) == right:
        return ""
    return f"{pair.said}, but the configuration states {heads}"
