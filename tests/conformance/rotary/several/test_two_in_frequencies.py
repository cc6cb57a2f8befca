"""Two mistakes at once, of which one is in the frequencies: both are named."""

import numpy as np
import pytest

from posenc_ref import (
    DynamicNTK,
    Llama3Scaling,
    LongRoPE,
    MixedRoPE,
    MultiAxisRoPE,
    Proportional,
    RoPE,
    YaRN,
)
from posenc_ref.conformance import check

YARN = RoPE(64, layout="half", scaling=YaRN(4.0, 4096))
LLAMA3 = RoPE(64, layout="half", base=500000.0, scaling=Llama3Scaling(32.0, 1.0, 4.0, 8192))
NTK = RoPE(64, layout="half", scaling=DynamicNTK(2.0, 128))
SHORT, LONG = (1.0, 1.1, 1.2, 1.3), (1.0, 2.0, 4.0, 9.0)
LONGROPE = RoPE(8, layout="half", scaling=LongRoPE(SHORT, LONG, 1024, factor=8.0))
F = 10000.0 ** (-np.arange(32) / 32)
F5 = 500000.0 ** (-np.arange(32) / 32)


def turned(w):
    """Return a rotation of half-split pairs by the frequencies ``w``."""
    w = np.asarray(w)

    def fn(x, p):
        a = np.asarray(p)[..., None] * w
        a, n = (a[:, None] if a.ndim == 3 else a), w.size
        u, v, rest = x[..., :n], x[..., n : 2 * n], x[..., 2 * n :]
        turned = u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a), rest
        return np.concatenate(turned, axis=-1).astype(np.float32)

    return fn


def ramp():
    ends = [64 * np.log(4096 / (2 * np.pi * n)) / (2 * np.log(10000)) for n in (32, 1)]
    low, high = np.floor(ends[0]), np.ceil(ends[1])
    return np.clip((np.arange(32) - low) / (high - low), 0, 1)


def reversed_ramp_on_cos(p):
    w = F * ramp() + F / 4 * (1 - ramp())
    a = np.asarray(p)[..., None] * w
    factor = 0.1 * np.log(4) + 1
    return (factor * np.cos(a)).astype(np.float32), np.sin(a).astype(np.float32)


def exchanged_halved(p):
    a = np.asarray(p)[..., None] * 10000.0 ** (-np.arange(32) / 64)
    return np.sin(a).astype(np.float32), np.cos(a).astype(np.float32)


def stepped(x, p):
    return turned(np.where(2 * np.pi / F5 > 8192, F5 / 8, F5))(x, p)


def unbounded(n):
    alpha = n / 128 if n < 128 else 2 * n / 128 - 1
    return (10000.0 * alpha) ** (-np.arange(32) / 32)


def times_the_list(n):
    factors = np.array(LONG if n > 1024 else SHORT)
    return factors * 10000.0 ** (-np.arange(4) / 4), np.sqrt(1 + np.log(8) / np.log(8192))


def other_base(n):
    alpha = n / 128 if n > 128 else 1.0
    return (500000.0 * alpha ** (64 / 62)) ** (-np.arange(32) / 32)


NOT_SCALED = "medium frequencies are not scaled at all"
CASES = {
    "yarn-one-factor": (
        reversed_ramp_on_cos, YARN, "cos_sin",
        ("only cos is multiplied by", "the ramp is reversed"),
    ),
    "exchanged-exponent": (
        exchanged_halved, RoPE(64, layout="half"), "cos_sin",
        ("(sin, cos) is returned", "the exponent of the frequencies is halved"),
    ),
    "llama3-factor": (stepped, LLAMA3, "apply", ("factor is 8, declared 32", NOT_SCALED)),
    "llama3-base": (
        lambda: LLAMA3.replace(base=10000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))
        .frequencies(),
        LLAMA3, "frequencies", ("the base is 10000", "factor is 8, declared 32"),
    ),
    "two-lengths": (
        unbounded, NTK, "frequencies",
        ("in calls up to length 128, the base is multiplied by (L / 128) ** 1; in calls longer "
         "than 128, the base is multiplied by (factor * L / 128 - (factor - 1)) ** 1",),
    ),
    "base-and-length": (
        other_base, NTK, "frequencies",
        ("the base is 500000", "the base is multiplied by (L / 128) ** d/(d-2)"),
    ),
    "longrope": (
        times_the_list, LONGROPE, "frequencies",
        ("the logarithm of the extended length", "multiplied by short_factor and long_factor"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fn", "encoding", "surface", "words"), CASES.values(), ids=CASES)
def test_both_are_named(fn, encoding, surface, words):
    found = check(fn, encoding, surface).findings
    assert len(found) == len(words)
    for said in words:
        assert any(said in f.message for f in found), [f.message for f in found]


def test_frequencies_that_no_pair_of_mistakes_gives_are_not_explained():
    w = F * (1 - ramp()) + F / 4 * ramp()
    w[9:] *= 1.0 + 0.01 * np.arange(23)
    (found,) = check(lambda: w, YARN, "frequencies").findings
    assert "frequencies are wrong" in found.message


def test_wrong_frequencies_beside_a_wrong_factor_are_said():
    def fn(n):
        return np.arange(1, 5) / (n + 10), 2.0

    found = [f.message for f in check(fn, LONGROPE, "frequencies").findings]
    assert len(found) == 2
    assert any("frequencies" in text and "factor" not in text for text in found)


MROPE = MultiAxisRoPE(64, sections=(8, 12, 12), layout="half", base=1000000.0)


def on_axes(order, w, row_0=False):
    """Return a rotation whose sections follow the axes in another order, by frequencies ``w``."""
    axis = np.repeat(order, MROPE.sections)

    def fn(x, p):
        p = np.asarray(p)
        p = np.broadcast_to(p, (3, *p.shape)) if p.ndim == 1 else p
        p = p[:, None] if p.ndim == 2 else p
        p = np.broadcast_to(p[:, :1], p.shape) if row_0 else p
        a = (np.moveaxis(p[axis], 0, -1) * w)[:, None]
        u, v = x[..., :32], x[..., 32:]
        turned = u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)
        return np.concatenate(turned, axis=-1).astype(np.float32)

    return fn


RESTARTED = np.concatenate([1e6 ** (-np.arange(n) / n) for n in (8, 12, 12)])
ORDER = "the axes are in the order (0, 2, 1)"


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (on_axes((0, 2, 1), RESTARTED), (ORDER, "start again with the first pair of each axis")),
        (on_axes((0, 2, 1), 10000.0 ** (-np.arange(32) / 32)), (ORDER, "the base is 10000")),
        (on_axes((0, 2, 1), MROPE.frequencies(), True), (ORDER, "of row 0")),
        (on_axes((0, 2, 1), MROPE.frequencies()), (ORDER,)),
    ],
)
def test_wrong_axes_and_another_mistake(fn, words):
    found = [f.message for f in check(fn, MROPE, "apply").findings]
    assert len(found) == len(words), found
    for said in words:
        assert any(said in text for text in found), found


def test_axes_and_heads_of_rope_mixed():
    weight = np.array([
        [[0.9, 0.3], [0.1, 0.5]], [[0.7, -0.2], [-0.8, 0.25]], [[1.1, 0.4], [0.2, 0.6]],
    ])  # fmt: skip
    declared, wrong = (MixedRoPE(4, w, layout="half") for w in (weight, weight[::-1, ::-1]))
    found = check(lambda x, p: wrong.apply(x, p), declared, "apply").findings
    said = {"the heads are in reverse order", "the position axes are in reverse order"}
    assert {f.message for f in found} == said


def test_proportional_pairs_in_the_slice_without_the_factor():
    declared = RoPE(64, layout="half", base=1e6, scaling=Proportional(0.5, factor=4.0))
    fn = turned(1e6 ** (-2 * np.arange(16) / 64))
    found = [f.message for f in check(fn, declared, "apply").findings]
    assert len(found) == 2
    assert any("rotated among themselves" in text for text in found)
    assert any("factor" in text for text in found)


def test_other_channels_and_a_wrong_map():
    declared = RoPE(12, layout="interleaved", rotary_dim=8, rotary_start=4, output_layout="half")

    def fn(x, p):
        a = np.asarray(p)[..., None] * 10000.0 ** (-np.arange(4) / 4)
        a = a[:, None] if a.ndim == 3 else a
        u, v = x[..., :8:2], x[..., 1:8:2]
        turned = u * np.cos(a) + v * np.sin(a), v * np.cos(a) + u * np.sin(a), x[..., 8:]
        return np.concatenate(turned, axis=-1).astype(np.float32)

    found = [f.message for f in check(fn, declared, "apply").findings]
    assert len(found) == 2, found
    assert any("8 other channels are rotated (0..7)" in text for text in found)
    assert any("both channels add their sine term" in text for text in found)


OTHER_LAYOUT = NTK.replace(layout="interleaved")


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (lambda n: n, ()),
        (lambda n: 1, ("stay those of the original length",)),
        (lambda n: max(n - 1, 1), ("one token late",)),
    ],
    ids=["alone", "missing", "late"],
)
def test_another_layout_and_a_rule_of_lengths(length, words):
    def fn(x, p):
        return OTHER_LAYOUT.apply(x, p, seq_len=length(int(np.max(p, initial=0)) + 1))

    found = [f.message for f in check(fn, NTK, "apply").findings]
    for said in ("pairs are interleaved", *words):
        assert any(said in text for text in found), found
    assert len(found) == 1 + len(words)
    assert "consistent with a part" not in str(found)


def test_another_layout_beside_an_unknown_rule_is_a_part():
    def fn(x, p):
        p = np.asarray(p)
        return OTHER_LAYOUT.apply(x, np.broadcast_to(p[:1], p.shape) if p.ndim > 1 else p)

    (found,) = check(fn, NTK, "apply").findings
    assert found.message.startswith("consistent with a part of the results: pairs are interleaved")
    assert "calls are wrong" in found.evidence


def on_cos_alone(w, layout="half"):
    """Return a rotation by the frequencies ``w`` whose cosines alone have the declared factor."""
    factor, (a, b) = YARN.attention_factor(), YARN.replace(layout=layout).pairs()

    def fn(x, p):
        angle = np.asarray(p)[..., None] * w
        angle = angle[:, None] if angle.ndim == 3 else angle
        cos, sin, y = factor * np.cos(angle), np.sin(angle), np.array(x)
        y[..., a], y[..., b] = x[..., a] * cos - x[..., b] * sin, x[..., b] * cos + x[..., a] * sin
        return y.astype(np.float32)

    return fn


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (on_cos_alone(YARN.frequencies()), ""),
        (on_cos_alone(YARN.frequencies(), "interleaved"), "pairs are interleaved"),
        (on_cos_alone(F), "the declared scaling is missing"),
    ],
    ids=["alone", "layout", "scaling"],
)
def test_a_factor_on_cos_alone_and_another_mistake(fn, words):
    first, *others = (f.message for f in check(fn, YARN, "apply").findings)
    assert first.startswith("only cos is multiplied by the attention factor")
    assert len(others) == bool(words)
    assert all(words in text for text in others), others


@pytest.mark.parametrize("factor", [1.25, 3.7, 12.5])
def test_a_factor_that_no_model_has_published_is_measured(factor):
    other = YARN.replace(scaling=YaRN(factor, 4096))
    first, *_ = check(lambda x, p: other.apply(x, p), YARN, "apply").findings
    assert first.message.startswith(f"factor is {factor:g}, declared 4")


@pytest.mark.parametrize("encoding", [YARN, LLAMA3, NTK], ids=["yarn", "llama3", "ntk"])
def test_a_base_that_no_model_has_published_is_measured(encoding):
    other = encoding.replace(base=12345.0)
    (found,) = check(lambda x, p: other.apply(x, p), encoding, "apply").findings
    assert found.message.startswith(f"the base is 12345, declared {encoding.base:g}")
