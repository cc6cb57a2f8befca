"""Rotary encodings: the frequencies of every pair, in radians per position on each axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posenc_ref import MixedRoPE, MultiAxisRoPE, RIFLEx, RoPE, XPos, YaRN
from posenc_ref.conformance.exact.digits import mpmath
from posenc_ref.conformance.exact.numbers import Number
from posenc_ref.conformance.exact.recipe import Recipe, rotated, whole
from posenc_ref.conformance.exact.schedules import frequencies

from . import numbers, register

Weights = Sequence[dict[int, Number]]


@register(
    RoPE,
    spec="Su et al. 2021, RoFormer, arXiv:2104.09864, section 3.4.2, equations (15) and (34)",
    examples={
        "rope-128-half": RoPE(128, layout="half"),
        "rope-64-interleaved-500k": RoPE(64, layout="interleaved", base=500000.0),
        "rope-64-interleaved-reversed": RoPE(64, layout="interleaved", sign=-1),
        "rope-128-half-yarn-first-64": RoPE(
            128, layout="half", rotary_dim=64, scaling=YaRN(8.0, 8192)
        ),
        "rope-192-interleaved-last-64-to-half": RoPE(
            192, layout="interleaved", rotary_dim=64, rotary_start=128, output_layout="half"
        ),
    },
)
def rope(e: RoPE, seq_len: int | None) -> Weights:
    """Return the frequency of each pair of the rotated channels."""
    d = e.rotary_dim or e.head_dim
    return [{0: w} for w in frequencies(e.scaling, e.base, d, seq_len)]


def until_the_decay(e: XPos, kind: str = "queries") -> tuple[Recipe, ...]:
    """Return cases with positions at which float16 can hold the decay of ``e``."""
    ident = f"xpos-16-{e.layout}-{kind}"
    return (
        rotated(ident, "first", "The first four positions.", 16, whole(0, 1, 2, 3)),
        rotated(ident, "far", "Positions with a strong decay.", 16, whole(511, 1024, 3071)),
    )


@register(
    XPos,
    spec="Sun et al. 2022, xPos, arXiv:2212.10554, section 3.2, equation (12) and algorithm 1",
    examples={
        f"xpos-16-{layout}-queries": XPos(16, layout=layout) for layout in ("interleaved", "half")
    },
    inputs=until_the_decay,
)
def xpos(e: XPos, seq_len: int | None) -> Weights:
    """Return RoPE's frequencies."""
    return [{0: w} for w in frequencies(None, e.base, e.head_dim, seq_len)]


@register(
    MixedRoPE,
    spec="Heo et al. 2024, arXiv:2403.13298, section 3.3, equation (14)",
    examples={
        "rope-mixed-16": MixedRoPE(
            16,
            np.stack([numbers(f"rope-mixed-{axis}", 8) for axis in "xy"]).astype(np.float64) / 4,
            layout="interleaved",
        ),
        "rope-mixed-fractional": MixedRoPE.fractional(16, base=64.0),
    },
)
def mixed(e: MixedRoPE, seq_len: int | None) -> Weights:
    """Return the learned frequencies of each pair on every axis."""
    return [{a: mpmath().mp.mpf(w) for a, w in enumerate(column)} for column in e.weight.T.tolist()]


@register(
    MultiAxisRoPE,
    spec="Wang et al. 2024, Qwen2-VL, arXiv:2409.12191, section 2.1; transformers, qwen2_vl",
    examples={
        "mrope-128-chunked": MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6),
        "axial-64-strided": MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="strided"),
        "axial-96-scaled-positions": MultiAxisRoPE(
            96, sections=(16, 16, 16), layout="blockwise", spacing="restart",
            position_scale=(1.0, 0.5, 0.5),
        ),
        "axial-32-riflex": MultiAxisRoPE(
            32, sections=(4, 6, 6), layout="interleaved", spacing="restart", base=256.0,
            scaling=RIFLEx(2, 66, periods=0.875), scaled_axes=(0,),
        ),
    },
)  # fmt: skip
def multi_axis(e: MultiAxisRoPE, seq_len: int | None) -> Weights:
    """Return the frequency of each pair on its axis, according to ``spacing``."""
    count, total = len(e.sections), sum(e.sections)
    bases = e.base if isinstance(e.base, tuple) else (e.base,) * count
    scale = e.position_scale
    scales = scale if isinstance(scale, tuple) else (scale,) * count
    pairs = e.sections if e.spacing == "restart" else (total,) * count
    speeds = []
    for a, (b, n) in enumerate(zip(bases, pairs, strict=True)):
        changed = e.scaled_axes is None or a in e.scaled_axes
        speeds.append(frequencies(e.scaling if changed else None, b, 2 * n, seq_len))
    seen, weights = [0] * count, []
    for j, a in enumerate(_axes(e)):
        i, seen[a] = seen[a], seen[a] + 1
        k = {"global": j, "restart": i, "strided": count * i + a}[e.spacing]
        weights.append({a: speeds[a][k] * mpmath().mp.mpf(scales[a])})
    return weights


def _axes(e: MultiAxisRoPE) -> Sequence[int]:
    """Return the axis of every pair."""
    if e.arrangement == "chunked":
        return [a for a, n in enumerate(e.sections) for _ in range(n)]
    if e.arrangement == "interleaved":
        count = len(e.sections)
        taken = {a + count * i: a for a, n in enumerate(e.sections) if a for i in range(n)}
        return [taken.get(j, 0) for j in range(sum(e.sections))]
    return [int(a) for a in e.arrangement]
