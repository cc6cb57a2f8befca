"""Read the label of a recorded layer: the numbers of its layer and of its step."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: Words in front of the number of a call, when several calls of the same layers are recorded.
STEPS = (
    "step", "steps", "iter", "iteration", "token", "call", "chunk", "forward", "pass", "t",
    "prefill", "prompt", "decode", "decoding", "generate", "generation",
)  # fmt: skip
#: Those that name a call without a number too.
_PHASES = STEPS[STEPS.index("prefill") :]


def layer_number(label: str) -> int | None:
    """Return the number of the layer, if the label has exactly one number that is no step."""
    found = [number for word, number in _numbers(label) if word not in STEPS]
    return found[0] if len(found) == 1 else None


def key_of(label: str) -> object:
    """Return what is equal for the same layer and step of two recordings, whatever their words.

    It is the number of the layer, with those of the steps if there are any; without a number, or
    with several others, the label itself.
    """
    steps = tuple(number for word, number in _numbers(label) if word in STEPS)
    others = [number for word, number in _numbers(label) if word not in STEPS]
    if len(others) > 1 or not (steps or others):
        return label
    return (*steps, *others) if steps else others[0]


def of_every_step(label: str) -> str:
    """Return the words of a label without those that name the step."""
    kept: list[str] = []
    words = _words(label)
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        names_step = word in _PHASES or (word in STEPS and after.isdigit())
        if not (names_step or (before in STEPS and word.isdigit())):
            kept.append(word)
    return ".".join(kept)


def belongs(part: str, label: str) -> bool:
    """Return whether all words of ``part`` stand in ``label``, one after another: step.0."""
    some, every = (f".{'.'.join(_words(text))}." if text else "." for text in (part, label))
    return some in every


def _numbers(label: str) -> Iterator[tuple[str, int]]:
    """Yield the numbers of a label, each with the word in front of it."""
    words = _words(label)
    for before, word in zip(["", *words], words, strict=False):
        if word.isdigit():
            yield before, int(word)


def _words(label: str) -> list[str]:
    return re.findall(r"[a-z]+|\d+", label.lower())
