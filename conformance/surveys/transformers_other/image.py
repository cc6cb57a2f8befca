"""What a model adds to the patches of an image: everything but its table is made zero."""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import Learned
from posenc_ref.conformance.harness.implementation import Implementation

from .build import MissingArgument, build, call, takes, text_of
from .census import Place
from .resized import Resized
from .single_table import entering, keep_only

#: Patches of the image that a table is made for, on each side.
SIDE = 14
#: Settings that a class has to have for its table to be there.
SETTINGS: dict[str, Any] = {
    "use_absolute_position_embeddings": True,
    "use_absolute_embeddings": True,
    "use_abs_pos": True,
    "num_channels": 3,
    "use_mask_token": False,
    "mask_ratio": 0.0,
    "num_patches": SIDE * SIDE,
    "num_windows": 1,
}
#: More rows than these are no image's.
MOST_EXTRA = 8


def is_image(place: Place) -> bool:
    """Whether a table is one of patches, as names and the way it is made tell."""
    names = re.search("Vision|Image|Visual|ViT|Patch|DetModel|Eomt|Videomt", place.owner)
    tokens = re.search("Text|VisualBert|ImageGPT", place.owner)
    return bool(names or "Parameter(" in place.made) and not tokens


class Patches:
    """A class that adds a table to patches, with nothing else left in it."""

    def __init__(self, place: Place) -> None:
        _, config = build(place, SETTINGS)
        patch = _pair(getattr(config, "patch_size", None))
        if patch is None:
            raise MissingArgument(f"{type(config).__name__} has no patch_size")
        image: Any = [SIDE * p for p in patch]
        if not isinstance(getattr(config, "image_size", 0), list | tuple):
            image = image[0]
        self.patch = patch
        self.module, self.config = build(place, {**SETTINGS, "image_size": image})
        table = getattr(self.module, place.attribute)
        table = getattr(table, "weight", table)
        if table is None:
            raise MissingArgument("its table is not there in any configuration that was tried")
        keep_only(self.module, table)
        shape = tuple(table.shape)
        rows = table.detach().numpy().astype(np.float32)
        if table.ndim == 4 and shape[1] != SIDE:  # channels first
            rows = np.moveaxis(rows, 1, -1)
        self.weight = rows.reshape(-1, rows.shape[-1])
        self.after = int(getattr(self.config, "num_detection_tokens", 0) or 0)
        self.side = SIDE
        self.extra = len(self.weight) - self.after - SIDE * SIDE
        if not 0 <= self.extra <= MOST_EXTRA:  # a grid of its own, whatever the image
            self.side = math.isqrt(len(self.weight) - self.after)
            self.extra = len(self.weight) - self.after - self.side**2
        if self.side < 2 or self.extra > MOST_EXTRA:
            raise MissingArgument(f"{len(self.weight)} rows are those of no grid")
        kernels = [p.shape[1] for p in self.module.parameters() if p.ndim == 4 and p is not table]
        self.channels = kernels[0] if kernels else 3
        self.merge = int(getattr(self.config, "spatial_merge_size", 1) or 1)
        text = text_of(place)
        if "spatial_merge_size" not in text:  # the class lists patches row by row
            self.merge = 1
        self.settings = interpolation(text)
        if hasattr(self.config, "interpolate_mode"):
            self.settings["mode"] = self.config.interpolate_mode

    def __call__(self, height: int, width: int) -> np.ndarray:
        """The tokens (S, dim) of an image of so many patches."""
        given = self.given(height, width)
        out = entering(self.module, lambda: call(self.module.forward, given))
        if out.ndim == 4:  # rows and columns apart, channels last or first
            if out.shape[-1] != self.weight.shape[1]:
                out = out.permute(0, 2, 3, 1)
            out = out.reshape(1, -1, out.shape[-1])
        rows = np.array(out.reshape(-1, out.shape[-1]).numpy())
        return rows[self._order(height, width)] if self.merge > 1 else rows

    def given(self, height: int, width: int) -> dict[str, Any]:
        """An image of zeros in every form that a forward may want it in."""
        import torch

        count = height * width
        size = height * self.patch[0], width * self.patch[1]
        grid = torch.tensor([[1, height, width]])
        given: dict[str, Any] = {
            "pixel_values": torch.zeros(1, self.channels, *size),
            "patch_embeds": torch.zeros(1, self.weight.shape[1], height, width),
            "noise": torch.arange(count)[None].float(),  # nothing is shuffled
            "interpolate_pos_encoding": (height, width) != (SIDE, SIDE),
            "patch_attention_mask": torch.ones(1, height, width, dtype=torch.bool),
            "target_sizes": grid[:, 1:].int(),
            "spatial_shapes": grid[:, 1:],
            "grid_thw": grid,
            "embeddings": torch.zeros(count, self.weight.shape[1]),
            "lengths": torch.tensor([count]),
            "image_shapes": grid,
            "h_coords": torch.arange(count).div(width, rounding_mode="floor"),
            "w_coords": torch.arange(count) % width,
        }
        if takes(self.module.forward, "spatial_shapes") or takes(self.module.forward, "grid_thw"):
            weights = [p for n, p in self.module.named_parameters() if "weight" in n and p.ndim > 1]
            kernel = [p for p in weights if len(p) == self.weight.shape[1]]
            flat = kernel[0][0].numel() if kernel else self.weight.shape[1]
            patches = torch.zeros(count, flat)
            given["hidden_states"] = patches
            given["pixel_values"] = (
                patches[None] if takes(self.module.forward, "spatial_shapes") else patches
            )
        return given

    def _order(self, height: int, width: int) -> np.ndarray:
        """Where the patches of a grid are, of which squares are merged later."""
        m = self.merge
        if height % m or width % m:
            raise ValueError(f"patches are merged, {m} x {m} to one")
        at = np.arange(height * width).reshape(height // m, width // m, m, m)
        return np.asarray(at.transpose(0, 2, 1, 3).reshape(-1))

    @functools.cached_property
    def front(self) -> int:
        """Rows before those of the patches that are used: those of a CLS token may not be."""
        try:
            tokens = len(self(SIDE, SIDE))
        except RuntimeError:  # for the judge to find
            return self.extra
        return min(tokens - self.after - SIDE * SIDE, self.extra)

    def grid(self, height: int, width: int) -> np.ndarray:
        """The patches alone."""
        out = self(height, width)
        last = len(out) - self.after
        return out[last - height * width : last]

    def table(self, positions: np.ndarray) -> np.ndarray:
        """Rows by the number of the token, at the size that the table is made for."""
        if np.max(positions, initial=0) >= self.front + SIDE * SIDE:
            raise ValueError("past the last patch")
        out = self(SIDE, SIDE)
        last = len(out) - self.after
        front = self.front
        whole = np.concatenate([out[:front], out[last - SIDE * SIDE : last]])
        return np.asarray(whole[positions])


def subjects(place: Place) -> Iterator[tuple[Implementation, Any]]:
    """The rows of every token at the table's own size, and the patches of other sizes."""
    if place.model in OWN_WAYS:
        raise MissingArgument(OWN_WAYS[place.model])
    found = Patches(place)
    whole = found.weight[: found.extra + found.side**2]
    if found.side == SIDE and not found.settings.get("always"):
        declared = Learned(whole, offset=found.extra - found.front)
        yield Implementation(call=found.table, surface="table", name=place.name), declared
    own = (found.side, found.side)
    resized = Resized(whole[found.extra :], own, **found.settings)
    yield Implementation(call=found.grid, surface="grid", name=place.name), resized


#: Grids that are used in a way that no encoding here has, and what is no grid.
OWN_WAYS = {
    **dict.fromkeys(
        ("muse_glimmer", "muse_spark"),
        "its grid is read at (column, row), as zero where that is outside of it: no resizing of "
        "posenc_ref has such an edge",
    ),
    "mlcd": "angles by which the [CLS] token is rotated: learned, and of no position",
    "tvp": "nothing in its class uses it",
}


def interpolation(text: str) -> dict[str, Any]:
    """How the code of a class resizes its table; nothing where it does not."""
    if re.search("bucketize|nearest_position_ids", text):
        return {"mode": "nearest"}
    method = re.search(r'interpolated_method = "(\w+)"', text)
    if method:
        return {"mode": method.group(1), "always": True}
    mode = re.search(r'interpolation_mode = "(\w+)"', text)
    corners = re.search(r"interpolation_align_corners = (True|False)", text)
    if mode and corners:
        ends = corners.group(1) == "True"
        return {"mode": mode.group(1), "align_corners": ends, "always": True}
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("interpolate"):
            continue
        said = {k.arg: ast.literal_eval(k.value) for k in node.keywords if _literal(k.value)}
        names = ("mode", "antialias", "align_corners")
        settings = {name: said[name] for name in names if said.get(name) is not None}
        return {"mode": "nearest", **settings}
    return {}


def _literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def _pair(size: Any) -> tuple[int, int] | None:
    if isinstance(size, int):
        return size, size
    if isinstance(size, list | tuple) and len(size) == 2:
        return int(size[0]), int(size[1])
    return None
