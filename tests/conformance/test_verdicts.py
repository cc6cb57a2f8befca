"""Verdicts do not depend on the machine (docs/generated/verdicts.md)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from posenc_ref.conformance import CODES, SURFACES
from tests.conformance.test_corpus import WITHOUT_A_CASE
from tests.tool import tool

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "tools" / "verdicts.py"
verdicts = tool("verdicts")

#: Cheap cases with much arithmetic: one run in a process of its own takes 3 s.
SAMPLE = (
    "attention-factor-missing-from-the-tables", "bf16-tables", "fp16-positions",
    "head-dim-in-the-denominator", "inflated-tables", "llama3-dropped-from-the-tables",
    "max-distance-64", "qk-keys-at-the-positions-of-queries", "rank-slopes-naive",
    "table-from-one", "yarn-truncated-table",
    "by-thresholds", "normed-first", "rows-by-rotation", "tangent-of-the-half-angle",
)  # fmt: skip


@pytest.fixture(scope="session")
def default(tmp_path_factory):
    """Return the verdicts on the sample with default settings."""
    path = tmp_path_factory.mktemp("verdicts") / "default.json"
    return verdicts.run(sys.executable, "default", SAMPLE, path)


@pytest.mark.parametrize(
    "variant",
    [
        "baseline CPU",
        pytest.param("1 thread", marks=pytest.mark.nightly),
        pytest.param("without AVX-512", marks=pytest.mark.nightly),
    ],
)
def test_the_same_verdicts_and_codes(variant, default, tmp_path):
    other = verdicts.run(sys.executable, variant, SAMPLE, tmp_path / "other.json")
    assert len(other["cases"]) == len(SAMPLE)
    assert verdicts.differences({"default": default, variant: other}) == []


def test_the_settings_take_effect():
    def ask(expression, disabled=""):
        env = {**os.environ, "PYTHONPATH": str(PATH.parent), "NPY_DISABLE_CPU_FEATURES": disabled}
        program = [sys.executable, "-c", f"import verdicts; print({expression})"]
        return subprocess.run(program, env=env, capture_output=True, text=True, check=True).stdout

    optional = ask("*verdicts.features('all')").split()
    assert set(ask("*verdicts.features('avx512')").split()) <= set(optional)
    baseline = ask("verdicts.environment()['sin']", " ".join(optional)).strip()
    assert baseline.startswith("baseline")
    assert ask("verdicts.environment()['sin']").strip() in [*optional, baseline]


def test_the_cases_have_every_code_and_every_surface():
    known, names = verdicts.corpus(), verdicts.chosen()
    cases = [known[name] for name in names]
    codes = {case.expected[0] for case in cases if case.expected}
    codes.add("harmless-convention")  # a note on xpos-centred
    assert codes == CODES.keys() - WITHOUT_A_CASE.keys()
    assert len(names) == len(set(names))
    assert {case.surface for case in cases} == SURFACES.keys()


# --- the comparison is able to fail ---------------------------------------------------------------


def written(folder, name, **cases):
    path = folder / name
    path.write_text(json.dumps({"environment": {}, "cases": cases}), encoding="utf-8")
    return str(path)


def compare(*paths):
    done = subprocess.run(
        [sys.executable, str(PATH), "--compare", *paths], capture_output=True, text=True
    )
    return done.returncode, done.stdout.strip().splitlines()


def test_runs_that_agree(tmp_path):
    one = written(tmp_path, "one", a=["deviates", "sign"], b=["conforms"])
    two = written(tmp_path, "two", b=["conforms"], a=["deviates", "sign"])
    assert compare(one, two) == (0, ["the same verdicts and codes in 2 runs"])


@pytest.mark.parametrize(
    ("cases", "line"),
    [
        ({"a": ["conforms"], "b": ["conforms"]}, "a: conforms, not deviates sign"),
        ({"a": ["deviates", "base"], "b": ["conforms"]}, "a: deviates base, not deviates sign"),
        ({"a": ["deviates", "sign"]}, "b: not judged, not conforms"),
        ({}, "a: not judged, not deviates sign"),
    ],
)
def test_runs_that_differ(cases, line, tmp_path):
    one = written(tmp_path, "one", a=["deviates", "sign"], b=["conforms"])
    two = written(tmp_path, "two", **cases)
    code, lines = compare(one, two)
    assert code == 1
    assert f"{two}: {line}" in lines


def test_empty_runs_do_not_agree(tmp_path):
    empty = written(tmp_path, "one")
    assert compare(empty, empty) == (1, [f"{empty}: no case was judged"])


def test_an_unknown_case_is_refused(tmp_path):
    ask = [sys.executable, str(PATH), "--json", str(tmp_path / "x"), "--cases", "bf16-tables", "x"]
    done = subprocess.run(ask, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "there are no cases x\n")
    assert not (tmp_path / "x").exists()
