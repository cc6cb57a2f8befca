"""LieRE: rotations by the exponential of a learned linear map of the coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import lookup, product, real_numbers
from ._cached import cached_property
from ._namespace import Array, astype, device_of, from_host, has_float64, namespace, widen
from ._positions import as_positions
from .accuracy import Truth
from .score import Score

#: What positions count, in messages.
_TOKENS = "the tokens of coordinates"
#: The largest exponent; the squares in its norm must be finite in float64.
_LARGEST = 1e150


@dataclass(frozen=True, eq=False, repr=False)
class LieRE(Score):
    """Lie rotational position encodings of tokens with coordinates.

    Formula
        ``R(p) = exp(sum over axes a of p_a G_a)``, the matrix exponential, for each block of n
        channels, ``G_a = U_a - U_a^T``, U_a the part of ``generators[a]`` above the diagonal.
        ``A_ij = (R(p_i) q_i) . (R(p_j) k_j) / sqrt(d)``, where p_i are the coordinates of token i.
    Source
        Ostmeier et al. 2025, *LieRE: Lie Rotational Positional Encodings*, arXiv:2406.10322;
        StanfordMIMI/LieRE, ``models/rope_vit.py``.
    Traps
        G is skew-symmetric, so R(p) is a rotation and norms do not change.  Logits depend on
        ``p_j - p_i`` alone only if the generators of all axes commute: with one axis, or with
        blocks of 2 channels, where this is :class:`MixedRoPE`.  Otherwise
        ``exp(p_0 G_0 + p_1 G_1)`` is not ``exp(p_0 G_0) exp(p_1 G_1)``.  The authors' coordinates
        run from 0 to 1 over the image (the last patch has 1), and the class token has 0.  Their
        code subtracts 0.5 from U_a, which has no effect, as G_a is a difference.  The exponential
        needs float32 or better: round its result, not the exponent, to the dtype of the model.
    Error unit (see :mod:`posenc_ref.accuracy`)
        ``A_y`` of a rotated channel = the sum of ``|R| |x|`` over its block, ``B_y`` = the sum of
        ``|x|`` over the block times the Frobenius norm of ``sum over a of |p_a G_a|``; a channel
        outside all blocks has ``A_y = |x|, B_y = 0``.  A = ``|scale|`` times the sum of
        ``A_q A_k`` over channels, B = ``|scale|`` times the sum of ``B_q A_k + A_q B_k``.

    Parameters
    ----------
    head_dim : int
        d.
    generators : array (A, H, B, n, n)
        One matrix for each axis, head and block, finite, B n <= d, at most 1e150 times a
        coordinate.  Only the part above the diagonal counts.  H = 1: all heads share them.  Block
        b has the channels b n .. b n + n - 1; channels from B n on are not rotated.  Kept as a
        copy in float64.
    coordinates : array (S, A)
        The coordinates of the tokens at positions 0 .. S - 1, finite.  Kept as a copy in float64.
    """

    head_dim: int
    generators: np.ndarray
    coordinates: np.ndarray

    relative = False
    holds_tokens = True

    def __post_init__(self) -> None:
        d = validate.size("head_dim", self.head_dim, minimum=2)
        g = real_numbers("generators", self.generators, "(A, H, B, n, n)")
        if g.ndim != 5 or 0 in g.shape or g.shape[3] != g.shape[4] or g.shape[2] * g.shape[3] > d:
            raise ValueError(
                f"generators must have shape (A, H, B, n, n) with B n <= head_dim = {d}, "
                f"got {g.shape}"
            )
        p = real_numbers("coordinates", self.coordinates, "(S, A)")
        if p.ndim != 2 or p.shape[0] == 0 or p.shape[1] != g.shape[0]:
            raise ValueError(
                f"coordinates must have shape (S, A) with the A = {g.shape[0]} axes of generators, "
                f"got {p.shape}"
            )
        for name, values in (("generators", g), ("coordinates", p)):
            if not np.isfinite(values).all():
                raise ValueError(f"{name} must be finite")
        far = np.abs(p).max(axis=0) * np.abs(np.triu(g, 1)).max(axis=(1, 2, 3, 4)) / _LARGEST
        if far.sum() > 1:
            raise ValueError(
                f"generators times coordinates must be at most {_LARGEST:g} in size, got "
                f"numbers up to {np.abs(g).max():g} and {np.abs(p).max():g}"
            )
        self._set(head_dim=d, generators=g, coordinates=p)

    @property
    def heads(self) -> int | None:
        """The number of heads H of the generators, or None if all heads share them."""
        return None if self.generators.shape[1] == 1 else int(self.generators.shape[1])

    @property
    def rows(self) -> int | None:
        """The number of tokens S."""
        return int(self.coordinates.shape[0])

    @property
    def blocks(self) -> tuple[int, int]:
        """The number B of blocks, and the number n of channels of each."""
        return int(self.generators.shape[2]), int(self.generators.shape[3])

    def skew(self) -> np.ndarray:
        """Return the skew-symmetric generators G, shape (A, H, B, n, n), float64."""
        upper = np.triu(self.generators, 1)
        return np.asarray(upper - np.swapaxes(upper, -1, -2))

    def matrices(self) -> np.ndarray:
        """Return R(p) of every token, shape (S, H, B, n, n), NumPy float64."""
        return self._matrices.copy()

    @cached_property
    def _matrices(self) -> np.ndarray:
        # X is skew-symmetric, so i X is Hermitian: i X = V w V^H and exp(X) = V exp(-i w) V^H.
        w, v = np.linalg.eigh(1j * np.tensordot(self.coordinates, self.skew(), axes=1))
        turned = v * np.exp(-1j * w)[..., None, :]
        return np.asarray((turned @ np.conj(np.swapaxes(v, -1, -2))).real)

    def apply(self, x: Array, positions: Any) -> Array:
        """Return queries or keys x (..., H, N, d) rotated for tokens ``positions`` (N,)."""
        self._check(x, x)
        p = as_positions(positions, integers=True, x=x)
        if p.shape != (int(x.shape[-2]),):
            raise ValueError(
                f"positions must have shape (N,) with N = {x.shape[-2]} tokens, got {p.shape}"
            )
        return astype(self._rotated(widen(x), p.values), x.dtype)

    def _rotated(self, x: Array, positions: Array) -> Array:
        return self._times(self._matrices, x, positions)

    def _times(self, matrices: np.ndarray, x: Array, positions: Array) -> Array:
        """Return x (..., H, N, d) with its blocks multiplied by ``matrices`` (S, H, B, n, n)."""
        xp: Any = namespace(x)
        (count, n), shape = self.blocks, matrices.shape
        flat = matrices.reshape(shape[0], -1)
        if xp is not np:
            narrow = flat if has_float64(xp, device_of(x)) else flat.astype(np.float32)
            flat = from_host(narrow, xp, device_of(x))
        rows = astype(lookup("positions", flat, positions, of=_TOKENS), x.dtype)
        r = xp.moveaxis(xp.reshape(rows, (int(positions.shape[0]), *shape[1:])), 0, 1)
        part = xp.reshape(x[..., : count * n], (*x.shape[:-1], count, 1, n))
        y = xp.sum(r * part, axis=-1)  # (..., H, N, B, n)
        y = xp.reshape(y, (*x.shape[:-1], count * n))
        return xp.concat([y, x[..., count * n :]], axis=-1)

    def _of_pairs(
        self, q: Array, k: Array, q_at: Array, k_at: Array, scale: float
    ) -> dict[str, Array]:
        rotated = self._rotated(q, q_at[:, 0]), self._rotated(k, k_at[0, :])
        return {"content-content": product(*rotated) * scale}

    def _truths(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray, scale: float
    ) -> dict[str, Truth]:
        """Return the logits with A and B of their error unit."""
        ((name, value),) = self._of_pairs(q, k, q_at, k_at, scale).items()
        (a_q, b_q), (a_k, b_k) = self._size(q, q_at[:, 0]), self._size(k, k_at[0, :])
        a, b = product(a_q, a_k), product(b_q, a_k) + product(a_q, b_k)
        return {name: Truth(np.asarray(value), a * abs(scale), b * abs(scale))}

    def _size(self, x: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return A_y and B_y of the rotated channels."""
        size, (count, n) = np.abs(x), self.blocks
        a = self._times(np.abs(self._matrices), size, positions)
        terms = np.tensordot(np.abs(self.coordinates), np.abs(self.skew()), axes=1)
        norm = np.sqrt(np.sum(terms * terms, axis=(-2, -1), keepdims=True))
        b = self._times(norm + 0 * terms, size, positions)
        b[..., count * n :] = 0.0
        return a, b
