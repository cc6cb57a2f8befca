"""ONNX models for the tests, built node by node; the tables come from NumPy alone."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, HALF, INT64, INT32 = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.INT64,
    TensorProto.INT32,
)
MICROSOFT = "com.microsoft"
OPSETS = [helper.make_opsetid("", 23), helper.make_opsetid(MICROSOFT, 1)]


class Graph:
    """Nodes in a row; methods return the name of the new tensor."""

    def __init__(self):
        self.nodes, self.stored, self.inputs, self.count = [], [], [], 0

    def input(self, name, kind, *sizes):
        self.inputs.append(helper.make_tensor_value_info(name, kind, list(sizes)))
        return name

    def store(self, value, name=""):
        name = name or f"stored_{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def __call__(self, operator, *inputs, name="", outputs=1, domain="", **attributes):
        read = [i if isinstance(i, str) else self.store(i) for i in inputs]
        self.count += 1
        made = [f"t{self.count}_{i}" for i in range(outputs)]
        node = helper.make_node(operator, read, made, name=name, domain=domain, **attributes)
        self.nodes.append(node)
        return made[0] if outputs == 1 else made

    def model(self, *outputs, functions=(), kind=FLOAT):
        values = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "model", self.inputs, values, self.stored)
        return helper.make_model(
            graph, opset_imports=OPSETS, ir_version=10, functions=list(functions)
        )


def tables(d, rows=4096, base=10000.0, sign=1, dtype="float32", factor=1.0):
    """cos and sin (rows, d/2) of plain RoPE, rounded once."""
    angle = np.outer(np.arange(rows), base ** (-np.arange(0, d, 2) / d))
    return tuple((factor * t).astype(dtype) for t in (np.cos(angle), sign * np.sin(angle)))


def ints(*values):
    return np.array(values, np.int64)


def operator(
    head_dim=32, domain="", rank=4, heads=4, interleaved=0, rotary_dim=0, layers=2, kind=FLOAT,
    shift=0, **of_tables,
):  # fmt: skip
    """Layers with a projection and a RotaryEmbedding node each, that share their tables."""
    g = Graph()
    numpy_kind = helper.tensor_dtype_to_np_dtype(kind)
    width = heads * head_dim
    hidden = g.input("hidden", kind, "batch", "tokens", width)
    ids = g.input("position_ids", INT64, "batch", "tokens")
    if shift:
        ids = g("Add", ids, ints(shift))
    cos, sin = (
        g.store(t, name)
        for t, name in zip(
            tables(rotary_dim or head_dim, dtype=numpy_kind, **of_tables),
            ("cos_cache", "sin_cache"),
            strict=True,
        )
    )
    for layer in range(layers):
        q = g("MatMul", hidden, np.eye(width, dtype=numpy_kind))
        if rank == 4:
            q = g("Reshape", q, ints(0, 0, heads, head_dim))
            q = g("Transpose", q, perm=[0, 2, 1, 3])
        settings = {"interleaved": interleaved}
        if rotary_dim:
            settings |= {"rotary_embedding_dim": rotary_dim, "num_heads": heads}
        elif rank == 3:
            settings |= {"num_heads": heads}
        order = [q, ids, cos, sin] if domain else [q, cos, sin, ids]
        name = f"layer.{layer}.q_rotary"
        q = g("RotaryEmbedding", *order, name=name, domain=domain, **settings)
        if rank == 4:
            q = g("Transpose", q, perm=[0, 2, 1, 3])
            q = g("Reshape", q, ints(0, 0, width))
        hidden = g("Add", hidden, q)
    return g.model(hidden, kind=kind)


def attention(
    head_dim=32, heads=4, groups=2, interleaved=0, ids=False, packed=False, by_length=None,
    **of_tables,
):  # fmt: skip
    """A GroupQueryAttention node that rotates, as the builder of onnxruntime-genai writes it.

    ``by_length`` are the tables beyond 512 tokens and up to 512 tokens, as for LongRoPE.
    """
    g = Graph()
    names = ["past_key_values.0.key", "past_key_values.0.value"]
    hidden = g.input("hidden", FLOAT, "batch", "tokens", 16)
    mask = g.input("attention_mask", INT64, "batch", "total")
    pasts = [g.input(n, FLOAT, "batch", groups, "past", head_dim) for n in names]
    if ids:
        ids = g.input("position_ids", INT64, "batch", "tokens")
    widths = [heads * head_dim, groups * head_dim, groups * head_dim]
    weight = np.ones((16, sum(widths)), np.float32)
    qkv = g("MatMul", hidden, weight)
    parts = [qkv, "", ""] if packed else g("Split", qkv, ints(*widths), axis=-1, outputs=3)
    last = g("Sub", g("ReduceSum", mask, ints(1), keepdims=0), ints(1))
    last = g("Cast", last, to=INT32)
    length = g("Gather", g("Shape", mask), np.array(1))
    total = g("Cast", length, to=INT32)
    if by_length:
        cos, sin = chosen(g, g("Greater", length, np.int64(512)), *by_length)
    else:
        cos, sin = tables(head_dim, rows=600, **of_tables)
    out = g(
        "GroupQueryAttention", *parts, *pasts, last, total, cos, sin, *([ids] if ids else []),
        name="layer.0.attention", domain=MICROSOFT, outputs=3, num_heads=heads,
        kv_num_heads=groups, do_rotary=1, rotary_interleaved=interleaved,
    )  # fmt: skip
    return g.model(out[0])


def chosen(g, condition, if_true, if_false):
    """The tables cos and sin of one of two branches."""
    branches = []
    for number, (cos, sin) in enumerate((if_true, if_false)):
        names = [f"cos_{number}", f"sin_{number}"]
        stored = [numpy_helper.from_array(t, n) for t, n in zip((cos, sin), names, strict=True)]
        nodes = [helper.make_node("Identity", [n], [f"{n}_out"]) for n in names]
        outputs = [helper.make_tensor_value_info(f"{n}_out", FLOAT, None) for n in names]
        branches.append(helper.make_graph(nodes, f"branch_{number}", [], outputs, stored))
    return g("If", condition, outputs=2, then_branch=branches[0], else_branch=branches[1])


def rotate_half(g, x, d):
    first, second = (
        g("Slice", x, ints(a), ints(b), ints(-1)) for a, b in ((0, d // 2), (d // 2, d))
    )
    return g("Concat", g("Neg", second), first, axis=-1)


def computed(d=32, base=10000.0, kind=INT64, attention_factor=1.0):
    """A model that computes cos and sin and rotates x (B, H, S, D) by half-split pairs."""
    g = Graph()
    x = g.input("x", FLOAT, "batch", "heads", "tokens", d)
    ids = g.input("positions", kind, "batch", "tokens")
    angle = _angle(g, ids, d, base)
    cos, sin = (g("Unsqueeze", g(f, angle), ints(1)) for f in ("Cos", "Sin"))
    if attention_factor != 1:
        cos, sin = (g("Mul", t, np.float32(attention_factor)) for t in (cos, sin))
    y = g("Add", g("Mul", x, cos), g("Mul", rotate_half(g, x, d), sin))
    return g.model(y)


def _angle(g, ids, d, base):
    p = g("Unsqueeze", g("Cast", ids, to=FLOAT), ints(2))
    frequencies = (base ** (-np.arange(0, d, 2) / d)).astype(np.float32)
    half = g("Mul", p, frequencies)
    return g("Concat", half, half, axis=-1)


def gemma(d=32, base=10000.0):
    """A GemmaRotaryEmbedding node, which gets angles, q and k and their rotated halves."""
    g = Graph()
    q, k = (g.input(n, FLOAT, "batch", heads, "tokens", d) for n, heads in (("q", 4), ("k", 2)))
    ids = g.input("position_ids", INT64, "batch", "tokens")
    halves = [rotate_half(g, x, d) for x in (q, k)]
    outputs = g(
        "GemmaRotaryEmbedding", _angle(g, ids, d, base), q, halves[0], k, halves[1],
        name="rope", domain=MICROSOFT, outputs=2,
    )  # fmt: skip
    return g.model(*outputs)


def sectioned(sections, d=32, layout=0, **of_tables):
    """An MRotaryEmbedding node with three positions a token."""
    g = Graph()
    x = g.input("x", FLOAT, "batch", "heads", "tokens", d)
    ids = g.input("position_ids", INT64, 3, "batch", "tokens")
    cos, sin = tables(d, **of_tables)
    y = g(
        "MRotaryEmbedding", x, ids, cos, sin, name="mrope", domain=MICROSOFT,
        mrope_section=sections, mrope_layout=layout,
    )  # fmt: skip
    return g.model(y)


def branch(short, long):
    """RotaryEmbedding with tables from an If: of ``long`` beyond 1023, as LongRoPE."""
    g = Graph()
    x = g.input("x", FLOAT, "batch", 4, "tokens", 32)
    ids = g.input("position_ids", INT64, "batch", "tokens")
    beyond = g("Greater", g("ReduceMax", ids, keepdims=0), np.int64(1023))
    cos, sin = chosen(g, beyond, long, short)
    return g.model(g("RotaryEmbedding", x, ids, cos, sin, name="q_rotary", domain=MICROSOFT))


def inside(how, **of_tables):
    """A RotaryEmbedding node inside a branch of an If, or in a local function."""
    g = Graph()
    x = g.input("x", FLOAT, "batch", 4, "tokens", 32)
    ids = g.input("position_ids", INT64, "batch", "tokens")
    cos, sin = (g.store(t, n) for t, n in zip(tables(32, **of_tables), ("c", "s"), strict=True))
    node = helper.make_node(
        "RotaryEmbedding", ["x", "position_ids", "c", "s"], ["y"], "q_rotary", domain=MICROSOFT
    )
    if how == "function":
        function = helper.make_function(
            "local", "Rope", ["x", "position_ids", "c", "s"], ["y"], [node], OPSETS
        )
        y = g("Rope", x, ids, cos, sin, domain="local")
        model = g.model(y, functions=[function])
        model.opset_import.append(helper.make_opsetid("local", 1))
        return model
    value = [helper.make_tensor_value_info("y", FLOAT, None)]
    skipped = [helper.make_node("Identity", ["x"], ["same"])]
    other = helper.make_graph(
        skipped, "other", [], [helper.make_tensor_value_info("same", FLOAT, None)]
    )
    rotating = helper.make_graph([node], "rotating", [], value)
    flag = g("Greater", g("ReduceMax", ids, keepdims=0), np.int64(-1))
    return g.model(g("If", flag, then_branch=rotating, else_branch=other))
