"""Relative positions of residues and chains: AlphaFold 2, AlphaFold-Multimer, AlphaFold 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc_ref import ChainBias, ResidueBias
from posenc_ref.conformance.exact.error_numbers import given, total

from . import numbers, register


def _around(offset: int, period: int) -> int:
    """Return the shortest of the offsets that differ by whole periods, the own sign first."""
    ways = (offset % period, offset % period - period)
    return min(ways, key=lambda way: (abs(way), way * offset < 0))


@register(
    ResidueBias,
    spec="Jumper et al. 2021, AlphaFold 2, supplement, algorithm 4",
    examples={
        "relpos-3": ResidueBias(numbers("relpos-3", 7, 2)),
        "relpos-cyclic": ResidueBias(numbers("relpos-cyclic", 9, 2), period=6),
    },
)
def relpos(e: ResidueBias, i: Any, j: Any) -> Sequence[Any]:
    """Return the row of the bin nearest to the offset, as the paper's one-hot with nearest bin."""
    rows = e.table.tolist()
    r = len(rows) // 2
    offset = int(i - j) if e.period is None else _around(int(i - j), e.period)
    nearest = min(range(-r, r + 1), key=lambda bin: abs(offset - bin))
    return list(rows[nearest + r])


#: Two copies of one sequence, the second cyclic, then one residue of three tokens (a ligand's
#: atoms), then a fourth copy of nothing: the numbers of no feature follow those of another.
_CHAINS: dict[str, Any] = {
    "residue_index": (1, 2, 3, 7, 1, 2, 3, 7, 5, 5, 5, 6),
    "asym_id": (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3),
    "entity_id": (0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0),
    "sym_id": (1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1, 4),
    "max_offset": 2,
    "max_chain": 2,
}


@register(
    ChainBias,
    spec="Abramson et al. 2024, AlphaFold 3, supplement, algorithm 3, and its code",
    examples={
        "alphafold3": ChainBias(
            numbers("alphafold3", 2, 19), **_CHAINS, token_index=tuple(range(12))
        ),
        "alphafold-multimer": ChainBias(
            numbers("multimer", 2, 13), numbers("multimer-bias", 2), **_CHAINS
        ),
        "boltz1-cyclic": ChainBias(
            numbers("boltz1", 2, 19),
            **_CHAINS,
            token_index=(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13),
            cyclic_period=(0, 0, 0, 0, 7, 7, 7, 7, 0, 0, 0, 0),
            no_chain_offset="chain",
        ),
    },
)
def chains(e: ChainBias, i: Any, j: Any) -> Sequence[Any]:
    """Return the weight times the vector of ones and zeros, written out."""
    i, j = int(i), int(j)
    r, s = e.max_offset, e.max_chain

    def onehot(offset: int | None, reach: int) -> list[int]:
        """Return 2 reach + 2 numbers; the last is for pairs without an offset."""
        at = 2 * reach + 1 if offset is None else reach + max(-reach, min(reach, offset))
        return [int(n == at) for n in range(2 * reach + 2)]

    chain = e.asym_id[i] == e.asym_id[j]
    entity = e.entity_id[i] == e.entity_id[j]
    offset = e.residue_index[i] - e.residue_index[j]
    one_residue = chain and offset == 0
    if e.cyclic_period is not None and e.cyclic_period[j]:
        offset = _around(offset, e.cyclic_period[j])
    vector = onehot(offset if chain else None, r)
    if e.token_index is not None:
        vector += onehot(e.token_index[i] - e.token_index[j] if one_residue else None, r)
    vector += [int(entity)]
    none = chain if e.no_chain_offset == "chain" else not entity
    vector += onehot(None if none else e.sym_id[i] - e.sym_id[j], s)
    shift = [[]] * len(e.weight) if e.linear_bias is None else [[b] for b in e.linear_bias.tolist()]
    return [
        total(given([w for w, x in zip(row, vector, strict=True) if x] + own))
        for row, own in zip(e.weight.tolist(), shift, strict=True)
    ]
