"""`posenc verify`: what it judges, what it skips, and what its exit code means."""

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from contextlib import closing
from functools import partial

import numpy as np
import pytest

from posenc_ref import Shaw
from posenc_ref.backends import backend
from posenc_ref.conformance import registry
from posenc_ref.conformance.adapters import library
from posenc_ref.conformance.exact.recipe import Recipe, numbers
from posenc_ref.conformance.surveys import show, verify
from posenc_ref.conformance.surveys.own import judge_entry
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.verify import Options, Verification
from posenc_ref.conformance.surveys.worker import Worker


def judge(only=None, *dtypes, **settings):
    return verify.verify(Options(only=only, dtypes=dtypes), **settings)


def test_our_encodings_conform_on_numpy():
    found = judge("numpy *", "float32")
    assert [o.label for o in found.outcomes if o.verdict != "conforms"] == []
    assert {o.label for o in found.outcomes} == {*verify.LABELS, *verify.labels()}
    assert found.exit_code == 0
    assert all(o.executed for o in found.outcomes)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("placed", [False, True])
def test_queries_stand_at_the_end_of_the_keys_or_where_they_are_said_to(library, placed):
    inputs = {"q": numbers("decoded-q", 1, 2, 2, 8), "k": numbers("decoded-k", 1, 2, 5, 8)}
    if placed:
        inputs |= {"q_positions": np.array([1, 9]), "k_positions": np.array([0, 1, 4, 6, 9])}
    decoded = Recipe("decoded", "The last 2 of 5 tokens ask.", inputs)
    (shaw,) = (entry for entry in registry.entries() if entry.encoding is Shaw)
    entry = dataclasses.replace(
        shaw, examples={"shaw": shaw.examples["shaw"]}, inputs=lambda e: [decoded]
    )
    blank = Outcome("backend", library)
    found = judge_entry(entry, backend(library), "float32", None, blank, None)
    assert found.verdict == "conforms", found.messages


def test_a_deviation_of_our_own_exits_with_1(monkeypatch):
    honest = verify.own_surfaces

    def planted(*arguments):
        return [
            dataclasses.replace(own, fn=lambda x, p, fn=own.fn: -fn(x, p))
            if own.label == "RoPE half"
            else own
            for own in honest(*arguments)
        ]

    monkeypatch.setattr(verify, "own_surfaces", planted)
    found = judge("numpy rope", "float32")
    wrong = [o.label for o in found.outcomes if o.verdict == "deviates"]
    assert wrong == ["RoPE half"]
    assert found.exit_code == 1
    assert "posenc_ref itself: 1 FAILED" in show.summary(found)
    assert "DEVIATES" in str(show.own_table(found))


def test_a_deviation_of_somebody_else_is_only_reported():
    pytest.importorskip("rotary_embedding_torch", reason="the library that deviates")
    found = judge("rotary-embedding-torch *", "bfloat16")
    (outcome,) = found.outcomes
    assert outcome.verdict == "deviates"
    assert outcome.degrades_at == 257  # bfloat16 has 8 bits: 256 and 257 are one position
    assert "position-precision" in outcome.codes
    assert found.exit_code == 0
    assert "from position 257 on" in show.plain(found)


def test_an_error_of_the_harness_exits_with_2(monkeypatch):
    def broken(*arguments, **settings):
        raise RuntimeError("no arrays today")

    # In one check, and where the checks of a group are made.
    for name in ("check", "own_surfaces"):
        with monkeypatch.context() as patch:
            patch.setattr(verify, name, broken)
            found = judge("numpy learned float32")
        assert found.counts["error"] == 1
        assert found.exit_code == 2
        assert "RuntimeError: no arrays today" in show.plain(found)


def test_a_missing_backend_is_skipped_with_the_reason(monkeypatch):
    absent = dataclasses.replace(backend("cupy"), module="no_such_module")
    monkeypatch.setattr(verify, "backends", lambda: (backend("numpy"), absent))
    found = judge("learned float32")
    assert found.counts["skipped"] == 1
    assert found.counts["conforms"] == 1
    assert found.exit_code == 0
    text = show.plain(found)
    assert "cupy is not installed (No module named 'no_such_module'); pip install \"" in text
    assert "1 skipped" in text


def test_a_device_without_float64_is_skipped_in_float64():
    pytest.importorskip("array_api_strict", reason="it has a device without float64")
    found = judge("array_api_strict learned float64")
    assert [o.device for o in found.outcomes if o.verdict == "conforms"] == [
        "CPU_DEVICE",
        "device1",
    ]
    (outcome,) = [o for o in found.outcomes if o.verdict == "skipped"]
    assert outcome.reason == "no_float64 has no float64"


def test_missing_libraries_are_listed_with_what_to_install(monkeypatch):
    monkeypatch.setattr(library, "version", lambda distribution: None)
    assert library.missing() == library.LIBRARIES
    found = judge("*transformers*")
    assert {o.group for o in found.outcomes} == {"transformers", "x-transformers"}
    assert "pip install 'transformers>=5'" in show.plain(found)
    assert found.exit_code == 3  # nothing was judged


def test_what_takes_long_is_left_out_unless_asked_for(monkeypatch):
    monkeypatch.setattr(verify, "backends", lambda: (backend("dask"),))
    pytest.importorskip("dask", reason="the slow backend")
    quick = judge("dask learned float*")
    assert {o.dtype: o.verdict for o in quick.outcomes} == {
        "float32": "conforms",
        "float64": "skipped",
        "float16": "skipped",
    }
    (asked,) = judge("dask learned float16", "float16").outcomes
    assert asked.verdict == "conforms"


@pytest.mark.nightly
def test_processes_give_the_same_outcomes():
    seen = []
    here = judge("learned float32")
    there = judge(
        "learned float32", processes=2, progress=lambda name, done, n: seen.append((done, n))
    )
    strip = [[dataclasses.replace(o, seconds=0.0) for o in v.outcomes] for v in (here, there)]
    assert strip[0] == strip[1]
    assert seen[-1] == (seen[-1][1],) * 2


class Fatal(Options):
    """Options that end the process that reads them."""

    def __reduce__(self):
        return os._exit, (3,)


def test_a_process_that_dies_is_an_error_and_not_the_end():
    with closing(Worker(partial(verify.judge_group, options=Fatal()))) as worker:
        (reason,) = worker.outcomes("numpy")
    assert reason == "the process that judged it ended with exit code 3"
    outcome = verify.failed_group("numpy", reason)
    assert (outcome.verdict, outcome.kind, outcome.group) == ("error", "backend", "numpy")
    assert Verification([outcome]).exit_code == 2


@pytest.mark.nightly
@pytest.mark.skipif(
    importlib.util.find_spec("mpmath") is None, reason="the certificate needs mpmath"
)
def test_the_certificate_is_recomputed():
    found = judge("certificate")
    (outcome,) = found.outcomes
    assert (outcome.verdict, outcome.kind) == ("conforms", "certificate")
    assert outcome.executed > 100_000
    assert "agree with 50-digit formulas" in show.plain(found)


def test_outcomes_are_json():
    odd = Outcome("library", "x", worst=float("inf"), errors={4096: float("nan")})
    body = json.loads(json.dumps(odd.to_dict(), allow_nan=False))
    assert body["worst"] is None
    assert body["errors"] == {"4096": None}


NUMPY_ONLY = """
import sys

for name in {blocked!r}:
    sys.modules[name] = None
sys.argv = ["posenc", *{arguments!r}]
from posenc_ref.conformance.__main__ import main

main()
"""
OTHERS = ["typer", "rich", "click", "torch", "jax", "dask", "cupy", "array_api_strict", "ml_dtypes"]


def without_libraries(*blocked, arguments=()):
    code = NUMPY_ONLY.format(blocked=blocked, arguments=arguments)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.nightly
def test_where_there_is_nothing_but_numpy():
    run = without_libraries(*OTHERS, "mpmath")
    assert run.returncode == 0, run.stderr
    assert "float64" in run.stdout
    assert "posenc_ref itself: none failed" in run.stdout
    assert 'pip install "posenc-ref[cli]"' in run.stdout


@pytest.mark.nightly
def test_without_typer_the_certificate_is_printed():
    run = without_libraries(*OTHERS, arguments=["verify"])
    assert run.returncode == 0, run.stderr
    assert "agree with 50-digit formulas" in run.stdout


def test_without_typer_other_commands_say_what_is_missing():
    run = without_libraries(*OTHERS, arguments=["check", "a.py:f"])
    assert (run.returncode, run.stdout) == (2, "")
    assert 'pip install "posenc-ref[cli]"' in run.stderr
