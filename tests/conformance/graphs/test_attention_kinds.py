"""Attention that rotates inside, other than GroupQueryAttention: run, or judged by its definition.

The tables come from NumPy alone.
"""

import numpy as np
import onnx
import pytest
from onnx import helper

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.graphs.load import load_onnx
from tests.conformance.graphs.build import FLOAT, INT32, MICROSOFT, OPSETS, Graph, tables
from tests.night import by_day

HALF = RoPE(32, layout="half")
PAIRS = RoPE(32, layout="interleaved")
TAIL = RoPE(32, layout="half", rotary_dim=16, rotary_start=16)
#: The inputs of each operator up to the tables, as its documentation orders them.
INPUTS = {
    "SparseAttention": "query key value past_key past_value block_row_indices block_col_indices "
    "total_sequence_length key_total_sequence_lengths cos_cache sin_cache",
    "PagedAttention": "query key value key_cache value_cache cumulative_sequence_length "
    "past_seqlens block_table cos_cache sin_cache",
    "SparsePagedAttention": "query key value key_cache value_cache cumulative_sequence_length "
    "past_seqlens block_table slot_mapping selected_indices selected_counts auxiliary_key "
    "auxiliary_value auxiliary_lengths cos_cache sin_cache",
    "DynamicSparseAttention": "query key value past_key past_value auxiliary_key auxiliary_value "
    "selected_indices selected_counts seqlens_k total_sequence_length cos_cache sin_cache",
}
#: The operator, its attributes, changes of the tables, the declared encoding, and the mistake.
CASES = {
    "run": ("SparseAttention", {}, {}, HALF, ""),
    "run, interleaved": ("SparseAttention", {"rotary_interleaved": 1}, {}, PAIRS, ""),
    "run, attribute": ("SparseAttention", {"rotary_interleaved": 1}, {}, HALF, "layout"),
    "run, base": ("SparseAttention", {}, {"base": 5e5}, HALF, "base"),
    "pages": ("PagedAttention", {}, {}, HALF, ""),
    "pages, sign": ("PagedAttention", {}, {"sign": -1}, HALF, "sign"),
    "pages, tail": ("PagedAttention", {"rotary_offset": 16}, {"d": 16}, TAIL, ""),
    "pages, head": ("PagedAttention", {}, {"d": 16}, TAIL, "rotary-dim"),
    "sparse pages": ("SparsePagedAttention", {}, {"base": 5e5}, HALF, "base"),
    "selected": ("DynamicSparseAttention", {"rotary_interleaved": 1}, {}, HALF, "layout"),
}  # fmt: skip


def node(operator, d=32, settings=None, **of_tables):
    """A layer with a node that takes queries and keys of 4 and 2 heads of 32 channels."""
    g, names = Graph(), []
    for name in INPUTS[operator].split():
        if name in ("cos_cache", "sin_cache"):
            cos, sin = tables(d, rows=1100, **of_tables)
            names.append(g.store(cos if name == "cos_cache" else sin, name))
        elif name in ("query", "key", "value"):
            names.append(g.input(name, FLOAT, "batch", "tokens", 128 if name == "query" else 64))
        elif name.endswith(("key", "value", "cache")):
            names.append(g.input(name, FLOAT, "batch", 2, "past", 32))
        else:
            names.append(g.input(name, INT32))
    return g.model(
        g(operator, *names, name="layer.0", domain=MICROSOFT, outputs=3, num_heads=4,
          kv_num_heads=2, **{"do_rotary": 1, **(settings or {})})[0]
    )  # fmt: skip


def loaded(model, folder):
    onnx.save(model, folder / "model.onnx")
    return load_onnx(folder / "model.onnx")


@pytest.mark.parametrize("name", by_day(CASES, ("run, base", "pages, tail", "selected")))
def test_attention_is_judged(name, tmp_path):
    operator, settings, of_tables, encoding, code = CASES[name]
    found = loaded(node(operator, settings=settings, **of_tables), tmp_path)
    assert not found.problems
    (site,) = found.sites
    assert ("queries are not judged" in str(site.bound.remarks)) == name.startswith("run")
    assert ("by its definition" in site.operator) != name.startswith("run")
    report = check(site.implementation("layer.0"), encoding, max_position=1023)
    assert report.codes[:1] == ([code] if code else []), report
    assert report.verdict == ("deviates" if code else "conforms"), report


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        ("Attention", r"layer \(com\.microsoft\.Attention, do_rotary=1\) .*takes no cos and sin"),
        ("QAttention", "ignores the attribute on a CPU"),
        ("SparseAttentionIndexer", "returns indices of tokens only"),
    ],
)
def test_attention_without_a_judgeable_rotation_says_why(operator, words, tmp_path):
    rotary = {} if "Indexer" in operator else {"do_rotary": 1}
    g = Graph()
    x, w = (g.input(n, FLOAT, "batch", "tokens", 32) for n in "xw")
    model = g.model(g(operator, x, w, name="layer", domain=MICROSOFT, num_heads=1, **rotary))
    with pytest.raises(ValueError, match=words):
        loaded(model, tmp_path)


def test_quantized_attention_ignores_the_attribute_on_a_cpu():
    """The reason that ``UNJUDGED`` gives; a version of ONNX Runtime that rotates fails here."""
    runtime = pytest.importorskip("onnxruntime", reason="the node runs")
    names, rng = ["x", "w", "b", "sx", "sw"], np.random.default_rng(0)
    kinds = {"x": onnx.TensorProto.UINT8, "w": onnx.TensorProto.INT8}
    values = [helper.make_tensor_value_info(n, kinds.get(n, FLOAT), None) for n in names]
    feeds = {
        "x": rng.integers(0, 255, (1, 4, 64)).astype(np.uint8),
        "w": rng.integers(-5, 5, (64, 192)).astype(np.int8),
        "b": np.zeros(192, np.float32), "sx": np.float32(0.01), "sw": np.float32(0.01),
    }  # fmt: skip
    results = []
    for rotary in (0, 1):
        made = helper.make_node(
            "QAttention", names, ["y"], domain=MICROSOFT, num_heads=2, do_rotary=rotary
        )
        output = helper.make_tensor_value_info("y", FLOAT, None)
        graph = helper.make_graph([made], "g", values, [output])
        model = helper.make_model(graph, opset_imports=OPSETS, ir_version=10)
        session = runtime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        results.append(session.run(None, {n: np.asarray(v) for n, v in feeds.items()})[0])
    assert np.array_equal(*results)
