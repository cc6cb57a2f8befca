"""Files of vectors: what `--verify` finds, how they are made, the command, the documentation."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from typer.testing import CliRunner

from posenc_ref.conformance import load_vectors
from posenc_ref.conformance.cli import app
from posenc_ref.conformance.exact.output import Output
from posenc_ref.conformance.exact.recipe import Group, Recipe, Theme, numbers
from posenc_ref.conformance.vectors import schema as schema_of_files
from posenc_ref.conformance.vectors.files import MANIFEST, cases_of, read_json, shipped
from posenc_ref.conformance.vectors.make import exact, generate, recipes
from posenc_ref.conformance.vectors.make.generate import Disagreement
from posenc_ref.conformance.vectors.schema import schema, violations
from posenc_ref.conformance.vectors.surfaces import SURFACES
from posenc_ref.conformance.vectors.verify import verify_vectors
from posenc_ref.conformance.vectors.view import View
from tests.conformance.vectors.conftest import SOME

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "vectors.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "examples" / "vectors"


def test_a_copy_verifies_and_tells_its_age(copy):
    found = copy()
    assert found.passed, str(found)
    missing = len(load_vectors()) - found.cases
    assert found.age.endswith(f"{missing} cases are missing, 0 are additional, 0 differ")
    assert "the same cases" in verify_vectors(shipped()).age


def first(body):
    return body["groups"][0]["cases"][0]


def truth(body):
    return next(iter(first(body)["truth"].values()))


def twice(body):
    group = body["groups"][0]
    group["cases"].append(group["cases"][0])


BROKEN = {
    "a digit of the truth": (
        lambda b: truth(b)["lo"].__setitem__(0, "0" * len(truth(b)["lo"][0])),
        "its digest is not that of",
    ),
    "a flag that lies": (lambda b: first(b)["flags"].append("Decay"), "flag Decay does not apply"),
    "a flag left out": (lambda b: first(b)["flags"].remove("Logits"), "flag Logits is missing"),
    "an undefined flag": (lambda b: first(b)["flags"].append("Often"), "used and not defined"),
    "an unused flag": (lambda b: b["flags"].update(Often=b["flags"]["Logits"]), "not used"),
    "nothing killed": (lambda b: first(b).update(kills=[]), "flag PinsDefinition is missing"),
    "another level": (lambda b: first(b).update(level="note"), "its level must be 'required'"),
    "no spec": (lambda b: first(b).pop("spec"), "'spec' is a required property"),
    "an empty spec": (lambda b: first(b).update(spec=""), "should be non-empty"),
    "an id twice": (twice, "2 cases have this id"),
    "an id of another group": (lambda b: first(b).update(id="rope-1"), "must start with the id"),
    "an id that is no slug": (lambda b: first(b).update(id="Rope 1"), "does not match"),
    "an unknown member": (lambda b: first(b).update(tcId=1), "'tcId' was unexpected"),
    "a digit too few": (lambda b: truth(b)["A"].__setitem__(0, "3f8"), "is not valid under any"),
    "an unknown code": (
        lambda b: b["flags"]["Logits"].update(bug_type=["wrongness"]),
        "no code 'wrongness'",
    ),
    "an unknown surface": (lambda b: b["groups"][0].update(surface="spin"), "no surface 'spin'"),
    "another schema": (lambda b: b.update(schema="posenc-vectors-v9"), "is not one of"),
    "no groups": (lambda b: b.update(groups=[]), "less than the minimum of 1"),
    "a boolean for an integer": (
        lambda b: b["generator"].update(digits=True),
        "not of type 'integer'",
    ),
    "a number as text": (
        lambda b: b["units"]["float32"].update(budget="128"),
        "not of type 'integer'",
    ),
    "a negative size": (lambda b: truth(b)["shape"].__setitem__(0, -1), "is not valid under any"),
    "a flag twice": (lambda b: first(b)["flags"].append("Logits"), "has non-unique elements"),
}


def unlike(name, part, change):
    """Return a change of an input or a truth of the first case of a surface."""

    def edit(body):
        group = next(g for g in body["groups"] if g["surface"] == name)
        change(group["cases"][0][part])

    return edit


#: A change of a case, and the problem that is reported for it.
UNLIKE = {
    "no input": (
        unlike("decode_positions", "inputs", lambda d: d.pop("n_steps")),
        "inputs must be prompt_len, n_steps for the surface decode_positions, got ['prompt_len']",
    ),
    "no truth": (
        unlike("packed", "truth", lambda d: d.pop("position_ids")),
        "its truth must be position_ids for the surface packed, got []",
    ),
    "another input": (
        unlike("packed", "inputs", lambda d: d.update(more=1)),
        "its inputs must be lengths for the surface packed, got ['lengths', 'more']",
    ),
    "another shape": (
        unlike("packed", "truth", lambda d: d.update(position_ids={
            "dtype": "int64", "shape": [], "values": [0]})),
        "posenc_ref's result has another shape than its truth",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNLIKE)
def test_names_and_shapes_are_those_of_the_surface(copy, name):
    edit, message = UNLIKE[name]
    problems = copy("position-ids.json", edit).problems
    assert any(message in problem for problem in problems), problems


def test_one_position_is_an_axis():
    of_one = View("apply", None, {"positions": np.array(3)})
    assert of_one.positions.shape == (1,)
    assert not of_one.contiguous()


def test_a_broadcast_result_is_perturbed_in_its_whole_shape():
    zeros = np.zeros((2, 3))
    expected = Output(zeros, zeros, zeros, zeros, broadcasts=True)
    moved = expected.perturbed(np.array(0.0), "float64")
    assert expected.score(moved, "float64") > 0


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_found(copy, name):
    edit, message = BROKEN[name]
    found = copy(SOME[0], edit)
    assert not found.passed
    assert any(message in problem for problem in found.problems), found.problems


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(schema())


def test_a_long_message_is_shortened():
    (text,) = violations({**read_json(shipped() / SOME[0]), "title": ["many"] * 999})
    assert text.startswith("file.title: ['many', 'many'")
    assert text.endswith(" is not of type 'string'")
    assert len(text) < 240


def test_without_jsonschema_the_way_to_get_it_is_named(monkeypatch):
    schema_of_files._validator.cache_clear()
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(ImportError, match=r'pip install "posenc-ref\[cli\]"'):
        violations({})


def test_a_changed_file_has_another_digest(copy):
    copy()
    path = copy.folder / SOME[0]
    path.write_text(json.dumps(read_json(path)), encoding="utf-8")
    text = str(verify_vectors(copy.folder))
    assert "its SHA-256 is not the one" in text
    assert "not in canonical form" in text


def test_a_missing_file_and_a_stranger_are_found(copy):
    copy()
    (copy.folder / SOME[0]).rename(copy.folder / "mine.json")
    text = str(verify_vectors(copy.folder))
    assert f"{SOME[0]} cannot be read" in text
    assert "mine.json: not in MANIFEST.json" in text
    assert not verify_vectors(copy.folder / "nowhere").passed


# --- how they are made ---------------------------------------------------------------------------


@pytest.mark.nightly
def test_generated_anew_they_are_the_same(tmp_path):
    made = generate.generate(tmp_path / "v0", before=shipped())
    manifest = read_json(shipped() / MANIFEST)
    names = manifest["files"]
    assert list(made) == list(names)
    for name in names:
        old, new = read_json(shipped() / name), read_json(tmp_path / "v0" / name)
        for body in (old, new):
            del body["generator"]  # other versions may make the same numbers
        assert new == old, f"{name}: run posenc vectors --generate"
    assert read_json(tmp_path / "v0" / MANIFEST)["retired"] == manifest["retired"]


def slopes(count, name="all"):
    from posenc_ref import ALiBi

    case = Recipe(name, "Some slopes.", {"num_heads": count})
    return Theme("a", "A file", (Group("slopes", "slopes", ALiBi(12), "A paper", (case,)),))


@pytest.fixture
def themes(monkeypatch):
    """A function that sets what there is to generate."""

    def only(*chosen):
        monkeypatch.setattr(generate, "themes", lambda: list(chosen))

    only(slopes(12))
    return only


def test_a_small_file_is_made(themes, tmp_path):
    generate.generate(tmp_path)
    (case,) = load_vectors(folder=tmp_path)
    assert (case.id, case.flags[-1], case.kills) == ("slopes-all", "PinsDefinition", ())
    assert verify_vectors(tmp_path).passed


def test_a_wrong_truth_is_not_written(themes, tmp_path, monkeypatch):
    right = exact.ROUTES["slopes"]
    monkeypatch.setitem(exact.ROUTES, "slopes", lambda e, i: right(e, {"num_heads": 8}))
    with pytest.raises(Disagreement, match="posenc_ref itself scores inf"):
        generate.generate(tmp_path / "v0")
    assert not (tmp_path / "v0").exists()


def test_a_wrong_specification_writes_nothing(themes, tmp_path, monkeypatch):
    monkeypatch.setattr(generate, "own_function", lambda *args: lambda n: np.ones(n))
    with pytest.raises(Disagreement, match="posenc_ref itself scores"):
        generate.generate(tmp_path / "v0")
    assert not (tmp_path / "v0").exists()


def test_an_id_is_not_given_to_another_case(themes, tmp_path):
    generate.generate(tmp_path)
    before = (tmp_path / "a.json").read_bytes()
    themes(slopes(8))
    with pytest.raises(Disagreement, match="slopes-all exists with other inputs"):
        generate.generate(tmp_path)
    assert (tmp_path / "a.json").read_bytes() == before


def test_an_id_that_was_given_up_stays_so(themes, tmp_path):
    generate.generate(tmp_path)
    themes(slopes(8, "other"))
    generate.generate(tmp_path)
    assert read_json(tmp_path / MANIFEST)["retired"] == ["slopes-all"]
    themes(slopes(8, "other"))
    generate.generate(tmp_path)
    assert read_json(tmp_path / MANIFEST)["retired"] == ["slopes-all"]
    themes(slopes(12))
    with pytest.raises(Disagreement, match="retired ids must not be used again, got slopes-all"):
        generate.generate(tmp_path)


def test_a_new_default_field_of_an_encoding_changes_no_digest():
    body = read_json(shipped() / SOME[0])
    group, case = next(cases_of(body))
    full = {**group, "encoding": {**group["encoding"]}}
    less = {
        **group,
        "encoding": {k: group["encoding"][k] for k in ("encoding", "head_dim", "layout")},
    }
    from posenc_ref.conformance.vectors.files import semantics

    assert semantics(full, case) == semantics(less, case)


def test_recipes_say_where_their_definition_is():
    with pytest.raises(ValueError, match="must say where its definition is published"):
        Group("a", "apply", None, "", ())
    with pytest.raises(ValueError, match="lower-case words"):
        Group("A b", "apply", None, "x", ())


def test_numbers_never_change():
    assert numbers("a", 2, 2).tolist() == [[-5.375, -1.375], [-0.375, 4.875]]
    assert len(recipes.themes()) == len(read_json(shipped() / MANIFEST)["files"])


# --- the command ---------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(app, ["vectors", *map(str, arguments)])


def test_the_command_shows_and_lists():
    assert f"{len(load_vectors())} cases" in run().output
    assert json.loads(run("--json").output)["cases"] == len(load_vectors())
    listed = run("--list").output
    assert re.search(
        r"^rope-64-half-first +apply, mistakes detected: \d+; The first", listed, re.MULTILINE
    )
    entry = json.loads(run("--list", "--json").output)[0]
    assert entry["id"] == load_vectors()[0].id
    assert entry["kills"]


def test_the_command_verifies(copy):
    copy()
    good = run("--verify", copy.folder)
    assert good.exit_code == 0, good.output
    assert good.output.endswith("verified\n")
    copy(SOME[0], lambda body: first(body).update(level="note"))
    bad = run("--verify", copy.folder, "--json")
    assert bad.exit_code == 1
    assert json.loads(bad.output)["problems"]
    assert run("--verify", "--list").exit_code == 2
    assert run("--list", copy.folder / "nowhere").exit_code == 2


def test_the_command_generates(themes, tmp_path):
    made = run("--generate", tmp_path / "v0", tmp_path / "old")
    assert made.exit_code == 0, made.output
    assert "1 cases" in made.output
    themes(slopes(8))
    refused = run("--generate", tmp_path / "v0", tmp_path / "v0")
    assert refused.exit_code == 2
    assert "give the new case a new id" in refused.output


# --- other languages -----------------------------------------------------------------------------


def needed(tool):
    """The path of a tool; without it the test is skipped, which CI turns into a failure."""
    path = shutil.which(tool)
    if path is None:
        pytest.skip(reason=f"{tool} is not installed, and the example is for it")
    return path


@pytest.fixture(scope="module", params=["C", "JavaScript", "Python"])
def judge(request, tmp_path_factory):
    """The command of an example: a judge with a right and a wrong implementation in it."""
    vectors = str(shipped() / "rope.json")
    if request.param == "C":
        program = tmp_path_factory.mktemp("judge") / "judge"
        flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]
        source = str(EXAMPLES / "judge.c")
        subprocess.run([needed("gcc"), *flags, "-o", str(program), source, "-lm"], check=True)
        return [str(program), vectors]
    if request.param == "JavaScript":
        return [needed("node"), str(EXAMPLES / "judge.mjs"), vectors]
    return [sys.executable, str(EXAMPLES / "judge.py")]


def test_an_example_accepts_the_right_one_and_rejects_the_wrong_one(judge):
    right = subprocess.run(judge, capture_output=True, text=True)
    assert right.returncode == 0, right.stdout + right.stderr
    count = int(re.search(r"^0 of (\d+) cases rejected$", right.stdout, re.MULTILINE)[1])
    assert count >= 10
    wrong = subprocess.run([*judge, "wrong"], capture_output=True, text=True)
    assert wrong.returncode == 1, wrong.stdout + wrong.stderr
    rejected = int(re.search(r"^(\d+) of \d+ cases rejected$", wrong.stdout, re.MULTILINE)[1])
    assert rejected >= 5


# --- the documentation ---------------------------------------------------------------------------


@pytest.mark.parametrize(("language", "file"), [("c", "judge.c"), ("js", "judge.mjs")])
def test_the_page_shows_what_the_examples_run(language, file):
    (shown,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    source = (EXAMPLES / file).read_text(encoding="utf-8")
    for function in re.split(r"\n(?=static|function)", shown.strip()):
        assert function in source
    assert len(shown.splitlines()) <= 25


def test_the_python_of_the_page_runs():
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    ran = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "alibi-8-slopes-all passes" in ran.stdout
    assert "alibi-12-slopes-all is wrong by" in ran.stdout


@pytest.mark.parametrize("name", SURFACES)
def test_the_page_has_the_surface(name):
    surface = SURFACES[name]
    arguments = ", ".join(f"`{a}`" for a in surface.arguments)
    outputs = ", ".join(f"`{o}`" for o in surface.outputs)
    assert f"| `{name}` | {arguments} | {outputs}: {surface.meaning} |" in PAGE
