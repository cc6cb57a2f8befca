"""Which parts of a model are judged: equal ones once, one by name, and none with a reason."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.graphs.load import from_onnx, load_onnx
from tests.conformance.graphs.build import FLOAT, INT64, MICROSOFT, Graph, operator, tables

ROOT = Path(__file__).parents[3]


def saved(model, folder, **settings):
    path = folder / "model.onnx"
    onnx.save(model, path, **settings)
    return path


def two_bases(folder):
    """A model with two rotations, of one table each."""
    g = Graph()
    ids = g.input("position_ids", INT64, "batch", "tokens")
    outputs = []
    for layer, base in enumerate((1e4, 1e6, 1e4)):
        x = g.input(f"x{layer}", FLOAT, "batch", 4, "tokens", 32)
        cos, sin = tables(32, base=base)
        y = g("RotaryEmbedding", x, ids, cos, sin, name=f"layer.{layer}", domain=MICROSOFT)
        outputs.append(y)
    return saved(g.model(*outputs), folder)


def test_nodes_with_equal_tables_and_attributes_are_one_part(tmp_path):
    found = load_onnx(two_bases(tmp_path))
    assert [site.names for site in found.sites] == [["layer.0", "layer.2"], ["layer.1"]]


def test_one_node_is_chosen_by_its_name(tmp_path):
    path = two_bases(tmp_path)
    fn = from_onnx(path, node="layer.1")
    assert check(fn, RoPE(32, layout="half", base=1e6), max_position=1023).passed
    assert from_onnx(path, node="layer.2").name.endswith("layer.2")
    with pytest.raises(ValueError, match="has 2 different parts, pass node="):
        from_onnx(path)
    with pytest.raises(ValueError, match=r"has the name 'layer\.7'; there is layer\."):
        from_onnx(path, node="layer.7")


def test_tables_in_an_external_file_are_read(tmp_path):
    model = operator(layers=1, base=5e5)
    path = saved(
        model, tmp_path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    (site,) = load_onnx(path).sites
    report = check(site.implementation("external"), RoPE(32, layout="half"), max_position=1023)
    assert report.codes == ["base"], report


def test_weights_that_the_rotation_does_not_need_are_not_read(tmp_path):
    model = operator(layers=1)
    path = saved(model, tmp_path, save_as_external_data=True, location="w.bin", size_threshold=0)
    stored = onnx.load(path, load_external_data=False)
    for tensor in stored.graph.initializer:
        if tensor.dims == [128, 128]:  # the projection, whose file is lost
            tensor.external_data[0].value = "lost.bin"
    path.write_bytes(stored.SerializeToString())
    (site,) = load_onnx(path).sites
    assert check(site.implementation("kept"), RoPE(32, layout="half"), max_position=1023).passed


def test_positions_that_the_model_computes_from_a_mask_are_an_input_of_the_part(tmp_path):
    g = Graph()
    x = g.input("x", FLOAT, "batch", 4, "tokens", 32)
    mask = g.input("attention_mask", INT64, "batch", "total")
    ids = g("Sub", g("CumSum", mask, np.array(1)), np.array(1))
    cos, sin = tables(32)
    y = g("RotaryEmbedding", x, ids, cos, sin, name="q", domain=MICROSOFT)
    (site,) = load_onnx(saved(g.model(y), tmp_path)).sites
    assert "computes its positions" in site.remarks[0]
    assert check(site.implementation("q"), RoPE(32, layout="half"), max_position=1023).passed


def test_a_model_without_a_rotation_names_what_was_looked_for_and_what_is_near(tmp_path):
    g = Graph()
    x = g.input("x", FLOAT, "batch", 32)
    path = saved(g.model(g("Cos", x, name="wave")), tmp_path)
    with pytest.raises(ValueError, match=r"looked for RotaryEmbedding.*Related nodes: wave \(Cos"):
        load_onnx(path)


def test_a_name_that_is_no_text_is_refused(tmp_path):
    data = (ROOT / "examples/onnx/two_layers.onnx").read_bytes()
    path = tmp_path / "damaged.onnx"
    path.write_bytes(data.replace(b"layers.1.k", b"layers.\xb1.k"))
    with pytest.raises(ValueError, match=r"damaged.onnx must be an ONNX model, got .* no text"):
        load_onnx(path)


def test_files_that_are_no_model_are_refused(tmp_path):
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(ValueError, match=r"text\.onnx is no ONNX model"):
        load_onnx(tmp_path / "text.onnx")
    with pytest.raises(ValueError, match="there is no file"):
        load_onnx(tmp_path / "absent.onnx")


@pytest.mark.parametrize("name", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(name, monkeypatch, tmp_path):
    path = saved(operator(layers=1), tmp_path)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"needs {name}, .*pip install \"posenc-ref\[runtimes\]"):
        load_onnx(path)
