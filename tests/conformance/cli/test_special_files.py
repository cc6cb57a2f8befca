"""Pipes, devices, foreign file names, and report files of an earlier run."""

import json
import os
import shlex

import pytest
from typer.testing import CliRunner

from posenc_ref._documents import open_regular, read_bytes
from posenc_ref.conformance.cli import app
from posenc_ref.conformance.cli.options import delivery
from posenc_ref.conformance.surveys.ndjson import NdjsonError, read_ndjson
from posenc_ref.conformance.vectors.verify import Verified

ENCODING = """--encoding 'RoPE(8, layout="half")'"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("def f(x, positions):\n    return x\n")
    return tmp_path


def said(line):
    """Run a command; return its exit code and what it printed."""
    run = CliRunner().invoke(app, shlex.split(line))
    assert run.exception is None or isinstance(run.exception, SystemExit), run.exception
    return run.exit_code, run.output


# --- pipes and devices ----------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe with a name")
@pytest.mark.parametrize(
    "line",
    [
        "report {0}",
        "presets {0}",
        "ci {0}",
        "presets llama-2-7b --override @{0}",
        "check a.py:f --encoding @{0}",
        "check a.py:f --preset gpt2 --fact weight=@{0}",
        f"check a.py:f {ENCODING} --ndjson {{0}}",
        f"check a.py:f {ENCODING} --junit {{0}}",
        "check --recorded {0} --encoding ALiBi(8)",
    ],
)
def test_a_pipe_is_refused_at_once(folder, line):
    os.mkfifo(folder / "pipe")
    code, text = said(line.format("pipe"))
    assert code == 2
    assert "pipe is not a regular file" in text


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs a device without end")
def test_a_device_is_refused_before_it_is_read(folder):
    (folder / "link.json").symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=r"link\.json is not a regular file"):
        read_bytes(folder / "link.json", 100)
    with pytest.raises(ValueError, match="not a regular file"), open_regular(folder / "link.json"):
        pass


def test_a_regular_file_is_read_through_a_link(folder):
    (folder / "link.py").symlink_to(folder / "a.py")
    assert read_bytes(folder / "link.py").startswith(b"def f")


# --- reports of an earlier run --------------------------------------------------------------------


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """The report of a complete run."""
    folder = tmp_path_factory.mktemp("earlier")
    (folder / "a.py").write_text("def f(x, positions):\n    return x\n")
    assert said(f"check {folder}/a.py:f {ENCODING} --ndjson {folder}/r.ndjson")[0] == 1
    return (folder / "r.ndjson").read_bytes()


@pytest.mark.parametrize("options", ["", "--expect base", "--timeout 0"])
@pytest.mark.parametrize("target", ["a.py:f", "absent.py:f", "syntax.py:f"])
def test_no_report_of_an_earlier_run_stays(folder, monkeypatch, target, options, earlier):
    (folder / "syntax.py").write_text("def f(\n")
    (folder / "r.ndjson").write_bytes(earlier)
    (folder / "j.xml").write_text("<testsuites></testsuites>")
    assert read_ndjson(folder / "r.ndjson").footer["verdict"]

    def ends(*asked, **other):
        raise KeyboardInterrupt

    if options == "" and target == "a.py:f":  # before the function and the encoding are loaded
        monkeypatch.setattr(delivery, "judged", ends)
    elif target == "a.py:f":
        options += " --encoding nonsense"
    CliRunner().invoke(
        app, shlex.split(f"check {target} {ENCODING} {options} --ndjson r.ndjson --junit j.xml")
    )
    if target == "a.py:f" and not options:
        with pytest.raises(NdjsonError, match="interrupted and has no verdict"):
            read_ndjson(folder / "r.ndjson")
    else:  # a usage error
        assert not (folder / "r.ndjson").exists()
    assert "<error" in (folder / "j.xml").read_text(encoding="utf-8")


def test_no_report_of_an_earlier_manifest_stays(folder):
    path = folder / "posenc.toml"
    path.write_text("[[check]]\ntarget = 'a.py:f'\nencoding = 'ALiBi(8)'\n")
    said("ci --ndjson r.ndjson --junit j.xml")
    assert read_ndjson(folder / "r.ndjson").footer["verdicts"]
    path.write_text("[[check")
    assert said("ci --ndjson r.ndjson --junit j.xml")[0] == 2
    assert not (folder / "r.ndjson").exists()
    assert "is not TOML" in (folder / "j.xml").read_text(encoding="utf-8")


# --- what foreign files say -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "encoding = '@/etc/passwd'",
        "encoding = '@../secret.json'",
        "encoding = '@C:\\secret.json'",
        "preset = 'gpt2'\nfact = ['weight=@../rows.npy']",
        "config = 'models/../../config.json'",
        "config = '..\\config.json'",
        "preset = 'gpt2'\noverride = '@/etc/passwd'",
    ],
)
def test_a_manifest_names_data_of_its_folder_only(folder, line):
    (folder / "posenc.toml").write_text(f"[[check]]\ntarget = 'a.py:f'\n{line}\n")
    code, text = said("ci")
    assert code == 2
    assert "must name a file in the manifest's folder" in text


@pytest.mark.parametrize("content", ["user:x:0\nsecret", "[secret", "secret(1)", '["secret"]'])
@pytest.mark.parametrize(
    "line", ["check a.py:f --encoding @data", "presets llama-2-7b --override @data"]
)
def test_an_error_does_not_print_a_file(folder, line, content):
    (folder / "data").write_text(content)
    code, text = said(line)
    assert code == 2
    assert "data" in text
    assert "secret" not in text


def test_no_line_of_a_message_is_foreign(folder):
    name = "a\nCONFORMS  f"
    (folder / "n.json").write_text(json.dumps({"encoding": name}))
    for arguments in (
        ["check", "a.py:f", "--config", f"{name}.json"],
        ["check", "a.py:f", "--encoding", "@n.json"],
        ["check", "a.py:f", "--encoding", f"@{name}"],
        ["ci", name],
        ["report", name],
        ["vectors", name],
        ["presets", "llama-2-7b", "--override", json.dumps([name])],
    ):
        run = CliRunner().invoke(app, arguments)
        assert run.exit_code == 2
        assert all(line.startswith("  ") for line in run.output.splitlines()[1:])
    found = str(Verified(name, problems=[f"{name}: not in MANIFEST.json"]))
    assert not any(text.startswith("CONFORMS") for text in found.splitlines())
