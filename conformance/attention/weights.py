"""Known mistakes of the weights of attention: the mask, the softmax, its tiles, rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import log

import numpy as np

from posenc_ref import Attention, Bias
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import each_part, with_value
from posenc_ref.conformance.diagnosis.position_mistakes import PLACE_CODES, PLACES
from posenc_ref.conformance.oracle.attention import Attended, sum_of_terms, summed
from posenc_ref.conformance.oracle.scores import Scored
from posenc_ref.conformance.score.capped import CAPPED, CAPS

from .rounded import rounded, shares

#: Returns the call with some steps replaced.
Change = Callable[[Attended], Attended]
#: A code, a message, a change, and what to do about it.
Row = tuple[str, str, Change, str]
SOFTMAX, MASK = "softmax-scale", "future-keys"
#: Sizes of tiles of keys, and of sliding windows.
TILES = (4, 8, 16, 32, 64, 128, 256, 512)
_WINDOWS = (*TILES, 1024, 2048)
#: Orders of the query heads in which a number of each is read, with the head that it is then of.
GROUPED: tuple[tuple[str, Callable[[Attended], np.ndarray]], ...] = (
    ("(H / H_kv, H_kv), not (H_kv, H / H_kv)", lambda call: _transposed(call, keys_last=True)),
    ("(H_kv, H / H_kv), and written to (H / H_kv, H_kv)",
     lambda call: _transposed(call, keys_last=False)),
)  # fmt: skip
_SHARE = "Divide exp(logit - largest logit) by its sum over the keys that the query sees."


def _transposed(call: Attended, *, keys_last: bool) -> np.ndarray:
    """Return the heads, read as a matrix of groups and key heads and transposed."""
    key_heads = int(call.heads.max()) + 1
    columns = key_heads if keys_last else call.heads.size // key_heads
    return np.arange(call.heads.size).reshape(-1, columns).T.ravel()


def likely_weights(of: Attention) -> Iterator[Row]:
    """Yield the mistakes of the mask, and of the softmax and its tiles."""
    yield from _masks(of)
    if not of.sinks:
        yield from _denominators()
        yield from _tiles()


def rarer_weights(of: Attention) -> Iterator[Row]:
    """Yield mistakes that are tried after all others."""
    if not of.sinks:
        yield from _softmaxes()
    if isinstance(of.encoding, Bias):
        yield from _of_bias(sinks=of.sinks)
    yield from _windows()
    yield from _of_products()
    yield from rounded(of)


def paired_weights(of: Attention) -> Iterator[Row]:
    """Yield those rarer mistakes that may be made together with another one."""
    if not of.sinks:
        yield from _softmaxes()
    if isinstance(of.encoding, Bias):
        yield from _of_bias(sinks=of.sinks)
    codes = (CAPPED, "head-order", "wrong-row")
    rows = (row for row in _of_products() if not row[1].startswith("in the values"))
    yield from (row for row in rows if row[0] in codes)
    yield from (row for n in (64, 128, 256) for row in _window_of(n))


def _masks(of: Attention) -> Iterator[Row]:
    if of.causal:
        last = "Query i of Q sees keys 0 to K - Q + i, its own included."
        for text, code, first in (
            ("queries see the keys after them: the mask is missing", MASK, None),
            ("query i sees keys 0 to i: the mask counts queries from the first key",
             "bias-alignment", lambda n: 0),
            ("queries do not see their own key", MASK, lambda n: n - 1),
            ("queries see the key after their own: the mask begins one key too late", MASK,
             lambda n: n + 1),
        ):  # fmt: skip
            yield code, text, partial(_seeing, first=first), last
        text = "queries do not see their own key, but query 0 sees it"
        yield MASK, text, _strict_but_first, last
        for words, unseen in _UNSEEN if not of.sinks else ():
            text = f"queries do not see their own key, and query 0, which sees none, {words}"
            yield MASK, text, partial(_strict, unseen=unseen), last
    else:
        yield (
            MASK,
            "queries do not see the keys after them",
            partial(_seeing, first=lambda n: n),
            "Show every key to every query: the declared attention is not causal.",
        )


def _windows() -> Iterator[Row]:
    """Yield keys that are hidden: by a sliding window, at the end, or at the start."""
    for n in _WINDOWS:
        yield from _window_of(n)
    for n in TILES:
        text = f"the last, incomplete tile of {n} keys is left out, if there is a whole one"
        right = "Round the number of tiles up, and mask what is past the last key."
        yield MASK, text, partial(_whole_tiles, n=n), right
        text = f"queries at a multiple of {n} do not see their own key, the first of a tile"
        right = f"A query i needs i // {n} + 1 tiles of keys: round (i + 1) / {n} up, not i / {n}."
        yield MASK, text, partial(_without_first, n=n), right
        text = f"queries see all keys of their own tile of {n}: the mask hides whole tiles only"
        right = "Mask inside the tile that holds the query's own key too."
        yield MASK, text, partial(_of_tiles, n=n), right
    text = "key 0 is hidden, as if it were padding, but from the query at its own place"
    yield MASK, text, _first_hidden, "Show key 0 like all others."


def _window_of(n: int) -> Iterator[Row]:
    every = "Show all keys up to the query: the declared attention has no window."
    for more, words in ((0, f"i - j < {n}"), (1, f"i - j <= {n}")):
        text = f"queries see their last keys only, {words}: a sliding window"
        yield MASK, text, partial(_window, n=n + more), every


def _seeing(call: Attended, first: Callable[[int], int] | None) -> Attended:
    """Return the call whose query i sees keys 0 .. ``first(K - Q)`` + i, by default all keys."""
    n_q, n_k = call.seen.shape
    seen = np.ones_like(call.seen)
    if first is not None:
        seen = np.tri(n_q, n_k, first(n_k - n_q), dtype=bool)
    return call.replace(seen=seen)


def _strict_but_first(call: Attended) -> Attended:
    i, j = _own_places(call)
    return call.replace(seen=(j < i) | ((i == 0) & (j == 0)))


#: What becomes of a query that sees no key, and its weights by the number of keys.
_UNSEEN: tuple[tuple[str, Callable[[int], float]], ...] = (
    ("averages the values of all keys: the mask is a finite number, not -inf", lambda n: 1.0 / n),
    ("is NaN", lambda n: np.nan),
)


def _strict(call: Attended, unseen: Callable[[int], float]) -> Attended:
    """Return the call whose queries see earlier keys only, with the weights of one without any."""

    def weigh(logits: np.ndarray) -> np.ndarray:
        none = np.isneginf(logits).all(axis=-1, keepdims=True)
        return np.where(none, unseen(logits.shape[-1]), shares(logits))

    return _seeing(call, lambda n: n - 1).replace(weigh=weigh)


def _own_places(call: Attended) -> tuple[np.ndarray, np.ndarray]:
    n_q, n_k = call.seen.shape
    return np.arange(n_k - n_q, n_k)[:, None], np.arange(n_k)


def _of_tiles(call: Attended, n: int) -> Attended:
    i, j = _own_places(call)
    return call.replace(seen=j // n <= i // n)


def _without_first(call: Attended, n: int) -> Attended:
    i, j = _own_places(call)
    return call.replace(seen=call.seen & ((i != j) | (i % n != 0) | (i == 0)))


def _window(call: Attended, n: int) -> Attended:
    i, j = _own_places(call)
    return call.replace(seen=call.seen & (i - j < n))


def _whole_tiles(call: Attended, n: int) -> Attended:
    _, j = _own_places(call)
    whole = j.size // n * n
    return call.replace(seen=call.seen & ((j < whole) | (whole == 0)))


def _first_hidden(call: Attended) -> Attended:
    i, j = _own_places(call)
    return call.replace(seen=call.seen & ((j > 0) | (i == 0)))


def _denominators() -> Iterator[Row]:
    """Yield numbers that are added to the denominator of the softmax."""
    remedy = "Divide by the sum of the exponentials itself."

    def sunk(call: Attended, more: float, *, raised: bool) -> Attended:
        sinks = np.full(call.scored.q.shape[1], log(more))
        return call.replace(sinks=sinks, raised=raised)

    text = "1 is added to the denominator of the softmax, before the largest logit is subtracted"
    yield SOFTMAX, text, partial(sunk, more=1.0, raised=False), remedy
    for more in (1.0, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        text = f"{more:g} is added to the denominator of the softmax"
        yield SOFTMAX, text, partial(sunk, more=more, raised=True), remedy


def _exp(logits: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(logits - np.max(logits, axis=-1, keepdims=True, initial=-1e300)))


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-np.logaddexp(0, -logits)))


def _twice(logits: np.ndarray) -> np.ndarray:
    hidden = np.isneginf(logits)
    return shares(np.where(hidden, logits, shares(logits)))


def _in_halves(logits: np.ndarray) -> np.ndarray:
    half = logits.shape[-1] // 2
    if half == 0 or logits.shape[-2] > 1:
        return shares(logits)
    return np.concatenate([shares(logits[..., :half]), shares(logits[..., half:])], axis=-1) / 2


def _softmaxes() -> Iterator[Row]:
    each: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
        ("the softmax runs over the queries, not over the keys", lambda x: shares(x, -2)),
        ("the softmax runs over the heads, not over the keys", lambda x: shares(x, 1)),
        ("all heads use the weights of the first",
         lambda x: np.broadcast_to(shares(x)[:, :1], x.shape)),
        ("the weights are powers of 2, not of e: exp2 without a factor log2(e) on the logits",
         lambda x: shares(x * log(2))),
        ("the factor log2(e) is on the logits, but the weights are powers of e, not of 2",
         lambda x: shares(x / log(2))),
        ("the weights are sigmoids of the logits, not a softmax", _sigmoid),
        ("the weights are not divided by their sum", _exp),
        ("the softmax is taken twice: of the logits and of the weights", _twice),
        ("for one query, the outputs of the two halves of the keys are averaged, not weighted by "
         "the sums of their exponentials", _in_halves),
    )  # fmt: skip
    for text, weigh in each:
        yield SOFTMAX, text, partial(_weighed, weigh=weigh), _SHARE
    right = "Set hidden logits to -inf before the softmax."
    for text, hide in (
        ("hidden keys have the logit 0, not -inf: the mask multiplies the logits",
         lambda x, seen: shares(np.where(seen, x, 0.0))),
        ("the mask follows the softmax: hidden keys have no weight, but count in the denominator",
         lambda x, seen: shares(x) * seen),
    ):  # fmt: skip
        yield MASK, text, partial(_masked_late, hide=hide), right


def _weighed(call: Attended, weigh: Callable[[np.ndarray], np.ndarray]) -> Attended:
    return call.replace(weigh=weigh)


def _masked_late(call: Attended, hide: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Attended:
    seen = call.seen
    return call.replace(weigh=lambda x: hide(x, seen), seen=np.ones_like(seen))


def _of_bias(*, sinks: bool) -> Iterator[Row]:
    """Yield the mistakes of where a bias is added, and of its factor."""
    if not sinks:
        text = "the bias is added to the weights, after the softmax, not to the logits"
        yield "bias-alignment", text, _added_late, "Add the bias to the logits, before the softmax."
    for power, words in ((-0.5, "divided by sqrt(d), like q . k"), (0.5, "multiplied by sqrt(d)")):
        right = "Add the bias to the scaled q . k, without a factor."
        yield "bias-scale", f"the bias is {words}", partial(_with_factor, power=power), right


def _added_late(call: Attended) -> Attended:
    bias, seen = np.asarray(call.scored.bias().value), call.seen
    return call.replace(
        logits=lambda one: one.dot(), weigh=lambda x: shares(x) + np.where(seen, bias, 0.0)
    )


def _with_factor(call: Attended, power: float) -> Attended:
    by = call.scored.q.shape[-1] ** power

    def logits(one: Scored) -> Truth:
        return summed(one.parts() | {"bias": each_part(one.bias(), lambda part: by * part)})

    return call.replace(logits=logits)


def _of_products() -> Iterator[Row]:
    """Yield mistakes of q . k, of the values, and of the places in the output."""
    for cap in CAPS:
        text = f"logits are capped: {cap:g} * tanh(x / {cap:g}) of them"
        yield CAPPED, text, partial(_capped, cap=cap), "Use the logits as they are, without a cap."
    yield (
        SOFTMAX, "the scale is 1/sqrt(d_v), d_v being the channels of the values",
        lambda call: call.replace(scored=call.scored.replace(scale=call.v.shape[-1] ** -0.5)),
        "Take head_dim from the queries.",
    )  # fmt: skip
    right = "Multiply the weights of a key by the value of this key."
    for text, order in (
        ("the values stand in the reverse order", lambda n: np.arange(n)[::-1]),
        ("a key has the value of the key after it, the last that of the first",
         lambda n: (np.arange(n) + 1) % n),
        ("a key has the value of the key before it, the first that of the last",
         lambda n: np.arange(n) - 1),
    ):  # fmt: skip
        yield "wrong-row", text, partial(_ordered, order=order), right
    for text, move, axis in PLACES:
        right = f"Use the values of every {axis} for this {axis}."
        yield PLACE_CODES[axis], f"in the values, {text}", partial(_valued, move=move), right
    right = "Transpose the output from (B, Q, H, d) to (B, H, Q, d): a reshape mixes heads."
    text = "the output is reshaped, not transposed, from (B, Q, H, d) to (B, H, Q, d)"
    yield "head-order", text, partial(_placed, move=_reshaped), right
    for text, move, axis in PLACES:
        code = PLACE_CODES[axis]
        right = f"Return the output of each {axis} in its own place."
        yield code, f"{text}, in the output", partial(_placed, move=move), right


def _capped(call: Attended, cap: float) -> Attended:
    def logits(one: Scored) -> Truth:
        truth = sum_of_terms(one)
        return with_value(truth, cap * np.tanh(truth.value / cap))

    return call.replace(logits=logits)


def _ordered(call: Attended, order: Callable[[int], np.ndarray]) -> Attended:
    return call.replace(v=call.v[:, :, order(call.v.shape[2])])


def _valued(call: Attended, move: Callable[[np.ndarray], np.ndarray]) -> Attended:
    return call.replace(v=move(call.v))


def _placed(call: Attended, move: Callable[[np.ndarray], np.ndarray]) -> Attended:
    return call.replace(moved=move)


def _reshaped(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, 1, 2).reshape(x.shape)


@dataclass(frozen=True)
class _Tiled:
    """An online softmax of tiles of keys that leaves one sum as it was when the maximum rises.

    Of the tiles, one after the other, either the sum of the values or that of the weights keeps the
    maximum of its own tile.
    """

    size: int
    kept: str  #: "values" or "weights"

    def __call__(self, logits: np.ndarray) -> np.ndarray:
        top = np.max(logits, axis=-1, keepdims=True, initial=-1e300)
        e = np.exp(logits - top)
        first = np.arange(0, logits.shape[-1], self.size)
        raised = np.maximum.accumulate(np.maximum.reduceat(logits, first, axis=-1), axis=-1)
        each = np.repeat(raised, np.diff(np.append(first, logits.shape[-1])), axis=-1)
        with np.errstate(over="ignore", invalid="ignore"):
            old = np.where(np.isneginf(logits), 0.0, np.exp(logits - each))
        of_values, of_sum = (old, e) if self.kept == "values" else (e, old)
        total = of_sum.sum(axis=-1, keepdims=True)
        return np.asarray(of_values / np.where(total > 0, total, 1.0))


def _tiles() -> Iterator[Row]:
    """Yield sums of an online softmax that are not rescaled when a later tile has a larger logit.

    The largest tile that gives the results is named first: smaller ones give the same ones only if
    no call tells them apart.
    """
    for size in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1):
        for kept, what in (("values", "the sum of the values"), ("weights", "the denominator")):
            text = (
                f"in tiles of {size} keys, {what} is not multiplied by exp(old maximum - new "
                "maximum) when a later tile raises the maximum"
            )
            remedy = "Multiply both sums of the earlier tiles, that of the weights and that of the "
            remedy += "values, by exp(old maximum - new maximum)."
            yield SOFTMAX, text, partial(_weighed, weigh=_Tiled(size, kept)), remedy
