"""Read and write a folder of vectors: its files, its manifest and their cases."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posenc_ref import Scaling, from_dict
from posenc_ref._namespace import is_array
from posenc_ref.conformance.exact.bits import canonical
from posenc_ref.conformance.harness.whole import write_whole

#: The version of the format, which also names its folder and its schema.
VERSION = "v0"
SCHEMA = f"posenc-vectors-{VERSION}"
MANIFEST = "MANIFEST.json"


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
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error


def cases_of(document: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield every (group, case) of a file."""
    for group in document["groups"]:
        for case in group["cases"]:
            yield group, case


def all_cases(folder: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield every (file, group, case) of a folder, in the order of its manifest."""
    for name in read_json(folder / MANIFEST)["files"]:
        for group, case in cases_of(read_json(folder / name)):
            yield name, group, case


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
    listed: dict[str, dict[str, Any]] = {}
    for name, document in documents.items():
        data = (canonical(document) + "\n").encode()
        write_whole(folder / name, data)
        listed[name] = {
            "sha256": hashlib.sha256(data).hexdigest(),
            "bytes": len(data),
            "cases": sum(1 for _ in cases_of(document)),
        }
    together = "".join(entry["sha256"] for entry in listed.values())
    manifest = {**header, "sha256": hashlib.sha256(together.encode()).hexdigest(), "files": listed}
    write_whole(folder / MANIFEST, canonical(manifest) + "\n")
