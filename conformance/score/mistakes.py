"""Known mistakes in logits: another encoding, other positions, another or no bias."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref import Bias, MultiAxisRoPE, RoPE, Rotary, Sinusoidal, XPos
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.position_mistakes import QUERIES, REVERSED_KEYS
from posenc_ref.conformance.functions.layouts import rotary_variants
from posenc_ref.conformance.oracle.scores import Parts, Scored
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES
from posenc_ref.conformance.sequences.xpos_mistakes import xpos_variants
from posenc_ref.conformance.table.mistakes import sinusoid_variants

from .bias_mistakes import changes_of_bias
from .changed import Change, Moved, OfCall, mistakes_of
from .operands import operand_changes
from .shared_keys import shared_key_changes
from .term_mistakes import LAST


def logit_mistakes(declared: Any) -> Iterator[Mistake]:
    """Yield the declared encoding, then its known mistakes."""
    return mistakes_of(declared, _changes(declared))


def _changes(declared: Any) -> Iterator[Change]:
    yield "", "", Scored.parts
    yield from _positions("bias-alignment" if isinstance(declared, Bias) else "decode-offset")
    if isinstance(declared, Rotary):  # the offset of all tokens of a head is 0
        text = "logits do not depend on positions: the encoding is missing"
        if declared.num_axes == 1:
            text += ", or the head index is used as the position"
        yield "amplitude" if isinstance(declared, XPos) else "frequency-spacing", text, None
    missing = "amplitude"
    if isinstance(declared, XPos):
        yield from _xpos(declared)
    elif isinstance(declared, Rotary):
        yield from _rotary(declared)
    elif isinstance(declared, Sinusoidal):
        yield from sinusoid_variants(declared)
        for base in PUBLISHED_BASES:
            yield "base", f"the base is {base:g}", {"base": base}
    elif isinstance(declared, Bias):
        missing = "bias-missing"
        yield from changes_of_bias(declared)
    if declared is not None and not isinstance(declared, Bias | Rotary):
        yield from _of_one_side()
    yield from operand_changes(declared)
    yield from shared_key_changes(declared)
    if declared is not None and not isinstance(declared, Rotary):
        yield missing, "logits do not depend on positions: the encoding is missing", None


def _positions(code: str) -> Iterator[Change]:
    def moved(**places: Callable[[int, int], np.ndarray]) -> Moved:
        """Return a function for logits at ``place(number of queries, number of keys)``.

        The places are counted from the first key of the call.
        """

        def of(call: Scored) -> Scored:
            counts, start = (call.q.shape[2], call.k.shape[2]), np.min(call.positions[1])
            return call.replace(**{at: place(*counts) + start for at, place in places.items()})

        return Moved(of)

    for message, place in QUERIES:
        yield code, message, moved(q_at=place), LAST
    text = "the positions of keys are 1 too small, except for 0"
    change = Moved(lambda call: call.replace(k_at=np.maximum(call.positions[1] - 1, 0)))
    yield "position-origin", text, change, "Key j has position j, from the first key on."
    text = "the positions of queries are 1 too large"
    change = Moved(lambda call: call.replace(q_at=call.positions[0] + 1))
    yield "position-origin", text, change, "Subtract 1 from the positions of queries."
    text = "the positions of keys are 1 too large"
    change = Moved(lambda call: call.replace(k_at=call.positions[1] + 1))
    yield "position-origin", text, change, "Subtract 1 from the positions of keys."
    change = moved(k_at=lambda n_q, n_k: np.arange(n_k)[::-1])
    yield "wrong-row", REVERSED_KEYS, change, "Key j has position j: count keys from the first."


def _of_one_side() -> Iterator[Change]:
    """Yield tables that are added to the queries, or to the keys, only."""
    for what, other, sides in (
        ("queries", "keys", {"keys": False}),
        ("keys", "queries", {"queries": False}),
    ):
        text = f"the table is added to the {what} only, not to the {other}"
        remedy = f"Add the rows of their positions to the {other} too."
        change = lambda call, sides=sides: call.parts() | {"q.k": call.dot(**sides)}  # noqa: E731
        yield "wrong-row", text, change, remedy


def _rotary(declared: Rotary) -> Iterator[Change]:
    def turned(q: int = 1, k: int = 1) -> OfCall:
        """Return a function for logits at query positions * ``q`` and key positions * ``k``."""

        def of(call: Scored) -> Scored:
            q_at, k_at = call.positions
            return call.replace(q_at=q * q_at, k_at=k * k_at)

        return Moved(of)

    for what, parts in (("queries", turned(q=0)), ("keys", turned(k=0))):
        remedy = f"Rotate the {what} too, each by the angles of its own position."
        yield "frequency-spacing", f"{what} are not rotated", parts, remedy
    if isinstance(declared, RoPE | MultiAxisRoPE):
        yield "sign", "queries and keys are rotated in opposite directions", turned(k=-1)
    yield from rotary_variants(declared)


def _xpos(declared: XPos) -> Iterator[Change]:
    yield from xpos_variants(declared)
    text = "the decay has the opposite sign: it makes later keys larger"
    yield "amplitude", text, lambda call: _mirrored(call, declared).parts()
    text = "keys after the query decay as those before it: the decay takes |query - key|"
    remedy = "Take query - key with its sign: xPos lets later keys grow; a causal mask hides them."
    yield "amplitude", text, lambda call: _later(call, _mirrored(call, declared)), remedy


def _later(call: Scored, changed: Scored) -> Parts:
    """Return the terms of ``call``, with those of ``changed`` for keys after the query."""

    def either(one: Truth, other: Truth) -> Truth:
        names = ("value", "terms", "angle")
        return Truth(*(np.where(call.visible, getattr(one, n), getattr(other, n)) for n in names))

    return {name: either(one, changed.parts()[name]) for name, one in call.parts().items()}


def _mirrored(call: Scored, declared: XPos) -> Scored:
    """Return the call with the rotation of position p, and the decay of position -p.

    All positions are negated. The second channel of each pair is negated too, so that the logits
    have the declared rotations.
    """
    _, second = declared.pairs()
    q, k = np.array(call.q), np.array(call.k)
    q[..., second] *= -1
    k[..., second] *= -1
    q_at, k_at = call.positions
    return call.replace(q=q, k=k, q_at=-q_at, k_at=-k_at)
