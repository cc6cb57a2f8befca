"""A rotation in a model whose own numbers are right: what feeds it is wrong, or is not there."""

import json

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from posenc_ref.conformance import cli
from posenc_ref.conformance.graphs.load import load_onnx
from tests.conformance.graphs.build import FLOAT, INT64, MICROSOFT, Graph, tables

DECLARED = json.dumps({"encoding": "RoPE", "head_dim": 8, "layout": "half"})


def model(x=("batch", 4, "tokens", 8), names=("q", "k"), again="", wait=()):
    """Rotations of the inputs ``names``; ``again`` rotates the first result a second time."""
    g = Graph()
    ids = g.input("position_ids", INT64, "batch", "tokens")
    stored = [g.store(t, n) for t, n in zip(tables(8, rows=600), ("c", "s"), strict=True)]
    made = []
    for name in names:
        y = g(
            "RotaryEmbedding", g.input(name, FLOAT, *x), ids, *stored, domain=MICROSOFT,
            name=f"layers.0.{name}_rotary",
        )  # fmt: skip
        made.append(y)
    if again:
        y = made[0]
        for operator, extra, settings in wait:
            y = g(operator, y, *extra, **settings)
        made[0] = g("RotaryEmbedding", y, ids, *stored, domain=MICROSOFT, name=again)
    return g.model(*made)


def found(made, folder):
    """Return the messages of what is wrong around the nodes, and the remarks."""
    onnx.save(made, folder / "model.onnx")
    sites = load_onnx(folder / "model.onnx").sites
    said = [remark for site in sites for remark in site.remarks]
    return [str(finding) for site in sites for finding in site.findings()], said


VIEWS = (
    ("Transpose", (), {"perm": [0, 2, 1, 3]}),
    ("Transpose", (), {"perm": [0, 2, 1, 3]}),
)
GROWN = (("Add", (np.float32(1),), {}),)


@pytest.mark.parametrize("wait", [(), VIEWS])
def test_a_second_rotation_is_an_error(wait, tmp_path):
    (wrong,), _ = found(model(again="second", wait=wait), tmp_path)
    assert "position-scale: x is rotated twice: second rotates what layers.0.q_rotary has" in wrong


def test_the_command_fails(tmp_path):
    onnx.save(model(names=("q",), again="second"), tmp_path / "model.onnx")
    words = ["check", str(tmp_path / "model.onnx"), "--in-process", "--encoding", DECLARED]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 1, done.output
    assert "only q is rotated in layer 0" in done.output


def test_a_rotation_of_another_tensor_is_no_second_one(tmp_path):
    assert found(model(again="second", wait=GROWN), tmp_path) == ([], [])


def test_the_axis_of_the_tokens_is_not_that_of_the_heads(tmp_path):
    wrong, _ = found(model(x=("batch", "tokens", 4, 8)), tmp_path)
    assert "axis 1 of x is named tokens, as that of the tokens in the positions" in wrong[0]
    assert found(model(x=("batch", 4, "others", 8)), tmp_path)[0] == []


@pytest.mark.parametrize("names", ["q", "k"])
def test_a_model_that_rotates_only_one_of_both_says_so(names, tmp_path):
    other = "qk".replace(names, "")
    text = f"only {names} is rotated in layer 0: no rotation of {other} was found"
    assert found(model(names=names), tmp_path) == ([], [text])
    assert found(model(), tmp_path) == ([], [])
    assert found(model(names=("one",)), tmp_path) == ([], [])
