"""A copy of a few golden vectors, for tests of what `posenc vectors --verify` finds."""

import pytest

from posenc_ref.conformance.vectors.files import MANIFEST, read_json, shipped, write
from posenc_ref.conformance.vectors.verify import verify_vectors

#: A file with real truths and one with integers.
SOME = ("scores.json", "position-ids.json")


@pytest.fixture
def copy(tmp_path):
    """A function that copies two files, changes one of them, renews the digests and verifies."""
    folder = tmp_path / "v0"
    manifest = read_json(shipped() / MANIFEST)
    head = {key: manifest[key] for key in manifest if key not in ("files", "sha256")}

    def change(name=SOME[0], edit=lambda body: None):
        bodies = {n: read_json(shipped() / n) for n in SOME}
        edit(bodies[name])
        write(folder, bodies, head)
        return verify_vectors(folder)

    change.folder = folder
    return change
