"""Rotations of elementary operators: found, called with the axes that they have, and judged."""

import numpy as np
import onnx
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.graphs.load import load_onnx
from tests.conformance.graphs.build import FLOAT, INT32, INT64, Graph, computed, ints, tables
from tests.night import by_day

D = 32
HALF = RoPE(D, layout="half")
INTERLEAVED = RoPE(D, layout="interleaved")
DEEPSEEK = RoPE(D, layout="interleaved", output_layout="half")


def slice_of(g, x, start, stop, step=1):
    return g("Slice", x, ints(start), ints(stop), ints(-1), ints(step))


def halves(g, x, cos, sin, minus="Sub"):
    """x1 cos - x2 sin and x2 cos + x1 sin, joined."""
    x1, x2 = slice_of(g, x, 0, D // 2), slice_of(g, x, D // 2, D)
    first = g(minus, g("Mul", x1, cos), g("Mul", x2, sin))
    second = g("Add", g("Mul", x2, cos), g("Mul", x1, sin))
    return g("Concat", first, second, axis=-1)


def evens(g, x, cos, sin):
    """Even and odd channels rotated, stacked and flattened."""
    x1, x2 = slice_of(g, x, 0, D, 2), slice_of(g, x, 1, D, 2)
    first = g("Sub", g("Mul", x1, cos), g("Mul", x2, sin))
    second = g("Add", g("Mul", x2, cos), g("Mul", x1, sin))
    stacked = g(
        "Concat", g("Unsqueeze", first, ints(-1)), g("Unsqueeze", second, ints(-1)), axis=-1
    )
    return g("Reshape", stacked, ints(0, 0, 0, D))


def complex_pairs(g, x, cos, sin):
    """Pairs on an axis of their own, as view_as_real gives them."""
    pairs = g("Reshape", x, ints(0, 0, 0, D // 2, 2))
    real, imaginary = (g("Gather", pairs, np.array(i), axis=-1) for i in (0, 1))
    first = g("Sub", g("Mul", real, cos), g("Mul", imaginary, sin))
    second = g("Add", g("Mul", real, sin), g("Mul", imaginary, cos))
    stacked = g(
        "Concat", g("Unsqueeze", first, ints(-1)), g("Unsqueeze", second, ints(-1)), axis=-1
    )
    return g("Reshape", stacked, ints(0, 0, 0, D))


def permuted(g, x, cos, sin):
    """Interleaved pairs moved apart and then rotated as halves, as in DeepSeek-V3."""
    pairs = g("Transpose", g("Reshape", x, ints(0, 0, 0, D // 2, 2)), perm=[0, 1, 2, 4, 3])
    return halves(g, g("Reshape", pairs, ints(0, 0, 0, D)), cos, sin)


def matrix(g, x, cos, sin):
    """rotate_half as a product with a stored matrix of 0, 1 and -1."""
    swap = np.zeros((D, D), np.float32)
    k = np.arange(D // 2)
    swap[k + D // 2, k], swap[k, k + D // 2] = -1, 1
    cos, sin = (g("Concat", t, t, axis=-1) for t in (cos, sin))
    return g("Add", g("Mul", x, cos), g("Mul", g("MatMul", x, swap), sin))


def gathered(rotate=halves, axis=1, heads="heads", shift=0, network=True, **of_tables):
    """A projection, and a rotation with tables that position_ids select."""
    g = Graph()
    if network:
        hidden = g.input("hidden", FLOAT, "batch", "tokens", 4 * D)
        weight = np.random.default_rng(0).standard_normal((4 * D, 4 * D)).astype(np.float32)
        x = g("Reshape", g("MatMul", hidden, weight), ints(0, 0, 4, D))
        x = g("Transpose", x, perm=[0, 2, 1, 3]) if axis == 1 else x
    else:
        x = g.input("x", FLOAT, "batch", heads, "tokens", D)
    ids = g.input("position_ids", INT64, "batch", "tokens")
    ids = g("Add", ids, ints(shift)) if shift else ids
    cos, sin = (
        g("Unsqueeze", g("Gather", t, ids, axis=0), ints(axis))
        for t in tables(D, rows=4096, **of_tables)
    )
    y = rotate(g, x, cos, sin)
    return g.model(g("Softmax", y, axis=-1) if network else y)


def counted():
    """Tables cut to the number of tokens: positions are counted from 0."""
    g = Graph()
    x = g.input("x", FLOAT, "batch", "heads", "tokens", D)
    length = g("Unsqueeze", g("Gather", g("Shape", x), np.array(2)), ints(0))
    cut = [g("Slice", t, ints(0), length, ints(0)) for t in tables(D, rows=1024)]
    return g.model(halves(g, x, *cut))


def from_a_start():
    """Positions counted from an input with the number of tokens before the call."""
    g = Graph()
    x = g.input("x", FLOAT, "batch", "heads", "tokens", D)
    start = g.input("past_sequence_length", INT64)
    end = g("Add", start, g("Gather", g("Shape", x), np.array(2)))
    ids = g("Range", start, end, np.int64(1))
    return g.model(halves(g, x, *(g("Gather", t, ids, axis=0) for t in tables(D, rows=4096))))


def from_the_cache():
    """Positions counted from the length of the keys before the call."""
    g = Graph()
    x = g.input("x", FLOAT, "batch", "heads", "tokens", D)
    past = g.input("past_key_values.0.key", FLOAT, "batch", 2, "past", D)
    start, length = (g("Gather", g("Shape", t), np.array(2)) for t in (past, x))
    ids = g("Range", start, g("Add", start, length), np.int64(1))
    return g.model(halves(g, x, *(g("Gather", t, ids, axis=0) for t in tables(D, rows=4096))))


def flat():
    """x (tokens, heads * channels) and positions (tokens,)."""
    g = Graph()
    x = g.input("query", FLOAT, "tokens", 4 * D)
    ids = g.input("positions", INT64, "tokens")
    cos, sin = (g("Unsqueeze", g("Gather", t, ids, axis=0), ints(1)) for t in tables(D, rows=4096))
    y = halves(g, g("Reshape", x, ints(0, -1, D)), cos, sin)
    return g.model(g("Reshape", y, ints(0, 4 * D)))


def heads_merged():
    """x (batch * heads, tokens, channels) with one row of positions."""
    g = Graph()
    x = g.input("x", FLOAT, "rows", "tokens", D)
    ids = g.input("positions", INT64, 1, "tokens")
    return g.model(halves(g, x, *(g("Gather", t, ids, axis=0) for t in tables(D, rows=4096))))


def tokens_first():
    """x (tokens, batch, heads, channels), as in Megatron."""
    g = Graph()
    x = g.input("x", FLOAT, "tokens", "batch", "heads", D)
    ids = g.input("positions", INT64, "tokens")
    cos, sin = (
        g("Unsqueeze", g("Gather", t, ids, axis=0), ints(1, 2)) for t in tables(D, rows=4096)
    )
    return g.model(halves(g, x, cos, sin))


def partial(trailing=False):
    """The first or (here after a view) the last 32 of 48 channels rotated, the others passed on."""
    g = Graph()
    x = g.input("x", FLOAT, "batch", "heads", "tokens", 48)
    ids = g.input("position_ids", INT64, "batch", "tokens")
    cos, sin = (g("Unsqueeze", g("Gather", t, ids, axis=0), ints(1)) for t in tables(D, rows=4096))
    sizes = ints(16, D) if trailing else ints(D, 16)
    parts = g("Split", x, sizes, axis=-1, outputs=2)
    rotated = halves(g, parts[trailing], cos, sin)
    parts[trailing] = g("Reshape", rotated, ints(0, 0, 0, D)) if trailing else rotated
    return g.model(g("Concat", *parts, axis=-1))


def slices(trailing):
    start = 16 if trailing else 0
    return RoPE(48, layout="half", rotary_dim=D, rotary_start=start)


def wrong_sign(g, x, cos, sin):
    return halves(g, x, cos, g("Neg", sin))


def both_minus(g, x, cos, sin):
    """The sign of the first half's second term is lost."""
    return halves(g, x, cos, sin, minus="Add")


CASES = {
    "half": (gathered, HALF, ""),
    "half, tokens before heads": (lambda: gathered(axis=2), HALF, ""),
    "half, x is an input": (lambda: gathered(network=False), HALF, ""),
    "half, four heads": (lambda: gathered(network=False, heads=4), HALF, ""),
    "interleaved": (lambda: gathered(evens), INTERLEAVED, ""),
    "complex": (lambda: gathered(complex_pairs), INTERLEAVED, ""),
    "permuted before": (lambda: gathered(permuted), DEEPSEEK, ""),
    "matrix": (lambda: gathered(matrix), HALF, ""),
    "computed": (computed, HALF, ""),
    "computed, int32": (lambda: computed(kind=INT32), HALF, ""),
    "computed, float32": (lambda: computed(kind=FLOAT), HALF, ""),
    "counted": (counted, HALF, ""),
    "from a start": (from_a_start, HALF, ""),
    "from the cache": (from_the_cache, HALF, ""),
    "flat": (flat, HALF, ""),
    "heads merged": (heads_merged, HALF, ""),
    "tokens first": (tokens_first, HALF, ""),
    "leading part": (partial, slices(False), ""),
    "trailing part": (lambda: partial(True), slices(True), ""),
    "another layout": (lambda: gathered(complex_pairs), HALF, "layout"),
    "another base": (lambda: gathered(base=500000.0), HALF, "base"),
    "computed, another base": (lambda: computed(base=500000.0), HALF, "base"),
    "computed, a factor": (lambda: computed(attention_factor=1.2), HALF, "amplitude"),
    "position + 1": (lambda: gathered(shift=1), HALF, "position-origin"),
    "another sign": (lambda: gathered(wrong_sign), HALF, "sign"),
    "a lost sign": (lambda: gathered(both_minus), HALF, "not-a-rotation"),
    "tables in float16": (lambda: half_tables(), HALF, "table-precision"),
    "leading for trailing": (partial, slices(True), "rotary-dim"),
}
DAY = (
    "half", "half, tokens before heads", "complex", "permuted before", "computed, float32",
    "counted", "flat", "trailing part", "another layout", "position + 1", "a lost sign",
    "tables in float16",
)  # fmt: skip


def half_tables():
    """The same graph with tables that were rounded to float16 before."""
    model = gathered()
    for tensor in model.graph.initializer:
        if tensor.dims == [4096, D // 2]:
            value = onnx.numpy_helper.to_array(tensor).astype(np.float16).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))
    return model


@pytest.mark.parametrize("name", by_day(CASES, DAY))
def test_a_rotation_is_found_and_judged(name, tmp_path):
    make, encoding, code = CASES[name]
    onnx.save(make(), tmp_path / "model.onnx")
    found = load_onnx(tmp_path / "model.onnx")
    assert not found.problems
    (site,) = found.sites
    assert site.operator == "elementary operators"
    assert site.bound.head_dim == encoding.head_dim
    report = check(site.implementation(name), encoding, max_position=4095)
    assert report.codes[:1] == ([code] if code else []), report
    assert report.verdict == ("deviates" if code else "conforms"), report


def test_sums_of_products_that_are_no_rotation_are_not_judged(tmp_path):
    """A gate: x times one row of a table, plus x times another, at the token's own id."""
    g = Graph()
    x = g.input("x", FLOAT, "batch", "tokens", D)
    scale = np.random.default_rng(0).standard_normal((2, D)).astype(np.float32)
    onnx.save(
        g.model(g("Add", g("Mul", x, scale[:1]), g("Mul", x, scale[1:]))), tmp_path / "gate.onnx"
    )
    with pytest.raises(ValueError, match="has no positional encoding"):
        load_onnx(tmp_path / "gate.onnx")
