"""The corpus: wrong implementations that `check` must reject, correct ones that it must accept.

No function here uses the specification. Each is written from a public bug report, or from the
published form of the encoding in another style. `WRONG` and `CORRECT` list the cases; `make()`
returns a fresh instance.

A third of the wrong ones is `held_out`: they measured the judge before it was tuned on them too.
At first sight of the scaled, partial and multi-axis cases (197 wrong, 66 correct) it caught all
the wrong ones, named 172 of them acceptably, and accused one correct one; what a judge does with
bugs it has never seen is nearer to that than to today's full marks.
"""

from . import bias, functions, rotary, score, sequences, table  # noqa: F401  (these file the cases)
from ._case import CORRECT, WRONG, Case

__all__ = ["CORRECT", "WRONG", "Case"]
