"""Position ids that a call returns for tokens or documents, as functions of a surface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref.conformance.calling.signatures import signature_of
from posenc_ref.conformance.harness.foreign import Refused
from posenc_ref.conformance.harness.implementation import Implementation

from .foreign import Foreign

#: The lengths of documents, and the attention mask, of a trial call.
_LENGTHS, _MASK = np.array([2, 3, 4]), np.ones((2, 9), np.int64)
#: The roles of arguments that hold documents, and how they hold their lengths.
_FORMS: tuple[tuple[str, str, Callable[[np.ndarray], Any]], ...] = (
    ("cu_seqlens", "the first token of each document, and the end", lambda n: np.r_[0, n.cumsum()]),
    ("segments", "the document of each token (S,)", lambda n: np.repeat(np.arange(n.size), n) + 1),
    ("segments", "the document of each token (1, S)",
     lambda n: np.repeat(np.arange(n.size), n)[None] + 1),
)  # fmt: skip
_ALIKE = (
    "all {} axes have the same positions, as M-RoPE gives text; no call has images or videos, so "
    "their numbers and the order of the axes are not known: pass a function of token types and "
    "grids, and surface='mrope_positions'"
)


def documents(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of the bounds of documents, or of their numbers, as one of lengths."""
    fn = replace(fn, least=1)
    for role, words, form in _FORMS:
        if role not in fn.roles:
            continue

        def packed(
            lengths: Any, role: str = role, form: Callable[[np.ndarray], Any] = form
        ) -> np.ndarray:
            lengths = np.asarray(lengths)
            found = fn(**{role: form(lengths), "length": int(lengths.sum())})[0].reshape(-1)
            if found.size != lengths.sum() or found.dtype.kind not in "iu":
                raise ValueError("expected one integer for each token")
            return found

        try:
            packed(_LENGTHS)
        except (Refused, ValueError):
            continue
        yield Implementation(packed, "packed", fn.name, how=words)
        return


def of_tokens(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of tokens and of the number of padding as the ids of positions."""
    if not any("pad" in name for name in signature_of(fn.function).parameters):
        return

    def ids(tokens: np.ndarray) -> np.ndarray:
        found = fn(tokens, x=tokens, tokens=tokens)[0]
        if found.dtype.kind not in "iu" or found.shape != tokens.shape:
            raise ValueError(f"expected one integer for each token, got shape {found.shape}")
        return found

    try:
        ids(_MASK + 2)
    except (Refused, ValueError):
        return
    yield Implementation(ids, "ids_from_tokens", fn.name, how="tokens (B, S)")


def streams(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of tokens with the same positions on several axes as one of a mask."""
    masked = any("mask" in name for name in signature_of(fn.function).parameters)
    axes = 0

    def one(attention_mask: Any) -> np.ndarray:
        nonlocal axes
        mask = np.asarray(attention_mask)
        if not masked and not mask.all():
            raise ValueError("the function takes no attention mask: no token is padding")
        found = fn(tokens=mask)[0]
        if found.dtype.kind not in "iu" or found.shape[1:] != mask.shape or len(found) > 4:
            raise ValueError(f"expected positions (axes, {mask.shape}), got {found.shape}")
        if len(found) < 2 or (found != found[:1]).any():
            raise ValueError("the axes have other positions")
        axes = len(found)
        return np.asarray(found[0])

    try:
        one(_MASK)
    except (Refused, ValueError):
        return
    yield Implementation(
        one, "position_ids", fn.name, how=f"tokens {_MASK.shape}", limits=(_ALIKE.format(axes),)
    )
