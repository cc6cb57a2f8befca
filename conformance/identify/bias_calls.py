"""Call a bias function, and find the sizes that it takes."""

from __future__ import annotations

import numpy as np

from posenc_ref.conformance.bias.cases import BiasCase, ask
from posenc_ref.conformance.harness.run import Run

from .card import Card, Unidentified
from .images.windows import TOKENS

#: Sizes n of calls fn(n, n), in which queries have earlier and later keys.
SQUARES = (64, 16, 5)
LARGEST_SQUARE = 1024
#: Values up to this count as masked.
_MASK = -1e4


def call(run: Run, card: Card, q_len: int, k_len: int) -> BiasCase | None:
    """Return the bias of one call, or None if the call fails or returns another shape."""
    answer = ask(run.driver, q_len, k_len)
    if answer.values is None:
        card.limits.append(f"fn({q_len}, {k_len}) is refused ({answer.problem})")
        return None
    values = answer.values
    while values.ndim > 3 and values.shape[0] == 1:
        values = values[0]
    heads = values.shape[0] if values.ndim == 3 else 1
    try:
        values = np.array(np.broadcast_to(values, (heads, q_len, k_len)), dtype=np.float64)
    except ValueError:
        card.limits.append(f"fn({q_len}, {k_len}) has shape {answer.values.shape}, not (H, Q, K)")
        return None
    hidden = (np.isnan(values) | (values <= _MASK)).all(axis=0)
    return BiasCase(q_len, k_len, values, ~hidden)


def largest(run: Run, card: Card, known: BiasCase) -> BiasCase:
    """Return the largest square call that is accepted, which is the window if there is one."""
    low, high = known.q_len, LARGEST_SQUARE
    before = list(card.limits)
    while high - low > 1:
        middle = min(4 * low, (low + high) // 2)
        found = call(run, card, middle, middle)
        low, high, known = (middle, high, found) if found else (low, middle, known)
    card.limits = before
    return known


def fixed(run: Run, card: Card) -> BiasCase | None:
    """Return the call of a function that returns one size whatever it is called with, or None."""
    n = SQUARES[0]
    answer = ask(run.driver, n, n)
    shape = () if answer.values is None else answer.values.shape
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] == n:
        return None
    size = shape[-1]
    found = call(run, card, size, size)
    if found is not None:
        text = f"fn({n}, {n}) has shape {shape}, as fn({size}, {size}); other sizes were not tried"
        card.limits = [text]
    return found


def only_square(run: Run, card: Card) -> BiasCase:
    """Return the call of a function that takes few numbers of tokens, such as one window."""
    before = list(card.limits)
    # A result of another shape is no bias: larger calls would only take memory.
    for n in TOKENS if all("is refused" in text for text in before) else ():
        found = call(run, card, n, n)
        if found is not None:
            card.limits = [*before[:1], f"fn({n}, {n}) is accepted, fewer tokens are refused"]
            return found
    card.limits = before
    raise Unidentified("no call fn(n, n) that was tried returns a bias of shape (H, n, n)")
