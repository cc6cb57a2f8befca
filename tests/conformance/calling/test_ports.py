"""Code with the signatures of libraries, judged by the command line without further code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from posenc_ref.conformance import cli
from tests.night import by_day

PORTS = Path(__file__).parents[2] / "ports"
HALF = {"encoding": "RoPE", "head_dim": 64, "layout": "half"}
PAIRS = HALF | {"layout": "interleaved"}
LLAMA = {"base": 500000.0}
ALIBI = {"encoding": "ALiBi", "num_heads": 12}
SINES = {"encoding": "Sinusoidal", "dim": 64}
TIMESTEPS = SINES | {"layout": "concat", "denominator": "half-1"}
GRID = PAIRS | {"encoding": "MultiAxisRoPE", "sections": [16, 16], "spacing": "restart"}
COLUMNS = GRID | {"arrangement": [1] * 16 + [0] * 16}
VIDEO = GRID | {"sections": [8, 12, 12]}
FLUX = "vision_tables.py:apply_rotary_emb --table vision_tables.py:FluxPosEmbed --init axes_dim="
TIMM = "vision_tables.py:apply_rot_embed_cat --table vision_tables.py:"
QWEN = "vision_tables.py:apply_rotary_pos_emb_vision --table vision_tables.py:"
MEGATRON = "libraries.py:apply_rotary_pos_emb_megatron --table libraries.py:MegatronRotaryEmbedding"

#: The target and further options, the declared encoding or preset, and the code of the mistake.
CASES = [
    ("hugging_face.py:apply_rotary_pos_emb", "llama-3.1-8b", ""),
    ("hugging_face.py:keys_turn_back", "llama-3.1-8b", "sign"),
    ("hugging_face.py:interleaved_with_half_tables", "llama-3.1-8b", "mixed-layout"),
    ("hugging_face.py:LlamaRotaryEmbedding", "llama-3.1-8b", ""),
    ("hugging_face.py:partial", "gpt-neox-20b", ""),
    ("hugging_face.py:_compute_default_rope_parameters", "gpt-neox-20b", ""),
    ("hugging_face.py:parameters_over_the_head", "gpt-neox-20b", "denominator"),
    ("hugging_face_2023.py:apply_rotary_pos_emb", HALF | LLAMA, ""),
    ("hugging_face_2023.py:one_position_late", HALF, "decode-offset"),
    ("hugging_face_2023.py:RotaryEmbedding", HALF | LLAMA, ""),
    ("hugging_face_2023.py:apply_gptj", PAIRS, ""),
    ("hugging_face_2023.py:apply_gptj_swapped", PAIRS, "phase-order"),
    ("meta_llama.py:apply_rotary_emb", PAIRS | LLAMA, ""),
    ("meta_llama.py:conjugated", PAIRS | LLAMA, "sign"),
    ("meta_llama.py:apply_one", PAIRS | LLAMA, ""),
    ("meta_llama.py:apply_freqs_cos_sin", PAIRS | LLAMA, ""),
    ("meta_llama.py:precompute_freqs_cis", PAIRS | LLAMA, ""),
    ("serving.py:RotaryEmbedding", HALF | LLAMA, ""),
    ("serving.py:RotaryEmbedding", PAIRS | {"rotary_dim": 32}, ""),
    ("serving.py:InPlace", HALF | LLAMA, ""),
    ("serving.py:StyleIgnored", PAIRS, "layout"),
    ("serving.py:QueriesOnly", HALF, "frequency-spacing"),
    ("serving.py:rope", HALF, ""),
    ("flash.py:apply_rotary_emb", HALF | LLAMA, ""),
    ("flash.py:apply_rotary_emb", PAIRS, ""),
    ("flash.py:flag_ignored", PAIRS, "layout"),
    ("flash.py:apply_rotary_emb_qkv", HALF, ""),
    ("flash.py:keys_left_out", HALF, "frequency-spacing"),
    ("numpy_ports.py:rope_of_a_token", PAIRS, ""),
    ("numpy_ports.py:rope_over_all_heads", PAIRS, "position-axis"),
    ("libraries.py:RotaryPositionalEmbeddings", PAIRS | LLAMA, ""),
    ("libraries.py:AtTheStart", PAIRS, "decode-offset"),
    ("libraries.py:RotaryEmbedding", PAIRS | LLAMA, ""),
    ("libraries.py:RotaryEmbedding.rotate_queries_or_keys", PAIRS, ""),
    ("libraries.py:RotaryEmbedding.rotate_without_offset", PAIRS, "decode-offset"),
    (MEGATRON, HALF | LLAMA, ""),
    ("libraries.py:megatron_in_half_precision", HALF, "angle-precision"),
    ("libraries.py:MegatronRotaryEmbedding", HALF, ""),
    ("diffusion.py:apply_rotary_emb", PAIRS | LLAMA, ""),
    ("diffusion.py:complex_apply", PAIRS | LLAMA, ""),
    ("diffusion.py:wrong_sign", PAIRS, "sign"),
    ("diffusion.py:apply_rot_embed_cat", PAIRS, ""),
    ("numpy_ports.py:rope", HALF | LLAMA, ""),
    ("numpy_ports.py:rope_minus", HALF, "sign"),
    ("numpy_ports.py:rotate", HALF, ""),
    ("numpy_ports.py:with_offset", HALF, ""),
    ("numpy_ports.py:with_offset_twice", HALF, "decode-offset"),
    ("numpy_ports.py:numbers_the_tokens", HALF, ""),
    ("numpy_ports.py:turn_in_place", HALF | LLAMA, ""),
    ("numpy_ports.py:inv_freq", HALF | LLAMA, ""),
    ("numpy_ports.py:inv_freq_of_pairs", HALF, "exponent"),
    ("numpy_ports.py:Rotary", HALF | LLAMA, ""),
    ("numpy_ports.py:BaseForgotten", HALF | LLAMA, "base"),
    ("biases_and_tables.py:get_alibi_slopes", ALIBI, ""),
    ("biases_and_tables.py:naive_slopes", ALIBI, "slopes"),
    ("biases_and_tables.py:build_alibi_tensor", ALIBI, ""),
    ("biases_and_tables.py:alibi_bias", ALIBI, ""),
    ("biases_and_tables.py:alibi_bias_backwards", ALIBI, "bias-sign"),
    ("biases_and_tables.py:_relative_position_bucket --layer-type encoder", "t5", ""),
    ("biases_and_tables.py:bucket_of_the_past --layer-type encoder", "t5", "bucket-sign"),
    ("biases_and_tables.py:sinusoid_table", SINES, ""),
    ("biases_and_tables.py:get_timestep_embedding", TIMESTEPS, ""),
    ("biases_and_tables.py:PositionalEncoding", SINES, ""),
    ("biases_and_tables.py:StartsAtOne", SINES, "table-offset"),
    ("vision_language.py:apply_multimodal_rotary_pos_emb", "qwen2-vl", ""),
    ("vision_language.py:sections_backwards", "qwen2-vl", "sections"),
    ("other_arrays.py:apply_rope", HALF | LLAMA, ""),
    ("other_arrays.py:degrees", HALF, "position-scale"),
    ("other_arrays.py:RoPE", PAIRS | LLAMA, ""),
    ("other_arrays.py:OffsetForgotten", HALF, "decode-offset"),
    ("caches.py:Cache", HALF, ""),
    ("caches.py:StaleCache", HALF, "state"),
    ("caches.py:stale", HALF, "state"),
    ("caches.py:FirstOffset", HALF, "state"),
    ("configured.py:RoPE", PAIRS, ""),
    ("configured.py:DefaultBase", PAIRS, "base"),
    ("configured.py:apply_rotary_emb", HALF, ""),
    ("configured.py:conjugated", HALF, "sign"),
    ("gpt_oss.py:RotaryEmbedding", "gpt-oss-20b", ""),
    ("gpt_oss.py:Truncated", "gpt-oss-20b", "scaling-parameter"),
    ("vision_grids.py:rope_2d", GRID, ""),
    ("vision_grids.py:divided_by_height", GRID, "axis-order"),
    ("vision_grids.py:rope_of_shape", GRID, ""),
    ("vision_grids.py:down_the_columns", GRID, "axis-order"),
    ("vision_grids.py:VisionRotaryEmbeddingFast", GRID, ""),
    ("vision_grids.py:VisionRotaryEmbeddingFast --init pt_seq_len=14", GRID, ""),
    ("vision_grids.py:BothEnds", GRID, "position-scale"),
    ("vision_grids.py:Attention", GRID, ""),
    ("vision_grids.py:fitted", GRID, ""),
    ("vision_grids.py:by_axis", GRID, ""),
    ("vision_grids.py:by_axis_of_tuple", GRID, ""),
    ("vision_grids.py:width_first", GRID, "axis-order"),
    ("vision_tables.py:apply_rotary_enc", COLUMNS, ""),
    ("vision_tables.py:apply_rotary_enc", GRID, "axis-order"),
    (f"{TIMM}RotaryEmbeddingCat", GRID, ""),
    (f"{TIMM}RotaryEmbeddingCat --init feat_shape=[14,14]", GRID, ""),
    (f"{TIMM}columns_backwards", GRID, "sign"),
    (f"{QWEN}Qwen2Vision", GRID | {"layout": "half"}, ""),
    (f"{QWEN}WholeRows", GRID | {"layout": "half"}, "axis-order"),
    (f"{FLUX}[16,24,24]", VIDEO, ""),
    (f"{FLUX}[24,24,16]", VIDEO, "sections"),
    ("wrapped.py:rope", HALF | LLAMA, ""),
    ("wrapped.py:rope_from_one", HALF, "position-origin"),
    ("wrapped.py:with_start", HALF, ""),
    ("wrapped.py:anything", HALF, ""),
    ("compiled.py:module", HALF | LLAMA, ""),
    ("compiled.py:backwards", HALF | LLAMA, "sign"),
    ("wrapped.py:scripted", HALF | LLAMA, ""),
    ("wrapped.py:Both.rotate", HALF, ""),
    ("wrapped.py:Both.rotate_back", HALF, "sign"),
    ("wrapped.py:one_vector", HALF, ""),
]
#: One of each convention, and of each kind of object; the others are left to the night.
DAY = {
    "hugging_face.py:keys_turn_back",
    "meta_llama.py:apply_rotary_emb",
    "flash.py:flag_ignored",
    "libraries.py:RotaryPositionalEmbeddings",
    "numpy_ports.py:rotate",
    "numpy_ports.py:turn_in_place",
    "numpy_ports.py:inv_freq_of_pairs",
    "biases_and_tables.py:naive_slopes",
    "biases_and_tables.py:bucket_of_the_past --layer-type encoder",
    "biases_and_tables.py:StartsAtOne",
    "configured.py:DefaultBase",
    "vision_grids.py:divided_by_height",
    f"{TIMM}columns_backwards",
    "wrapped.py:rope_from_one",
}


@pytest.mark.parametrize(
    ("target", "declared", "code"),
    [
        pytest.param(
            *case, id=case[0].partition(" ")[0], marks=() if case[0] in DAY else pytest.mark.nightly
        )
        for case in CASES
    ],
)
def test_a_port_is_judged_without_glue(target, declared, code, monkeypatch):
    monkeypatch.chdir(PORTS)
    option = (
        ["--preset", declared]
        if isinstance(declared, str)
        else ["--encoding", json.dumps(declared)]
    )
    run = CliRunner().invoke(cli.app, ["check", *target.split(), *option])
    assert run.exit_code == bool(code), run.output
    errors = [line for line in run.output.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1] for line in errors[:1]] == [code] * bool(code)
    assert "\ncalled    " in run.output, run.output


@pytest.mark.parametrize(
    ("target", "declared"),
    [
        pytest.param(target, declared, id=target.partition(" ")[0], marks=pytest.mark.nightly)
        for target, declared, code in CASES
        if code
    ],
)
def test_the_lines_that_reproduce_a_port_print_what_they_say(target, declared, monkeypatch):
    """A new process runs them, which has called nothing before."""
    monkeypatch.chdir(PORTS)
    option = (
        ["--preset", declared]
        if isinstance(declared, str)
        else ["--encoding", json.dumps(declared)]
    )
    output = CliRunner().invoke(cli.app, ["check", *target.split(), *option, "--json"]).stdout
    for finding in json.loads(output)["findings"]:
        lines = finding["reproduce"]
        if lines:
            found = subprocess.run(
                [sys.executable, "-c", lines],
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONPATH": str(PORTS.parents[1])},
            )
            assert found.returncode == 0, found.stderr
            printed = [float(f"{float(n):.7g}") for n in found.stdout.split()]
            assert printed == [float(n) for n in lines.rpartition("#")[2].split()]


def test_every_target_is_judged_once_right_and_once_wrong():
    files = {case[0].partition(":")[0] for case in CASES}
    assert files == {path.name for path in PORTS.glob("*.py")}
    for name in files:
        codes = {bool(code) for target, _, code in CASES if target.startswith(name)}
        assert codes == {True, False}, name
    assert {target for target, *_ in CASES} >= DAY


IDENTIFIED = {
    "hugging_face.py:apply_rotary_pos_emb": "RoPE(64, layout='half')",
    "meta_llama.py:apply_rotary_emb": "RoPE(64, layout='interleaved')",
    "serving.py:rope": "RoPE(64, layout='half')",
    "biases_and_tables.py:get_alibi_slopes": "ALiBi(",
    "numpy_ports.py:inv_freq": "RoPE(64",
}


@pytest.mark.parametrize("target", by_day(IDENTIFIED, {"biases_and_tables.py:get_alibi_slopes"}))
def test_a_port_is_identified_without_glue(target, monkeypatch):
    monkeypatch.chdir(PORTS)
    run = CliRunner().invoke(cli.app, ["identify", target])
    assert run.exit_code == 0, run.output
    assert IDENTIFIED[target] in run.output
