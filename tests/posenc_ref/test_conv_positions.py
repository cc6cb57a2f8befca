"""Convolutional positions: 50 digits, transformers, timm, other array libraries, errors."""

import math

import numpy as np
import pytest

from posenc_ref import ConvPositions, from_dict
from posenc_ref.accuracy import budget
from posenc_ref.conformance import bind, check
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

mp = mpmath().mp


def numbers(*shape, seed=3, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def layers(count, *shape):
    """Weights and biases of layers."""
    channels = shape[0]
    weights = tuple(numbers(*shape, seed=n) for n in range(count))
    return weights, tuple(numbers(channels, seed=10 + n) for n in range(count))


EXAMPLES = {
    "even kernel, weight norm": ConvPositions(
        *layers(1, 4, 2, 4), (numbers(4, seed=20),), groups=2
    ),
    "layers with norm": ConvPositions(*layers(2, 4, 2, 3), groups=2, layer_norm=True),
    "SiLU, residual": ConvPositions(*layers(1, 4, 4, 3), activation="silu", residual=True),
    "stride": ConvPositions(*layers(1, 4, 1, 4), groups=4, stride=2),
    "grid": ConvPositions(
        *layers(1, 4, 1, 3, 5), groups=4, activation="none", residual=True
    ),
}  # fmt: skip


def exactly(e, x, height, width):
    """The formula for every token and channel, in 50 digits, one product after the other."""
    values = {
        (i, j, c): mp.mpf(float(x[i * width + j, c])) for i, j, c in np.ndindex(height, width, 4)
    }
    old, rows = dict(values), height
    for n, (weight, bias) in enumerate(zip(e.weights, e.biases, strict=True)):
        w = weight.astype(np.float64).reshape(*weight.shape[:3], -1)
        taps, across = w.shape[2:]
        rows = height if e.stride == 1 else height // e.stride  # even kernels only
        made, per = {}, w.shape[1]
        for i, j, o in np.ndindex(rows, width, 4):
            total = mp.mpf(float(bias[o]))
            for c, a, b in np.ndindex(per, taps, across):
                size = mp.mpf(1)
                if e.gains:
                    v = mp.sqrt(sum(mp.mpf(float(u)) ** 2 for u in w[:, :, a, b].ravel()))
                    size = mp.mpf(float(e.gains[n][a])) / v
                at = (i * e.stride + a - taps // 2, j + b - across // 2, o // per * per + c)
                total += mp.mpf(float(w[o, c, a, b])) * size * values.get(at, 0)
            made[i, j, o] = total
        if e.layer_norm:
            for i, j in np.ndindex(rows, width):
                own = [made[i, j, c] for c in range(4)]
                mean = mp.fsum(own) / 4
                deviation = mp.sqrt(mp.fsum((v - mean) ** 2 for v in own) / 4 + mp.mpf(1e-5))
                made.update({(i, j, c): (v - mean) / deviation for c, v in enumerate(own)})
        act = {
            "gelu": lambda v: v * mp.ncdf(v), "silu": lambda v: v / (1 + mp.exp(-v)),
            "none": lambda v: v,
        }[e.activation]  # fmt: skip
        values = {at: act(v) for at, v in made.items()}
    found = [values[i, j, c] + (old[i, j, c] if e.residual else 0)
             for i, j, c in np.ndindex(rows, width, 4)]  # fmt: skip
    return np.array(found, dtype=np.float64).reshape(rows * width, 4)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_token_is_the_sum_in_50_digits(name):
    e = EXAMPLES[name]
    height, width = (3, 4) if e.num_axes == 2 else (7, 1)
    size = (height, width) if e.num_axes == 2 else ()
    x = numbers(height * width, 4, seed=5, dtype=np.float64)
    with mp.workdps(DIGITS):
        want = exactly(e, x, height, width)
    score = e.truth(x, *size).score(want, dtype="float64")
    assert score.max() <= budget("float64")
    rounded = e.convolve(x.astype(np.float32), *size)
    assert rounded.dtype == np.float32
    plain = e.convolve(x.astype(np.float32).astype(np.float64), *size)
    np.testing.assert_array_equal(rounded, plain.astype(np.float32))
    batch = e.convolve(np.stack([x, -x, 2 * x]), *size)
    np.testing.assert_array_equal(batch[1], e.convolve(-x, *size))
    assert from_dict(e.to_dict()) == e


def test_gelu_has_erf_far_out_too():
    """The identity as the only tap: the result is GELU itself."""
    one = ConvPositions((np.ones((1, 1, 1)),), (np.zeros(1),))
    x = np.concatenate([np.linspace(-9, 9, 61), [0.0, 1e-30, -1e-3, 40.0]])
    with mp.workdps(DIGITS):
        want = np.array([float(v * mp.ncdf(v)) for v in map(mp.mpf, x.tolist())])
    score = one.truth(x[:, None]).score(want[:, None], dtype="float64")
    assert score.max() <= budget("float64")


@pytest.mark.parametrize(
    "library",
    [
        "torch",
        "array_api_strict",
        *(pytest.param(slow, marks=pytest.mark.nightly) for slow in ("jax.numpy", "dask.array")),
    ],
)
def test_other_libraries_give_the_same(library):
    xp = pytest.importorskip(library, reason="the library that is compared with NumPy")
    for name, e in EXAMPLES.items():
        size = (3, 4) if e.num_axes == 2 else ()
        x = numbers(2, 12, 4, seed=6)
        found = np.asarray(e.convolve(xp.asarray(x), *size))
        assert found.dtype == np.float32
        score = e.truth(x, *size).score(found, dtype="float32")
        assert score.max() <= budget("float32"), name


def test_gradients_reach_the_weights():
    torch = pytest.importorskip("torch", reason="the library with gradients")
    made = [torch.tensor(numbers(4, 2, 4), requires_grad=True), torch.zeros(4, requires_grad=True),
            torch.ones(4, requires_grad=True)]  # fmt: skip
    e = ConvPositions((made[0],), (made[1],), (made[2],), groups=2)
    e.convolve(torch.tensor(numbers(2, 9, 4))).sum().backward()
    assert all(part.grad is not None and bool(part.grad.abs().sum() > 0) for part in made)


@pytest.mark.nightly
def test_data2vec_with_another_gelu_is_named():
    """Five layers with LayerNorm: the unit stays small enough to see GELU with tanh."""
    torch = pytest.importorskip("torch", reason="PyTorch runs the module")
    modeling = pytest.importorskip(
        "transformers.models.data2vec.modeling_data2vec_audio", reason="it has the module"
    )
    from posenc_ref.conformance.surveys.transformers_other.build import fill
    from posenc_ref.conformance.surveys.transformers_other.convolutions import layered

    config = modeling.Data2VecAudioConfig(
        hidden_size=32, num_conv_pos_embeddings=5, num_conv_pos_embedding_groups=4
    )
    module = fill(modeling.Data2VecAudioPositionalConvEmbedding(config).eval())

    def fn(x):
        with torch.no_grad():
            return module(torch.tensor(x)).numpy()

    declared = layered(module, config)
    assert check(fn, declared, "convolve").verdict == "conforms"
    for layer in module.layers:
        layer.activation = torch.nn.GELU(approximate="tanh")
    assert check(fn, declared, "convolve").codes == ["activation"]


@pytest.mark.nightly
def test_twins_of_timm():
    torch = pytest.importorskip("torch", reason="PyTorch runs the module")
    twins = pytest.importorskip(
        "timm.models.twins", reason="timm (with torchvision) has the module", exc_type=ImportError
    )
    module = twins.PosConv(24, 24).eval()
    for p in module.parameters():
        torch.nn.init.normal_(p)
    conv = module.proj[0]
    weights = (conv.weight.detach().numpy(),), (conv.bias.detach().numpy(),)
    declared = ConvPositions(*weights, groups=24, activation="none", residual=True)

    def fn(x, height, width):
        with torch.no_grad():
            return module(torch.tensor(x), (height, width)).numpy()

    assert check(fn, declared, "convolve_grid").verdict == "conforms"


def test_a_module_needs_no_glue():
    """A class of PyTorch is built and called with tensors; without zeros at the end it is named."""
    torch = pytest.importorskip("torch", reason="PyTorch runs the module")
    weight, bias = numbers(4, 2, 4), numbers(4)

    class Positions(torch.nn.Module):
        ends = (2, 1)

        def forward(self, hidden_states):
            x = torch.nn.functional.pad(hidden_states.transpose(1, 2), self.ends)
            y = torch.nn.functional.conv1d(x, torch.tensor(weight), torch.tensor(bias), groups=2)
            return torch.nn.functional.gelu(y).transpose(1, 2)

    class Causal(Positions):
        ends = (3, 0)

    declared = ConvPositions((weight,), (bias,), groups=2)
    right = check(bind(Positions, declared))
    assert right.verdict == "conforms", right
    assert check(bind(Causal(), declared)).codes == ["conv-padding"]


GRID = EXAMPLES["grid"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ConvPositions((), ()), "weights and biases must hold one array for each layer"),
        (lambda: ConvPositions(*layers(1, 4, 3, 3), groups=2), r"weights\[0\] must have shape"),
        (lambda: ConvPositions(*layers(1, 4, 2, 3), groups=3), "groups must divide the 4 channels"),
        (lambda: ConvPositions(*layers(1, 4, 4, 3, 2)), "must have an odd kernel, got"),
        (lambda: ConvPositions(*layers(2, 4, 4, 3), stride=2), "stride must be 1 with residual"),
        (lambda: ConvPositions(*layers(1, 4, 4, 3), activation="tanh"), "activation must be one"),
        (lambda: GRID.convolve(numbers(12, 4)), "a grid needs height and width"),
        (lambda: GRID.convolve(numbers(13, 4), 3, 4), "height [*] width = 12 tokens .* got 13"),
        (lambda: EXAMPLES["stride"].convolve(numbers(12, 4), 3, 4), "height and width are for"),
        (lambda: GRID.convolve(numbers(12, 5), 3, 4), "x must have shape"),
        (lambda: check(lambda x: x, GRID, "convolve"), "convolutional positions of a sequence"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_zeros_beyond_the_ends_carry_the_position():
    """Equal tokens differ at the ends only, and nowhere else: there is no other position."""
    e = EXAMPLES["layers with norm"]
    rows = e.convolve(np.ones((20, 4)))
    reach = 2  # two layers of 3 taps
    assert (rows[reach:-reach] == rows[reach]).all()
    assert (rows[0] != rows[reach]).all()
    assert (rows[-1] != rows[reach]).all()
    assert math.isfinite(rows.sum())
