"""Compute the vectors from their recipes and write the files.

The expected outputs come from 50-digit mpmath. Nothing is written unless ``posenc_ref`` passes
every case in float64. Tests compute the expected outputs a second time, with ``decimal``, and
require a relative difference below ``2**-AGREEMENT``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import posenc_ref
from posenc_ref.accuracy import BUDGET, ROUNDOFF, TINY
from posenc_ref.conformance.exact.bits import digest, to_hex, write_array
from posenc_ref.conformance.exact.digits import DIGITS, mpmath
from posenc_ref.conformance.exact.recipe import Group, Recipe, Theme
from posenc_ref.conformance.vectors.case import VectorCase
from posenc_ref.conformance.vectors.files import (
    MANIFEST,
    SCHEMA,
    all_cases,
    cases_of,
    read_json,
    semantics,
    write,
)
from posenc_ref.conformance.vectors.flags import FLAGS, flags_of, level_of
from posenc_ref.conformance.vectors.surfaces import own_function

from . import exact
from .recipes import themes

Json = dict[str, Any]


#: The number of bits in which both computations of the expected outputs agree.
AGREEMENT = 90


class Disagreement(Exception):
    """An expected output contradicts ``posenc_ref``, or an id is reused; nothing was written."""


def generate(folder: Path, before: Path | None = None) -> dict[str, Json]:
    """Write all vectors to ``folder`` and return the documents by file name.

    ``before`` is the folder of the previous vectors, by default ``folder``. A case there must keep
    its inputs and expected outputs, and the id of a removed case must not be used again. The
    ``kills`` of a case are copied from there.
    """
    before = before or folder
    known = (before / MANIFEST).is_file()
    old = {case["id"]: case for _, _, case in all_cases(before)} if known else {}
    retired = list(read_json(before / MANIFEST)["retired"]) if known else []
    documents = {f"{theme.name}.json": _document(theme, old) for theme in themes()}
    made = [case["id"] for d in documents.values() for _, case in cases_of(d)]
    twice = sorted({i for i in made if made.count(i) > 1})
    if twice:
        raise Disagreement(f"ids must be unique, these are not: {', '.join(twice)}")
    back = sorted(set(made) & set(retired))
    if back:
        raise Disagreement(f"retired ids must not be used again, got {', '.join(back)}")
    retired += sorted(set(old) - set(made))
    write(folder, documents, {**_header(), "retired": retired})
    return documents


def _header() -> Json:
    versions = {"posenc_ref": posenc_ref.__version__, "mpmath": mpmath().__version__}
    return {
        "schema": SCHEMA,
        "spec_version": posenc_ref.SPEC_VERSION,
        "generator": {**versions, "digits": DIGITS, "agreement_bits": AGREEMENT},
    }


def _units() -> Json:
    """Return the constants of the error unit of each dtype, and the budget, for the files."""

    def entry(dtype: str) -> Json:
        angle = "float64" if dtype == "float64" else "float32"
        values = {"u_out": ROUNDOFF[dtype], "u_angle": ROUNDOFF[angle], "tiny": TINY[dtype]}
        bits = {name: to_hex(value, "float64")[0] for name, value in values.items()}
        return {**bits, "budget": int(BUDGET[dtype])}

    return {dtype: entry(dtype) for dtype in ROUNDOFF}


def _document(theme: Theme, old: dict[str, Json]) -> Json:
    groups = [_group(theme, group, old) for group in theme.groups]
    head = {**_header(), "title": theme.title, "units": _units()}
    return with_flags({**head, "flags": {}, "groups": groups})


def with_flags(document: Json) -> Json:
    """Return the document with the definitions of the flags that its cases have."""
    used = {name for _, case in cases_of(document) for name in case["flags"]}
    return {**document, "flags": {name: flag for name, flag in FLAGS.items() if name in used}}


def _group(theme: Theme, group: Group, old: dict[str, Json]) -> Json:
    declared = None if group.encoding is None else group.encoding.to_dict()
    head = {"id": group.id, "surface": group.surface, "encoding": declared}
    cases = []
    for recipe in group.cases:
        before = old.get(f"{group.id}-{recipe.name}")
        case = _case(group, recipe, head, [] if before is None else before["kills"])
        if before is not None and before["digest"] != case["digest"]:
            raise Disagreement(
                f"{case['id']} exists with other inputs or expected outputs: give the new case a "
                "new id"
            )
        own = own_function(group.surface, group.encoding, "float64")
        score = VectorCase.read(f"{theme.name}.json", head, case).run(own, "float64")
        if score > BUDGET["float64"]:
            raise Disagreement(f"{case['id']}: posenc_ref itself scores {score:g} units in float64")
        cases.append(case)
    return {**head, "cases": cases}


def _case(group: Group, recipe: Recipe, head: Json, kills: list[str]) -> Json:
    """Return a case with its expected outputs."""
    truths = exact.truths(group.surface, group.encoding, recipe.inputs)
    inputs = {name: write_array(value) for name, value in recipe.inputs.items()}
    flags = flags_of(group.surface, group.encoding, recipe.inputs, kills)
    case = {
        "id": f"{group.id}-{recipe.name}",
        "comment": recipe.comment,
        "spec": group.spec,
        "level": level_of(flags),
        "flags": flags,
        "inputs": inputs,
        "truth": {name: truth.to_json() for name, truth in truths.items()},
    }
    return {**case, "digest": digest(semantics(head, case)), "kills": kills}
