"""identify of functions in half precision: positions, and results."""

import numpy as np
import pytest

from posenc_ref import ALiBi, RoPE, Sinusoidal, Sinusoidal2D
from posenc_ref.conformance import check, identify
from tests.conformance.handwritten import inv_freq, rope

W = inv_freq(8)


def angles(positions):
    """Return angles of positions in float16, which is infinite past 65519."""
    p = np.asarray(positions).astype(np.float16).astype(np.float32)
    return p[..., None] * W.astype(np.float32)


def table(positions):
    return np.concatenate([np.sin(angles(positions)), np.cos(angles(positions))], axis=-1)


def apply(x, positions):
    p = np.asarray(positions).astype(np.float16).astype(np.float32)
    return rope()(x, p)


@pytest.mark.parametrize(("fn", "surface", "size", "expected"), [
    (table, "table", {}, Sinusoidal(8, layout="concat")),
    pytest.param(
        apply, "apply", {"head_dim": 8}, RoPE(8, layout="half"), marks=pytest.mark.nightly
    ),
])  # fmt: skip
@np.errstate(all="ignore")
def test_float16_positions_are_found_where_results_are_finite(fn, surface, size, expected):
    card = identify(fn, surface, **size)
    assert card.encoding == expected, str(card)
    assert [f.code for f in card.deviations] == ["position-precision"], str(card)
    assert card.facts["finite"].startswith("at position 65519; at position 65520, ")
    assert np.isfinite(card.frequencies).all()
    assert "131072" not in card.facts.get("length", "")


@np.errstate(all="ignore")
def test_check_names_float16_positions_of_a_table():
    report = check(table, Sinusoidal(8, layout="concat"), "table")
    assert report.codes == ["position-precision"], str(report)


def half_grid(height, width):
    if (height, width) != (14, 14):
        raise ValueError("only 14 x 14")
    return Sinusoidal2D(64).grid(height, width).astype(np.float16)


@pytest.mark.parametrize(("fn", "surface", "expected"), [
    (half_grid, "grid", Sinusoidal2D(64)),
    (lambda n: ALiBi(n).slopes().astype(np.float16), "slopes", ALiBi(12)),
])  # fmt: skip
def test_a_result_in_half_precision_of_a_function_without_floating_input(fn, surface, expected):
    card = identify(fn, surface)
    assert card.encoding == expected
    assert card.exact, str(card)
    assert card.facts["precision"] == "results are float16"
    assert not card.deviations


def test_check_states_no_input_that_a_function_has_not():
    report = check(half_grid, Sinusoidal2D(64), "grid", accept_limits=True)
    found = [f.message for f in report.findings if f.code == "dtype"]
    assert found == ["declared float32, the result is float16"]
