"""Sinusoidal position tables: the form in the Transformer paper and its variants."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from . import _validate as validate
from ._cached import cached_property
from ._namespace import Array, Namespace, from_host
from ._positions import Positions, as_positions
from .accuracy import Truth
from .angles import MAX_POSITION, Turns, decimal_context, geometric, tables, turns
from .table import PAIRED, ComputedTable

LAYOUTS = ("interleaved", "concat")


@dataclass(frozen=True, eq=False, repr=False)
class Sinusoidal(ComputedTable):
    """Sinusoidal position encoding.

    Formula
        ``omega_k = base ** (-k/n)`` for pair k, with n set by ``denominator``;
        ``angle = position_scale * (p + offset) * omega_k``;
        ``PE(p) = scale * [sin angle, cos angle]``, the pairs arranged by ``layout`` and ``first``.
        The paper: ``PE(p, 2k) = sin(p / 10000**(2k/d))``, ``PE(p, 2k+1) = cos(...)``.
    Source
        Vaswani et al. 2017, *Attention Is All You Need*, arXiv:1706.03762, section 3.5.
        The authors' own code, tensor2tensor, has ``denominator="half-1"`` and ``layout="concat"``
        instead; fairseq and Whisper follow that code.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = |value|, B = ``|angle| |scale|``; a column of zeros has A = B = 0.

    Parameters
    ----------
    dim : int
        The number of columns.
    base : float
        Longest timescale, greater than 1.
    layout : {"interleaved", "concat"}
        "interleaved": the sine and the cosine of a pair are adjacent columns.  "concat": all sines
        come before all cosines.
    first : {"sin", "cos"}
        "cos" exchanges sines and cosines in ``layout``, as MusicGen and diffusion timesteps do.
    denominator : {"dim", "half-1"} or float
        "dim" means n = dim/2, "half-1" means n = dim//2 - 1, and a number is n itself (diffusion
        models: ``dim//2 - downscale_freq_shift``).
    offset, position_scale, scale : float
        As in the formula.  In fairseq, positions start at padding_idx + 1.
    odd : {"raise", "extra-sin", "zero-pad"}
        What an odd dim does.  "raise" raises ValueError, "extra-sin" adds a sine column without a
        cosine (XLM, Marian), and "zero-pad" adds a last column of zeros (fairseq, tensor2tensor).
    """

    dim: int
    _: KW_ONLY
    base: float = 10000.0
    layout: str = "interleaved"
    first: str = "sin"
    denominator: str | float = "dim"
    offset: float = 0
    position_scale: float = 1.0
    scale: float = 1.0
    odd: str = "raise"

    def __post_init__(self) -> None:
        odd = validate.choice("odd", self.odd, ("raise", "extra-sin", "zero-pad"))
        dim = validate.size("dim", self.dim, minimum=1 if odd == "extra-sin" else 2)
        if dim % 2 and odd == "raise":
            raise ValueError(f"dim must be even unless odd='extra-sin' or 'zero-pad', got {dim}")
        denominator: Any = self.denominator
        if isinstance(denominator, str):
            validate.choice(
                "denominator", denominator, ("dim", "half-1"), {"d": "dim", "half": "dim"}
            )
            if denominator == "half-1" and dim < 4:
                raise ValueError(f"denominator 'half-1' (dim//2 - 1) needs dim >= 4, got dim {dim}")
        else:
            denominator = validate.real("denominator", denominator, above=0.0)
        first = validate.choice("first", self.first, ("sin", "cos"))
        if odd == "extra-sin" and dim % 2 and first == "cos":
            raise ValueError(
                "first must be 'sin' if dim is odd and odd='extra-sin', which adds a sine column, "
                "got 'cos'"
            )
        offset = validate.real("offset", self.offset)
        position_scale = validate.real(
            "position_scale", self.position_scale, above=0.0, maximum=MAX_POSITION
        )
        if abs(offset) * max(1.0, position_scale) > MAX_POSITION:
            raise ValueError(
                "offset and offset * position_scale must be within -2**40 .. 2**40, got "
                f"offset = {offset:g} and position_scale = {position_scale:g}"
            )
        self._set(
            dim=dim,
            odd=odd,
            denominator=denominator,
            base=validate.real("base", self.base, above=1.0),
            layout=validate.choice(
                "layout", self.layout, LAYOUTS, {"half": "concat", "split": "concat"}
            ),
            first=first,
            offset=offset,
            position_scale=position_scale,
            scale=validate.real("scale", self.scale),
        )

    @property
    def properties(self) -> frozenset[str]:
        """All properties that :class:`Table` lists, or none if a sine column has no cosine."""
        return frozenset() if self.dim % 2 and self.odd == "extra-sin" else PAIRED

    def decimal_frequencies(self) -> tuple[Decimal, ...]:
        """Return ``position_scale * base ** (-k/n)`` in 50-digit decimal, one per pair."""
        return self._decimals

    @cached_property
    def _decimals(self) -> tuple[Decimal, ...]:
        pairs = (self.dim + 1) // 2 if self.odd == "extra-sin" else self.dim // 2
        with decimal_context():
            if self.denominator == "dim":
                n = Decimal(self.dim) / 2
            elif self.denominator == "half-1":
                n = Decimal(self.dim // 2 - 1)
            else:
                n = Decimal(self.denominator)
            waves = geometric(self.base, [Decimal(k) / n for k in range(pairs)])
            return tuple(Decimal(self.position_scale) * w for w in waves)

    def frequencies(self) -> np.ndarray:
        """Return ``position_scale * omega_k``, radians per position, NumPy float64."""
        return np.array(self._floats)

    @cached_property
    def _floats(self) -> tuple[float, ...]:
        return tuple(map(float, self.decimal_frequencies()))

    def truth(self, positions: Any) -> Truth:
        """Return the table with the coefficients A and B of its rounding error."""
        value = self.table(np.asarray(positions))
        sin_at, cos_at = self.columns()
        at = np.asarray(positions, np.float64)[..., None] + self.offset
        size = np.abs(at * self.frequencies()) * abs(self.scale)
        angle, amplitude = np.zeros_like(value), np.zeros(self.dim)
        angle[..., sin_at], angle[..., cos_at] = size, size[..., : cos_at.size]
        amplitude[sin_at] = amplitude[cos_at] = abs(self.scale)
        return Truth(value, np.abs(value), angle, amplitude)

    def shift_matrix(self, k: float) -> np.ndarray:
        """Return the matrix M(k) (dim, dim) such that ``PE(p + k) = M(k) PE(p)``; NumPy float64.

        Each (sin, cos) pair is rotated by ``k * omega``: ``[[c, s], [-s, c]]``. Raises ValueError
        if an extra sine column has no cosine, because M(k) does not exist then.
        """
        if self.dim % 2 and self.odd == "extra-sin":
            raise ValueError(
                "shift_matrix needs a cosine for every sine, which odd='extra-sin' does not give"
            )
        sin_at, cos_at = self.columns()
        shift = self._positions(validate.real("k", k)).values
        cos, sin = tables(shift, self._turns, xp=np)
        matrix = np.zeros((self.dim, self.dim))
        matrix[sin_at, sin_at] = matrix[cos_at, cos_at] = cos[0]
        matrix[sin_at, cos_at], matrix[cos_at, sin_at] = sin[0], -sin[0]
        return matrix

    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the column numbers of the sines and those of the cosines, by pair."""
        cosines = self.dim // 2
        sines = (self.dim + 1) // 2 if self.odd == "extra-sin" else cosines
        if self.layout == "interleaved":
            one, two = 2 * np.arange(sines), 2 * np.arange(cosines) + 1
        else:
            one, two = np.arange(sines), sines + np.arange(cosines)
        return (one, two) if self.first == "sin" else (two, one)

    def _positions(self, positions: Any, x: Array | None = None) -> Positions:
        return as_positions(positions, x=x, largest=MAX_POSITION / max(1.0, self._turns.fastest))

    @cached_property
    def _turns(self) -> Turns:
        return turns(self.decimal_frequencies())

    def _rows(self, p: Positions, xp: Namespace, device: Any) -> Array:
        cos, sin = tables(p.values, self._turns, xp=xp, device=device, offset=self.offset)
        sin_at, cos_at = self.columns()
        cos = cos[..., : cos_at.size]
        parts = [sin, cos]
        if self.dim % 2 and self.odd == "zero-pad":
            parts.append(xp.zeros_like(cos[..., :1]))
        order = np.concatenate([sin_at, cos_at, np.arange(sin_at.size + cos_at.size, self.dim)])
        rows = xp.concat(parts, axis=-1)
        rows = rows if self.scale == 1.0 else rows * self.scale
        return xp.take(rows, from_host(np.argsort(order), xp, device), axis=-1)
