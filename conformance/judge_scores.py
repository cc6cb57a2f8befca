"""Judge of ``scores``: logits of queries and keys, whatever the encoding does to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Bias, Learned, ModelEncoding, Rotary, Score
from posenc_ref.accuracy import ROUNDOFF, Truth

from . import judge_terms, state, suspects
from .oracle_scores import Scored
from .plain_models import scale_mistakes
from .probes import dense
from .run import Run
from .subject import Malformed, Refused
from .suspects import Seen
from .suspects_scores import variants
from .suspects_scores_bias import Variant

#: (B, H, Q, K): as many keys as queries first; fewer queries may be refused.
SIZES = ((2, 3, 5, 5), (3, 2, 4, 4), (1, 4, 2, 2), (1, 1, 33, 33))
OPTIONAL = (
    (2, 3, 1, 7),
    (1, 2, 3, 11),
    (1, 1, 1, 1),
    (1, 8, 64, 64),
    (1, 2, 130, 130),
    (1, 1, 1, 256),
    (1, 1, 1, 2050),
)
#: Channels of q and k where the encoding does not say.
_DIM = 64
#: Two factors are fitted to no fewer logits, where there are more.
_FEW = 100
#: Logits below stand for minus infinity.
_MASK = -1e4


def judge(run: Run) -> None:
    """``fn(q, k)``: logits (B, H, Q, K); queries stand at the end of the keys."""
    if isinstance(run.encoding, Score):
        judge_terms.judge(run)
        return
    run.report.required = ("logits", "state")
    run.subject.names = ("q", "k")
    seen: list[Seen] = []
    for required, sizes in ((True, SIZES), (False, OPTIONAL)):
        for size in sizes:
            call = _input(run, size)
            if call is None:
                continue
            case = "B, H, Q, K = " + ", ".join(map(str, (*call.q.shape[:3], call.k.shape[2])))
            try:
                actual = _called(run, call)
            except (Refused, Malformed) as error:
                if not required and isinstance(error, Refused):
                    run.limit(f"{case}: refused ({error})")
                    continue
                code = "raises" if isinstance(error, Refused) else "shape"
                run.add(code, case, str(error))
                return
            if not run.floats_only():
                return
            if call.up_to_constant:
                call = call.replace(constant=call.own(actual))
            one = Seen(case, call.seen(actual), call.truth(), call, _judged(run, call, actual))
            seen.append(suspects.judge_seen(run, "logits", one))
    if not seen:
        return
    first: Scored = seen[0].facts
    state.replay(run, lambda: first.seen(_called(run, first)), seen[0].actual, seen[0].case)
    state.kept_result(
        run, lambda: run.subject.call(first.q, first.k), lambda: run.subject.call(first.k, first.q)
    )
    if run.failures and not run.report.codes:
        run.explain(_explain, seen)


def _input(run: Run, size: tuple[int, int, int, int]) -> Scored | None:
    """Queries and keys of a size that the encoding has room for."""
    declared: Any = run.encoding
    b, h, n_q, n_k = size
    model = declared if isinstance(declared, ModelEncoding) else None
    encoding = declared if model is None else _only(model)
    if isinstance(encoding, Bias):
        h = encoding.num_heads
    if isinstance(encoding, Learned) and n_k > encoding.rows - max(encoding.offset, 0):
        return None
    if (tokens := getattr(encoding, "tokens", None)) is not None:  # a window asks as a whole
        if b == 1:
            return None
        n_q = n_k = tokens
    if run.max_position is not None and n_k > run.max_position + 1:
        return None
    d = getattr(encoding, "head_dim", None) or getattr(encoding, "dim", None)
    d = d or run.head_dim or _DIM
    q = run.subject.rounded(dense((b, h, n_q, d), run.seed + n_q + n_k))
    k = run.subject.rounded(dense((b, h, n_k, d), run.seed + n_q + n_k + 7))
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


def _called(run: Run, call: Scored) -> np.ndarray:
    y = run.subject.array(run.subject.call(call.q, call.k))
    shape = (*call.q.shape[:3], call.k.shape[2])
    if y.shape != shape:
        raise Malformed(f"expected shape (B, H, Q, K) = {shape}, got {y.shape}")
    run.highest = max(run.highest, call.k.shape[2] - 1)
    return y


def _judged(run: Run, call: Scored, actual: np.ndarray) -> np.ndarray | None:
    """Which logits are compared: all, or those of keys up to the query."""
    visible = np.broadcast_to(call.visible, actual.shape)
    if call.causal:
        return visible
    hidden = ~np.isfinite(actual) | (actual < _MASK)
    if hidden.any() and np.array_equal(hidden, ~visible):
        run.limit("logits of keys after the query are masked: the others are judged")
        return visible
    return None


def _size(one: Seen) -> int:
    return one.actual.size


@dataclass(frozen=True)
class _Fit:
    """A variant with the factors on its product and its bias."""

    variant: Variant
    dot: float
    bias: float


def _explain(run: Run, seen: list[Seen]) -> None:
    """The first variant that meets all logits, as it is; else with fitted factors."""
    wrong = suspects.failed(run, seen)
    every = list(variants(seen[0].facts.encoding))
    exact = (_Fit(v, 1.0, 1.0) for v in every)
    small = min((one for one in wrong if one.actual.size >= _FEW), default=wrong[-1], key=_size)
    fitted = (_fitted(v, small) for v in every)
    for fit in (*exact, *fitted):
        if fit is not None and all(_meets(run, fit, one) for one in seen):
            _report(run, fit, wrong[0])
            return


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
    mask = np.broadcast_to(True if one.mask is None else one.mask, one.actual.shape)
    columns = [product.value[mask]]
    if bias.value.any():
        columns.append(bias.value[mask])
    with np.errstate(all="ignore"):
        if not np.isfinite(one.actual[mask]).all():
            return None
        found = np.linalg.lstsq(np.stack(columns, axis=1), one.actual[mask], rcond=None)[0]
    return _Fit(variant, float(found[0]), float(found[1]) if len(columns) > 1 else 1.0)


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
