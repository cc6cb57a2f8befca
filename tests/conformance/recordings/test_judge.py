"""check_recorded: right recordings conform, wrong ones are named; the rotations are handwritten."""

import ml_dtypes
import numpy as np
import pytest

from posenc_ref import ALiBi, DynamicNTK, RoPE, XPos, YaRN, preset
from posenc_ref.conformance import check_recorded
from tests.conformance.handwritten import inv_freq, rope
from tests.night import by_day

BF16 = ml_dtypes.bfloat16
DIM = 32
HALF = RoPE(DIM, layout="half")
P = np.arange(60)
#: YaRN as transformers writes it, float64: https://arxiv.org/abs/2309.00071, section 3.2.
YARN = RoPE(DIM, layout="half", scaling=YaRN(4.0, 32, truncate=True))


def draw(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


X = draw(2, 3, P.size, DIM)


def yarn(factor=4.0, length=32, base=10000.0, magnitude=True):
    """Return an ``apply`` of YaRN and its factor, in the names of the paper."""
    d = np.arange(0, DIM, 2)
    extrapolated = base ** (-d / DIM)

    def correction(rotations):
        return DIM * np.log(length / (rotations * 2 * np.pi)) / (2 * np.log(base))

    low, high = max(np.floor(correction(32)), 0), min(np.ceil(correction(1)), DIM - 1)
    ramp = np.clip((d / 2 - low) / (high - low), 0, 1)
    w = extrapolated / factor * ramp + extrapolated * (1 - ramp)
    m = 0.1 * np.log(factor) + 1 if magnitude else 1.0
    return rope(frequencies=w.astype(np.float32), after=lambda y, p: (m * y).astype(np.float32))


def partial(rotary_dim, start=0, **changes):
    """Return an ``apply`` that rotates some channels only."""
    inner = rope(**changes)

    def apply(x, p):
        y = x.copy()
        some = slice(start, start + rotary_dim)
        y[..., some] = inner(x[..., some], p)
        return y

    return apply


def mixed(x, p):
    """rotate_half with tables for interleaved pairs."""
    angle = np.repeat(p[:, None] * inv_freq(DIM), 2, axis=-1)
    turned = np.concatenate([-x[..., DIM // 2 :], x[..., : DIM // 2]], axis=-1)
    return (x * np.cos(angle) + turned * np.sin(angle)).astype(np.float32)


def normed(x, p):
    """A norm with weights is recorded as a part of the rotation."""
    size = np.sqrt(np.mean(x * x, axis=-1, keepdims=True))
    return rope()(x / size * np.linspace(1, 2, DIM, dtype="f"), p)


def heads_first(x, p):
    """The sequence axis is taken for the heads: head h has position h."""
    return rope()(x.swapaxes(1, 2), np.arange(x.shape[1])).swapaxes(1, 2)


def rounded(p):
    return p.astype(BF16).astype(np.float32)


def half_tables(cos, sin, p):
    cos, sin = (t.astype(BF16).astype(np.float32) for t in (cos, sin))
    return cos, -sin, sin, cos


ROWS = np.stack([P, P + 40])
PADDED = np.stack([np.r_[np.ones(20, int), np.arange(40)], P])
LATE = P + 3000
PARTIAL = RoPE(DIM, layout="half", rotary_dim=16)

RIGHT = {
    "half": (HALF, rope(), P),
    "interleaved": (RoPE(DIM, layout="interleaved"), rope(layout="interleaved"), P),
    "base": (RoPE(DIM, layout="half", base=5e5), rope(base=5e5), LATE),
    "partial": (PARTIAL, partial(16), P),
    "trailing slice": (PARTIAL.replace(rotary_start=16), partial(16, 16), P),
    "YaRN": (YARN, yarn(), P),
    "rows": (HALF, rope(), ROWS),
    "left padding": (HALF, rope(), PADDED),
    "negated": (HALF.replace(sign=-1), rope(positions=lambda p: -p), P),
    "one position": (HALF, rope(), np.full(60, 4000)),
}
WRONG = {
    "layout": (HALF, rope(layout="interleaved"), P, "layout", "pairs are interleaved"),
    "published base": (HALF, rope(base=5e5), P, "base", "the base is 500000, declared 10000"),
    "any base": (HALF, rope(base=7e4), LATE, "base", "the base is 70000"),
    "base, decoding": (HALF, rope(base=5e5), np.full(60, 4000), "base", "the base is 500000"),
    "base, sparse": (HALF, rope(base=5e5), 1000 * P, "base", "the base is 500000"),
    "sign": (HALF, rope(positions=lambda p: -p), P, "sign", "turns the other way"),
    "scaled": (HALF, rope(positions=lambda p: p / 8), P, "position-scale", "0.125 times"),
    "YaRN missing": (YARN, rope(), P, "scaling-missing", "the declared scaling is missing"),
    "YaRN factor": (YARN, yarn(8.0), P, "scaling-parameter", "factor is 8"),
    "attention factor": (YARN, yarn(magnitude=False), P, "attention-factor", "is missing"),
    "amplitude": (HALF, rope(after=lambda y, p: y * 1.25), P, "amplitude", "multiplied by 1.25"),
    "softmax scale": (PARTIAL, lambda x, p: partial(16)(x, p) / 4, P, "amplitude", "by 0.25"),
    "rotary dim": (HALF, partial(16), P, "rotary-dim", "16 channels are rotated"),
    "start": (PARTIAL, partial(16, 16), P, "rotary-dim", "(16..31), declared 16 (0..15)"),
    "nothing": (HALF, lambda x, p: x.copy(), P, "frequency-spacing", "nothing is rotated"),
    "offset ignored": (HALF, rope(positions=lambda p: p - 3000), LATE, "decode-offset", "not used"),
    "offset twice": (HALF, rope(positions=lambda p: p + 3000), LATE, "decode-offset", "twice"),
    "from 1": (HALF, rope(positions=lambda p: p + 1), P, "position-origin", "one too large"),
    "from 77": (HALF, rope(positions=lambda p: p + 77), P, "position-origin", "of position 77,"),
    "half a position": (HALF, rope(positions=lambda p: p + 0.5), P, "position-origin", "0.5,"),
    "padding": (HALF, lambda x, p: rope()(x, P), PADDED, "decode-offset", "counted from 0"),
    "rows": (HALF, lambda x, p: rope()(x, P + 9), ROWS + 9, "row-offset", "the first one does"),
    "rows, padded": (HALF, lambda x, p: rope()(x, PADDED[0]), PADDED, "row-offset", "the first"),
    "clamped": (HALF, rope(positions=lambda p: np.minimum(p, 50)), P, "position-range", "to 50"),
    "modulo": (HALF, rope(positions=lambda p: p % 16), P, "position-range", "modulo 16"),
    "one row": (HALF, rope(positions=lambda p: p + (p == 7)), P, "wrong-row", "tokens have"),
    "heads": (HALF, heads_first, P, "position-axis", "the head index is used"),
    "bf16 positions": (HALF, rope(positions=rounded), LATE, "position-precision", "in bfloat16"),
    "bf16 frequencies": (HALF, rope(frequencies=rounded(inv_freq(DIM))), P, "angle-precision",
                         "rounded to bfloat16"),
    "bf16 tables": (HALF, rope(block=half_tables), P, "table-precision", "tables in bfloat16"),
    "mixed": (HALF, mixed, P, "mixed-layout", "turn by different angles"),
    "no minus": (HALF, rope(block=lambda c, s, p: (c, s, s, c)), P, "not-a-rotation", "a pair"),
    "a norm between": (HALF, normed, P,
                       "not-a-rotation", "no rotation of the tensor before"),
    "NaN": (HALF, rope(after=lambda y, p: np.where(p[:, None] == 7, np.nan, y)), P, "nonfinite",
            "nan in q after"),
}  # fmt: skip


@pytest.mark.parametrize("case", RIGHT)
def test_a_right_recording_conforms(case):
    encoding, apply, positions = RIGHT[case]
    report = check_recorded(X, apply(X, positions), positions, encoding)
    assert report.verdict == "conforms", report
    assert report.accuracy.highest == positions.max()
    assert report.exit_code == 0


#: Other numbers of mistakes that a case of the day has.
NIGHT = {
    "any base", "base, decoding", "base, sparse", "YaRN factor", "softmax scale", "amplitude",
    "start", "offset twice", "from 77", "half a position", "rows, padded", "modulo",
    "bf16 positions", "bf16 frequencies", "no minus", "from 1",
}  # fmt: skip


@pytest.mark.parametrize("case", by_day(WRONG, WRONG.keys() - NIGHT))
def test_a_wrong_recording_is_named(case):
    encoding, apply, positions, code, words = WRONG[case]
    report = check_recorded(X, apply(X, positions), positions, encoding)
    assert report.codes[:1] == [code], report
    assert words in report.findings[0].message
    assert report.exit_code == 1


def test_a_layout_and_an_offset_are_both_found():
    wrong = rope(layout="interleaved")(X, P)
    report = check_recorded(X, wrong, P + 500, HALF)
    assert report.codes == ["layout", "decode-offset"]


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float64])
def test_half_precision_recordings_conform(dtype):
    x = X.astype(dtype)
    right = rope(frequencies=10000.0 ** (-np.arange(DIM // 2) / 16.0))  # float64 where x is
    assert check_recorded(x, right(x, P), P, HALF).verdict == ("conforms")


def test_a_fitted_factor_shows_what_bfloat16_elements_hide():
    x = X.astype(BF16)
    wrong = rope(after=lambda y, p: y * np.float32(1.02))
    report = check_recorded(x, wrong(x, P), P, HALF)
    assert report.codes == ["amplitude"]
    assert report.accuracy.worst <= report.accuracy.budget


def test_bfloat16_numbers_in_float32_are_judged_as_bfloat16():
    x = X.astype(BF16)
    y = rope()(x, P).astype(np.float32)
    report = check_recorded(x.astype(np.float32), y, P, HALF)
    assert report.verdict == "conforms"
    assert report.dtype == "bfloat16"
    assert any("float32 tensor, but all values are bfloat16" in text for text in report.limits)


Q, K = draw(1, 4, 60, DIM), draw(1, 2, 60, DIM, seed=1)


def test_queries_and_keys_are_judged_together():
    right = {"q": rope()(Q, P), "k": rope()(K, P)}
    assert check_recorded({"q": Q, "k": K}, right, P, HALF).executed == {"values": 2}
    report = check_recorded({"q": Q, "k": K}, right | {"k": rope(base=5e5)(K, P)}, P, HALF)
    assert report.codes == ["base"]
    assert report.findings[0].evidence.startswith("k: ")


def test_a_shared_mistake_is_listed_once():
    wrong = {"q": rope(base=5e5)(Q, P), "k": rope(base=5e5)(K, P)}
    report = check_recorded({"q": Q, "k": K}, wrong, P, HALF)
    assert report.codes == ["base"]
    assert "also in k" in report.findings[0].evidence


def test_the_keys_of_xpos_grow():
    encoding = XPos(DIM, layout="interleaved", scale_base=512)
    k = np.arange(DIM // 2)
    zeta = ((2 * k / DIM) + 0.4) / 1.4
    power = (P / 512)[:, None]

    def turned(x, sign):
        y = rope(layout="interleaved")(x, P).reshape(*x.shape[:-1], -1, 2)
        return (y * (zeta ** (sign * power))[..., None]).reshape(x.shape).astype(np.float32)

    right = {"q": turned(Q, 1), "k": turned(K, -1)}
    assert check_recorded({"q": Q, "k": K}, right, P, encoding).verdict == "conforms"
    exchanged = {"q": turned(Q, -1), "k": turned(K, 1)}
    assert check_recorded({"q": Q, "k": K}, exchanged, P, encoding).verdict == "deviates"


def test_a_scaling_by_length_takes_the_largest_position():
    encoding = RoPE(DIM, layout="half", scaling=DynamicNTK(2.0, 32))
    base = 10000.0 * (2.0 * 60 / 32 - 1.0) ** (DIM / (DIM - 2))
    assert check_recorded(Q, rope(base=base)(Q, P), P, encoding).verdict == "conforms"
    report = check_recorded(Q, rope()(Q, P), P, encoding)
    assert report.codes == ["scaling-missing"]
    assert any("depend on the length" in text for text in report.limits)


def test_a_model_with_one_encoding_declares_it():
    x = draw(1, 2, 60, 128)
    assert check_recorded(x, rope()(x, P), P, preset("llama-2-7b")).verdict == "conforms"


def test_other_encodings_are_refused():
    with pytest.raises(ValueError, match=r"must be a rotary encoding.*ALiBi"):
        check_recorded(X, X, P, ALiBi(8))
    with pytest.raises(ValueError, match="keys among q, k and x"):
        check_recorded({"v": X}, {"v": X}, P, HALF)
    with pytest.raises(TypeError, match="array of integers or of float64"):
        check_recorded(X > 0, X > 0, P, HALF)
    with pytest.raises(ValueError, match="precision must be one of"):
        check_recorded(X, X, P, HALF, precision="float8")


def test_a_mutated_element_deviates():
    y = rope()(X, P)
    y[1, 2, 41, 5] += np.float32(2.0**-10)
    report = check_recorded(X, y, P, HALF)
    assert report.verdict == "deviates"
    assert "(1, 2, 41, 5)" in report.accuracy.where
