"""compare_recorded: two recordings, layer by layer, and the identity of one."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import compare_recorded, identify_recorded
from posenc_ref.conformance.recordings.identify import identify_part
from posenc_ref.conformance.recordings.shapes import Part
from tests.conformance.handwritten import inv_freq, rope

DIM = 32
P = np.arange(64)
RNG = np.random.default_rng(0)
Q = [RNG.standard_normal((1, 2, 64, DIM)).astype(np.float32) for _ in range(3)]


def save(path, functions, inputs=Q, positions=P):
    """Write a recording with one rotation for each layer."""
    tensors = {"positions": positions}
    for n, (apply, x) in enumerate(zip(functions, inputs, strict=True)):
        tensors |= {f"layers.{n}.q_before": x, f"layers.{n}.q_after": apply(x, positions)}
    np.savez(path, **tensors)
    return path


@pytest.fixture
def two(tmp_path):
    """Return a function that writes two recordings and compares them."""

    def compare(mine, other, **settings):
        a = save(tmp_path / "a.npz", mine, settings.pop("inputs", Q))
        return compare_recorded(a, save(tmp_path / "b.npz", other), **settings)

    return compare


RIGHT = [rope(base=5e5)] * 3


def test_equal_recordings_conform(two):
    report = two(RIGHT, RIGHT)
    assert report.verdict == "conforms"
    assert "base=500000.0" in report.encoding
    assert "(identified)" in report.encoding
    assert report.measured == "3 tensors in 3 layers compared, 0 rotated differently"


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"base": 1e4}, "base", "the base is 10000, declared 500000"),
        ({"base": 5e5, "layout": "interleaved"}, "layout", "interleaved, declared half"),
        ({"base": 5e5, "positions": lambda p: p + 1}, "position-origin", "one too large"),
        ({"base": 5e5, "after": lambda y, p: 2 * y}, "amplitude", "multiplied by 2"),
    ],
)
def test_the_first_layer_that_differs_is_named(two, changes, code, words):
    report = two([RIGHT[0], rope(**changes), rope(**changes)], RIGHT)
    assert report.codes == [code]
    assert words in report.findings[0].message
    assert "2 rotated differently: the first is layers.1 q: " in report.measured
    assert report.exit_code == 1


def test_other_inputs_are_no_difference_of_the_rotation(two):
    other = [Q[0], -Q[1], Q[2]]
    right = two(RIGHT, RIGHT, inputs=other)
    assert right.verdict == "conforms"
    assert any(text.startswith("layers.1 q: the inputs or") for text in right.limits)
    wrong = two([rope()] * 3, RIGHT, inputs=other)
    assert wrong.codes == ["base"]


def test_the_declared_encoding_is_used(two):
    declared = RoPE(DIM, layout="half", base=5e5)
    assert two([rope()] * 3, RIGHT, encoding=declared).codes == ["base"]
    assert two(RIGHT, RIGHT, encoding=declared).encoding.endswith("(declared)")


def test_a_mistake_of_the_other_recording_is_said(two):
    narrow = rope(frequencies=inv_freq(DIM).astype(np.float16).astype(np.float32))
    report = two([rope()] * 3, [narrow] * 3, encoding=RoPE(DIM, layout="half"))
    assert report.codes == ["angle-precision"]
    assert report.findings[0].message.startswith("in the other recording: ")


def test_an_unidentified_recording_is_compared_directly(two):
    shuffled = rope(frequencies=np.random.default_rng(3).permutation(inv_freq(DIM)))
    scrambled = lambda x, p: shuffled(x, p)[..., np.arange(DIM)[::-1]]  # noqa: E731
    assert two([scrambled] * 3, [scrambled] * 3).verdict == "conforms"
    report = two([rope()] * 3, [scrambled] * 3)
    assert report.codes == ["inaccurate"]
    assert any("is not identified" in text for text in report.limits)


def test_layers_of_one_recording_only_are_listed(tmp_path):
    a = save(tmp_path / "a.npz", RIGHT)
    b = save(tmp_path / "b.npz", RIGHT[:2], Q[:2])
    report = compare_recorded(a, b)
    assert report.verdict == "conforms"
    assert report.limits[-1] == f"{a}: layer layers.2 is not in the other recording"
    np.savez(tmp_path / "c.npz", **{"layers.7.q": Q[0], "layers.7.q_rot": Q[0],
                                    "layers.8.q": Q[0], "layers.8.q_rot": Q[0]})  # fmt: skip
    with pytest.raises(ValueError, match="no layer in common: 0, 1, 2 and 7, 8"):
        compare_recorded(a, tmp_path / "c.npz")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("apply", "fields"),
    [
        (rope(base=5e5), {"layout": "half", "base": 5e5}),
        (rope(layout="interleaved"), {"layout": "interleaved"}),
        (rope(positions=lambda p: -p), {"layout": "half", "sign": -1}),
    ],
)
def test_the_encoding_of_a_recording_is_identified(dtype, apply, fields):
    pytest.importorskip("ml_dtypes", reason="ml_dtypes brings bfloat16 to NumPy")
    x = Q[0].astype(dtype)
    y = apply(x, P)
    card = identify_part(Part("q", x.astype(float), y.astype(float), P[None]), dtype, "q")
    assert card.encoding == RoPE(DIM, **fields)


def test_what_cannot_be_identified_is_said():
    x, flat = Q[0].astype(float), P[None] * 0 + 7
    card = identify_part(Part("q", x, rope()(Q[0], flat[0]).astype(float), flat), "float32", "q")
    assert card.unknown == ["the recorded positions do not determine the frequencies"]
    card = identify_part(Part("q", x, x, P[None]), "float32", "q")
    assert card.unknown == ["the tensors before and after are equal"]


def test_there_is_a_card_for_each_encoding(tmp_path):
    one, two = identify_recorded(save(tmp_path / "a.npz", [rope(), rope(base=5e5), rope()]))
    assert (one.encoding.base, two.encoding.base) == (1e4, 5e5)
    assert one.subject.endswith("a.npz: layers.0 q, layers.2 q")
    assert one.exact


def test_deviations_from_the_identified_encoding_are_listed(tmp_path):
    late = rope(positions=lambda p: p + 40)
    (card,) = identify_recorded(save(tmp_path / "a.npz", [late] * 3))
    assert card.encoding == RoPE(DIM, layout="half")
    assert [f.code for f in card.deviations] == ["position-origin"]
    assert not card.exact
