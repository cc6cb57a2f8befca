"""Relative positions of AlphaFold and its ports: wrong and right functions of `bias`."""

import numpy as np

from tests.mutants._case import correct, wrong
from tests.mutants._parts import distances
from tests.mutants.score.score_terms import table

ROWS = table(9, 3, seed=0.15)
RELPOS = {"encoding": "ResidueBias", "table": ROWS}
CYCLIC = {**RELPOS, "period": 11}


def relpos(d):
    """table[clip(d, -4, 4) + 4]."""
    return np.moveaxis(ROWS[np.clip(d, -4, 4) + 4], -1, 0)


@wrong("bucket-sign", surface="bias", encoding=RELPOS, thread="class: ESMFold's order, j - i")
def relpos_column_minus_row(q_len, k_len):
    """residue_index[None, :] - residue_index[:, None]."""
    return relpos(-distances(q_len, k_len))


@wrong("bucket-clamp", surface="bias", encoding=RELPOS, thread="class: r not added")
def relpos_without_the_shift(q_len, k_len):
    """clip(d, 0, 2r): negative offsets share row 0."""
    return np.moveaxis(ROWS[np.clip(distances(q_len, k_len), 0, 8)], -1, 0)


@wrong("cyclic-offset", surface="bias", encoding=CYCLIC, thread="sokrypton/ColabDesign cyclic.py")
def relpos_ring_without_sign(q_len, k_len):
    """min(|d|, P - |d|) with the sign of the open chain: add_cyclic_offset(bug_fix=False)."""
    d = distances(q_len, k_len)
    far = np.abs(d) % 11
    return relpos(np.sign(d) * np.minimum(far, 11 - far))


@wrong("cyclic-offset", surface="bias", encoding=CYCLIC, thread="class: cyclic flag ignored")
def relpos_ring_taken_as_open(q_len, k_len):
    """The period is not used."""
    return relpos(distances(q_len, k_len))


@correct(surface="bias", encoding=RELPOS, thread="class: OpenFold's nearest bin")
def relpos_by_the_nearest_bin(q_len, k_len):
    """argmin of the distances to all bins, then a one-hot product."""
    d = distances(q_len, k_len)[..., None] - np.arange(-4, 5)
    return np.moveaxis(np.eye(9, dtype=np.float32)[np.abs(d).argmin(-1)] @ ROWS, -1, 0)


@correct(surface="bias", encoding=CYCLIC, thread="jwohlwend/boltz cyclic_period")
def relpos_ring_by_rounding(q_len, k_len):
    """d - P round(d / P)."""
    d = distances(q_len, k_len)
    return relpos((d - 11 * np.round(d / 11)).astype(int))


# --- several chains ------------------------------------------------------------------------------

FEATURES = {
    "residue_index": (1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 1, 1, 2, 1),
    "asym_id": (0,) * 6 + (1,) * 6 + (2,) * 4 + (3,),
    "entity_id": (0,) * 12 + (1,) * 4 + (2,),
    "sym_id": (1,) * 6 + (2,) * 6 + (1,) * 4 + (3,),
    "token_index": tuple(range(17)),
}
R, S, N = 3, 2, 17
WEIGHT = table(2, 4 * R + 4 + 1 + 2 * S + 2, seed=0.25)
CHAINS = {"encoding": "ChainBias", "weight": WEIGHT, **FEATURES, "max_offset": R, "max_chain": S}
PRINTED = {**CHAINS, "no_chain_offset": "chain"}
RINGS = {**CHAINS, "cyclic_period": (6,) * 6 + (0,) * 11}


def chains(
    q_len, k_len, *, other=2 * R + 1, token=None, no_offset=None, order=(0, 1, 2, 3), ring=False
):
    """The product of the weight with four one-hot blocks, for all tokens."""
    if (q_len, k_len) != (N, N):
        raise ValueError("the features are those of 17 tokens")
    index, asym, entity, sym, number = (np.array(v) for v in FEATURES.values())
    same = {n: v[:, None] == v for n, v in (("c", asym), ("r", index), ("e", entity))}
    d = index[:, None] - index
    if ring:
        d = np.where(np.arange(N) < 6, d - 6 * np.round(d / 6).astype(int), d)
    near = same["c"] & same["r"] if token is None else same[token]
    without = ~same["e"] if no_offset is None else no_offset(same)
    rows = (
        np.where(same["c"], np.clip(d + R, 0, 2 * R), other),
        np.where(near, np.clip(number[:, None] - number + R, 0, 2 * R), 2 * R + 1),
        np.where(without, 2 * S + 1, np.clip(sym[:, None] - sym + S, 0, 2 * S)),
    )
    one = [np.eye(n, dtype=np.float32)[r] for n, r in zip((8, 8, 6), rows, strict=True)]
    blocks = [one[0], one[1], same["e"][..., None].astype(np.float32), one[2]]
    vector = np.concatenate([blocks[n] for n in order], axis=-1)
    return np.moveaxis(vector @ WEIGHT.T, -1, 0)


@wrong("chain-bin", surface="bias", encoding=CHAINS, thread="jwohlwend/boltz fix_sym_check")
def chains_by_the_printed_algorithm(q_len, k_len):
    """Algorithm 3 as printed: the last bin for pairs in the same chain."""
    return chains(q_len, k_len, no_offset=lambda same: same["c"])


@wrong(
    "chain-bin",
    surface="bias",
    encoding=PRINTED,
    thread="class: weights of Boltz-1 in AlphaFold 3's code",
)
def chains_by_the_code(q_len, k_len):
    """AlphaFold 3's code where the weights are Boltz-1's."""
    return chains(q_len, k_len)


@wrong("chain-bin", surface="bias", encoding=CHAINS, thread="class: other chains have no bin")
def chains_with_the_last_offset(q_len, k_len):
    """Other chains share the bin of offset r."""
    return chains(q_len, k_len, other=2 * R)


@wrong("chain-bin", surface="bias", encoding=CHAINS, thread="class: chain not compared")
def chains_with_tokens_of_equal_residue_numbers(q_len, k_len):
    """Tokens of residues with one number in different chains have an offset."""
    return chains(q_len, k_len, token="r")


@wrong("block-order", surface="bias", encoding=CHAINS, thread="class: the flag comes last")
def chains_with_the_flag_last(q_len, k_len):
    """residue, token, chain, entity."""
    return chains(q_len, k_len, order=(0, 1, 3, 2))


@wrong("cyclic-offset", surface="bias", encoding=RINGS, thread="class: cyclic_period not passed")
def chains_with_open_rings(q_len, k_len):
    """The period is not used."""
    return chains(q_len, k_len)


@correct(surface="bias", encoding=CHAINS, thread="google-deepmind/alphafold3 featurization.py")
def chains_of_alphafold3(q_len, k_len):
    """One-hot blocks times the weight."""
    return chains(q_len, k_len)


@correct(surface="bias", encoding=RINGS, thread="jwohlwend/boltz encoders.py")
def chains_with_a_ring(q_len, k_len):
    """Rounding, in one chain."""
    return chains(q_len, k_len, ring=True)
