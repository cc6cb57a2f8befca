"""What logits are known to get wrong: which term is another one, and by which factor it is off.

A suspicion replaces the encoding, or where queries and keys stand; the factors on the product and
on the bias are then fitted, two numbers for all logits of a call, and named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import Bias, MultiAxisRoPE, RoPE, Rotary, Sinusoidal, Table, XPos
from posenc_ref.conformance.oracle.scores import Scored
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES
from posenc_ref.conformance.sequences.xpos_mistakes import GAMMAS, SCALE_BASES

from . import bias_mistakes as suspects_scores_bias
from .bias_mistakes import Variant


def variants(declared: Any) -> Iterator[Variant]:
    """The declaration itself, then one change of it each."""
    yield Variant("", "", lambda call: call)
    yield from _positions("bias-alignment" if isinstance(declared, Bias) else "decode-offset")
    if isinstance(declared, XPos):
        yield from _xpos(declared)
    elif isinstance(declared, Rotary):
        yield from _rotary(declared)
    elif isinstance(declared, Table):
        yield from _table(declared)
    elif isinstance(declared, Bias):
        yield from suspects_scores_bias.variants(declared)
    if declared is not None:
        yield Variant(
            "frequency-spacing"
            if isinstance(declared, Rotary)
            else "bias-missing"
            if isinstance(declared, Bias)
            else "amplitude",
            "logits do not depend on positions: the encoding is missing",
            lambda call: call.replace(encoding=None),
        )


def _positions(code: str) -> Iterator[Variant]:
    def moved(code: str, message: str, q: Any = None, k: Any = None) -> Variant:
        """Other positions of queries or keys, made from their numbers."""

        def change(call: Scored) -> Scored | None:
            n_q, n_k = call.q.shape[2], call.k.shape[2]
            return call.replace(
                q_at=None if q is None else q(n_q, n_k), k_at=None if k is None else k(n_q, n_k)
            )

        return Variant(code, message, change)

    yield moved(
        code,
        "queries are counted from 0, although keys stand before them",
        q=lambda n_q, n_k: np.arange(n_q),
    )
    yield moved(
        code,
        "every query has the position of the last one",
        q=lambda n_q, n_k: np.full(n_q, n_k - 1),
    )
    yield moved(
        "position-origin",
        "queries stand one position too late",
        q=lambda n_q, n_k: np.arange(n_k - n_q, n_k) + 1,
    )
    yield moved(
        "position-origin",
        "keys stand one position too late",
        k=lambda n_q, n_k: np.arange(n_k) + 1,
    )
    yield moved(
        "wrong-row", "keys stand in the reverse order", k=lambda n_q, n_k: np.arange(n_k)[::-1]
    )
    yield Variant("position-axis", "the head index is the position", _heads)


def _heads(call: Scored) -> Scored | None:
    if not isinstance(call.encoding, Rotary) or call.encoding.num_axes > 1:
        return None

    def at(x: np.ndarray) -> np.ndarray:
        return np.broadcast_to(np.arange(x.shape[1])[:, None], x.shape[:-1])

    return call.replace(q_at=at(call.q), k_at=at(call.k))


def _other(code: str, message: str, encoding: Any) -> Variant:
    return Variant(code, message, lambda call: call.replace(encoding=encoding))


def _rotary(declared: Rotary) -> Iterator[Variant]:
    raw = "are not rotated"
    yield Variant(
        "frequency-spacing", f"queries {raw}", lambda call: call.replace(q_at=0 * call.positions[0])
    )
    yield Variant(
        "frequency-spacing", f"keys {raw}", lambda call: call.replace(k_at=0 * call.positions[1])
    )
    if not isinstance(declared, RoPE | MultiAxisRoPE):
        return
    for layout in ("half", "interleaved"):
        if layout != declared.layout and declared.layout in ("half", "interleaved"):
            changed = declared.replace(layout=layout, output_layout=None)
            yield _other("layout", f"pairs are {layout}, declared {declared.layout}", changed)
    text = "the rotation turns the other way"
    yield _other("sign", text, declared.replace(sign=-declared.sign))
    yield Variant(
        "sign",
        "queries and keys turn opposite ways",
        lambda call: call.replace(k_at=-call.positions[1]),
    )
    if not isinstance(declared, RoPE):
        return
    if declared.scaling is not None:
        yield _other(
            "scaling-missing", "the declared scaling is missing", declared.replace(scaling=None)
        )
    for base in PUBLISHED_BASES:
        if base != declared.base:
            text = f"the base is {base:g}, declared {declared.base:g}"
            yield _other("base", text, declared.replace(base=base))
    if declared.rotary_dim != declared.head_dim and declared.scaling is None:
        whole = declared.replace(rotary_dim=declared.head_dim, rotary_start=0, output_layout=None)
        yield _other("rotary-dim", "all channels are rotated", whole)
    elif declared.scaling is None:
        for d in (declared.head_dim // 2, declared.head_dim // 4):
            if d % 2 == 0 and d:
                text = f"{d} of {declared.head_dim} channels are rotated"
                yield _other("rotary-dim", text, declared.replace(rotary_dim=d))


def _xpos(declared: XPos) -> Iterator[Variant]:
    plain = RoPE(declared.head_dim, layout=declared.layout, base=declared.base)
    yield _other("amplitude", "the decay is missing: a plain rotation", plain)
    other = "half" if declared.layout == "interleaved" else "interleaved"
    text = f"pairs are {other}, declared {declared.layout}"
    yield _other("layout", text, declared.replace(layout=other))
    yield Variant(
        "amplitude",
        "the decay goes the other way: late keys grow",
        lambda call: _mirrored(call, declared),
    )
    for value in SCALE_BASES:
        text = f"scale_base is {value:g}, declared {declared.scale_base:g}"
        yield _other("amplitude", text, declared.replace(scale_base=value))
    for value in GAMMAS:
        text = f"gamma is {value:g}, declared {declared.gamma:g}"
        yield _other("amplitude", text, declared.replace(gamma=value))
    for base in PUBLISHED_BASES:
        yield _other("base", f"the base is {base:g}", declared.replace(base=base))


def _mirrored(call: Scored, declared: XPos) -> Scored:
    """Rotation by p and decay by -p: rotated the other way at -p, with mirrored channels."""
    _, second = declared.pairs()
    q, k = np.array(call.q), np.array(call.k)
    q[..., second] *= -1
    k[..., second] *= -1
    q_at, k_at = call.positions
    return call.replace(q=q, k=k, q_at=-q_at, k_at=-k_at)


def _table(declared: Table) -> Iterator[Variant]:
    if isinstance(declared, Sinusoidal):
        for layout in ("interleaved", "concat"):
            if layout != declared.layout:
                text = f"columns are {layout}, declared {declared.layout}"
                yield _other("layout", text, declared.replace(layout=layout))
        first = "cos" if declared.first == "sin" else "sin"
        yield _other("phase-order", f"{first} comes first", declared.replace(first=first))
        for base in PUBLISHED_BASES:
            yield _other("base", f"the base is {base:g}", declared.replace(base=base))
