"""posenc compare: exit codes, what it prints, and what it says to mistaken users."""

import json

import pytest
from typer.testing import CliRunner

from posenc_ref.conformance import cli

HALF, PAIRS = "examples/my_rope.py:apply", "examples/my_rope.py:neighbours"
LEARNED, PORT = "examples/learned_rope.py:original", "examples/learned_rope.py:port"
OTHER = "examples/learned_rope.py:side_by_side"
NEAR = ("--max-position", "2048", "--head-dim", "16")


def run(*args):
    return CliRunner().invoke(cli.app, ["compare", *args])


@pytest.mark.parametrize(
    ("a", "b", "code", "end"),
    [
        (HALF, HALF, 0, "tensors agree (bit for bit"),
        (LEARNED, LEARNED, 0, "tensors agree (bit for bit"),
        (OTHER, LEARNED, 0, "tensors differ, logits agree"),
        (PORT, LEARNED, 1, "tensors differ, visibly"),
    ],
)
def test_the_exit_code_and_the_result(a, b, code, end):
    got = run(a, b, *NEAR)
    assert got.exit_code == code, got.output
    (line,) = [line for line in got.stdout.splitlines() if line.startswith("result")]
    assert line.removeprefix("result    ").startswith(end)
    assert f"declared  {b}, which is RoPE(16, layout='half'" in got.stdout


def test_the_result_comes_last_but_for_the_conversion():
    lines = run(PAIRS, HALF, *NEAR).stdout.splitlines()
    at = [line.partition(" ")[0] for line in lines]
    assert set(at[at.index("result") :]) == {"result", "convert", ""}
    assert lines[0] == f"DEVIATES  {PAIRS}  (apply, numpy, float32)"
    assert "differs   layout: interleaved, declared half" in lines


def test_json():
    got = run(PORT, LEARNED, *NEAR, "--json")
    assert got.exit_code == 1
    data = json.loads(got.stdout)
    assert data["verdict"] == "deviates"
    # The fastest wrong pair is off by 3e-4 rad per position, and |x| is between 2/3 and sqrt(2).
    assert 4 <= data["difference"]["first"] <= 10
    assert [(f["code"], f["message"]) for f in data["findings"]] == [
        ("angle-precision", "frequencies are rounded to 3 decimals")
    ]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((HALF, "examples/my_rope.py:nothing"), "has no 'nothing'"),
        (
            (HALF, "examples/my_rope.py:angles"),
            "surface must be the same for both functions",
        ),
        ((HALF, HALF, "--surface", "aply"), "surface must be one of apply"),
        ((HALF, HALF, "--backend", "tf"), "backend must be one of numpy"),
        ((HALF, HALF, *("--backend", "numpy") * 3), "--backend may be given once or twice"),
        ((HALF, HALF, "--head-dim", "15"), "cannot serve as the declaration"),
        ((HALF, HALF, "--max-position", "3"), "max_position must be at least 128"),
    ],
)
def test_a_mistaken_user_learns_what_to_do(args, words):
    got = run(*args)
    assert got.exit_code == 2, got.output
    assert words in got.stderr
    assert "Traceback" not in got.output
