"""Fourier features and Time2Vec: 50 digits, then the libraries that have them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import FourierFeatures, Sinusoidal, Time2Vec, from_dict, patch_centres
from posenc_ref.accuracy import budget
from tests.conformance.exact.fixed_point import Exact
from tests.posenc_ref.exact_features import fixed, judge, mp, rows

torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
models = pytest.importorskip("transformers", reason="transformers is what is compared with").models

RNG = np.random.default_rng(5)
COORDINATES = RNG.uniform(0, 1, (2, 40))


def places(count):
    numbers = st.integers(-(2**40), 2**40).map(lambda n: n / 2**35)
    return st.lists(numbers, min_size=count, max_size=count)


@given(
    axes=st.integers(1, 3),
    bands=st.integers(1, 3),
    unit=st.sampled_from(["turn", "half-turn", "radian"]),
    layout=st.sampled_from(["concat", "interleaved", "grouped"]),
    first=st.sampled_from(["sin", "cos"]),
    mapped=st.sampled_from([(0.0, 1.0), (-0.5, 2.0)]),
    scale=st.sampled_from([1.0, -0.125]),
    data=st.data(),
)
def test_every_field(axes, bands, unit, layout, first, mapped, scale, data):
    pairs = axes * bands
    matrix = np.array([data.draw(places(axes)) for _ in range(pairs)])
    v = data.draw(places(axes))
    offset, position_scale = mapped
    encoding = FourierFeatures(
        matrix, unit=unit, layout=layout, first=first, offset=offset,
        position_scale=position_scale, scale=scale,
    )  # fmt: skip

    def angles():
        factor = {"turn": 2 * mp.pi, "half-turn": mp.pi, "radian": mp.mpf(1)}[unit]
        u = [mp.mpf(position_scale) * (mp.mpf(x) + mp.mpf(offset)) for x in v]
        yield [factor * sum(mp.mpf(m) * x for m, x in zip(row, u, strict=True)) for row in matrix]

    def order(sines, cosines):
        one, two = (sines, cosines) if first == "sin" else (cosines, sines)
        size = {"concat": pairs, "interleaved": 1, "grouped": axes}[layout]
        return [
            value
            for start in range(0, pairs, size)
            for kind in (one, two)
            for value in kind[start : start + size]
        ]

    positions = np.array(v) if axes == 1 else np.array(v)[:, None]
    # Every axis adds one rotation to the certified bound.
    assert judge(rows(angles, order, scale), encoding.table(positions), scale) <= axes


def test_input_coordinates_are_the_first_columns():
    encoding = FourierFeatures(
        np.eye(2), unit="turn", include_input=True, offset=-0.5, position_scale=2.0
    )
    table = encoding.table(np.array([[0.25, 1.0], [0.5, 0.0]]))
    assert table[:, :2].tolist() == [[-0.5, 0.0], [1.0, -1.0]]
    assert (
        table[:, 2:] == encoding.replace(include_input=False).table([[0.25, 1], [0.5, 0]])
    ).all()


# -- other people's code ---------------------------------------------------------------------


def sam():
    """x, y in 0 .. 1."""
    config = models.sam.SamVisionConfig(num_pos_feats=16)
    module = models.sam.modeling_sam.SamPositionalEmbedding(config)
    with torch.no_grad():
        table = module(torch.as_tensor(COORDINATES.T, dtype=torch.float32)[None, None])[0, 0]
    matrix = module.positional_embedding.detach().T
    mapped = {"unit": "turn", "offset": -0.5, "position_scale": 2.0}
    return FourierFeatures(matrix, **mapped), COORDINATES.astype(np.float32), table


def perceiver():
    place = patch_centres(5, 8).astype(np.float32)
    make = models.perceiver.modeling_perceiver.generate_fourier_features
    table = make(torch.as_tensor(place.T)[None], 6, (20, 32))[0]
    return FourierFeatures.perceiver(6, (20, 32)), place, table


def nerf_code():
    """nerf-pytorch's Embedder: log sampling, the input first, no pi."""
    x = np.random.default_rng(6).uniform(-1, 1, (3, 40)).astype(np.float32)
    parts = [x.T]
    for band in 2.0 ** np.linspace(0.0, 9, 10):
        parts += [f(x.T * np.float32(band)) for f in (np.sin, np.cos)]
    table = np.concatenate(parts, axis=1)
    return FourierFeatures.nerf(10, unit="radian", include_input=True), x, table


def score_sde():
    """GaussianFourierProjection without its logarithm: one coordinate."""
    embeddings = pytest.importorskip(
        "diffusers.models.embeddings", reason="diffusers is what is compared with"
    )
    module = embeddings.GaussianFourierProjection(
        16, scale=16.0, log=False, flip_sin_to_cos=False, set_W_to_weight=False
    )
    t = COORDINATES[0].astype(np.float32)
    return FourierFeatures(module.weight[:, None], unit="turn"), t, module(torch.as_tensor(t))


def learnable():
    """Li et al.: [cos, sin] / sqrt(D) of x W_r^T, float32."""
    w = np.random.default_rng(7).standard_normal((16, 2)).astype(np.float32)
    x = (100 * COORDINATES).astype(np.float32)
    angle = x.T @ w.T
    table = np.concatenate([np.cos(angle), np.sin(angle)], axis=1) / np.sqrt(np.float32(32))
    return FourierFeatures(w, unit="radian", first="cos", scale=32**-0.5), x, table


@pytest.mark.parametrize("peer", [sam, perceiver, nerf_code, score_sde, learnable])
def test_libraries(peer):
    """Measured: at most 1.8 units."""
    encoding, positions, table = peer()
    table = np.asarray(table)
    assert encoding.truth(positions).score(table).max() <= budget("float32")
    for wrong in (
        {"unit": "turn" if encoding.unit != "turn" else "radian"},
        {"unit": "half-turn" if encoding.unit != "half-turn" else "radian"},
        {"first": "cos" if encoding.first == "sin" else "sin"},
        {"layout": "interleaved"},
        {"offset": encoding.offset + 0.25},
        {"matrix": encoding.matrix[::-1]},
    ):
        other = encoding.replace(**wrong).truth(positions)
        assert other.score(table).max() > budget("float32"), wrong


def test_coordinates_are_x_and_y():
    """SAM's columns are (x, y): (row, column) pairs give another encoding."""
    encoding, positions, table = sam()
    swapped = encoding.truth(positions[::-1])
    assert swapped.score(np.asarray(table)).max() > budget("float32")


def test_pi_is_in_the_paper_and_not_in_the_code():
    paper = FourierFeatures.nerf(4, num_axes=1, include_input=False)
    code = paper.replace(unit="radian")
    assert paper.table([1.0])[0, 0] == 0.0  # sin(pi)
    assert code.table([1.0])[0, 0] == Sinusoidal(2).table([1.0])[0, 0]
    assert (paper.table([0.0]) == code.table([0.0])).all()


# -- Time2Vec --------------------------------------------------------------------------------


@given(
    weight=places(4), bias=places(4), t=st.floats(-1000, 1000),
    function=st.sampled_from(["sin", "cos"]), linear=st.sampled_from(["first", "last"]),
)  # fmt: skip
def test_time2vec(weight, bias, t, function, linear):
    encoding = Time2Vec(np.array(weight), np.array(bias), function=function, linear=linear)
    with mp.workdps(50):
        of = getattr(mp, function)
        waves = [
            fixed(of(mp.mpf(w) * mp.mpf(t) + mp.mpf(b)))
            for w, b in zip(weight[1:], bias[1:], strict=True)
        ]
        line = fixed(mp.mpf(weight[0]) * mp.mpf(t) + mp.mpf(bias[0]))
    columns = [line, *waves] if linear == "first" else [*waves, line]
    exact = Exact(np.array([columns], dtype=object))
    at = 0 if linear == "first" else 3
    terms, amplitude = np.abs(exact.hi), np.ones(4)
    terms[:, at], amplitude[at] = 2 * abs(weight[0] * t) + abs(bias[0]), 0.0
    # Two rotations, each with its bound.
    assert exact.worst(encoding.table([t]), terms, 2 * amplitude)[1] <= 1


def test_time2vec_of_layers():
    """A linear layer beside a sine of another, in float32: the linear component comes last."""
    torch.manual_seed(0)
    one, many = torch.nn.Linear(1, 1), torch.nn.Linear(1, 7)
    t = np.linspace(0, 20, 50, dtype=np.float32)
    x = torch.as_tensor(t)[:, None]
    with torch.no_grad():
        table = torch.cat([torch.sin(many(x)), one(x)], dim=1).numpy()
    weight = np.concatenate([m.weight.detach().numpy()[:, 0] for m in (one, many)])
    bias = np.concatenate([m.bias.detach().numpy() for m in (one, many)])
    encoding = Time2Vec(weight, bias, linear="last")
    assert encoding.truth(t).score(table).max() <= budget("float32")
    for wrong in ({"linear": "first"}, {"function": "cos"}, {"bias": 0 * bias}):
        assert encoding.replace(**wrong).truth(t).score(table).max() > budget("float32")


# -- values and errors -----------------------------------------------------------------------

VALUES = [
    FourierFeatures(RNG.standard_normal((4, 2)), unit="turn", include_input=True),
    FourierFeatures.nerf(3, include_input=False),
    FourierFeatures.perceiver(4, (8, 8)),
    Time2Vec(RNG.standard_normal(3), RNG.standard_normal(3), linear="last"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_json_and_back(value):
    back = from_dict(value.to_dict())
    assert back == value
    assert hash(back) == hash(value)
    assert back.replace(scale=2.0) != value if hasattr(value, "scale") else back == value


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_on_torch(kind, rng):
    dtype = getattr(torch, kind)
    for encoding in VALUES:
        axes = encoding.num_axes
        places = torch.as_tensor(rng.uniform(-1, 1, (axes, 5) if axes > 1 else 5))
        table = encoding.table(places, dtype=dtype)
        assert table.dtype == dtype
        told = encoding.truth(places.numpy())
        got = table.double().numpy()
        assert told.score(got, dtype=kind).max() < 1  # computed in float64, rounded once
        x = torch.zeros(2, 5, encoding.dim, dtype=dtype)
        assert (encoding.add(x, places)[1] == table).all()


def test_arguments():
    for make, text in (
        (lambda: FourierFeatures(np.eye(2), unit="2pi"), "use 'turn', which some libraries call"),
        (lambda: FourierFeatures(np.ones(3), unit="turn"), r"shape \(pairs, A\), got \(3,\)"),
        (
            lambda: FourierFeatures(np.ones((3, 2)), unit="turn", layout="grouped"),
            "multiple of A = 2",
        ),
        (lambda: VALUES[0].grid(2, 2), "no grid of its own"),
        (lambda: VALUES[0].table(range(3)), "A = 2 axes"),
        (lambda: Time2Vec(np.ones(3), np.ones(4)), "shape of weight"),
    ):
        with pytest.raises(ValueError, match=text):
            make()
    with pytest.raises(TypeError, match="matrix must be an array"):
        FourierFeatures([[1.0]], unit="turn")
