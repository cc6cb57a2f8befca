"""`posenc verify`: what it judges, what it skips, and what its exit code means."""

import dataclasses
import importlib.util
import json
import os
import re
import subprocess
import sys
from contextlib import closing
from functools import partial

import numpy as np
import pytest

from posenc_ref import MixedRoPE, MultiAxisRoPE, RoPE, Shaw, Sinusoidal, XPos
from posenc_ref.backends import backend
from posenc_ref.conformance import load_vectors, registry, vectors
from posenc_ref.conformance.adapters import library
from posenc_ref.conformance.exact.recipe import Recipe, numbers
from posenc_ref.conformance.surveys import show, verify
from posenc_ref.conformance.surveys.own import judge_entry
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.tables import TextTable
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
    assert "first error over 2**-9 at position 257" in show.plain(found)


def test_an_error_of_the_harness_exits_with_3(monkeypatch):
    def broken(*arguments, **settings):
        raise RuntimeError("no arrays today")

    # In one check, and where the checks of a group are made.
    for name in ("check", "own_surfaces"):
        with monkeypatch.context() as patch:
            patch.setattr(verify, name, broken)
            found = judge("numpy learned float32")
        assert found.counts["error"] == 1
        assert found.exit_code == 3
        assert "RuntimeError: no arrays today" in show.plain(found)


def test_a_missing_backend_is_skipped_with_the_reason(monkeypatch):
    absent = dataclasses.replace(backend("cupy"), module="no_such_module")
    monkeypatch.setattr(verify, "backends", lambda: (backend("numpy"), absent))
    found = judge("learned float32")
    assert found.counts["skipped"] == 1
    assert found.counts["conforms"] == 1
    assert found.exit_code == 0
    text = show.plain(found)
    assert "  not installed (1): cupy" in text
    assert '; pip install "posenc-ref[cupy]"' in text
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


def test_missing_libraries_need_no_process(monkeypatch):
    pytest.importorskip("torch", reason="without it, functions of libraries are not judged")
    monkeypatch.setattr(verify, "missing", lambda: {"transformers": "transformers>=5"})
    started = []
    monkeypatch.setattr(verify, "run", lambda groups, *more, **how: started.extend(groups) or [])
    (outcome,) = judge("transformers llama*", processes=2).outcomes
    assert (outcome.group, outcome.verdict) == ("transformers", "skipped")
    assert "transformers" not in started


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
    assert reason == "the process that judged it ended with exit status 3"
    outcome = verify.failed_group("numpy", reason)
    assert (outcome.verdict, outcome.kind, outcome.group) == ("error", "backend", "numpy")
    assert Verification([outcome]).exit_code == 3


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
    assert len(run.stderr.splitlines()) == 1
    assert 'pip install "posenc-ref[cli]"' in run.stderr


IN_PYTHON = """
from posenc_ref import RoPE
from posenc_ref.conformance import check, explain, identify, load_vectors

rope = RoPE(16, layout="half")
wrong = RoPE(16, layout="half", base=500.0)
assert check(rope.apply, rope, "apply").verdict == "conforms"
assert check(rope.apply, wrong, "apply").codes == ["base"]
assert identify(rope.apply, head_dim=16).encoding == rope
assert explain("rope").startswith("RoPE(head_dim")
case = load_vectors(surface="apply", encoding="RoPE")[0]
right = case.encoding.apply(*case.arguments())
assert case.judge(right) < 128 < case.judge(-right)
"""


def test_python_needs_nothing_but_numpy():
    blocked = [*OTHERS, "mpmath", "jsonschema", "transformers", "numba", "gguf", "onnx"]
    code = "import sys\nfor name in {!r}:\n    sys.modules[name] = None\n{}"
    command = [sys.executable, "-c", code.format(blocked, IN_PYTHON)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("command", ["verify", "sweep"])
def test_a_long_command_answers_before_its_slow_imports(command):
    """It says that it starts, then imports typer, which is missing here."""
    code = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in ("typer", "transformers", "torch"):
            print("imports", name, file=sys.stderr)

sys.meta_path.insert(0, Finder())
sys.argv = ["posenc", {!r}, "--dtype", "int8"]
from posenc_ref.conformance.__main__ import main

main()
"""
    run = subprocess.run(
        [sys.executable, "-c", code.format(command)], capture_output=True, text=True
    )
    said = run.stderr.splitlines()
    assert said[0] == f"posenc {command}: starting"
    assert "imports typer" in said[1:]
    assert run.stdout == ""


# --- the golden vectors, and rotary encodings on every library ------------------------------------


def test_the_golden_vectors_are_judged():
    (outcome,) = judge("golden vectors").outcomes
    assert (outcome.verdict, outcome.kind) == ("conforms", "vectors")
    assert outcome.executed == len(load_vectors())
    assert f"computes all {outcome.executed} cases" in show.plain(Verification([outcome]))


def test_a_wrong_encoding_fails_its_golden_vectors(monkeypatch):
    monkeypatch.setattr(
        Sinusoidal, "table", lambda e, p, **more: e.scale * np.zeros((len(p), e.dim))
    )
    monkeypatch.setattr(vectors, "load_vectors", lambda: load_vectors(encoding="Sinusoidal")[:3])
    found = judge("golden vectors")
    assert [o.verdict for o in found.outcomes] == ["deviates"]
    assert found.exit_code == 1
    assert "posenc_ref scores" in show.plain(found)


@pytest.mark.parametrize("cls", [RoPE, MultiAxisRoPE, MixedRoPE, XPos])
def test_a_wrong_rotation_is_seen_on_a_library(monkeypatch, cls):
    pytest.importorskip("array_api_strict", reason="a library that is no NumPy")
    only = f"array_api_strict {cls.__name__.lower()} vectors"
    assert {o.verdict for o in judge(only, "float32").outcomes} == {"conforms"}
    name = "apply_queries" if cls is XPos else "apply"
    honest = getattr(cls, name)
    monkeypatch.setattr(cls, name, lambda e, x, p, **more: honest(e, x, p + 1, **more))
    assert {o.codes[:1] for o in judge(only, "float32").outcomes} == {("inaccurate",)}


# --- what is printed -----------------------------------------------------------------------------


def outcomes():
    """Return outcomes with every kind of cell: judged, exact, once, not run, skipped, without."""
    ours = Outcome("backend", "numpy", "2", verdict="conforms", worst=1.5, budget=128, executed=1)
    theirs = Outcome("library", "lib", "1", verdict="conforms", worst=2.0, budget=128, executed=1)
    return [
        ours.replace(label="RoPE half", dtype="float64"),
        ours.replace(label="RoPE half", dtype="float32", worst=0.0),
        ours.replace(label="T5 bucket", dtype="float64"),
        ours.replace(group="torch", label="RoPE half", dtype="float64"),
        ours.replace(label="ALiBi vectors", dtype="float64", worst=0.0),
        ours.replace(label="T5Bias vectors", dtype="float64", verdict="skipped", reason="r"),
        ours.replace(group="torch", label="Shaw vectors", dtype="float64"),
        theirs.replace(label="f", dtype="float32", errors={4096: 1e-5}, precision="float32 angles"),
        theirs.replace(label="g", dtype="float32", errors={4096: 1e-2}, degrades_at=257),
        theirs.replace(label="h", dtype="f", errors={8: 1.0}, degrades_at=0, degrades_first=True),
        theirs.replace(label="slopes", dtype="float32"),
    ]


def test_every_cell_of_every_table_has_a_number_or_an_explained_word():
    parts = show.parts(Verification(outcomes()))
    tables = [part for part in parts if isinstance(part, TextTable)]
    assert len(tables) == 3
    guide = next(part for part in parts if isinstance(part, str))
    words = set()
    for table in tables:
        for row in table.rows:
            for head, cell in zip(table.head, row, strict=True):
                text = cell if isinstance(cell, str) else cell[0]
                assert text, (table.title, head, row)
                if head in table.numbers and not text[0].isdigit():
                    words.add(text)
    assert words == {"equal", "once", "not run", "skipped", "n/a", "never", "<= 257"}
    explained = set(re.findall(r"(?m)^  (\S.*?)  +\S", guide))
    assert words - {"never", "<= 257"} <= explained
    assert "never: " in guide
    assert "<= N: the first one is N or smaller" in " ".join(guide.split())
    assert {"score", "> 2**-9 at", "4Ki .. 1Mi", "angles"} <= explained


def test_skipped_outcomes_are_grouped_by_reason():
    reason = "torch is not installed (No module named 'torch'); pip install \"a[torch]\""
    blank = Outcome("backend", "torch", reason=reason)
    many = [Outcome("backend", "numpy", "2", f"{n}", reason="m is short") for n in range(9)]
    text = show.plain(
        Verification(
            [
                blank,
                blank.replace(group="jax", reason=blank.reason.replace("torch", "jax")),
                Outcome("backend", "dask", dtype="float64", reason="dask takes long; --full"),
                Outcome("backend", "jax", dtype="float16", reason="jax takes long; --full"),
                *many,
            ]
        )
    )
    assert text.splitlines()[:4] == [
        "Skipped, by reason:",
        '  not installed (2): torch, jax; pip install "a[torch]" "a[jax]"',
        "  takes long; --full (2): dask float64, jax float16",
        "  m is short (9): 9 of numpy",
    ]
