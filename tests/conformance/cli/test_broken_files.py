"""A file that cannot be read ends a command with exit code 2 and a message that names the file."""

import json
import zipfile

import numpy as np
import pytest
from typer.testing import CliRunner

from posenc_ref.conformance.cli import app
from posenc_ref.conformance.recordings import numpy_files
from tests.night import by_day

#: Bytes that an archive may unpack to in these tests.
UNPACKED = 2**22

BROKEN = {
    "nothing": b"",
    "brackets": b"[" * 100_000,
    "digits": b"1" * 5000,
    "no text": b"\xff\xfe\x00\x01" * 20,
    "another object": b'{"model_type": 3, "files": 3, "groups": [[]]}',
}
#: Commands that read a file, with the name that it has.
COMMANDS = {
    "check --config": ("config.json", "check a.py:f --config {}"),
    "presets": ("config.json", "presets {}"),
    "plan": ("config.json", "plan {} --length 8192"),
    "diff": ("config.json", "diff {} llama-2-7b"),
    "gguf": ("model.gguf", "presets {}"),
    "encoding": ("encoding.json", "check a.py:f --encoding @{}"),
    "override": ("override.json", "presets llama-2-7b --override @{}"),
    "report": ("report.ndjson", "report {}"),
    "ci": ("posenc.toml", "ci {}"),
    "vectors": ("MANIFEST.json", "vectors {folder}"),
    "npz": ("recorded.npz", "check --recorded {} --encoding ALiBi(8)"),
    "safetensors": ("recorded.safetensors", "identify --recorded {}"),
    "onnx": ("model.onnx", "identify {}"),
    "convert": ("model.safetensors", "convert {} {folder}/out --from half --to interleaved"),
}
ALLOWED = ("override", "another object")  # which then breaks the model
CASES = [(command, how) for command in COMMANDS for how in BROKEN if (command, how) != ALLOWED]
DAY = [(command, [*BROKEN][n % len(BROKEN)]) for n, command in enumerate(COMMANDS)]


@pytest.mark.parametrize("case", by_day(CASES, DAY), ids=" ".join)
def test_a_broken_file_is_named(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, how = case
    name, line = COMMANDS[command]
    (tmp_path / "a.py").write_text("def f(x, positions):\n    return x\n")
    path = tmp_path / name
    path.write_bytes(BROKEN[how])
    arguments = [word.format(path, folder=tmp_path) for word in line.split()]
    run = CliRunner().invoke(app, arguments)
    assert run.exit_code == 2, (run.exit_code, run.output, run.exception)
    assert name in run.output
    assert len(run.output) < 2000


def test_an_archive_that_unpacks_to_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(numpy_files, "UNPACKED", UNPACKED)
    path = tmp_path / "bomb.npz"
    header = {"descr": "|u1", "fortran_order": False, "shape": (UNPACKED,)}
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("q_before.npy", "w") as file,
    ):
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(UNPACKED >> 20):
            file.write(bytes(1 << 20))
    assert path.stat().st_size < 2**14
    line = ["check", "--recorded", str(path), "--encoding", "ALiBi(8)"]
    run = CliRunner().invoke(app, line)
    assert run.exit_code == 2
    assert f"bomb.npz must not unpack to {UNPACKED + 128} bytes" in run.output


@pytest.mark.parametrize("name", ["../secret.json", "/etc/hostname", "a/b.json", "..", "a\0b"])
def test_a_manifest_names_files_of_its_folder_only(tmp_path, name):
    folder = tmp_path / "vectors"
    folder.mkdir()
    (tmp_path / "secret.json").write_text('{"groups": []}')
    files = {name: {"sha256": "0" * 64, "bytes": 1, "cases": 1}}
    (folder / "MANIFEST.json").write_text(json.dumps({"files": files}))
    run = CliRunner().invoke(app, ["vectors", str(folder)])
    assert run.exit_code == 2
    assert "MANIFEST.json must name files of its own folder" in run.output
