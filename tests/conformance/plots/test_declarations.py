"""Pictures of attention, convolutions, rules of position ids and factors, computed a second way."""

import inspect
import math

import numpy as np
import pytest

import posenc_ref
from posenc_ref import (
    ALiBi,
    Attention,
    ConvPositions,
    MRoPEPositions,
    MultiAxisRoPE,
    QueryTemperature,
    RoPE,
)
from posenc_ref.conformance.functions.position_rules import kind_of
from posenc_ref.conformance.guide.names import encodings, others, rules, scalings
from posenc_ref.conformance.plots.declarations import examples, prompt
from posenc_ref.conformance.plots.encodings import pictures
from posenc_ref.conformance.registry import entries
from posenc_ref.encoding import Value

from .test_pictures import equal


def only(value, **settings):
    (picture,) = pictures(value, **settings)
    return picture


def test_every_public_declaration_can_be_drawn():
    public = [getattr(posenc_ref, name) for name in posenc_ref.__all__]
    declared = {
        c
        for c in public
        if inspect.isclass(c) and issubclass(c, Value) and "__dataclass_fields__" in vars(c)
    } - {posenc_ref.ModelEncoding}
    drawn = {entry.encoding for entry in entries()} | set(examples())
    # A scaling is drawn with the rotation that it scales.
    assert declared - set(scalings()) == drawn
    assert set(encodings()) | set(others()) == drawn


def test_weights_are_the_softmax_of_the_logits():
    rope = RoPE(8, layout="half")
    cells = only(Attention(rope, sinks=True, values="rotated"), length=6).cells
    frequency = 10000.0 ** (-np.arange(4) / 4)
    for i in range(6):
        logits = [2 * np.cos((i - j) * frequency).sum() / math.sqrt(8) for j in range(i + 1)]
        total = sum(map(math.exp, logits)) + 1.0
        assert equal(cells[i, : i + 1], [(x - math.log(total)) / math.log(10) for x in logits], 6.0)
        assert np.isnan(cells[i, i + 1 :]).all()


def test_weights_are_those_of_the_head_and_of_later_keys_too():
    cells = only(Attention(ALiBi(4), softmax_scale=0.5), length=5, head=2).cells
    exact = [[math.exp(-(2.0**-6) * (i - j)) for j in range(i + 1)] for i in range(5)]
    for i, row in enumerate(exact):
        assert equal(10.0 ** cells[i, : i + 1], np.array(row) / sum(row), 10.0)
    free = only(Attention(None, causal=False), length=4).cells
    assert equal(10.0**free, np.full((4, 4), 0.25), 10.0)
    grid = MultiAxisRoPE(12, layout="half", sections=(2, 2, 2))
    assert only(Attention(grid), length=3).cells.shape == (3, 3)
    with pytest.raises(ValueError, match="head must be from 0 to 3, got 4"):
        pictures(Attention(ALiBi(4)), head=4)


def test_the_border_is_where_taps_are_missing():
    weight = np.array([[[1.0, 2.0, 4.0, 8.0]], [[0.5, 0.5, 0.5, 0.5]]])
    conv = ConvPositions((weight,), (np.zeros(2),), groups=2, activation="none")
    # Tap k of 4 reads token t + k - 2.
    made = [[12.0, 1.0], [14.0, 1.5], *[[15.0, 2.0]] * 3, [7.0, 1.5]]
    wanted = np.array(made) - made[3]
    assert equal(only(conv, length=6).cells, wanted)
    square = ConvPositions(
        (np.ones((1, 1, 3, 3)),), (np.zeros(1),), activation="none", residual=True
    )
    assert equal(only(square, length=9).cells, [[-5, -3, -5], [-3, 0, -3], [-5, -3, -5]])


@pytest.mark.parametrize("cls", rules())
def test_positions_are_those_of_the_loop_over_tokens(cls):
    rule = examples()[cls]
    kind = kind_of(rule)
    wanted = kind.numbered(rule, kind.batch(rule, [prompt(rule)]))[:, 0]
    lines = only(rule).lines
    assert len(lines) == rule.num_axes
    for line, row in zip(lines, wanted, strict=True):
        assert line.x.tolist() == list(range(row.size))
        assert line.y.tolist() == row.tolist()


def test_the_rows_of_an_image_are_named_as_such():
    row = {line.label: line.y.tolist() for line in only(MRoPEPositions(videos=False)).lines}
    assert row["row"][6:30] == [6 + n // 6 for n in range(24)]
    assert row["column"][6:30] == [6 + n % 6 for n in range(24)]
    assert row["time"][6:30] == [6] * 24
    other = {line.label: line.y.tolist() for line in only(posenc_ref.XDRoPEPositions()).lines}
    assert other["row"][7:14] == [0] * 7
    assert other["column"][7:14] == list(range(7))


def test_a_factor_rises_where_its_formula_does():
    line = only(QueryTemperature(0.1, 4), length=9).lines[0]
    assert line.x.tolist() == list(range(9))
    assert equal(line.y, [1 + 0.1 * math.log(1 + p // 4) for p in range(9)])
