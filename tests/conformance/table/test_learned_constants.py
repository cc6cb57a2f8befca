"""Learned constants, lengths and coarse coordinates that are wrong, each with its name."""

import numpy as np
import pytest

from posenc_ref import (
    BoxSine,
    ConViTBias,
    ESPnetLegacy,
    FourierFeatures,
    GatedBias,
    Hybrid,
    Learned,
    Sandwich,
    Sinusoidal,
    T5Bias,
)
from posenc_ref.conformance import check

HEADS, D, WIDTH = 3, 8, 6


def numbers(*shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


GATED = GatedBias(
    T5Bias(numbers(8, HEADS, seed=1), num_buckets=8, max_distance=16),
    numbers(2, D, seed=2), numbers(2, seed=3), numbers(HEADS, seed=4),
)  # fmt: skip
ESPNET = ESPnetLegacy(
    numbers(HEADS, D, WIDTH, seed=5), numbers(HEADS, D, seed=6), numbers(HEADS, D, seed=7),
    sinusoid=Sinusoidal(WIDTH), max_len=5000,
)  # fmt: skip
CONVIT = ConViTBias(
    numbers(HEADS, 3, seed=8), numbers(HEADS, seed=9), numbers(HEADS, seed=10), window=(3, 4)
)


def logits(encoding):
    def fn(q, k):
        n_q, n_k = q.shape[2], k.shape[2]
        return encoding.scores(q, k, np.arange(n_k - n_q, n_k), np.arange(n_k)).astype(np.float32)

    return fn


def said(fn, encoding, surface):
    """The code and the words of the one finding; an empty string where the function passes."""
    report = check(fn, encoding, surface)
    assert report.passed == (not report.codes), report
    assert len(report.findings) <= 1, report
    return "".join(f"{f.code}: {f.message}" for f in report.findings)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"scale": np.ones(HEADS, np.float32)}, "score-term: the learned factor on the second"),
        (
            {"linear_bias": np.zeros(2, np.float32)},
            "score-term: linear_bias, the learned constants",
        ),
    ],
    ids=["right", "factor", "constants"],
)
def test_gates_without_what_was_learned(changes, words):
    found = said(logits(GATED.replace(**changes)), GATED, "scores")
    assert found.startswith(words)
    assert bool(found) == bool(words)


@pytest.mark.parametrize("rows", [1, 777, 1024, 4999, 5001, 20000])
def test_the_length_of_espnets_table_is_measured(rows):
    found = "no more rows than the sequence has tokens" if rows == 1 else f"{rows} rows"
    expected = f"the table has {found}"
    words = said(logits(ESPNET.replace(max_len=rows)), ESPNET, "scores")
    assert words.startswith("position-origin: ")
    assert expected in words
    assert words.endswith("declared 5000")


def test_a_table_longer_than_any_utterance_is_the_declared_one():
    declared = ESPNET.replace(max_len=1)
    assert said(logits(declared), declared, "scores") == ""
    assert said(logits(ESPNET), ESPNET, "scores") == ""


def by_window(encoding):
    return lambda q_len, k_len: encoding.bias(range(k_len - q_len, k_len), range(k_len)).astype(
        np.float32
    )


@pytest.mark.nightly
def test_a_constant_that_no_softmax_sees_is_no_mistake():
    """ConViT's positions have a softmax of their own, which cancels the constant of a head."""
    harmless = (
        "harmless-convention: the values differ from the declared ones by a constant in each row, "
        "which softmax ignores"
    )
    bare = CONVIT.replace(proj_bias=np.zeros(HEADS, np.float32))
    assert said(by_window(bare), CONVIT, "bias") == harmless
    by_row = np.float32(np.arange(12)[:, None])
    assert said(lambda q, k: by_window(CONVIT)(q, k) + by_row, CONVIT, "bias") == harmless
    by_key = np.float32(np.arange(12) == 5)
    assert said(lambda q, k: by_window(CONVIT)(q, k) + by_key, CONVIT, "bias") != ""
    sandwich = Sandwich(32, 4)  # as it is with another bias whose rows have a constant
    assert (
        said(lambda q, k: by_window(sandwich)(q, k) + np.float32(3), sandwich, "bias") == harmless
    )


@pytest.mark.parametrize("rounded", ["coordinates", "product", "both", "rows", ""])
@pytest.mark.parametrize("axes", ["xywh", "xy"])
def test_boxes_in_half_precision(axes, rounded):
    """What float16 coordinates give, with a float32 factor or a Python number, and float16 rows."""
    encoding = BoxSine(16, axes=axes, axis_order=axes)
    width = encoding.dim // len(axes)
    temperature = np.float32(10000) ** (2 * np.arange(width // 2, dtype=np.float32) / width)

    def cut(x, where):
        return x.astype(np.float16).astype(np.float32) if rounded in where else x

    def table(boxes):
        c = cut(np.asarray(boxes, np.float32), ("coordinates", "both"))
        angle = cut(c * np.float32(encoding.scale), ("product", "both"))[..., None] / temperature
        rows = np.stack([np.sin(angle), np.cos(angle)], axis=-1)
        return cut(np.concatenate(rows.reshape(len(axes), -1, width), axis=-1), ("rows",))

    words = {
        "coordinates": "position-precision: positions are rounded to float16",
        "product": "position-precision: coordinates multiplied by 6.283 are rounded to float16",
        "both": "position-precision: coordinates are rounded to float16, and again when",
        "rows": "table-precision: rows of a float32 result are rounded to float16",
        "": "",
    }
    found = said(table, encoding, "table")
    assert found.startswith(words[rounded])
    assert bool(found) == bool(rounded)


def test_the_scale_of_boxes_is_named_whatever_it_is():
    encoding = BoxSine(16, scale=20.0)

    def rows(other):
        return said(
            lambda p: encoding.replace(**other).table(p).astype(np.float32), encoding, "table"
        )

    assert rows({}) == ""
    assert rows({"scale": 1.0}) == "position-scale: coordinates are multiplied by 1, declared 20"
    assert rows({"scale": 2 * np.pi}).endswith("multiplied by 2 pi, declared 20")


@pytest.mark.parametrize("columns", [64, 128])
def test_boxes_with_the_divisor_of_another_width(columns):
    encoding = BoxSine(64)
    wrong = encoding.replace(base=encoding.base ** (16 / columns))
    found = said(lambda p: wrong.table(p).astype(np.float32), encoding, "table")
    assert found.startswith(f"denominator: the exponent is divided by {columns}") == (
        columns == 128
    )


@pytest.mark.parametrize(("by", "words"), [(2.0, "twice"), (0.5, "half")])
def test_octaves_that_end_elsewhere(by, words):
    encoding = FourierFeatures.nerf(8, include_input=False)
    octaves = np.geomspace(1, by * 2**7, 8)
    wrong = encoding.replace(matrix=np.concatenate([w * np.eye(3) for w in octaves]))
    assert said(lambda p: wrong.table(p).astype(np.float32), encoding, "table") == (
        f"exponent: the frequencies of the bands are spaced geometrically, and end at {words} the "
        "last"
    )


def test_a_part_without_its_first_row():
    encoding = Hybrid((Learned(numbers(64, 16, seed=12)), Sinusoidal(16)))

    def table(p):
        first, second = (part.table(p) for part in encoding.parts)
        second[np.asarray(p) == 0] = 0
        return (first + second).astype(np.float32)

    assert said(table, encoding, "table") == "wrong-row: the encoding parts[1] is 0 at position 0"


def test_coarse_positions_of_other_tables():
    encoding = FourierFeatures(numbers(4, 2, seed=11), unit="turn")

    def table(p):
        return encoding.table(np.asarray(p).astype(np.float16).astype(np.float32)).astype(
            np.float32
        )

    assert said(table, encoding, "table") == (
        "position-precision: positions are rounded to float16"
    )


def test_a_row_of_zeros_for_padding():
    weight = numbers(40, 6, seed=13)
    zeroed = np.where(np.arange(40)[:, None] == 1, 0, weight)
    assert said(lambda p: zeroed[p], Learned(weight, padding_idx=1), "table") == (
        "wrong-row: zeros are returned for position 1; all other rows are right"
    )


def test_a_shift_past_the_end_of_a_table_is_named_though_calls_raise():
    declared = Learned(weight=numbers(40, WIDTH, seed=9), offset=2)
    (finding,) = check(lambda p: declared.weight[p + 4], declared, "table").findings
    assert finding.message == "rows are shifted by 4, declared 2"


def test_right_rows_that_end_too_early():
    declared = Learned(weight=numbers(40, WIDTH, seed=9), offset=2)
    (finding,) = check(lambda p: declared.weight[:30][p + 2], declared, "table").findings
    assert finding.code == "raises"
    assert finding.message.startswith("positions past 27 raise an exception")
