"""Mistakes of attention in the mask's value, the padding of tiles, and parts that are merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log
from typing import Any

import numpy as np

from posenc_ref import Attention
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.match import fits
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake, with_value
from posenc_ref.conformance.functions.function import written
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.attention import Attended, attended, attention_of, sum_of_terms
from posenc_ref.conformance.oracle.scores import Scored

from .rounded import shares

#: A code, a message, a change, and what to do about it.
Row = tuple[str, str, Callable[[Attended], Attended], str]
MASK, SOFTMAX, PLACE = "future-keys", "softmax-scale", "wrong-row"
_SIZES = (4, 8, 16, 32, 64, 128, 256, 512)
#: Numbers of parts into which the keys are split.
_PARTS = (2, 3, 4, 8, 16)
#: Decimals to which a measured value of the mask is rounded, if that gives every result.
_DECIMALS = (0, 1, 2, 4)


def tails(of: Attention) -> Iterator[Row]:
    """Yield tiles whose padding counts, parts with equal weights, and queries left at 0."""
    for n in _SIZES if not of.sinks else ():
        yield (
            SOFTMAX,
            f"the padding of the last, incomplete tile of {n} keys has logits 0, which count in "
            "the denominator of the softmax",
            partial(_padded, n=n),
            "Set the logits of the padding to -inf before exp.",
        )
    right = "Weight the output of each part by the sum of its exponentials, at one maximum for all."
    for words, more in ((" that the query sees", False), ("", True)) if not of.sinks else ():
        each = [(f"parts of {n} keys", n, 0) for n in _SIZES]
        each += [(f"{n} parts of the keys", 0, n) for n in _PARTS]
        for parts, size, count in each:
            text = f"the outputs of the {parts}{words} are averaged with equal weights"
            weigh = _Averaged(size, count, more)
            yield SOFTMAX, text, partial(_weighed, weigh=weigh), right
    for n in _SIZES:
        for first, words in ((n, ", if there is a whole one"), (0, "")):
            text = f"queries after the last whole tile of {n} have zeros in the output{words}"
            right = "Round the number of tiles of queries up, and write the last, incomplete one."
            yield PLACE, text, partial(_unwritten, n=n, first=first), right


def _padded(call: Attended, n: int) -> Attended:
    more = -call.seen.shape[1] % n
    if not more:
        return call
    return call.replace(sinks=np.full(call.scored.q.shape[1], log(more)))


def _weighed(call: Attended, weigh: Callable[[np.ndarray], np.ndarray]) -> Attended:
    return call.replace(weigh=weigh)


def _unwritten(call: Attended, n: int, first: int) -> Attended:
    whole = call.seen.shape[0] // n * n

    def moved(x: np.ndarray) -> np.ndarray:
        return np.where((np.arange(x.shape[2]) < (whole or first))[:, None], x, 0.0)

    return call.replace(moved=moved)


@dataclass(frozen=True)
class _Averaged:
    """A softmax of each part of the keys by itself; the outputs are averaged."""

    size: int  #: the number of keys of a part, 0 if ``count`` is given
    count: int  #: the number of parts
    hidden: bool  #: whether parts count of which the query sees no key

    def __call__(self, logits: np.ndarray) -> np.ndarray:
        n = logits.shape[-1]
        cuts = np.arange(self.size, n, self.size) if self.size else self.count
        parts = [p for p in np.array_split(logits, cuts, axis=-1) if p.shape[-1]]
        seen = [np.isfinite(p).any(axis=-1, keepdims=True) | self.hidden for p in parts]
        number: Any = sum(np.asarray(one, np.int64) for one in seen)
        mean: np.ndarray = np.concatenate([shares(p) for p in parts], axis=-1)
        mean /= np.maximum(number, 1)
        return mean


def finite_masks(declared: Any) -> Iterator[Mistake]:
    """Yield masks with a finite number, which is measured on the wrong results."""
    of = attention_of(declared)
    if not of.causal or of.values != "plain":
        return
    for added in (False, True):
        yield Mistake(MASK, "", lambda facts: None, fit=partial(_measured, declared, added))


def _measured(
    declared: Any, added: bool, run: Run, wrong: Sequence[JudgedCall]
) -> Sequence[Mistake]:
    found = [x for one in wrong if (x := _value(declared, added, one)) is not None]
    if not found:
        return []
    c = float(np.median(found))
    tried = (_masked(declared, added, x) for x in [*(round(c, n) for n in _DECIMALS), c])
    return [one for one in tried if all(fits(run, w, one.predict(w.facts)) for w in wrong)][:1]


def _masked(declared: Any, added: bool, c: float) -> Mistake:
    how = "have this number added to their logits" if added else "have this logit"

    def output(*arguments: Any) -> Truth:
        truth = _finite(attended(declared, *arguments), c, added=added).truth()
        assert truth is not None
        return truth

    text = f"the mask is {c:.6g}, not -inf: hidden keys {how} and keep some weight"
    right = "Set the logits of hidden keys to -inf, or to the smallest finite number, before exp."
    return written(MASK, text, output, right)


def near_masks(declared: Any) -> Iterator[Mistake]:
    """Yield masks of finite numbers which are nearer to 0 than the logits of calls far below 0.

    The results of such calls do not tell the numbers apart.
    """
    of = attention_of(declared)
    if of.causal and of.values == "plain":
        for c in (-100.0, -50.0, -200.0):
            text = "the mask is a finite number, not -inf: hidden keys get the weight where the "
            text += "logits of all others are far below 0"
            yield replace(_masked(declared, False, c), message=text)


def _finite(call: Attended, c: float, *, added: bool) -> Attended:
    seen = call.seen

    def logits(one: Scored) -> Truth:
        truth = sum_of_terms(one)
        return with_value(truth, np.where(seen, truth.value, truth.value * added + c))

    return call.replace(logits=logits, seen=np.ones_like(seen))


def _value(declared: Any, added: bool, one: JudgedCall) -> float | None:
    """Return the logit of hidden keys that gives the output of a call, or None.

    The output is (A + x B) / (a + x b), x being the exponential of this logit.
    """
    call = attended(declared, *one.facts.arguments)
    logits = call.logits(call.repeated())
    if logits is None or call.seen.all() or not np.isfinite(one.actual).all():
        return None
    e = np.exp(np.clip(logits.value, -600, 600))
    v, far = call.v[:, call.value_heads], np.where(call.seen, 0.0, e if added else 1.0)
    near = e * call.seen
    total = near.sum(axis=-1, keepdims=True)
    if call.sinks is not None:
        total = total + np.exp(call.sinks[:, None, None])
    a = far @ v - one.actual * far.sum(axis=-1, keepdims=True)
    y = one.actual * total - near @ v
    bottom = float((a * a).sum())
    x = float((a * y).sum()) / bottom if bottom else 0.0
    return log(x) if x > 0 else None
