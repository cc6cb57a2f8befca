"""compare: rotations with and without a known encoding, right and wrong, in both roles."""

import io
from contextlib import redirect_stdout

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.accuracy import VISIBLE
from posenc_ref.conformance import Implementation, compare
from tests.conformance.compare.rotations import (
    DIM,
    LEARNED,
    OTHER,
    SPREAD,
    backwards,
    clamped,
    learned,
    moved,
    result,
)
from tests.conformance.handwritten import rope
from tests.night import by_day

SAME = {
    "a known encoding": rope,
    "learned frequencies": learned,
    "irregular pairs": lambda: moved(learned()),
    "clamped positions": lambda: clamped(500),
    "no rotation at all": lambda: lambda x, p: np.tanh(x),
}


@pytest.mark.parametrize("name", by_day(SAME, ("irregular pairs", "no rotation at all")))
def test_equal_functions_agree_even_if_both_are_wrong(name):
    make = SAME[name]
    found = result(make(), make())
    assert found.verdict == "conforms", str(found)
    assert found.agreement == "tensors agree"
    assert found.exit_code == 0
    assert not found.differs
    assert not found.conversion
    assert "bit for bit" in found.result


ONE_OFF = LEARNED * np.where(np.arange(DIM // 2) == 3, 1.001, 1.0)
WRONG = {
    "layout": (
        rope(layout="interleaved"), rope(), ["layout"], "layout: interleaved, declared half",
    ),
    "base": (rope(base=500000.0), rope(), ["base"], "base: 500000.0, declared 10000.0"),
    "both": (
        rope(layout="interleaved", base=500000.0), rope(), ["layout", "base"],
        "layout: interleaved, declared half",
    ),
    "sign": (rope(block=backwards), rope(), ["sign"], "sign: -1, declared 1"),
    "learned, one frequency": (
        learned(frequencies=ONE_OFF), learned(), ["frequency-spacing"],
        "frequencies: 1 of 8 differ",
    ),
    "learned, layout": (
        learned("interleaved"), learned(), ["layout"], "layout: interleaved, declared half",
    ),
    "learned, factor": (learned(after=lambda y, p: 1.25 * y), learned(), ["attention-factor"], ""),
    "irregular pairs": (learned(), moved(learned()), ["layout"], "pairs: 8 half-split"),
    "other irregular pairs": (
        moved(learned(), OTHER), moved(learned()), ["layout"], "",
    ),
    "irregular pairs, one frequency": (
        moved(learned(frequencies=ONE_OFF)), moved(learned()), ["frequency-spacing"],
        "counted from the fastest",
    ),
    "nothing is rotated": (lambda x, p: x.copy(), rope(), ["frequency-spacing"], ""),
    "only B is clamped": (rope(), clamped(500), ["position-range"], ""),
    "both are clamped": (clamped(600), clamped(500), ["position-range"], ""),
    "no rotation": (rope(), lambda x, p: np.tanh(x), ["inaccurate"], ""),
}  # fmt: skip


DAY = ("both", "learned, one frequency", "irregular pairs", "no rotation")


@pytest.mark.parametrize("name", by_day(WRONG, DAY))
def test_a_wrong_function_is_named(name):
    a, b, codes, words = WRONG[name]
    found = result(a, b)
    assert found.verdict == "deviates"
    assert found.exit_code == 1
    assert found.codes == codes, str(found)
    assert found.agreement == "tensors differ"
    assert any(text.startswith(words) or words in text for text in found.differs) or not words
    assert "visibly" in found.result
    for code in (f.reproduce for f in found.findings if "declared(" in f.reproduce):
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(code, {"fn": a, "declared": b})
        said = code.rpartition("#")[2].split()
        assert [f"{float(text):.6g}" for text in printed.getvalue().split()] == [
            f"{float(text):.6g}" for text in said
        ]


def test_the_declaration_is_b_not_the_truth():
    """A right function deviates from a clamped one; the finding says which one is clamped."""
    (finding,) = result(rope(), clamped(500)).findings
    assert "B deviates from RoPE(16, layout='half'), but A does not" in finding.message
    assert "clamped to at most 500" in finding.message
    assert finding.remedy.startswith("Mend B")


def test_the_results_of_b_are_declared_not_its_configuration():
    said = Implementation(rope(), "apply", "B", encoding=RoPE(DIM, layout="interleaved"))
    assert compare(rope(), said, head_dim=DIM, max_position=2**10).agreement == "tensors agree"
    assert compare(rope(layout="interleaved"), said, head_dim=DIM, max_position=2**10).codes == [
        "layout"
    ]


FOLLOWED = {
    "layout": (rope(layout="interleaved"), rope()),
    "irregular": (learned(), moved(learned())),
    "factor": (learned(after=lambda y, p: 1.25 * y), learned()),
    "output": (rope(after=lambda y, p: y[..., SPREAD]), rope()),
    "sign": (learned(block=backwards), learned()),
}


@pytest.mark.parametrize("name", by_day(FOLLOWED, ("irregular",)))
def test_who_follows_the_conversion_gets_the_tensors_of_b(name):
    a, b = FOLLOWED[name]
    scope = {"fn": a}
    exec(result(a, b).converted, scope)
    x = np.random.default_rng(7).normal(size=(2, 3, 40, DIM)).astype(np.float32)
    at = np.arange(40)
    assert np.abs(scope["converted"](x, at) - b(x, at)).max() < VISIBLE
    assert np.abs(a(x, at) - b(x, at)).max() > 0.1


def test_a_base_cannot_be_converted_and_the_step_says_all_that_differs():
    found = result(rope(layout="interleaved", base=500000.0), rope())
    assert found.conversion[0].startswith("cannot be converted")
    assert "build the function with layout=half, base=10000.0" in found.conversion[1]
    assert not found.converted


def test_roundings_that_become_visible_are_mentioned():
    """float32 angles against float64 angles: within the tolerance, but visible far out."""

    def precise(x, p):
        angle = np.asarray(p, np.float64)[..., None] * 10000.0 ** (
            -np.arange(DIM // 2) / (DIM // 2)
        )
        angle = angle if np.ndim(p) == 1 else angle[:, None]
        x1, x2 = np.split(x, 2, axis=-1)
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).astype(x.dtype)

    found = compare(rope(), precise, "apply", head_dim=DIM, names=("A", "B"))
    assert found.verdict == "conforms"
    assert found.agreement == "tensors agree"
    assert "within the tolerance" in found.result
    assert f"first no later than at position {found.difference.first}" in found.result
    assert "angles: float32 angles, declared float64 angles" in found.differs


def test_positions_that_one_function_refuses_are_limits():
    def short(x, p):
        if np.max(p, initial=0) >= 300:
            raise IndexError("the table has 300 rows")
        return rope()(x, p)

    found = result(short, rope())
    assert found.passed
    assert any("past 299 are refused" in text for text in found.limits)
    other = result(rope(), short)
    assert other.passed
    assert any(text.startswith("B: positions past 299") for text in other.limits)


@pytest.mark.nightly
def test_calls_from_position_zero_only():
    def prefix(x, p):
        if p[0] or p.ndim > 1 or (np.diff(p) != 1).any():
            raise ValueError("positions must be 0, 1, 2, ...")
        return rope()(x, p)

    assert result(prefix, rope()).agreement == "tensors agree"
    assert result(rope(base=500000.0), prefix).codes == ["base"]


@pytest.mark.nightly
def test_the_size_of_a_head_is_found():
    def only(size):
        def fn(x, p):
            if x.shape[-1] != size:
                raise ValueError(f"head_dim must be {size}")
            return rope()(x, p)

        return fn

    assert compare(only(16), rope(), max_position=128).passed
    found = compare(rope(), rope(), max_position=128)
    assert found.limits[0].startswith("head_dim 64 is compared; both functions also accept 128, 32")
    with pytest.raises(ValueError, match=r"accept none of 8, 16, .* in common"):
        compare(only(80), only(64))


def test_what_cannot_be_compared():
    with pytest.raises(TypeError, match="must be callable, got int"):
        compare(rope(), 3)
    with pytest.raises(ValueError, match=r"surface must be one of .*, got 'appply'"):
        compare(rope(), rope(), "appply")
    table = Implementation(lambda p: p, "table", "t")
    with pytest.raises(ValueError, match="got 'apply' for the first and 'table' for the second"):
        compare(rope(), table)
    with pytest.raises(ValueError, match="B cannot serve as the declaration"):
        result(rope(), lambda x, p: x[..., 1:])
    noise = np.random.default_rng(8)
    with pytest.raises(ValueError, match=r"a repeated call .* returns other values"):
        result(rope(), lambda x, p: x + noise.normal())


def test_a_function_that_fails_deviates():
    def fails(x, p):
        raise RuntimeError("broken")

    found = result(fails, rope())
    assert found.verdict == "deviates"
    assert found.codes == ["raises"]
    narrow = result(lambda x, p: x[..., 1:], rope())
    assert narrow.codes == ["shape"]


@pytest.mark.nightly
def test_half_precision():
    assert result(rope(), rope(), dtype="bfloat16").passed
    assert result(rope(layout="interleaved"), rope(), dtype="bfloat16").codes == ["layout"]


def test_json_has_the_result():
    import json

    data = json.loads(result(rope(base=500000.0), rope()).to_json())
    assert data["verdict"] == "deviates"
    assert data["agreement"] == "tensors differ"
    assert data["difference"]["first"] == 1
    assert list(data["difference"]["errors"]) == ["4096"]
    assert data["differs"] == ["base: 500000.0, declared 10000.0"]
