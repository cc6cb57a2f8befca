"""Known mistakes in logits: another encoding, other positions, another or no bias."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref import Bias, MultiAxisRoPE, RoPE, Rotary, Sinusoidal, Table, XPos
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.position_mistakes import QUERIES, REVERSED_KEYS, heads
from posenc_ref.conformance.functions.layouts import rotary_variants
from posenc_ref.conformance.oracle.scores import Parts, Scored
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES
from posenc_ref.conformance.sequences.xpos_mistakes import xpos_variants
from posenc_ref.conformance.table.mistakes import sinusoid_variants

from .bias_mistakes import mistakes_of_bias
from .changed import changed, other


def logit_mistakes(declared: Any) -> Iterator[Mistake]:
    """Yield the declared encoding, then its known mistakes."""
    yield changed("", "", Scored.parts)
    yield from _positions("bias-alignment" if isinstance(declared, Bias) else "decode-offset")
    if isinstance(declared, Rotary) and declared.num_axes == 1:
        yield changed(
            "position-axis",
            "the head index is the position",
            lambda call: call.replace(q_at=heads(call.q), k_at=heads(call.k)).parts(),
        )
    missing = "amplitude"
    if isinstance(declared, XPos):
        yield from _xpos(declared)
    elif isinstance(declared, Rotary):
        yield from _rotary(declared)
    elif isinstance(declared, Table):
        yield from _table(declared)
    elif isinstance(declared, Bias):
        missing = "bias-missing"
        yield from mistakes_of_bias(declared)
    if declared is not None:
        missing = "frequency-spacing" if isinstance(declared, Rotary) else missing
        text = "logits do not depend on positions: the encoding is missing"
        yield other(missing, text, None)


def _positions(code: str) -> Iterator[Mistake]:
    def moved(code: str, message: str, **places: Callable[[int, int], np.ndarray]) -> Mistake:
        """Return the mistake of other positions, computed from the numbers of queries and keys."""
        return changed(
            code,
            message,
            lambda call: call.replace(
                **{at: place(call.q.shape[2], call.k.shape[2]) for at, place in places.items()}
            ).parts(),
        )

    for message, place in QUERIES:
        yield moved(code, message, q_at=place)
    text = "queries stand one position too late"
    yield moved("position-origin", text, q_at=lambda n_q, n_k: np.arange(n_k - n_q, n_k) + 1)
    text = "keys stand one position too late"
    yield moved("position-origin", text, k_at=lambda n_q, n_k: np.arange(n_k) + 1)
    yield moved("wrong-row", REVERSED_KEYS, k_at=lambda n_q, n_k: np.arange(n_k)[::-1])


def _rotary(declared: Rotary) -> Iterator[Mistake]:
    def turned(code: str, message: str, q: int = 1, k: int = 1) -> Mistake:
        """Return the mistake of query positions times ``q`` and key positions times ``k``."""

        def parts(call: Scored) -> Parts:
            q_at, k_at = call.positions
            return call.replace(q_at=q * q_at, k_at=k * k_at).parts()

        return changed(code, message, parts)

    yield turned("frequency-spacing", "queries are not rotated", q=0)
    yield turned("frequency-spacing", "keys are not rotated", k=0)
    if isinstance(declared, RoPE | MultiAxisRoPE):
        yield turned("sign", "queries and keys turn opposite ways", k=-1)
    for variant in rotary_variants(declared):
        yield other(*variant)


def _xpos(declared: XPos) -> Iterator[Mistake]:
    for variant in xpos_variants(declared):
        yield other(*variant)
    text = "the decay has the opposite sign: it makes later keys larger"
    yield changed("amplitude", text, lambda call: _mirrored(call, declared).parts())


def _mirrored(call: Scored, declared: XPos) -> Scored:
    """Return the call with the rotation of position p, and the decay of position -p.

    A rotation by p is the rotation by -p if the second channel of each pair is negated before.
    """
    _, second = declared.pairs()
    q, k = np.array(call.q), np.array(call.k)
    q[..., second] *= -1
    k[..., second] *= -1
    q_at, k_at = call.positions
    return call.replace(q=q, k=k, q_at=-q_at, k_at=-k_at)


def _table(declared: Table) -> Iterator[Mistake]:
    if isinstance(declared, Sinusoidal):
        for variant in sinusoid_variants(declared):
            yield other(*variant)
        for base in PUBLISHED_BASES:
            yield other("base", f"the base is {base:g}", declared.replace(base=base))
