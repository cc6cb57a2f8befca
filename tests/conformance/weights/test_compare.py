"""Two checkpoints compared: same, permuted, or neither."""

from types import SimpleNamespace

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from posenc_ref.conformance.weights import compare_checkpoints
from posenc_ref.conformance.weights.compare import _rounding
from posenc_ref.conformance.weights.heads import read_model
from posenc_ref.conformance.weights.rows import Order, Tolerance, describe_order
from tests.conformance.weights.models import LLAMA, PAIRS, llama, numbers, write


def turned(tensor, d, target="interleaved", first=0, count=None):
    """Return a tensor with the rows of each head moved to another layout, pair by pair."""
    count = d - first if count is None else count
    source = next(layout for layout in PAIRS if layout != target)
    heads = tensor.reshape(-1, d, *tensor.shape[1:]).clone()
    moved = heads.clone()
    for new, old in zip(PAIRS[target](count), PAIRS[source](count), strict=True):
        for i, j in zip(new, old, strict=True):
            moved[:, first + i] = heads[:, first + j]
    return moved.reshape(tensor.shape)


def converted(tensors, d=16, words=("q_proj", "k_proj"), **how):
    """Return the tensors with those of some names turned."""
    return {
        name: turned(t, d, **how) if any(word in name for word in words) else t
        for name, t in tensors.items()
    }


def renamed(tensors, at, words):
    """Return the tensors of a Llama under other names."""
    pairs = dict(zip((f"{n}_proj" for n in "qkvo"), words.split(), strict=True))
    found = {}
    for name, t in tensors.items():
        parts = name.split(".")
        if parts[1] == "layers":
            name = f"{at.format(parts[2])}{pairs[parts[4]]}.{parts[5]}"
        found[name] = t
    return found


def compared(tmp_path, a, b, **fields):
    """Return the comparison of two sets of tensors."""
    save_file(a, tmp_path / "a.safetensors")
    save_file(b, tmp_path / "b.safetensors")
    return compare_checkpoints(tmp_path / "a.safetensors", tmp_path / "b.safetensors", **fields)


def results(found):
    """Return the set of results of all tensors."""
    return {pair.said for pair in found.pairs}


@pytest.mark.parametrize(("at", "words"), [
    ("model.layers.{}.self_attn.", "q_proj k_proj v_proj o_proj"),
    ("layers.{}.attention.", "wq wk wv wo"),
    ("blk.{}.", "attn_q attn_k attn_v attn_output"),
])  # fmt: skip
def test_same_and_permuted_under_all_names(at, words, tmp_path):
    a = llama(bias=True)
    b = renamed(a, at, words)
    found = compared(tmp_path, a, b)
    assert (found.verdict, found.exit_code, results(found)) == ("same", 0, {"same"})
    assert len(found.pairs) == 8
    b = renamed(converted(a), at, words)
    found = compared(tmp_path, a, b)
    assert (found.verdict, found.exit_code) == ("permuted", 0)
    assert results(found) == {"permuted: half -> interleaved, heads of 16"}
    found = compared(tmp_path, b, a)
    assert results(found) == {"permuted: interleaved -> half, heads of 16"}
    assert "PERMUTED  b is a, converted from interleaved to half" in str(found)


@pytest.mark.parametrize(("first", "count"), [(0, 8), (8, 8), (4, 6)])
def test_partial_heads(first, count, tmp_path):
    found = compared(tmp_path, llama(), converted(llama(), first=first, count=count))
    last = first + count - 1
    text = f"permuted: half -> interleaved, heads of 16, channels {first}..{last}"
    assert (found.verdict, results(found)) == ("permuted", {text})


NORMS = {
    f"model.layers.{i}.self_attn.{n}_norm.weight": numbers(70 + i, 16) for i in (0, 1) for n in "qk"
}
MODEL = read_model(LLAMA)
WRONG = {
    "k with the number of query heads": (
        converted(converted(llama(), words=["q_proj"]), 8, ["k_proj"]), "heads of 8, but .*16"
    ),
    "only q": (converted(llama(), words=["q_proj"]), "k_proj.weight: same, but .*permuted"),
    "only one layer": (converted(llama(), words=["0.self_attn.q", "0.self_attn.k"]), "same, but"),
    "the bias left out": (
        converted(llama(bias=True), words=["q_proj.weight", "k_proj"]), "q_proj.bias: same, but"
    ),
    "a norm left out": (converted(llama() | NORMS), "norm.weight: same, but"),
    "two directions": (
        converted(converted(llama(), words=["q_proj"]), words=["k_proj"], target="half"),
        "interleaved -> half, .* but .* half -> interleaved",
    ),
    "other rows": (
        {n: t.flip(0) if "q_proj" in n else t for n, t in llama().items()}, "an order of no layout"
    ),
    "other numbers": (
        {n: t + 1e-4 if "q_proj" in n else t for n, t in llama().items()}, "difference is 0.0001"
    ),
    "another size": (llama() | llama(num_attention_heads=3), "largest difference is inf"),
    "a layer missing": (llama(num_hidden_layers=1), "only in one of them"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_neither(name, tmp_path):
    b, message = WRONG[name]
    a = llama(bias="bias" in name) | (NORMS if "norm" in name else {})
    found = compared(tmp_path, a, b)
    assert (found.verdict, found.exit_code) == ("neither", 1)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(found.problem)
    assert f"NEITHER  {found.problem}" in str(found)


def test_expected_layouts_and_heads(tmp_path):
    """--from and --to require one direction; a configuration requires its heads."""
    a, b = llama(), converted(llama())
    assert compared(tmp_path, a, b, layouts=("half", "interleaved")).problem == ""
    found = compared(tmp_path, a, b, layouts=("interleaved", "half"))
    assert found.problem.endswith("from half to interleaved, expected interleaved to half")
    assert compared(tmp_path, a, a, layouts=("half", "interleaved")).exit_code == 1
    assert compared(tmp_path, a, a, layouts=("half", "half")).exit_code == 0
    assert compared(tmp_path, a, b, layouts=("half", "half")).exit_code == 1
    assert compared(tmp_path, a, b, model=MODEL).exit_code == 0
    found = compared(tmp_path, a, converted(a, d=8), model=MODEL)
    assert "heads of 8, but the configuration states heads of 16" in found.problem
    assert compared(tmp_path, a, converted(a, d=8)).exit_code == 0  # nothing else is known


@pytest.mark.parametrize(("one", "other"), [
    ("float32", "bfloat16"), ("bfloat16", "float32"), ("float32", "float16"),
    ("float16", "bfloat16"), ("float64", "float32"),
])  # fmt: skip
def test_rounding_to_another_dtype_is_tolerated(one, other, tmp_path):
    names = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
    a = {n: (t / 7e3).to(getattr(torch, one)) for n, t in llama().items()}
    b = {n: (t / 7e3).to(getattr(torch, other)) for n, t in converted(llama()).items()}
    found = compared(tmp_path, a, b)
    assert found.verdict == "permuted"
    coarse = next(names[dtype] for dtype in names if dtype in (one, other))
    exact = (one, other) == ("float64", "float32")  # both hold the same float32 numbers
    assert {pair.rounded for pair in found.pairs} == ({""} if exact else {coarse})
    far = {n: t * (1 + 2.0**-5) for n, t in b.items()}
    assert compared(tmp_path, a, far).verdict == "neither"


@pytest.mark.parametrize(
    ("dtype", "precision", "relative", "smallest"),
    [
        ("F32", 24, 0.0, 0.0),
        ("BF16", 8, 2.0**-7, 0.0),
        ("F16", 11, 2.0**-10, 2.0**-24),
        ("F8_E4M3", 4, 2.0**-3, 2.0**-9),
        ("F8_E5M2", 3, 2.0**-2, 2.0**-16),
    ],
)
def test_the_rounding_that_is_tolerated(dtype, precision, relative, smallest):
    one, other = (
        SimpleNamespace(dtype=dtype, precision=precision),
        SimpleNamespace(dtype="F32", precision=24),
    )
    assert _rounding(one, other)[0] == Tolerance(relative, smallest)


def test_equal_biases_follow_their_weights(tmp_path):
    """Biases of zero and norms of one are equal in every order."""
    more = {
        f"model.layers.{i}.self_attn.{n}_proj.bias": torch.zeros(64 if n == "q" else 32)
        for i in (0, 1)
        for n in "qk"
    }
    more |= {name: torch.ones(16) for name in NORMS}
    found = compared(tmp_path, llama() | more, converted(llama()) | more)
    assert (found.verdict, len(found.pairs)) == ("permuted", 12)


def test_several_stacks_of_layers(tmp_path):
    """A draft head beside the model is compared with its own kind."""
    a = llama() | llama("mtp.layers.{}.self_attn.", num_hidden_layers=1)
    found = compared(tmp_path, a, converted(a))
    assert (found.verdict, len(found.pairs)) == ("permuted", 6)
    assert "layer 0        mtp.q weight   permuted" in str(found)
    b = converted(llama()) | {n: t for n, t in a.items() if "mtp" in n}
    found = compared(tmp_path, a, b)
    assert (found.verdict, "mtp." in found.problem) == ("neither", True)


def test_layers_without_positions_may_stay(tmp_path):
    a, b = llama(), converted(llama(), words=["0.self_attn.q", "0.self_attn.k"])
    assert "not all layers of this model rotate" in compared(tmp_path, a, b).problem
    config = LLAMA | {"model_type": "smollm3", "no_rope_layers": [1, 0]}
    assert compared(tmp_path, a, b, model=read_model(config)).verdict == "permuted"


def test_equal_rows_are_no_obstacle(tmp_path):
    """A pruned head, and rows that occur twice."""
    a = llama()
    for name, t in a.items():
        if "q_proj" in name:
            t[16:32] = 0
            t[40] = t[50]
    assert compared(tmp_path, a, converted(a)).verdict == "permuted"
    found = compared(tmp_path, converted(a, first=0, count=8), a)
    assert results(found) == {"permuted: interleaved -> half, heads of 16, channels 0..7"}
    b = converted(a)
    b["model.layers.0.self_attn.q_proj.weight"][[3, 5]] *= -1
    assert compared(tmp_path, a, b).verdict == "neither"


def test_two_projections_alone(tmp_path):
    """Files with one tensor each, named as someone pleased."""
    a = numbers(1, 64, 24)
    found = compared(
        tmp_path, {"q_proj.weight": a}, {"model.layers.7.self_attn.q_proj.weight": turned(a, 16)}
    )
    assert results(found) == {"permuted: half -> interleaved, heads of 16"}


@pytest.mark.parametrize("groups", [1, 2])
def test_fused_projections(groups, tmp_path):
    """4 query, 2 key and 2 value heads of 8 in one matrix: those of v stay."""
    names = [f"model.layers.0.self_attn.qkv_proj.{part}" for part in ("weight", "bias")]
    a = {names[0]: numbers(1, 64, 12), names[1]: numbers(2, 64).bfloat16().float()}
    values = [6, 7] if groups == 1 else [3, 7]

    def moved(t, still):
        heads, was = turned(t, 8).reshape(8, 8, -1), t.reshape(8, 8, -1)
        heads[still] = was[still]
        return heads.reshape(t.shape)

    found = compared(tmp_path, a, {name: moved(t, values) for name, t in a.items()})
    assert results(found) == {"permuted: half -> interleaved, heads of 8"}
    assert (found.verdict, len(found.pairs)) == ("permuted", 2)
    for still in ([], [0, 1], [5, 7]):  # v as well; q not all; another head than one of v
        found = compared(tmp_path, a, {name: moved(t, still) for name, t in a.items()})
        assert found.verdict == "neither", still


def test_latent_attention(tmp_path):
    a = {"model.layers.0.self_attn.kv_a_proj_with_mqa.weight": numbers(1, 20, 8),
         "model.layers.0.self_attn.q_b_proj.weight": numbers(2, 72, 8)}  # fmt: skip
    b = converted(a, 18, ["q_b_proj"], first=10)
    b = converted(b, 20, ["kv_a"], first=12)
    found = compared(tmp_path, a, b)
    assert found.verdict == "permuted"
    assert results(found) == {
        "permuted: half -> interleaved, heads of 18, channels 10..17",
        "permuted: half -> interleaved, heads of 20, channels 12..19",
    }


def gguf_file(path, tensors, quantised=False):
    """Write a GGUF file as llama.cpp's converter names tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    for name, t in tensors.items():
        if name.startswith("blk"):
            kind = gguf.GGMLQuantizationType.Q8_0 if quantised else gguf.GGMLQuantizationType.BF16
            raw = gguf.quants.quantize(t.numpy(), kind)
            writer.add_tensor(name, raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_gguf_files(tmp_path):
    """As llama.cpp writes them: bfloat16, and rows of q and k interleaved."""
    a = llama(hidden_size=32)
    b = renamed(converted(a), "blk.{}.", "attn_q attn_k attn_v attn_output")
    file = write(tmp_path / "hf", a)
    gguf_file(tmp_path / "b.gguf", b)
    found = compare_checkpoints(file, tmp_path / "b.gguf")
    said = "permuted: half -> interleaved, heads of 16 (within the rounding of BF16)"
    assert (found.verdict, results(found)) == ("permuted", {said})
    gguf_file(tmp_path / "c.gguf", b, quantised=True)
    with pytest.raises(ValueError, match=r"c\.gguf is Q8_0, which cannot be read as numbers"):
        compare_checkpoints(file, tmp_path / "c.gguf")


def test_what_cannot_be_compared(tmp_path):
    write(tmp_path / "a", llama())
    write(tmp_path / "b", {"lm_head.weight": numbers(1, 4, 4)})
    write(tmp_path / "c", {"model.layers.5.self_attn.q_proj.weight": numbers(1, 4, 4)})
    with pytest.raises(ValueError, match="no query and key projections known by name"):
        compare_checkpoints(tmp_path / "a", tmp_path / "b")
    with pytest.raises(ValueError, match="have no query and key tensors in common"):
        compare_checkpoints(tmp_path / "a", tmp_path / "c")


@pytest.mark.parametrize("seed", range(8))
def test_random_orders_are_no_layout(seed):
    assert describe_order(np.random.default_rng(seed).permutation(32)).kind == "reordered"


def test_four_channels_have_one_direction_only():
    """With two pairs, the permutation is its own inverse."""
    index = np.array([0, 2, 1, 3, 4, 6, 5, 7])
    assert describe_order(index) == Order("permuted", "half", "interleaved", 4, 4, 0)
