"""Nodes that rotate: what they compute is judged, and a wrong table or attribute is named."""

import numpy as np
import onnx
import pytest

from posenc_ref import LongRoPE, MultiAxisRoPE, RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.graphs.load import load_onnx
from tests.conformance.graphs import build
from tests.conformance.graphs.build import HALF, MICROSOFT, attention, operator, tables
from tests.night import by_day

ROPE = RoPE(32, layout="half")
SLICE = RoPE(32, layout="half", rotary_dim=16)
BY_AXIS = MultiAxisRoPE(32, sections=(4, 6, 6), layout="half")
MIXED = MultiAxisRoPE(32, sections=(6, 5, 5), arrangement="interleaved", layout="half")


def in_half_precision(**settings):
    """A float32 node with tables that were rounded to float16 before."""
    model = operator(**settings)
    for tensor in model.graph.initializer:
        if tensor.name in ("cos_cache", "sin_cache"):
            value = onnx.numpy_helper.to_array(tensor).astype(np.float16).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))
    return model


#: The model, the declared encoding, and the code of the mistake; "" if there is none.
CASES = {
    "standard": (operator, ROPE, ""),
    "standard, 3 axes": (lambda: operator(rank=3), ROPE, ""),
    "standard, a part": (lambda: operator(rotary_dim=16), SLICE, ""),
    "standard, a part, 3 axes": (lambda: operator(rank=3, rotary_dim=16), SLICE, ""),
    "standard, float16": (lambda: operator(kind=HALF), ROPE, ""),
    "microsoft": (lambda: operator(domain=MICROSOFT), ROPE, ""),
    "microsoft, 3 axes": (lambda: operator(domain=MICROSOFT, rank=3), ROPE, ""),
    "microsoft, a part, 3 axes": (
        lambda: operator(domain=MICROSOFT, rank=3, rotary_dim=16), SLICE, "",
    ),
    "attribute": (lambda: operator(interleaved=1), ROPE, "layout"),
    "base": (lambda: operator(domain=MICROSOFT, base=500000.0), ROPE, "base"),
    "sign": (lambda: operator(sign=-1), ROPE, "sign"),
    "position + 1": (lambda: operator(shift=1), ROPE, "position-origin"),
    "factor": (lambda: operator(factor=1.25), ROPE, "amplitude"),
    "tables in float16": (in_half_precision, ROPE, "table-precision"),
    "sections": (lambda: build.sectioned([4, 6, 6]), BY_AXIS, ""),
    "sections, interleaved": (lambda: build.sectioned([6, 5, 5], layout=1), MIXED, ""),
    "sections exchanged": (lambda: build.sectioned([6, 4, 6]), BY_AXIS, "sections"),
    "gemma": (build.gemma, ROPE, ""),
    "gemma, base": (lambda: build.gemma(base=5e5), ROPE, "base"),
    "tables from a branch": (lambda: build.branch(tables(32), tables(32)), ROPE, ""),
    "another table when long": (
        lambda: build.branch(tables(32), tables(32, base=5e4)), ROPE, "base",
    ),
    "in a branch": (lambda: build.inside("branch"), ROPE, ""),
    "in a branch, base": (lambda: build.inside("branch", base=5e4), ROPE, "base"),
    "in a local function": (lambda: build.inside("function"), ROPE, ""),
    "in a local function, sign": (lambda: build.inside("function", sign=-1), ROPE, "sign"),
}  # fmt: skip
DAY = (
    "standard", "microsoft, a part, 3 axes", "attribute", "position + 1", "tables in float16",
    "sections exchanged", "gemma", "in a branch, base",
    "in a local function",
)  # fmt: skip


def stretched(factors):
    """The tables of RoPE(32) with divided frequencies, times 1.25, as LongRoPE's."""
    angle = np.outer(np.arange(2048), 1e4 ** (-np.arange(16) / 16) / factors)
    return tuple((1.25 * t).astype(np.float32) for t in (np.cos(angle), np.sin(angle)))


SHORT, LONG = np.ones(16), 1 + np.arange(16) / 2
LONGROPE = RoPE(32, layout="half", scaling=LongRoPE(SHORT, LONG, 512, attention_factor=1.25))
ATTENTION = {
    "contiguous": (attention, ROPE, ""),
    "ids": (lambda: attention(ids=True), ROPE, ""),
    "packed, layout": (lambda: attention(packed=True, interleaved=1), ROPE, "layout"),
    "ids, base": (lambda: attention(ids=True, base=5e5), ROPE, "base"),
    "sign": (lambda: attention(sign=-1), ROPE, "sign"),
    "by length": (
        lambda: attention(by_length=(stretched(LONG), stretched(SHORT))),
        LONGROPE,
        "",
    ),
    "by length, always short": (
        lambda: attention(by_length=(stretched(SHORT), stretched(SHORT))),
        LONGROPE,
        "scaling-parameter",
    ),
}


def saved(model, folder):
    """Write the model, and return the file's path."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


def judged(site, encoding):
    own = site.implementation(site.name)
    return check(own, encoding, dtype=site.bound.dtype, max_position=4095)


@pytest.mark.parametrize("name", by_day(CASES, DAY))
def test_a_node_is_judged_with_the_tables_of_its_model(name, tmp_path):
    make, encoding, code = CASES[name]
    found = load_onnx(saved(make(), tmp_path), head_dim=32)
    assert not found.problems
    (site,) = found.sites
    report = judged(site, encoding)
    assert report.codes[:1] == ([code] if code else []), report
    assert report.verdict == ("deviates" if code else "conforms"), report


@pytest.mark.nightly
def test_another_table_is_used_from_some_largest_position_on(tmp_path):
    model = build.branch(tables(32), tables(32, base=5e4))
    (site,) = load_onnx(saved(model, tmp_path), head_dim=32).sites
    found = judged(site, ROPE).findings[0].message
    assert "the base is 50000" in found
    assert "a largest position of at least 1024 (1009 is right)" in found


@pytest.mark.parametrize("name", by_day(ATTENTION, ("ids, base",)))
def test_attention_shows_its_rotated_keys_and_queries(name, tmp_path):
    make, encoding, code = ATTENTION[name]
    found = load_onnx(saved(make(), tmp_path))
    assert [site.operator.rpartition(", ")[2] for site in found.sites] == ["keys", "queries"]
    for site in found.sites:
        report = judged(site, encoding)
        assert report.codes[:1] == ([code] if code else []), report
        assert report.verdict == ("deviates" if code else "conforms"), report


def test_attention_that_reads_one_id_of_a_prompt_says_so(tmp_path):
    for site in load_onnx(saved(attention(ids=True), tmp_path)).sites:
        assert "reads only the first number of position_ids" in " ".join(site.bound.remarks)
    for site in load_onnx(saved(attention(), tmp_path)).sites:
        assert not site.bound.remarks
