"""Ports of the same encoding agree, whatever their signatures; wrong ones deviate by their cause.

Nobody says how to call them: tests/ports has functions as libraries and people write them.
"""

import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch", reason="most ports are torch's")
pytest.importorskip("jax", reason="some ports are JAX's")

from posenc_ref.conformance import cli
from tests.night import by_day

#: Right ports of RoPE(64, base=10000), half-split.
HALF = (
    "hugging_face_2023.py:apply_rotary_pos_emb", "flash.py:apply_rotary_emb",
    "flash.py:apply_rotary_emb_qkv", "numpy_ports.py:rope", "numpy_ports.py:rotate",
    "numpy_ports.py:with_offset", "numpy_ports.py:numbers_the_tokens", "numpy_ports.py:Rotary",
    "serving.py:RotaryEmbedding", "serving.py:rope", "serving.py:InPlace",
    "libraries.py:apply_rotary_pos_emb_megatron", "hugging_face.py:apply_rotary_pos_emb",
    "wrapped.py:rope", "wrapped.py:Module", "wrapped.py:with_start", "other_arrays.py:apply_rope",
    "gpt_oss.py:RotaryEmbedding", "configured.py:apply_rotary_emb",
)  # fmt: skip
#: The same, interleaved.
PAIRS = (
    "hugging_face_2023.py:apply_gptj", "meta_llama.py:apply_rotary_emb", "meta_llama.py:apply_one",
    "meta_llama.py:apply_freqs_cos_sin", "libraries.py:RotaryPositionalEmbeddings",
    "libraries.py:RotaryEmbedding", "diffusion.py:apply_rotary_emb", "diffusion.py:complex_apply",
    "diffusion.py:apply_rot_embed_cat", "numpy_ports.py:rope_of_a_token",
)  # fmt: skip
#: A wrong port, a right one of another signature, and the codes of the cause; none if both give
#: the same logits.
WRONG = (
    ("hugging_face_2023.py:one_position_late", "numpy_ports.py:rope", "decode-offset"),
    ("hugging_face_2023.py:apply_gptj_swapped", "meta_llama.py:apply_one", "phase-order"),
    ("meta_llama.py:conjugated", "diffusion.py:complex_apply", "sign"),
    ("numpy_ports.py:rope_minus", "flash.py:apply_rotary_emb", "sign"),
    ("numpy_ports.py:with_offset_twice", "numpy_ports.py:rotate", "decode-offset"),
    ("numpy_ports.py:turn_in_place", "flash.py:apply_rotary_emb_qkv", "base"),
    ("numpy_ports.py:starts_at_one", "numpy_ports.py:numbers_the_tokens", ""),
    ("wrapped.py:rope_from_one", "hugging_face.py:apply_rotary_pos_emb", ""),
    ("libraries.py:AtTheStart", "libraries.py:RotaryPositionalEmbeddings", "decode-offset"),
    ("libraries.py:RotaryPositionalEmbeddings", "configured.py:apply_rotary_emb", "layout"),
    ("libraries.py:megatron_in_half_precision", "numpy_ports.py:rope", "angle-precision"),
    ("hugging_face.py:keys_turn_back", "wrapped.py:Module", "sign"),
    ("hugging_face.py:interleaved_with_half_tables", "wrapped.py:rope", "mixed-layout"),
    ("serving.py:QueriesOnly", "serving.py:rope", "frequency-spacing"),
    ("flash.py:keys_left_out", "flash.py:apply_rotary_emb_qkv", "frequency-spacing"),
    ("configured.py:conjugated", "configured.py:apply_rotary_emb", "sign"),
    ("other_arrays.py:degrees", "other_arrays.py:apply_rope", "position-scale"),
)


def compared(a, b):
    """Return the exit code, the codes of errors, and the agreement of ``posenc compare A B``."""
    base = ("--init", "base=10000") if "serving.py:RotaryEmbedding" in (a, b) else ()
    got = CliRunner().invoke(
        cli.app,
        ["compare", *(f"tests/ports/{port}" for port in (a, b)), *base, "--head-dim", "64",
         "--max-position", "512", "--json", "--in-process"],
    )  # fmt: skip
    assert got.stdout.startswith("{"), got.output
    data = json.loads(got.stdout)
    codes = [f["code"] for f in data["findings"] if f["severity"] == "error"]
    return got.exit_code, codes, data["agreement"]


def ring(ports):
    """Return pairs in which each port is A once, and B once."""
    return [(port, ports[(5 * n + 3) % len(ports)]) for n, port in enumerate(ports)]


RIGHT = [(a, b) for a, b in (*ring(HALF), *ring(PAIRS)) if a != b]
DAY = ("numpy_ports.py:starts_at_one", "numpy_ports.py:numbers_the_tokens", "")


@pytest.mark.nightly
@pytest.mark.parametrize(("a", "b"), RIGHT)
def test_right_ports_agree(a, b):
    assert compared(a, b) == (0, [], "tensors agree")


@pytest.mark.day
@pytest.mark.parametrize("pair", by_day(WRONG, (DAY,)), ids=" ".join)
def test_wrong_ports_deviate_by_their_cause(pair):
    a, b, code = pair
    if code:
        assert compared(a, b) == (1, [code], "tensors differ")
    else:
        assert compared(a, b) == (0, [], "tensors differ, logits agree")
