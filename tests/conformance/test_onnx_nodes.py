"""`check` rejects kernels that pass ONNX's own eight node tests of RotaryEmbedding."""

import re
from pathlib import Path

import pytest

import posenc_ref
from posenc_ref.conformance import check
from tests.mutants.rotary.onnx_kernels import WRONG, Kernel, applied, encoding
from tests.mutants.rotary.onnx_nodes import NODE_TESTS, passes, rotate
from tests.night import by_day

DOCUMENT = Path(__file__).parents[2] / "docs/generated/onnx-rotary-tests.md"
#: The first is ONNX's own; what is let through must not depend on it.
SEEDS = range(5)
RIGHT = [
    Kernel(name, lambda: rotate, "", True, **form)
    for name, form in {
        "half": {},
        "interleaved": {"interleaved": True},
        "partial": {"rotary_dim": 16},
        "merged": {"merged": True},
        "all at once": {"interleaved": True, "rotary_dim": 16, "merged": True},
    }.items()
]


def name_of(kernel):
    return kernel.name.replace(" ", "-")


def passed(kernel, seed):
    return sum(passes(kernel.make(), test, seed) for test in NODE_TESTS)


def judged(kernel):
    def make():
        return applied(kernel, kernel.make())

    return check(
        make(),
        posenc_ref.from_dict(encoding(kernel)),
        "apply",
        tensor_layout="bs(hd)" if kernel.merged else "bhsd",
        name=kernel.name,
        factory=make,
    )


#: A kernel each that is wrong in its positions, channels, state and special values.
DAY = {
    "Positions of the first call of a shape are used again",
    "every row of a batch gets the positions of the first",
    "interleaved is ignored where x has three axes",
    "sin and cos are exchanged",
    "NaN in x becomes 0",
    "x is written over with the result",
    "only the first 4 tokens are rotated",
}


@pytest.mark.parametrize("kernel", by_day(WRONG, [k for k in WRONG if k.name in DAY]), ids=name_of)
def test_check_rejects_what_the_node_tests_let_through(kernel):
    counts = {passed(kernel, seed) for seed in SEEDS}
    assert (min(counts) == len(NODE_TESTS)) == kernel.passes, counts
    report = judged(kernel)
    assert report.verdict == "deviates", report
    assert report.codes[0] == kernel.code, report


@pytest.mark.parametrize("kernel", RIGHT, ids=name_of)
def test_right_kernels_pass_both(kernel):
    assert {passed(kernel, seed) for seed in SEEDS} == {len(NODE_TESTS)}
    assert judged(kernel).verdict == "conforms"


def test_the_page_lists_every_kernel_and_its_result():
    rows = re.findall(
        r"^\| (.+?) \| (\d) of 8 \| `(.+)` \|$", DOCUMENT.read_text(encoding="utf-8"), re.M
    )
    listed = {name: int(count) for name, count, _ in rows}
    assert listed == {k.name: passed(k, SEEDS[0]) for k in WRONG}
    let_through = sum(k.passes for k in WRONG)
    text = f"{let_through} of the {len(WRONG)} wrong kernels"
    assert text in DOCUMENT.read_text(encoding="utf-8")
    assert {name: code for name, _, code in rows} == {k.name: k.code for k in WRONG}
