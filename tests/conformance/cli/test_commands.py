"""The command `posenc`: exit codes, what it prints, and what it says to mistaken users."""

import importlib
import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from posenc_ref.conformance import CODES, Report, cli
from posenc_ref.conformance.cli.options.loading import _package_of

MINE = """
import numpy as np

BASE = 500000.0


def angles(positions, dim, base=BASE):
    frequencies = (base ** (-np.arange(0, dim, 2) / dim)).astype(np.float32)
    angle = positions[..., None].astype(np.float32) * frequencies
    return angle if positions.ndim == 1 else angle[:, None]


def turn(x, angle):
    cos, sin = np.cos(angle), np.sin(angle)
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def half(x, positions):
    return turn(x, angles(positions, x.shape[-1]))


def backwards(x, positions):
    return turn(x, -angles(positions, x.shape[-1]))


def default_base(x, positions):
    return turn(x, angles(positions, x.shape[-1], 10000.0))


def narrow(x, positions):
    dim = x.shape[-1]
    bits = (BASE ** (-np.arange(0, dim, 2) / dim)).astype(np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)
    return turn(x, positions[:, None].astype(np.float32) * rounded)


def complex_multiply(x, positions):
    dim = x.shape[-1]
    turns = np.exp(1j * np.outer(positions, BASE ** (-np.arange(0, dim, 2) / dim)))
    z = (x[..., : dim // 2] + 1j * x[..., dim // 2 :]) * turns
    return np.concatenate([z.real, z.imag], axis=-1).astype(x.dtype)


def dense_matrices(x, positions):
    dim = x.shape[-1]
    angle = np.outer(positions, BASE ** (-np.arange(0, dim, 2) / dim))
    k = np.arange(dim // 2)
    matrix = np.zeros((len(positions), dim, dim))
    matrix[:, k, k] = matrix[:, k + dim // 2, k + dim // 2] = np.cos(angle)
    matrix[:, k + dim // 2, k] = np.sin(angle)
    matrix[:, k, k + dim // 2] = -np.sin(angle)
    return np.einsum("sij,bhsj->bhsi", matrix, x).astype(x.dtype)


def exponential_of_logarithm(x, positions):
    dim = x.shape[-1]
    step = np.float32(-np.log(BASE) / (dim // 2))
    frequencies = np.exp(np.arange(dim // 2, dtype=np.float32) * step)
    return turn(x, positions[:, None].astype(np.float32) * frequencies)


def few(x, positions):
    if positions.max() > 9:
        raise ValueError("refused")
    return half(x, positions)


class Table:
    def __call__(self, x, positions):
        return half(x, positions)

    @staticmethod
    def static(x, positions):
        return half(x, positions)


table = Table()


class Layer:
    def __call__(self, q, k, v, q_positions, k_positions):
        logits = half(q, q_positions) @ np.swapaxes(half(k, k_positions), -1, -2) / 4
        seen = k_positions <= np.asarray(q_positions)[:, None]
        weights = np.where(seen, np.exp(logits - logits.max(-1, keepdims=True)), 0)
        return (weights / weights.sum(-1, keepdims=True)) @ v


layer = Layer()
"""
HALF = {"encoding": "RoPE", "head_dim": 16, "layout": "half", "base": 500000.0}


@pytest.fixture
def posenc(tmp_path, monkeypatch):
    """Run the command in a folder with a user's file in it."""
    (tmp_path / "users_rope.py").write_text(MINE, encoding="utf-8")
    (tmp_path / "half.json").write_text(json.dumps(HALF), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "users_rope", raising=False)
    return lambda *arguments: CliRunner().invoke(cli.app, arguments)


def check(posenc, function, *arguments, encoding=HALF):
    return posenc(
        "check", f"users_rope.py:{function}", "--encoding", json.dumps(encoding), *arguments
    )


@pytest.mark.parametrize(
    "function",
    ["half", "complex_multiply", "dense_matrices", "exponential_of_logarithm", "table"],
)
def test_a_correct_function_conforms(posenc, function):
    result = check(posenc, function)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"CONFORMS  users_rope.py:{function}")


def test_an_object_that_takes_what_the_surface_passes_needs_no_convention(posenc):
    result = check(posenc, "layer", "--surface", "attention")
    assert result.exit_code == 1, result.output  # its heads are not grouped
    assert result.stdout.startswith("DEVIATES  users_rope.py:layer  (attention")
    assert "B, H, H_kv, Q, K = 4, 12, 4, 2, 5: refused" in result.stdout


@pytest.mark.parametrize(
    ("function", "changes", "code", "printed"),
    [
        ("half", {"layout": "interleaved"}, "layout", ["half", "interleaved"]),
        ("backwards", {}, "sign", []),
        ("default_base", {}, "base", ["10000", "500000"]),
        ("narrow", {}, "angle-precision", ["bfloat16"]),
    ],
)
def test_a_mistake_is_named(posenc, function, changes, code, printed):
    result = check(posenc, function, encoding=HALF | changes)
    assert result.exit_code == 1, result.output
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: {code}: ")
    assert [word for word in printed if word not in line] == []


def test_a_check_that_judged_too_little_is_inconclusive(posenc, monkeypatch):
    def check_nothing(fn, encoding, surface, *, name, **settings):
        return Report(name, surface, repr(encoding), "numpy", "float32", required=("values",))

    module = importlib.import_module("posenc_ref.conformance.check")
    monkeypatch.setattr(module, "check", check_nothing)
    result = check(posenc, "half")
    assert result.exit_code == 3, result.output
    assert result.stdout.startswith("INCONCLUSIVE")


def test_limits_are_accepted_if_that_is_asked_for(posenc):
    result = check(posenc, "few")
    assert (result.exit_code, "--accept-limits" in result.stdout) == (3, True), result.output
    assert check(posenc, "few", "--accept-limits").exit_code == 0


def test_the_report_as_json(posenc):
    result = check(posenc, "default_base", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["verdict"] == "deviates"
    assert [f["code"] for f in report["findings"]] == ["base"]


def test_an_encoding_from_a_file_and_targets_of_other_kinds(posenc):
    assert posenc("check", "users_rope:half", "--encoding", "@half.json").exit_code == 0
    assert posenc("check", "users_rope:Table.static", "--encoding", "@half.json").exit_code == 0


def test_a_package_is_found_from_the_folder_that_holds_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    package = tmp_path / "alone"
    package.mkdir()
    assert _package_of(package / "rope.py") == ""
    assert str(tmp_path) not in sys.path
    (package / "__init__.py").touch()
    assert _package_of(package / "rope.py") == "alone.rope"
    assert sys.path[0] == str(tmp_path)


def test_a_file_of_a_package_may_import_its_neighbours(posenc, tmp_path):
    package = tmp_path / "neighbourly" / "layers"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "turning.py").write_text(MINE, encoding="utf-8")
    (package / "rope.py").write_text("from ..layers.turning import half\n", encoding="utf-8")
    result = posenc("check", f"{package / 'rope.py'}:half", "--encoding", "@half.json")
    assert result.exit_code == 0, result.output


def test_properties_alone(posenc):
    assert posenc("check", "users_rope.py:half", "--head-dim", "16").exit_code == 0


def test_a_bucket_needs_no_table(posenc, tmp_path):
    (tmp_path / "buckets.py").write_text("def bucket(r):\n    return 0 * r\n", encoding="utf-8")
    result = posenc(
        "check", "buckets.py:bucket", "--surface", "bucket", "--encoding", '{"encoding": "T5Bias"}'
    )
    assert result.exit_code == 1, result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["users_rope.py", "--encoding", "@half.json"], "file.py:function"),
        (["users_ropes.py:half", "--encoding", "@half.json"], "did you mean users_rope.py?"),
        (["users_rope.py:halve", "--encoding", "@half.json"], "did you mean half"),
        (["users_rope.py:BASE", "--encoding", "@half.json"], "not a function"),
        (["no.such:thing", "--encoding", "@half.json"], "no/such.py"),
        (["broken.py:half", "--encoding", "@half.json"], "NameError"),
        (["broken.py:half", "--encoding", "@half.json"], "(line 2)"),
        (["on_torch.py:half", "--encoding", "@half.json"], '; pip install "posenc-ref[torch]"'),
        (["users_rope.py:half"], "the expected encoding is missing"),
        (["users_rope.py:half", "--encoding", "@halves.json"], "did you mean half.json?"),
        (["users_rope.py:half", "--encoding", "{encoding: RoPE}"], "is not JSON"),
        (["users_rope.py:half", "--encoding", "[1]"], "must be a JSON object"),
        (["users_rope.py:half", "--encoding", '{"encoding": "Ropee"}'], "did you mean RoPE"),
        (["users_rope.py:half", "--encoding", '{"head_dim": 64}'], "must name its class"),
        (["users_rope.py:half", "--encoding", '{"encoding": "RoPE"}'], "head_dim"),
        (
            ["users_rope.py:half", "--encoding", json.dumps(HALF | {"layout": "neox"})],
            "use 'half', which some libraries call 'neox'",
        ),
        (["users_rope.py:half", "--encoding", "@half.json", "--surface", "bias"], "'bias'"),
        (["users_rope.py:half", "--encoding", "@half.json", "--dtype", "int8"], "float32"),
        (["users_rope.py:half", "--encoding", "@half.json", "--backend", "numpi"], "numpy"),
    ],
)
def test_a_usage_error_teaches(posenc, tmp_path, monkeypatch, arguments, said):
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "on_torch.py").write_text("import torch\n", encoding="utf-8")
    (tmp_path / "broken.py").write_text("\nhalf = whole / 2\n", encoding="utf-8")
    result = posenc("check", *arguments)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_explain(posenc):
    result = posenc("explain", "angle-precision")
    assert result.exit_code == 0
    assert CODES["angle-precision"].meaning in " ".join(result.stdout.split())
    assert "theta_k = base" in posenc("explain", "rope").stdout
    assert posenc("explain", "gpt-neox").stdout == posenc("explain", "rope").stdout
    everything = posenc("explain").stdout
    assert [name for name in (*CODES, "RoPE", "T5Bias") if name not in everything] == []


@pytest.mark.parametrize(
    ("name", "near"), [("layuot", "layout"), ("precision", "table-precision"), ("ropee", "RoPE")]
)
def test_explain_lists_near_names(posenc, name, near):
    result = posenc("explain", name)
    assert result.exit_code == 2
    assert near in result.stderr


@pytest.mark.parametrize("name", CODES)
def test_every_explanation_fits_one_screen(posenc, name):
    text = posenc("explain", name).stdout  # a surface or scaling of that name comes first
    lines = text[text.rindex(f"{name}\n  meaning") :].splitlines()
    assert 3 < len(lines) <= 24
    assert max(map(len, lines)) <= 88


@pytest.mark.nightly
def test_accuracy(posenc):
    result = posenc("accuracy", "--json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert rows
    assert all(row["passed"] for row in rows)


@pytest.mark.parametrize("command", [[], ["verify"], ["check"], ["explain"], ["accuracy"]])
def test_help(posenc, command):
    result = posenc(*command, "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.stdout
    assert not command or "Example" in result.stdout


def test_the_version(posenc):
    import posenc_ref

    assert posenc_ref.__version__ in posenc("--version").stdout


VERIFY = ["verify", "--only", "numpy learned float32", "--dtype", "float32", "--processes", "0"]


def on_a_terminal(*arguments, **environment):
    """Run `posenc` with a pseudo-terminal for standard output."""
    pty = pytest.importorskip("pty", reason="pseudo-terminals are for Unix")
    mine, theirs = pty.openpty()
    settings = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    with os.fdopen(mine, "rb", buffering=0) as screen:
        with os.fdopen(theirs, "wb") as stdout:
            process = subprocess.Popen(
                [sys.executable, "-m", "posenc_ref.conformance", *arguments],
                stdout=stdout,
                stderr=subprocess.PIPE,
                env=settings | {"TERM": "xterm", "COLUMNS": "200"} | environment,
            )
        text = b""
        try:
            while block := screen.read(4096):
                text += block
        except OSError:  # Linux says EIO where the other end is closed
            pass
        assert process.wait() == 0, process.stderr.read()
        process.stderr.close()
    return text.decode()


def test_colours_on_a_terminal():
    text = on_a_terminal(*VERIFY)
    assert "\x1b[" in text
    assert "equal" in text


def test_no_colours_where_none_are_wanted():
    text = on_a_terminal(*VERIFY, NO_COLOR="1")
    assert "\x1b" not in text
    assert "equal" in text


def test_a_pipe_gets_plain_text_and_the_progress_apart():
    command = [sys.executable, "-m", "posenc_ref.conformance", *VERIFY]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0
    first, *others = run.stderr.splitlines()
    assert first == "posenc verify: starting"
    assert [line for line in others if " parts done after " not in line] == []
    assert "\x1b" not in run.stdout + run.stderr
    assert run.stdout.startswith("posenc_ref on array libraries")


def test_a_wrong_dtype_or_pattern_of_verify(posenc):
    result = posenc("verify", "--dtype", "int8")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "float32" in result.stderr
    result = posenc("verify", "--only", "no such thing")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no such thing" in result.stderr


def test_verify_as_json(posenc):
    result = posenc(*VERIFY, "--json")
    assert result.exit_code == 0
    body = json.loads(result.stdout)
    assert body["counts"]["conforms"] == 1
    (outcome,) = body["outcomes"]
    assert (outcome["label"], outcome["dtype"]) == ("Learned", "float32")
