"""Rotations as exporters write them out: matrices, casts, fixed sizes and parts of a Split."""

import numpy as np
import onnx
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.graphs.load import load_onnx
from tests.conformance.graphs.build import FLOAT, HALF, INT64, Graph, ints, rotate_half, tables
from tests.conformance.graphs.test_decomposed import halves, slice_of
from tests.night import by_day

D = 32
SPLIT = RoPE(D, layout="half")
PAIRS = RoPE(D, layout="interleaved")
FREQUENCIES = (1e4 ** (-np.arange(0, D, 2) / D)).astype(np.float32)


def inputs(g, kind=FLOAT, width=D, sizes=("batch", "heads", "tokens")):
    """x (B, H, S, width) and position_ids (B, S)."""
    x = g.input("x", kind, *sizes, width)
    return x, g.input("position_ids", INT64, sizes[0], sizes[2])


def gathered(g, ids, **of_tables):
    """cos and sin (B, 1, S, D/2)."""
    found = (g("Gather", t, ids, axis=0) for t in tables(D, rows=2048, **of_tables))
    return [g("Unsqueeze", t, ints(1)) for t in found]


def computed(g, ids, frequencies=FREQUENCIES):
    """cos and sin (B, 1, S, D/2) of positions times frequencies, by Einsum."""
    angle = g("Einsum", g("Cast", ids, to=FLOAT), frequencies, equation="bs,d->bsd")
    return [g("Unsqueeze", g(f, angle), ints(1)) for f in ("Cos", "Sin")]


def matrices(operator, sign=1):
    """Pairs times 2 x 2 matrices, by MatMul or by Einsum."""
    g = Graph()
    x, ids = inputs(g)
    cos, sin = tables(D, rows=2048, sign=sign)
    every = np.stack([cos, -sin, sin, cos], axis=-1).reshape(2048, D // 2, 2, 2)
    rows = g("Gather", every, ids, axis=0)
    pairs = g("Reshape", x, ints(0, 0, 0, D // 2, 2))
    if operator == "Einsum":
        y = g("Einsum", pairs, rows, equation="bhspj,bspij->bhspi")
    else:
        y = g("MatMul", g("Unsqueeze", rows, ints(1)), g("Unsqueeze", pairs, ints(-1)))
    return g.model(g("Reshape", y, ints(0, 0, 0, D)))


def summed():
    """x * cos + rotate_half(x) * sin by Sum, with tables of full width."""
    g = Graph()
    x, ids = inputs(g)
    cos, sin = (g("Concat", t, t, axis=-1) for t in computed(g, ids))
    return g.model(g("Sum", g("Mul", x, cos), g("Mul", rotate_half(g, x, D), sin)))


def cast(back=HALF, table=FLOAT):
    """x in float16, rotated in float32 or in float16 by tables in float16."""
    g = Graph()
    x, ids = inputs(g, HALF)
    if table == HALF:
        return g.model(halves(g, x, *gathered(g, ids, dtype="float16")), kind=HALF)
    y = halves(g, g("Cast", x, to=FLOAT), *computed(g, ids))
    return g.model(g("Cast", y, to=back), kind=back)


def scattered(sizes=(2, 3, 5)):
    """Even and odd channels written into a tensor of a fixed size, as y[..., ::2] = ... is."""
    g = Graph()
    x, ids = inputs(g, sizes=sizes)
    cos, sin = gathered(g, ids)
    x1, x2 = (slice_of(g, x, start, D, 2) for start in (0, 1))
    y = g("ConstantOfShape", g("Shape", x))
    first = g("Sub", g("Mul", x1, cos), g("Mul", x2, sin))
    second = g("Add", g("Mul", x2, cos), g("Mul", x1, sin))
    for start, part in enumerate((first, second)):
        grid = np.meshgrid(*(np.arange(n) for n in sizes), np.arange(start, D, 2), indexing="ij")
        y = g("ScatterND", y, np.stack(grid, axis=-1), part)
    return g.model(y)


def latent(**of_tables):
    """16 channels and 32 rotated ones of a Split, joined by a single Concat, as in DeepSeek."""
    g = Graph()
    hidden = g.input("hidden", FLOAT, "batch", "tokens", 16)
    ids = g.input("position_ids", INT64, "batch", "tokens")
    weight = np.random.default_rng(0).standard_normal((16, 4 * 48)).astype(np.float32)
    q = g("Reshape", g("MatMul", hidden, weight), ints(0, 0, 4, 48))
    q = g("Transpose", q, perm=[0, 2, 1, 3])
    passed, x = g("Split", q, ints(16, D), axis=-1, outputs=2)
    cos, sin = gathered(g, ids, **of_tables)
    x1, x2 = slice_of(g, x, 0, D // 2), slice_of(g, x, D // 2, D)
    first = g("Sub", g("Mul", x1, cos), g("Mul", x2, sin))
    second = g("Add", g("Mul", x2, cos), g("Mul", x1, sin))
    return g.model(g("Concat", passed, first, second, axis=-1))


def one_of_two():
    """x is one result of a Split, and the length of the tables that of the other one."""
    g = Graph()
    hidden = g.input("hidden_states", FLOAT, "batch", "tokens", 2 * D)
    key, x = g("Split", hidden, ints(D, D), axis=-1, outputs=2)
    length = g("Shape", key, start=1, end=2)
    cut = [g("Slice", t, ints(0), length, ints(0)) for t in tables(D, rows=2048)]
    y = halves(g, x, *cut)
    return g.model(y)


LATENT = RoPE(48, layout="half", rotary_dim=D, rotary_start=16)
CASES = {
    "matmul": (lambda: matrices("MatMul"), PAIRS, ""),
    "einsum": (lambda: matrices("Einsum"), PAIRS, ""),
    "matmul, layout": (lambda: matrices("MatMul"), SPLIT, "layout"),
    "einsum, sign": (lambda: matrices("Einsum", sign=-1), PAIRS, "sign"),
    "sum": (summed, SPLIT, ""),
    "half, cast": (cast, SPLIT, ""),
    "half, tables": (lambda: cast(table=HALF), SPLIT, ""),
    "fixed sizes": (scattered, PAIRS, ""),
    "one result of two": (one_of_two, SPLIT, ""),
    "joined": (latent, LATENT, ""),
    "joined, base": (lambda: latent(base=5e5), LATENT, "base"),
}
DAY = ("einsum, sign", "half, cast", "fixed sizes", "joined, base")


def loaded(model, folder):
    onnx.save(model, folder / "model.onnx")
    return load_onnx(folder / "model.onnx", head_dim=D)


@pytest.mark.parametrize("name", by_day(CASES, DAY))
def test_a_rotation_that_is_written_out_is_judged(name, tmp_path):
    make, encoding, code = CASES[name]
    found = loaded(make(), tmp_path)
    assert not found.problems
    (site,) = found.sites
    assert site.bound.dtype == ("float16" if name.startswith("half") else "float32")
    report = check(site.implementation(name), encoding, dtype=site.bound.dtype, max_position=1023)
    assert report.codes[:1] == ([code] if code else []), report
    assert report.verdict == ("deviates" if code else "conforms"), report


def test_one_wrong_layer_of_three_is_located(tmp_path):
    g = Graph()
    x, ids = inputs(g)
    for layer in range(3):
        cos, sin = computed(g, ids, FREQUENCIES * (1.01 if layer == 1 else 1))
        x = g("Tanh", halves(g, x, cos, g("Identity", sin)))
        g.nodes[-2].name = f"layer.{layer}"
    found = loaded(g.model(x), tmp_path)
    verdicts = {
        tuple(site.names): check(site.implementation("x"), SPLIT, max_position=1023).passed
        for site in found.sites
    }
    assert verdicts == {("layer.0", "layer.2"): True, ("layer.1",): False}


def test_tables_that_are_inputs_are_named(tmp_path):
    g = Graph()
    x, _ = inputs(g)
    tables = [g.input(n, FLOAT, "batch", "tokens", D) for n in ("cos", "rope.sin")]
    cos, sin = (g("Unsqueeze", t, ints(1)) for t in tables)
    y = g("Add", g("Mul", x, cos), g("Mul", rotate_half(g, x, D), sin))
    with pytest.raises(ValueError, match=r"inputs of the model \(cos, rope\.sin\), which has"):
        loaded(g.model(y), tmp_path)


def test_a_score_against_positions_is_no_rotation(tmp_path):
    """q times embedded distances, as in Transformer-XL: a matrix of rows, but no rotation."""
    g = Graph()
    q, ids = inputs(g)
    rows = g("Gather", np.ones((64, D), np.float32), ids, axis=0)
    y = g("MatMul", q, g("Unsqueeze", g("Transpose", rows, perm=[0, 2, 1]), ints(1)))
    with pytest.raises(ValueError, match="has no positional encoding") as raised:
        loaded(g.model(y), tmp_path)
    assert "looks like a rotation" not in str(raised.value)
