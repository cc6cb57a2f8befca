"""Dynamic position bias: a small network computes the bias from the offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._namespace import Array, astype, namespace, to_host, working_dtype
from ._network import Network
from .accuracy import Truth
from .bias import Bias
from .decomposed import validate_grid
from .window_bias import WindowBias


@dataclass(frozen=True, eq=False, repr=False)
class DynamicBias(Bias):
    """Dynamic position bias of a sequence, a network applied to the offset.

    Formula
        ``b(i, j) = f(i - j)``, or ``b(i, j) = f(sign(i - j) log(1 + |i - j|))`` with
        ``log_distance``.  f is a network of linear layers with activations between them; its last
        layer has one output for each head.
    Source
        x-transformers, ``DynamicPositionBias`` (``dynamic_pos_bias=True``), which optionally has
        LayerNorms; its first LayerNorm has no shift.  It is a variant of CrossFormer's bias (Wang
        et al. 2021, arXiv:2108.00154, :class:`DynamicWindowBias`).
    Traps
        The offset is query minus key, not divided by the length.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A starts as |i - j|, or as ``1 + log(1 + |i - j|)`` with ``log_distance``; the 1 allows for
        rounding inside the logarithm.  A linear layer turns A into ``|W| A + |b|``, SiLU (s) turns
        A into ``|s(x)| + |s'(x)| A``, ReLU keeps A, and a LayerNorm turns A into
        ``|gain| (A + mean(A)) / deviation + |shift|``; deviation is the standard deviation of its
        inputs.  B = 0.

    Parameters
    ----------
    weights : tuple of arrays (W1, 1), (W2, W1), ..., (H, W), real floating
        The weights of the linear layers.
    biases : tuple of arrays (W1,), (W2,), ..., (H,)
        The biases of the linear layers.
    gains, shifts : tuples of arrays, one for each hidden layer, or none
        Parameters of a LayerNorm between a hidden layer and its activation.
    activation : {"silu", "relu"}
    log_distance : bool
    """

    weights: Sequence[Array]
    biases: Sequence[Array]
    _: KW_ONLY
    gains: Sequence[Array] = ()
    shifts: Sequence[Array] = ()
    activation: str = "silu"
    log_distance: bool = False

    def __post_init__(self) -> None:
        log = validate.boolean("log_distance", self.log_distance)
        self._set(**_checked(self, 1), log_distance=log)

    @property
    def num_heads(self) -> int:  # type: ignore[override]
        """Number of heads H, the number of outputs of the last layer."""
        return int(self.weights[-1].shape[0])

    def _input(self, offset: Array) -> Array:
        """Return the argument (..., 1) of f for offsets key - query."""
        xp = namespace(offset)
        r = -astype(offset, working_dtype(offset))
        return (xp.sign(r) * xp.log1p(xp.abs(r)) if self.log_distance else r)[..., None]

    def _of_offset(self, offset: Array) -> Array:
        y = _network(self)(self._input(offset))
        return namespace(y).moveaxis(y, -1, -3)

    def _truth_of(self, offsets: np.ndarray) -> Truth:
        plain, x = super()._truth_of(offsets), self._input(offsets)
        size = _network(self).size(x, np.abs(x) + self.log_distance).T
        return Truth(plain.value, size, plain.angle)


@dataclass(frozen=True, eq=False, repr=False)
class DynamicWindowBias(WindowBias):
    """Dynamic position bias of CrossFormer, a network applied to the offsets in a window.

    Formula
        ``b(i, j) = f(y_i - y_j, x_i - x_j)`` for tokens of an h x w window in row-major order,
        added to ``q . k / sqrt(d)``.  In CrossFormer, the network f has four linear layers, with a
        LayerNorm and a ReLU before each except the first.  The last has one output for each head.
    Source
        Wang et al. 2021, *CrossFormer*, arXiv:2108.00154, and its code
        (``DynamicPosBias``, ``residual=False``).  Swin v2 (:class:`LogCPB`) takes logarithms of the
        offsets instead.
    Traps
        Offsets count tokens and are not normalised. Inputs of the network are (dy, dx), in that
        order.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A starts as (|dy|, |dx|) and changes in each layer as in :class:`DynamicBias`.  B = 0.

    Parameters
    ----------
    weights, biases, gains, shifts : tuples of arrays
        As in :class:`DynamicBias`; the first weight is (W1, 2).
    window : (int, int)
        Height and width.
    activation : {"relu", "silu"}
    """

    weights: Sequence[Array]
    biases: Sequence[Array]
    gains: Sequence[Array] = ()
    shifts: Sequence[Array] = ()
    _: KW_ONLY
    window: Sequence[int]
    activation: str = "relu"

    def __post_init__(self) -> None:
        self._set(**_checked(self, 2), window=validate_grid("window", self.window))

    @property
    def num_heads(self) -> int:  # type: ignore[override]
        """Number of heads H, the number of outputs of the last layer."""
        return int(self.weights[-1].shape[0])

    def _input(self, dy: Array, dx: Array) -> Array:
        xp = namespace(dy)
        dtype = working_dtype(dy)
        return xp.stack(xp.broadcast_arrays(astype(dy, dtype), astype(dx, dtype)), axis=-1)

    def _of_axes(self, dy: Array, dx: Array) -> Array:
        y = _network(self)(self._input(dy, dx))
        return namespace(y).moveaxis(y, -1, -3)

    def _truth(self, q_positions: object, k_positions: object) -> Truth:
        """Return the bias with the coefficients A and B of its rounding error."""
        q, k = (np.asarray(p) for p in (q_positions, k_positions))
        value = np.asarray(to_host(self.bias(q, k)), np.float64)
        _, w = self.window
        q, k = q[:, None], k[None, :]
        x = self._input(q // w - k // w, q % w - k % w)
        size = np.moveaxis(_network(self).size(x, np.abs(x)), -1, 0)
        return Truth(value, size, np.zeros_like(value))


def _checked(encoding: DynamicBias | DynamicWindowBias, inputs: int) -> dict[str, Any]:
    """Return the checked fields ``weights``, ``biases``, ``gains``, ``shifts``, ``activation``."""
    found: dict[str, Any] = {}
    for name in ("weights", "biases", "gains", "shifts"):
        value = getattr(encoding, name)
        if not isinstance(value, tuple | list):
            raise TypeError(f"{name} must be a tuple of arrays, got {type(value).__name__}")
        found[name] = tuple(value)
    hidden = len(found["weights"]) - 1
    if hidden < 1:
        raise ValueError(f"weights must hold at least two layers, got {hidden + 1}")
    counts = {"biases": (hidden + 1,), "gains": (0, hidden), "shifts": (len(found["gains"]),)}
    for name, allowed in counts.items():
        if len(found[name]) not in allowed:
            wanted = " or ".join(map(str, allowed))
            raise ValueError(f"{name} must hold {wanted} arrays, got {len(found[name])}")
    _network(encoding).check(inputs)
    kinds, known = ("relu", "silu"), {"swish": "silu"}
    found["activation"] = validate.choice("activation", encoding.activation, kinds, known)
    return found


def _network(encoding: DynamicBias | DynamicWindowBias) -> Network:
    weights, biases, gains, shifts = (
        {f"{name}[{n}]": array for n, array in enumerate(getattr(encoding, name))}
        for name in ("weights", "biases", "gains", "shifts")
    )
    return Network(weights, biases, gains, shifts, encoding.activation)
