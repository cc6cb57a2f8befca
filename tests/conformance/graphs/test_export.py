"""Exported models compute what formulas written here compute, and refuse what they cannot."""

import numpy as np
import onnx
import onnxruntime
import pytest

from posenc_ref import (
    ALiBi,
    DynamicNTK,
    Kerple,
    Learned,
    MultiAxisRoPE,
    RoPE,
    Sinusoidal,
    Sinusoidal2D,
    T5Bias,
    XPos,
    YaRN,
)
from posenc_ref.conformance import check
from posenc_ref.conformance.graphs.export import export
from posenc_ref.conformance.graphs.load import from_onnx

POSITIONS = np.array([[0, 1, 2, 37, 1021, 99_999], [5, 4, 3, 2, 1, 1_000_000]])


def run(model, **inputs):
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def turned(x, angle):
    """Half-split pairs turned by the angles (B, S, d/2), in float64."""
    first, second = np.split(x.astype(np.float64), 2, axis=-1)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def angles(d, base=10000.0):
    return POSITIONS[..., None] * base ** (-np.arange(0, d, 2) / d)


def require_close(actual, expected, roundings=8):
    assert actual.shape == expected.shape
    worst = np.abs(actual - expected).max() / np.abs(expected).max()
    assert worst < roundings * 2.0**-24, worst


@pytest.mark.parametrize("opset", [13, 18, 23])
def test_half_split_pairs_at_any_position(opset):
    x = numbers(2, 3, 6, 64)
    (y,) = run(export(RoPE(64, layout="half"), opset=opset), x=x, position_ids=POSITIONS)
    require_close(y, turned(x, angles(64)))


def test_interleaved_pairs_of_a_trailing_slice_that_are_written_as_halves():
    encoding = RoPE(
        24, layout="interleaved", rotary_dim=16, rotary_start=8, output_layout="half", base=500.0
    )
    x = numbers(2, 3, 6, 24)
    (y,) = run(export(encoding), x=x, position_ids=POSITIONS)
    moved = np.concatenate([x[..., 8::2], x[..., 9::2]], axis=-1)
    assert np.array_equal(y[..., :8], x[..., :8])
    require_close(y[..., 8:], turned(moved, angles(16, 500.0)))


def test_the_sign_and_the_attention_factor():
    yarn = YaRN(4.0, 4096, attention_factor=1.5)
    encoding = RoPE(16, layout="half", scaling=yarn, sign=-1)
    x = numbers(2, 3, 6, 16)
    (y,) = run(export(encoding), x=x, position_ids=POSITIONS)
    angle = -POSITIONS[..., None] * encoding.frequencies()
    require_close(y, 1.5 * turned(x, angle))


def test_every_pair_of_several_axes_turns_by_its_own_position():
    encoding = MultiAxisRoPE(32, sections=(4, 6, 6), layout="half")
    at = np.stack([POSITIONS, POSITIONS // 2, POSITIONS // 3])
    x = numbers(2, 3, 6, 32)
    (y,) = run(export(encoding), x=x, position_ids=at)
    axis = np.repeat([0, 1, 2], [4, 6, 6])
    angle = np.moveaxis(at[axis], 0, -1) * 10000.0 ** (-np.arange(16) / 16)
    require_close(y, turned(x, angle))


@pytest.mark.parametrize("length", [None, 1024])
def test_tables(length):
    cos, sin = run(
        export(RoPE(64, layout="half"), "tables", length=length), positions=np.arange(1024)
    )
    angle = np.arange(1024)[:, None] * 10000.0 ** (-np.arange(32) / 32)
    require_close(cos, np.cos(angle))
    require_close(sin, np.sin(angle))


def test_stored_tables_refuse_positions_that_they_do_not_have():
    model = export(RoPE(64, layout="half"), "tables", length=16)
    for positions in ([-1], [16]):
        with pytest.raises(Exception, match="out of data bounds"):
            run(model, positions=np.array(positions))


def test_sinusoids_and_learned_rows():
    at = np.array([3, 0, 99])
    (table,) = run(export(Sinusoidal(32), length=100), positions=at)
    angle = at[:, None] * 10000.0 ** (-np.arange(16) / 16)
    require_close(table, np.stack([np.sin(angle), np.cos(angle)], -1).reshape(3, 32))
    rows = numbers(100, 8)
    (table,) = run(export(Learned(rows), length=100), positions=at)
    assert np.array_equal(table, rows[at])


def test_biases_take_any_positions():
    q, k = np.array([100_000, 7]), np.array([0, 99_999, 100_001])
    (bias,) = run(export(ALiBi(8, causal=False)), q_positions=q, k_positions=k)
    slopes = 2.0 ** -np.arange(1, 9)
    require_close(bias, -slopes[:, None, None] * np.abs(k - q[:, None]))
    weights = numbers(32, 4)
    (bias,) = run(export(T5Bias(weights)), q_positions=q, k_positions=k)
    # Later keys have buckets 16 .. 31; the last bucket of each side is that of far keys.
    far = [[15, 8 - 7, 16 + 1], [7, 31, 31]]
    assert np.array_equal(bias, np.moveaxis(weights[np.array(far)], -1, 0))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_the_dtype_is_that_of_x_and_of_the_result(dtype, tmp_path):
    encoding = RoPE(16, layout="half", base=500.0)
    (tmp_path / "rope.onnx").write_bytes(export(encoding, dtype=dtype).SerializeToString())
    fn = from_onnx(tmp_path / "rope.onnx", head_dim=16)
    assert check(fn, encoding, dtype=dtype, max_position=1023).passed
    other = RoPE(16, layout="half", base=600.0)
    assert check(fn, other, dtype=dtype, max_position=1023).codes == ["base"]


REFUSED = {
    "depend on the length": lambda: export(RoPE(64, layout="half", scaling=DynamicNTK(2.0, 4096))),
    "no rotation by position": lambda: export(XPos(64, layout="half")),
    "length must be given": lambda: export(Sinusoidal(32)),
    "length is not used": lambda: export(ALiBi(8), length=10),
    "length must be at least 1": lambda: export(Sinusoidal(32), length=0),
    "what must be apply or tables": lambda: export(RoPE(64, layout="half"), "bias"),
    "dtype must be one of": lambda: export(RoPE(64, layout="half"), dtype="bfloat16"),
    "opset must be 13": lambda: export(RoPE(64, layout="half"), opset=12),
    "3 position axes": lambda: export(
        MultiAxisRoPE(32, sections=(4, 6, 6), layout="half"), "tables"
    ),
    "2 position axes: only tables of one": lambda: export(Sinusoidal2D(64), length=8),
    "length 9 is too large for Learned": lambda: export(Learned(numbers(8, 4)), length=9),
    "neither linear": lambda: export(Kerple([1.0, 2.0], [0.5, 0.25])),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_model_is_refused_with_the_reason(text):
    with pytest.raises(ValueError, match=text):
        REFUSED[text]()
