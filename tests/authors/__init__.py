"""Implementations by authors who had seen neither the judge nor its tests, as they wrote them.

Each author read the specification, the surfaces and the task: write right and wrong functions over
all families, and note the cause of each wrong one before the judge has seen it. The files are kept
as they came, but for line breaks; no lint applies to them. ``graded.tsv`` has the grade that a
further reader gave the first report of each case, on the code of that day:

- a wrong case is ``true`` (the first finding names the cause), ``partly``, ``vague`` (it says where,
  or only that the function is wrong), ``misleading``, or ``missed`` (not rejected);
- a right case is ``ok``, ``accused`` or ``inconclusive``;
- a remedy ``helps``, is ``no help`` or ``harmful``, or was left ``ungraded``.

Older authors wrote modules ``cases_*.py``; for later ones, ``cases.json`` names the functions of plain
files. `tools/freeze.py authors` judges all of them and compares the verdicts with tests/frozen.json.
"""

import csv
import importlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from posenc_ref import from_dict, preset
from posenc_ref.conformance.cli.options.loading import load_declaration

FOLDER = Path(__file__).parent
#: Rotations of LieRE, SelectiveRoPE and of one map for each head, on surfaces that refuse them.
REFUSED = {"n026", "n027", "n028", "n031", "n070", "n128", "n146"}


@dataclass(frozen=True)
class Grade:
    """The grade of one first report."""

    set: int  #: 1 and later: the cases that were judged on the same day
    grade: str
    remedy: str
    reason: str


@cache
def cases():
    """Return every case by its id, as its author wrote it."""
    found = {}
    for path in sorted(FOLDER.glob("*/cases_*.py")):
        module = importlib.import_module(f"{__name__}.{path.parent.name}.{path.stem}")
        # The author of the last set drew the cases to judge first by lot; SPARE has the others.
        for case in (*module.CASES, *getattr(module, "SPARE", ())):
            assert case["id"] not in found, case["id"]
            if case["id"] not in REFUSED:
                found[case["id"]] = case
    for path in sorted(FOLDER.glob("*/cases.json")):
        for row in json.loads(path.read_text(encoding="utf-8")):
            found[f"{path.parent.name}/{row['id']}"] = _from_row(path.parent.name, row)
    return found


def case(name):
    """Return one case of cases.json, ``"folder/id"``, without the others."""
    folder, one = name.split("/")
    rows = json.loads((FOLDER / folder / "cases.json").read_text(encoding="utf-8"))
    return _from_row(folder, next(row for row in rows if row["id"] == one))


def _from_row(folder, row):
    """Return a case of cases.json: its function and encoding are named there."""
    module = importlib.import_module(f"{__name__}.{folder}.{Path(row['file']).stem}")
    return {
        **row,
        "fn": getattr(module, row["function"]),
        "encoding": _declared(FOLDER / folder, row["encoding"], row["surface"]),
        "right": row["verdict"] == "right",
    }


def _declared(folder, text, surface):
    """Return what a text declares: ``@x.json`` is a file, ``@enc/x.json`` a part of enc.json."""
    if not text or text.startswith("preset("):
        return preset(text.split('"')[1]) if text else None
    if text.startswith("@enc/"):
        every = json.loads((folder / "enc.json").read_text(encoding="utf-8"))
        text = json.dumps(every[text.removeprefix("@enc/").removesuffix(".json")])
    elif text.startswith("@"):
        text = f"@{folder / text[1:]}"
    if '"encodings"' in text:  # those of a model's layers
        return from_dict(json.loads(text))
    return load_declaration(text, surface)


@cache
def graded():
    """Return the grade of every case by its id."""
    with (FOLDER / "graded.tsv").open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {
            row["id"]: Grade(int(row["set"]), row["class"], row["remedy"], row["reason"])
            for row in rows
        }
