"""Write an encoding as an ONNX model of standard operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import Bias, Encoding, Rotary, Table

#: The element types of the result, by dtype: those that ONNX Runtime runs on a CPU.
DTYPES = {"float32": 1, "float16": 10, "float64": 11}
#: What a model computes, by family of the encoding; the first is the default.
KINDS = {"rotary": ("apply", "tables"), "table": ("tables",), "bias": ("bias",)}
#: Versions of the standard operators: Split and ReduceSum have their inputs of today from 13 on.
LEAST_OPSET, DEFAULT_OPSET = 13, 18
#: The largest distance at which a bias may still change.
_FARTHEST = 4096
#: The IR version that runtimes of 2022 read.
_IR = 8


def export(
    encoding: Encoding,
    what: str | None = None,
    *,
    dtype: str = "float32",
    length: int | None = None,
    opset: int = DEFAULT_OPSET,
) -> Any:
    """Return an ONNX model that computes an encoding.

    Parameters
    ----------
    encoding : Encoding
        A rotary encoding with fixed frequencies, a table of positions or a relative bias.
    what : {"apply", "tables", "bias"}, optional
        "apply": x (B, H, S, D) and position_ids (B, S), or (A, B, S) for A axes, to y; "tables":
        positions (S,) to cos and sin (S, D/2) or to a table (S, dim); "bias": q_positions and
        k_positions to (H, Q, K). By default the first that the encoding has.
    dtype : {"float32", "float16", "float64"}
        The element type of x and of the results.
    length : int, optional
        Store tables for positions below ``length``. By default cos and sin are computed in float64
        at any position; tables that are no rotation need a length, and biases take none.
    opset : int
        The version of the standard operators.

    Returns
    -------
    onnx.ModelProto
        The model; it is not yet checked.

    Raises
    ------
    ValueError
        The encoding has no such model, or an argument is not allowed.
    """
    _check(encoding, what, dtype, length, opset)
    kind = what or KINDS[encoding.family][0]
    graph = _Graph(dtype, opset)
    if kind == "bias":
        _bias(graph, encoding)
    elif not isinstance(encoding, Rotary):
        _table(graph, encoding, length or 0)
    elif kind == "tables":
        at = graph.positions("positions", ["tokens"])
        for name, table in zip(("cos", "sin"), _cos_sin(graph, encoding, at, length), strict=True):
            graph.output(table, name, ["tokens", encoding.frequencies().size])
    else:
        _rotation(graph, encoding, length)
    return graph.model(encoding)


def _check(
    encoding: Encoding, what: str | None, dtype: str, length: int | None, opset: int
) -> None:
    from onnx import defs

    name = type(encoding).__name__
    allowed = KINDS.get(encoding.family, ())
    if not allowed or not isinstance(encoding, Rotary | Table | Bias):
        raise ValueError(
            f"{name} has no ONNX model: only rotations, tables and biases of positions have one"
        )
    if what is not None and what not in allowed:
        raise ValueError(f"what must be {' or '.join(allowed)} for {name}, got {what!r}")
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    newest = defs.onnx_opset_version()
    if not LEAST_OPSET <= opset <= newest:
        raise ValueError(f"opset must be {LEAST_OPSET} .. {newest}, got {opset}")
    if length is not None and length < 1:
        raise ValueError(f"length must be at least 1, got {length}")
    if isinstance(encoding, Rotary):
        if encoding.depends_on_length:
            raise ValueError(
                f"{name} has frequencies that depend on the length of the sequence, which a model "
                "cannot store: export an encoding with the frequencies of one length "
                "(GivenFrequencies)"
            )
        if type(encoding).apply is not Rotary.apply or type(encoding)._tables is not Rotary._tables:
            raise ValueError(f"{name} is no rotation by position * frequency: it has no ONNX model")
        if encoding.num_axes > 1 and (what == "tables" or length is not None):
            raise ValueError(
                f"{name} has {encoding.num_axes} position axes: export what='apply' without length"
            )
    elif isinstance(encoding, Table) and encoding.num_axes > 1:
        raise ValueError(
            f"{name} has {encoding.num_axes} position axes: only tables of one axis have an ONNX "
            "model"
        )
    elif isinstance(encoding, Table) and length is None:
        raise ValueError(
            f"length must be given for {name}, --length N on the command line: the model stores "
            "the rows of positions 0 .. N-1"
        )
    elif isinstance(encoding, Bias) and length is not None:
        raise ValueError(f"length is not used for {name}: the model takes any positions")


class _Graph:
    """A model that grows node by node; methods return the name of the new tensor."""

    def __init__(self, dtype: str, opset: int) -> None:
        self.dtype, self.opset = dtype, opset
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.stored: list[Any] = []

    def input(self, name: str, kind: int, sizes: list[Any]) -> str:
        from onnx import helper

        self.inputs.append(helper.make_tensor_value_info(name, kind, sizes))
        return name

    def positions(self, name: str, sizes: list[Any]) -> str:
        """Add an input of int64 positions."""
        return self.input(name, 7, sizes)

    def store(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node; inputs that are no names are stored tensors."""
        from onnx import helper

        read = [i if isinstance(i, str) else self.store(i) for i in inputs]
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, read, [name], name=name, **attributes))
        return name

    def cast(self, tensor: str, dtype: str) -> str:
        return self.add("Cast", tensor, to=DTYPES[dtype])

    def output(self, tensor: str, name: str, sizes: list[Any]) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [tensor], [name], name=f"write_{name}"))
        value = helper.make_tensor_value_info(name, DTYPES[self.dtype], sizes)
        self.outputs.append(value)

    def channels(self, tensor: str, index: np.ndarray) -> str:
        """Select channels of the last axis: a slice where they are evenly spaced."""
        steps = np.unique(np.diff(index))
        if len(steps) > 1 or (len(steps) == 1 and steps[0] < 1):
            return self.add("Gather", tensor, index.astype(np.int64), axis=-1)
        step = int(steps[0]) if len(steps) else 1
        bounds = ([int(index[0])], [int(index[-1]) + 1], [-1], [step])
        return self.add("Slice", tensor, *(np.array(b, np.int64) for b in bounds))

    def model(self, encoding: Encoding) -> Any:
        from onnx import helper

        from posenc_ref import __version__

        graph = helper.make_graph(
            self.nodes, type(encoding).__name__, self.inputs, self.outputs, self.stored
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=_IR
        )
        model.producer_name, model.producer_version = "posenc-ref", __version__
        model.doc_string = repr(encoding)
        return model


def _cos_sin(graph: _Graph, encoding: Rotary, at: str, length: int | None) -> tuple[str, str]:
    """Add cos and sin (..., pairs), with the attention factor, for positions (...)."""
    if length is not None:
        cos, sin = encoding.cos_sin(np.arange(length))
        return _stored(graph, cos, at), _stored(graph, sin, at)
    p = graph.cast(at, "float64")
    if encoding.num_axes > 1:  # (A, B, S) to (B, S, pairs): for each pair the position on its axis
        axes = encoding.axes()
        p = graph.add("Gather", p, np.asarray(axes, np.int64), axis=0)
        p = graph.add("Transpose", p, perm=[1, 2, 0])
    else:
        p = graph.add("Unsqueeze", p, np.array([-1], np.int64))
    if encoding.offset:
        p = graph.add("Add", p, np.float64(encoding.offset))
    angle = graph.add("Mul", p, encoding.frequencies())
    found = []
    for operator in ("Cos", "Sin"):
        table = graph.add(operator, angle)
        if encoding.attention_factor() != 1.0:
            table = graph.add("Mul", table, np.float64(encoding.attention_factor()))
        found.append(graph.cast(table, graph.dtype) if graph.dtype != "float64" else table)
    return found[0], found[1]


def _rotation(graph: _Graph, encoding: Rotary, length: int | None) -> None:
    """Add the rotation of x (B, H, S, D) to position_ids (B, S) or (A, B, S)."""
    d, several = encoding.head_dim, encoding.num_axes > 1
    x = graph.input("x", DTYPES[graph.dtype], ["batch", "heads", "tokens", d])
    rows = ["batch", "tokens"]
    at = graph.positions("position_ids", [encoding.num_axes, *rows] if several else rows)
    cos, sin = (
        graph.add("Unsqueeze", t, np.array([1], np.int64))
        for t in _cos_sin(graph, encoding, at, length)
    )
    first, second = encoding.pairs()
    x1, x2 = graph.channels(x, first), graph.channels(x, second)
    forward, backward = ("Sub", "Add") if encoding.sign > 0 else ("Add", "Sub")
    y1 = graph.add(forward, graph.add("Mul", x1, cos), graph.add("Mul", x2, sin))
    y2 = graph.add(backward, graph.add("Mul", x2, cos), graph.add("Mul", x1, sin))
    passed = np.setdiff1d(np.arange(d), np.concatenate([first, second]))
    parts = [y1, y2, *([graph.channels(x, passed)] if passed.size else [])]
    y = graph.add("Concat", *parts, axis=-1)
    order = np.argsort(np.concatenate([*encoding.output_pairs(), passed]))
    if (order != np.arange(d)).any():
        y = graph.channels(y, order)
    graph.output(y, "y", ["batch", "heads", "tokens", d])


def _stored(graph: _Graph, rows: Any, at: str) -> str:
    """Select rows of a stored table; a negative position is an error, not a row from the end."""
    rows = np.asarray(rows)
    beyond = graph.add("Less", at, np.int64(0))
    at = graph.add("Where", beyond, np.int64(len(rows)), at)
    return graph.add("Gather", rows.astype(graph.dtype), at, axis=0)


def _table(graph: _Graph, encoding: Any, length: int) -> None:
    try:
        rows = np.asarray(encoding.table(np.arange(length)))
    except ValueError as error:
        name = type(encoding).__name__
        raise ValueError(f"length {length} is too large for {name}: {error}") from None
    at = graph.positions("positions", ["tokens"])
    graph.output(_stored(graph, rows, at), "table", ["tokens", rows.shape[-1]])


def _bias(graph: _Graph, encoding: Any) -> None:
    """Add a bias that is linear in the distance on each side, or constant beyond a distance."""
    name, far = type(encoding).__name__, _FARTHEST
    if not encoding.relative:
        raise ValueError(f"{name} is no function of k - q alone, so it has no ONNX model")
    every = np.asarray(encoding.bias([far], np.arange(2 * far + 1)), np.float64)[:, 0]
    q = graph.add("Unsqueeze", graph.positions("q_positions", ["queries"]), np.array([1], np.int64))
    k = graph.add("Unsqueeze", graph.positions("k_positions", ["keys"]), np.array([0], np.int64))
    offset = graph.add("Sub", k, q)
    r = np.arange(-far, far + 1)
    before, after = every[:, far - 1], every[:, far + 1]
    if np.array_equal(every, np.where(r < 0, before[:, None], after[:, None]) * np.abs(r)):
        bias = _linear(graph, offset, before, after)
    else:
        changes = np.flatnonzero((np.diff(every) != 0).any(axis=0))
        last = max(far - int(changes.min()), int(changes.max()) + 1 - far) if changes.size else 1
        ends = np.asarray(encoding.bias([2**20], [0, 2**21]), np.float64)[:, 0]
        if last >= far or not np.array_equal(ends, every[:, [0, -1]]):
            raise ValueError(
                f"{name} is neither linear in the distance nor constant beyond {far} positions, so "
                "it has no ONNX model"
            )
        kept = every[:, far - last : far + last + 1].astype(graph.dtype)
        near = graph.add("Clip", offset, np.int64(-last), np.int64(last))
        bias = graph.add("Gather", kept, graph.add("Add", near, np.int64(last)), axis=1)
    graph.output(bias, "bias", [len(every), "queries", "keys"])


def _linear(graph: _Graph, offset: str, before: np.ndarray, after: np.ndarray) -> str:
    """Add ``before * distance`` for keys before the query, and ``after * distance`` for others."""
    r = graph.cast(offset, "float64")
    sides = [graph.add("Min", r, np.float64(0)), graph.add("Max", r, np.float64(0))]
    slopes = (-before[:, None, None], after[:, None, None])
    parts = [graph.add("Mul", slope, side) for slope, side in zip(slopes, sides, strict=True)]
    bias = graph.add("Add", *parts)
    return bias if graph.dtype == "float64" else graph.cast(bias, graph.dtype)
