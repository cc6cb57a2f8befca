"""Relative positions of residues and chains: ESMFold's module, Boltz's module, rings, errors."""

import numpy as np
import pytest

from posenc_ref import ChainBias, ResidueBias
from posenc_ref.conformance import check
from tests.mutants.bias.residues import FEATURES


def numbers(*shape):
    return np.random.default_rng(12).standard_normal(shape).astype(np.float32)


def test_esmfold_subtracts_in_the_opposite_order():
    torch = pytest.importorskip("torch", reason="PyTorch runs ESMFold's module")
    modeling = pytest.importorskip(
        "transformers.models.esm.modeling_esmfold", reason="ESMFold is what is compared with"
    )
    config = type("Config", (), {"position_bins": 5, "pairwise_state_dim": 3})
    module = modeling.EsmFoldRelativePosition(config)

    def fn(q_len, k_len):
        with torch.no_grad():
            return module(torch.arange(k_len)[None])[0, k_len - q_len :].permute(2, 0, 1).numpy()

    rows = module.embedding.weight.detach().numpy()[1:]  # row 0 is for masked pairs
    report = check(fn, ResidueBias(rows[::-1].copy()), "bias")
    assert report.verdict == "conforms", report
    assert check(fn, ResidueBias(rows), "bias").codes == ["bucket-sign"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("fixed", "period"), [(False, None), (True, None), (True, 6)], ids=["1", "2", "ring"]
)
def test_boltz(fixed, period):
    """The module of Boltz-2; without ``fix_sym_check`` it computes what Boltz-1 does."""
    torch = pytest.importorskip("torch", reason="PyTorch runs Boltz's module")
    encoders = pytest.importorskip(
        "boltz.model.modules.encodersv2",
        reason="Boltz is what is compared with: pip install --no-deps boltz==2.2.1",
    )
    module = encoders.RelativePositionEncoder(
        3, r_max=3, s_max=2, fix_sym_check=fixed, cyclic_pos_enc=period is not None
    )
    torch.nn.init.normal_(module.linear_layer.weight)
    rings = None if period is None else (period,) * 12 + (0,) * 5
    declared = ChainBias(
        module.linear_layer.weight.detach().numpy(), **FEATURES, max_offset=3, max_chain=2,
        cyclic_period=rings, no_chain_offset="entity" if fixed else "chain",
    )  # fmt: skip
    features = {name: torch.tensor([values]) for name, values in FEATURES.items()}
    features["cyclic_period"] = torch.tensor([rings or (0,) * 17])

    def fn(q_len, k_len):
        if (q_len, k_len) != (17, 17):
            raise ValueError("the features are those of 17 tokens")
        with torch.no_grad():
            return module(features)[0].permute(2, 0, 1).numpy()

    report = check(fn, declared, "bias")
    assert report.verdict == "conforms", report
    other = "chain" if fixed else "entity"
    assert check(fn, declared.replace(no_chain_offset=other), "bias").codes == ["chain-bin"]


@pytest.mark.parametrize("period", [1, 2, 7, 10])
def test_a_ring_is_the_open_chain_whose_ends_meet(period):
    """Every offset is that of the nearest copy of residue j on the unrolled ring."""
    encoding = ResidueBias(numbers(25, 2), period=period)
    i = np.arange(period)
    got = encoding.bias(i, i)
    for a, b in np.ndindex(period, period):
        ways = [a - b + n * period for n in (-1, 0, 1)]
        least = min(map(abs, ways))
        allowed = [encoding.table[way + 12] for way in ways if abs(way) == least]
        assert any((got[:, a, b] == row).all() for row in allowed)
    if period > 2:  # the last residue is one before the first
        assert (got[:, period - 1, 0] == encoding.table[11]).all()
        assert (got[:, 0, period - 1] == encoding.table[13]).all()


def test_one_chain_of_several_is_a_single_chain():
    """In one chain only the residue block varies, and it is AlphaFold 2's table."""
    weight, residue = numbers(3, 2 * 4 + 2 + 1 + 2 * 2 + 2), (4, 5, 6, 9, 20)
    weight = np.round(weight * 16) / 16  # sums are exact
    one = (1,) * 5
    several = ChainBias(
        weight, residue_index=residue, asym_id=one, entity_id=one, sym_id=one, max_offset=4
    )
    single = ResidueBias(weight[:, :9].T + weight[:, 10] + weight[:, 11 + 2])
    assert np.array_equal(several.bias(range(5), range(5)), single.bias(residue, residue))


def rounded(d, period):
    """Boltz: ties of the rounding go to even numbers, so both signs of half a period occur."""
    return d - (period * np.round(d / period)).astype(int)


def upwards(d, period):
    """From -P/2 up to P/2, without P/2 itself."""
    return (d + period // 2) % period - period // 2


def offsets(q_len, k_len):
    return np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)


@pytest.mark.parametrize("period", [20, 2000, 3])
@pytest.mark.parametrize("around", [rounded, upwards])
def test_both_signs_are_right_half_way_round(around, period):
    table = numbers(25, 2)

    def fn(q_len, k_len):
        row = np.clip(around(offsets(q_len, k_len), period), -12, 12) + 12
        return np.moveaxis(table[row], -1, 0)

    report = check(fn, ResidueBias(table, period=period), "bias")
    assert report.verdict == "conforms", report
    assert "offsets of a period or more are not judged: a ring has none" in report.limits


@pytest.mark.parametrize("half", [0, 9])
def test_no_third_offset_is_right_half_way_round(half):
    table = numbers(25, 2)

    def fn(q_len, k_len):
        d = rounded(offsets(q_len, k_len), 20)
        return np.moveaxis(table[np.clip(np.where(np.abs(d) == 10, half, d), -12, 12) + 12], -1, 0)

    assert check(fn, ResidueBias(table, period=20), "bias").verdict == "deviates"


@pytest.mark.parametrize("sign", [1, -1, 0])
def test_rings_of_one_chain_of_several(sign):
    """Six residues on a ring: at an offset of 3 the two signs are right, 0 is not."""
    declared = ChainBias(
        numbers(2, 4 * 3 + 4 + 1 + 2 * 2 + 2), **FEATURES, max_offset=3,
        cyclic_period=(6,) * 6 + (0,) * 11,
    )  # fmt: skip
    at = np.arange(17)
    right = declared.bias(at, at)
    other = {1: right, -1: np.swapaxes(right, 1, 2), 0: np.roll(right, 1, axis=2)}[sign]
    tie = (np.abs(at[:, None] - at) == 3) & (np.maximum(at[:, None], at) < 6)

    def fn(q_len, k_len):
        return np.where(tie, other, right)[:, k_len - q_len : k_len, :k_len]

    report = check(fn, declared, "bias")
    assert report.verdict == ("conforms" if sign else "deviates"), report


FEW = dict.fromkeys(("residue_index", "asym_id", "entity_id", "sym_id"), (0, 1))
SMALL = numbers(2, 5 * 2 + 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ResidueBias(numbers(6, 2)), "odd number of rows, 2r [+] 1 .* got 6"),
        (lambda: ResidueBias(numbers(7, 2), period=0), "period must be at least 1, got 0"),
        (lambda: ChainBias(SMALL, **FEW), r"weight must have shape \(C, 73\)"),
        (
            lambda: ChainBias(SMALL, **{**FEW, "sym_id": (1,)}, max_offset=1),
            "sym_id must have one integer for each of the 2 tokens of residue_index, got 1",
        ),
        (
            lambda: ChainBias(SMALL, **FEW, max_offset=1, cyclic_period=(0, -3)),
            r"cyclic_period\[1\] must be at least 0, got -3",
        ),
        (lambda: ChainBias(SMALL, **{**FEW, "asym_id": ()}), "asym_id must have at least one"),
        (
            lambda: ChainBias(SMALL, **FEW, max_offset=1, no_chain_offset="same"),
            "no_chain_offset must be one of 'entity', 'chain', got 'same'",
        ),
        (
            lambda: ChainBias(SMALL, **FEW, max_offset=1).bias([0], [2]),
            "k_positions must be tokens of the chains, 0 .. 1, got 2",
        ),
    ],
)  # fmt: skip
def test_errors_name_the_argument(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_features_must_be_integers():
    with pytest.raises(TypeError, match="asym_id must be a sequence of integers, got 3"):
        ChainBias(SMALL, **{**FEW, "asym_id": 3})
    with pytest.raises(TypeError, match=r"residue_index\[0\] must be an integer, got 0.5"):
        ChainBias(SMALL, **{**FEW, "residue_index": (0.5, 1)})
