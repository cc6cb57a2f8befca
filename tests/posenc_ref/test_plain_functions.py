"""Relative indices and scores, normed rotation, a model's layers: against loops and real code."""

import math

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import BUDGET, ROUNDOFF, Truth


def exact(value, terms):
    """The score of float64 values by the sums of their absolute terms."""
    return Truth(value, terms, np.zeros_like(value))


@pytest.mark.parametrize("window", [(1, 1), (2, 3), (3, 2), (4, 4), (1, 5)])
def test_relative_index_is_equal_exactly_where_offsets_are(window):
    h, w = window
    index = pr.relative_index(window)
    assert index.shape == (h * w, h * w)
    places = [(y, x) for y in range(h) for x in range(w)]
    offsets = {}
    for i, a in enumerate(places):
        for j, b in enumerate(places):
            offsets.setdefault((a[0] - b[0], a[1] - b[1]), set()).add(int(index[i, j]))
    assert all(len(found) == 1 for found in offsets.values())
    assert len(set().union(*offsets.values())) == len(offsets) == (2 * h - 1) * (2 * w - 1)
    assert index.min() == 0
    assert index.max() == (2 * h - 1) * (2 * w - 1) - 1


def test_relative_index_of_transformers():
    swin = pytest.importorskip(
        "transformers.models.swin.modeling_swin", reason="transformers is what is compared with"
    )
    module = swin.SwinRelativePositionBias(num_heads=3, window_size=(7, 7))
    index = module.relative_position_index.numpy().reshape(49, 49)
    assert np.array_equal(index, pr.relative_index(7))


def trick(x):
    """Transformer-XL's code: a column of zeros in front, reshaped, the first row dropped."""
    q, k = x.shape
    padded = np.concatenate([np.zeros((q, 1)), x], axis=1)
    return padded.reshape(k + 1, q)[1:].reshape(q, k)


@pytest.mark.parametrize(("q", "k"), [(1, 1), (3, 3), (2, 5), (1, 7)])
def test_relative_shift_is_the_trick_where_keys_are_visible(q, k):
    x = np.arange(q * k, dtype=np.float64).reshape(q, k)
    shifted = pr.relative_shift(x)
    for i in range(q):
        for j in range(k):
            distance = k - q + i - j
            told = x[i, k - 1 - distance] if distance >= 0 else 0.0
            assert shifted[i, j] == told
    visible = np.arange(k) <= k - q + np.arange(q)[:, None]
    assert np.array_equal(shifted[visible], trick(x)[visible])
    batched = pr.relative_shift(np.stack([x, -x]).astype(np.float32))
    assert batched.dtype == np.float32
    assert np.array_equal(batched[1], -shifted)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_relative_scores_by_loops(size):
    rng = np.random.default_rng(size)
    q, rel = rng.standard_normal((size, 4)), rng.standard_normal((2 * size - 1, 4))
    got = pr.relative_scores(q, rel)
    for i in range(size):
        for j in range(size):
            terms = q[i] * rel[size - 1 - (i - j)]
            truth = exact(np.array(math.fsum(terms)), np.array(np.abs(terms).sum()))
            assert truth.score(got[i : i + 1, j])[0] <= BUDGET["float64"]


def test_relative_functions_on_other_libraries():
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    x = torch.arange(12.0).reshape(3, 4)
    assert np.array_equal(pr.relative_shift(x).numpy(), pr.relative_shift(x.numpy()))
    rel = torch.arange(20.0).reshape(5, 4)
    assert np.array_equal(
        pr.relative_scores(x, rel).numpy(), pr.relative_scores(x.numpy(), rel.numpy())
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: pr.relative_index("7"), TypeError, r"window must be \(height, width\)"),
        (lambda: pr.relative_index((2, 0)), ValueError, r"window\[1\] must be at least 1"),
        (lambda: pr.relative_shift(np.zeros((3, 2))), ValueError, "with Q <= K, got"),
        (lambda: pr.relative_shift([[1.0]]), TypeError, "x must be a real floating array"),
        (lambda: pr.relative_scores(np.zeros(3), np.zeros((5, 3))), ValueError, "q must have"),
        (
            lambda: pr.relative_scores(np.zeros((3, 4)), np.zeros((3, 4))),
            ValueError,
            r"rel must have shape \(2S - 1, d\) = \(5, 4\)",
        ),
        (
            lambda: pr.normed_apply(pr.ALiBi(2), np.zeros((1, 4)), np.ones(4), 0),
            TypeError,
            "encoding must be a rotary encoding, got ALiBi",
        ),
        (
            lambda: pr.normed_apply(
                pr.RoPE(4, layout="half"), np.zeros((1, 4)), np.ones(2), range(1)
            ),
            ValueError,
            r"weight must have shape \(head_dim,\) = \(4,\)",
        ),
        (
            lambda: pr.normed_apply(pr.RoPE(4, layout="half"), np.zeros((1, 4)), [1.0], range(1)),
            TypeError,
            "weight must be a real floating array",
        ),
        (lambda: pr.rows(pr.ALiBi(2), 3), TypeError, "encoding must be a table encoding"),
        (lambda: pr.layers(pr.ALiBi(2), 3), TypeError, "model must be a ModelEncoding"),
        (
            lambda: pr.layers(pr.ModelEncoding("m", encodings={"a": None}), 3),
            ValueError,
            "model must have layer_types",
        ),
        (
            lambda: pr.layers(
                pr.ModelEncoding("m", encodings={"a": None}, layer_types=("a", "a")), 3
            ),
            ValueError,
            "n_layers must be 2",
        ),
        (
            lambda: pr.softmax_scale(pr.ModelEncoding("m", encodings={"a": None})),
            ValueError,
            "no softmax_scale, and no rotary encoding",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_normed_apply_is_the_norm_of_qwen3_and_then_its_rotation():
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    qwen3 = pytest.importorskip(
        "transformers.models.qwen3.modeling_qwen3", reason="transformers is what is compared with"
    )
    rope = pr.RoPE(16, layout="half", base=1e6)
    rng = np.random.default_rng(1)
    x, weight = rng.standard_normal((2, 3, 5, 16)), 1 + 0.3 * rng.standard_normal(16)
    norm = qwen3.Qwen3RMSNorm(16, eps=1e-6).double()
    norm.weight.data = torch.asarray(weight)
    cos, sin = (torch.asarray(np.tile(t, 2))[None] for t in rope.cos_sin(range(5)))
    with torch.no_grad():
        q, _ = qwen3.apply_rotary_pos_emb(norm(torch.asarray(x)), norm(torch.asarray(x)), cos, sin)
    got = pr.normed_apply(rope, x, weight, range(5))
    # Qwen3's norm computes in float32 whatever goes in.
    size = np.hypot(*np.split(np.abs(got), 2, axis=-1))
    terms = np.concatenate([size, size], axis=-1) * ROUNDOFF["float32"] / ROUNDOFF["float64"]
    assert exact(got, terms).score(q.numpy()).max() <= BUDGET["float32"]
    assert pr.normed_apply(
        rope, x.astype(np.float32), weight.astype(np.float32), 5 * [0]
    ).dtype == (np.float32)


def test_rows_of_a_learned_table_start_at_its_offset():
    weight = np.arange(24.0).reshape(6, 4)
    assert np.array_equal(pr.rows(pr.Learned(weight, offset=2), 3), weight[2:5])
    assert pr.rows(pr.Sinusoidal(8), 0).shape == (0, 8)


def test_layers_and_softmax_scale_of_models():
    config = {"model_type": "smollm3", "num_hidden_layers": 8, "hidden_size": 2048}
    config |= {"num_attention_heads": 16, "rope_theta": 5e6, "no_rope_layer_interval": 4}
    assert pr.layers(pr.from_config(config), 8) == (True, True, True, False) * 2
    assert pr.softmax_scale(pr.preset("llama-3.1-8b")) == 128**-0.5
    deepseek = pr.preset("deepseek-v3")
    mscale = 0.1 * math.log(40) + 1
    told = np.array(192**-0.5 * mscale**2)
    got = np.array(pr.softmax_scale(deepseek))
    assert exact(told, told).score(got) <= BUDGET["float64"]
    several = pr.ModelEncoding(
        "m", encodings={"a": pr.RoPE(8, layout="half"), "b": pr.RoPE(16, layout="half")}
    )
    with pytest.raises(ValueError, match=r"heads of \[8, 16\] channels"):
        pr.softmax_scale(several)


@pytest.mark.parametrize("window", [(2, 3, 4), (2,), "23", None, {2, 3}])
def test_a_window_has_two_sizes(window):
    with pytest.raises(TypeError, match=r"window must be \(height, width\) or one number"):
        pr.relative_index(window)
