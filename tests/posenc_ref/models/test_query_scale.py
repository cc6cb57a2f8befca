"""Query scales: against 50 digits, and beside the models of transformers that have them."""

import importlib
import json
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import posenc_ref as pr
from posenc_ref import LogNScale, LogTemperature, PowerTemperature, QueryTemperature, from_dict
from posenc_ref.accuracy import BUDGET, Truth

LENGTHS = st.integers(1, 2**20)
BETAS = st.floats(0, 4)
POSITIONS = st.lists(st.integers(0, 2**40), min_size=1, max_size=20)


def by_hand(scale, position):
    """The factor in 50 digits, from the formula and nothing else."""
    p = Fraction(position)
    with mpmath.workdps(50):
        match scale:
            case QueryTemperature(beta, length):
                steps = (p + scale.offset) // length
                return 1 + mpmath.mpf(beta) * mpmath.log(1 + mpmath.mpf(int(steps)))
            case LogNScale(length):
                seen = mpmath.mpf(p.numerator) / p.denominator + 1
                return max(mpmath.mpf(1), mpmath.log(seen) / mpmath.log(length))
            case LogTemperature(beta, length):
                seen = mpmath.mpf(p.numerator) / p.denominator + 1
                return 1 + mpmath.mpf(beta) * mpmath.log(max(mpmath.mpf(1), seen / length))
            case PowerTemperature(exponent, length):
                seen = mpmath.mpf(p.numerator) / p.denominator + 1
                return (1 + seen / length) ** mpmath.mpf(exponent)


def truth(scale, positions, factor=1.0):
    """The judged value and its unit: A is the value itself."""
    exact = np.array([float(by_hand(scale, p)) for p in np.ravel(positions).tolist()])
    value = exact.reshape(np.shape(positions)) * factor
    return Truth(value, np.abs(value), np.zeros(()))


SCALES = st.one_of(
    st.builds(QueryTemperature, BETAS, LENGTHS, offset=st.integers(0, 3)),
    st.builds(LogNScale, st.integers(2, 2**20)),
    st.builds(LogTemperature, BETAS, LENGTHS),
    st.builds(PowerTemperature, st.floats(0, 0.25), LENGTHS),
)


@given(scale=SCALES, positions=POSITIONS)
def test_factors_in_50_digits(scale, positions):
    factor = scale.factor(positions)
    assert factor.dtype == np.float64
    assert truth(scale, positions).score(factor).max() <= BUDGET["float64"]


@given(scale=SCALES, data=st.data())
def test_steps_and_thresholds(scale, data):
    """At the edges, where one position early or late shows."""
    length = getattr(scale, "original_max_position", None) or getattr(
        scale, "length", getattr(scale, "train_length", None)
    )
    k = data.draw(st.integers(1, 1000))
    positions = [max(0, k * length + d) for d in (-3, -2, -1, 0, 1)]
    factor = scale.factor(positions)
    assert truth(scale, positions).score(factor).max() <= BUDGET["float64"]


def test_the_first_step_of_llama_4_and_of_ministral():
    """p + 1 against p: Llama 4 steps one position earlier."""
    llama, ministral = QueryTemperature(0.1, 8192, offset=1), QueryTemperature(0.1, 8192)
    assert llama.factor([8190, 8191])[0] == 1.0
    assert llama.factor([8190, 8191])[1] > 1.0
    assert ministral.factor([8191, 8192])[0] == 1.0
    assert ministral.factor([8191, 8192])[1] > 1.0


def test_factors_are_one_where_the_formula_says_so():
    assert (QueryTemperature(0.1, 16384).factor(range(16384)) == 1).all()
    assert (QueryTemperature(0, 4).factor(range(100)) == 1).all()
    assert (LogNScale(2048).factor(range(2048)) == 1).all()
    assert LogNScale(2048).factor(2048)[0] > 1
    assert (LogTemperature(0.1, 128).factor(range(128)) == 1).all()
    assert LogTemperature(0.1, 128).factor(128)[0] > 1


@given(
    scale=SCALES,
    shape=st.sampled_from([(5,), (2, 5), (2, 3, 5)]),
    dtype=st.sampled_from([np.float64, np.float32, np.float16]),
    seed=st.integers(0, 99),
)
def test_apply_scales_queries_and_rounds_once(scale, shape, dtype, seed):
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((2, 3, 5, 4)).astype(dtype)
    positions = rng.integers(0, 2**20, shape)
    y = scale.apply(q, positions)
    assert y.dtype == dtype
    lined_up = positions[:, None, :] if positions.ndim == 2 else positions
    judged = truth(scale, np.broadcast_to(lined_up, (2, 3, 5))[..., None], q.astype(np.float64))
    assert judged.score(y).max() <= BUDGET[np.dtype(dtype).name]


def test_a_factor_of_one_changes_no_bit():
    q = np.random.default_rng(0).standard_normal((2, 5, 4)).astype(np.float16)
    assert (QueryTemperature(0.1, 8192).apply(q, range(5)) == q).all()


VALUES = [
    QueryTemperature(0.1, 8192, offset=1),
    QueryTemperature(0.1, 16384),
    LogNScale(2048),
    LogTemperature(0.1, 128000),
    PowerTemperature(0.1, 2048),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_travel_as_json_and_as_text(value):
    data = json.loads(json.dumps(value.to_dict()))
    assert data["query_scale"] == type(value).__name__
    assert from_dict(data) == value
    assert hash(from_dict(data)) == hash(value)
    assert eval(repr(value), vars(pr)) == value


def test_the_json_form():
    assert VALUES[0].to_dict() == {
        "query_scale": "QueryTemperature",
        "beta": 0.1,
        "original_max_position": 8192,
        "offset": 1,
    }
    with pytest.raises(ValueError, match=r"query_scale must be one of LogNScale.*got 'Nope'"):
        from_dict({"query_scale": "Nope"})


Q = np.ones((2, 3, 4), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: QueryTemperature(-0.1, 8192), ValueError, "beta must be at least 0"),
        (lambda: QueryTemperature(0.1, 0), ValueError, "original_max_position must be at least 1"),
        (lambda: QueryTemperature(0.1, 8192.0), TypeError, "must be an integer, got 8192.0"),
        (lambda: LogNScale(1), ValueError, "train_length must be at least 2, got 1"),
        (lambda: LogTemperature(0.1, 0), ValueError, "length must be at least 1"),
        (lambda: PowerTemperature(float("nan"), 4), ValueError, "exponent must be finite"),
        (lambda: VALUES[0].factor(-2), ValueError, "positions must be at least -1 .*got -2"),
        (lambda: VALUES[2].factor([0, -1]), ValueError, "at least 0 for LogNScale, got -1"),
        (lambda: VALUES[2].factor(np.float16(1)), TypeError, "got float16"),
        (lambda: VALUES[0].apply(Q, range(5)), ValueError, "positions must have shape"),
        (
            lambda: VALUES[0].apply(Q.astype(int), range(3)),
            TypeError,
            "q must be a real floating.*got int64",
        ),
        (
            lambda: VALUES[0].apply(Q[0, 0], 0),
            TypeError,
            r"shape \(..., S, head_dim\), got float32 .4,.",
        ),
        (
            lambda: VALUES[0].apply([[1.0]], 0),
            TypeError,
            "q must be a real floating array.*got list",
        ),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_llama_4_accepts_its_own_first_position():
    assert QueryTemperature(0.1, 8192, offset=1).factor(-1)[0] == 1.0


# -- other array libraries -----------------------------------------------------------------------


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_other_libraries(value):
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    jax = pytest.importorskip("jax", reason="JAX's arrays are what is tried")
    dask = pytest.importorskip("dask.array", reason="Dask's arrays are what is tried")
    strict = pytest.importorskip(
        "array_api_strict", reason="array_api_strict is the library that is tried"
    )
    positions = np.array([0, 5, 8191, 8192, 300000])
    judged = truth(value, positions)
    for make in (torch.asarray, strict.asarray, dask.from_array):
        factor = np.asarray(value.factor(make(positions)))
        assert judged.score(factor).max() <= BUDGET["float64"]
    # JAX has no float64 here: the factor is computed on the host and sent as float32.
    factor = value.factor(jax.numpy.asarray(positions))
    assert isinstance(factor, jax.Array)
    assert judged.score(np.asarray(factor)).max() <= BUDGET["float32"]
    assert value.factor(torch.asarray(positions), dtype=torch.float16).dtype == torch.float16

    q = np.random.default_rng(0).standard_normal((2, 5, 4)).astype(np.float32)
    judged = truth(value, positions[:, None], q.astype(np.float64))
    for make in (torch.asarray, strict.asarray, dask.from_array, jax.numpy.asarray):
        y = value.apply(make(q), positions)
        assert type(y) is type(make(q))
        assert judged.score(np.asarray(y)).max() <= BUDGET["float32"]
    half = value.apply(torch.asarray(q).bfloat16(), torch.asarray(positions))
    assert half.dtype == torch.bfloat16
    assert judged.score(half.float().numpy(), dtype="bfloat16").max() <= BUDGET["bfloat16"]


def test_lazy_positions_outside_the_domain_give_nan():
    dask = pytest.importorskip("dask.array", reason="Dask's arrays are what is tried")
    factor = QueryTemperature(0.1, 8).factor(dask.from_array(np.array([-1, 0, 8])))
    assert np.isnan(factor.compute()).tolist() == [True, False, False]


# -- the models of transformers, side by side ----------------------------------------------------


def modeling(name):
    pytest.importorskip("transformers", reason="transformers is what is compared with")
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


def judge(scale, positions, theirs):
    """Their float32 factors against the 50 digits and against ours."""
    score = truth(scale, positions).score(np.asarray(theirs, np.float32)).max()
    assert score <= BUDGET["float32"]
    assert truth(scale, positions).score(scale.factor(positions)).max() <= BUDGET["float64"]


#: Below 2**24, where their float32 positions are exact.
NEAR = st.lists(st.integers(0, 2**20), min_size=1, max_size=20)


@pytest.mark.parametrize("name", ["ministral3", "mistral4"])
@given(positions=NEAR, length=st.sampled_from([1, 7, 4096, 8192, 16384]), beta=BETAS)
def test_ministral3_and_mistral4(name, positions, length, beta):
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    theirs = modeling(name).get_llama_4_attn_scale(torch.tensor([positions]), beta, length)
    judge(QueryTemperature(beta, length), positions, theirs[0, 0, :, 0].numpy())


@given(positions=NEAR)
def test_beam(positions):
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    theirs = modeling("beam").compute_attention_scaling(torch.tensor([positions]))
    judge(PowerTemperature(0.1, 2048), positions, theirs[0, 0, :, 0].numpy())


def queries_of(module, attention, hidden, **kwargs):
    """The queries with which `attention` calls the attention function of its module."""
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    seen = []

    def watched(_, query, key, value, *args, **kwargs):
        seen.append(query)
        return torch.zeros_like(query).transpose(1, 2), None

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(module, "eager_attention_forward", watched)
        attention(hidden, **kwargs)
    return seen[0]


SMALL = {
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_hidden_layers": 4,
    "attn_implementation": "eager",
}


@pytest.mark.parametrize("floor_scale", [4, 7, 8192])
def test_llama_4(floor_scale):
    """One attention layer without RoPE, tuned and not: the quotient of the queries."""
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    module = modeling("llama4")
    torch.manual_seed(0)
    hidden = torch.randn(1, 40, 16)
    freqs = torch.polar(torch.ones(1, 40, 4), torch.rand(1, 40, 4))
    queries = {}
    for tuned in (True, False):
        config = module.Llama4TextConfig(
            **SMALL, floor_scale=floor_scale, attn_scale=0.1, attn_temperature_tuning=tuned
        )
        assert config.no_rope_layers == [1, 1, 1, 0]
        for layer in (2, 3):
            torch.manual_seed(1)
            attention = module.Llama4TextAttention(config, layer).eval()
            queries[layer, tuned] = queries_of(
                module,
                attention,
                hidden,
                position_embeddings=freqs,
                attention_mask=None,
            )
    assert torch.equal(queries[2, True], queries[2, False])  # a layer with RoPE is not tuned
    scale = QueryTemperature(0.1, floor_scale, offset=1)
    plain = queries[3, False].double().numpy()
    judged = truth(scale, np.arange(40)[:, None], plain)
    assert judged.score(queries[3, True].numpy()).max() <= BUDGET["float32"]
    assert judged.score(scale.apply(plain, range(40))).max() <= BUDGET["float64"]
    if floor_scale < 40:  # the other origin is seen
        late = truth(QueryTemperature(0.1, floor_scale), np.arange(40)[:, None], plain)
        assert late.score(queries[3, True].numpy()).max() > BUDGET["float32"]


@pytest.mark.parametrize("floor", [1, 4, 30])
def test_inkling(floor):
    """The queries of a layer without a window, scaled and not."""
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    module = modeling("inkling")
    torch.manual_seed(0)
    hidden = torch.randn(1, 40, 16)
    queries = {}
    for given_floor in (floor, None):
        config = module.InklingTextConfig(
            **SMALL, layer_types=["hybrid_sliding", "hybrid"] * 2, log_scaling_n_floor=given_floor
        )
        torch.manual_seed(1)
        attention = module.InklingAttention(config, 1).eval()
        queries[given_floor] = queries_of(module, attention, hidden, attention_mask=None)
    plain = queries[None].double().numpy()
    judged = truth(LogTemperature(0.1, floor), np.arange(40)[:, None], plain)
    assert judged.score(queries[floor].numpy()).max() <= BUDGET["float32"]
