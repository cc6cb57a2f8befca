"""ReRoPE and Leaky ReRoPE: the offset is clipped, or grows more slowly, beyond a window."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from . import _validate as validate
from ._namespace import Array, astype, namespace
from .rope import RoPE
from .rotary_score import RotaryScore, check_rope


@dataclass(frozen=True, eq=False, repr=False)
class ReRoPE(RotaryScore):
    """Rectified rotary position embedding.

    Formula
        ``scores_ij = R(i') q_i . R(j') k_j / sqrt(d)`` for keys up to the query;
        ``i' - j' = i - j`` if ``i - j < window``; else ``i' - j' = window`` (ReRoPE), or
        ``window + (i - j - window) / factor`` (Leaky ReRoPE).
    Source
        Su 2023, kexue.fm/archives/9708; bojone/rerope, rerope_patch.py and leaky_rerope_patch.py,
        which rotate far queries by ``i' = window``, ``j' = 0``, and in Leaky ReRoPE by
        ``i' = (i + window (factor - 1)) / factor``, ``j' = j / factor``.
    Traps
        Both rules agree at ``i - j = window``, so ``<`` and ``<=`` are the same.  Far keys are not
        rotated in ReRoPE, so a cache must hold keys before the rotation.  The released code also
        multiplies the query at position p by ``max(1, ln(p + 1) / ln(trained length))``: that
        factor is not part of this encoding (see :class:`LogNScale`).
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|scale|`` times the sum over channel pairs of ``m ** 2 ((|q1 k1| + |q2 k2|) |cos| +
        (|q2 k1| + |q1 k2|) |sin|)``, plus ``|q k|`` of the other channels; B = ``|scale|`` times
        the sum of ``m ** 2 (|q1| + |q2|) (|k1| + |k2|) (|i'| + |j'|) theta``, because
        implementations rotate q by i' and k by j'.

    Parameters
    ----------
    rope : RoPE
        The rotation; its frequencies must not depend on the length.
    window : int
        The distance from which the offset is clipped; 512 in the released code.
    factor : float, optional
        The number of positions by which the offset grows by 1 beyond the window, at least 1; 16 in
        the released code.  None: the offset does not grow (ReRoPE).
    """

    rope: RoPE
    _: KW_ONLY
    window: int
    factor: float | None = None

    relative = True

    def __post_init__(self) -> None:
        check_rope(self.rope)
        factor = self.factor
        if factor is not None:
            factor = validate.real("factor", factor, minimum=1.0, maximum=2.0**40)
        self._set(window=validate.integer("window", self.window, minimum=1), factor=factor)

    @property
    def telling_lengths(self) -> tuple[int, ...]:
        """The query has keys in the window, and about as many beyond it."""
        return (2 * self.window + 2,)

    def _farthest(self, last: int) -> float:
        if last <= self.window or self.factor is None:
            return min(last, self.window)
        return self.window + (last - self.window) / self.factor

    def _places(self, q_at: Array, k_at: Array) -> tuple[Array, Array]:
        xp, none = namespace(q_at), 0 * (q_at + k_at)
        near = q_at - k_at < self.window
        if self.factor is None:
            return xp.where(near, q_at, self.window + none), xp.where(near, k_at, none)
        q_at, k_at = (astype(at + none, xp.float64) for at in (q_at, k_at))
        q_far = (q_at + self.window * (self.factor - 1)) / self.factor
        return xp.where(near, q_at, q_far), xp.where(near, k_at, k_at / self.factor)
