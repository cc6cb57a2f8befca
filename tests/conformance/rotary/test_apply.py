"""The judge of ``apply``, on what people really do wrong, and on what they do differently."""

import numpy as np
import pytest

from posenc_ref import LinearScaling, RoPE, permute_weights
from posenc_ref.conformance import check
from posenc_ref.conformance.harness.tensor_layouts import TENSOR_LAYOUTS
from tests.conformance.handwritten import inv_freq, rope

DIM = 16
HALF, INTERLEAVED = RoPE(DIM, layout="half"), RoPE(DIM, layout="interleaved")
RIGHT = rope()


def finding(fn, encoding=HALF, **kwargs):
    """The only finding."""
    report = check(fn, encoding, "apply", **kwargs)
    assert report.verdict == "deviates", report
    assert len(report.findings) == 1, report
    return report.findings[0]


# --- the user's stories --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "encoding", "other"),
    [(RIGHT, INTERLEAVED, "half"), (rope(layout="interleaved"), HALF, "interleaved")],
    ids=["half for interleaved", "interleaved for half"],
)
def test_the_other_layout_and_its_remedy(fn, encoding, other):
    found = finding(fn, encoding)
    assert found.code == "layout"
    assert found.values == {"declared": encoding.layout, "measured": other}
    call = f"permute_weights(w, n_heads, source='{encoding.layout}', target='{other}')"
    assert f"posenc_ref.{call}" in found.remedy
    # The remedy cures: with permuted projections, logits are those of the declared layout.
    w = np.random.default_rng(0).standard_normal((2 * DIM, 5))
    x, p = np.random.default_rng(1).standard_normal((7, 5)), np.arange(7)
    cured = permute_weights(w, 2, source=encoding.layout, target=other)

    def logits(apply, weights):
        q = (x @ weights.T).reshape(7, 2, DIM).swapaxes(0, 1)[None]
        turned = apply(q, p)
        return turned @ turned.swapaxes(-1, -2)

    score = np.abs(logits(fn, cured) - logits(encoding.apply, w))
    assert score.max() < 0.01 < np.abs(logits(fn, w) - logits(encoding.apply, w)).max()


def test_the_remedy_names_the_rotated_slice():
    """DeepSeek's heads rotate their last channels."""
    declared = RoPE(DIM, layout="interleaved", rotary_dim=8, rotary_start=8)
    found = finding(declared.replace(layout="half").apply, declared)
    assert found.code == "layout"
    assert "target='half', rotary_dim=8, rotary_start=8). Or" in found.remedy


def test_a_slice_in_the_other_layout():
    def partial(x, p):
        return np.concatenate([rope()(x[..., :8], p), x[..., 8:]], axis=-1)

    found = finding(partial, RoPE(DIM, layout="interleaved", rotary_dim=8))
    assert found.code == "layout"
    assert "rotary_dim=8" in found.remedy


def test_the_other_sign():
    found = finding(rope(positions=lambda p: -p))
    assert found.code == "sign"
    assert check(rope(positions=lambda p: -p), HALF.replace(sign=-1), "apply").passed


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_another_base_with_both_values(dtype):
    pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    found = finding(rope(base=500000.0), dtype=dtype)
    assert found.code == "base"
    assert found.values == {"declared": 10000.0, "measured": 500000.0}
    assert "500000" in found.message
    assert "10000" in found.message


def half_precision(name):
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, name, name))
    return lambda a: np.asarray(a).astype(kind).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_frequencies_in_half_precision(kind, dtype):
    pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    rounded = half_precision(kind)
    found = finding(rope(frequencies=rounded(inv_freq(DIM))), dtype=dtype)
    assert found.code == "angle-precision"
    assert kind in found.message


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_positions_in_half_precision(dtype):
    pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    found = finding(rope(positions=half_precision("bfloat16")), dtype=dtype)
    assert found.code == "position-precision"


def test_a_factor_of_minus_1_is_no_position():
    found = finding(rope(after=lambda y, p: -y))
    assert found.code == "amplitude"
    assert found.values == {"declared": 1.0, "measured": -1.0}


def test_a_phase_of_its_own_for_every_pair():
    phase = np.linspace(0.3, 2.0, DIM // 2).astype(np.float32)

    def block(c, s, p):
        c, s = c * np.cos(phase) - s * np.sin(phase), s * np.cos(phase) + c * np.sin(phase)
        return c, -s, s, c

    assert finding(rope(block=block)).code == "not-a-rotation"


def test_two_bugs_are_both_listed():
    report = check(rope(layout="interleaved", base=500000.0), HALF, "apply")
    assert report.codes == ["layout", "base"]
    report = check(rope(positions=lambda p: -p, base=500000.0), HALF, "apply")
    assert report.codes == ["sign", "base"]


def test_scaling():
    scaled = HALF.replace(scaling=LinearScaling(4.0))
    assert check(rope(positions=lambda p: np.asarray(p) / 4), scaled, "apply").passed
    assert finding(RIGHT, scaled).code == "scaling-missing"
    assert finding(rope(positions=lambda p: np.asarray(p) / 16), scaled).code == "position-scale"


# --- other styles, other libraries ---------------------------------------------------------------


def complex_numbers(x, p):
    """One complex multiplication, angles in float64."""
    turn = np.exp(1j * np.asarray(p, np.float64)[..., None] * DIM ** (-np.arange(DIM // 2) / 4))
    z = x[..., ::2] + 1j * x[..., 1::2]
    z = z * (turn[:, None] if turn.ndim == 3 else turn)
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape).astype(x.dtype)


class Table:
    """A table of cos and sin that is looked up, rotate_half as transformers has it."""

    def __init__(self, rows=4096):
        angle = np.arange(rows, dtype=np.float32)[:, None] * inv_freq(DIM)
        angle = np.concatenate([angle, angle], axis=-1)
        self.cos, self.sin = np.cos(angle), np.sin(angle)

    def __call__(self, x, p):
        if p.dtype.kind not in "iu" or p.min(initial=0) < 0:
            raise IndexError("rows are counted from 0")
        cos, sin = self.cos[p], self.sin[p]
        if p.ndim == 2:
            cos, sin = cos[:, None], sin[:, None]
        turned = np.concatenate([-x[..., DIM // 2 :], x[..., : DIM // 2]], axis=-1)
        return x * cos + turned * sin


def test_complex_numbers():
    encoding = RoPE(DIM, layout="interleaved", base=float(DIM) ** 2)
    assert check(complex_numbers, encoding, "apply").passed
    assert check(complex_numbers, encoding, "apply", angles="exact").passed


def test_a_table_and_its_length():
    report = check(Table(), HALF, "apply", factory=Table)
    assert report.passed, report
    assert report.accuracy.highest == 4095
    past, negative, fractional = report.limits
    assert past.startswith("positions past 4095 are refused (IndexError: ")
    assert negative == "negative positions: refused (IndexError: rows are counted from 0)"
    assert fractional == "fractional positions: refused (IndexError: rows are counted from 0)"


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_numpy_dtypes(dtype):
    pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")

    def from_float64(x, p):
        return HALF.apply(x.astype(np.float64), p).astype(x.dtype)

    fn = from_float64 if dtype == "float64" else RIGHT
    report = check(fn, HALF, "apply", dtype=dtype)
    assert report.passed, report
    assert report.dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_torch(dtype):
    torch = pytest.importorskip("torch", reason="PyTorch's tensors are what is tried")

    def apply(x, p, base=10000.0, kind=torch.float32):
        w = 1.0 / base ** (torch.arange(0, DIM, 2, dtype=torch.float32) / DIM)
        angle = p.to(kind)[..., None] * w.to(kind)
        angle = angle[:, None] if angle.ndim == 3 else angle
        cos, sin = angle.float().cos(), angle.float().sin()
        x1, x2 = x.float().chunk(2, dim=-1)
        return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1).to(x.dtype)

    report = check(apply, HALF, "apply", backend="torch", dtype=dtype)
    assert report.passed, report
    wrong = check(lambda x, p: apply(x, p, base=1e6), HALF, "apply", backend="torch", dtype=dtype)
    assert wrong.codes == ["base"]
    coarse = check(
        lambda x, p: apply(x, p, kind=torch.bfloat16), HALF, "apply", backend="torch", dtype=dtype
    )
    assert coarse.codes == ["angle-precision"], coarse


@pytest.mark.parametrize("layout", TENSOR_LAYOUTS)
def test_tensor_layouts(layout):
    def apply(x, p):
        p = np.asarray(p)
        if layout == "bhsd":
            return RIGHT(x, p)
        if layout == "bshd":
            return RIGHT(x.swapaxes(1, 2), p).swapaxes(1, 2)
        if layout == "sbhd":
            return RIGHT(x.transpose(1, 2, 0, 3), p).transpose(2, 0, 1, 3)
        if layout == "thd":
            return RIGHT(x.swapaxes(0, 1), p).swapaxes(0, 1)
        if layout == "t(hd)":
            return (
                RIGHT(x.reshape(len(x), -1, DIM).swapaxes(0, 1), p).swapaxes(0, 1).reshape(x.shape)
            )
        y = RIGHT(x.reshape(*x.shape[:2], x.shape[2] // DIM, DIM).swapaxes(1, 2), p)
        return y.swapaxes(1, 2).reshape(x.shape)

    report = check(apply, HALF, "apply", tensor_layout=layout)
    assert report.passed, report
    wrong = {
        other: check(apply, HALF, "apply", tensor_layout=other)
        for other in TENSOR_LAYOUTS
        # With positions (S,), what exchanges the first two axes and back is right for both, and
        # what makes heads of flat channels may be given heads.
        if other != layout
        and (layout, other) not in (("thd", "bhsd"), ("t(hd)", "thd"), ("t(hd)", "sbhd"))
    }
    for report in wrong.values():
        assert report.verdict == "deviates", report
    codes = {code for o, report in wrong.items() if o != "t(hd)" for code in report.codes}
    assert codes <= {"position-axis", "row-offset", "raises", "shape"}, wrong


def test_the_head_is_taken_for_the_position():
    def heads(x, p):
        return RIGHT(x.swapaxes(1, 2), np.arange(x.shape[1])).swapaxes(1, 2)

    found = finding(heads)
    assert found.code == "position-axis"
    assert "head index" in found.message


def test_inplace():
    def in_place(x, p):
        x[...] = RIGHT(x, p)
        return x

    assert finding(in_place).code == "mutates-input"
    assert check(in_place, HALF, "apply", inplace=True).passed
