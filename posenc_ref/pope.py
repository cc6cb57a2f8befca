"""PoPE: q and k determine the magnitudes of a logit's terms, positions determine their angles."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import check_numbers, like
from ._cached import cached_property
from ._namespace import Array, astype, device_of, namespace, to_host
from ._network import sigmoid, softplus
from .accuracy import Truth
from .score import Score
from .sinusoidal import Sinusoidal


@dataclass(frozen=True, eq=False, repr=False)
class PoPE(Score):
    """Polar coordinate positional embedding.

    Formula
        ``A_ij = sum over c of softplus(q_ic) softplus(k_jc) cos((j - i) theta_c + delta_hc) /
        sqrt(d)``, ``theta_c = base ** (-c/d)`` in radians per position, c = 0 .. d - 1.
    Source
        Gopalakrishnan, Csordas, Schmidhuber, Mozer 2025, *Decoupling the "What" and "Where" With
        Polar Coordinate Positional Embeddings*, arXiv:2509.10534; x-transformers,
        ``polar_pos_emb``.
    Traps
        Every channel has a frequency: d of them, where RoPE has d/2.  softplus is positive, so only
        the position changes the sign of a term.  Attention kernels take the vectors
        ``[softplus(x) cos, softplus(x) sin]`` of size 2d, and scale by 1/sqrt(2d) unless the caller
        passes 1/sqrt(d).  delta is added to the keys' angles; x-transformers clamps it to
        [-2 pi, 0] in every call.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|scale|`` times the sum of ``s(q) s(k) |cos|``, B = ``|scale|`` times the sum of
        ``s(q) s(k) (|(j - i) theta| + |delta|)``, with ``s(x) = softplus(x) + sigmoid(x) |x|``.

    Parameters
    ----------
    head_dim : int
        d.
    phases : array (H, d), real floating, optional
        delta, in radians; None means 0.
    base : float
        The base of the frequencies.

    Notes
    -----
    This class evaluates the definition directly: it stores H Q K d numbers.
    """

    head_dim: int
    phases: Array | None = None
    _: KW_ONLY
    base: float = 10000.0

    integers = False

    def __post_init__(self) -> None:
        self._set(
            head_dim=validate.size("head_dim", self.head_dim, minimum=1),
            base=validate.real("base", self.base, above=1.0),
        )
        if self.phases is not None:
            check_numbers("phases", self.phases, "H", self.head_dim)

    @property
    def heads(self) -> int | None:
        """The number of heads, which is the number of rows of the phases; None without phases."""
        return None if self.phases is None else int(self.phases.shape[0])

    @cached_property
    def _waves(self) -> Sinusoidal:
        """``[sin(p theta) | cos(p theta)]`` with d frequencies."""
        return Sinusoidal(2 * self.head_dim, layout="concat", base=self.base)

    def frequencies(self) -> np.ndarray:
        """Return the frequencies theta (d,), float64, in radians per position."""
        return self._waves.frequencies()

    def _of_offset(self, q: Array, k: Array, r: Array, scale: float) -> dict[str, Array]:
        pairs = softplus(q)[..., :, None, :] * softplus(k)[..., None, :, :]
        xp: Any = namespace(q)
        return {"content-content": xp.sum(pairs * self._cosines(r, q), axis=-1) * scale}

    def _cosines(self, r: Array, q: Array) -> Array:
        """Return ``cos(r theta + delta)`` for relative positions r: (Q, K, d) or (H, Q, K, d)."""
        xp = namespace(q) if isinstance(r, np.ndarray) else None
        rows = astype(self._waves.table(r, xp=xp, device=device_of(q)), q.dtype)
        sin, cos = rows[..., : self.head_dim], rows[..., self.head_dim :]
        if self.phases is None:
            return cos
        xp = namespace(q)
        delta = like("phases", self.phases, q)[:, None, None, :]
        return cos * xp.cos(delta) - sin * xp.sin(delta)

    def _truths(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray, scale: float
    ) -> dict[str, Truth]:
        """Return the logits with A and B of their error unit."""
        r = k_at - q_at
        ((name, value),) = self._of_offset(q, k, r, scale).items()
        of_q, of_k = (softplus(x) + np.abs(x) * sigmoid(x) for x in (q, k))
        pairs = of_q[..., :, None, :] * of_k[..., None, :, :] * abs(scale)
        angle = np.abs(r[..., None] * self.frequencies())
        if self.phases is not None:
            delta = np.abs(np.asarray(to_host(self.phases), np.float64))
            angle = angle + delta[:, None, None, :]
        terms = np.sum(pairs * np.abs(self._cosines(r, q)), axis=-1)
        return {name: Truth(np.asarray(value), terms, np.sum(pairs * angle, axis=-1))}
