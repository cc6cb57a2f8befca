"""xPos: RoPE with a decay by position on queries and its inverse on keys."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np

from . import _validate as validate
from ._arrays import dot
from ._namespace import (
    Array,
    astype,
    device_of,
    dtype_name,
    from_host,
    is_lazy,
    namespace,
    working_dtype,
)
from ._positions import broadcast_axes
from .angles import MAX_POSITION, decimal_context
from .limits import DIVISOR
from .rope import LAYOUT_ALIASES, LAYOUTS, layout_pairs
from .rotary import Rotary
from .schedules.scaling import standard_schedule

#: Largest finite number of each floating dtype.
_LARGEST = {
    "float64": float(np.finfo(np.float64).max),
    "float32": float(np.finfo(np.float32).max),
    "float16": float(np.finfo(np.float16).max),
    "bfloat16": float(np.finfo(np.float32).max),
}


@dataclass(frozen=True, eq=False, repr=False)
class XPos(Rotary):
    """Extrapolatable position embedding (xPos): RoPE times a decay of each pair.

    Formula
        ``zeta_k = (2k/d + gamma) / (1 + gamma)``, ``n = (p - centre) / scale_base``.  Pair k is
        rotated as in RoPE, then multiplied by ``zeta_k ** n`` in queries and by ``zeta_k ** -n`` in
        keys.  So the logit of a query at i and a key at j contains
        ``zeta_k ** ((i - j) / scale_base)``, which depends on i - j alone.
    Source
        Sun et al. 2022, *A Length-Extrapolatable Transformer*, arXiv:2212.10554, equation (12)
        and Algorithm 1, which centres positions only to avoid overflow.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``zeta_k ** n`` times the A of :class:`RoPE`,
        B = ``zeta_k ** n (|angle| + |n ln zeta_k|) hypot(x1, x2)``, both with -n in keys.  The
        second term of B allows for rounding the exponent.

    Queries and keys have different maps, and both change the norm of a vector, so ``apply``,
    ``inverse``, ``adjoint``, ``shift`` and ``matrix`` raise TypeError.  Keys grow without bound:
    with the paper's values, ``zeta_0 ** -n`` exceeds float32 about 36,000 positions after the
    centre, and ``apply_keys`` raises ValueError there.  ``apply_queries`` raises at the same
    distance before the centre.  ``scores`` takes the middle of its positions as the centre, which
    does not change the logits.

    Parameters
    ----------
    head_dim : int
        Size of x's last axis; even.
    layout : {"interleaved", "half"}
        Which channels form pair k; there is no default.
    base : float
        Greater than 1.
    scale_base : float
        The number of positions after which the exponent n grows by 1; 512 in the paper.
    gamma : float
        0.4 in the paper.
    centre : float
        The position without decay. Logits do not depend on the centre if queries and keys have the
        same.  Some libraries take the middle of the positions in each *call* as the centre.  Their
        logits are wrong with a KV cache, whose keys have the centres of earlier calls.
    """

    head_dim: int
    _: KW_ONLY
    layout: str
    base: float = 10000.0
    scale_base: float = 512.0
    gamma: float = 0.4
    centre: float = 0.0

    sign = 1

    def __post_init__(self) -> None:
        head_dim = validate.size("head_dim", self.head_dim, minimum=2)
        if head_dim % 2:
            raise ValueError(
                f"head_dim must be even (channels are rotated in pairs), got {head_dim}"
            )
        self._set(
            head_dim=head_dim,
            layout=validate.choice("layout", self.layout, LAYOUTS, LAYOUT_ALIASES),
            base=validate.real("base", self.base, above=1.0),
            scale_base=validate.real("scale_base", self.scale_base, above=0.0, minimum=DIVISOR),
            gamma=validate.real("gamma", self.gamma, above=0.0, maximum=2.0**40),
            centre=validate.real("centre", self.centre, maximum=MAX_POSITION),
        )

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return channels (2k, 2k+1), or (k, k + head_dim/2)."""
        return layout_pairs(self.layout, self.head_dim // 2, 0)

    def decimal_frequencies(self, seq_len: int | None = None) -> tuple[Decimal, ...]:
        """Return ``base ** (-2k / head_dim)``."""
        return standard_schedule(self.base, self.head_dim)

    def decays(self) -> np.ndarray:
        """Return ``zeta_k``, shape (pairs,), NumPy float64."""
        with decimal_context():
            gamma = Decimal(self.gamma)
            steps = [Decimal(2 * k) / self.head_dim for k in range(self.head_dim // 2)]
            return np.array([float((step + gamma) / (1 + gamma)) for step in steps])

    def apply_queries(self, x: Array, positions: Any) -> Array:
        """Return queries x (..., S, head_dim) rotated and multiplied by ``zeta ** n``.

        Computed in float64 and rounded once to x's dtype; positions as in :meth:`Rotary.apply`.
        Raises ValueError if the decay overflows x's dtype.
        """
        return self._decayed(x, positions, 1.0)

    def apply_keys(self, x: Array, positions: Any) -> Array:
        """Return keys x (..., S, head_dim) rotated and multiplied by ``zeta ** -n``."""
        return self._decayed(x, positions, -1.0)

    def _logits(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, scale: float
    ) -> Array:
        """Return ``apply_queries(q) . apply_keys(k) * scale``."""
        middle = self._centred(q_positions, k_positions)
        queries, keys = middle.apply_queries(q, q_positions), middle.apply_keys(k, k_positions)
        return dot(queries, keys, scale)

    def _centred(self, *positions: Any) -> XPos:
        """Return the encoding with the middle of the positions as its centre.

        If positions are lazy or empty, return the encoding unchanged.
        """
        seen = [self._positions(p).values for p in positions]
        if any(is_lazy(p) or 0 in p.shape for p in seen):
            return self
        ends = [float(f(p)) for p in seen for f in (namespace(p).min, namespace(p).max)]
        return self.replace(centre=(min(ends) + max(ends)) / 2)

    def _decayed(self, x: Array, positions: Any, power: float) -> Array:
        cos, sin, _ = self._tables_for(x, positions, None)
        p = self._positions(positions, x)
        here = namespace(p.values)
        n = (p.values - self.centre)[..., None] * (power / self.scale_base)
        self._check_size(n, dtype_name(x))
        size = here.exp(n * from_host(np.log(self.decays()), here, device_of(p.values)))
        xp, working = namespace(x), working_dtype(x)
        if here is np and xp is not np:
            narrow = size if working == xp.float64 else size.astype(np.float32)
            size = from_host(narrow, xp, device_of(x))
        size = astype(size, working)[broadcast_axes(p, x) or ...]
        return self._rotate(x, size * cos, size * sin)

    @property
    def properties(self) -> frozenset[str]:
        """The properties listed in :attr:`Rotary.properties` that hold.

        Logits depend on the offset alone, but norms change.
        """
        return frozenset({"relative-logits"})

    def _check_size(self, n: Array, dtype: str) -> None:
        """Raise ValueError for positions whose decay overflows x's dtype."""
        if is_lazy(n) or 0 in n.shape:
            return
        slowest = -float(np.log(self.decays()[0]))
        powers = float(np.log(_LARGEST[dtype])) / slowest
        if -float(namespace(n).min(n)) > powers:
            raise ValueError(
                f"positions must stay within {powers * self.scale_base:.0f} of centre = "
                f"{self.centre:g} for {dtype}, or zeta ** n overflows: set centre= to the "
                "middle of the positions (logits do not depend on it)"
            )

    def apply(self, x: Array, positions: Any, *, seq_len: int | None = None) -> NoReturn:
        """Raise TypeError: queries and keys have different maps."""
        raise TypeError("XPos treats queries and keys differently: use apply_queries or apply_keys")

    inverse = adjoint = apply

    def shift(self, x: Array, delta: Any, *, seq_len: int | None = None) -> NoReturn:
        """Raise TypeError: the shift of a key is not a rotation."""
        raise TypeError("XPos keys cannot be shifted, their norm depends on p: use apply_keys")

    def matrix(self, position: Any, *, seq_len: int | None = None) -> NoReturn:
        """Raise TypeError: queries and keys have different matrices."""
        raise TypeError("XPos has two matrices: use apply_queries or apply_keys on the identity")
