"""``posenc vectors --verify``: check that a folder of vectors is complete and consistent.

Differences from the vectors of this installation are listed, but are no problems.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from posenc_ref._documents import inside, read_bytes
from posenc_ref._text import one_line, shown
from posenc_ref.accuracy import budget
from posenc_ref.conformance.exact.bits import canonical, digest
from posenc_ref.conformance.harness.codes import CODES
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.limits import FILE

from .case import VectorCase
from .files import MANIFEST, cases_of, listed, read_json, semantics, shipped
from .flags import FLAGS, flags_of, level_of
from .schema import violations
from .surfaces import OPTIONAL, OPTIONAL_INPUTS, SURFACES, own_function

Json = dict[str, Any]


@dataclass
class Verified:
    """The result of verifying a folder."""

    folder: str
    files: int = 0
    cases: int = 0
    size: int = 0  #: bytes
    digest: str = ""  #: the digest of the manifest
    problems: list[str] = field(default_factory=list)
    worst: float = 0.0  #: the largest score of posenc_ref's own float64 functions, in units
    worst_case: str = ""
    executed: int = 0  #: number of cases on which posenc_ref's own functions were run
    age: str = ""  #: differences from the vectors of this installation

    @property
    def passed(self) -> bool:
        """Return whether there is no problem and every case was executed."""
        return not self.problems and self.executed == self.cases > 0

    def to_dict(self) -> Json:
        """Return the result as JSON-ready data."""
        return {**asdict(self), "passed": self.passed}

    def __str__(self) -> str:
        lines = [
            f"{one_line(self.folder)}: {self.files} files, {self.cases} cases, "
            f"{self.size / 1e6:.2f} MB",
            f"posenc_ref itself: {self.executed} cases executed, worst score {self.worst:.3g} units"
            f" in float64 (budget {budget('float64'):g}), at {self.worst_case or '-'}",
            self.age,
            *(one_line(problem) for problem in self.problems[:40]),
        ]
        if len(self.problems) > 40:
            lines.append(f"... and {len(self.problems) - 40} more")
        lines.append(
            "verified" if self.passed else plural(len(self.problems), "problem", "problems")
        )
        return "\n".join(line for line in lines if line)


def verify_vectors(folder: Path | None = None) -> Verified:
    """Check digests, schema, ids and flags, and run ``posenc_ref`` on every case."""
    home = shipped() if folder is None else folder
    found = Verified(str(home))
    manifest, found.problems = _read(home / MANIFEST, "manifest")
    if found.problems:
        return found
    found.digest = manifest["sha256"]
    found.problems += _manifest_problems(home, manifest)
    ids: Counter[str] = Counter()
    for name in manifest["files"]:
        try:
            inside(home, name, MANIFEST)
        except ValueError as error:
            found.problems.append(str(error))
            continue
        document, broken = _read(home / name, "file")
        found.problems += broken
        if broken:
            continue  # the checks below rely on the schema
        data = read_bytes(home / name, FILE)
        if (canonical(document) + "\n").encode() != data:
            found.problems.append(f"{name}: its text is not in canonical form")
        found.files += 1
        found.size += len(data)
        found.problems += [f"{name}: {text}" for text in _file_problems(document)]
        count = sum(1 for _ in cases_of(document))
        if count != manifest["files"][name]["cases"]:
            said = manifest["files"][name]["cases"]
            found.problems.append(f"{name}: {count} cases, {MANIFEST} says {said}")
        for group, case in cases_of(document):
            ids[case["id"]] += 1
            found.cases += 1
            unfit = list(_name_problems(group, case))
            found.problems += [f"{case['id']}: {text}" for text in unfit]
            if unfit:
                continue  # the checks below take every input and output by its name
            try:
                problems = list(_case_problems(group, case))
                found.problems += [f"{case['id']}: {text}" for text in problems]
                if group["surface"] in SURFACES:
                    execute(found, VectorCase.read(name, group, case))
            except (TypeError, ValueError) as error:
                found.problems.append(f"{case['id']}: it cannot be judged: {error}")
    found.problems += [f"{i}: {n} cases have this id" for i, n in ids.items() if n > 1]
    again = ids.keys() & set(manifest["retired"])
    found.problems += [f"{i}: a retired id is used again" for i in sorted(again)]
    if folder is not None:
        found.age = _age(home)
    return found


def _read(path: Path, definition: str) -> tuple[Any, list[str]]:
    """Return the content of a JSON file, and its violations of a definition of the schema."""
    try:
        content = read_json(path)
    except ValueError as error:
        return None, [str(error)]
    return content, [f"{path.name}: {text}" for text in violations(content, definition)]


def _manifest_problems(home: Path, manifest: Json) -> Iterator[str]:
    files = manifest["files"]
    present = {path.name for path in home.glob("*.json")} - {MANIFEST}
    yield from (f"{name}: not in {MANIFEST}" for name in sorted(present - set(files)))
    for name in sorted(present & set(files)):  # a missing file is reported when it is read
        try:
            data = read_bytes(home / name, FILE)
        except ValueError:
            continue  # reported when its content is read
        if hashlib.sha256(data).hexdigest() != files[name]["sha256"]:
            yield f"{name}: its SHA-256 is not the one in {MANIFEST}"
        if len(data) != files[name]["bytes"]:
            yield f"{name}: {len(data)} bytes, {MANIFEST} says {files[name]['bytes']}"
    together = "".join(entry["sha256"] for entry in files.values())
    if hashlib.sha256(together.encode()).hexdigest() != manifest["sha256"]:
        yield f"{MANIFEST}: its sha256 must be the SHA-256 of the files' digests, joined"


def _file_problems(document: Json) -> Iterator[str]:
    used = {name for _, case in cases_of(document) for name in case["flags"]}
    defined = document["flags"]
    yield from (f"flag {name} is used and not defined" for name in sorted(used - set(defined)))
    yield from (f"flag {name} is defined and not used" for name in sorted(set(defined) - used))
    for name, flag in defined.items():
        unknown = [code for code in flag["bug_type"] if code not in CODES]
        yield from (f"flag {name}: posenc explain has no code {code!r}" for code in unknown)


def _name_problems(group: Json, case: Json) -> Iterator[str]:
    """Yield each input and output that the surface of a case needs and lacks, or has not."""
    surface = SURFACES.get(group["surface"])
    if surface is None:
        return  # reported with the other problems of the case
    for what, names, optional in (
        ("inputs", surface.arguments, OPTIONAL_INPUTS),
        ("truth", surface.outputs, OPTIONAL),
    ):
        lacking = [name for name in names if name not in case[what] and name not in optional]
        unknown = sorted(set(case[what]) - set(names))
        if lacking or unknown:
            yield (
                f"its {what} must be {', '.join(names)} for the surface {surface.name}, "
                f"got {shown(sorted(case[what]))}"
            )


def _case_problems(group: Json, case: Json) -> Iterator[str]:
    if not case["id"].startswith(f"{group['id']}-"):
        yield f"must start with the id of its group, {group['id']}"
    if group["surface"] not in SURFACES:
        yield f"there is no surface {group['surface']!r}"
        return
    if digest(semantics(group, case)) != case["digest"]:
        yield "its digest is not that of its surface, encoding, inputs and truth"
    known = [name for name in case["flags"] if name in FLAGS]
    read = VectorCase.read("", group, case)
    true = flags_of(read.surface, read.encoding, read.inputs, read.kills)
    for name in sorted(set(known) ^ set(true)):
        yield f"flag {name} {'does not apply' if name in known else 'is missing'}"
    if case["level"] != level_of(known):
        yield f"its level must be {level_of(known)!r}, because of its flags, got {case['level']!r}"


def execute(found: Verified, case: VectorCase) -> None:
    """Run ``posenc_ref`` on a case in float64 and float32, and add the problems to ``found``.

    The case must reject perturbed results.
    """
    for dtype in ("float64", "float32"):
        result = own_function(case.surface, case.encoding, dtype)(*case.arguments(dtype))
        if not case.shaped(result):
            found.problems.append(
                f"{case.id}: posenc_ref's result has another shape than its truth"
            )
            break
        score = case.judge(result, dtype=dtype)
        if score > budget(dtype):
            found.problems.append(f"{case.id}: posenc_ref scores {score:.3g} units in {dtype}")
        if case.judge(perturbed(case, result, dtype), dtype=dtype) <= budget(dtype):
            found.problems.append(f"{case.id}: a perturbed result passes in {dtype}")
        if dtype == "float64" and score >= found.worst:
            found.worst, found.worst_case = score, case.id
    found.executed += 1


def perturbed(case: VectorCase, result: Any, dtype: str) -> Any:
    """Return ``result`` with one wrong element in its first array; every case must reject it."""
    several = isinstance(result, tuple | list)
    first, *others = result if several else (result,)
    moved = next(iter(case.truth.values())).perturbed(first, dtype)
    return (moved, *others) if several else moved


def _age(home: Path) -> str:
    """Return how a copy differs from the vectors of this installation."""

    def ids(folder: Path) -> dict[str, str]:
        names = listed(folder)
        documents = [read_json(folder / name) for name in names if (folder / name).is_file()]
        return {case["id"]: case.get("digest", "") for d in documents for _, case in cases_of(d)}

    try:
        theirs, ours = ids(home), ids(shipped())
    except ValueError:
        return ""
    if theirs == ours:
        return "the same cases as the vectors of this installation"
    missing, extra = len(ours.keys() - theirs.keys()), len(theirs.keys() - ours.keys())
    changed = sum(1 for i in theirs.keys() & ours.keys() if theirs[i] != ours[i])
    return (
        f"compared with the vectors of this installation, {missing} cases are missing, {extra} are "
        f"additional, {changed} differ"
    )
