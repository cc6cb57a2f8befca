"""Encodings, presets and facts as people write them: in Python's words, without case, in parts."""

import json
import sys

import pytest
from typer.testing import CliRunner

import posenc_ref
from posenc_ref import Llama3Scaling, MultiAxisRoPE, RoPE, YaRN, preset
from posenc_ref.conformance.cli import app
from posenc_ref.conformance.cli.options.loading import UsageError, load_encoding
from posenc_ref.conformance.cli.options.models import load_model
from posenc_ref.conformance.guide.names import encodings, scalings
from posenc_ref.conformance.registry import entries

FILE = """
import numpy as np

def turn(x, p, base=10000.0, pairs=None):
    x1, x2 = (x[..., 0::2], x[..., 1::2]) if pairs else np.split(x, 2, -1)
    d = x.shape[-1]
    a = np.asarray(p, float)[:, None] * base ** (-np.arange(0, d, 2) / d)
    c, s = np.cos(a), np.sin(a)
    y = x1 * c - x2 * s, x2 * c + x1 * s
    if pairs == "pairs":
        return np.stack(y, -1).reshape(x.shape).astype(x.dtype)
    return np.concatenate(y, -1).astype(x.dtype)

def half(x, p):
    return turn(x, p)

def far(x, p):
    return turn(x, p, 1e6)

def near(x, p):
    return turn(x, p, 10000.0)

def read_pairs_write_halves(x, p):
    return turn(x, p, pairs="halves")
"""


@pytest.fixture
def posenc(tmp_path, monkeypatch):
    (tmp_path / "port_of_it.py").write_text(FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*arguments):
        result = CliRunner().invoke(app, [*map(str, arguments)])
        return result.exit_code, result.output

    return run


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('RoPE(64, layout="half")', RoPE(64, layout="half")),
        ("rope(head_dim=64, layout='half', base=5e5)", RoPE(64, layout="half", base=500000.0)),
        ("posenc_ref.RoPE(64, layout='half', sign=-1)", RoPE(64, layout="half", sign=-1)),
        (
            " RoPE(128, layout='half',\n base=500000, scaling=llama3scaling(8.0, 1.0, 4.0, 8192))",
            RoPE(128, layout="half", base=5e5, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)),
        ),
        (
            "RoPE(64, layout='half', base=150000.0, scaling=YaRN(32.0, 4096, truncate=False))",
            RoPE(64, layout="half", base=150000.0, scaling=YaRN(32.0, 4096, truncate=False)),
        ),
        (
            "MultiAxisRoPE(128, sections=[16, 24, 24], layout='half', base=1e6)",
            MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6),
        ),
        ('{"encoding": "rope", "head_dim": 64, "layout": "half"}', RoPE(64, layout="half")),
    ],
)
def test_an_encoding_as_people_write_it(text, expected):
    assert load_encoding(text) == expected


def test_every_encoding_and_scaling_is_read_back_from_its_repr():
    """Learned arrays have no repr that can be read; all other examples have one."""
    read = set()
    for entry in entries():
        for example in entry.examples.values():
            if "<" not in repr(example) and ", ..." not in repr(example):
                assert load_encoding(repr(example)) == example
                read.add(type(example))
    assert {posenc_ref.RoPE, posenc_ref.MultiAxisRoPE, posenc_ref.ALiBi} < read
    assert {c.__name__ for c in scalings()} >= {"YaRN", "DynamicNTK", "LongRoPE"}
    for cls in (YaRN(4.0, 4096), Llama3Scaling(8.0, 1.0, 4.0, 8192)):
        encoding = RoPE(64, layout="half", scaling=cls)
        assert load_encoding(repr(encoding).lower().replace("'half'", "'HALF'".lower())) == encoding
    assert len(encodings()) > 30


def test_nothing_is_evaluated(tmp_path):
    for text in (
        "RoPE(__import__('os').getpid(), layout='half')",
        "RoPE(open('x', 'w').write('y') or 64, layout='half')",
        "(lambda: RoPE)()(64, layout='half')",
        "RoPE(*[64], layout='half')",
        "RoPE(64, **{'layout': 'half'})",
        "[RoPE(64, layout='half')]",
    ):
        with pytest.raises(UsageError, match=r"in single quotes for the shell"):
            load_encoding(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("RoPE(64)", "'layout': layout must be one of 'interleaved', 'half'"),
        ("RoPE", "'head_dim': head_dim must be an integer"),
        ('{"encoding": "RoPE", "head_dim": 64}', "layout must be one of 'interleaved', 'half'"),
        ("RoPE(64, 'half')", "give the name of the field with 'half'"),
        ("RoPE(64, layout='neox')", "use 'half', which some libraries call 'neox'"),
        ("RoPE(64, layout='half', theta=1e4)", "its fields are head_dim, layout, base"),
        ("RoPE(64, head_dim=64, layout='half')", "'head_dim' is given twice"),
        ("RoPE(64, layout=half)", "'half' is no value"),
        ("RoPE(64, layout='half'", "was never closed"),
        ("Rope2(64, layout='half')", "did you mean RoPE"),
        ("RoPE(64, layout='half', scaling=Yarm(4.0))", "no scaling 'Yarm'; did you mean YaRN"),
        ("YaRN(4.0, 4096)", "must declare an encoding such as RoPE"),
    ],
)
def test_what_is_wrong_with_an_encoding_is_said(text, said):
    with pytest.raises((UsageError, ValueError)) as found:
        load_encoding(text)
    assert said in str(found.value)


def test_the_command_line_takes_it(posenc):
    assert posenc("check", "port_of_it.py:half", "--encoding", 'RoPE(64, layout="half")')[0] == 0
    code, text = posenc("check", "port_of_it.py:half", "--encoding", "RoPE(64)")
    assert (code, "layout must be one of 'interleaved', 'half'" in text) == (2, True)
    code, text = posenc("identify", "port_of_it.py:half", "--head-dim", "64", "--to",
                        'RoPE(64, layout="interleaved")')  # fmt: skip
    assert (code, "permute_weights" in text) == (0, True)


def test_names_of_presets_have_no_case(posenc):
    assert load_model("Llama-3.1-8B") == preset("llama-3.1-8b")
    assert load_model("BLOOM", facts=["num_heads=16"]).only == posenc_ref.ALiBi(16)
    code, text = posenc("check", "port_of_it.py:half", "--preset", "Llama-3.1-8")
    assert (code, "did you mean 'llama-3.1-8b'" in text) == (2, True)
    code, text = posenc(
        "check", "port_of_it.py:half", "--encoding", "RoPE(64, layout='half')", "--surface", "aply"
    )
    assert (code, "did you mean apply" in text) == (2, True)


@pytest.mark.nightly
def test_identify_takes_the_layer_type_that_a_model_asks_for(posenc):
    target = ("identify", "port_of_it.py:far", "--head-dim", "256", "--to", "gemma-3-4b")
    code, text = posenc(*target)
    assert (code, "pass --layer-type, one of sliding_attention, full_attention" in text) == (
        2,
        True,
    )
    code, text = posenc(*target, "--layer-type", "full_attention")
    assert code == 0, text
    assert "multiply positions by 0.125" in text
    code, text = posenc(*target, "--layer-type", "full")
    assert (code, "did you mean full_attention" in text) == (2, True)
    code, text = posenc(*target[:-1], "RoPE(64, layout='half')", "--layer-type", "full_attention")
    assert (code, "--layer-type needs --to with a preset" in text) == (2, True)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "declared", "other"),
    [
        ("near", "full_attention", "sliding_attention"),
        ("far", "sliding_attention", None),  # 1e6 without the factor 8: right for no layer
    ],
)
def test_the_table_of_another_layer_type_is_named(posenc, name, declared, other):
    code, text = posenc(
        "check", f"port_of_it.py:{name}", "--preset", "gemma-3-4b", "--layer-type", declared,
        "--max-position", 1023,
    )  # fmt: skip
    assert code == 1
    assert f"the function is right for your other layer type, {other!r}" in text or other is None
    assert ("other layer type" in text) == (other is not None)


def test_the_rotated_part_of_latent_attention():
    """DeepSeek rotates the last 64 of 192 channels; ports rotate a tensor of these alone."""
    whole, part = load_model("deepseek-v3"), load_model("deepseek-v3", "rope")
    assert (whole.only.head_dim, whole.only.rotary_start) == (192, 128)
    assert (part.only.head_dim, part.only.rotary_dim, part.only.rotary_start) == (64, 64, 0)
    assert (part.only.frequencies() == whole.only.frequencies()).all()
    assert part.softmax_scale == (whole.softmax_scale or 192**-0.5)
    with pytest.raises(UsageError, match="--part rope is for models with RoPE"):
        load_model("bloom", "rope", ["num_heads=12"])


def test_the_vision_tower(tmp_path):
    assert load_model("qwen2-vl", "vision").only == preset("qwen2-vl-vision").only
    with pytest.raises(UsageError, match="--part of the preset llama-3-8b must be rope, got 'vis"):
        load_model("llama-3-8b", "vision")
    path = tmp_path / "config.json"
    tower = {"hidden_size": 1280, "num_heads": 16}
    text = {"model_type": "qwen2_5_vl_text", "rope_theta": 1e6}
    path.write_text(
        json.dumps({"model_type": "qwen2_5_vl", "text_config": text, "vision_config": tower})
    )
    assert load_model(str(path), "vision").only.num_axes == 2
    assert load_model(str(path)).only.num_axes == 3


def test_facts_change_a_configuration(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama", "head_dim": 64}))
    facts = ["layout=interleaved", "base=500000.0", "scaling=YaRN(4.0, 8192)"]
    found = load_model(str(path), facts=facts)
    assert found.only == RoPE(64, layout="interleaved", base=5e5, scaling=YaRN(4.0, 8192))
    assert found.provenance["base"] == "the caller"
    with pytest.raises(UsageError, match=r"fact must be one of 'head_dim', .*got 'theta'"):
        load_model(str(path), facts=["theta=1"])
