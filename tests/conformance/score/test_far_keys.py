"""Scores with another rotation for far keys: when they are judged, and what else is said."""

import numpy as np
import pytest

from posenc_ref import (
    Attention,
    DualChunk,
    DynamicNTK,
    LogNScale,
    LongRoPE,
    ModelEncoding,
    QueryTemperature,
    ReRoPE,
    RoPE,
    SelfExtend,
    preset,
    scores,
)
from posenc_ref.conformance import check
from posenc_ref.conformance.configurations.plan_text import other_plan

ROPE = RoPE(8, layout="half")


def turned(x, at):
    """Half-split pairs of x at positions (S,)."""
    angle = np.asarray(at)[:, None] * 10000.0 ** (-np.arange(4) / 4)
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    one, two = np.split(x, 2, axis=-1)
    return np.concatenate([one * cos - two * sin, two * cos + one * sin], axis=-1)


def logits(q, k, i, j):
    """q at positions i times k at positions j."""
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    return turned(q, i) @ turned(k, j).swapaxes(-1, -2) / np.float32(np.sqrt(8))


def places(q, k):
    n_q, n_k = q.shape[2], k.shape[2]
    return np.arange(n_k - n_q, n_k), np.arange(n_k)


def plain(q, k):
    """RoPE at the true positions, in every call."""
    return logits(q, k, *places(q, k))


def square(q, k):
    """The same, for as many queries as keys."""
    if q.shape[2] != k.shape[2]:
        raise ValueError("queries and keys must be those of whole sequences")
    return plain(q, k)


@pytest.mark.parametrize(
    ("declared", "left"),
    [
        (DualChunk(ROPE, chunk_size=262144, local_size=8192), "507905 and 634881 and 761856"),
        (ReRoPE(ROPE, window=20000), "40002"),
    ],
)
def test_no_verdict_without_far_keys(declared, left):
    """The numbers of a real model need more keys than a call has: plain RoPE must not conform."""
    report = check(plain, declared, "scores")
    assert (report.verdict, report.missing) == ("inconclusive", ["far keys"])
    assert any(f"calls with {left} keys are not judged" in limit for limit in report.limits)


def test_no_verdict_if_the_function_refuses_the_calls_with_far_keys():
    declared = ReRoPE(ROPE, window=300)
    assert check(square, declared, "scores").verdict == "inconclusive"
    assert check(plain, declared, "scores").codes == ["far-keys"]
    assert check(square, declared.replace(window=40), "scores").codes == ["far-keys"]


def test_a_position_limit_below_the_far_keys_leaves_the_verdict_open():
    report = check(plain, ReRoPE(ROPE, window=300), "scores", max_position=256)
    assert (report.verdict, report.missing) == ("inconclusive", ["far keys"])


def test_a_model_whose_far_keys_no_call_has_leaves_the_verdict_open():
    """A preset of real size: what is said of its encoding is said of the model."""
    declared = DualChunk(ROPE, chunk_size=262144, local_size=8192)
    report = check(plain, ModelEncoding("own", encodings={"full": declared}), "scores")
    assert (report.verdict, report.missing) == ("inconclusive", ["far keys"])
    assert any("761856 keys are not judged" in limit for limit in report.limits)


def test_a_small_model_is_judged_with_far_keys():
    model = ModelEncoding("own", encodings={"full": ReRoPE(ROPE, window=300)})
    assert check(plain, model, "scores").codes == ["far-keys"]


LAYERS = {
    "chunks": (Attention(DualChunk(ROPE, chunk_size=512, local_size=64)), "far-keys"),
    "rerope": (Attention(ReRoPE(ROPE, window=512)), "far-keys"),
    "groups": (Attention(SelfExtend(ROPE, group=8, window=1024)), "far-keys"),
    "dynamic": (Attention(ROPE.replace(scaling=DynamicNTK(4.0, 8192))), "scaling-missing"),
    "temperature": (Attention(ROPE, query_scale=QueryTemperature(0.1, 8192)), "inaccurate"),
    "log n": (Attention(ROPE, query_scale=LogNScale(4096)), "inaccurate"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_attention_reaches_what_begins_late(name):
    """Plain RoPE gives the declared outputs of short calls."""
    declared, code = LAYERS[name]
    assert check(Attention(ROPE).output, declared, "attention").codes == [code]


def test_attention_with_long_factors_at_short_lengths():
    short, long = (1.0,) * 4, (4.0,) * 4
    declared = ROPE.replace(scaling=LongRoPE(short, long, 8192, factor=4.0))
    wrong = ROPE.replace(scaling=LongRoPE(short, short, 8192, factor=4.0))
    assert check(Attention(wrong).output, declared, "attention").verdict == "deviates"


@pytest.mark.parametrize(
    ("declared", "left"),
    [
        (DualChunk(ROPE, chunk_size=262144, local_size=8192), "calls with 507905 and"),
        (Attention(ROPE, query_scale=LogNScale(2**21)), "positions up to 4194303"),
        (ROPE.replace(scaling=DynamicNTK(4.0, 2**21)), "positions up to 4194305"),
    ],
)
def test_no_verdict_on_attention_without_late_positions(declared, left):
    report = check(Attention(ROPE).output, declared, "attention")
    assert (report.verdict, report.missing) == ("inconclusive", ["far keys"])
    assert any(left in limit for limit in report.limits)


@pytest.mark.parametrize(
    ("first", "verdict"),
    [pytest.param(4096, "deviates", marks=pytest.mark.nightly), (2**20, "inconclusive")],
)
def test_query_scales_that_begin_late_are_reached_in_scores(first, verdict):
    model = preset("ministral-3-8b")
    (layer,), encoding = model.query_scale, model.only
    declared = model.replace(query_scale={layer: QueryTemperature(0.1, first)})

    def plain(q, k):
        k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
        return scores(encoding, q, k, *places(q, k))

    report = check(plain, declared, "scores")
    assert report.verdict == verdict, report
    if verdict == "inconclusive":
        assert any("in which QueryTemperature acts" in limit for limit in report.limits)


def clipped(q, k):
    """ReRoPE, where chunks are declared."""
    i, j = places(q, k)
    near, far = logits(q, k, i, j), logits(q, k, 0 * i + 24, 0 * j)
    return np.where(i[:, None] - j < 24, near, far)


def late(q, k):
    """Plain RoPE with keys one position too far ahead."""
    i, j = places(q, k)
    return logits(q, k, i, j + 1)


def scaled(q, k):
    """Frequencies of a base that nobody has published."""
    i, j = places(q, k)
    return logits(q, k, i * 1.2345, j * 1.2345)


@pytest.mark.parametrize(
    ("fn", "size", "texts"),
    [
        (
            clipped,
            24,
            ("query 25 and key 1 by 24 (declared 23), ", "the distance is min(i - j, 24)"),
        ),
        pytest.param(late, 300, ("; every distance is 1 too small",), marks=pytest.mark.nightly),
    ],
)
def test_distances_of_an_unknown_rule_are_measured(fn, size, texts):
    report = check(fn, DualChunk(ROPE, chunk_size=size, local_size=4), "scores")
    assert report.codes == ["far-keys"]
    assert all(text in report.findings[0].message for text in texts)


@pytest.mark.nightly
def test_no_distance_is_measured_where_frequencies_are_wrong():
    assert check(scaled, DualChunk(ROPE, chunk_size=24, local_size=4), "scores").codes == [
        "inaccurate"
    ]


def test_other_surfaces_are_refused_with_what_to_do():
    declared = preset("qwen2.5-7b-1m").only
    with pytest.raises(ValueError, match="judge the logits on surface 'scores', or the rotation"):
        check(plain, declared, "apply")


def test_the_plan_of_a_model_with_dual_chunks():
    text = other_plan(preset("qwen2.5-14b-1m").only, 500000)
    assert text.endswith("at most 262144 from query to key; plain RoPE would have 499999")
    assert "at most 99 from" in other_plan(DualChunk(ROPE, chunk_size=300, local_size=9), 100)
