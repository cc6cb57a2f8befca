"""The formulas of biases of residues and chains, in steps that may be computed differently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc_ref import ChainBias, ResidueBias
from posenc_ref.conformance.diagnosis.steps import Steps

from .formula_parts import looked_up, of_heads


def residue(e: ResidueBias, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of AlphaFold 2."""
    d = s.number("the offset i - j", q - k)
    if e.period is not None:
        d = _around(d, np.full_like(d, e.period), s)
    return looked_up(s, e.table, _bin("the offset i - j", d, e.reach, s))


def chains(e: ChainBias, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of AlphaFold-Multimer and AlphaFold 3."""
    r = e.max_offset
    i, j = np.broadcast_arrays(q, k)

    def pair(values: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        of = np.asarray(values)
        return of[i], of[j]

    (ri, rj), (ai, aj) = pair(e.residue_index), pair(e.asym_id)
    (ei, ej), (si, sj) = pair(e.entity_id), pair(e.sym_id)
    chain, entity = ai == aj, ei == ej
    d = s.number("the offset of residues i - j", ri - rj)
    if e.cyclic_period is not None:
        d = _around(d, pair(e.cyclic_period)[1], s)
    other = f"bin 2r + 1 = {2 * r + 1} of the residue block"
    linked = _pairs(
        f"the pairs without {other}", chain, s,
        ("are those of one entity, not those of one chain", entity),
        ("are all pairs: other chains have clipped offsets", np.ones_like(chain)),
        right=f"Give {other} to the pairs of different chains (asym_id), and only to them.",
    )  # fmt: skip
    at = s.pick(
        "the bin of other chains", 2 * r + 1,
        ("chain-bin", f"is 2r = {2 * r}, that of offset r, not 2r + 1 = {2 * r + 1}", 2 * r),
        ("chain-bin", f"is 0, that of offset -r, not 2r + 1 = {2 * r + 1}", 0),
    )  # fmt: skip
    residues = np.where(linked, _bin("the offset of residues", d, r, s), at)
    blocks = [_onehot(residues, 2 * r + 2)]
    if e.token_index is not None:
        blocks.append(_tokens(e, pair(e.token_index), (ri == rj), chain, s))
    of = _pairs(
        "the pairs with the flag of one entity", entity, s,
        ("are those of one chain", chain),
        ("are those of different entities", ~entity),
        ("are none: the flag is missing", np.zeros_like(entity)),
        right="Set the flag to 1 where entity_id is equal, else to 0.",
    )  # fmt: skip
    blocks.append(of[..., None].astype(float))
    copies = s.pick(
        "the offset in the chain block", si - sj,
        ("chain-bin", "is that of asym_id, the number of the chain, not that of sym_id", ai - aj),
        ("chain-bin", "is that of entity_id, not that of sym_id", ei - ej),
        ("chain-bin", "is that of residue_index, not that of sym_id", ri - rj),
        right="Use sym_id_i - sym_id_j: sym_id numbers the copies of one entity.",
    )  # fmt: skip
    blocks.append(_copies(e, copies, entity, chain, s))
    vector = _joined(blocks, s)
    weight = s.array("the weight", e.weight, ("channel", "column"))
    total: np.ndarray = np.moveaxis(vector @ weight.T, -1, 0)
    if e.linear_bias is not None:
        total = total + of_heads(s.array("the bias of the layer", e.linear_bias, ("channel",)))
    return total


def _tokens(e: ChainBias, tokens: Any, residue: Any, chain: Any, s: Steps) -> np.ndarray:
    r = e.max_offset
    near = _pairs(
        "the pairs with an offset of tokens", chain & residue, s,
        ("are those of equal residue_index, in any chain", residue),
        ("are those of one chain, in any residue", chain),
        ("are all pairs", np.ones_like(chain)),
        right=f"Give bin 2r + 1 = {2 * r + 1} of the token block to all pairs but those of one "
        "residue of one chain.",
    )  # fmt: skip
    d = s.number("the offset of tokens i - j", tokens[0] - tokens[1])
    return _onehot(np.where(near, _bin("the offset of tokens", d, r, s), 2 * r + 1), 2 * r + 2)


def _copies(e: ChainBias, offset: Any, entity: Any, chain: Any, s: Steps) -> np.ndarray:
    n = e.max_chain
    d = s.number("the offset of sym_id i - j", offset)
    own, other = (chain, ~entity) if e.no_chain_offset == "chain" else (~entity, chain)
    said = {True: "in the same chain", False: "of different entities"}
    by_chain = e.no_chain_offset == "chain"
    without = _pairs(
        f"the pairs with bin 2s + 1 = {2 * n + 1} of the chain block", own, s,
        (f"are those {said[not by_chain]}, not those {said[by_chain]}", other),
        ("are those of different entities and those in the same chain", ~entity | chain),
        ("are those of different chains", ~chain),
        ("are none", np.zeros_like(chain)),
        right=f"Give bin 2s + 1 = {2 * n + 1} of the chain block to the pairs {said[by_chain]}: "
        f'no_chain_offset="{e.no_chain_offset}".',
    )  # fmt: skip
    return _onehot(np.where(without, 2 * n + 1, _bin("the offset of sym_id", d, n, s)), 2 * n + 2)


def _pairs(name: str, value: Any, s: Steps, *others: tuple[str, Any], right: str) -> np.ndarray:
    options = (("chain-bin", words, pairs) for words, pairs in others)
    return np.asarray(s.pick(name, value, *options, right=right))


def _bin(name: str, d: np.ndarray, r: int, s: Steps) -> np.ndarray:
    """Return the bin 0 .. 2r of offsets."""
    shifted = s.pick(
        f"{name} before the clip", d + r,
        ("bucket-clamp", f"is without r = {r}", d),
        right=f"Add r = {r} to {name}, then clip to 0 .. {2 * r}.",
    )  # fmt: skip
    return np.asarray(s.clip(f"{name} plus r", shifted, 0, 2 * r))


def _around(d: np.ndarray, period: np.ndarray, s: Steps) -> np.ndarray:
    """Return offsets on rings; a period of 0 is no ring."""
    p = np.where(period > 0, period, np.abs(d).max(initial=0) * 2 + 1)
    rest = np.abs(d) % p
    shorter = np.where(2 * rest > p, rest - p, rest)
    return np.asarray(
        s.pick(
            "the offset on the ring", np.sign(d) * shorter,
            ("cyclic-offset", "is that of an open chain: the period is not used", d),
            ("cyclic-offset", "has lost the sign of the shorter way: the ends of the ring are "
             "neighbours, but in the order of the open chain", np.sign(d) * np.abs(shorter)),
            ("cyclic-offset", "has lost its sign: it is the shorter way without a direction",
             np.abs(shorter)),
            ("cyclic-offset", "is taken modulo the period, from 0 up, not the shorter way",
             np.where(period > 0, d % p, d)),
            right="Use i - j - period * round((i - j) / period).",
        )
    )  # fmt: skip


def _joined(blocks: list[np.ndarray], s: Steps) -> np.ndarray:
    """Return the blocks in one vector: residue, token, entity, chain."""
    *near, entity, chain = blocks
    n, code = len(near), "block-order"
    orders: list[tuple[str, list[np.ndarray]]] = [
        ("are residue, chain, entity" if n == 1 else "are residue, token, chain, entity",
         [*near, chain, entity]),
        ("begin with the flag of one entity", [entity, *near, chain]),
        ("begin with the chain block", [chain, *near, entity]),
        ("are in reverse order", blocks[::-1]),
    ]  # fmt: skip
    if n == 2:
        orders += [
            ("begin with token, then residue", [near[1], near[0], entity, chain]),
            ("are residue, entity, token, chain", [near[0], entity, near[1], chain]),
            ("are residue, entity, chain, token", [near[0], entity, chain, near[1]]),
        ]
    names = "residue, token, entity, chain" if n == 2 else "residue, entity, chain"
    return np.asarray(
        s.pick(
            "the blocks of the vector", np.concatenate(blocks, axis=-1),
            *((code, words, np.concatenate(parts, axis=-1)) for words, parts in orders),
            right=f"Concatenate the blocks in the order {names}.",
        )
    )  # fmt: skip


def _onehot(row: np.ndarray, count: int) -> np.ndarray:
    """Return one-hot vectors of rows; rows wrap round."""
    rows: np.ndarray = np.eye(count)[np.asarray(row).astype(int) % count]
    return rows
