"""FoPE: cos and sin of RoPE replaced by learned sums of cosines and of sines."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import check_numbers, dot, like
from ._cached import cached_property
from ._namespace import (
    Array,
    astype,
    class_of,
    device_of,
    finish,
    has_float64,
    is_array,
    namespace,
    to_host,
    widen,
)
from ._positions import as_positions, target
from .accuracy import Truth
from .angles import Turns, geometric, tables, turns
from .rotary import turn
from .score import Score


@dataclass(frozen=True, eq=False, repr=False)
class FoPE(Score):
    """Fourier position embedding.

    Formula
        ``y1 = x1 C - x2 S``, ``y2 = x2 C + x1 S`` for pair d, the channels d and d + head_dim/2;
        ``C_hd(p) = sum over k of cos_coef[h, k, d] cos(p theta_k)``,
        ``S_hd(p) = sum over k of sin_coef[h, k, d] sin(p theta_k)``,
        ``theta_k = base ** (-2k/head_dim)`` in radians per position, k = 0 .. K - 1.  The pairs
        d >= D are dropped: there C = 1 and S = ``dropped_sin``.  The logits are
        ``y_i . y_j / sqrt(head_dim)`` for the mapped query y_i and the mapped key y_j.
    Source
        Hua et al. 2024, *Fourier Position Embedding*, arXiv:2412.17739, section 4; Intern-S1-Pro,
        arXiv:2603.25040, as trained by XTuner (``FourierEmbedding``) and served by SGLang and vLLM
        (``FourierRotaryEmbedding``).
    Traps
        The map is no rotation: norms change, the inverse is not the map at -p, and logits depend on
        both positions, not on their difference alone.  The paper gives dropped pairs the frequency
        0, so C = 1 and S = 0; its released code, XTuner and SGLang fill C and S with 1, which
        doubles the dropped part of every logit.  vLLM changed from 1 to 0 (vllm#55204, #55243): a
        checkpoint needs the value it was trained with.  The paper's code divides each column of
        the coefficients by its sum; divide before you pass them.  If key heads are shared by
        groups of query heads, a query head has the coefficients of its key head.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A and B of C are the sums of ``|cos_coef cos(p theta)|`` and ``|cos_coef p theta|``, those
        of S likewise.  A of a logit sums the products of the A of y_i and y_j, B the products of
        the B of one and the A of the other, both times ``|scale|``.

    Parameters
    ----------
    head_dim : int
        Size of a head, even.
    cos_coef, sin_coef : array (H, K, D), real floating
        The learned coefficients, with K <= head_dim/2 and D <= head_dim/2; H = 1 if all heads share
        them.
    base : float
        The base of the frequencies.
    dropped_sin : {0, 1}
        S of the dropped pairs; there is no default.
    """

    head_dim: int
    cos_coef: Array
    sin_coef: Array
    _: KW_ONLY
    dropped_sin: int
    base: float = 10000.0

    integers = False
    relative = False

    def __post_init__(self) -> None:
        head_dim = validate.size("head_dim", self.head_dim, minimum=2)
        if head_dim % 2:
            raise ValueError(f"head_dim must be even, got {head_dim}")
        shape = check_numbers("cos_coef", self.cos_coef, "H", "K", "D").shape
        if max(shape[1:]) > head_dim // 2:
            raise ValueError(
                f"cos_coef must have shape (H, K, D) with K and D at most head_dim / 2 = "
                f"{head_dim // 2}, got {tuple(shape)}"
            )
        check_numbers("sin_coef", self.sin_coef, *shape)
        self._set(
            head_dim=head_dim,
            dropped_sin=validate.choice("dropped_sin", self.dropped_sin, (0, 1)),
            base=validate.real("base", self.base, above=1.0),
        )

    @property
    def heads(self) -> int | None:
        """The number H of heads that have coefficients; None if all heads share them."""
        count = int(self.cos_coef.shape[0])
        return None if count == 1 else count

    def frequencies(self) -> np.ndarray:
        """Return the kept frequencies theta (K,), float64, in radians per position."""
        return np.array([float(w) for w in self._kept])

    @cached_property
    def _kept(self) -> tuple[Decimal, ...]:
        steps = range(int(self.cos_coef.shape[1]))
        return geometric(self.base, [Decimal(2 * k) / self.head_dim for k in steps])

    @cached_property
    def _turns(self) -> Turns:
        return turns(self._kept)

    def cos_sin(self, positions: Any, *, dtype: Any = None) -> tuple[Array, Array]:
        """Return C and S, each (..., H, S, head_dim/2), for positions (..., S).

        They are float64 unless ``dtype=`` is given, in the library of ``positions``.
        """
        p = as_positions(positions)
        xp, device = target(p)
        wide = xp.float64 if has_float64(xp, device) else xp.float32
        cos, sin = self._mixed(p.values, xp.zeros((), dtype=wide, device=device))
        return finish(cos, dtype), finish(sin, dtype)

    def apply(self, x: Array, positions: Any) -> Array:
        """Map ``x`` (..., N, S, head_dim), queries or keys, at positions (S,).

        Positions may be (B, S) if x is (B, N, S, head_dim).
        N is a multiple of H: heads N/H h .. N/H (h + 1) - 1 have the coefficients of head h.  The
        result is computed in float64 (float32 if x's device has no float64), then cast to x's
        dtype.
        """
        validate.check_x(x, self.head_dim, "head_dim")
        self._check_heads("x", x)
        p = as_positions(positions, x=x)
        rows = (x.shape[0], x.shape[-2]) if x.ndim == 4 else None
        if p.shape not in ((x.shape[-2],), rows):
            raise ValueError(
                f"positions must have shape (S,), or (B, S) for x (B, N, S, d), with x of shape "
                f"{tuple(x.shape)}, got {p.shape}"
            )
        return astype(self._mapped(widen(x), p.values), x.dtype)

    def _mapped(self, x: Array, at: Array) -> Array:
        """Return y for x (..., N, S, head_dim) at positions (S,) or (B, S)."""
        xp = namespace(x)
        cos, sin = self._mixed(at, x)
        group = int(x.shape[-3]) // int(cos.shape[-3])
        if group > 1:
            cos, sin = (xp.repeat(t, group, axis=-3) for t in (cos, sin))
        half = self.head_dim // 2
        return xp.concat(turn(x[..., :half], x[..., half:], cos, sin), axis=-1)

    def _mixed(self, at: Array, x: Array) -> tuple[Array, Array]:
        """Return C and S (..., H, S, head_dim/2) at positions (..., S), in the dtype of ``x``."""
        xp, device = namespace(x), device_of(x)
        found = []
        waves = tables(at, self._turns, xp=xp, device=device, dtype=x.dtype)
        for name, wave, rest in zip(
            ("cos_coef", "sin_coef"), waves, (1.0, float(self.dropped_sin)), strict=True
        ):
            mixed = xp.matmul(wave[..., None, :, :], like(name, getattr(self, name), x))
            *outer, d = (int(n) for n in mixed.shape)
            fill = xp.full((*outer, self.head_dim // 2 - d), rest, dtype=x.dtype, device=device)
            found.append(xp.concat([mixed, fill], axis=-1))
        return found[0], found[1]

    def _of_pairs(
        self, q: Array, k: Array, q_at: Array, k_at: Array, scale: float
    ) -> dict[str, Array]:
        y_q, y_k = self._mapped(q, q_at[:, 0]), self._mapped(k, k_at[0, :])
        return {"content-position": dot(y_q, y_k, scale)}

    def _truths(
        self, q: np.ndarray, k: np.ndarray, q_at: np.ndarray, k_at: np.ndarray, scale: float
    ) -> dict[str, Truth]:
        value = self._of_pairs(q, k, q_at, k_at, scale)["content-position"]
        a_q, b_q = self.sizes(q, q_at[:, 0])
        a_k, b_k = self.sizes(k, k_at[0, :])
        size = abs(scale)
        moved = dot(b_q, a_k, size) + dot(a_q, b_k, size)
        return {"content-position": Truth(np.asarray(value), dot(a_q, a_k, size), moved)}

    def sizes(self, x: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return A and B of ``apply(x, at)`` for float64 x (..., N, S, head_dim)."""
        p = np.asarray(at, np.float64)[..., None, :, None]  # (..., 1, S, 1)
        angle = np.abs(p * self.frequencies())
        half = self.head_dim // 2
        parts = []
        for name, filled, wave in zip(
            ("cos_coef", "sin_coef"), (1, self.dropped_sin), (np.cos, np.sin), strict=True
        ):
            coef = np.abs(np.asarray(to_host(getattr(self, name)), np.float64))
            group = x.shape[-3] // len(coef)
            sums = [np.repeat(t @ coef, group, axis=-3) for t in (np.abs(wave(angle)), angle)]
            dropped = np.zeros((*sums[0].shape[:-1], half - coef.shape[-1]))
            each = zip(sums, (filled, 0), strict=True)
            parts.append([np.concatenate([t, dropped + n], axis=-1) for t, n in each])
        (a_cos, b_cos), (a_sin, b_sin) = parts
        x1, x2 = np.abs(x[..., :half]), np.abs(x[..., half:])

        def moved(cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
            return np.concatenate([x1 * cos + x2 * sin, x2 * cos + x1 * sin], axis=-1)

        return moved(a_cos, a_sin), moved(b_cos, b_sin)

    def _check(self, q: Array, k: Array) -> None:
        for name, x in (("q", q), ("k", k)):
            if not is_array(x):
                raise TypeError(f"{name} must be a real floating array, got {class_of(x)}")
            self._check_heads(name, x)

    def _check_heads(self, name: str, x: Array) -> None:
        """Raise unless ``x`` has the shape (..., N, S, head_dim), N a multiple of H."""
        count, d = int(self.cos_coef.shape[0]), self.head_dim
        if x.ndim < 3 or x.shape[-1] != d or x.shape[-3] % count:
            raise ValueError(
                f"{name} must have shape (..., N, S, d) with d = {d} and N a multiple of "
                f"H = {count}, the heads of cos_coef, got {tuple(x.shape)}"
            )
