"""Judge of ``scores`` for encodings whose logits are a sum of terms."""

from __future__ import annotations

from itertools import chain

import numpy as np

from posenc_ref import Score
from posenc_ref.accuracy import ROUNDOFF, Truth
from posenc_ref.conformance.diagnosis import match as suspects
from posenc_ref.conformance.diagnosis.match import Seen
from posenc_ref.conformance.harness.run import Run

from .drive import Size, columns, drive, inputs, past_the_end, to_fit
from .encoding_mistakes import suspicions
from .espnet_table import table_length
from .term_mistakes import Call, Change, total


def judge(run: Run) -> None:
    """``fn(q, k)``: logits (B, H, Q, K); queries stand at the end of the keys."""
    drive(run, _input, _explain)


def _input(run: Run, size: Size) -> Call | None:
    """Queries and keys of a size that the encoding has room for."""
    encoding: Score = run.encoding
    b, h, n_q, n_k = size
    h, d = encoding.heads or h, encoding.head_dim
    whole = encoding.rows
    if whole is not None and n_k > whole:
        if n_q != n_k or n_k <= whole + 1:
            return None
        n_q = n_k = whole
    if past_the_end(run, n_k):
        return None
    q, k = inputs(run, h, (n_q, n_k), b, d)
    return Call(encoding, q, k, encoding.own_scale(d))


def _explain(run: Run, seen: list[Seen]) -> None:
    """The first change that meets all logits, as it is; else with a factor for every term."""
    wrong, declared = suspects.failed(run, seen), seen[0].facts.encoding
    every = list(suspicions(declared))
    for change in chain(every, table_length(declared, seen)):
        if change.code and all(_meets(run, change, {}, one) for one in seen):
            _report(run, change, {}, wrong[0])
            return
    small = to_fit(seen)
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
    found = columns(one, list(terms.values()))
    if found is None:
        return None
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
