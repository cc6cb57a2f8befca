"""Relative biases inside windows of image patches: Swin, BEiT, LeViT, Swin v2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ._arrays import check_numbers, check_place, lookup
from ._namespace import Array, astype, namespace, working_dtype
from ._network import Network, sigmoid
from .accuracy import Truth
from .bias import Bias
from .decomposed import check_tokens, validate_grid
from .relative import relative_row


class WindowBias(Bias, abstract=True):
    """Base class of biases in a window; positions are row-major token numbers."""

    integers = True
    relative = False
    window: Sequence[int]

    @property
    def tokens(self) -> int:
        """Number of tokens of a window."""
        return int(self.window[0] * self.window[1])

    def _of_pairs(self, q: Array, k: Array) -> Array:
        check_tokens(q, k, self.tokens, "window")
        _, w = self.window
        return self._of_axes(q // w - k // w, q % w - k % w)

    def _by_offset(self, q_len: int, k_len: int) -> Array | None:
        _, w = self.window
        whole = q_len % w == 0 == k_len % w and q_len <= k_len <= self.tokens
        if not whole or type(self)._of_pairs is not WindowBias._of_pairs:
            return None
        queries, keys = q_len // w, k_len // w
        dy = np.arange(keys - 1, -queries, -1)
        return self._of_axes(dy[:, None], np.arange(w - 1, -w, -1)[None, :])

    def _of_axes(self, dy: Array, dx: Array) -> Array:
        """Return the bias (H, Q, K) of offsets (dy, dx), query minus key."""
        raise NotImplementedError(f"{type(self).__name__} defines no bias")


@dataclass(frozen=True, eq=False, repr=False)
class WindowTable(WindowBias, abstract=True):
    """Base class of window biases that are rows of a learned table."""

    table: Array
    _: KW_ONLY
    window: Sequence[int]

    def __post_init__(self) -> None:
        h, w = validate_grid("window", self.window)
        check_numbers("table", self.table, self._rows(h, w), "H")
        self._set(window=(h, w))

    def _rows(self, h: int, w: int) -> int:
        """Return the number of rows for a window of h x w."""
        return (2 * h - 1) * (2 * w - 1)

    @property
    def num_heads(self) -> int:  # type: ignore[override]
        """The number of heads: the columns of the table."""
        return int(self.table.shape[1])

    def _entries(self, row: Array) -> Array:
        """Return ``table[row]`` with the heads in front."""
        check_place("positions", row, "the table", self.table)
        return namespace(self.table).moveaxis(lookup("row", self.table, row), -1, -3)


@dataclass(frozen=True, eq=False, repr=False)
class SwinBias(WindowTable):
    """Relative position bias of Swin.

    Formula
        ``b_h(i, j) = table[(dy + h - 1) (2w - 1) + dx + w - 1, h]`` with ``dy = y_i - y_j`` and
        ``dx = x_i - x_j``, added to ``q . k / sqrt(d)``.
    Source
        Liu et al. 2021, *Swin Transformer*, arXiv:2103.14030, equation (4) and its code
        (:func:`relative_index`).
    Traps
        The factor of ``dy + h - 1`` is 2w - 1, not 2h - 1.  Offsets are query minus key.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|b|``, B = 0.

    Parameters
    ----------
    table : array ((2h - 1)(2w - 1), H), real floating
        Biases are entries of the table, bit for bit.
    window : (int, int)
        Height and width.
    """

    def _of_axes(self, dy: Array, dx: Array) -> Array:
        return self._entries(relative_row(dy, dx, *self.window))


@dataclass(frozen=True, eq=False, repr=False)
class BEiTBias(WindowTable):
    """Relative position bias of BEiT: Swin's table with three more rows for the [CLS] token.

    Formula
        As :class:`SwinBias` for the patches, which are tokens 1 .. h w.  Token 0 is [CLS].  The
        biases of its pairs are the last three of the table's n rows: ``b(0, j) = table[n - 3]``,
        ``b(i, 0) = table[n - 2]``, ``b(0, 0) = table[n - 1]``.
    Source
        Bao et al. 2021, *BEiT*, arXiv:2106.08254, and its code; also Data2Vec-vision.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|b|``, B = 0.

    Parameters
    ----------
    table : array ((2h - 1)(2w - 1) + 3, H), real floating
        Biases are entries of the table, bit for bit.
    window : (int, int)
        Height and width in patches.
    """

    def _rows(self, h: int, w: int) -> int:
        return super()._rows(h, w) + 3

    @property
    def tokens(self) -> int:
        """Number of tokens: [CLS] and the patches."""
        return super().tokens + 1

    def _of_pairs(self, q: Array, k: Array) -> Array:
        check_tokens(q, k, self.tokens, "window")
        h, w = self.window
        n, xp = int(self.table.shape[0]), namespace(q)
        i, j = q - 1, k - 1
        row = relative_row(i // w - j // w, i % w - j % w, h, w)
        row = xp.where(k == 0, xp.full_like(row, n - 2), row)
        row = xp.where(q == 0, xp.where(k == 0, xp.full_like(row, n - 1), n - 3), row)
        return self._entries(row)


@dataclass(frozen=True, eq=False, repr=False)
class LeViTBias(WindowTable):
    """Attention bias of LeViT, a function of the absolute offsets.

    Formula
        ``b_h(i, j) = table[|dy| w + |dx|, h]``, added to ``q . k / sqrt(d)``.
    Source
        Graham et al. 2021, *LeViT*, arXiv:2104.01136, equation (3), and its code, where the
        transposed table (H, h w) is named ``attention_biases``.
    Traps
        In a stage that shrinks the grid, queries are at every second row and column of the *keys'*
        grid: q_positions are ``arange(h * w).reshape(h, w)[::2, ::2]``, flattened, not 0, 1, 2, ...
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|b|``, B = 0.

    Parameters
    ----------
    table : array (h w, H), real floating
        Biases are entries of the table, bit for bit.
    window : (int, int)
        Height and width.
    """

    holds = frozenset({"symmetric"})

    def _rows(self, h: int, w: int) -> int:
        return h * w

    def _of_axes(self, dy: Array, dx: Array) -> Array:
        xp = namespace(dy)
        return self._entries(xp.abs(dy) * self.window[1] + xp.abs(dx))


@dataclass(frozen=True, eq=False, repr=False)
class LogCPB(WindowBias):
    """Log-spaced continuous position bias of Swin v2.

    Formula
        ``b(i, j) = 16 sigmoid(f(s(dy), s(dx)))``, ``f(x) = output relu(hidden x + hidden_bias)``,
        ``s(d) = sign(d) log2(1 + 8 |d| / (n - 1)) / log2(8)``; n is the height (for dy) or width
        (for dx) of ``pretrained_window``, or of ``window`` if ``pretrained_window`` is None.
    Source
        Liu et al. 2021, *Swin Transformer V2*, arXiv:2111.09883, equations (3) and (4); the
        factors 8 and 16 and the sigmoid are in the code only.
    Traps
        The bias is added to cosine attention.  Before ``scores``, divide q and k by their norms and
        multiply both by the square root of the learned factor of the cosine; the default scale of
        ``scores`` is 1.  The network takes (dy, dx), in that order.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``16 (g + g (1 - g) S)``, where g is the sigmoid's value and S is the sum of the
        absolute values of all products in f(x), with the inputs x = s(d) replaced by
        ``|x| + 1/ln(8)``, B = 0.  A relative rounding error u inside the logarithm changes x by
        ``u/ln(8)``.

    Parameters
    ----------
    hidden : array (W, 2);  hidden_bias : array (W,);  output : array (H, W), real floating
    window : (int, int)
    pretrained_window : (int, int), optional
    """

    hidden: Array
    hidden_bias: Array
    output: Array
    _: KW_ONLY
    window: Sequence[int]
    pretrained_window: Sequence[int] | None = None

    def __post_init__(self) -> None:
        self._network.check(2)
        self._set(window=validate_grid("window", self.window))
        if self.pretrained_window is not None:
            grid = validate_grid("pretrained_window", self.pretrained_window)
            self._set(pretrained_window=grid)

    @property
    def _network(self) -> Network:
        return Network(
            {"hidden": self.hidden, "output": self.output},
            {"hidden_bias": self.hidden_bias, "output_bias": None},
        )

    @property
    def num_heads(self) -> int:  # type: ignore[override]
        """The number of heads: the rows of ``output``."""
        return int(self.output.shape[0])

    def own_scale(self, dim: int) -> float:
        """Return 1: q and k already contain the learned factor of cosine attention."""
        return 1.0

    def _inputs(self, dy: Array, dx: Array) -> Array:
        """Return the network's inputs ``s(dy), s(dx)`` (..., 2)."""
        xp = namespace(dy)
        sides = self.pretrained_window or self.window
        found = []
        for d, n in zip((dy, dx), sides, strict=True):
            d = astype(d, working_dtype(d)) / float(max(n - 1, 1))
            found.append(xp.sign(d) * xp.log2(1.0 + 8.0 * xp.abs(d)) / 3.0)
        return xp.stack(xp.broadcast_arrays(*found), axis=-1)

    def _of_axes(self, dy: Array, dx: Array) -> Array:
        y = self._network(self._inputs(dy, dx))
        xp = namespace(y)
        return xp.moveaxis(16.0 * sigmoid(y), -1, -3)

    def _truth(self, q_positions: Any, k_positions: Any) -> Truth:
        """Return the bias with the coefficients A and B of its rounding error."""
        plain = super()._truth(q_positions, k_positions)
        (q, k), (_, w) = (np.asarray(p) for p in (q_positions, k_positions)), self.window
        q, k = q[:, None], k[None, :]
        x = self._inputs(q // w - k // w, q % w - k % w)
        size = np.moveaxis(self._network.size(x, np.abs(x) + 1 / np.log(8)), -1, 0)
        s = plain.value / 16
        return Truth(plain.value, 16 * (s + s * (1 - s) * size), plain.angle)
