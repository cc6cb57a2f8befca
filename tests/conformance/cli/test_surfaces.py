"""Surfaces on the command line: of no encoding, of whole models, and their help."""

import numpy as np
import pytest
from typer.testing import CliRunner

from posenc_ref.conformance import SURFACES, check
from posenc_ref.conformance.cli import app

FILE = """
import numpy as np
import posenc_ref as pr

def packed(lengths):
    return pr.packed(lengths)

def packed_wrongly(lengths):
    return np.arange(lengths.sum())

def scale():
    return pr.softmax_scale(pr.preset("deepseek-v3"))

def all_layers(n_layers):
    return [True] * n_layers

def logits(q, k):
    model = pr.preset("deepseek-v3")
    at = np.arange(k.shape[2])
    return model.scores(None, q, k, at[k.shape[2] - q.shape[2]:], at)

def unscaled_logits(q, k):
    at = np.arange(k.shape[2])
    return pr.scores(pr.preset("deepseek-v3").only, q, k, at[k.shape[2] - q.shape[2]:], at)
"""


FILE += """
def ids(tokens):
    real = tokens != 1
    return np.where(real, np.cumsum(real, axis=-1) + 1, 1)

def ids_from_zero(tokens):
    return np.broadcast_to(np.arange(tokens.shape[-1]), tokens.shape)

def bucket(r):
    return pr.T5Bias(np.zeros((32, 1))).bucket(r)

def slopes(n):
    return pr.ALiBi(n).slopes()

def rows(p):
    return np.float32(np.load("wpe.npy"))[p]
"""


@pytest.fixture
def posenc(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).standard_normal((1024, 8))
    np.save(tmp_path / "wpe.npy", rows.astype(np.float32))
    (tmp_path / "mine.py").write_text(FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        result = CliRunner().invoke(app, [*map(str, arguments)])
        return result.exit_code, result.output

    return run


@pytest.mark.parametrize(
    ("target", "options", "code", "said"),
    [
        ("packed", ["--surface", "packed"], 0, "declared  posenc_ref.packed"),
        ("packed_wrongly", ["--surface", "packed"], 1, "error: packing: documents do not start"),
        ("scale", ["--surface", "softmax_scale", "--preset", "deepseek-v3"], 0, "CONFORMS"),
        (
            "all_layers",
            ["--surface", "layers", "--preset", "qwen3-next-80b-a3b"],
            1,
            "error: layer-schedule: every layer has a positional encoding",
        ),
        ("logits", ["--surface", "scores", "--preset", "deepseek-v3"], 0, "CONFORMS"),
        (
            "unscaled_logits",
            ["--surface", "scores", "--preset", "deepseek-v3"],
            1,
            "error: softmax-scale: ",
        ),
        ("ids", ["--surface", "ids_from_tokens", "--preset", "roberta"], 0, "CONFORMS"),
        (
            "ids",
            [
                "--surface",
                "ids_from_tokens",
                "--encoding",
                '{"encoding": "Learned", "padding_idx": 1}',
            ],
            0,
            "CONFORMS",
        ),
        (
            "ids_from_zero",
            ["--surface", "ids_from_tokens", "--preset", "roberta"],
            1,
            "error: padding: positions are 0 .. S-1",
        ),
        (
            "bucket",
            ["--surface", "bucket", "--preset", "t5", "--layer-type", "encoder"],
            0,
            "CONFORMS",
        ),
        (
            "slopes",
            ["--surface", "slopes", "--preset", "bloom", "--fact", "num_heads=12"],
            0,
            "CONFORMS",
        ),
        ("slopes", ["--surface", "slopes", "--preset", "bloom"], 2, "pass num_heads="),
        (
            "slopes",
            ["--surface", "slopes", "--preset", "bloom", "--fact", "12"],
            2,
            "--fact must be NAME=VALUE",
        ),
        (
            "rows",
            ["--surface", "table", "--preset", "gpt-2", "--fact", "weight=@wpe.npy"],
            0,
            "CONFORMS",
        ),
        (
            "rows",
            ["--surface", "table", "--preset", "gpt-2", "--fact", "weight=@mine.py"],
            2,
            "cannot be read as an array",
        ),
        ("packed", ["--surface", "packed", "--fact", "a=1"], 2, "--fact needs --preset"),
        ("packed", ["--surface", "rows"], 2, "the expected encoding is missing"),
        (
            "packed",
            ["--surface", "packed", "--preset", "deepseek-v3"],
            2,
            "surface 'packed' is for functions without an encoding, got RoPE",
        ),
    ],
)
def test_check(posenc, target, options, code, said):
    found, text = posenc("check", f"mine.py:{target}", *options)
    assert found == code, text
    assert said in text


@pytest.mark.nightly
def test_every_surface_says_how_it_calls(posenc):
    for surface, row in SURFACES.items():
        code, text = posenc("explain", surface)
        assert code == 0
        assert row.call[:20] in text
        assert f"``{surface}``" in check.__doc__
    assert "ALiBi slopes differ" in posenc("explain", "slopes")[1]  # a code of that name as well
    assert "posenc explain SURFACE" in posenc("check", "--help")[1]
    assert "did you mean" in posenc("explain", "key_cash")[1]


def test_a_function_of_torch_tensors_is_found_by_its_module(tmp_path, posenc):
    code = "import torch\n\ndef ids(mask):\n    return mask.long().cumsum(-1){}\n"
    (tmp_path / "right.py").write_text(code.format(" - 1"), encoding="utf-8")
    (tmp_path / "wrong.py").write_text(code.format(""), encoding="utf-8")
    exit_code, said = posenc("check", "right.py:ids", "--surface", "position_ids")
    assert exit_code == 0
    assert "(position_ids, torch, float32)" in said
    exit_code, said = posenc("check", "wrong.py:ids", "--surface", "position_ids")
    assert exit_code == 1
    assert "real tokens are counted from 1" in said


GRIDS = """
from posenc_ref import Sinusoidal2D, relative_index

def rows_of_patches(h, w, dim=16):
    return Sinusoidal2D(16).grid(h, w)

def index(wh, ww):
    return relative_index((wh, ww))
"""


def test_a_function_of_height_and_width_is_a_grid(tmp_path, capsys):
    """The message told to write a table of positions, which no function of a grid can be."""
    path = tmp_path / "mine.py"
    path.write_text(GRIDS)
    with pytest.raises(SystemExit) as ended:
        app(["check", f"{path}:rows_of_patches", "--encoding", "Sinusoidal2D(16)"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert "(grid, numpy, float32)" in said


def test_a_stated_surface_with_other_arguments_is_said(tmp_path, capsys):
    """The message told to write a rotation, and to pass the number of axes."""
    path = tmp_path / "mine.py"
    path.write_text(GRIDS)
    with pytest.raises(SystemExit) as ended:
        app(["check", f"{path}:index", "--surface", "relative_index"])
    said = " ".join(capsys.readouterr().err.split())
    assert ended.value.code == 2
    assert "does not take the arguments of surface 'relative_index': fn((height, width))" in said
    assert "rotate" not in said
