"""Functions that are right in short calls, and wrong at sizes that releases meet, deviate."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref import conv_positions
from posenc_ref.conformance import check

RNG = np.random.default_rng(29)
ROPE = pr.RoPE(16, layout="half")
MIXED = pr.MixedRoPE(8, 0.3 * RNG.standard_normal((2, 2, 4)), layout="half")
FOPE = pr.FoPE(8, *(np.eye(4) + 0.3 * RNG.standard_normal((2, 2, 4, 4))), dropped_sin=0)
DATA2VEC = pr.ConvPositions(
    tuple(RNG.standard_normal((3, 6, 6, 7)) / 42**0.5),
    tuple(0.1 * RNG.standard_normal((3, 6))),
    layer_norm=True,
)
PEG = pr.ConvPositions(
    (RNG.standard_normal((6, 1, 3, 3)),),
    (RNG.standard_normal(6),),
    groups=6,
    activation="none",
    residual=True,
)


def evicted(k, kept, dropped):
    return pr.evict_keys(ROPE, k, kept, dropped)


def few_kept(k, kept, dropped):
    """Room for four sinks: later ones move like the other keys."""
    moved = pr.evict_keys(ROPE, k, 0, dropped)
    return moved if kept < 5 else np.concatenate([k[:, :, :4], moved[:, :, 4:]], axis=2)


def kept_more_than_dropped(k, kept, dropped):
    return evicted(k, kept, dropped if kept <= dropped + 3 else 0)[:, :, : k.shape[2] - dropped]


def five_heads(k, kept, dropped):
    out = evicted(k, kept, dropped)
    out[:, 5:] = 0
    return out


def short_gaps(k, kept, dropped):
    left = np.delete(k, range(kept, kept + dropped), axis=2)
    return evicted(k, kept, dropped) if dropped < 1024 else left


@pytest.mark.parametrize("fn", [few_kept, kept_more_than_dropped, five_heads, short_gaps])
def test_evicted_keys(fn):
    assert check(fn, ROPE, "evict_keys").verdict == "deviates"


def on_axis(change):
    """MIXED, with the integer positions of its second axis changed."""

    def apply(x, positions):
        positions = np.array(positions)
        if positions.dtype.kind == "i":
            positions[1] = change(positions[1])
        return MIXED.apply(x, positions)

    return apply


def first_six_heads(x, positions):
    return np.concatenate([FOPE.apply(x, positions)[:, :6], x[:, 6:]], axis=1)


@pytest.mark.parametrize(
    ("fn", "encoding"),
    [
        (on_axis(lambda p: np.minimum(p, 97)), MIXED),
        (on_axis(lambda p: p % 97), MIXED),
        (on_axis(lambda p: p.astype(np.int16)), MIXED),
        (lambda x, at: MIXED.apply(x, np.minimum(at, 200000)), MIXED),
        (lambda x, at: MIXED.apply(x, at) * (np.arange(x.shape[2]) < 33)[:, None], MIXED),
        (first_six_heads, FOPE),
    ],
    ids=["clamped", "modulo", "int16", "far", "tokens", "heads"],
)
def test_heads_that_differ(fn, encoding):
    assert check(fn, encoding, "apply").verdict == "deviates"


@pytest.mark.parametrize("eps", [1e-4, 1e-12])
def test_the_eps_of_the_layer_norm(monkeypatch, eps):
    def convolve(x):
        with monkeypatch.context() as changed:
            changed.setattr(conv_positions, "EPS", eps)
            return DATA2VEC.convolve(x)

    assert check(convolve, DATA2VEC, "convolve").verdict == "deviates"


def in_columns(x, height, width):
    """Column by column where both sides are long enough."""
    if min(height, width) < 5:
        return PEG.convolve(x, height, width)
    turned = x.reshape(-1, width, height, 6).swapaxes(1, 2).reshape(x.shape)
    out = PEG.convolve(turned, height, width).reshape(-1, height, width, 6)
    return out.swapaxes(1, 2).reshape(x.shape)


def square_in_columns(x, height, width):
    fn = in_columns if height == width else PEG.convolve
    return fn(x, height, width)


def not_one_column(x, height, width):
    return x if width == 1 < height else PEG.convolve(x, height, width)


def not_one_row(x, height, width):
    return x if height == 1 < width else PEG.convolve(x, height, width)


@pytest.mark.parametrize("fn", [in_columns, square_in_columns, not_one_column, not_one_row])
def test_grids(fn):
    assert check(fn, PEG, "convolve_grid").verdict == "deviates"


@pytest.mark.parametrize("encoding", [DATA2VEC, PEG], ids=["sequence", "grid"])
def test_our_own_convolution_conforms(encoding):
    report = check(encoding.convolve, encoding, f"convolve{'_grid' * (encoding is PEG)}")
    assert report.passed, report
    assert not report.limits


@pytest.mark.parametrize(("taps", "stride"), [(4, 6), (8, 10), (3, 6)])
def test_a_convolution_without_tokens(rng, taps, stride):
    """S // stride and (S - 1) // stride + 1 tokens, also where that is none."""
    weight = rng.standard_normal((4, 2, taps))
    strided = pr.ConvPositions((weight,), (np.ones(4),), groups=2, stride=stride)
    assert strided.convolve(np.ones((2, 1, 4))).shape == (2, taps % 2, 4)
    for rows in ((), (2,), (0,)):
        assert strided.convolve(np.ones((*rows, 0, 4))).shape == (*rows, 0, 4)
    assert check(strided.convolve, strided, "convolve").passed


def scored(encoding):
    return lambda q, k: encoding.scores(
        q, k, np.arange(k.shape[2])[-q.shape[2] :], np.arange(k.shape[2])
    )


@pytest.mark.parametrize(
    ("kind", "tokens"),
    [
        ("SelectiveRoPE", 257),
        ("SelectiveRoPE", 2000),
        ("PaTH", 257),
        pytest.param("PaTH", 600, marks=pytest.mark.nightly),
    ],
)
def test_the_last_tokens_of_a_sequence(rng, kind, tokens):
    """Tokens from 256 on contribute nothing: a buffer of 256 rows."""
    numbers = rng.standard_normal((1, tokens, 4))
    cut = np.where(np.arange(tokens)[:, None] < 256, numbers, 0.0)
    if kind == "PaTH":
        beta = 2 * rng.random((1, tokens))
        declared, wrong = pr.PaTH(numbers, beta), pr.PaTH(numbers, np.where(cut[..., 0], beta, 0.0))
    else:
        declared, wrong = (pr.SelectiveRoPE(8, phi, layout="half") for phi in (numbers, cut))
    assert check(scored(declared), declared, "scores").passed
    assert check(scored(wrong), declared, "scores").verdict == "deviates"
