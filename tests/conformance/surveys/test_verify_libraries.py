"""`posenc verify --library`: every function of a library, in any of its releases."""

import random

import numpy as np
import pytest
from typer.testing import CliRunner

from posenc_ref import ALiBi
from posenc_ref.conformance import cli
from posenc_ref.conformance.adapters.library import LibraryFunction
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.surveys import show, verify
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.verify import Options, Verification

pytest.importorskip("torch", reason="libraries are judged through it")


def slopes(num_heads):
    n = 2 ** int(np.log2(num_heads))
    first = [2 ** (-8 * h / n) for h in range(1, n + 1)]
    then = [2 ** (-4 * h / n) for h in range(1, 2 * n + 1, 2)]
    return np.array([*first, *then][:num_heads])


def raises(num_heads):
    raise TypeError("slopes() takes no number of heads")


def half(num_heads):
    """Deviate: twice the slopes."""
    return 2 * slopes(num_heads)


def absent():
    raise ImportError("cannot import name 'slopes' from 'numpy'")


def function(label, call=slopes, build=None, **more):
    made = build or (lambda: Implementation(call, "slopes", "numpy", num_heads=8))
    return LibraryFunction(f"onnx {label}", "onnx", "a.py: slopes", made,
                           **{"expected": ALiBi(8)} | more)  # fmt: skip


def drawn():
    """Deviate by weights that PyTorch and Keras draw when the function is built."""
    import torch

    wrong = slopes(8) * (2 + torch.rand(8).numpy() + random.random())
    return Implementation(lambda num_heads: wrong[:num_heads], "slopes", "numpy", num_heads=8)


FUNCTIONS = (
    function("right", dtypes=("float32", "float64")),
    function("without dtypes"),
    function("wrong", half),
    function("another signature", raises),
    function("another release", build=absent),
    function("no encoding", expected=None, unknown="u", says="a table of its own"),
)


@pytest.fixture
def judge(monkeypatch):
    monkeypatch.setattr(verify, "functions", lambda: FUNCTIONS)
    monkeypatch.setattr(verify, "missing", dict)

    def run(*dtypes, only=None, libraries=("onnx",)):
        return verify.verify(Options(only=only, dtypes=dtypes, libraries=libraries))

    return run


def test_every_function_of_the_library_and_nothing_else(judge):
    found = judge("float32")
    assert {o.label: o.verdict for o in found.outcomes} == {
        "right": "conforms",
        "without dtypes": "conforms",
        "wrong": "deviates",
        "another signature": "undrivable",
        "another release": "undrivable",
        "no encoding": "gap",
    }
    assert {o.group for o in found.outcomes} == {"onnx"}
    assert {o.source for o in found.outcomes} == {"a.py: slopes"}
    reasons = {o.label: o.reason for o in found.outcomes if o.reason}
    assert reasons["another signature"].startswith("a required call raises: ")
    assert "TypeError: slopes() takes no number of heads" in reasons["another signature"]
    assert reasons["another release"] == (
        "cannot be built: ImportError: cannot import name 'slopes' from 'numpy'"
    )
    assert reasons["no encoding"] == "no encoding describes it: a table of its own"


def test_what_a_release_cannot_do_is_counted_and_is_no_failure(judge):
    found = judge("float32")
    assert found.exit_code == 0
    text = show.plain(found)
    assert "3 judged, 2 conforming, 1 deviating" in text
    assert "2 not drivable, 1 without an encoding" in text
    assert "Not drivable in this release:" in text
    nothing = judge("float32", only="another")
    assert (nothing.counts["undrivable"], nothing.exit_code) == (2, 3)  # nothing was judged


def test_without_the_option_only_functions_with_dtypes_are_judged(judge):
    found = judge("float32", only="onnx *", libraries=())
    assert [o.label for o in found.outcomes] == ["right"]
    assert "undrivable" not in found.counts  # as in files of earlier versions


def test_an_error_of_the_harness_is_still_an_error(monkeypatch, judge):
    monkeypatch.setattr(verify, "check", raises)
    found = judge("float32", only="right")
    assert (found.counts["error"], found.exit_code) == (1, 3)


def test_verdicts_of_libraries_are_counted_only_if_there_are_any():
    assert set(Verification([]).counts) == {
        "conforms", "deviates", "inconclusive", "error", "skipped"
    }  # fmt: skip


def test_the_command_names_the_libraries():
    result = CliRunner().invoke(cli.app, ["verify", "--library", "onxx"])
    assert result.exit_code == 2
    assert "--library must be one of transformers, x-transformers" in result.output


def test_random_weights_are_the_same_in_every_run():
    """The pages quote numbers of these functions, and a nightly run makes them again."""
    one, blank = function("random", build=drawn), Outcome("library", "onnx")
    first, again = (verify._judge_function(blank, one, "float32") for _ in range(2))
    assert first.accuracy.worst == again.accuracy.worst
