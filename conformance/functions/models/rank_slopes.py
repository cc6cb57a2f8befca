"""ALiBi's slopes of the heads of one rank: ``rank_slopes``.

Error unit (see :mod:`posenc_ref.accuracy`): A = |value|, B = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from posenc_ref import ALiBi
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.functions.function import Arguments, Function, Plain, several, written
from posenc_ref.conformance.oracle.apply import exactly


def _slopes(encoding: ALiBi, n: int) -> np.ndarray:
    return ALiBi(n, max_bias=encoding.max_bias).slopes()


def _ranks(encoding: ALiBi, seed: int, dtype: str) -> Iterator[Arguments]:
    declared = encoding.num_heads
    for n in dict.fromkeys((declared, 8, 12, 40, 112, 144, 260)):
        for size in [s for s in (2, 4, 3, 5) if n % s == 0 and n > s][:2]:
            for rank in range(size):
                yield Arguments(f"rank {rank} of {size}", (n, size, rank), n == declared)
    yield Arguments("one rank", (declared, 1, 0), declared in (1, 2, 3, 5))


def _slope_mistakes(encoding: ALiBi) -> Iterator[Mistake]:
    def part(slopes: Function) -> Function:
        """Return the function that cuts the heads of a rank out of ``slopes(n)``."""
        return lambda n, size, rank: slopes(n)[rank * (n // size) : (rank + 1) * (n // size)]

    top, own = encoding.max_bias, partial(_slopes, encoding)
    ranks: tuple[tuple[str, str, Callable[[Function], Function]], ...] = (
        ("shard-offset", "slopes are those of a model with as many heads as the rank holds",
         lambda of: lambda n, size, rank: of(n // size)),
        ("shard-offset", "every rank gets the slopes of rank 0",
         lambda of: lambda n, size, rank: of(n)[: n // size]),
        ("shard-offset", "ranks are counted from the last one",
         lambda of: lambda n, size, rank: part(of)(n, size, size - 1 - rank)),
        ("shard-offset", "the slopes of rank r start at head r, not at head r * n / size",
         lambda of: lambda n, size, rank: of(n)[rank : rank + n // size]),
        ("head-order", "heads are distributed to the ranks one by one",
         lambda of: lambda n, size, rank: of(n)[rank::size]),
    )  # fmt: skip
    series: tuple[tuple[str, str, Function], ...] = (
        ("slopes", "the number of heads is rounded up to a power of two before the slopes are made",
         lambda n: own(1 << (n - 1).bit_length())[:n]),
        ("slopes", "2 ** (-8 h / n) is taken for any number of heads",
         lambda n: 2.0 ** (-top * np.arange(1, n + 1) / n)),
        ("slopes", "the exponents start at 0", lambda n: 2.0 ** (-top * np.arange(n) / n)),
        ("bias-sign", "the slopes are negative", lambda n: -own(n)),
        ("slopes", "the slopes are sorted, the largest first", lambda n: np.sort(own(n))[::-1]),
        ("slopes", "the slopes are sorted, the smallest first", lambda n: np.sort(own(n))),
        ("slopes", "the slopes come in the reverse order", lambda n: own(n)[::-1]),
        ("slopes", "the slopes of the next larger power of two are thinned out: every second one "
         "is taken first", lambda n: (
             (of := own(1 << (n - 1).bit_length())), np.r_[of[1::2], of[::2]][:n])[1]),
    )  # fmt: skip
    yield from several(*((code, text, move(own)) for code, text, move in ranks))
    yield from several(*((code, text, part(of)) for code, text, of in series))
    yield from several(
        ("slopes", "the number of heads is rounded up to a power of two, and split among the ranks",
         lambda n, size, rank: own(up := 1 << (n - 1).bit_length())[
             rank * (up // size) : rank * (up // size) + n // size]),
        ("slopes", "the slopes beyond the power of two count from the rank's own first head",
         _from_own_head(encoding)),
    )  # fmt: skip
    right = "Compute the slopes of all n heads: those of the largest power of two up to n, then "
    right += "every second one of twice as many heads. Rank r of size holds the n // size heads "
    right += "from r * (n // size) on."
    for code, text, move in ranks:
        for _, what, of in series:
            yield written(code, f"{text}, and {what}", move(of), right)


def _from_own_head(encoding: ALiBi) -> Function:
    """Return slopes whose second series starts anew on ranks that have no head of the first."""

    def slopes(n: int, size: int, rank: int) -> np.ndarray:
        first, count = rank * (n // size), n // size
        few = 1 << (n.bit_length() - 1)
        every = _slopes(encoding, n)
        start = few if first >= few else first
        return every[start : start + count]

    return slopes


RANK_SLOPES = Plain(
    _ranks,
    _slope_mistakes,
    "shard-offset",
    integers=False,
    truth=lambda encoding, arguments, value: exactly(value),
    remedy=lambda encoding: (
        "Rank r of size holds the n // size heads from r * (n // size) on: "
        f"compute the slopes of all n heads ({encoding.num_heads} declared), then select these."
    ),
)
