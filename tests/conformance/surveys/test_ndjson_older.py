"""Reports of earlier versions, which lack entries that came later, are read."""

import hashlib
import json

import pytest

from posenc_ref.conformance.surveys.ndjson import NdjsonError, read_ndjson
from tests.conformance.recorded import (
    FOUND,
    batch,
    record,
    record_batch,
    record_verification,
    wrong,
)


def removed(value, name):
    """The value without the entries of this name, at any depth."""
    if isinstance(value, dict):
        return {k: removed(v, name) for k, v in value.items() if k != name}
    return [removed(v, name) for v in value] if isinstance(value, list) else value


def lacking(path, name):
    """The file as an earlier version would have written it, with a digest that fits."""
    *events, footer = [removed(json.loads(line), name) for line in path.read_bytes().splitlines()]
    body = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    footer["digest"] = f"sha256:{hashlib.sha256(body).hexdigest()}"
    path.write_bytes(body + json.dumps(footer).encode() + b"\n")
    return path


KINDS = {
    "check": lambda path: record(path, wrong()),
    "ci": lambda path: record_batch(path, batch()),
    "verify": lambda path: record_verification(path, FOUND),
}


@pytest.mark.parametrize("kind", KINDS)
def test_older_accuracies_make_no_claim_about_smaller_positions(kind, tmp_path):
    path = KINDS[kind](tmp_path / "r.ndjson")
    assert b'"degrades_first"' in path.read_bytes()
    found = read_ndjson(lacking(path, "degrades_first")).result
    one = {
        "check": lambda: found.accuracy,
        "ci": lambda: next(c.report.accuracy for c in found.checked if c.report is not None),
        "verify": lambda: found.outcomes[0],
    }[kind]()
    assert one.degrades_first is False


@pytest.mark.parametrize("name", ["worst", "errors", "degrades_at"])
def test_what_every_version_wrote_is_required(name, tmp_path):
    with pytest.raises(NdjsonError, match=f"must have '{name}'"):
        read_ndjson(lacking(record(tmp_path / "r.ndjson", wrong()), name))
