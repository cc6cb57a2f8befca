"""Sandwich: the inner product of sinusoids as a bias."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal

import numpy as np

from . import _validate as validate
from ._cached import cached_property
from ._namespace import Array, device_of, from_host, namespace
from .accuracy import Truth
from .angles import Turns, decimal_context, geometric, tables, turns
from .bias import Bias


@dataclass(frozen=True, eq=False, repr=False)
class Sandwich(Bias):
    """Sandwich: sinusoidal position embeddings reduced to their inner product.

    Formula
        ``b_h(i, j) = (sum_k cos((i - j) / base ** (2k/dim)) - dim/2) / (8h / H)`` for k = 1 ..
        dim/2 and h = 1 .. H, added to ``q . k / sqrt(d)``.
    Source
        Chi et al. 2022, *Dissecting Transformer Length Extrapolation*, arXiv:2212.10356, section 5.
    Traps
        k starts at 1; the sinusoids of the Transformer start at 0. The term ``dim/2`` is the same
        for all keys of a query, so softmax ignores it; ``posenc_ref.conformance.check`` also
        accepts a bias that differs by a constant for each query. The sum does not decrease
        monotonically with the distance.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``(sum of |cos| + dim/2) H / 8h``, B = ``(sum of |i - j| / base ** (2k/dim)) H / 8h``.

    Parameters
    ----------
    num_heads, dim : int
        dim is even and need not be the model's; 128 is the best in the paper.
    base : float
    causal : bool
        True: queries attend only to keys j <= i, as in the paper.
    """

    num_heads: int
    dim: int = 128
    _: KW_ONLY
    base: float = 10000.0
    causal: bool = True

    up_to_constant = True
    holds = frozenset({"symmetric", "zero-at-own"})  # no decay: it is not monotonic

    def __post_init__(self) -> None:
        dim = validate.size("dim", self.dim, minimum=2)
        if dim % 2:
            raise ValueError(f"dim must be even, got {dim}")
        self._set(
            num_heads=validate.size("num_heads", self.num_heads, minimum=1),
            dim=dim,
            base=validate.real("base", self.base, above=1.0),
            causal=validate.boolean("causal", self.causal),
        )

    @property
    def sees_future(self) -> bool:
        """Whether queries attend to later keys; False for a causal bias."""
        return not self.causal

    def decimal_frequencies(self) -> tuple[Decimal, ...]:
        """Return ``base ** (-2k/dim)`` for k = 1 .. dim/2, in 50-digit decimal."""
        with decimal_context():
            exponents = [Decimal(2 * k) / self.dim for k in range(1, self.dim // 2 + 1)]
            return tuple(geometric(self.base, exponents))

    @cached_property
    def _turns(self) -> Turns:
        return turns(self.decimal_frequencies())

    def _divisors(self) -> np.ndarray:
        """Return the divisors ``8h / H``, (H, 1, 1)."""
        return 8.0 * np.arange(1, self.num_heads + 1)[:, None, None] / self.num_heads

    def _of_offset(self, offset: Array) -> Array:
        xp, device = namespace(offset), device_of(offset)
        cos, _ = tables(offset, self._turns, xp=xp, device=device)
        total = xp.sum(cos, axis=-1) - self.dim / 2
        return xp.expand_dims(total, axis=-3) / from_host(self._divisors(), xp, device)

    def _truth_of(self, offsets: np.ndarray) -> Truth:
        plain = super()._truth_of(offsets)
        cos, _ = tables(offsets, self._turns, xp=np)
        size = np.abs(cos).sum(axis=-1) + self.dim / 2
        waves = float(sum(self.decimal_frequencies()))
        divisors = self._divisors()[:, 0]
        return Truth(plain.value, size / divisors, np.abs(offsets) * waves / divisors)
