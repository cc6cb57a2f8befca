"""identify prefers a published encoding with one named defect to an exact fit that no model has."""

import numpy as np
import pytest

from posenc_ref import Llama3Scaling, MultiAxisRoPE, Proportional, RoPE, YaRN
from posenc_ref.conformance import check, identify
from posenc_ref.conformance.identify.defects import implausible

PLAIN = RoPE(64, layout="half")
W = 10000.0 ** (-np.arange(32) / 32)


def same(values):
    return values


def tables(w=W, *, on_cos=1.0, on_sin=1.0, positions=same, cos=same, sin=same):
    def cos_sin(p):
        angle = (np.asarray(positions(p), np.float32)[:, None] * w.astype(np.float32)).astype(float)
        parts = cos(on_cos * np.cos(angle)), sin(on_sin * np.sin(angle))
        return tuple(part.astype(np.float32) for part in parts)

    return cos_sin


def half(values):
    return (
        np.asarray(values)
        .astype(
            pytest.importorskip(
                "ml_dtypes", reason="bfloat16 arrays of NumPy need ml_dtypes"
            ).bfloat16
        )
        .astype(float)
    )


def one_wrong():
    w = W.copy()
    w[7] *= 1.3
    return w


DEFECTS = {
    "angle-precision": lambda: tables(half(W)),
    "position-precision": lambda: tables(positions=half),
    "frequency-spacing": lambda: tables(one_wrong()),
    "denominator": lambda: tables(10000.0 ** (-np.arange(32) / 31)),
    "position-scale": lambda: tables(2 * np.pi * W),
    "phase-order": lambda: lambda p: tables()(p)[::-1],
}


@pytest.mark.parametrize(
    ("dtype", "cast"),
    [("float16", lambda v: v.astype(np.float16)), ("bfloat16", half)],
)
@pytest.mark.parametrize("side", ["cos", "sin"])
def test_one_of_cos_and_sin_in_half_precision_is_named(side, dtype, cast):
    card = identify(tables(**{side: cast}), "cos_sin", max_position=1024)
    assert card.encoding == PLAIN, str(card)
    assert [f.code for f in card.deviations] == ["table-precision"], str(card)
    other = {"cos": "sin", "sin": "cos"}[side]
    said = card.deviations[0].message
    assert said.startswith(f"{side} is rounded to {dtype}, off by up to "), said
    assert said.endswith(f", and {other} is not"), said


@pytest.mark.parametrize("side", ["on_cos", "on_sin"])
def test_the_factor_of_a_scaling_on_one_side_is_not_invented(side):
    yarn = RoPE(64, layout="half", scaling=YaRN(8.0, 4096))
    size = {side: yarn.attention_factor()}
    card = identify(tables(yarn.frequencies(), **size), "cos_sin", max_position=1024)
    assert card.encoding == yarn, str(card)
    name, other = side[3:], {"on_cos": "sin", "on_sin": "cos"}[side]
    assert card.facts["amplitude"].startswith("1.20794"), str(card)
    assert card.facts["amplitude"].endswith(f" on {name}, 1 on {other}"), str(card)
    assert [f.code for f in card.deviations] == ["attention-factor"], str(card)


@pytest.mark.parametrize("code", DEFECTS)
def test_a_defect_of_a_published_encoding(code):
    card = identify(DEFECTS[code](), "cos_sin", max_position=4096)
    assert card.encoding == PLAIN, str(card)
    assert [f.code for f in card.deviations] == [code], str(card)


def test_frequencies_without_a_cause_keep_their_list():
    w = W * (1 + 0.1 * np.random.default_rng(0).normal(size=32))
    card = identify(tables(np.sort(w)[::-1]), "cos_sin", max_position=1024)
    assert not card.rule, str(card)
    assert card.exact, str(card)


def test_a_factor_on_the_cosines_alone():
    card = identify(tables(on_cos=1.25), "cos_sin", max_position=1024)
    assert card.facts["amplitude"] == "1.25 on cos, 1 on sin"
    assert card.encoding == PLAIN, str(card)
    assert not card.exact


def test_implausible_parameters_are_named():
    odd = RoPE(8, layout="half", scaling=Llama3Scaling(1.33352, 1.0, 1.0, 40000))
    usual = RoPE(8, layout="half", scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))
    assert "factor=1.33352" in implausible(odd)
    assert not implausible(usual)


def llama3(two_pi, base=500000.0):
    w = base ** (-np.arange(32) / 32)
    smooth = np.clip((8192 * w / two_pi - 1) / 3, 0, 1)
    return (w * smooth + w / 8 * (1 - smooth)).astype(np.float32)


@pytest.mark.parametrize("two_pi", [6.28, 6.282])
def test_a_short_pi_in_a_published_scaling_is_named(two_pi):
    card = identify(lambda: llama3(two_pi), "frequencies")
    published = Llama3Scaling(8.0, 1.0, 4.0, 8192)
    assert card.encoding == RoPE(64, layout="half", base=500000.0, scaling=published), str(card)
    assert [f.message for f in card.deviations] == [
        f"Llama3Scaling: 2 pi is {two_pi}, not 2 * math.pi"
    ]
    assert "judged" not in card.facts  # frequencies have no position


def rotation(w, angles=same, pairs=None):
    """Return a rotation of half-split pairs, each by the position on its axis."""

    def apply(x, positions):
        p = np.asarray(positions, float)
        at = p[:, None] if p.ndim == 1 else p[..., None]
        angle = at * w if pairs is None else np.moveaxis(at[pairs, :, :, 0], 0, -1) * w
        angle = angles(angle)[:, None] if angle.ndim == 3 else angles(angle)
        cos, sin, (a, b) = np.cos(angle), np.sin(angle), np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)

    return apply


def test_frequencies_times_one_number_are_a_defect_of_the_positions():
    w = 2 * 1e6 ** (-np.arange(32) / 32)
    card = identify(rotation(w), "apply", head_dim=64)
    assert card.encoding == RoPE(64, layout="half", base=1e6), str(card)
    assert [f.code for f in card.deviations] == ["position-scale"], str(card)


def test_divisors_of_1e30_are_pairs_that_do_not_turn():
    w = 1e6 ** (-np.arange(32) / 32) / np.where(np.arange(32) < 8, 1.0, 1e30)
    card = identify(rotation(w), "apply", head_dim=64)
    assert card.encoding == RoPE(64, layout="half", base=1e6, scaling=Proportional(0.25)), str(card)
    assert card.exact, str(card)


def test_angles_of_several_axes_in_bfloat16_are_a_defect():
    e = MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="restart")
    pairs = np.repeat([0, 1], 16)
    fn = rotation(half(e.frequencies()), lambda angle: half(angle), pairs)
    card = identify(lambda x, p: half(fn(x, half(p))).astype(x.dtype), "apply", head_dim=64, axes=2)
    assert card.encoding == e, str(card)
    assert [f.code for f in card.deviations] == ["angle-precision"], str(card)


def truncated(values):
    """Return values with the bits of bfloat16, cut off and not rounded."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32).astype(float)


def test_coarse_angles_of_coarse_results_are_no_wrong_range_reduction():
    e = MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="restart")
    fn = rotation(truncated(e.frequencies()), truncated, np.repeat([0, 1], 16))

    def coarse(x, p):
        return half(fn(x, p)).astype(x.dtype)

    (found,) = check(coarse, e, "apply", precision="bfloat16").findings
    assert found.code == "angle-precision"
    assert found.message.endswith("frequencies or angles in bfloat16")


def test_exchanged_sin_and_cos_of_a_rotation():
    def exchanged(x, positions):
        angle = np.asarray(positions, float)[..., None] * 10000.0 ** (-np.arange(4) / 4)
        angle = angle[:, None] if angle.ndim == 3 else angle
        a, b = np.split(x, 2, -1)
        sin, cos = np.cos(angle), np.sin(angle)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)

    card = identify(exchanged, "apply", head_dim=8, max_position=256)
    assert card.encoding == RoPE(8, layout="half"), str(card)
    assert [f.message for f in card.deviations] == ["sin and cos are exchanged"]
