"""How much a function must answer before agreement is called ``conforms``.

A function that refuses nearly everything is wrong nowhere. Below these limits the verdict is
``inconclusive``, unless the limits are accepted (``accept_limits``). Limits of the declared
encoding, such as the rows of its table, and ``max_position`` are no refusals.
"""

from __future__ import annotations

#: The highest position that must be accepted, where the encoding has one axis and this position.
#: Tables of 49 or 64 rows are in use, and a long context is asked for nowhere else either.
LEAST_POSITION = 31
#: The number of tokens that one call must accept.
LEAST_TOKENS = 8
#: What a report says where a limit is not accepted.
UNMET = (
    "too much is refused for a verdict; if that is the whole purpose of the function, pass "
    "accept_limits=True (--accept-limits)"
)


def missing(position: int | None, tokens: int | None) -> tuple[str, ...]:
    """Return what must be judged and was refused, as names of required checks.

    Parameters
    ----------
    position, tokens : int, optional
        The highest accepted position, and the longest accepted call, where a larger one was
        refused.
    """
    found = []
    if position is not None and position < LEAST_POSITION:
        found.append(f"positions up to {LEAST_POSITION}")
    if tokens is not None and tokens < LEAST_TOKENS:
        found.append(f"calls of {LEAST_TOKENS} tokens")
    return tuple(found)
