"""Self-Extend: near keys keep their distance, far keys share positions in groups."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from . import _validate as validate
from ._namespace import Array, namespace
from .rope import RoPE
from .rotary_score import RotaryScore, check_rope


@dataclass(frozen=True, eq=False, repr=False)
class SelfExtend(RotaryScore):
    """Self-Extend, or grouped attention.

    Formula
        ``scores_ij = R(i') q_i . R(j') k_j / sqrt(d)`` for keys up to the query;
        ``i' = i``, ``j' = j`` if ``i - j < window``; else ``j' = j // group`` and
        ``i' = i // group + window - window // group``.
    Source
        Jin et al. 2024, *LLM Maybe LongLM: Self-Extend LLM Context Window Without Tuning*,
        arXiv:2401.01325, section 3 and Algorithm 1; datamllab/LongLM, self_extend_patch.
    Traps
        The floors are taken of positions, not of the offset: ``i // group - j // group`` differs
        between pairs with the same ``i - j``, so that the logits depend on more than the offset.
        The key at ``i - j = window`` is a far one.  LongLM divides ``window / group`` without
        rounding, which differs if ``group`` does not divide ``window``.  llama.cpp
        (``--grp-attn-n``, ``--grp-attn-w``) is another method: it divides the positions of the
        keys in the cache, one block of ``window`` tokens at a time, so every key has one position,
        and between 0 and ``window - 1`` keys keep their true distance.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|scale|`` times the sum over channel pairs of ``m ** 2 ((|q1 k1| + |q2 k2|) |cos| +
        (|q2 k1| + |q1 k2|) |sin|)``, plus ``|q k|`` of the other channels; B = ``|scale|`` times
        the sum of ``m ** 2 (|q1| + |q2|) (|k1| + |k2|) (|i'| + |j'|) theta``, because
        implementations rotate q by i' and k by j'.

    Parameters
    ----------
    rope : RoPE
        The rotation; its frequencies must not depend on the length.
    group : int
        The number of positions that far keys share: ``group_size_1`` in LongLM, 1 for plain RoPE.
    window : int
        The number of keys, the query's own included, that keep their distance: ``group_size_2``.
    """

    rope: RoPE
    _: KW_ONLY
    group: int
    window: int

    def __post_init__(self) -> None:
        check_rope(self.rope)
        self._set(
            group=validate.integer("group", self.group, minimum=1),
            window=validate.integer("window", self.window, minimum=1),
        )

    @property
    def telling_lengths(self) -> tuple[int, ...]:
        """A query at the start of a group, and one inside, with several far groups."""
        first = (-(-self.window // self.group) + 3) * self.group + 1
        return tuple(dict.fromkeys((first, first + self.group // 2)))

    def _farthest(self, last: int) -> float:
        far = last // self.group + self.window - self.window // self.group
        return last if last < self.window else max(self.window - 1, far)

    def _places(self, q_at: Array, k_at: Array) -> tuple[Array, Array]:
        xp = namespace(q_at)
        near = q_at - k_at < self.window
        shift = self.window - self.window // self.group
        q_far, k_far = q_at // self.group + shift, k_at // self.group
        none = 0 * (q_at + k_at)
        return xp.where(near, q_at + none, q_far + none), xp.where(near, k_at + none, k_far + none)
