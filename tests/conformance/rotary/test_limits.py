"""What the judge had accused wrongly, or let pass: limits of length, sizes of real models."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from tests.night import by_day

D = 16
HALF = pr.RoPE(D, layout="half")
PE = pr.Sinusoidal(D)
ALIBI = pr.ALiBi(8)


def up_to(most, fn, size):
    """``fn``, refusing what is longer."""

    def limited(*arguments):
        if size(*arguments) > most:
            raise ValueError(f"at most {most} positions")
        return fn(*arguments)

    return limited


def last(positions):
    return int(np.max(positions, initial=0)) + 1


def offset(x, start):
    return np.concatenate(
        [HALF.apply(x[[b]], start[b] + np.arange(x.shape[2])) for b in range(len(x))]
    )


LIMITED = {
    "apply": (up_to(512, HALF.apply, lambda x, p: x.shape[2]), HALF),
    "apply_offset": (up_to(512, offset, lambda x, o: last(o) + x.shape[2]), HALF),
    "table": (up_to(512, PE.table, last), PE),
    "add": (up_to(128, lambda x: PE.add(x, range(x.shape[1])), lambda x: x.shape[1]), PE),
    "packed": (up_to(512, pr.packed, np.sum), None),
    "decode_positions": (up_to(512, pr.decode_positions, lambda n, s: last(n) + s), None),
    "shard_positions": (up_to(512, pr.shard_positions, lambda b, s, r: np.max(np.diff(b))), None),
}


@pytest.mark.parametrize("surface", LIMITED)
def test_a_stated_limit_of_length_is_a_limit(surface):
    fn, encoding = LIMITED[surface]
    report = check(fn, encoding, surface)
    assert report.verdict == "conforms", report
    assert any("at most" in limit for limit in report.limits)


@pytest.mark.parametrize("most", by_day([5, 6, 16, 33, 63, 70, 3000], {16, 70}))
def test_calls_are_cut_until_they_are_accepted(most):
    limited = up_to(most, HALF.apply, lambda x, p: x.shape[2])
    report = check(limited, HALF, "apply", accept_limits=True)
    assert report.verdict == "conforms", report
    wrong = up_to(most, lambda x, p: HALF.apply(x, np.minimum(p, 5000)), lambda x, p: x.shape[2])
    assert check(wrong, HALF, "apply").codes == ["position-range"]


NTK = pr.RoPE(D, layout="half", scaling=pr.DynamicNTK(2.0, 128))
AXES = pr.MultiAxisRoPE(D, sections=(4, 4), layout="half")


@pytest.mark.parametrize("most", by_day([5, 8, 300], {5}))
@pytest.mark.parametrize("encoding", by_day([NTK, AXES], [NTK]), ids=["length", "axes"])
def test_calls_that_are_cut_keep_their_length_and_axes(encoding, most):
    def grows(x, p):
        return encoding.apply(x, p) * np.where(np.asarray(p).max(initial=0) > 900, 1.01, 1)

    for fn, passes in ((encoding.apply, True), (grows, False)):
        limited = up_to(most, fn, lambda x, p: x.shape[2])
        report = check(limited, encoding, "apply", accept_limits=True)
        assert report.passed is passes, report
        assert "raises" not in report.codes


@pytest.mark.parametrize("most", [100, 200])
def test_the_longest_call_that_is_accepted_is_judged(most):
    def late(x, p):
        return HALF.apply(x, p) * (1.01 if x.shape[2] == most else 1)

    right, wrong = (
        check(up_to(most, fn, lambda x, p: x.shape[2]), HALF, "apply") for fn in (HALF.apply, late)
    )
    assert right.passed
    assert not wrong.passed
    said = [limit for limit in right.limits if "at most" in limit]
    assert len(said) == 2
    assert any(f"calls of more than {most} tokens" in limit for limit in said)


def test_a_short_call_that_raises_is_an_error():
    report = check(up_to(3, HALF.apply, lambda x, p: x.shape[2]), HALF, "apply")
    assert report.codes == ["raises"]


@pytest.mark.parametrize("constant", [1.0, 100.0])
def test_rows_may_hold_a_constant_each(constant):
    """As far as the bias is not rounded away beside it: test_row_constants has the others."""

    def fn(q_len, k_len):
        bias = np.asarray(ALIBI.bias(range(k_len - q_len, k_len), range(k_len)))
        return (bias + constant * np.arange(q_len)[:, None]).astype(np.float32)

    report = check(fn, ALIBI, "bias")
    assert report.verdict == "conforms", report


@pytest.mark.parametrize("kind", [list, tuple])
def test_positions_may_come_as_a_list(kind):
    assert check(lambda n: kind(pr.packed(n).tolist()), None, "packed").verdict == "conforms"


def cut(values):
    """The upper half of a float32."""
    bits = np.asarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


@pytest.mark.parametrize("surface", ["apply", "table"])
def test_bfloat16_by_truncation_is_named(surface):
    encoding = HALF if surface == "apply" else PE
    fn = (lambda x, p: cut(HALF.apply(x, p))) if surface == "apply" else lambda p: cut(PE.table(p))
    report = check(fn, encoding, surface, precision="bfloat16")
    assert report.codes == ["table-precision"]
    assert "cut to bfloat16, not rounded" in report.findings[0].message


def turned(x, angle):
    angle = angle if angle.ndim == 2 else angle[:, None]
    c, s, (one, two) = np.cos(angle), np.sin(angle), np.split(x, 2, axis=-1)
    return np.concatenate([one * c - two * s, two * c + one * s], axis=-1).astype(x.dtype)


@pytest.mark.parametrize(
    ("pi", "passes"),
    [
        ("3.14", False), ("3.1416", False), ("3.14159", False), ("3.141592", False),
        ("3.1415926", True), ("3.14159265", True), ("3.1415927410125732", True),
    ],
)  # fmt: skip
def test_a_short_pi_is_named(pi, passes):
    """Angles that are off by more than a rounding of float32 are an error, however small."""

    def fn(x, positions):
        angle = np.asarray(positions, np.float64)[..., None] * HALF.frequencies()
        return turned(x, np.fmod(angle, 2 * float(pi)))

    report = check(fn, HALF, "apply")
    assert report.passed is passes
    pi = f"{float(pi):.12g}"
    assert report.accuracy.precision == f"angles reduced with pi = {pi}"
    (found,) = (f for f in report.findings if f.code == "range-reduction")
    assert found.severity == ("note" if passes else "error")
    assert pi in found.message


def only_where(x, wrong):
    """Twice as much where something is the case."""
    return 2 * x if wrong else x


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x.shape[1] > 0 and x.shape[1] % 8 == 0,
        lambda x: x.shape[2] > 0 and x.shape[2] % 64 == 0,
        lambda x: x.shape[2] == 128,
    ],
    ids=["heads in eights", "tokens in sixty-fours", "128 tokens"],
)
def test_sizes_of_real_models(wrong):
    fn = lambda x, p: only_where(HALF.apply(x, p), wrong(x))  # noqa: E731
    assert check(fn, HALF, "apply").verdict == "deviates"


def test_key_lengths_that_are_powers_of_two():
    def fn(q_len, k_len):
        bias = np.asarray(ALIBI.bias(range(k_len - q_len, k_len), range(k_len)))
        return only_where(bias, k_len > 4 and k_len & (k_len - 1) == 0)

    assert check(fn, ALIBI, "bias").verdict == "deviates"


@pytest.mark.nightly
def test_large_images_shifts_and_odd_numbers_of_heads():
    image = pr.Sinusoidal2D(16)
    report = check(lambda h, w: only_where(image.grid(h, w), max(h, w) > 14), image, "grid")
    assert report.verdict == "deviates"
    clamped = check(lambda x, by: HALF.shift(x, np.clip(by, -9999, 9999)), HALF, "shift_keys")
    assert clamped.verdict == "deviates"
    for heads in (*range(9, 16), 25, 48, 96):
        fn = lambda n, heads=heads: only_where(pr.ALiBi(n).slopes(), n == heads)  # noqa: E731
        assert check(fn, ALIBI, "slopes").verdict == "deviates", heads


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_in_the_first_row(value):
    def scrubbed(x, p):
        y = HALF.apply(x, p)
        with np.errstate(all="ignore"):
            bad = x.shape[0] and not np.isfinite(x[0]).all()
        return np.nan_to_num(y, posinf=0.0, neginf=0.0) if bad else y

    def spread(x, p):
        y = np.array(HALF.apply(x, p))
        if x.shape[0] and not np.isfinite(x[0]).all():
            y[:] = value
        return y

    assert check(scrubbed, HALF, "apply").codes == ["nonfinite"]
    assert check(spread, HALF, "apply").codes == ["nonfinite"]


def test_large_values_are_not_clipped():
    fn = lambda x, p: np.clip(HALF.apply(x, p), -1e6, 1e6)  # noqa: E731
    assert check(fn, HALF, "apply").codes == ["not-linear"]
