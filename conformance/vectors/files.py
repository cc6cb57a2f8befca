"""Read and write a folder of vectors: its files, its manifest and their cases."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posenc_ref import Scaling, from_dict
from posenc_ref import _documents as documents
from posenc_ref._namespace import is_array
from posenc_ref._text import shown
from posenc_ref.conformance.exact.bits import canonical
from posenc_ref.conformance.harness.whole import write_whole
from posenc_ref.limits import FILE

#: The version of the format, which also names its folder and its schema.
VERSION = "v0"
SCHEMA = f"posenc-vectors-{VERSION}"
MANIFEST = "MANIFEST.json"


#: How messages name the type of a JSON value.
_WORDS = {
    str: "a string", list: "a list", dict: "an object", int: "an integer",
    dict | None: "an object or null",
}  # fmt: skip


def shipped(version: str = VERSION) -> Path:
    """Return the folder of the package's own vectors."""
    folder = Path(__file__).parent / version
    if not folder.is_dir():
        known = sorted(p.name for p in Path(__file__).parent.glob("v[0-9]*"))
        raise ValueError(f"version must be one of {', '.join(known)}, got {version!r}")
    return folder


def read_json(path: Path) -> Any:
    """Return the content of a JSON file, or raise a ValueError that says what is wrong."""
    try:
        return documents.read_json(path, FILE)
    except ValueError as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error


def cases_of(document: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield every (group, case) of a file; raise ValueError if it has another structure."""
    for n, group in enumerate(_list("groups", document)):
        where = f"groups[{n}]"
        _require(where, group, id=str, surface=str, encoding=dict | None, cases=list)
        declared = group["encoding"]
        if declared is not None:
            _require(f"{where}: encoding", declared, encoding=str)
        for m, case in enumerate(group["cases"]):
            inside = f"{where}: cases[{m}]"
            _require(inside, case, id=str, spec=str, comment=str, level=str, inputs=dict)
            _require(inside, case, truth=dict, flags=list, kills=list)
            for name in ("flags", "kills"):
                if not all(isinstance(word, str) for word in case[name]):
                    raise ValueError(f"{inside}: {name} must list names, got {shown(case[name])}")
            yield group, case


def listed(folder: Path) -> dict[str, int]:
    """Return the files that the manifest of a folder names, each with its number of cases.

    Raise ValueError if a file is outside the folder.
    """
    manifest = read_json(folder / MANIFEST)
    _require(MANIFEST, manifest, files=dict)
    for name, entry in manifest["files"].items():
        documents.inside(folder, name, MANIFEST)
        _require(f"{MANIFEST}: {shown(name)}", entry, cases=int)
    return {name: entry["cases"] for name, entry in manifest["files"].items()}


def all_cases(folder: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield every (file, group, case) of a folder, in the order of its manifest.

    Raise ValueError if a file has not as many cases as the manifest says.
    """
    for name, count in listed(folder).items():
        try:
            found = [*cases_of(read_json(folder / name))]
        except ValueError as error:
            raise ValueError(f"{folder / name}: {error}") from None
        if len(found) != count:
            raise ValueError(f"{folder / name} has {len(found)} cases, but {MANIFEST} says {count}")
        for group, case in found:
            yield name, group, case


def _list(key: str, value: Any) -> list[Any]:
    _require("the file", value, **{key: list})
    return value[key]  # type: ignore[no-any-return]


def _require(where: str, value: Any, **kinds: Any) -> None:
    """Raise ValueError unless a JSON object has entries of these types."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be an object, got {shown(value)}")
    for key, kind in kinds.items():
        if key not in value:
            raise ValueError(f"{where} must have {key!r}, it has {shown(sorted(value))}")
        if not isinstance(value[key], kind) or isinstance(value[key], bool):
            raise ValueError(f"{where}: {key} must be {_WORDS[kind]}, got {shown(value[key])}")


def semantics(group: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a case that must not change as long as it keeps its id.

    It omits fields with default values, so that a class may get new fields.
    """
    declared = group["encoding"]
    return {
        "surface": group["surface"],
        "encoding": None if declared is None else _minimal(from_dict(declared)),
        "inputs": case["inputs"],
        "truth": case["truth"],
    }


def _minimal(value: Any) -> dict[str, Any]:
    """Return the JSON form of an encoding without fields that are default or follow from others."""
    full, implied = value.to_dict(), value._implied()
    kept = {value.kind: full[value.kind]}
    for field in dataclasses.fields(value):
        own = getattr(value, field.name)
        if isinstance(own, Scaling):
            kept[field.name] = _minimal(own)
        elif field.name not in implied and (
            field.default is dataclasses.MISSING or is_array(own) or own != field.default
        ):
            kept[field.name] = full[field.name]
    return kept


def write(folder: Path, documents: dict[str, Any], header: dict[str, Any]) -> None:
    """Write ``documents``, which are given by file name, and the manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, dict[str, Any]] = {}
    for name, document in documents.items():
        data = (canonical(document) + "\n").encode()
        write_whole(folder / name, data)
        files[name] = {
            "sha256": hashlib.sha256(data).hexdigest(),
            "bytes": len(data),
            "cases": sum(len(group["cases"]) for group in document["groups"]),
        }
    together = "".join(entry["sha256"] for entry in files.values())
    manifest = {**header, "sha256": hashlib.sha256(together.encode()).hexdigest(), "files": files}
    write_whole(folder / MANIFEST, canonical(manifest) + "\n")
