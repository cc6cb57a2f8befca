"""Judge of ``scores`` for encodings whose logits are a sum of terms."""

from __future__ import annotations

import numpy as np

from posenc_ref import Score
from posenc_ref.accuracy import ROUNDOFF, Truth

from . import state, suspects
from .probes import dense
from .run import Run
from .subject import Malformed, Refused
from .suspects import Seen
from .suspects_scored import suspicions
from .suspects_terms import Call, Change, total

#: (B, H, Q, K): as many keys as queries first; fewer queries may be refused.
SIZES = ((2, 3, 5, 5), (3, 2, 4, 4), (1, 4, 2, 2), (1, 1, 33, 33), (1, 2, 150, 150))
OPTIONAL = (
    (2, 3, 1, 7),
    (1, 2, 3, 11),
    (1, 1, 1, 1),
    (1, 2, 64, 64),
    (1, 1, 1, 256),
    (1, 1, 1, 2050),
)
#: Factors are fitted to no fewer logits, where there are more.
_FEW = 100
#: Logits below stand for minus infinity.
_MASK = -1e4


def judge(run: Run) -> None:
    """``fn(q, k)``: logits (B, H, Q, K); queries stand at the end of the keys."""
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
            one = Seen(case, actual, call.truth(), call, _judged(run, call, actual))
            seen.append(suspects.judge_seen(run, "logits", one))
    if not seen:
        return
    first: Call = seen[0].facts
    state.replay(run, lambda: _called(run, first), seen[0].actual, seen[0].case)
    state.kept_result(
        run, lambda: run.subject.call(first.q, first.k), lambda: run.subject.call(first.k, first.q)
    )
    if run.failures and not run.report.codes:
        run.explain(_explain, seen)


def _input(run: Run, size: tuple[int, int, int, int]) -> Call | None:
    """Queries and keys of a size that the encoding has room for."""
    encoding: Score = run.encoding
    b, h, n_q, n_k = size
    h, d = encoding.heads or h, encoding.head_dim
    whole = encoding.rows
    if whole is not None and n_k > whole:
        if n_q != n_k or n_k <= whole + 1:
            return None
        n_q = n_k = whole
    if run.max_position is not None and n_k > run.max_position + 1:
        return None
    q = run.subject.rounded(dense((b, h, n_q, d), run.seed + n_q + n_k))
    k = run.subject.rounded(dense((b, h, n_k, d), run.seed + n_q + n_k + 7))
    return Call(encoding, q, k, encoding.own_scale(d))


def _called(run: Run, call: Call) -> np.ndarray:
    y = run.subject.array(run.subject.call(call.q, call.k))
    shape = (*call.q.shape[:3], call.k.shape[2])
    if y.shape != shape:
        raise Malformed(f"expected shape (B, H, Q, K) = {shape}, got {y.shape}")
    run.highest = max(run.highest, call.k.shape[2] - 1)
    return y


def _judged(run: Run, call: Call, actual: np.ndarray) -> np.ndarray | None:
    """Which logits are compared: all, or those of keys up to the query."""
    q_at, k_at = call.places
    visible = np.broadcast_to(k_at <= q_at, actual.shape)
    if not call.encoding.sees_future:
        return visible
    hidden = ~np.isfinite(actual) | (actual < _MASK)
    if hidden.any() and np.array_equal(hidden, ~visible):
        run.limit("logits of keys after the query are masked: the others are judged")
        return visible
    return None


def _explain(run: Run, seen: list[Seen]) -> None:
    """The first change that meets all logits, as it is; else with a factor for every term."""
    wrong = suspects.failed(run, seen)
    every = list(suspicions(seen[0].facts.encoding))
    for change in every:
        if change.code and all(_meets(run, change, {}, one) for one in seen):
            _report(run, change, {}, wrong[0])
            return
    enough = [one for one in seen if one.actual.size >= _FEW] or seen
    small = min(enough, key=lambda one: one.actual.size)
    for change in every:
        factors = _fitted(change, small)
        if factors is not None and all(_meets(run, change, factors, one) for one in seen):
            _report(run, change, factors, wrong[0])
            return


def _truth(change: Change, factors: dict[str, float], one: Seen) -> Truth | None:
    try:
        return total(change.terms(one.facts), factors)
    except ValueError:  # positions that a table does not have
        return None


def _meets(run: Run, change: Change, factors: dict[str, float], one: Seen) -> bool:
    truth = _truth(change, factors, one)
    return truth is not None and suspects.fits(run, one, truth)


def _fitted(change: Change, one: Seen) -> dict[str, float] | None:
    """A factor for every term, by least squares over the logits of one call."""
    try:
        terms = change.terms(one.facts)
    except ValueError:
        return None
    mask = np.broadcast_to(True if one.mask is None else one.mask, one.actual.shape)
    if not np.isfinite(one.actual[mask]).all():
        return None
    columns = np.stack([t.value[mask] for t in terms.values()], axis=1)
    found = np.linalg.lstsq(columns, one.actual[mask], rcond=None)[0]
    return {name: float(c) for name, c in zip(terms, found, strict=True)}


def _report(run: Run, change: Change, factors: dict[str, float], one: Seen) -> None:
    evidence = f"{one.case}; with this put into the declaration, all logits agree"
    if change.code:
        run.add(change.code, change.message, evidence)
    slack = run.budget * ROUNDOFF[run.coarse]
    off = {name: c for name, c in factors.items() if abs(c - 1.0) > slack}
    if not off:
        return
    call: Call = one.facts
    d = call.q.shape[-1]
    common = float(np.mean(list(factors.values())))
    if all(abs(c - common) <= slack * max(abs(common), 1.0) for c in factors.values()):
        whole = common * call.scale
        text = f"logits are multiplied by {whole:.6g}, declared {call.scale:.6g}"
        if abs(whole - d**-0.5) <= slack:
            text = f"logits are divided by sqrt({d}): the number of terms is left out"
        elif abs(whole - 1.0) <= slack * max(whole, 1.0):
            text = "logits are not scaled at all"
        values = {"declared": call.scale, "measured": whole}
        run.add("softmax-scale", text, evidence, values=values)
        return
    words = [_word(name, c, slack) for name, c in off.items()]
    run.add("score-term", "; ".join(words), evidence, values={"declared": 1.0, "measured": off})


def _word(name: str, factor: float, slack: float) -> str:
    if abs(factor) <= slack:
        return f"the term {name} is missing"
    if abs(factor + 1.0) <= slack:
        return f"the term {name} is subtracted"
    return f"the term {name} is multiplied by {factor:.6g}"
