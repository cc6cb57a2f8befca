"""Identify biases that are curved in the distance: both forms of KERPLE, and Sandwich."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from posenc_ref import Bias, Kerple, Sandwich
from posenc_ref.conformance.bias.cases import Ruler

#: Values of Sandwich's ``dim`` to try.
_WIDTHS = (*range(2, 514, 2), 768, 1024)
#: The number of Gauss-Newton steps.
_STEPS = 40
#: A function of the parameter r2, with a value for every distance.
Function = Callable[[float], np.ndarray]


def curve(
    r: np.ndarray, values: np.ndarray, terms: np.ndarray, causal: bool, ruler: Ruler
) -> Bias | None:
    """Return the bias that equals ``values`` (H, n) at distances r, relative to distance 0."""
    d = r.astype(np.float64)
    for found in (*_kerple(d, values, causal), *_sandwich(d, values, causal)):
        at = np.arange(int(r[-1]) + 1)
        bias = np.asarray(found.bias(at[-1:], at))[:, 0, ::-1][:, r]
        if not ruler.differ(values, bias, terms + np.abs(bias)).any():
            return found
    return None


def _kerple(d: np.ndarray, values: np.ndarray, causal: bool) -> Iterator[Bias]:
    if not (values < 0).all():
        return
    forms: tuple[tuple[str, Function, Function], ...] = (
        ("power", lambda r: d**r, lambda r: d**r * np.log(d)),
        ("log", lambda r: np.log1p(r * d), lambda r: d / (1 + r * d)),
    )
    for form, shape, slope in forms:
        fitted = [_fit(row, shape, slope) for row in -values]
        pairs = [pair for pair in fitted if pair is not None]
        if len(pairs) == len(values) and (form == "log" or max(r for _, r in pairs) <= 2):
            for digits in (6, 17):  # few digits first
                short = np.array([[float(f"{v:.{digits}g}") for v in pair] for pair in pairs])
                yield Kerple(*map(tuple, short.T.tolist()), form=form, causal=causal)


def _fit(y: np.ndarray, shape: Function, slope: Function) -> tuple[float, float] | None:
    """Fit ``log(r1 * shape(r2))`` to ``log(y)``; return r1 and r2, or None if the fit fails."""
    goal = np.log(y)
    starts = np.geomspace(2.0**-12, 2.0**6, 37)
    log = np.log(min(starts, key=lambda r: float(np.std(goal - np.log(shape(r))))))
    for _ in range(_STEPS):
        r = np.exp(log)
        rest = goal - np.log(shape(r))
        # The centred derivative of log(shape) with respect to log(r2).
        change = r * slope(r) / shape(r)
        centred = change - change.mean()
        bottom = float(centred @ centred)
        if not bottom:
            return None
        step = float(centred @ (rest - rest.mean())) / bottom
        log += float(np.clip(step, -1.0, 1.0))
        if not np.isfinite(log) or abs(log) > 50:
            return None
    r = float(np.exp(log))
    return float(np.exp((goal - np.log(shape(r))).mean())), r


def _sandwich(d: np.ndarray, values: np.ndarray, causal: bool) -> Iterator[Bias]:
    """Yield Sandwich with each ``dim`` that gives the first head's bias at two distances."""
    heads = len(values)
    near = [0, min(6, d.size - 1)]
    for dim in _WIDTHS:
        waves = 10000.0 ** (-np.arange(1, dim // 2 + 1) / (dim // 2))
        total = np.cos(d[near, None] * waves).sum(axis=1) - dim // 2
        guess = total * heads / 8
        if (np.abs(guess - values[0, near]) * 2**10 <= np.abs(guess)).all():
            yield Sandwich(heads, dim, causal=causal)
