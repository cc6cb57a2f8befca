"""The facts of the calls of a function, and which elements of their results are wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

#: The most elements that the records of a run hold in memory; later ones are dropped.
MOST = 2**24
#: How x may lie in memory.
MEMORY = (
    "contiguous", "transposed", "sliced", "strided", "reversed heads", "Fortran order, read-only",
)  # fmt: skip
#: Past this position, float32 angles hide a shift by a few positions; at position 0, nothing turns.
#: There, a right result is no evidence that a rule does not hold.
TELLING = 2**13


@dataclass(frozen=True)
class Call:
    """One call of the function.

    ``sizes`` are the (B, H, S) of x, and ``positions`` those that were passed, where both are
    known.
    """

    number: int  #: 1 for the first call of this instance
    memory: str = MEMORY[0]  #: the memory layout of x
    fresh: bool = False  #: whether the instance was made for this call
    sizes: tuple[int, ...] | None = None
    heads: tuple[int, int] | None = None  #: the numbers of heads of q and k, if both are passed
    positions: np.ndarray | None = None


@dataclass(frozen=True)
class Record:
    """One judged result: the facts of its call, and the wrong elements.

    ``axes`` name the axes of ``wrong``, without the channels: an element is wrong if one of its
    channels is. ``live`` is None if every element was compared.
    """

    case: str
    axes: tuple[str, ...]
    wrong: np.ndarray
    live: np.ndarray | None = None
    channels: np.ndarray | None = None  #: the channels that are wrong in some element, (D,)
    call: Call | None = None
    whole: bool = True  #: whether the result is that of one whole call
    positions: np.ndarray | None = None  #: of the tokens of the result, (S,) or (B, S)
    part: int = 0  #: how many results of the same call were judged before
    gone: tuple[int, ...] = ()  #: the axes over which ``wrong`` was reduced, now of size 1
    full: tuple[int, ...] = ()  #: the shape before that
    #: The numbers by which its elements are told apart, once they are made.
    features: dict[tuple[str, str], np.ndarray] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the result, without the channels."""
        return self.full or self.wrong.shape

    @property
    def failed(self) -> bool:
        """Return whether any element is wrong."""
        return bool(self.wrong.any())


@dataclass
class Evidence:
    """The records of a run, and the call of the last of them."""

    records: list[Record] = field(default_factory=list)
    held: int = 0
    latest: Call | None = None  #: the call of the last judged result
    part: int = 0  #: how many results of this call were judged before

    def add(
        self,
        case: str,
        axes: tuple[str, ...],
        off: np.ndarray,
        mask: np.ndarray | None,
        call: Call | None,
        at: np.ndarray | None,
    ) -> None:
        """Record a judged result whose elements ``off`` are wrong.

        ``call`` is the last call since the last record. If there is none, the result belongs to the
        same call as the last one, as queries and keys do.
        """
        if call is not None:
            self.latest, self.part = call, 0
        elif mask is None:  # another part of the same result has a mask
            self.part += 1
        record = recorded(case, axes, off, mask, self.latest, at, self.part)
        if record is not None and self.held + record.wrong.size <= MOST:
            self.held += record.wrong.size
            self.records.append(record)

    def single_tokens(self) -> bool:
        """Return whether only calls of one token are wrong, some at one position of all rows."""
        calls = [r.call for r in self.records if r.failed]
        at = [c.positions for c in calls if c is not None and c.positions is not None]
        if not at or len(at) < len(calls) or any(p.shape[-1] != 1 for p in at):
            return False
        return any(p.ndim == 1 for p in at)

    def beyond_positions(self) -> bool:
        """Return whether the same position is wrong in one place and right everywhere in another.

        Then no rule of positions alone explains the failures.
        """
        right, wrong = set[float](), set[float]()
        for one in self.records:
            if one.positions is None or one.positions.ndim != 1:
                continue
            others = tuple(range(one.wrong.ndim - 1))
            off = one.wrong.any(axis=others)
            live = True if one.live is None else one.live.all(axis=others)
            wrong.update(one.positions[off].tolist())
            right.update(one.positions[~off & live].tolist())
        return not right.isdisjoint(wrong)


def recorded(
    case: str,
    axes: tuple[str, ...],
    off: np.ndarray,
    mask: np.ndarray | None,
    call: Call | None,
    at: np.ndarray | None,
    part: int = 0,
) -> Record | None:
    """Return the record of a result, or None if its axes are not those of the surface."""
    if off.ndim != len(axes) or not axes or not off.size:
        return None
    compared: np.ndarray = (
        np.ones(off.shape, bool) if mask is None else np.broadcast_to(mask, off.shape)
    )
    channels = None
    if axes[-1] == "channel":
        axes = axes[:-1]
        if off.any():
            channels = np.asarray(off.reshape(-1, off.shape[-1]).any(axis=0))
        off = np.asarray(off.any(axis=-1))
        compared = np.asarray(compared.any(axis=-1))
    whole = True
    if call is not None and call.sizes is not None:
        whole = call.sizes == off.shape[-len(call.sizes) :]
        if at is None and whole:
            at = call.positions
    if at is not None and (at.ndim not in (1, 2) or at.shape[-1] != off.shape[-1]):
        at = None
    if at is not None and at.size:
        near = np.abs(at) <= TELLING
        if axes[-1] == "token":
            near &= at != 0
        near = near.reshape(*near.shape[:-1], *[1] * (off.ndim - near.ndim), near.shape[-1])
        compared = np.asarray(compared & (off | near))
    live = None if compared.all() else compared
    return Record(case, axes, off, live, channels, call, whole, at, part)
