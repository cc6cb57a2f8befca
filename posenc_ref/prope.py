"""PRoPE: cameras and places in the image as a relative encoding of patches in several views."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from . import _validate as validate
from ._arrays import lookup, product, real_numbers
from ._cached import cached_property
from ._namespace import Array, astype, device_of, from_host, has_float64, namespace, widen
from ._positions import as_positions
from ._text import shown
from .accuracy import Truth
from .rope import RoPE
from .score import Score

#: What positions count, in messages.
_TOKENS = "the patches of all cameras"


@dataclass(frozen=True, eq=False, repr=False)
class PRoPE(Score):
    """Projective positional encoding.

    Formula
        ``A_ij = q_i^T D_i D_j^{-1} k_j / sqrt(d)`` and, for attention weights a, the output
        ``o_i = D_i sum_j a_ij D_j^{-1} v_j``.  D_i is block-diagonal: for the first d/2 channels
        the matrix P of the token's camera, repeated for every 4 channels; for the next d/4 the
        rotation by the column x of the patch, for the last d/4 by its row y.  The rotations are
        RoPE of d/4 channels with half-split pairs and the frequencies ``base ** (-8 k / d)`` for
        k = 0 .. d/8 - 1.  P maps world to image coordinates: ``P = [K 0; 0 1] [R t; 0 1]``
        (:meth:`of`).
    Source
        Li et al. 2025, *Cameras as Relative Positional Encoding*, arXiv:2507.10496, section 4;
        liruilong940607/prope, ``prope/per_img_camera.py``.  With P = [R t; 0 1], the camera part
        is that of GTA (Miyato et al. 2024, arXiv:2310.10375).
    Traps
        q is multiplied by ``P^T``, but k and v by ``P^{-1}``: P is no rotation, so these differ.
        The output of attention is multiplied by P: values carry positions too.  P maps world to
        camera; many data sets hold the opposite matrix.  K is divided by the size of the image, and
        0.5 is subtracted from its centre.  Tokens are ordered by camera, row and column; a comment
        of the released code says camera, ``patches_x``, ``patches_y``, its arithmetic has x
        fastest.  Its inverse of K assumes that K has no skew.  p-RoPE is another encoding:
        :class:`Proportional`.
    Error unit (see :mod:`posenc_ref.accuracy`)
        For q, A_y = the sum of ``|P^T| |q|`` over its four channels; for k, the sum of
        ``|P^{-1}| |P| |P^{-1}| |k|``, as P^{-1} is computed.  Rotated pairs have A_y and B_y as in
        :class:`RoPE`, with ``B_y = |angle| (|x1| + |x2|)``.  A = ``|scale|`` times the sum of
        ``A_q A_k`` over channels, B = ``|scale|`` times the sum of ``B_q A_k + A_q B_k``.

    Parameters
    ----------
    head_dim : int
        d, a multiple of 8.
    projections : array (C, 4, 4)
        P of each camera, finite and invertible.  Kept as a copy in float64.
    grid : tuple of int
        Rows and columns of patches of each image.  Token ``c h w + y w + x`` is the patch in row y
        and column x of camera c.
    base : float
        The base of the frequencies.
    """

    head_dim: int
    projections: np.ndarray
    _: KW_ONLY
    grid: tuple[int, int]
    base: float = 100.0

    relative = False
    holds_tokens = True

    def __post_init__(self) -> None:
        d = validate.size("head_dim", self.head_dim, minimum=8)
        if d % 8:
            raise ValueError(f"head_dim must be a multiple of 8, got {d}")
        p = real_numbers("projections", self.projections, "(C, 4, 4)")
        if p.ndim != 3 or p.shape[0] == 0 or p.shape[1:] != (4, 4):
            raise ValueError(f"projections must have shape (C, 4, 4), got {p.shape}")
        if not np.isfinite(p).all():
            raise ValueError("projections must be finite")
        singular = np.flatnonzero(np.linalg.matrix_rank(_scaled(p)) < 4)
        if singular.size:
            last = p[singular[0], 3]
            hint = "its upper left 3 x 3 part must be invertible"
            if last.tolist() != [0, 0, 0, 1]:
                hint = f"its last row must be 0, 0, 0, 1, got {', '.join(f'{n:g}' for n in last)}"
            raise ValueError(
                f"projections must be invertible, got a singular matrix for camera {singular[0]}: "
                f"{hint}"
            )
        grid = _two("grid", self.grid, "rows and columns")
        base = validate.real("base", self.base, above=1.0)
        self._set(head_dim=d, projections=p, grid=grid, base=base)

    @classmethod
    def of(
        cls,
        head_dim: int,
        viewmats: Array,
        intrinsics: Array,
        *,
        image_size: tuple[int, int],
        grid: tuple[int, int],
        base: float = 100.0,
    ) -> Self:
        """Return the encoding for cameras.

        Parameters
        ----------
        head_dim : int
            d.
        viewmats : array (C, 4, 4)
            ``[R t; 0 1]`` of each camera, from world to camera.
        intrinsics : array (C, 3, 3)
            K in pixels, from camera to image; its last row is 0, 0, 1.
        image_size : tuple of int
            Height and width of the images in pixels.
        grid, base
            As for the class.
        """
        view = real_numbers("viewmats", viewmats, "(C, 4, 4)")
        k = real_numbers("intrinsics", intrinsics, "(C, 3, 3)")
        if view.ndim != 3 or view.shape[1:] != (4, 4) or k.shape != (view.shape[0], 3, 3):
            raise ValueError(
                "viewmats and intrinsics must have shapes (C, 4, 4) and (C, 3, 3), got "
                f"{view.shape} and {k.shape}"
            )
        height, width = _two("image_size", image_size, "height and width")
        lifted = np.zeros_like(view)
        lifted[:, :3, :3] = k
        lifted[:, 0] /= width
        lifted[:, 1] /= height
        lifted[:, :2, 2] -= 0.5
        lifted[:, 3, 3] = 1.0
        return cls(head_dim, lifted @ view, grid=grid, base=base)

    @property
    def rows(self) -> int | None:
        """The number of tokens, those of all cameras."""
        return int(self.projections.shape[0]) * self.grid[0] * self.grid[1]

    @property
    def telling_lengths(self) -> tuple[int, ...]:
        """The number of tokens of two cameras: those of one do not show its matrix."""
        cameras = int(self.projections.shape[0])
        return (2 * self.grid[0] * self.grid[1],) if cameras > 1 else ()

    @cached_property
    def _inverses(self) -> np.ndarray:
        return np.linalg.inv(self.projections)

    @cached_property
    def _rope(self) -> RoPE:
        return RoPE(self.head_dim // 4, layout="half", base=self.base, sign=-1)

    def apply_queries(self, x: Array, positions: Any) -> Array:
        """Return ``D^T x`` of queries x (..., H, N, d) of the tokens ``positions`` (N,)."""
        return self._public(x, positions, np.swapaxes(self.projections, -1, -2))

    def apply_keys(self, x: Array, positions: Any) -> Array:
        """Return ``D^{-1} x`` of keys or values x (..., H, N, d) of the tokens (N,)."""
        return self._public(x, positions, self._inverses)

    def apply_output(self, x: Array, positions: Any) -> Array:
        """Return ``D x`` of the output x (..., H, N, d) of attention, for the queries' tokens."""
        return self._public(x, positions, self.projections, back=True)

    def _public(
        self, x: Array, positions: Any, matrices: np.ndarray, *, back: bool = False
    ) -> Array:
        self._check(x, x)
        p = as_positions(positions, integers=True, x=x)
        if p.shape != (int(x.shape[-2]),):
            raise ValueError(
                f"positions must have shape (N,) with N = {x.shape[-2]} tokens, got {p.shape}"
            )
        return astype(self._times(matrices, widen(x), p.values, back=back), x.dtype)

    def _times(
        self, matrices: np.ndarray, x: Array, positions: Array, *, back: bool = False
    ) -> Array:
        """Return x with the matrices (C, 4, 4) of its cameras, and its rotations, applied."""
        xp: Any = namespace(x)
        d = self.head_dim
        first = self._projected(matrices, x[..., : d // 2], positions)
        turn = self._rope.inverse if back else self._rope.apply
        row, column = self._places(positions)
        along_x = turn(x[..., d // 2 : 3 * d // 4], column)
        return xp.concat([first, along_x, turn(x[..., 3 * d // 4 :], row)], axis=-1)

    def _places(self, positions: Array) -> tuple[Array, Array]:
        """Return the row and the column of the tokens."""
        height, width = self.grid
        return positions // width % height, positions % width

    def _projected(self, matrices: np.ndarray, x: Array, positions: Array) -> Array:
        xp: Any = namespace(x)
        table = np.repeat(matrices.reshape(-1, 16), self.grid[0] * self.grid[1], axis=0)
        if xp is not np:
            narrow = table if has_float64(xp, device_of(x)) else table.astype(np.float32)
            table = from_host(narrow, xp, device_of(x))
        rows = astype(lookup("positions", table, positions, of=_TOKENS), x.dtype)
        each = xp.reshape(rows, (int(positions.shape[0]), 1, 4, 4))
        part = xp.reshape(x, (*x.shape[:-1], self.head_dim // 8, 1, 4))
        return xp.reshape(xp.sum(each * part, axis=-1), x.shape)

    def _of_pairs(
        self, q: Array, k: Array, q_at: Array, k_at: Array, scale: float
    ) -> dict[str, Array]:
        of_q = self._times(np.swapaxes(self.projections, -1, -2), q, q_at[:, 0])
        return {
            "content-content": product(of_q, self._times(self._inverses, k, k_at[0, :])) * scale
        }

    def _truths(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray, scale: float
    ) -> dict[str, Truth]:
        """Return the logits with A and B of their error unit."""
        ((name, value),) = self._of_pairs(q, k, q_at, k_at, scale).items()
        p, inverse = np.abs(self.projections), np.abs(self._inverses)
        a_q, b_q = self._size(q, q_at[:, 0], np.swapaxes(p, -1, -2))
        a_k, b_k = self._size(k, k_at[0, :], inverse @ p @ inverse)
        a, b = product(a_q, a_k), product(b_q, a_k) + product(a_q, b_k)
        return {name: Truth(np.asarray(value), a * abs(scale), b * abs(scale))}

    def _size(
        self, x: np.ndarray, positions: np.ndarray, matrices: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return A_y and B_y of the channels."""
        x, d, theta = np.abs(x), self.head_dim, self._rope.frequencies()
        parts = [self._projected(matrices, x[..., : d // 2], positions)]
        swings = [np.zeros_like(parts[0])]
        for at, start in zip(self._places(positions)[::-1], (d // 2, 3 * d // 4), strict=True):
            one, two = x[..., start : start + d // 8], x[..., start + d // 8 : start + d // 4]
            angle = at[:, None] * theta
            c, s = np.abs(np.cos(angle)), np.abs(np.sin(angle))
            parts += [one * c + two * s, two * c + one * s]
            swings += [angle * (one + two)] * 2
        return np.concatenate(parts, axis=-1), np.concatenate(swings, axis=-1)


def _two(name: str, value: Any, what: str) -> tuple[int, ...]:
    """Return two positive integers; ``what`` names them in the message."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name} must be two integers, {what}, got {shown(value)}")
    return tuple(validate.size(f"{name}[{n}]", side) for n, side in enumerate(value))


def _scaled(matrices: np.ndarray) -> np.ndarray:
    """Return matrices whose rows, and then columns, have the largest size 1.

    Their rank says whether P is singular: that of P itself would say it of a camera far away too.
    """
    for axis in (-1, -2):
        size = np.abs(matrices).max(axis=axis, keepdims=True)
        matrices = matrices / np.where(size > 0, size, 1.0)
    return matrices
