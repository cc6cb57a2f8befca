"""The judges of ``cos_sin``, ``frequencies`` and ``table``."""

import numpy as np
import pytest

from posenc_ref import Learned, LinearScaling, RoPE, Sinusoidal
from posenc_ref.conformance import check
from tests.conformance.handwritten import inv_freq, only, short, sinusoid

DIM = 16
ROPE = RoPE(DIM, layout="half")
TABLE = Sinusoidal(DIM)
RIGHT = sinusoid(dim=DIM)


def cos_sin(p, base=10000.0, layout=None):
    """cos and sin of float32 angles; with a layout, every column twice."""
    angle = np.asarray(p, np.float32)[:, None] * inv_freq(DIM, base)
    if layout == "half":
        angle = np.concatenate([angle, angle], axis=-1)
    elif layout == "interleaved":
        angle = np.repeat(angle, 2, axis=-1)
    return np.cos(angle), np.sin(angle)


def codes(fn, encoding, surface, **kwargs):
    report = check(fn, encoding, surface, **kwargs)
    assert report.verdict == ("deviates" if report.codes else "conforms"), report
    return report.codes


# --- cos and sin ---------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [None, "half"])
def test_cos_sin(layout):
    report = check(lambda p: cos_sin(p, layout=layout), ROPE, "cos_sin")
    assert report.passed, report
    assert report.limits == []
    assert report.accuracy.precision.startswith("float32 angles")


@pytest.mark.parametrize(
    ("fn", "code"),
    [
        (lambda p: cos_sin(p, layout="interleaved"), "layout"),
        (lambda p: cos_sin(p, base=500000.0), "base"),
        (lambda p: cos_sin(p)[::-1], "phase-order"),
        (lambda p: cos_sin(np.asarray(p) + 1), "position-origin"),
        (lambda p: cos_sin(-np.asarray(p)), "sign"),
        (lambda p: tuple(2 * t for t in cos_sin(p)), "amplitude"),
        (lambda p: cos_sin(p)[0], "shape"),
        (lambda p: (*cos_sin(p), 1), "shape"),
        (lambda p: tuple(t[:, :3] for t in cos_sin(p)), "shape"),
        (lambda p: tuple(t.T for t in cos_sin(p)), "shape"),
        (lambda p: tuple(t.astype(np.float16) for t in cos_sin(p)), "dtype"),
        (
            lambda p: tuple(t.astype(np.float16).astype(np.float32) for t in cos_sin(p)),
            "table-precision",
        ),
        (
            lambda p: tuple(np.concatenate([t, t[:, ::-1]], axis=1) for t in cos_sin(p)),
            "mixed-layout",
        ),
        (only(lambda p: p.dtype.kind == "f", cos_sin), "raises"),
        (only(lambda p: p.size != 64, cos_sin), "raises"),
        (
            lambda p: tuple(np.where(p[:, None] > 1000, np.nan, t) for t in cos_sin(p)),
            "nonfinite",
        ),
    ],
)
def test_wrong_cos_sin(fn, code):
    assert codes(fn, ROPE, "cos_sin")[0] == code


def test_half_precision_tables_may_be_declared():
    def coarse(p):
        return tuple(t.astype(np.float16).astype(np.float32) for t in cos_sin(p))

    assert codes(coarse, ROPE, "cos_sin", precision="float16") == []


def test_the_sign_belongs_to_the_rotation():
    assert codes(cos_sin, ROPE.replace(sign=-1), "cos_sin") == []


# --- frequencies ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda: inv_freq(DIM), []),
        (lambda: inv_freq(DIM).tolist(), []),
        (lambda: (inv_freq(DIM), 1.0), []),
        (lambda: (inv_freq(DIM), 1.25), ["attention-factor"]),
        (lambda: (inv_freq(DIM), np.ones(3)), ["attention-factor"]),
        (lambda: inv_freq(DIM, 500000.0), ["base"]),
        (lambda: -inv_freq(DIM), ["sign"]),
        (lambda: inv_freq(DIM) ** 2, ["exponent"]),
        (lambda: inv_freq(DIM) / 3, ["position-scale"]),
        (lambda: 0 * inv_freq(DIM), ["uninitialised"]),
        (lambda: inv_freq(DIM)[::-1], ["frequency-spacing"]),
        (lambda: inv_freq(DIM)[:-1], ["shape"]),
        (lambda: np.repeat(inv_freq(DIM), 2), ["shape"]),
        (lambda: None, ["shape"]),
        (lambda: (inv_freq(DIM), 1, 2), ["shape"]),
        (lambda: 1 / 0, ["raises"]),
        (lambda: inv_freq(DIM) * np.nan, ["nonfinite"]),
        (lambda: np.ones(DIM // 2, int), ["dtype"]),
    ],
)
def test_frequencies(fn, expected):
    assert codes(fn, ROPE, "frequencies") == expected


def test_scaled_frequencies():
    scaled = ROPE.replace(scaling=LinearScaling(4.0))
    assert codes(lambda: inv_freq(DIM) / 4, scaled, "frequencies") == []
    assert codes(lambda: inv_freq(DIM), scaled, "frequencies") == ["scaling-missing"]


# --- sinusoids -----------------------------------------------------------------------------------

STYLES = [
    TABLE,
    Sinusoidal(DIM, layout="concat"),
    Sinusoidal(DIM, layout="concat", first="cos"),
    Sinusoidal(DIM, first="cos"),
    Sinusoidal(DIM, denominator="half-1"),
    Sinusoidal(DIM, denominator=9.5, base=777.0),
    Sinusoidal(DIM, offset=2),
    Sinusoidal(DIM, position_scale=0.25),
    Sinusoidal(DIM, position_scale=1000.0, layout="concat"),
    Sinusoidal(DIM, scale=-0.5),
    Sinusoidal(DIM + 1, odd="extra-sin"),
    Sinusoidal(DIM + 1, odd="zero-pad"),
    Sinusoidal(2),
]


@pytest.mark.parametrize("encoding", STYLES, ids=repr)
def test_every_style_of_a_table_passes(encoding):
    def fn(p):
        return encoding.table(p).astype(np.float32)

    report = check(fn, encoding, "table")
    assert report.passed, report
    assert report.executed["properties"] >= 1


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"layout": "concat"}, "layout"),
        ({"first": "cos"}, "phase-order"),
        ({"base": 500000.0}, "base"),
        ({"denominator": "half-1"}, "denominator"),
        ({"offset": 1}, "position-origin"),
        ({"position_scale": 0.5}, "position-scale"),
        ({"scale": 2.0}, "amplitude"),
        ({"scale": -1.0}, "amplitude"),
    ],
)
def test_a_table_in_another_style_is_named(other, code):
    other = TABLE.replace(**other)
    assert codes(lambda p: other.table(p).astype(np.float32), TABLE, "table") == [code]


@pytest.mark.parametrize(
    ("fn", "code"),
    [
        (lambda p: RIGHT(p).T, "shape"),
        (lambda p: RIGHT(p)[:, :-1], "shape"),
        (lambda p: RIGHT(p)[None], "shape"),
        (lambda p: RIGHT(p)[:1000], "shape"),
        (lambda p: None, "shape"),
        (lambda p: RIGHT(p).astype(int), "dtype"),
        (lambda p: RIGHT(p).astype(complex), "dtype"),
        (lambda p: RIGHT(p).astype(np.float16), "dtype"),
        (lambda p: RIGHT(p) * np.nan, "nonfinite"),
        (lambda p: np.where(p[:, None] > 2000, np.inf, RIGHT(p)), "nonfinite"),
        (lambda p: 0 * RIGHT(p), "wrong-row"),
        (lambda p: 0 * RIGHT(p) + 1, "wrong-row"),
        (lambda p: np.random.default_rng().standard_normal((p.size, DIM)), "state"),
        (
            lambda p: np.random.default_rng(0).standard_normal((2**21, 1))[p] * np.ones(DIM),
            "uninitialised",
        ),
        (lambda p: RIGHT(np.minimum(p, 511)), "position-range"),
        (lambda p: RIGHT(p % 512), "position-range"),
        (lambda p: RIGHT(np.sort(p)), "token-order"),
        (lambda p: RIGHT(np.arange(p.size)), "decode-offset"),
        (lambda p: (RIGHT(p.copy()), np.add(p, 1, out=p))[0], "mutates-input"),
    ],
)
def test_wrong_tables(fn, code):
    assert codes(fn, TABLE, "table")[0] == code


def test_fractional_positions_truncated_by_a_table_are_a_note():
    report = check(lambda p: RIGHT(np.trunc(p)), TABLE, "table")
    assert report.verdict == "conforms", report
    assert [(f.severity, f.code) for f in report.findings] == [("note", "position-range")]


@pytest.mark.parametrize("rows", [5, 9, 10, 40, 64, 512, 3000])
@pytest.mark.parametrize("prefix", [False, True])
def test_a_short_table_is_judged_to_its_end(rows, prefix):
    fn = short(rows, RIGHT)
    if prefix:
        fn = only(lambda p: p.size and np.array_equal(p, np.arange(p.size)), fn)
    report = check(fn, TABLE, "table", accept_limits=True)
    # Its properties need 10 rows.
    assert report.verdict == ("conforms" if rows >= 10 else "inconclusive"), report
    assert report.accuracy.highest == rows - 1
    assert any(
        limit.startswith(f"positions past {rows - 1} are refused") for limit in report.limits
    )
    last = check(
        lambda p: np.where(p[:, None] == rows - 1, 0, fn(p)).astype(np.float32), TABLE, "table"
    )
    assert last.verdict == "deviates", last


@pytest.mark.parametrize("fn", [RIGHT, cos_sin])
def test_max_position(fn):
    seen = []

    def spy(p):
        seen.append(int(np.max(p, initial=0)))
        return fn(p)

    encoding, surface = (TABLE, "table") if fn is RIGHT else (ROPE, "cos_sin")
    report = check(spy, encoding, surface, max_position=300)
    assert report.passed, report
    assert max(seen) == 300 == report.accuracy.highest
    assert "a pass below 1024" in str(report)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_dtypes(dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    assert codes(lambda p: TABLE.table(p).astype(kind), TABLE, "table", dtype=dtype) == []
    wrong = TABLE.replace(base=500000.0)
    assert codes(lambda p: wrong.table(p).astype(kind), TABLE, "table", dtype=dtype) == ["base"]

    def tables(p):
        return tuple(t.astype(kind) for t in ROPE.cos_sin(p))

    assert codes(tables, ROPE, "cos_sin", dtype=dtype) == []


# --- learned tables ------------------------------------------------------------------------------

WEIGHT = np.random.default_rng(5).standard_normal((40, 6)).astype(np.float32)


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda p: WEIGHT[p + 2], []),
        (lambda p: WEIGHT[p], ["position-origin"]),
        (lambda p: WEIGHT[np.where(p == 17, 3, p + 2)], ["wrong-row"]),
        (lambda p: WEIGHT[p + 2] * np.float32(1 + 2.0**-20), ["inaccurate"]),
        (lambda p: WEIGHT[p + 2][:, :3], ["shape"]),
        (lambda p: WEIGHT[p + 2].astype(int), ["dtype"]),
        (lambda p: 1 / 0, ["raises"]),
    ],
)
def test_learned(fn, expected):
    encoding = Learned(WEIGHT, offset=2)
    report = check(fn, encoding, "table")
    assert report.codes == expected, report
    assert report.passed == (not expected)
