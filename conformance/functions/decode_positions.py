"""Calls of ``decode_positions``, and its known mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake

from .function import Arguments, several

#: The function may refuse longer sequences.
SHORT = 128


def prompts(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    """Yield prompt lengths and numbers of steps."""
    for prompt, steps in ((5, 3), (1, 1), (7, 1), (100, 20), (4095, 3), (33000, 300)):
        yield Arguments(f"{steps} steps", (prompt, steps), np.max(prompt) + steps <= SHORT)
    yield Arguments("no prompt", (0, 4), False)
    yield Arguments("no steps", (6, 0), False)
    for lengths, steps in (([3, 9, 1], 4), ([12, 5], 2)):
        yield Arguments("a prompt length for each row", (np.array(lengths), steps), False)


#: What a counter does that is kept for the next prompt, and what to do about it.
_ON = "a call goes on at the position at which the call before ended"
_ANEW = "Start every call at the length of its own prompt: keep no counter of the call before."
#: What is right for every generated token.
_NEXT = "Give token i that is generated the position prompt_len + i, i = 0, 1, 2, ..."


def decode_mistakes(encoding: Any) -> Iterator[Mistake]:
    """Yield the known mistakes of the positions of generated tokens, likely ones first."""
    own = f"{_NEXT}, with the prompt length of its own row, prompt_len[b]."
    yield from several(
        ("decode-offset", "generated tokens are counted from 0",
         lambda prompt, n: np.broadcast_to(np.arange(n), pr.decode_positions(prompt, n).shape),
         f"{_NEXT}; prompt_len is left out."),
        ("decode-offset", "the first generated token is one position late",
         lambda prompt, n: pr.decode_positions(prompt, n) + 1,
         f"{_NEXT}; do not add 1."),
        ("decode-offset", "the first generated token has the position of the last prompt token",
         lambda prompt, n: pr.decode_positions(prompt, n) - 1,
         f"{_NEXT}; do not subtract 1."),
        ("decode-offset", "every generated token has the position of the first",
         lambda prompt, n: pr.decode_positions(prompt, n) - np.arange(n),
         f"{_NEXT}: advance by 1 for every token."),
        ("decode-offset", "the number of the step is added to the position before: prompt_len, "
         "prompt_len + 1, prompt_len + 3, prompt_len + 6, ...",
         lambda prompt, n: pr.decode_positions(prompt, n) + np.arange(n) * (np.arange(n) - 1) // 2,
         f"{_NEXT}: advance by 1 for every token, not by the number of the step."),
        ("decode-offset", "every generated token advances by 2",
         lambda prompt, n: pr.decode_positions(prompt, n) + np.arange(n),
         f"{_NEXT}: advance by 1 for every token."),
        ("decode-offset", "generated tokens are counted back from the prompt",
         lambda prompt, n: pr.decode_positions(prompt, n) - 2 * np.arange(n),
         f"{_NEXT}: advance by 1 for every token."),
        ("decode-offset", "every generated token after the second has the position of the second",
         lambda prompt, n: pr.decode_positions(prompt, np.minimum(n, 2)).take(
             np.minimum(np.arange(n), 1), axis=-1
         ),
         f"{_NEXT}: advance by 1 for every token, also after the second."),
        ("padding", "every row continues at the length of the longest prompt",
         lambda prompt, n: pr.decode_positions(np.full_like(prompt, np.max(prompt)), n),
         own),
        ("row-offset", "every row continues at the length of the first prompt",
         lambda prompt, n: pr.decode_positions(
             np.full_like(prompt, np.ravel(prompt)[0]), n
         ), own),
        ("decode-offset", "positions are made as (steps, rows) and reshaped, not transposed, to "
         "(rows, steps)",
         lambda prompt, n: (np.ravel(prompt) + np.arange(n)[:, None]).reshape(
             pr.decode_positions(prompt, n).shape
         ), "Transpose the positions from (steps, rows): a reshape mixes the rows."),
    )  # fmt: skip
    for words, least in (
        (f"{_ON}, if its prompt is shorter", True), (_ON, False),
    ):  # fmt: skip
        yield Mistake("state", words, partial(_counted_on, least=least), _ANEW)


def _counted_on(call: Any, *, least: bool) -> Truth:
    """Return positions that go on where those of the call before ended.

    ``least``: the prompt counts if it is longer. A call with a prompt length for each row does not.
    """
    at = 0
    for prompt, steps in (*call.before, call.arguments):
        if np.ndim(prompt):
            at, start = 0, prompt
        else:
            start = max(at, int(prompt)) if least or not at else at
            at = start + steps
    own: Truth = call.truth(pr.decode_positions(start, call.arguments[1]))
    return own
