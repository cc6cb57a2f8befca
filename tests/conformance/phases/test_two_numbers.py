"""Two mistakes in the numbers of frequencies: a base and its exponents, a scaling made twice."""

import numpy as np

from posenc_ref import MultiAxisRoPE, NTKScaling, RoPE
from posenc_ref.conformance import check


def test_a_base_and_a_denominator_that_give_the_same_frequencies():
    declared = MultiAxisRoPE(
        64, sections=[16, 8, 8], layout="interleaved", spacing="restart", base=256.0
    )
    own = np.concatenate([np.arange(n) for n in (16, 8, 8)])

    def fn(x, positions):
        w = 10000.0 ** (-own / 32)
        p = np.broadcast_to(positions, (3, x.shape[0], x.shape[2])).astype(np.float64)
        angle = p[np.repeat([0, 1, 2], [16, 8, 8])].transpose(1, 2, 0)[:, None] * w
        a, b, cos, sin = x[..., ::2], x[..., 1::2], np.cos(angle), np.sin(angle)
        y = np.stack([a * cos - b * sin, b * cos + a * sin], axis=-1)
        return y.reshape(x.shape).astype(x.dtype)

    found = check(fn, declared, "apply").findings
    assert [f.code for f in found] == ["base", "denominator"]
    assert found[0].message == "the base is 10000, declared 256"
    assert "is divided by the number of pairs of all axes, 32, not by its own" in found[1].message


def test_a_base_of_axes_of_one_size_is_named_with_a_published_one():
    declared = MultiAxisRoPE(32, sections=[8, 8], layout="half", spacing="restart", base=2000.0)
    fn = declared.replace(base=100.0).apply
    (found,) = check(fn, declared, "apply").findings
    assert found.code == "base"
    assert found.message.startswith("the base is 100, declared 2000; or it is 10000, and the ")
    assert found.message.endswith("divided by the number of pairs of all axes, 16, not by its own: "
                                  "the same frequencies")  # fmt: skip
    assert found.equivalent == ("denominator",)


def test_a_wrong_exponent_of_ntk_whose_positions_are_divided_as_well():
    declared, d = RoPE(32, layout="half", scaling=NTKScaling(4.0)), 32

    def fn(positions):
        base = 10000.0 * 4.0 ** ((d - 2) / d)
        angle = np.outer(np.asarray(positions, np.float64) / 4, base ** (-np.arange(16) / 16))
        return np.cos(angle), np.sin(angle)

    formula, scale = check(fn, declared, "cos_sin").findings
    assert formula.code == "scaling-formula"
    assert formula.message.endswith("the exponent is (d-2)/d, not d/(d-2)")
    assert scale.code == "position-scale"
    assert "is divided by the factor 4 once more" in scale.message
