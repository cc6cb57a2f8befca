"""The functions that read untrusted data, each with seeds, mutations and its promise."""

import tempfile
from functools import cache
from pathlib import Path

import typer

import posenc_ref as pr
from posenc_ref.conformance.adapters import from_gguf
from posenc_ref.conformance.cli.options.loading import UsageError, load_encoding
from posenc_ref.conformance.cli.options.manifest import Keys, read_manifest
from posenc_ref.conformance.external.wire import WireError, outcome, read_answer
from posenc_ref.conformance.graphs.load import load_onnx
from posenc_ref.conformance.recordings.judge import check_recorded_file
from posenc_ref.conformance.surveys.ndjson import read_ndjson
from posenc_ref.conformance.vectors import load_vectors
from posenc_ref.conformance.vectors.verify import verify_vectors
from posenc_ref.conformance.weights.checkpoint import open_checkpoint
from posenc_ref.models.config import described_config
from posenc_ref.models.gguf_metadata import described_metadata
from tests.fuzz import calls, checks, independent, mutate, seeds
from tests.fuzz.engine import Target
from tests.fuzz.mutate_calls import calls as of_calls

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


def vectors(documents):
    """Load and verify a folder of golden vectors, and read every array."""
    for name in ("few.json", "MANIFEST.json"):
        written(f"vectors/{name}", mutate.dumped(documents.get(name)))
    folder = file("vectors")
    found = verify_vectors(folder)
    str(found)
    for case in load_vectors(folder=folder):
        assert case.encoding is None or case.inputs is not case.truth
    return found


def report(lines):
    """Read a recorded report whose digest agrees, and show it."""
    read = read_ndjson(written("report.ndjson", seeds.sealed(lines)))
    checks.shown_report(read)
    return read


def report_bytes(data):
    """Read a recorded report."""
    return read_ndjson(written("report.ndjson", data))


def recording(given):
    """Judge recorded tensors."""
    suffix, data = given
    if suffix == ".npy":
        written("folder/q_before.npy", data)
        written("folder/q_after.npy", data)
        path = file("folder")
    else:
        path = written(f"recording{suffix}", data)
    return check_recorded_file(path, pr.RoPE(8, layout="half"))


def of_bytes(rng, given):
    """Change the bytes of a file with a suffix."""
    suffix, data = given
    return suffix, mutate.changed_bytes(rng, data)


def gguf_file(data):
    """Read the encoding in a GGUF file."""
    model = from_gguf(written("model.gguf", data))
    checks.used(model)
    return model


def checkpoint(given):
    """Open a checkpoint."""
    suffix, data = given
    return open_checkpoint(written(f"checkpoint{suffix}", data))


def config_file(data):
    """Read a config.json."""
    return described_config(written("config.json", data), learned=True)


def ci_manifest(data):
    """Read a manifest of posenc ci."""
    return read_manifest(written("posenc.toml", data), _keys())


@cache
def _keys():
    from posenc_ref.conformance.cli import app

    return Keys.of(typer.main.get_command(app).commands["check"])


def onnx_model(data):
    """Find the positional encodings in an ONNX model."""
    return load_onnx(written("model.onnx", data))


def override(changes):
    """Read a configuration after an override."""
    return described_config(seeds.overridden(), override=changes)


def answer(data):
    """Read the answer of a program."""
    return outcome(read_answer(data, 1))


def declaration(text):
    """Read a declaration of the command line."""
    return load_encoding(text)


def of_text(rng, text):
    """Change a text as its bytes."""
    return mutate.changed_bytes(rng, text.encode()).decode("utf-8", "surrogateescape")


def named(name):
    """Return what a message must have: the path of a file."""
    return lambda: str(file(name))


changed_bytes = mutate.changed_bytes


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
    "vectors": Target(
        "golden vectors", "ValueError or TypeError; verify lists problems", seeds.vectors,
        structure(seeds.vector_keys), vectors,
    ),
    "reports": Target(
        "recorded reports", FILE, seeds.reports, structure(seeds.report_keys), report,
        mentions=named("report.ndjson"),
    ),
    "report-bytes": Target(
        "recorded reports, bytes", FILE, lambda: [seeds.sealed(r) for r in seeds.reports()],
        changed_bytes, report_bytes, mentions=named("report.ndjson"),
    ),
    "recordings": Target(
        "recorded tensors", FILE, seeds.recordings, of_bytes, recording,
        mentions=lambda: scratch().name,
    ),
    "gguf-files": Target(
        "GGUF files", FILE, seeds.gguf_files, changed_bytes, gguf_file,
        mentions=named("model.gguf"),
    ),
    "checkpoints": Target(
        "checkpoints", FILE,
        lambda: [(".gguf", f) for f in seeds.gguf_files()] + seeds.recordings()[1:2], of_bytes,
        checkpoint, mentions=named("checkpoint"),
    ),
    "config-files": Target(
        "config.json, bytes", FILE,
        lambda: [mutate.dumped(c) for c in seeds.configurations()],
        changed_bytes, config_file, mentions=named("config.json"),
    ),
    "manifests": Target(
        "posenc.toml", "UsageError that names the file", seeds.manifests, changed_bytes,
        ci_manifest,
        (UsageError,), mentions=named("posenc.toml"),
    ),
    "onnx": Target(
        "ONNX models", FILE, seeds.onnx_files, changed_bytes, onnx_model,
        mentions=named("model.onnx"),
    ),
    "overrides": Target(
        "--override", PROMISE, seeds.overrides, structure(seeds.config_keys), override,
    ),
    "answers": Target(
        "answers of programs", "WireError", seeds.answers, changed_bytes, answer, (WireError,),
    ),
    "declarations": Target(
        "--encoding", "UsageError", seeds.texts, of_text, declaration, (UsageError,),
    ),
    "constructors": Target(
        "constructors", PROMISE, calls.constructors, of_calls(seeds.value_keys, calls.constructors),
        calls.construct, check=independent.constructed,
    ),
    "methods": Target(
        "methods", PROMISE, calls.methods, of_calls(seeds.value_keys, calls.methods),
        calls.method, check=independent.method,
    ),
    "functions": Target(
        "functions", PROMISE, calls.functions, of_calls(seeds.value_keys, calls.functions),
        calls.function, check=independent.function,
    ),
    "fused": Target(
        "`fused`", PROMISE, calls.fused, of_calls(seeds.value_keys, calls.fused),
        calls.fast, check=independent.fast,
    ),
}  # fmt: skip
