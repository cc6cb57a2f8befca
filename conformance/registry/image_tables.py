"""Sinusoidal tables with one axis or several (images, videos), and standardized ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc_ref import (
    BoxSine,
    DETRSine,
    Sinusoidal,
    Sinusoidal2D,
    Sinusoidal3D,
    StandardizedSinusoidal,
)
from posenc_ref.conformance.exact.error_numbers import Counted, cos, power, root, sin, total

from . import register

Waves = tuple[list[Any], list[Any]]


def _waves(width: int, base: float, denominator: Any, u: Any, more: int = 0) -> Waves:
    """Return ``width // 2 + more`` sines, and ``width // 2`` cosines, of a position u."""
    pairs = width // 2
    n = {"dim": width / 2, "half-1": pairs - 1}.get(denominator, denominator)
    angles = [Counted(u * power(base, -k, n)) for k in range(pairs + more)]
    return [sin(a) for a in angles], [cos(a) for a in angles[:pairs]]


def _arranged(layout: str, first: str, axes: Sequence[Waves]) -> list[Any]:
    """Return the columns of all axes in the order of ``layout``; ``first`` is "sin" or "cos"."""
    halves = [axis if first == "sin" else axis[::-1] for axis in axes]
    if layout == "grouped":
        return [v for half in (0, 1) for axis in halves for v in axis[half]]
    if layout == "interleaved":
        return [v for axis in halves for pair in zip(*axis, strict=True) for v in pair]
    return [v for axis in halves for half in axis for v in half]


@register(
    Sinusoidal,
    spec="Vaswani et al. 2017, Attention Is All You Need, arXiv:1706.03762, section 3.5",
    examples={
        "sinusoidal-16-half-1": Sinusoidal(
            16, layout="concat", first="cos", denominator="half-1", position_scale=0.5, offset=2
        ),
        "sinusoidal-17-extra-sin": Sinusoidal(17, odd="extra-sin", scale=0.25),
    },
)
def sinusoidal(e: Sinusoidal, p: Any) -> Sequence[Any]:
    """Return sines and cosines of the position; if dim is odd, the last column is a sine or 0."""
    more = int(e.odd == "extra-sin") * (e.dim % 2)
    u = e.position_scale * (p.value + e.offset)
    sines, cosines = _waves(e.dim, e.base, e.denominator, u, more)
    if e.layout == "concat":
        row = sines + cosines if e.first == "sin" else cosines + sines
    else:
        row = _arranged(e.layout, e.first, [(sines[: e.dim // 2], cosines)]) + sines[e.dim // 2 :]
    return [e.scale * v for v in row] + [Counted(0)] * (e.dim - len(row))


@register(
    Sinusoidal2D,
    spec="He et al. 2021, Masked Autoencoders, arXiv:2111.06377; Chen et al. 2021, MoCo v3, "
    "arXiv:2104.02057; their codes",
    examples={
        "sinusoidal2d-16": Sinusoidal2D(16),
        "sinusoidal2d-16-wh-half-1": Sinusoidal2D(
            16, axis_order="wh", layout="interleaved", denominator="half-1", position_scale=0.5
        ),
        "sinusoidal2d-12-grouped": Sinusoidal2D(
            12, layout="grouped", first="cos", base=100.0, offset=1, scale=2.0
        ),
    },
)
def sinusoidal_2d(e: Sinusoidal2D, y: Any, x: Any) -> Sequence[Any]:
    """Return a sinusoidal row whose halves belong to the two axes."""
    by_axis = {"h": y.value, "w": x.value}
    axes = [
        _waves(e.dim // 2, e.base, e.denominator, e.position_scale * (by_axis[axis] + e.offset))
        for axis in e.axis_order
    ]
    return [e.scale * v for v in _arranged(e.layout, e.first, axes)]


@register(
    Sinusoidal3D,
    spec="huggingface/diffusers, models/embeddings.py, get_3d_sincos_pos_embed (CogVideoX)",
    examples={
        "sinusoidal3d-4-6-6": Sinusoidal3D((4, 6, 6)),
        "sinusoidal3d-6-4-8-wth": Sinusoidal3D(
            (6, 4, 8), axis_order="wth", layout="interleaved", first="cos", denominator="half-1"
        ),
    },
)
def sinusoidal_3d(e: Sinusoidal3D, t: Any, y: Any, x: Any) -> Sequence[Any]:
    """Return the sinusoidal rows of time, height and width, which may differ in length."""
    by_axis = dict(zip("thw", zip(e.sections, (t, y, x), strict=True), strict=True))
    axes = [
        _waves(width, e.base, e.denominator, p.value)
        for width, p in (by_axis[axis] for axis in e.axis_order)
    ]
    return _arranged(e.layout, e.first, axes)


@register(
    DETRSine,
    spec="Carion et al. 2020, DETR, arXiv:2005.12872; facebookresearch/detr, "
    "models/position_encoding.py",
    examples={
        "detr-16": DETRSine(16),
        "detr-12-wh": DETRSine(12, base=20.0, width_base=50.0, axis_order="wh"),
    },
)
def detr_sine(e: DETRSine, y: Any, x: Any) -> Sequence[Any]:
    """Return interleaved sines and cosines of the normalised row and column."""
    by_axis = {"h": (y.value, e.base), "w": (x.value, e.width_base or e.base)}
    of = [by_axis[axis] for axis in e.axis_order]
    return _arranged("interleaved", "sin", [_waves(e.dim // 2, base, "dim", p) for p, base in of])


@register(
    BoxSine,
    spec="Meng et al. 2021, Conditional DETR, arXiv:2108.06152; Liu et al. 2022, DAB-DETR, "
    "arXiv:2201.12329; their code, gen_sineembed_for_position",
    examples={
        "boxes-16": BoxSine(16),
        "points-8": BoxSine(8, axes="xy", axis_order="yx", base=20.0, scale=1.0),
    },
)
def box_sine(e: BoxSine, *coordinates: Any) -> Sequence[Any]:
    """Return interleaved sines and cosines of every coordinate, y before x."""
    width, by_axis = e.dim // len(e.axes), dict(zip(e.axes, coordinates, strict=True))
    of = [e.scale * by_axis[axis].value for axis in e.axis_order]
    return _arranged("interleaved", "sin", [_waves(width, e.base, "dim", p) for p in of])


@register(
    StandardizedSinusoidal,
    spec="Nie et al. 2022, PatchTST, arXiv:2211.14730; its code, PositionalEncoding",
    examples={
        "patchtst-8-of-7": StandardizedSinusoidal(8, 7),
        "patchtst-6-of-12": StandardizedSinusoidal(6, 12, divisor=2.0, base=100.0),
    },
)
def standardized(e: StandardizedSinusoidal, p: Any) -> Sequence[Any]:
    """Return the row minus the table's mean, divided by its standard deviation."""
    plain = Sinusoidal(e.dim, base=e.base)
    every = [v for at in range(e.length) for v in sinusoidal(plain, Counted(at))]
    mean = total(every) / len(every)
    squares = sum((v.value - mean.value) ** 2 for v in every)
    by = e.divisor * root(squares / (len(every) - 1))
    return [(v - mean) / by for v in sinusoidal(plain, p)]
