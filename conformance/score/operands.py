"""Wrong queries and keys before their product: normalised, rounded, or capped after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import Bias, Score
from posenc_ref.conformance.diagnosis.mistake import with_value
from posenc_ref.conformance.diagnosis.position_mistakes import PLACE_CODES, PLACES
from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS, significant
from posenc_ref.conformance.oracle.scores import Parts, Scored

from .capped import CAPPED, CAPS
from .changed import Change, Moved

_Of = Callable[[np.ndarray], np.ndarray]


def _unit(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.sqrt((x * x).sum(axis=-1, keepdims=True)))


#: What may be done to queries or keys, in words.
_CHANGES: tuple[tuple[str, str, _Of], ...] = (
    ("amplitude", "go through RMSNorm", lambda x: _unit(x) * x.shape[-1] ** 0.5),
    ("amplitude", "are divided by their norms", _unit),
    *(
        ("table-precision", f"are rounded to {kind}", lambda x, n=bits: significant(x, n))
        for kind, bits in SIGNIFICANT_BITS.items()
    ),
)


#: Sizes of a call that are taken for the head size, in words.
_SIZES: tuple[tuple[str, Callable[[Scored], int]], ...] = (
    ("1/sqrt(K), the number of keys", lambda call: call.k.shape[2]),
    ("1/sqrt(Q), the number of queries", lambda call: call.q.shape[2]),
)
#: Those that are the head size times a number that may be the same in all calls.
_WIDTHS: tuple[tuple[str, Callable[[Scored], int]], ...] = (
    ("1/sqrt(H d), all channels", lambda call: call.q.shape[1] * call.q.shape[3]),
    ("1/sqrt(H_kv d), all channels of the keys",
     lambda call: call.sent[1].shape[1] * call.q.shape[3]),
)  # fmt: skip
#: Other key heads, from 0 to n_kv - 1, for query heads 0 to n - 1.
_GROUPS: tuple[tuple[str, Callable[[int, int], np.ndarray]], ...] = (
    ("query head h uses the key head h modulo H_kv", lambda n, n_kv: np.arange(n) % n_kv),
    ("every query head uses the first key head", lambda n, n_kv: np.zeros(n, np.int64)),
    ("query head h uses the key head min(h, H_kv - 1)",
     lambda n, n_kv: np.minimum(np.arange(n), n_kv - 1)),
    ("query head h uses the key head h // H_kv, not h // (H / H_kv), at most H_kv - 1",
     lambda n, n_kv: np.minimum(np.arange(n) // n_kv, n_kv - 1)),
    ("query head h uses the key head h // H_kv, not h // (H / H_kv), modulo H_kv",
     lambda n, n_kv: np.arange(n) // n_kv % n_kv),
    ("the key heads are used in the reverse order",
     lambda n, n_kv: (np.arange(n) // (n // n_kv))[::-1]),
)  # fmt: skip
_OWN_GROUP = "Query head h uses the key head h // (H / H_kv): repeat each key head H / H_kv times."


def operand_changes(declared: Any) -> Iterator[Change]:
    """Yield queries and keys that are changed before their product, and capped products."""
    for code, words, of in _CHANGES:
        for what, sides in (("queries and keys", "qk"), ("queries", "q"), ("keys", "k")):

            def changed(call: Scored, of: _Of = of, sides: str = sides) -> Scored:
                return call.replace(**{side: of(getattr(call, side)) for side in sides})

            yield code, f"{what} {words}", Moved(changed), f"Use the {what} as they are passed."
    fixed = getattr(declared, "num_heads" if isinstance(declared, Bias) else "heads", None)
    if fixed and fixed > 1:  # no call has another H, so these two are not told apart
        words = f"1/sqrt({fixed} d), or 1/sqrt(H d) with H = {fixed}, which no call changes"
        widths = [(words, _WIDTHS[0][1]), *_WIDTHS[1:]]
    else:
        widths = list(_WIDTHS)
    for words, size in (*_SIZES, *widths):
        change = Moved(lambda call, of=size: call.replace(scale=of(call) ** -0.5))  # type: ignore[misc]
        right = "Scale q . k by the declared factor, whatever the sizes of the call are."
        yield CAPPED, f"the scale of q . k is {words}", change, right
    for words, order in _GROUPS:
        yield "head-order", words, lambda call, of=order: _grouped(call, of), _OWN_GROUP
    for text, move, axis in PLACES:
        for what, side in (("queries", "q"), ("keys", "k")):
            right = f"Use the {what} of every batch row and head for that row and head."
            parts = partial(_elsewhere, side, move)
            yield PLACE_CODES[axis], f"in the {what}, {text}", parts, right
    for kind, bits in () if isinstance(declared, Score) else SIGNIFICANT_BITS.items():
        right = f"Keep q . k in float32 until the logits are complete: do not round it to {kind}."
        yield "table-precision", f"q . k is rounded to {kind}", partial(_narrow, bits), right
    for cap in CAPS if isinstance(declared, Bias) else ():
        text = f"q . k is capped before the bias is added: {cap:g} * tanh(x / {cap:g}) of it"
        yield CAPPED, text, lambda call, c=cap: _capped(call, c), "Add the bias to q . k itself."


def _grouped(call: Scored, order: Callable[[int, int], np.ndarray]) -> Parts:
    """Return the parts with other key heads for the query heads, if these share key heads."""
    if call.group < 2:
        return call.parts()
    heads = call.k.shape[1]
    at = order(heads, heads // call.group) * call.group
    return call.replace(k=call.k[:, at]).parts()


def _narrow(bits: int, call: Scored) -> Parts:
    product = call.dot()
    return call.parts() | {"q.k": with_value(product, significant(product.value, bits))}


def _capped(call: Scored, cap: float) -> Parts:
    product = call.dot()
    limited = cap * np.tanh(product.value / cap)
    return call.parts() | {"q.k": with_value(product, np.asarray(limited))}


def _elsewhere(side: str, move: _Of, call: Scored) -> Parts:
    """Return the parts with the queries or keys of other batch rows or heads, if there are some."""
    own = call.sent[side == "k"]
    moved = move(own)
    if np.array_equal(moved, own):
        return call.parts()
    moved = moved if side == "q" else np.repeat(moved, call.group, axis=1)
    return call.replace(**{side: moved}).parts()
