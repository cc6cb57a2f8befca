"""Judge of ``scores``: logits of queries and keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import Bias, Learned, ModelEncoding, Score
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.bias.cases import span
from posenc_ref.conformance.bias.diagnose_other import large_constants
from posenc_ref.conformance.diagnosis.match import fits, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.scores import Scored

from . import judge_terms
from .drive import Size, drive, inputs, past_the_end
from .mistakes import logit_mistakes

#: Channels of q and k where the encoding does not say.
_DIM = 64
#: Calls with more logits have a batch of one.
_MANY = 2**20


def judge(run: Run) -> None:
    """Judge ``fn(q, k)``: logits (B, H, Q, K) of queries at the end of the keys."""
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


def _explain(run: Run, calls: list[JudgedCall]) -> None:
    if all(fits(run, one, _beside_constants(one)) for one in calls):
        large_constants(run, [(one.case, one.facts.constant) for one in calls])
        return
    match(run, calls, logit_mistakes(calls[0].facts.encoding))


def _beside_constants(one: JudgedCall) -> Truth | None:
    """The reference to the rounding of the result, where rows count up to a constant."""
    constant, t = one.facts.constant, one.truth
    return None if constant is None else Truth(t.value, t.terms + np.abs(constant), t.angle)
