"""The row ``rank_slopes``: the slopes of the heads that a tensor-parallel rank holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import ALiBi
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.oracle.apply import exactly

from .function import Arguments, Function, Plain, several


def _slopes(encoding: ALiBi, n: int) -> np.ndarray:
    return ALiBi(n, max_bias=encoding.max_bias).slopes()


def _ranks(encoding: ALiBi, seed: int, dtype: str) -> Iterator[Arguments]:
    declared = encoding.num_heads
    for n, required in ((declared, True), *((n, False) for n in (8, 12, 40, 112, 144, 260))):
        if not required and n == declared:
            continue
        for size in [s for s in (2, 4, 3, 5) if n % s == 0 and n > s][:2]:
            for rank in range(size):
                yield Arguments(f"rank {rank} of {size}", (n, size, rank), required)
    yield Arguments("one rank", (declared, 1, 0), encoding.num_heads in (1, 2, 3, 5))


def _mistakes(encoding: ALiBi) -> Iterator[Mistake]:
    def held(n: int, size: int) -> int:
        return n // size

    def part(of: Function) -> Function:
        """The rank's part of other slopes."""

        def function(n: int, size: int, rank: int) -> np.ndarray:
            return np.asarray(of(n)[rank * held(n, size) : (rank + 1) * held(n, size)])

        return function

    top, right = encoding.max_bias, part(lambda n: _slopes(encoding, n))
    yield from several(
        ("shard-offset", "slopes are those of a model with as many heads as the rank holds",
         lambda n, size, rank: _slopes(encoding, held(n, size)),
         "Make the slopes of all heads, and cut the rank's own out of them."),
        ("shard-offset", "every rank gets the slopes of rank 0",
         lambda n, size, rank: _slopes(encoding, n)[: held(n, size)]),
        ("shard-offset", "ranks are counted from the last one",
         lambda n, size, rank: right(n, size, size - 1 - rank)),
        ("shard-offset", "ranks start rank heads in, not rank times their number",
         lambda n, size, rank: _slopes(encoding, n)[rank : rank + held(n, size)]),
        ("head-order", "heads are dealt to the ranks one by one",
         lambda n, size, rank: _slopes(encoding, n)[rank::size]),
        ("slopes", "2 ** (-8 h / n) is taken for any number of heads",
         part(lambda n: 2.0 ** (-top * np.arange(1, n + 1) / n))),
        ("slopes", "the exponents start at 0", part(lambda n: 2.0 ** (-top * np.arange(n) / n))),
        ("bias-sign", "the slopes are negative", part(lambda n: -_slopes(encoding, n))),
    )  # fmt: skip


SLOPE_ROWS: dict[str, Any] = {
    "rank_slopes": Plain(
        _ranks,
        _mistakes,
        "shard-offset",
        integers=False,
        truth=lambda encoding, arguments, value: exactly(value),
    ),
}
