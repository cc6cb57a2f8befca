"""Every frequency schedule against transformers' own functions, and where these deviate.

The unit is one float32 rounding of the sum of the terms that form a frequency.  Where a narrow
ramp subtracts numbers of like size, these are terms: `terms` says which.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding

import posenc_ref as pr
from posenc_ref.accuracy import BUDGET, ROUNDOFF, Truth

BASES = st.sampled_from([1e4, 1.5e5, 5e5, 1e6, 1e7, 1e8]) | st.floats(2, 1e8)
DIMS = st.sampled_from([32, 64, 128]) | st.integers(2, 32).map(lambda n: 2 * n)
FACTORS = st.sampled_from([1.0, 2.0, 4.0, 8.0, 32.0, 40.0]) | st.floats(1, 400)
LENGTHS = st.sampled_from([2048, 4096, 8192, 32768, 131072]) | st.integers(16, 2**20)


def config(head_dim, longest=8192, **parameters):
    """What the functions read of a configuration."""
    return SimpleNamespace(
        rope_parameters=parameters,
        head_dim=head_dim,
        hidden_size=4 * head_dim,
        num_attention_heads=4,
        max_position_embeddings=longest,
        standardize_rope_params=lambda: None,
    )


def theirs(kind, *args, seq_len=None, layer_type=None, **parameters):
    made = config(*args, **parameters)
    frequencies, m = ROPE_INIT_FUNCTIONS[kind](made, seq_len=seq_len, layer_type=layer_type)
    assert str(frequencies.dtype) == "torch.float32"
    return frequencies.numpy(), m


def score(schedule, base, d, actual, seq_len=None, terms=None):
    """The worst of all pairs, in units."""
    ours = np.array([float(w) for w in schedule.schedule(base, d, seq_len)])
    assert actual.shape == ours.shape
    truth = Truth(ours, ours if terms is None else terms, np.zeros(()))
    return float(truth.score(actual).max())


def conforms(*args, **kwargs):
    assert score(*args, **kwargs) <= BUDGET["float32"]


def same_m(schedule, m, seq_len=None):
    ours = np.array(schedule.magnitude(seq_len))
    assert Truth(ours, ours, np.zeros(())).score(np.array(m)) <= BUDGET["float64"]


# -- a grid of parameters, every kind -------------------------------------------------------------


@given(BASES, DIMS, st.sampled_from([1.0, 0.5, 0.25, 0.4, 0.75, 0.334]))
def test_default(base, d, fraction):
    made = config(d, rope_theta=base, partial_rotary_factor=fraction)
    actual, m = GPTNeoXRotaryEmbedding.compute_default_rope_parameters(made)
    rotary_dim = int(d * fraction)
    assume(rotary_dim >= 2 and rotary_dim % 2 == 0)
    conforms(pr.LinearScaling(1), base, rotary_dim, actual.numpy())
    assert m == 1.0


@given(BASES, DIMS, FACTORS)
def test_linear(base, d, s):
    actual, m = theirs("linear", d, rope_theta=base, factor=s)
    conforms(pr.LinearScaling(s), base, d, actual)
    assert m == pr.LinearScaling(s).magnitude(None)


@given(BASES, DIMS, FACTORS, LENGTHS, st.integers(1, 2**22))
def test_dynamic(base, d, s, trained, length):
    ntk = pr.DynamicNTK(s, trained)
    for seq_len in (None, 1, trained, trained + 1, length):
        actual, m = theirs("dynamic", d, trained, rope_theta=base, factor=s, seq_len=seq_len)
        conforms(ntk, base, d, actual, seq_len)
        assert m == ntk.magnitude(seq_len)


@given(BASES, DIMS, FACTORS, st.floats(0, 1))
def test_proportional(base, d, s, fraction):
    actual, m = theirs("proportional", d, rope_theta=base, factor=s, partial_rotary_factor=fraction)
    conforms(pr.Proportional(fraction, factor=s), base, d, actual)
    assert m == 1.0


def yarn_terms(yarn, base, d):
    """f_k, and in the ramp what (k - low) / (high - low) subtracts."""
    f = base ** -(np.arange(d // 2) / (d / 2))
    w = np.array([float(v) for v in yarn.replace(blend="linear").schedule(base, d, None)])
    drop = 1 - 1 / yarn.factor
    gamma = (1 - w / f) / drop if drop else np.zeros(d // 2)
    inside = np.flatnonzero((gamma > 0) & (gamma < 1))
    k = np.arange(d // 2)

    def turns(r):
        return d * math.log(yarn.original_max_position / (2 * math.pi * r)) / (2 * math.log(base))

    width = turns(yarn.beta_slow) - max(turns(yarn.beta_fast), 0)
    lost = np.zeros(d // 2)
    if not yarn.truncate:
        lost[inside] = (2 * k[inside] * drop * f[inside]) / max(width, 0.001)
    return w + lost


@given(BASES, DIMS, FACTORS, LENGTHS, st.floats(1, 64), st.floats(0.1, 4), st.booleans())
def test_yarn(base, d, s, trained, fast, slow, truncate):
    assume(slow <= fast)
    yarn = pr.YaRN(s, trained, beta_fast=fast, beta_slow=slow, truncate=truncate)
    try:
        terms = yarn_terms(yarn, base, d)
    except ValueError as error:
        assert "correction range outside the pairs" in str(error)  # noqa: PT017
        return
    actual, m = theirs(
        "yarn", d, rope_theta=base, factor=s, original_max_position_embeddings=trained,
        beta_fast=fast, beta_slow=slow, truncate=truncate,
    )  # fmt: skip
    conforms(yarn, base, d, actual, terms=terms)
    same_m(yarn, m)


@given(FACTORS, st.floats(0.01, 2), st.floats(0.01, 2))
def test_yarn_mscales(s, u, v):
    def m(**given):
        return theirs(
            "yarn", 64, rope_theta=1e4, factor=s, original_max_position_embeddings=4096, **given
        )[1]

    for given_m in ({}, {"mscale": u, "mscale_all_dim": v}, {"attention_factor": u}):
        same_m(pr.YaRN(s, 4096, **given_m), m(**given_m))
    same_m(pr.YaRN(s, 4096, mscale=1.0, mscale_all_dim=0.0), m(mscale=1.0, mscale_all_dim=0.0))
    assert m(mscale=u) == m(mscale_all_dim=v) == m()  # one alone is ignored there, refused here


@given(BASES, DIMS, FACTORS, LENGTHS, st.floats(0.1, 8), st.floats(0.001, 8))
def test_llama3(base, d, s, trained, low, band):
    llama = pr.Llama3Scaling(s, low, low + band, trained)
    actual, m = theirs(
        "llama3", d, rope_theta=base, factor=s, low_freq_factor=low, high_freq_factor=low + band,
        original_max_position_embeddings=trained,
    )  # fmt: skip
    f = base ** -(np.arange(d // 2) / (d / 2))
    turns = trained * f / (2 * math.pi)
    inside = (turns > low) & (turns < low + band)
    # In the band, (turns - low) / (high - low) subtracts numbers of the size of turns.
    terms = f / s + inside * f * (1 - 1 / s) * (turns + low) / band + f * (turns >= low + band)
    conforms(llama, base, d, actual, terms=terms)
    assert m == llama.magnitude(None)


@given(BASES, DIMS, FACTORS, LENGTHS, st.data())
def test_longrope(base, d, s, trained, data):
    numbers = st.lists(st.floats(1, 100), min_size=d // 2, max_size=d // 2)
    short, long = data.draw(numbers), data.draw(numbers)
    rope = pr.LongRoPE(short, long, trained, factor=s)
    for seq_len in (None, trained, trained + 1):
        actual, m = theirs(
            "longrope", d, rope_theta=base, factor=s, short_factor=short, long_factor=long,
            original_max_position_embeddings=trained, seq_len=seq_len,
        )  # fmt: skip
        conforms(rope, base, d, actual, seq_len)
        same_m(rope, m, seq_len)


# -- a wrong setting is seen ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        pr.YaRN(8, 4096),
        pr.YaRN(32, 4096, truncate=False),
        pr.YaRN(32, 4097, truncate=False),
        pr.YaRN(32, 4096, beta_fast=16),
        pr.YaRN(32, 4096, blend="geometric"),
        pr.Llama3Scaling(32, 1, 32, 4096),
    ],
)
def test_what_is_not_this_yarn_is_seen(wrong):
    actual, _ = theirs(
        "yarn", 64, rope_theta=1.5e5, factor=32.0, original_max_position_embeddings=4096
    )
    conforms(pr.YaRN(32, 4096), 1.5e5, 64, actual)
    assert score(wrong, 1.5e5, 64, actual) > BUDGET["float32"]


# -- where transformers deviates ------------------------------------------------------------------

YARN = {"rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 4096}


def test_truncate_is_overlooked_in_parameters_nested_by_layer_type():
    made = config(64, full={**YARN, "truncate": False})
    made.per_layer_config = {"full": made}
    nested = ROPE_INIT_FUNCTIONS["yarn"](made, layer_type="full")[0].numpy()
    flat = theirs("yarn", 64, **YARN, truncate=False)[0]
    declared, rounded = pr.YaRN(8, 4096, truncate=False), pr.YaRN(8, 4096)
    conforms(declared, 1e4, 64, flat, terms=yarn_terms(declared, 1e4, 64))
    conforms(rounded, 1e4, 64, nested)
    assert score(declared, 1e4, 64, nested) > BUDGET["float32"]


def test_floor_and_ceiling_are_decided_in_float64():
    """An end of the ramp within 1e-15 of a whole pair falls on either side of it there."""
    slow = 4096 / (2 * math.pi * 10000.0 ** (2 * 20 / 64))
    betas = [slow, math.nextafter(slow, 0), math.nextafter(slow, 9)]
    scores = []
    for beta in betas:
        actual, _ = theirs("yarn", 64, **YARN, beta_slow=beta)
        scores.append(score(pr.YaRN(8, 4096, beta_slow=beta), 1e4, 64, actual))
    assert min(scores) <= BUDGET["float32"] < max(scores)


def test_the_ramp_falls_where_the_trained_length_turns_no_pair_once():
    """Kept from the original code: what should be interpolated is not."""
    actual, _ = theirs("yarn", 64, **{**YARN, "original_max_position_embeddings": 4})
    conforms(pr.LinearScaling(1), 1e4, 64, actual)
    with pytest.raises(ValueError, match="Every pair turns less than 1 times"):
        pr.YaRN(8, 4).schedule(1e4, 64, None)


def test_equal_llama3_factors_are_not_a_number_where_a_wavelength_meets_them():
    wavelength = float(np.float32(2 * math.pi) * np.float32(1e4) ** np.float32(0.5))
    given_llama = {"rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 8192}
    for low in (2.0, 8192 / wavelength):
        actual, _ = theirs("llama3", 64, **given_llama, low_freq_factor=low, high_freq_factor=low)
        step = pr.Llama3Scaling(8, low, low, 8192).schedule(1e4, 64, None)
        assert all(w.is_finite() for w in step)
        if low == 2.0:
            conforms(pr.Llama3Scaling(8, 2.0, 2.0, 8192), 1e4, 64, actual)
        else:
            assert not np.isfinite(actual[16])


def test_dynamic_has_no_value_for_one_pair():
    with pytest.raises(ZeroDivisionError):
        theirs("dynamic", 2, 4096, rope_theta=1e4, factor=2.0)
    with pytest.raises(ValueError, match="rotary_dim must be at least 4"):
        pr.RoPE(2, layout="half", scaling=pr.DynamicNTK(2, 4096))


def test_a_narrow_band_costs_float32_more_than_the_budget():
    """Found at random; the terms that are subtracted explain it."""
    actual, _ = theirs(
        "llama3", 226, rope_theta=1e7, factor=4.0, low_freq_factor=1.0,
        high_freq_factor=1.0257814630634046, original_max_position_embeddings=32768,
    )  # fmt: skip
    llama = pr.Llama3Scaling(4, 1.0, 1.0257814630634046, 32768)
    assert score(llama, 1e7, 226, actual) > BUDGET["float32"]
    exact = np.array([float(w) for w in llama.schedule(1e7, 226, None)])
    relative = np.abs(actual - exact) / exact
    assert relative.max() <= 1024 * ROUNDOFF["float32"]
