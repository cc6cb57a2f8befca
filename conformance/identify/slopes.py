"""Identify ALiBi slopes, or other slopes by number of heads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posenc_ref import ALiBi
from posenc_ref.conformance.bias.cases import Ruler, ask
from posenc_ref.conformance.bias.diagnose_slopes import recipe
from posenc_ref.conformance.harness.probes import HEADS
from posenc_ref.conformance.harness.run import Run

from .card import Card, Unidentified, listed, require_finite, require_same
from .fit.measurement import decimals, nice

NO_SLOPES = "no known rule gives the slopes"


def identify(run: Run, card: Card) -> None:
    """Fill in the identity card of ``fn(num_heads) -> (H,)``."""
    ruler = Ruler.of(run)
    got: dict[int, np.ndarray] = {}
    refused: dict[str, list[str]] = {}
    for n in HEADS:
        answer = ask(run.driver, n)
        if answer.values is None:
            refused.setdefault(answer.problem, []).append(str(n))
        elif answer.values.shape != (n,):
            raise Unidentified(f"fn({n}) has shape {answer.values.shape}, not ({n},)")
        else:
            require_finite(answer.values)
            got[n] = answer.values.astype(np.float64)
    card.limits += [f"{', '.join(n)} heads are refused ({why})" for why, n in refused.items()]
    if not got:
        raise Unidentified("the function accepts none of the numbers of heads that were tried")
    # A number of heads that is not a power of two distinguishes more recipes.
    n = max((k for k in got if k <= 12), default=min(got))
    require_same(got[n], ask(run.driver, n).values)
    card.facts["accepted"] = f"{len(got)} of {len(HEADS)} tried numbers of heads, up to {max(got)}"
    card.facts["sign"] = "positive" if (got[n] > 0).all() else "negative, or mixed"
    found = {k: explain(np.abs(m), ruler) for k, m in got.items()}
    for k in sorted(k for k in (n, 12, 16) if k in got):
        card.facts[f"{k} heads"] = found[k][1]
    # One or two slopes match several rules.
    powers = {near for k, (near, _) in found.items() if not k & (k - 1) and k > 2}
    powers = powers or {near for near, _ in found.values()}
    if len(powers) == 1 and None not in powers:
        card.encoding = ALiBi(n, max_bias=powers.pop() or 8.0)
        card.unknown.append("slopes do not show whether the bias applies to later keys (causal)")
    else:
        raise Unidentified(NO_SLOPES)


def explain(m: np.ndarray, ruler: Ruler) -> tuple[float | None, str]:
    """Return the max_bias of the nearest ALiBi (or None), and a description of the rule."""
    n, c = m.size, 1 << (m.size.bit_length() - 1)
    if not (m > 0).all():
        return None, f"heads {np.flatnonzero(m == 0).tolist()} have no slope"
    known = {top: ALiBi(n, max_bias=top).slopes() for top in _tops(m)}
    for top, true in known.items():
        if not ruler.differ(m, true, true).any():
            return top, f"2 ** (-{top:g} h/n)" if n == c else (
                f"the slopes of {c} heads, 2 ** (-{top:g} h/{c}), then every second slope of "
                f"{2 * c} heads, as in the authors' code"
            )
    for top, true in known.items():
        words = recipe(m, true, top, ruler)
        if not words.startswith("no rule"):
            return top, words.replace(
                "the declared slopes", f"the slopes of ALiBi({n}, max_bias={top:g})"
            )
    return None, f"no rule found in {listed(m)}"


def _tops(m: np.ndarray) -> Iterator[float]:
    """Yield candidates for max_bias: 8, then -log2 of one slope, as head c has 2 ** -max_bias."""
    c = 1 << (m.size.bit_length() - 1)
    yield 8.0
    top = float(-np.log2(m[c - 1]))
    if top > 0 and np.isfinite(top):  # in few digits, if the dtype is coarse
        yield from dict.fromkeys((*decimals(top, error=1 / 64), nice(top)))
