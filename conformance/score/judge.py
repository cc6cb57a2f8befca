"""Judge of ``scores``: logits of queries and keys, whatever the encoding does to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Bias, Learned, ModelEncoding, Rotary, Score
from posenc_ref.accuracy import ROUNDOFF, Truth
from posenc_ref.conformance.bias.cases import span
from posenc_ref.conformance.bias.diagnose_other import large_constants
from posenc_ref.conformance.diagnosis import match as suspects
from posenc_ref.conformance.diagnosis.match import Seen
from posenc_ref.conformance.functions.models import scale_mistakes
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.scores import Scored

from . import judge_terms
from .bias_mistakes import Variant
from .drive import Size, columns, drive, inputs, past_the_end, to_fit
from .mistakes import variants

#: Channels of q and k where the encoding does not say.
_DIM = 64
#: One row of a batch is enough where it has more logits.
_MANY = 2**20


def judge(run: Run) -> None:
    """``fn(q, k)``: logits (B, H, Q, K); queries stand at the end of the keys."""
    if isinstance(run.encoding, Score):
        judge_terms.judge(run)
    else:
        drive(run, _input, _explain)


def _input(run: Run, size: Size) -> Scored | None:
    """Queries and keys of a size that the encoding has room for."""
    declared: Any = run.encoding
    b, h, n_q, n_k = size
    model = declared if isinstance(declared, ModelEncoding) else None
    encoding = declared if model is None else _only(model)
    if isinstance(encoding, Bias):
        h = encoding.num_heads
    if isinstance(encoding, Learned) and n_k > encoding.rows - max(encoding.offset, 0):
        return None
    if (one := span(run, encoding)) is not None:
        if b == 1 and (one.whole or n_q == n_k):  # two batches of the whole are enough
            return None
        square = one.whole or n_q == n_k
        n_k = one.square if square else one.tokens
        n_q = n_k if square else min(n_q, n_k)
        if n_k == 0:
            return None
        b = b if h * n_q * n_k <= _MANY else 1
    if past_the_end(run, n_k):
        return None
    d = getattr(encoding, "head_dim", None) or getattr(encoding, "dim", None)
    d = d or run.settings.head_dim or _DIM
    q, k = inputs(run, h, (n_q, n_k), b, d)
    scale = d**-0.5 if not isinstance(encoding, Bias) else encoding.own_scale(d)
    factor = None
    if model is not None:
        scale = scale if model.softmax_scale is None else model.softmax_scale
        query_scale = next(iter(model.query_scale.values()), None)
        if query_scale is not None:
            factor = np.asarray(query_scale.factor(np.arange(n_k - n_q, n_k)))
    return Scored(encoding, q, k, scale, factor)


def _only(model: ModelEncoding) -> Any:
    """The one encoding of a model; None where no layer has one."""
    every = list(model.encodings.values())
    return None if all(e is None for e in every) else model.only


@dataclass(frozen=True)
class _Fit:
    """A variant with the factors on its product and its bias."""

    variant: Variant
    dot: float
    bias: float


def _explain(run: Run, seen: list[Seen]) -> None:
    """The first variant that meets all logits, as it is; else with fitted factors."""
    wrong = suspects.failed(run, seen)
    if all(suspects.fits(run, one, _beside_constants(one)) for one in seen):
        large_constants(run, [(one.case, one.facts.constant) for one in seen])
        return
    every = list(variants(seen[0].facts.encoding))
    exact = (_Fit(v, 1.0, 1.0) for v in every)
    small = to_fit(wrong)
    fitted = (_fitted(v, small) for v in every)
    for fit in (*exact, *fitted):
        if fit is not None and all(_meets(run, fit, one) for one in seen):
            _report(run, fit, wrong[0])
            return


def _beside_constants(one: Seen) -> Truth | None:
    """The truth to the rounding of what came out, where rows count up to a constant."""
    constant, t = one.facts.constant, one.truth
    return None if constant is None else Truth(t.value, t.terms + np.abs(constant), t.angle)


def _truth(fit: _Fit, one: Seen) -> Truth | None:
    try:
        call = fit.variant.change(one.facts)
        if call is None:
            return None
        return call.sum(fit.dot, fit.bias, fit.variant.bias(call), one.facts)
    except ValueError:  # positions that a table does not have
        return None


def _meets(run: Run, fit: _Fit, one: Seen) -> bool:
    truth = _truth(fit, one)
    return truth is not None and suspects.fits(run, one, truth)


def _fitted(variant: Variant, one: Seen) -> _Fit | None:
    """The two factors, by least squares over the logits of one call."""
    product, bias = _truth(_Fit(variant, 1.0, 0.0), one), _truth(_Fit(variant, 0.0, 1.0), one)
    if product is None or bias is None:
        return None
    parts = [product, bias] if bias.value.any() else [product]
    found = columns(one, parts)
    if found is None:
        return None
    return _Fit(variant, float(found[0]), float(found[1]) if len(parts) > 1 else 1.0)


def _report(run: Run, fit: _Fit, one: Seen) -> None:
    evidence = f"{one.case}; with this put into the declaration, all logits agree"
    if fit.variant.code:
        run.add(fit.variant.code, fit.variant.message, evidence, remedy=fit.variant.remedy)
    call: Scored = one.facts
    slack = run.budget * ROUNDOFF[run.coarse]
    if abs(fit.bias - 1.0) > slack:
        _bias_factor(run, fit.bias, call, evidence, slack)
    if abs(fit.dot - 1.0) > slack:
        _dot_factor(run, fit.dot, call, evidence, slack)


def _bias_factor(run: Run, factor: float, call: Scored, evidence: str, slack: float) -> None:
    code, text = "bias-scale", f"the bias is multiplied by {factor:.6g}"
    d = call.q.shape[-1]
    if abs(factor + 1.0) <= slack:
        code, text = "bias-sign", "the bias is subtracted: distance is rewarded"
    elif abs(factor) <= slack:
        code, text = "bias-missing", "the bias is missing"
    elif abs(factor - d**-0.5) <= slack:
        text = f"the bias is inside the scale: divided by sqrt({d})"
    elif abs(factor - d**0.5) <= slack * d**0.5:
        text = f"the bias is multiplied by sqrt({d})"
    values = {"declared": 1.0, "measured": factor}
    run.add(code, text, evidence, values=values)


def _dot_factor(run: Run, factor: float, call: Scored, evidence: str, slack: float) -> None:
    """Name the factor on the product: of the scale, or of cos and sin."""
    d = call.q.shape[-1]
    m = 1.0
    if isinstance(call.encoding, Rotary):
        m = call.encoding.attention_factor(call.k.shape[2])
    named = {
        1 / call.scale: ("softmax-scale", "logits are not scaled at all"),
        d**-0.5: ("softmax-scale", f"logits are divided by sqrt({d}) once too often"),
        d**0.5: ("softmax-scale", f"logits are not divided by sqrt({d})"),
        d ** (-0.5) / call.scale: ("softmax-scale", f"logits are scaled by 1/sqrt({d})"),
        call.scale: ("softmax-scale", "logits are scaled twice"),
    }
    if m != 1.0:
        text = f"the attention factor m = {m:.6g}"
        named |= {
            m**-2: ("attention-factor", f"{text} is missing"),
            1 / m: (
                "attention-factor",
                f"{text} is on queries or keys alone: logits get m, not m squared",
            ),
            m: ("attention-factor", f"{text} comes in three times"),
            m**2: ("attention-factor", f"{text} is applied twice"),
        }
    if isinstance(run.encoding, ModelEncoding) and call.encoding is not None:
        for mistake in scale_mistakes(run.encoding):
            value = float(mistake.function()) / call.scale
            named.setdefault(value, (mistake.code, f"the scale of logits: {mistake.message}"))
    near = [told for value, told in named.items() if abs(factor / value - 1) <= slack]
    whole = factor * call.scale
    code, text = near[0] if near else ("softmax-scale", f"logits are multiplied by {whole:.6g}")
    run.add(
        code,
        f"{text}, declared {call.scale:.6g}" if not near else text,
        evidence,
        values={"declared": call.scale, "measured": whole},
    )
