"""Given frequencies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from posenc_ref import GivenFrequencies, RoPE
from posenc_ref.conformance.exact.digits import mpmath
from posenc_ref.conformance.exact.numbers import Number

from . import Change, schedule


def _mistakes(encoding: RoPE) -> Iterator[Change]:
    """Yield wrong uses of given frequencies, or of their ratios to the plain ones."""
    given, plain = encoding.frequencies(), encoding.replace(scaling=None).frequencies()
    for words, predicted in (
        ("the factors of the given frequencies divide the plain frequencies, where they are to "
         "multiply them", plain * plain / given),
        ("the inverse of the given frequencies is used", 1 / given),
        ("the given frequencies multiply the plain ones", given * plain),
        ("the given frequencies divide the plain ones", plain / given),
        ("the given frequencies come in the reverse order", given[::-1]),
    ):  # fmt: skip
        remedy = "Use the given frequencies as they are: pair k turns by given[k] per position."
        yield Change("scaling-formula", words, predicted, remedy=remedy)


@schedule(
    GivenFrequencies,
    words="the given number k",
    examples=(GivenFrequencies([2.0**-k for k in range(8)], attention_factor=1.5),),
    row=(
        "GivenFrequencies(...)", "as given", "as given",
        "the numbers are used exactly: those of a float32 buffer keep its rounding errors",
        "learned frequencies",
    ),
    mistakes=_mistakes,
)  # fmt: skip
def given(s: GivenFrequencies, base: Any, d: int, seq_len: int | None) -> list[Number]:
    """The numbers themselves."""
    return [mpmath().mp.mpf(w) for w in s.frequencies]
