"""Several position axes: every published assignment pair by pair, in 50 digits, and rotations."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import LinearScaling, MultiAxisRoPE, RoPE, from_dict
from posenc_ref.accuracy import Truth, budget
from posenc_ref.angles import ERROR_BOUND
from tests.conformance.exact.fixed_point import (
    BITS,
    Exact,
    exact_cos_sin,
    geometric,
    to_fixed,
    to_float,
)

# Each published encoding, written down pair by pair: (first channel, second channel, axis,
# exponent of the base), from the models' own code, for small heads.
QWEN2_VL = MultiAxisRoPE(24, sections=(2, 5, 5), layout="half", base=1e6)
QWEN2_VL_PAIRS = [(j, j + 12, [0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2][j], (j, 12)) for j in range(12)]
QWEN3_VL = MultiAxisRoPE(16, sections=(4, 2, 2), layout="half", arrangement="interleaved", base=5e6)
QWEN3_VL_PAIRS = [(j, j + 8, [0, 1, 2, 0, 1, 2, 0, 0][j], (j, 8)) for j in range(8)]
ERNIE = MultiAxisRoPE(
    12, sections=(2, 2, 2), layout="interleaved", arrangement=(1, 2, 1, 2, 0, 0), base=5e5
)
ERNIE_PAIRS = [(2 * j, 2 * j + 1, [1, 2, 1, 2, 0, 0][j], (j, 6)) for j in range(6)]
QWEN_TOWER = MultiAxisRoPE(16, sections=(4, 4), layout="half", spacing="restart")
QWEN_TOWER_PAIRS = [(j, j + 8, j // 4, (j % 4, 4)) for j in range(8)]
LLAMA4_TOWER = MultiAxisRoPE(
    16, sections=(4, 4), layout="interleaved", spacing="restart", offset=1.0
)
LLAMA4_PAIRS = [(2 * j, 2 * j + 1, j // 4, (j % 4, 4)) for j in range(8)]
PIXTRAL = MultiAxisRoPE(16, sections=(4, 4), layout="half", spacing="strided")
PIXTRAL_PAIRS = [(j, j + 8, j // 4, (2 * (j % 4) + j // 4, 8)) for j in range(8)]
GEMMA4 = MultiAxisRoPE(16, sections=(4, 4), layout="blockwise", spacing="restart", base=100.0)
GEMMA4_PAIRS = [
    (8 * (j // 4) + j % 4, 8 * (j // 4) + j % 4 + 4, j // 4, (j % 4, 4)) for j in range(8)
]
KIMI = MultiAxisRoPE(
    16, sections=(4, 4), layout="half", arrangement="interleaved", spacing="restart"
)
KIMI_PAIRS = [(j, j + 8, j % 2, (j // 2, 4)) for j in range(8)]
FLUX = MultiAxisRoPE(16, sections=(2, 3, 3), layout="interleaved", spacing="restart")
FLUX_AXIS = [(0, 0, 2), (0, 1, 2), (1, 0, 3), (1, 1, 3), (1, 2, 3), (2, 0, 3), (2, 1, 3), (2, 2, 3)]
FLUX_PAIRS = [(2 * j, 2 * j + 1, a, (i, n)) for j, (a, i, n) in enumerate(FLUX_AXIS)]
MINIMAX = MultiAxisRoPE(20, sections=(3, 3, 3), layout="half", spacing="restart")  # 2 channels pass
MINIMAX_PAIRS = [(j, j + 9, j // 3, (j % 3, 3)) for j in range(9)]

PUBLISHED = {
    "Qwen2-VL text": (QWEN2_VL, QWEN2_VL_PAIRS),
    "Qwen3-VL text": (QWEN3_VL, QWEN3_VL_PAIRS),
    "Ernie 4.5 VL text": (ERNIE, ERNIE_PAIRS),
    "Qwen2-VL vision": (QWEN_TOWER, QWEN_TOWER_PAIRS),
    "Llama 4 vision": (LLAMA4_TOWER, LLAMA4_PAIRS),
    "Pixtral": (PIXTRAL, PIXTRAL_PAIRS),
    "Gemma 4 vision": (GEMMA4, GEMMA4_PAIRS),
    "MoonViT": (KIMI, KIMI_PAIRS),
    "FLUX": (FLUX, FLUX_PAIRS),
    "MiniMax-M3-VL vision": (MINIMAX, MINIMAX_PAIRS),
}


def true_apply(encoding, rows, x, positions):
    """x (S, D) at positions (A, S), from the list of pairs alone: truth, terms, amplitude."""
    fixed = to_fixed(x)
    y, terms, amplitude = fixed.copy(), np.zeros(x.shape), np.zeros(x.shape)
    for i, j, axis, (number, count) in rows:
        w = geometric(encoding.base, [Fraction(number, count)])
        at = [float(p) + encoding.offset for p in positions[axis]]
        cos, sin = (t[:, 0] for t in exact_cos_sin(at, w))
        x1, x2 = fixed[:, i], fixed[:, j]
        y[:, i], y[:, j] = (x1 * cos - x2 * sin) >> BITS, (x2 * cos + x1 * sin) >> BITS
        c, s = np.abs(to_float(cos)), np.abs(to_float(sin))
        terms[:, i] = np.abs(x[:, i]) * c + np.abs(x[:, j]) * s
        terms[:, j] = np.abs(x[:, j]) * c + np.abs(x[:, i]) * s
        amplitude[:, i] = amplitude[:, j] = np.hypot(x[:, i], x[:, j])
    return Exact(y), terms, amplitude


def vectors(seed, *shape):
    return np.random.default_rng(seed).integers(-127, 128, shape) / 32


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_arrangement(name):
    encoding, rows = PUBLISHED[name]
    rng = np.random.default_rng(len(name))
    positions = rng.integers(0, 3000, (encoding.num_axes, 5))
    x = vectors(1, 5, encoding.head_dim)
    exact, terms, amplitude = true_apply(encoding, rows, x, positions)
    assert exact.worst(encoding.apply(x, positions), terms, amplitude)[1] < 2
    cos, sin = encoding.cos_sin(positions)
    for k, (_, _, axis, (number, count)) in enumerate(rows):
        at = [float(p) + encoding.offset for p in positions[axis]]
        c, s = exact_cos_sin(at, geometric(encoding.base, [Fraction(number, count)]))
        assert float(Exact(c[:, 0]).error(cos[:, k]).max()) <= ERROR_BOUND
        assert float(Exact(s[:, 0]).error(sin[:, k]).max()) <= ERROR_BOUND


@pytest.mark.parametrize("name", PUBLISHED)
def test_no_two_published_arrangements_agree(name):
    """What tells them apart: each is far from every other of its size and axes."""
    encoding, rows = PUBLISHED[name]
    positions = np.random.default_rng(3).integers(1, 300, (encoding.num_axes, 5))
    x = vectors(2, 5, encoding.head_dim)
    exact, terms, amplitude = true_apply(encoding, rows, x, positions)
    for other_name, (other, _) in PUBLISHED.items():
        same_size = (other.head_dim, other.num_axes) == (encoding.head_dim, encoding.num_axes)
        if other_name != name and same_size:
            got = other.apply(x, positions)
            assert exact.worst(got, terms, amplitude)[1] > budget("float64"), other_name


def test_dino_scales_positions_by_two_pi():
    """theta_i = 2 pi * 100 ** (-4i/D) on coordinates in [-1, 1] (Simeoni et al. 2025, DINOv3)."""
    tower = MultiAxisRoPE(
        16, sections=(4, 4), layout="half", spacing="restart", base=100.0, position_scale=2 * np.pi
    )
    once = [float(2 * np.pi * w) for w in geometric(100.0, [Fraction(i, 4) for i in range(4)])]
    truth = np.array(once * 2)
    assert Truth(truth, truth, np.zeros(8)).score(tower.frequencies()).max() <= budget("float64")
    turned = tower.apply(np.ones((3, 16)), np.array([[-0.75, 0.25, 1.0], [0.5, -1.0, 0.125]]))
    assert np.isfinite(turned).all()


def test_base_and_scale_of_each_axis():
    both = MultiAxisRoPE(
        8, sections=(2, 2), layout="half", spacing="restart", base=(100.0, 400.0),
        position_scale=(1.0, 0.5),
    )  # fmt: skip
    assert both.frequencies().tolist() == [1.0, 0.1, 0.5, 0.025]
    assert both == both.replace(base=[100, 400]) == from_dict(both.to_dict())
    alike = both.replace(base=(100.0, 100.0), position_scale=(2, 2))
    assert (alike.base, alike.position_scale) == (100.0, 2.0)


def test_scaling_works_within_each_axis():
    tower = QWEN_TOWER.replace(scaling=LinearScaling(4.0))
    assert (tower.frequencies() == QWEN_TOWER.frequencies() / 4).all()
    text = QWEN2_VL.replace(scaling=LinearScaling(8.0))
    assert (text.frequencies() == RoPE(24, layout="half", base=1e6).frequencies() / 8).all()


def test_text_positions_are_one_dimensional_rope():
    x = vectors(4, 2, 3, 5, 24)
    one = RoPE(24, layout="half", base=1e6)
    assert (QWEN2_VL.apply(x, range(5)) == one.apply(x, range(5))).all()
    rows = np.array([[4, 9, 2, 0, 31], [7, 1, 8, 40, 3]])
    assert (QWEN2_VL.apply(x, np.stack([rows] * 3)) == one.apply(x, rows)).all()


@st.composite
def encodings(draw):
    count = draw(st.integers(2, 4))
    spacing = draw(st.sampled_from(["global", "restart", "strided"]))
    layout = draw(st.sampled_from(["interleaved", "half", "blockwise"]))
    each = draw(st.integers(1, 3))
    sections = (each,) * count
    if spacing != "strided":
        sections = tuple(draw(st.integers(1, 3)) for _ in range(count))
    order = [a for a, n in enumerate(sections) for _ in range(n)]
    arrangement = "chunked"
    if layout != "blockwise" and draw(st.booleans()):
        arrangement = tuple(draw(st.permutations(order)))
    head = 2 * sum(sections) + draw(st.sampled_from([0, 0, 3]))
    return MultiAxisRoPE(
        head,
        sections=sections,
        layout=layout,
        arrangement=arrangement,
        spacing=spacing,
        rotary_start=draw(st.integers(0, head - 2 * sum(sections))),
        output_layout=draw(st.sampled_from([None, "half", "interleaved"])),
        offset=draw(st.sampled_from([0.0, 1.0, -0.5])),
        sign=draw(st.sampled_from([1, -1])),
    )


@pytest.mark.day
@given(encodings(), st.integers(0, 99))
def test_properties_of_rotations(encoding, seed):
    """Orthogonality, relative logits on every axis, composition, inverse, shift, JSON."""
    rng = np.random.default_rng(seed)
    m, n, t = (rng.integers(-50, 51, encoding.num_axes) for _ in range(3))
    big_m, big_n = encoding.matrix(m), encoding.matrix(n)
    size = encoding.head_dim * np.ones((encoding.head_dim,) * 2)

    def same(found, truth):
        return Truth(truth, size, 0 * size).score(found).max() <= budget("float64")

    assert same(big_m.T @ big_m, np.eye(encoding.head_dim))
    assert same(encoding.matrix(m + t).T @ encoding.matrix(n + t), big_m.T @ big_n)
    assert from_dict(encoding.to_dict()) == encoding
    x = vectors(seed, 2, 3, encoding.head_dim)
    positions = rng.integers(-99, 100, (encoding.num_axes, 3))
    turned = encoding.apply(x, positions)
    for s in range(3):
        alone = encoding.matrix(positions[:, s])
        every = np.abs(x[:, s]).sum(axis=-1, keepdims=True) + 0 * x[:, s]
        truth = Truth(x[:, s] @ alone.T, every, 0 * every)
        assert truth.score(turned[:, s]).max() <= budget("float64")
    whole = np.abs(x).sum(axis=-1, keepdims=True) + 0 * x
    back = Truth(x, whole, 0 * whole)
    assert back.score(encoding.inverse(turned, positions)).max() <= budget("float64")
    delta = rng.integers(-9, 10, (encoding.num_axes, 3))
    moved = Truth(encoding.apply(x, positions + delta), whole, 0 * whole)
    assert moved.score(encoding.shift(turned, delta)).max() <= budget("float64")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sections": (4,)}, r"at least two axes"),
        ({"sections": 8}, r"sections must be a sequence of integers"),
        ({"sections": (4, 5)}, r"at most head_dim / 2 = 8 pairs, got \(4, 5\), which add up to 9"),
        ({"sections": (4, 0)}, r"sections\[1\] must be at least 1"),
        ({"layout": "neox"}, r"use 'half', which some libraries call"),
        ({"arrangement": "chunk"}, r"did you mean 'chunked'"),
        ({"arrangement": (0, 1)}, r"must name the axis of each of the 8 pairs"),
        ({"arrangement": (0, 0, 0, 1, 1, 1, 1, 1)}, r"got 8 entries, in which they have \(3, 5\)"),
        ({"sections": (2, 6), "arrangement": "interleaved"}, r"no room for 6 pairs of axis 1"),
        ({"spacing": "shared"}, r"spacing must be one of 'global', 'restart', 'strided'"),
        ({"spacing": "strided", "sections": (3, 5)}, r"'strided' needs equal sections"),
        ({"base": (10.0, 20.0)}, r"base must be one number unless spacing is 'restart'"),
        (
            {"spacing": "restart", "base": (10.0, 20.0, 30.0)},
            r"a sequence of 2 numbers, one for each axis; got 3",
        ),
        ({"base": 1.0}, r"base must be greater than 1"),
        ({"position_scale": (1.0, -1.0)}, r"position_scale\[1\] must be greater than 0"),
        ({"layout": "blockwise", "arrangement": "interleaved"}, r"needs arrangement 'chunked'"),
        ({"rotary_start": 1}, r"rotary_start must be at most head_dim - rotary_dim = 0"),
        ({"sign": 2}, r"sign must be one of 1, -1"),
        ({"scaling": 4.0}, r"scaling must be None or a schedule"),
    ],
)
def test_errors_suggest_the_right_name(fields, message):
    with pytest.raises((ValueError, TypeError), match=message):
        MultiAxisRoPE(**{"head_dim": 16, "sections": (4, 4), "layout": "half", **fields})


def test_positions_need_a_row_for_each_axis():
    x = np.ones((2, 3, 5, 24))
    with pytest.raises(ValueError, match=r"must have shape \(3, S\) or \(3, B, S\)"):
        QWEN2_VL.apply(x, np.zeros((2, 5), int))
    with pytest.raises(ValueError, match=r"positions must have shape \(S,\), \(B, S\)"):
        QWEN2_VL.apply(x, np.zeros((3, 4), int))
