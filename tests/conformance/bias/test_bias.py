"""The judges of slopes, biases and buckets, on the corpus and on what the corpus leaves out."""

import numpy as np
import pytest

import posenc_ref
from posenc_ref import ALiBi, T5Bias
from posenc_ref.conformance import check
from tests.mutants import WRONG
from tests.night import by_day

SURFACES = ("slopes", "bias", "bucket")
TABLE = np.random.default_rng(1).standard_normal((32, 4)).astype(np.float32)
ALIBI, BOTH = ALiBi(6), ALiBi(6, causal=False)
TWELVE = ALiBi(12)  # its slopes are not all powers of two
T5, DECODER = T5Bias(TABLE), T5Bias(TABLE, bidirectional=False)
SLOPES = ALIBI.slopes()[:, None, None]
NAIVE = 2.0 ** (-8.0 * np.arange(1, 7) / 6)[:, None, None]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c.name) for c in WRONG if c.surface in SURFACES]
)
def test_wrong_without_a_factory(case):
    report = check(case.make(), posenc_ref.from_dict(case.encoding), case.surface, **case.kwargs)
    assert report.verdict == "deviates", report
    assert report.codes[0] in case.expected, report


# --- wrong functions that are not in the corpus ---


def offsets(q_len, k_len):
    return np.arange(k_len) - np.arange(k_len - q_len, k_len)[:, None]


def front(q_len, k_len):
    return np.arange(k_len) - np.arange(q_len)[:, None]


def t5(r, **fields):
    return np.moveaxis(TABLE[T5Bias(TABLE, **fields).bucket(r)], -1, 0)


def bucket(r, **fields):
    return T5Bias(TABLE, **fields).bucket(r)


def half(x):
    return np.asarray(x).astype(np.float16).astype(np.float64)


def masked(r, ahead):
    return np.where(r > ahead, -np.inf, SLOPES * r)


BIASES = [
    ("bias-sign slopes", ALIBI, lambda q, k: -NAIVE * offsets(q, k)),
    ("bias-alignment bias-sign", ALIBI, lambda q, k: SLOPES * np.abs(front(q, k))),
    ("bias-scale bias-alignment", ALIBI, lambda q, k: -3 * SLOPES * np.abs(front(q, k))),
    ("slopes bias-alignment", ALIBI, lambda q, k: -NAIVE * np.abs(front(q, k))),
    ("bias-sign", BOTH, lambda q, k: -SLOPES * offsets(q, k)),
    ("slopes", ALIBI, lambda q, k: SLOPES[::-1] * offsets(q, k)),
    ("slopes", ALIBI, lambda q, k: np.where(SLOPES < 0.1, 0.0, SLOPES) * offsets(q, k)),
    ("bias-alignment", ALIBI, lambda q, k: SLOPES * np.minimum(front(q, k), 0)),
    ("bias-alignment", ALIBI, lambda q, k: -SLOPES * np.abs(offsets(q, k) + 1)),
    ("bias-scale", ALIBI, lambda q, k: SLOPES * offsets(q, k) / k),
    ("position-range", ALIBI, lambda q, k: SLOPES * np.maximum(offsets(q, k), -1024)),
    ("position-range", ALIBI, lambda q, k: SLOPES * np.minimum(np.arange(k), 1023)[None]),
    ("position-range", ALIBI, lambda q, k: SLOPES * (np.arange(k) % 2048)[None]),
    (
        "position-precision",
        TWELVE,
        lambda q, k: TWELVE.slopes()[:, None, None] * half(np.arange(k))[None],
    ),
    (
        "position-precision",
        TWELVE,
        lambda q, k: TWELVE.slopes()[:, None, None] * half(offsets(q, k)),
    ),
    ("table-precision", ALIBI, lambda q, k: half(SLOPES * offsets(q, k))),
    (
        "table-precision",
        TWELVE,
        lambda q, k: half(TWELVE.slopes())[:, None, None] * offsets(q, k),
    ),
    ("future-keys", BOTH, lambda q, k: np.where(offsets(q, k) > 0, -1e4, SLOPES * offsets(q, k))),
    ("future-keys", BOTH, lambda q, k: masked(offsets(q, k), 0)),
    ("bias-alignment nonfinite", ALIBI, lambda q, k: masked(offsets(q, k), -1)),
    ("nonfinite", ALIBI, lambda q, k: np.where(offsets(q, k) < 0, -np.inf, 0.0)),
    ("inaccurate", BOTH, lambda q, k: 1.0 - SLOPES * np.abs(offsets(q, k))),
    ("position-scale", ALIBI, lambda q, k: -SLOPES * offsets(q, k) ** 2),
    ("shape", ALIBI, lambda q, k: np.repeat(SLOPES, 2, axis=0) * offsets(q, k)),
    ("shape", ALIBI, lambda q, k: np.stack([SLOPES * offsets(q, k)] * 2)),
    ("bias-alignment bucket-direction", T5, lambda q, k: t5(front(q, k), bidirectional=False)),
    ("bucket-sign bias-scale", T5, lambda q, k: t5(-offsets(q, k)) / 8),
    ("head-order", T5, lambda q, k: t5(offsets(q, k))[::-1]),
    ("head-order", DECODER, lambda q, k: t5(offsets(q, k), bidirectional=False)[[1, 0, 2, 3]]),
    ("table-precision", T5, lambda q, k: half(t5(offsets(q, k)))),
    ("bias-alignment", DECODER, lambda q, k: t5(offsets(q, k) - 1, bidirectional=False)),
    ("bias-alignment", T5, lambda q, k: t5(front(q, k) if q == 1 else offsets(q, k))),
    ("bucket-clamp", T5, lambda q, k: t5(offsets(q, k), max_distance=256)),
    ("bucket-clamp", T5, lambda q, k: t5(np.minimum(offsets(q, k), 90))),
    ("bucket-direction", T5, lambda q, k: t5(-np.abs(offsets(q, k)))),
    ("score-term", T5, lambda q, k: t5(offsets(q, k)) + 0.5),
]
BUCKETS = [
    ("bucket-spacing", T5, lambda r: posenc_ref.T5Bias(np.ones((64, 1)), num_buckets=64).bucket(r)),
    ("bucket-spacing", DECODER, lambda r: bucket(r - 1, bidirectional=False)),
    ("bucket-spacing", T5, lambda r: bucket(np.where(np.abs(r) == 20, 0, r))),
    ("bucket-spacing", T5, lambda r: np.where(r > 0, bucket(r - 1) + 16 * (r == 1), bucket(r))),
    ("bucket-clamp", T5, lambda r: bucket(r, max_distance=127)),
    ("bucket-clamp", DECODER, lambda r: bucket(r, max_distance=100, bidirectional=False)),
    ("bucket-clamp", T5, lambda r: np.where(r < -1000, 14, bucket(r))),
    ("bucket-clamp bucket-sign", T5, lambda r: bucket(-r, max_distance=64)),
    ("bucket-direction", T5, lambda r: bucket(-np.abs(r))),
    ("bucket-direction", DECODER, lambda r: bucket(-np.abs(r), bidirectional=False)),
    (
        "bucket-direction bucket-clamp",
        T5,
        lambda r: bucket(r, max_distance=64, bidirectional=False),
    ),
    ("dtype", T5, lambda r: bucket(r).astype(np.float32)),
    ("shape", T5, lambda r: bucket(r).reshape(-1)),
    ("mutates-input", T5, lambda r: (bucket(np.array(r)), np.negative(r, out=r))[0]),
]


#: The numbers of the functions; of those with the same first code the first.
FIRST = {codes.split()[0]: number for number, (codes, *_) in reversed([*enumerate(BIASES)])}
#: Those of them that are quickly judged: the corpus has the other codes too.
DAY = {*FIRST.values()} - {0, 3, 13, 15, 21, 32}


@pytest.mark.parametrize("number", by_day(range(len(BIASES)), DAY))
def test_wrong_bias(number):
    codes, encoding, fn = BIASES[number]
    report = check(fn, encoding, "bias")
    assert report.verdict == "deviates", report
    assert sorted(report.codes) == sorted(codes.split()), report


@pytest.mark.parametrize("number", range(len(BUCKETS)))
def test_wrong_bucket(number):
    codes, encoding, fn = BUCKETS[number]
    report = check(fn, encoding, "bucket")
    assert report.verdict == "deviates", report
    assert sorted(report.codes) == sorted(codes.split()), report


def _logarithmic(r):
    """T5's bucket of the distance, without its bound."""
    n = np.abs(r)
    far = 8 + np.floor(8 * np.log(np.maximum(n, 1) / 8) / np.log(16) + 1e-9).astype(int)
    return np.where(n < 8, n, far)


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda r: bucket(r.astype(np.int8).astype(int)), "wraps round to -128 .. 127, as int8"),
        (lambda r: bucket(r.astype(np.int16).astype(int)), "is stored in int16, which wraps"),
        (
            lambda r: np.where(r > 0, 16 + np.minimum(_logarithmic(r), 15), _logarithmic(r)),
            "of earlier keys is not clamped to 15",
        ),
        (
            lambda r: np.where(
                r > 0, 16 + np.minimum(_logarithmic(r), 15), np.minimum(_logarithmic(r), 31)
            ),
            "of earlier keys is clamped to 31, not to 15",
        ),
    ],
    ids=["int8", "int16", "no bound", "wide bound"],
)
def test_bounds_of_buckets(fn, words):
    report = check(fn, T5, "bucket")
    assert words in only(report).message, report


@pytest.mark.parametrize(
    ("code", "fn"),
    [
        ("bias-sign", lambda n: -ALiBi(n).slopes()),
        ("bias-scale", lambda n: 2 * ALiBi(n).slopes()),
        ("slopes", lambda n: np.zeros(n)),
        ("slopes", lambda n: 2.0 ** -np.arange(1, n + 1)),
        ("table-precision", lambda n: half(ALiBi(n).slopes())),
        ("shape", lambda n: ALIBI.slopes()),
        ("nonfinite", lambda n: ALiBi(n).slopes() * np.nan),
        ("raises", lambda n: 1 / 0),
    ],
)
def test_wrong_slopes(code, fn):
    report = check(fn, ALIBI, "slopes")
    assert report.codes == [code], report


# --- what is measured ---


def only(report):
    assert len(report.findings) == 1, report
    return report.findings[0]


@pytest.mark.parametrize(("heads", "of"), [(3, np.tile), (2, np.repeat)])
def test_slopes_of_fewer_heads(heads, of):
    slopes = of(ALiBi(heads).slopes(), 6 // heads)[:, None, None]
    found = only(check(lambda q, k: slopes * offsets(q, k), ALIBI, "bias"))
    assert f"slopes of a model of {heads} heads" in found.message


def test_slopes_come_with_their_rule():
    found = only(check(lambda q, k: NAIVE * offsets(q, k), ALIBI, "bias"))
    assert "naive series 2 ** (-8 h/n)" in found.values["recipe"]
    assert found.values["declared"] == ALIBI.slopes().tolist()
    assert check(lambda n: 2.0 ** -np.arange(n), ALIBI, "slopes").findings[0].values["recipe"]


@pytest.mark.nightly
def test_alignment_names_the_rule_and_the_shift_of_every_length():
    found = only(check(lambda q, k: -SLOPES * np.abs(front(q, k)), BOTH, "bias"))
    assert "query i has the position of key i" in found.message
    assert found.values["measured"]["q_len 3, k_len 11"] == -8
    found = only(check(lambda q, k: -SLOPES * np.abs(offsets(q, k) - 1), BOTH, "bias"))
    assert "every query is shifted by +1" in found.message


def test_max_distance_is_measured():
    found = only(check(lambda r: bucket(r, max_distance=64), T5, "bucket"))
    assert found.values["max_distance"] == 64


def test_permuted_heads_are_named():
    found = only(check(lambda q, k: t5(offsets(q, k))[[1, 0, 2, 3]], T5, "bias"))
    assert found.values["measured"] == [1, 0, 2, 3]


LIBRARIES = [
    "BLOOM, slopes", "BLOOM, bias", "T5 encoder, buckets", "T5 decoder, buckets",
    "T5 encoder, bias", "AlibiPositionalBias", "AlibiPositionalBias, slopes",
    "RelativePositionBias, buckets", "RelativePositionBias, causal buckets", "RelativePositionBias",
]  # fmt: skip


@pytest.mark.parametrize("label", LIBRARIES)
def test_released_libraries(label):
    pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    pytest.importorskip("transformers", reason="transformers is what is compared with")
    pytest.importorskip("x_transformers", reason="x-transformers is what is compared with")
    from posenc_ref.conformance.adapters.library import functions

    function = next(f for f in functions() if f.dtypes and f.label == label)
    report = check(function.build())
    assert report.passed, report
