"""RIFLEx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import RIFLEx, RoPE
from posenc_ref.conformance.exact.digits import mpmath
from posenc_ref.conformance.exact.numbers import Number

from . import Change, powers, schedule


def _mistakes(encoding: RoPE) -> Iterator[Change]:
    """Yield RIFLEx with another pair, another part of a period, or in a video that is short."""
    s: Any = encoding.scaling
    plain = encoding.replace(scaling=None).frequencies()
    slowed, k = 2 * np.pi * s.periods / s.length, s.pair - 1

    def with_pair(at: int, frequency: float) -> np.ndarray:
        return np.where(np.arange(plain.size) == at, frequency, plain)

    right = f"Pair {s.pair}, counted from 1, turns by 2 pi * {s.periods:g} / {s.length}."
    if encoding.frequencies()[k] == plain[k]:
        text = f"RIFLEx: pair {s.pair} is changed, although {s.length} frames are within its period"
        remedy = (
            "Change the frequency only in videos that are longer than the period of the pair, or "
            "declare fine_tuned=True."
        )
        yield Change("scaling-formula", text, with_pair(k, slowed), remedy=remedy)
        return
    for other, why in ((s.pair + 1, ": it is counted from 0"), (s.pair - 1, "")):
        text = f"RIFLEx: pair {other} is slowed, counted from 1, declared pair {s.pair}{why}"
        yield Change("scaling-parameter", text, with_pair(other - 1, slowed), remedy=right)
    for periods in (0.9, 1.0):
        yield Change(fields=(("periods", periods),))
    for length in (2 * s.length, round(s.length / 2), 4 * s.length, 4 * s.length - 3):
        text = f"RIFLEx: length is {length}, declared {s.length}"
        predicted = with_pair(k, slowed * s.length / length)
        yield Change("scaling-parameter", text, predicted, remedy=right)
    for text, frequency in (
        ("2 pi is missing from the reduced frequency", slowed / (2 * np.pi)),
        ("the frequency is divided by the number of frames", plain[k] / s.length),
    ):
        yield Change("scaling-formula", f"RIFLEx: {text}", with_pair(k, frequency), remedy=right)


@schedule(
    RIFLEx,
    words="f_k, and 2 pi {s.periods:g} / {s.length} for pair {s.pair}, counted from 1, if its "
    "period is shorter or the model is fine-tuned",
    examples=(RIFLEx(4, 66, periods=0.9), RIFLEx(2, 20, fine_tuned=True)),
    row=(
        "RIFLEx(k, L)",
        "`2π periods / L` for pair k, counted from 1, if L is more than its period or the model is "
        "`fine_tuned`; else `f_k`",
        "1",
        "only on the time axis (`scaled_axes=(0,)` of `MultiAxisRoPE`); `periods` is 1 in the "
        "paper, 0.9 in its code; two ports were corrected by the authors "
        "([HunyuanVideoWrapper#411](https://github.com/kijai/ComfyUI-HunyuanVideoWrapper/pull/411):"
        " all axes; [WanVideoWrapper#94](https://github.com/kijai/ComfyUI-WanVideoWrapper/pull/94):"
        " angles of one frame, not a frequency)",
        "longer videos of HunyuanVideo (k = 4), CogVideoX-5B (k = 2); fine-tuned ones have L = 50 "
        "and L = 20 in every video "
        "([authors' scripts](https://github.com/thu-ml/RIFLEx/blob/main/cogvideox.py))",
    ),
    mistakes=_mistakes,
)
def riflex(s: RIFLEx, base: Any, d: int, seq_len: int | None) -> list[Number]:
    """One wavelength is the length of the video, or a part of it."""
    mp = mpmath().mp
    wavelengths = [2 * mp.pi / w for w in powers(base, d)]
    if s.fine_tuned or s.length > mp.nint(wavelengths[s.pair - 1]):
        wavelengths[s.pair - 1] = mp.mpf(s.length) / mp.mpf(s.periods)
    return [2 * mp.pi / x for x in wavelengths]
