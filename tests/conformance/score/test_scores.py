"""Logits, sums, grids and the slopes of a rank: our own conform, and what only one check sees."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check

WEIGHT = np.random.default_rng(2).standard_normal((600, 8)).astype(np.float32)
T5 = pr.T5Bias(np.random.default_rng(4).standard_normal((32, 6)))
D = 16
MODEL = pr.ModelEncoding(
    "m",
    encodings={"full": pr.RoPE(D, layout="half"), "nope": None},
    softmax_scale=0.4,
)
TEMPERED = pr.ModelEncoding(
    "t",
    encodings={"full": pr.RoPE(D, layout="half")},
    query_scale={"full": pr.LogNScale(16)},
)
NOPE = pr.ModelEncoding("n", encodings={"full": None})
ENCODINGS = [
    pr.RoPE(D, layout="interleaved", rotary_dim=8, scaling=pr.YaRN(8.0, 512)),
    pr.RoPE(D, layout="half", scaling=pr.DynamicNTK(2.0, 64)),
    pr.MultiAxisRoPE(D, sections=(4, 4), layout="half"),
    pr.XPos(D, layout="half"),
    pr.Sinusoidal(D, offset=1),
    pr.Learned(WEIGHT),
    pr.ALiBi(6),
    pr.ALiBi(8, causal=False),
    T5,
    pr.T5Bias(T5.table, bidirectional=False),
    MODEL,
    TEMPERED,
    NOPE,
]


def positions(q, k):
    """Queries at the end of the keys."""
    return np.arange(k.shape[-2] - q.shape[-2], k.shape[-2]), np.arange(k.shape[-2])


def own(encoding):
    """Our own logits."""
    if isinstance(encoding, pr.ModelEncoding):
        name = next(iter(encoding.encodings))
        return lambda q, k: encoding.scores(name, q, k, *positions(q, k))
    return lambda q, k: pr.scores(encoding, q, k, *positions(q, k))


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: type(e).__name__)
def test_our_own_logits_conform(encoding):
    report = check(own(encoding), encoding, "scores")
    assert report.passed, report
    assert report.executed["logits"] >= 6
    assert len(report.controls) == 2
    twice = check(lambda q, k: 2 * own(encoding)(q, k), encoding, "scores")
    assert twice.verdict == "deviates"
    assert "softmax-scale" in twice.codes


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_logits_on_torch(dtype):
    pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    for encoding in (ENCODINGS[0], pr.ALiBi(6), pr.Sinusoidal(D)):
        report = check(own(encoding), encoding, "scores", backend="torch", dtype=dtype)
        assert report.passed, report


def test_logits_alone_see_the_attention_factor_and_not_where_it_is():
    yarn = pr.RoPE(D, layout="half", scaling=pr.YaRN(8.0, 512))
    plain = yarn.replace(scaling=yarn.scaling.replace(attention_factor=1.0))
    m2 = yarn.attention_factor() ** 2
    assert check(lambda q, k: own(plain)(q, k) * np.float32(m2), yarn, "scores").passed
    report = check(own(plain), yarn, "scores")
    assert report.codes == ["attention-factor"]
    assert "is missing" in report.findings[0].message


def test_two_independent_mistakes_are_both_named():
    def both(q, k):
        return own(pr.RoPE(D, layout="interleaved"))(q, k) * np.float32(D**0.5)

    report = check(both, pr.RoPE(D, layout="half"), "scores")
    assert report.codes == ["layout", "softmax-scale"]

    def biased(q, k):
        bias = np.asarray(pr.ALiBi(6).bias(*positions(q, k)))
        return (q @ k.swapaxes(-1, -2) * 0.5 - bias).astype(np.float32)

    report = check(biased, pr.ALiBi(6), "scores")
    assert set(report.codes) == {"softmax-scale", "bias-sign"}


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (lambda x: 7 * np.tanh(x / 7), "capped: 7 * tanh(x / 7)"),
        (lambda x: np.clip(x, -0.5, 0.75), "limited to at least -0.5 and at most 0.75"),
    ],
)
def test_limits_are_measured(limit, words):
    report = check(lambda q, k: limit(own(MODEL)(q, k)), MODEL, "scores")
    assert report.codes == ["softmax-scale"]
    assert words in report.findings[0].message


def test_what_no_variant_explains_is_still_wrong():
    report = check(lambda q, k: np.sin(own(MODEL)(q, k)), MODEL, "scores")
    assert report.codes == ["inaccurate"]
    hidden = check(lambda q, k: own(MODEL)(q, k) * np.nan, MODEL, "scores")
    assert hidden.codes == ["nonfinite"]


def test_rows_may_differ_by_a_constant_where_softmax_is_causal():
    rng = np.random.default_rng(0)

    def shifted(encoding):
        return lambda q, k: (
            own(encoding)(q, k) + rng.standard_normal((*q.shape[:3], 1)).round()
        ).astype(np.float32)

    report = check(shifted(pr.ALiBi(6)), pr.ALiBi(6), "scores")
    assert report.codes == ["state"]  # other constants in the replay, and nothing else

    def by_key(q, k):
        slopes = pr.ALiBi(6).slopes()[:, None, None]
        product = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
        return (product + slopes * np.arange(k.shape[2])).astype(np.float32)

    assert check(by_key, pr.ALiBi(6), "scores").passed
    assert not check(by_key, pr.ALiBi(6, causal=False), "scores").passed


def test_shapes_and_refusals_of_logits():
    declared = pr.RoPE(D, layout="half")
    assert check(lambda q, k: own(declared)(q, k)[0], declared, "scores").codes == ["shape"]

    def square(q, k):
        if q.shape != k.shape:
            raise ValueError("as many queries as keys")
        return own(declared)(q, k)

    report = check(square, declared, "scores")
    assert report.passed
    assert sum("as many queries as keys" in limit for limit in report.limits) == 5
    assert check(lambda q, k: 1 / 0, declared, "scores").codes == ["raises"]
    several = {"a": declared, "b": declared.replace(base=5.0)}
    with pytest.raises(ValueError, match="has 2 encodings"):
        check(square, pr.ModelEncoding("m", encodings=several), "scores")


@pytest.mark.parametrize(
    "encoding",
    [pr.Sinusoidal(8), pr.Sinusoidal(8, offset=2), pr.Learned(WEIGHT, offset=2)],
    ids=str,
)
def test_our_own_sums_and_grids_conform(encoding):
    report = check(lambda x: encoding.add(x, range(x.shape[1])), encoding, "add")
    assert report.passed, report
    assert report.executed["sums"] >= 7
    report = check(lambda h, w: encoding.table(range(h * w)), encoding, "grid")
    assert report.passed, report
    for fn, surface in (
        (lambda x: encoding.add(x, range(1, x.shape[1] + 1)), "add"),
        (lambda h, w: encoding.table(range(1, h * w + 1)), "grid"),
    ):
        report = check(fn, encoding, surface)
        assert report.codes == ["table-offset"], report


@pytest.mark.nightly
def test_sums_on_torch():
    pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")
    encoding = pr.Sinusoidal(8)
    for dtype in ("float32", "bfloat16"):
        fn = lambda x: encoding.add(x, range(x.shape[1]))  # noqa: E731
        assert check(fn, encoding, "add", backend="torch", dtype=dtype).passed


def test_sums_of_a_wrong_table_are_explained_as_tables_are():
    def half_precision(x):
        a = np.arange(x.shape[1])[:, None] * np.float16(10000.0 ** (-np.arange(4) / 4))
        rows = np.stack([np.sin(a), np.cos(a)], -1).reshape(len(a), 8)
        return (x + rows).astype(np.float32)

    report = check(half_precision, pr.Sinusoidal(8), "add")
    assert report.codes == ["angle-precision"], report


def test_an_order_of_patches_that_nobody_guesses():
    encoding = pr.Learned(WEIGHT)

    def swapped(h, w):
        order = np.arange(h * w)
        order[:2] = order[:2][::-1]
        return encoding.table(order)

    report = check(swapped, encoding, "grid")
    assert report.codes == ["token-order"]
    assert "[1, 0, 2" in report.findings[0].evidence

    def outside(h, w):
        return encoding.table(np.arange(h * w)) + np.float32(1)

    assert check(outside, encoding, "grid").verdict == "deviates"


def test_a_short_learned_table_and_refused_grids():
    short = pr.Learned(WEIGHT[:20])
    report = check(lambda x: short.add(x, range(x.shape[1])), short, "add")
    assert report.passed
    assert check(lambda h, w: short.table(range(h * w)), short, "grid").passed
    assert check(lambda h, w: 1 / 0, short, "grid").codes == ["raises"]
    assert check(lambda h, w: np.zeros((h, w, 8)), short, "grid").codes == ["shape"]
    with pytest.raises(ValueError, match=r"pass a table with one axis \(patches, row by row\)"):
        check(lambda h, w: None, pr.MultiAxisRoPE(8, sections=(2, 2), layout="half"), "grid")


@pytest.mark.parametrize("heads", [1, 5, 8, 12, 40])
def test_slopes_of_a_rank(heads):
    encoding = pr.ALiBi(heads)

    def part(n, size, rank):
        return np.split(pr.ALiBi(n).slopes(), size)[rank]

    report = check(part, encoding, "rank_slopes")
    assert report.passed, report

    def declared_only(n, size, rank):
        if n != heads:
            raise ValueError("another model")
        return part(n, size, rank)

    assert check(declared_only, encoding, "rank_slopes").passed
    with pytest.raises(ValueError, match="'rank_slopes' is for ALiBi, got T5Bias"):
        check(part, T5, "rank_slopes")
