"""Relative positions of several chains: AlphaFold-Multimer, AlphaFold 3, Boltz."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import check_numbers, check_place, clip, lookup
from ._cached import cached_property
from ._namespace import Array, device_of, namespace, send, to_host, wide_integer, widen
from ._text import shown
from .accuracy import Truth
from .bias import Bias
from .decomposed import check_tokens
from .residue_bias import nearest


@dataclass(frozen=True, eq=False, repr=False)
class ChainBias(Bias):
    """Relative positional encoding of AlphaFold-Multimer and AlphaFold 3, for one set of chains.

    Formula
        ``b(i, j) = W [onehot(residue), onehot(token), same entity, onehot(chain)]`` for tokens i
        and j, with r = ``max_offset``, s = ``max_chain`` and
        residue = ``clip(residue_i - residue_j + r, 0, 2r)`` in one chain, else 2r + 1;
        token = ``clip(token_i - token_j + r, 0, 2r)`` in one residue of one chain, else 2r + 1;
        same entity = 1 if ``entity_i = entity_j``, else 0;
        chain = ``clip(sym_i - sym_j + s, 0, 2s)``, or 2s + 1 for the pairs of ``no_chain_offset``.
        Without ``token_index`` there is no token block.
    Source
        Abramson et al. 2024, AlphaFold 3, supplement, algorithm 3 (RelativePositionEncoding), and
        its code, ``create_relative_encoding``; Evans et al. 2021, *AlphaFold-Multimer*, section
        7.5 of the supplement, without the token block and with ``linear_bias``; Boltz,
        ``RelativePositionEncoder`` with ``cyclic_period``.
    Traps
        Algorithm 3 as printed gives bin 2s + 1 of the last block to pairs in the *same chain*
        (Boltz-1 does; ``no_chain_offset="chain"``).  The code of AlphaFold 3 and of
        AlphaFold-Multimer gives it to pairs of *different entities* (``"entity"``; Boltz-2 with
        ``fix_sym_check``).  Weights of one are wrong in the other.
        r is added before the clip to 0 .. 2r; bin 2r + 1 is no offset.
        Chains are equal by ``asym_id``; ``entity_id`` is equal for copies of one sequence;
        ``sym_id`` numbers these copies.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = the sum of the absolute values of the entries of W that are added, plus
        ``|linear_bias|``; B = 0.

    Parameters
    ----------
    weight : array (C, n), real floating
        W, as a linear layer stores it: n is 2r + 2, again 2r + 2 with ``token_index``, 1, 2s + 2.
        C, the number of channels of the pair representation, takes the place of the number of
        heads.
    linear_bias : array (C,), optional
        The bias of the linear layer.
    residue_index, asym_id, entity_id, sym_id : sequences of N integers
        The features of the tokens.  Positions are numbers of tokens, 0 .. N - 1.
    token_index : sequence of N integers, optional
    cyclic_period : sequence of N integers, optional
        The number of residues of the token's chain if that chain is cyclic, else 0.  The offset of
        residues is then taken the shorter way round (:class:`ResidueBias`), with the period of
        token j.
    max_offset, max_chain : int
        r and s.
    no_chain_offset : {"entity", "chain"}
        Which pairs have bin 2s + 1 of the last block: those of different entities, or those in the
        same chain.
    """

    weight: Array
    linear_bias: Array | None = None
    _: KW_ONLY
    residue_index: Sequence[int]
    asym_id: Sequence[int]
    entity_id: Sequence[int]
    sym_id: Sequence[int]
    token_index: Sequence[int] | None = None
    cyclic_period: Sequence[int] | None = None
    max_offset: int = 32
    max_chain: int = 2
    no_chain_offset: str = "entity"

    integers = True
    relative = False

    def __post_init__(self) -> None:
        count: int | None = None
        for name in ("residue_index", "asym_id", "entity_id", "sym_id", "token_index",
                     "cyclic_period"):  # fmt: skip
            if (given := getattr(self, name)) is not None:
                values = _integers(name, given, 0 if name == "cyclic_period" else None)
                count = len(values) if count is None else count
                if len(values) != count:
                    raise ValueError(
                        f"{name} must have one integer for each of the {count} tokens of "
                        f"residue_index, got {len(values)}"
                    )
                self._set(**{name: values})
        self._set(
            max_offset=validate.size("max_offset", self.max_offset),
            max_chain=validate.size("max_chain", self.max_chain),
            no_chain_offset=validate.choice(
                "no_chain_offset", self.no_chain_offset, ("entity", "chain")
            ),
        )
        channels = check_numbers("weight", self.weight, "C", self.columns).shape[0]
        if self.linear_bias is not None:
            check_numbers("linear_bias", self.linear_bias, int(channels))
            check_place("linear_bias", self.linear_bias, "weight", self.weight)

    @property
    def num_heads(self) -> int:  # type: ignore[override]
        """The number of channels of the pair representation, the rows of ``weight``."""
        return int(self.weight.shape[0])

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return len(self.residue_index)

    @property
    def columns(self) -> int:
        """The number of columns of ``weight``."""
        blocks = 1 if self.token_index is None else 2
        return blocks * (2 * self.max_offset + 2) + 1 + 2 * self.max_chain + 2

    @cached_property
    def _features(self) -> np.ndarray:
        """The features of the tokens, (N, 6)."""
        none = (0,) * self.tokens
        return np.stack([
            np.array(values, np.int64) for values in (
                self.residue_index, self.asym_id, self.entity_id, self.sym_id,
                self.token_index or none, self.cyclic_period or none,
            )
        ], axis=-1)  # fmt: skip

    def _of_pairs(self, q: Array, k: Array) -> Array:
        check_tokens(q, k, self.tokens, "chains")
        check_place("positions", q, "weight", self.weight)
        xp, device = namespace(self.weight), device_of(self.weight)
        table = xp.matrix_transpose(widen(self.weight))
        none = xp.zeros((1, self.num_heads), dtype=table.dtype, device=device)
        table = xp.concat([table, none], axis=0)  # the last row: nothing is added
        total: Any = sum(lookup("column", table, n) for n in self._columns(q, k))
        if self.linear_bias is not None:
            total = total + widen(self.linear_bias)
        return xp.moveaxis(total, -1, -3)

    def _columns(self, q: Array, k: Array) -> list[Array]:
        """Return the column of each block (..., Q, K); ``columns`` stands for none."""
        r, s = self.max_offset, self.max_chain
        residue_i, asym_i, entity_i, sym_i, token_i, _ = self._of(q)
        residue_j, asym_j, entity_j, sym_j, token_j, period = self._of(k)
        xp = namespace(residue_i)
        one_chain, one_entity = asym_i == asym_j, entity_i == entity_j
        d = residue_i - residue_j
        if self.cyclic_period is not None:
            d = xp.where(period > 0, nearest(d, xp.where(period > 0, period, 1)), d)
        blocks = [xp.where(one_chain, clip(d + r, 0, 2 * r), 2 * r + 1)]
        first = 2 * r + 2
        if self.token_index is not None:
            near = one_chain & (residue_i == residue_j)
            blocks.append(first + xp.where(near, clip(token_i - token_j + r, 0, 2 * r), 2 * r + 1))
            first += 2 * r + 2
        blocks.append(xp.where(one_entity, xp.full_like(d, first), self.columns))
        no_offset = one_chain if self.no_chain_offset == "chain" else ~one_entity
        chain = xp.where(no_offset, 2 * s + 1, clip(sym_i - sym_j + s, 0, 2 * s))
        return [*blocks, first + 1 + chain]

    def _of(self, at: Array) -> list[Array]:
        """Return the six features of the tokens at positions ``at``, each in the shape of at."""
        if isinstance(at, np.ndarray):
            rows = self._features[at]
            xp, device = namespace(self.weight), device_of(self.weight)
            return [send(np.ascontiguousarray(rows[..., n]), xp, device) for n in range(6)]
        xp, shape = namespace(at), tuple(at.shape)
        if 0 in shape:
            return [at] * 6
        table = send(self._features.astype(_host_dtype(xp)), xp, device_of(at))
        flat = xp.reshape(clip(at, 0, self.tokens - 1), (math.prod(shape),))
        return [xp.reshape(xp.take(table[:, n], flat, axis=0), shape) for n in range(6)]

    def _truth(self, q_positions: Any, k_positions: Any) -> Truth:
        """Return the bias with the coefficients A and B of its rounding error."""
        q, k = np.asarray(q_positions), np.asarray(k_positions)
        weight = np.asarray(to_host(widen(self.weight)), np.float64)
        given = self.linear_bias
        shift = None if given is None else np.asarray(to_host(widen(given)), np.float64)
        size = None if shift is None else np.abs(shift)
        value = self.replace(weight=weight, linear_bias=shift).bias(q, k)
        terms = self.replace(weight=np.abs(weight), linear_bias=size).bias(q, k)
        return Truth(value, terms, np.zeros_like(value))


def _host_dtype(xp: Any) -> str:
    return "int32" if wide_integer(xp) == xp.int32 else "int64"


def _integers(name: str, value: Any, minimum: int | None) -> tuple[int, ...]:
    """Return a sequence of at least one integer as a tuple."""
    if isinstance(value, np.ndarray):
        if value.ndim != 1:
            raise ValueError(f"{name} must have shape (N,), got {value.shape}")
        value = list(value)
    if not isinstance(value, Sequence) or isinstance(value, str | bytes | memoryview):
        raise TypeError(f"{name} must be a sequence of integers, got {shown(value)}")
    if not value:
        raise ValueError(f"{name} must have at least one integer, got none")
    return tuple(validate.integer(f"{name}[{n}]", v, minimum=minimum) for n, v in enumerate(value))
