"""The golden vectors: sound, reproducible, passed by us, and able to reject."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest

from posenc_ref.accuracy import budget
from posenc_ref.conformance import load_vectors
from posenc_ref.conformance.vectors.files import MANIFEST, shipped, write
from posenc_ref.conformance.vectors.surfaces import own_function
from posenc_ref.conformance.vectors.verify import verify_vectors

CASES = load_vectors()
LARGEST = 3_000_000


def by_id(case):
    return case.id


def test_the_shipped_vectors_verify():
    found = verify_vectors()
    assert found.problems == []
    assert found.executed == found.cases == len(CASES)
    assert found.size < LARGEST


def document(name):
    return json.loads((shipped() / name).read_bytes())


@pytest.mark.parametrize("case", CASES, ids=by_id)
def test_a_perturbed_result_is_rejected(case):
    """The negative control: one element of our own result moved by two budgets."""
    dtype = "float64"
    result = own_function(case.surface, case.encoding, dtype)(*case.arguments(dtype))
    assert case.passes(result, dtype=dtype)
    parts = [np.array(part) for part in (result if isinstance(result, tuple) else (result,))]
    truth = next(iter(case.truth.values()))
    place = np.unravel_index(int(np.argmax(np.abs(truth.hi))), truth.shape)
    move = 3 * budget(dtype) * 2.0**-53 * (truth.terms[place] + truth.angle[place])
    parts[0][place] += move or 1
    assert not case.passes(tuple(parts) if len(parts) > 1 else parts[0], dtype=dtype)
    parts[0] = np.full(truth.shape, np.nan)
    assert case.judge(tuple(parts) if len(parts) > 1 else parts[0], dtype=dtype) == np.inf


@pytest.fixture
def copy(tmp_path):
    """A vendored copy, and a function that changes one of its files and its digests."""
    shutil.copytree(shipped(), tmp_path / "v0")

    def change(name, edit, *, digests=True):
        path = tmp_path / "v0" / name
        body = json.loads(path.read_bytes())
        edit(body)
        manifest = json.loads((tmp_path / "v0" / MANIFEST).read_bytes())
        if not digests:
            path.write_text(json.dumps(body), encoding="utf-8")
            return
        names = manifest["files"]
        bodies = {n: json.loads((tmp_path / "v0" / n).read_bytes()) for n in names} | {name: body}
        head = {key: manifest[key] for key in manifest if key not in ("files", "sha256")}
        write(tmp_path / "v0", bodies, head)

    change.folder = tmp_path / "v0"
    return change


def test_a_copy_verifies_and_tells_its_age(copy):
    found = verify_vectors(copy.folder)
    assert found.passed, str(found)
    assert "the same cases" in found.age


def first(body):
    return body["groups"][0]["cases"][0]


BROKEN = {
    "a digit of the truth": (
        lambda b: first(b)["truth"]["y"]["hi"].__setitem__(
            0, first(b)["truth"]["y"]["hi"][0].replace("3", "4", 1)
        ),
        "not those of its digest",
    ),
    "a flag that lies": (lambda b: first(b)["flags"].append("PastFloat16"), "PastFloat16 lies"),
    "a flag left out": (
        lambda b: b["groups"][0]["cases"][1]["flags"].remove("PastBfloat16"),
        "PastBfloat16 is missing",
    ),
    "an undefined flag": (lambda b: first(b)["flags"].append("Sometimes"), "used and not defined"),
    "an unused flag": (
        lambda b: b["flags"].update(Sometimes=b["flags"]["FirstPositions"]),
        "defined and not used",
    ),
    "no spec": (lambda b: first(b).pop("spec"), "lacks 'spec'"),
    "an empty spec": (lambda b: first(b).update(spec=""), "must have at least 1"),
    "an id twice": (
        lambda b: b["groups"][0]["cases"][1].update(id=first(b)["id"]),
        "the id of 2 cases",
    ),
    "an id that is no slug": (lambda b: first(b).update(id="Rope 1"), "must match"),
    "an unknown member": (lambda b: first(b).update(tcId=1), "unknown member 'tcId'"),
    "a number where hex belongs": (
        lambda b: first(b)["truth"]["y"]["A"].__setitem__(0, "3f8"),
        "must match",
    ),
    "an unknown code": (
        lambda b: b["flags"]["FirstPositions"].update(bug_type=["wrongness"]),
        "there is no code",
    ),
    "a surface nobody has": (lambda b: b["groups"][0].update(surface="spin"), "no surface"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_found(copy, name):
    edit, message = BROKEN[name]
    copy("rope.json", edit)
    found = verify_vectors(copy.folder)
    assert not found.passed
    assert any(message in problem for problem in found.problems), found.problems


def test_a_changed_file_has_another_digest(copy):
    copy("rope.json", lambda body: body.update(title="mine"), digests=False)
    text = str(verify_vectors(copy.folder))
    assert "its SHA-256 is not the one" in text
    assert "not in canonical form" in text


def test_a_missing_file_and_a_stranger_are_found(copy):
    (copy.folder / "rope.json").rename(copy.folder / "mine.json")
    text = str(verify_vectors(copy.folder))
    assert "rope.json cannot be read" in text
    assert "mine.json: not in MANIFEST.json" in text


def test_ids_are_not_reused():
    assert [i for i, n in Counter(case.id for case in CASES).items() if n > 1] == []
    retired = document(MANIFEST)["retired"]
    assert not {case.id for case in CASES} & set(retired)
