"""Encodings are values: frozen, equal by their fields, hashable, readable, and JSON and back."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import posenc_ref as pr
from posenc_ref import ALiBi, Learned, LinearScaling, RoPE, Sinusoidal, T5Bias, from_dict
from posenc_ref.encoding import Value

W = np.random.default_rng(0).standard_normal((32, 4))
PLAIN = [
    Sinusoidal(8),
    Sinusoidal(9, base=500, layout="concat", denominator="half-1", offset=2, odd="zero-pad"),
    Sinusoidal(8, first="cos", denominator=3.5, position_scale=0.1, scale=-2),
    RoPE(64, layout="half"),
    RoPE(64, layout="interleaved", base=1e6, rotary_dim=16, scaling=LinearScaling(8), sign=-1),
    LinearScaling(4),
    ALiBi(12),
    ALiBi(8, causal=False, max_bias=16),
]
ARRAYS = [
    Learned(W),
    Learned(W.astype(np.float32), offset=2, padding_idx=1),
    Learned(W.astype(np.float16)[:, ::2]),
    T5Bias(W),
    T5Bias(W.astype(">f4"), max_distance=256, bidirectional=False),
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_repr_is_an_expression_for_the_value(value):
    assert eval(repr(value), vars(pr)) == value


def test_arrays_are_shortened_in_every_repr():
    classes = [e for e in vars(pr).values() if isinstance(e, type) and issubclass(e, Value)]
    assert len(classes) > 40
    assert {cls.__name__ for cls in classes if cls.__repr__ is not Value.__repr__} == {
        "ModelEncoding"
    }


def test_repr_shows_what_was_chosen():
    assert repr(RoPE(64, layout="half", base=10000)) == "RoPE(64, layout='half')"
    assert repr(RoPE(8, layout="half", rotary_dim=8)) == "RoPE(8, layout='half')"
    assert repr(Sinusoidal(8, offset=1)) == "Sinusoidal(8, offset=1.0)"
    scaled = RoPE(8, layout="half", scaling=LinearScaling(2))
    assert repr(scaled) == "RoPE(8, layout='half', scaling=LinearScaling(2.0))"
    assert repr(Learned(W, offset=2)) == "Learned(weight=<float64 (32, 4)>, offset=2)"


@pytest.mark.parametrize("value", PLAIN + ARRAYS, ids=repr)
def test_json_and_back(value):
    data = json.loads(json.dumps(value.to_dict()))
    back = from_dict(data)
    assert back == value
    assert hash(back) == hash(value)
    assert type(back) is type(value)
    assert back.to_dict() == value.to_dict()
    assert data[value.kind] == type(value).__name__
    for field in dataclasses.fields(value):
        mine, yours = getattr(value, field.name), getattr(back, field.name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype.name == yours.dtype.name
            assert mine.shape == yours.shape
            assert (mine == yours).all()
        else:
            assert type(mine) is type(yours)


def test_json_form():
    rope = RoPE(64, layout="half", scaling=LinearScaling(2))
    assert rope.to_dict() == {
        "encoding": "RoPE",
        "head_dim": 64,
        "layout": "half",
        "base": 10000.0,
        "rotary_dim": 64,
        "rotary_start": 0,
        "output_layout": None,
        "scaling": {"scaling": "LinearScaling", "factor": 2.0},
        "sign": 1,
    }
    weight = Learned(np.array([[1.5, -0.0]], np.float32)).to_dict()["weight"]
    assert weight == {"dtype": "float32", "shape": [1, 2], "hex": "3fc0000080000000"}


def test_tables_written_as_lists_are_read():
    encoding = from_dict({"encoding": "Learned", "weight": [[1, 2], [3, 4]], "offset": 1})
    assert encoding.weight.dtype == np.float64
    assert encoding.table(0).tolist() == [[3.0, 4.0]]


def test_every_value_differs_from_every_other():
    values = PLAIN + ARRAYS
    for i, one in enumerate(values):
        for j, two in enumerate(values):
            assert (one == two) == (i == j)
    assert len(set(values)) == len(values)
    assert RoPE(8, layout="half") != "RoPE(8, layout='half')"


def test_equality_goes_by_the_bits_of_arrays():
    assert Learned(W) == Learned(W.copy())
    assert hash(Learned(W)) == hash(Learned(W.copy()))
    assert Learned(W) != Learned(W.astype(np.float32))
    assert Learned(W) != Learned(W.reshape(4, 32))
    changed = W.copy()
    changed[3, 1] = np.nextafter(changed[3, 1], 2)
    assert Learned(W) != Learned(changed)
    assert Learned(np.zeros((1, 1))) != Learned(-np.zeros((1, 1)))
    nan = np.full((1, 1), np.nan)
    assert Learned(nan) == Learned(nan.copy())


@given(st.floats(-100, 100), st.floats(-100, 100))
def test_equal_values_hash_alike(a, b):
    one, two = Sinusoidal(8, offset=a), Sinusoidal(8, offset=b)
    assert (one == two) == (a == b)
    if a == b:
        assert hash(one) == hash(two)


def test_the_sign_of_a_zero_does_not_matter():
    one, two = Sinusoidal(8, offset=-0.0), Sinusoidal(8)
    assert one == two
    assert hash(one) == hash(two)


def test_scalars_become_plain_python():
    value = Sinusoidal(np.int32(8), base=np.float32(10.5), offset=np.int64(1), scale=True + 1)
    assert [type(v) for v in (value.dim, value.base, value.offset, value.scale)] == [
        int,
        float,
        float,
        float,
    ]
    assert type(ALiBi(np.uint8(4), causal=np.True_).causal) is bool


@pytest.mark.parametrize("value", PLAIN + ARRAYS, ids=repr)
def test_values_cannot_be_changed(value):
    field = dataclasses.fields(value)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(value, field)


def test_replace_makes_a_checked_copy():
    rope = RoPE(64, layout="half", rotary_dim=32)
    assert rope.replace(base=500) == RoPE(64, layout="half", rotary_dim=32, base=500)
    assert rope == RoPE(64, layout="half", rotary_dim=32)
    with pytest.raises(ValueError, match="rotary_dim must be at most head_dim = 16, got 32"):
        rope.replace(head_dim=16)
    with pytest.raises(TypeError, match="colour"):
        rope.replace(colour=1)
    # What followed from the other fields follows again.
    assert RoPE(64, layout="half").replace(head_dim=128) == RoPE(128, layout="half")
    assert RoPE(64, layout="half").replace(rotary_dim=8).rotary_dim == 8


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ([1], TypeError, "data must be a mapping"),
        ({"head_dim": 8}, ValueError, "must name its class.*got keys .'head_dim'"),
        ({"encoding": 3}, ValueError, "must name its class"),
        (
            {"type": "llama3", "factor": 8.0},
            ValueError,
            '\'llama3\' is {"scaling": "Llama3Scaling", ...}, with the fields factor, low_freq',
        ),
        (
            {"encoding": "RoPE", "head_dim": 8, "layout": "half", "scaling": {"rope_type": "yarn"}},
            ValueError,
            '\'yarn\' is {"scaling": "YaRN", ...}, with the fields factor, original_max_position',
        ),
        ({"type": "su"}, ValueError, "the scalings are DynamicNTK, .*YaRN"),
        ({"encoding": "Rope"}, ValueError, "encoding must be one of ALiBi.*RoPE.*got 'Rope'"),
        (
            {"scaling": "NoSuchRule"},
            ValueError,
            "scaling must be one of DynamicNTK.*got 'NoSuchRule'",
        ),
        (
            {"encoding": "RoPE", "head_dim": 8, "layout": "half", "theta": 1e4},
            ValueError,
            "RoPE has no field 'theta'; its fields are head_dim, layout, base",
        ),
        (
            {"encoding": "RoPE", "head_dim": 8},
            ValueError,
            "RoPE needs the field 'layout': layout must be one of 'interleaved', 'half'",
        ),
        ({"encoding": "ALiBi"}, ValueError, "ALiBi needs the field 'num_heads'"),
        (
            {"encoding": "Learned", "weight": {"dtype": "f99", "shape": [1, 1], "hex": "00"}},
            ValueError,
            "weight: the dtype of an array must be one of float64, .*, got 'f99'",
        ),
        (
            {"encoding": "RoPE", "head_dim": 8, "layout": "half", "scaling": {"scaling": "X"}},
            ValueError,
            "scaling must be one of",
        ),
    ],
)
def test_what_from_dict_refuses(data, error, message):
    with pytest.raises(error, match=message):
        from_dict(data)


def test_bfloat16_tables_of_numpy_and_torch_are_one_value():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    mine = Learned(W.astype(ml_dtypes.bfloat16))
    yours = Learned(torch.tensor(W.astype(np.float32)).to(torch.bfloat16))
    assert mine == yours
    assert hash(mine) == hash(yours)
    back = from_dict(json.loads(json.dumps(yours.to_dict())))
    assert back == mine
    assert back.weight.dtype == ml_dtypes.bfloat16


def test_a_learned_parameter_of_torch_is_kept_with_its_gradient():
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    parameter = torch.nn.Parameter(torch.tensor(W))
    encoding = Learned(parameter)
    assert encoding.weight is parameter
    assert encoding == Learned(W)
    encoding.table([3, 3, 1]).sum().backward()
    assert parameter.grad[:4, 0].tolist() == [0.0, 1.0, 0.0, 2.0]
