"""Fit factors on the parts of logits by least squares, and diagnose them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from posenc_ref import ModelEncoding, Rotary, Score
from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.bias.diagnose_other import factor_on_bias
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.functions.models.scale import scales
from posenc_ref.conformance.harness.plural import rooted
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.scores import Parts, Scored

#: Factors are fitted to a call with at least this many logits, if there is one.
_FEW = 100
#: The code, message, values and remedy of a finding.
Named = tuple[str, str, dict[str, object], str]


def to_fit(calls: Sequence[JudgedCall]) -> JudgedCall:
    """Return the smallest call with enough logits to fit factors, or else the last call."""
    enough = [one for one in calls if one.actual.size >= _FEW]
    return min(enough, key=lambda one: one.actual.size) if enough else calls[-1]


def fitted(one: JudgedCall, parts: Parts) -> dict[str, float]:
    """Return the factor on each part, fitted to the logits of one call by least squares."""
    mask = np.broadcast_to(True if one.mask is None else one.mask, one.actual.shape)
    if not np.isfinite(one.actual[mask]).all():
        return {}
    values = {name: one.facts.total({name: t}, {}).value for name, t in parts.items()}
    if not values.get("bias", np.ones(1)).any():  # any factor fits a bias of 0
        del values["bias"]
    each = np.stack([np.broadcast_to(v, mask.shape)[mask] for v in values.values()], axis=1)
    if not np.isfinite(each).all():
        return {}
    found = np.linalg.lstsq(each, one.actual[mask], rcond=None)[0]
    return dict(zip(values, map(float, found), strict=True))


def named(run: Run, factors: dict[str, float], call: Scored) -> Iterator[Named]:
    """Yield findings that explain the factors on the parts of logits."""
    if isinstance(call.encoding, Score):
        return of_terms(run, factors, call.scale, call.q.shape[-1])
    bias = factor_on_bias(run, factors.get("bias", 1.0), call.q.shape[-1])
    return chain(bias, of_product(run, factors["q.k"], call))


def slack(run: Run) -> float:
    """Return the largest deviation of a fitted factor that rounding can cause."""
    return run.budget * ROUNDOFF[run.coarse]


def of_terms(
    run: Run, factors: dict[str, float], own_scale: float, head_dim: int
) -> Iterator[Named]:
    """Yield a finding for a common factor on all terms of a score, or for several factors."""
    near = slack(run)
    off = {name: c for name, c in factors.items() if abs(c - 1.0) > near}
    if not off:
        return
    common = float(np.mean(list(factors.values())))
    if any(abs(c - common) > near * max(abs(common), 1.0) for c in factors.values()):
        words = [f"the term {name} {_said(c, near)}" for name, c in off.items()]
        remedy = " ".join(
            f"Multiply the term {name} by the scale {rooted(own_scale, near)} one time less."
            if abs(c - own_scale) <= near
            else _undone(f"the term {name}", c, near)
            for name, c in off.items()
        )
        yield "score-term", "; ".join(words), {"declared": 1.0, "measured": off}, remedy
        return
    whole = common * own_scale
    text = f"logits are multiplied by {rooted(whole, near)}, declared {rooted(own_scale, near)}"
    if abs(whole - head_dim**-0.5) <= near:
        text = f"logits are divided by sqrt({head_dim}), not by sqrt({head_dim} * number of terms)"
    elif abs(whole - 1.0) <= near * max(whole, 1.0):
        text = "logits are not scaled at all"
    remedy = f"Scale all terms by {rooted(own_scale, near)}, in place of {rooted(whole, near)}."
    yield "softmax-scale", text, {"declared": own_scale, "measured": whole}, remedy


def _undone(what: str, factor: float, near: float) -> str:
    """Return what to do about a factor."""
    if abs(factor) <= near:
        return f"Add {what}."
    if abs(factor + 1.0) <= near:
        return f"Add {what}; do not subtract it."
    return f"Divide {what} by {rooted(factor, near)}."


def _said(factor: float, near: float) -> str:
    if abs(factor) <= near:
        return "is missing"
    if abs(factor + 1.0) <= near:
        return "is subtracted"
    return f"is multiplied by {rooted(factor, near)}"


def of_product(run: Run, factor: float, call: Scored) -> Iterator[Named]:
    """Yield a finding for the factor on ``q . k``: a softmax scale or an attention factor."""
    near = slack(run)
    if abs(factor - 1.0) <= near:
        return
    whole = factor * call.scale
    known = _known_factors(run, call).items()
    code, text = next(
        (named for value, named in known if abs(factor / value - 1) <= near),
        (
            "softmax-scale",
            f"logits are multiplied by {rooted(whole, near)}, declared {rooted(call.scale, near)}",
        ),
    )
    remedy = f"Scale q . k by {rooted(call.scale, near)}, in place of {rooted(whole, near)}."
    if call.scale == 1.0:
        remedy = "Do not scale q . k: the declared scale is 1."
    if code == "attention-factor":
        m = call.encoding.attention_factor(call.k.shape[2])
        remedy = f"Multiply queries and keys by m = {m:.6g} once each, which gives m squared."
    yield code, text, {"declared": call.scale, "measured": whole}, remedy


def _known_factors(run: Run, call: Scored) -> dict[float, tuple[str, str]]:
    d, m = call.q.shape[-1], 1.0
    if isinstance(call.encoding, Rotary):
        m = call.encoding.attention_factor(call.k.shape[2])
    known = {
        1 / call.scale: ("softmax-scale", "logits are not scaled at all"),
        d**-0.5: ("softmax-scale", f"logits are divided by sqrt({d}) once too often"),
        d**0.5: ("softmax-scale", f"logits are not divided by sqrt({d})"),
        d**-0.5 / call.scale: ("softmax-scale", f"logits are scaled by 1/sqrt({d})"),
        call.scale: ("softmax-scale", "logits are scaled twice"),
    }
    if m != 1.0:
        for value, said in (
            (m**-2, "is missing"),
            (
                1 / m,
                "is applied to queries or keys only: logits are multiplied by m, not m squared",
            ),
            (m, "is applied three times"),
            (m**2, "is applied twice"),
        ):
            known[value] = ("attention-factor", f"the attention factor m = {m:.6g} {said}")
    if isinstance(run.encoding, ModelEncoding) and call.encoding is not None:
        for message, scale in scales(run.encoding):
            known.setdefault(scale / call.scale, ("softmax-scale", message))
    return known
