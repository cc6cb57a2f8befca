"""The functions that read untrusted data, each with seeds, mutations and its promise."""

import tempfile
from functools import cache
from pathlib import Path

import posenc_ref as pr
from posenc_ref.models.config import described_config
from posenc_ref.models.gguf_metadata import described_metadata
from tests.fuzz import checks, mutate, seeds
from tests.fuzz.engine import Target

PROMISE = "ValueError or TypeError"
FILE = "ValueError that names the file"


def structure(keys):
    """Return a mutation of JSON whose entries may get the names ``keys()``."""
    return lambda rng, value: mutate.changed(rng, value, keys())


@cache
def scratch():
    """Return a folder for the files of this process."""
    return tempfile.TemporaryDirectory(prefix="fuzz-")


def file(name):
    """Return the path of a file in the scratch folder."""
    return Path(scratch().name) / name


def written(name, data):
    """Write a file into the scratch folder and return its path."""
    path = file(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def config(value):
    """Read a configuration, and compute what its encodings need."""
    found = described_config(value, learned=True)
    checks.used(found.model)
    return found


def gguf_metadata(value):
    """Read metadata, and compute what its encodings need."""
    found = described_metadata(value)
    checks.used(found.model)
    return found


def read_value(value):
    """Read an encoding or model, and write it again."""
    found = pr.from_dict(value)
    repr(found)
    found.to_dict()
    return found


TARGETS = {
    "config": Target(
        "configurations", PROMISE, seeds.configurations, structure(seeds.config_keys), config,
        check=checks.config,
    ),
    "gguf-metadata": Target(
        "GGUF metadata", PROMISE, seeds.metadata, structure(seeds.metadata_keys), gguf_metadata,
        check=checks.gguf_metadata,
    ),
    "from-dict": Target(
        "from_dict", PROMISE, seeds.values, structure(seeds.value_keys), read_value,
        check=checks.value,
    ),
}  # fmt: skip
