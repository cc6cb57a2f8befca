"""A recording with a tensor that cannot be judged does not conform."""

import numpy as np
import pytest

from posenc_ref import ModelEncoding, RoPE, XPos
from posenc_ref.conformance import check_recorded, check_recorded_file, compare_recorded
from tests.conformance.handwritten import inv_freq, rope

DIM = 16
HALF = RoPE(DIM, layout="half")
P = np.arange(30)
X = np.random.default_rng(0).standard_normal((1, 2, 30, DIM)).astype(np.float32)
Y = rope()(X, P)
ONE = X[:, :, :1]


def of_file(folder, encoding=HALF, **tensors):
    np.savez(folder / "r.npz", **{name.replace("__", "."): t for name, t in tensors.items()})
    return check_recorded_file(folder / "r.npz", encoding)


def layer(n, x=X, y=Y, tensor="q"):
    return {f"layers__{n}__{tensor}_before": x, f"layers__{n}__{tensor}_after": y}


@pytest.mark.parametrize("after", [Y, np.where(P[:, None] == 7, Y, 0)])
def test_a_result_that_is_not_0_for_zeros_is_an_error(after):
    report = check_recorded({"q": X, "k": 0 * X}, {"q": Y, "k": after}, P, HALF)
    assert report.codes == ["not-a-rotation"]
    assert report.findings[0].message == "k is 0 before the rotation and not 0 after it"
    assert report.measured == "k: nothing; 1 of 2 tensors deviate"


@pytest.mark.parametrize(("before", "after"), [(0 * X, 0 * X), (np.nan * X, Y), (np.inf * X, Y)])
def test_one_tensor_that_cannot_be_judged(before, after):
    report = check_recorded({"q": X, "k": before}, {"q": Y, "k": after}, P, HALF)
    assert (report.verdict, report.exit_code) == ("inconclusive", 3)
    assert report.missing == ["values of k"]
    assert str(report).count("can be judged") == 1
    assert report.executed == {"values": 1}
    assert "k: every input is 0 or not finite: nothing can be judged" in report.limits
    wrong = check_recorded({"q": X, "k": before}, {"q": X, "k": after}, P, HALF)
    assert wrong.verdict == "deviates"


def test_nothing_could_be_judged_at_all():
    report = check_recorded({"q": 0 * X, "k": 0 * X}, {"q": 0 * X, "k": 0 * X}, P, HALF)
    assert report.missing == ["values"]
    assert len(report.limits) == 1


def test_tables_of_xpos_are_not_judged(tmp_path):
    angle = P[:, None] * inv_freq(DIM)
    encoding = XPos(DIM, layout="half", scale_base=512)
    y = encoding.apply_queries(X, P)
    tables = {"cos": np.cos(angle), "sin": np.sin(angle)}
    report = of_file(tmp_path, encoding, q_before=X, q_after=y, positions=P, **tables)
    assert report.missing == ["values of cos and sin"]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"layers__1__k_after": Y},
         "layers.1.k_after (k after) was recorded without k before: not judged"),
        ({"layers__1__k_before": X},
         "layers.1.k_before (k before) was recorded without k after: not judged"),
        ({"layers__2__q_before": X},
         "layers.2.q_before (q before) was recorded without q after: not judged"),
        ({"k_rot": Y}, "k_rot (k after) was recorded without k before: not judged"),
        ({"layers__0__cos": X[0, 0]},
         "layers.0.cos (cos) was recorded without sin: not judged"),
    ],
)  # fmt: skip
def test_a_tensor_without_its_counterpart_is_named(tmp_path, extra, words):
    report = of_file(tmp_path, **layer(0), **layer(1), positions=P, **extra)
    assert (report.verdict, report.exit_code) == ("inconclusive", 3)
    name = words.split()[0]
    assert report.missing == [f"values of {name}"]
    assert words in report.limits
    assert "only q was recorded:" not in str(report)
    path = tmp_path / "r.npz"
    both = compare_recorded(path, path)
    assert both.verdict == "inconclusive"
    assert f"{path}: {words}" in both.limits


def test_other_tensors_are_not_taken_for_recorded_ones(tmp_path):
    other = {
        "x": X[0, 0],
        "cu_seqlens_q": P,
        "layers__0__q_scale": np.ones((2, 2)),
        "layers__0__v_after": X,
    }
    assert of_file(tmp_path, **layer(0), **layer(1), positions=P, **other).verdict == "conforms"
    alone = {"q_before": X, "q_after": Y, "positions": P, "x": X, "k": np.float32(50)}
    assert of_file(tmp_path, **alone).verdict == "conforms"


def test_a_layer_without_rotation_needs_no_counterpart(tmp_path):
    model = ModelEncoding("m", encodings={"r": HALF, "n": None}, layer_types=("r", "n"))
    tensors = layer(0) | {"layers__1__q_before": X}
    assert of_file(tmp_path, model, **tensors, positions=P).verdict == "conforms"
    with pytest.raises(ValueError, match="none of the recorded layers rotates"):
        of_file(tmp_path, model, **layer(1))


@pytest.mark.parametrize("at", [1, 100, 5000])
def test_one_token_at_an_unknown_position(at):
    y = rope()(ONE, np.array([at]))
    report = check_recorded(ONE, y, None, HALF)
    assert (report.verdict, report.exit_code) == ("inconclusive", 3)
    (text,) = (text for text in report.limits if "position" in text)
    assert text == (
        "no positions were recorded, and the position of a single token is not known: nothing can "
        "be judged; record positions"
    )
    both = check_recorded({"q": ONE, "k": ONE}, {"q": y, "k": y}, None, HALF)
    assert both.missing == ["values"]
    assert "accuracy  not measured" in str(both)
    assert check_recorded(ONE, y, at, HALF).verdict == "conforms"
    assert check_recorded(ONE, y, at + 1, HALF).verdict == "deviates"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda x: rope(layout="interleaved")(x, np.array([100])), "layout"),
        (lambda x: 2 * rope()(x, np.array([100])), "amplitude"),
        (lambda x: rope()(x, np.array([100])) + 1, "not-a-rotation"),
        (lambda x: np.nan * x, "nonfinite"),
    ],
)
def test_one_token_shows_what_no_position_explains(change, code):
    assert check_recorded(ONE, change(ONE), None, HALF).codes == [code]


def test_one_row_of_tables_at_an_unknown_position(tmp_path):
    angle = 100 * inv_freq(DIM)[None]
    report = of_file(tmp_path, cos=np.cos(angle), sin=np.sin(angle))
    assert report.verdict == "inconclusive"
    assert "cos has one row, but no position" in report.limits[-1]


def test_position_0_shows_no_frequency():
    report = check_recorded(X, rope()(X, P * 0 + 1), P * 0, HALF)
    assert report.verdict == "deviates"
    assert "every token has position 0: frequencies are not judged" in report.limits
    assert "2 pi / 0" not in str(report)


def test_a_copy_of_many_tokens_is_not_taken_for_one_token():
    assert check_recorded(X, X, None, HALF).codes == ["frequency-spacing"]
    assert check_recorded(X, -X, None, HALF).verdict == "deviates"
    few = X[:, :, :2].transpose(0, 2, 1, 3)[:, :1]  # (B, S, H, D) of one token
    y = rope()(few, np.array([9]))
    assert check_recorded(few, y, None, HALF).verdict == "inconclusive"


def test_two_tokens_of_one_head_are_not_taken_for_one_token():
    x = X[:, :1, :2]
    write = lambda t: t.transpose(0, 2, 1, 3)  # noqa: E731
    right, wrong = (rope(base=base)(x, P[:2]) for base in (1e4, 5e5))
    assert check_recorded(write(x), write(right), None, HALF).verdict == "conforms"
    assert check_recorded(write(x), write(wrong), None, HALF).codes == ["base"]
    many = rope(base=5e5)(X, P)  # (1, S, H, D) is also one token of S rows
    assert check_recorded(write(X), write(many), None, HALF).codes == ["base"]


def test_one_token_of_each_row():
    rows = np.random.default_rng(1).standard_normal((3, 4, 1, DIM)).astype(np.float32)
    y = np.concatenate(
        [rope()(row[None], np.array([n])) for row, n in zip(rows, (1, 90, 400), strict=True)]
    )
    assert check_recorded(rows, y, None, HALF).verdict == "inconclusive"
    assert check_recorded(rows, y, np.array([[1], [90], [400]]), HALF).verdict == "conforms"


def test_an_error_is_not_listed_as_unjudged():
    report = check_recorded({"q": X, "k": X}, {"q": Y, "k": Y * np.nan}, P, HALF)
    assert (report.codes, report.missing) == (["nonfinite"], [])
