"""Calls of public constructors, methods and functions, which the fuzzers change.

A call is ``{"make": FORM, "call": NAME, "with": {argument: FORM}}``, with the forms of
:mod:`.arguments`; ``make`` is the instance whose method is called, and absent for a function.
"""

import copy
import functools
import inspect

import numpy as np

import posenc_ref as pr
from posenc_ref import backends
from tests.fuzz import arguments, mutate
from tests.fuzz.engine import TooSlow

#: Arguments that say how much is computed: memory and time may follow them.
SIZES = {
    "head_dim", "dim", "num_heads", "height", "width", "frames", "q_len", "k_len", "n_steps",
    "num_layers", "n_layers", "size", "new_size", "seq_len", "lengths", "sections", "window",
    "num_bands", "num_axes", "max_len", "grid", "new_grid", "before", "after", "groups",
    "prompt_len", "cu_seqlens", "token_types", "image_grids", "video_grids", "length",
    "resolution", "tables", "kept", "cp_size", "split_frames", "n_heads", "clamp", "sizes",
}  # fmt: skip
#: Sizes up to these are computed within the limits of the engine.
MODEST = 100
#: Methods that other targets try, and methods that take what another method has checked.
NOT_CALLED = {
    "read", "to_dict", "truth", "truths", "gate_sizes", "row", "positions", "schedule", "magnitude",
}  # fmt: skip


def numbers(*shape, dtype="float32"):
    """Return the form of an array."""
    return {"array": {"shape": list(shape), "dtype": dtype, "fill": "eighths", "as": "numpy"}}


def places(*shape):
    """Return the form of positions, counted from 0 along the last axis."""
    if len(shape) == 1:
        return {"array": {"shape": [*shape], "dtype": "int64", "fill": "range", "as": "numpy"}}
    return [list(range(shape[-1]))] * shape[0]


def schedules():
    """Return a frequency schedule of each class, and query scales."""
    from posenc_ref.conformance.exact.schedules import examples

    known = [
        pr.LinearScaling(4.0), pr.NTKScaling(2.0), pr.DynamicNTK(2.0, 16), pr.YaRN(4.0, 1024),
        pr.YaRN(4.0, 16, mscale=1.0, mscale_all_dim=0.5, truncate=False),
        pr.Llama3Scaling(8.0, 1.0, 4.0, 64), pr.LongRoPE((1.0, 2.0), (2.0, 4.0), 16, factor=2.0),
        pr.SuNTK(2.0), pr.QwenNTK(16), pr.NTKByParts(2.0, 64), pr.Proportional(0.5),
        pr.GivenFrequencies((1.0, 0.25)), pr.RIFLEx(2, 66, periods=0.9),
        pr.LogNScale(4), pr.LogTemperature(0.5, 4), pr.PowerTemperature(0.25, 8),
        pr.QueryTemperature(0.1, 4),
    ]  # fmt: skip
    return known + [s for s in examples() if type(s) not in map(type, known)]


@functools.cache
def instances():
    """Return pairs: an example of each class, and arrays that suit its methods."""
    import torch  # noqa: F401  # before memory is limited

    from posenc_ref.conformance.registry import entries

    found = [
        (e, _inputs(entry.group(name).cases[0].inputs))
        for entry in entries()
        for name, e in entry.examples.items()
        if getattr(e, "head_dim", None) is None or e.head_dim <= 64
    ]
    found += [(s, {}) for s in schedules()]
    # Small rotary encodings with every schedule: cheap enough for exact arithmetic.
    for s in schedules():
        if isinstance(s, pr.FrequencySchedule):
            e = pr.RoPE(4, layout="half", scaling=s)
            found.append((e, {"x": numbers(1, 2, 3, 4), "positions": places(3)}))
    found.append((pr.XPos(4, layout="half"), {"x": numbers(1, 2, 3, 4), "positions": places(3)}))
    found.append((pr.MultiAxisRoPE(8, sections=(1, 3), layout="half"),
                  {"x": numbers(1, 2, 3, 8), "positions": places(2, 3)}))  # fmt: skip
    found += [(pr.preset(n), {"layer_type": "full_attention"}) for n in ("llama-3.1-8b",)]
    return found


def _inputs(inputs):
    """Return the forms of the inputs of a registered case."""
    found = {}
    for name, value in inputs.items():
        if name == "positions":
            value = np.asarray(value)
            found[name] = {"as": value.reshape(value.shape[0], -1).tolist()}["as"] \
                if value.ndim > 1 else value.tolist()  # fmt: skip
        else:
            found[name] = arguments.form(value)
    return found


def defaults(e, inputs):
    """Return a form for every argument that a method may have."""
    axes, dim = getattr(e, "num_axes", 1), getattr(e, "head_dim", getattr(e, "dim", 4)) or 4
    at = inputs.get("positions", places(3))
    count = len(at[0]) if axes > 1 and isinstance(at, list) else 3
    q = inputs.get("q", numbers(1, getattr(e, "heads", 2) or 2, 3, dim))
    tokens = q["array"]["shape"][2]
    n = getattr(e, "tokens", tokens) or tokens
    side = places(n if isinstance(n, int) else 3)
    return {
        "positions": at, "q_positions": side, "k_positions": side, "delta": 2, "position": 3,
        "x": inputs.get("x", numbers(1, count, dim)), "q": q, "k": inputs.get("k", q),
        "relative_position": {"array": {"shape": [5], "dtype": "int64", "fill": "negative"}},
        "weights": numbers(1, 2, 3, 3), "v": numbers(1, 2, 3, dim), "dtype": {"dtype": "float32"},
        "height": 2, "width": 3, "q_len": 3, "k_len": 5, "seq_len": 40, "dim": dim, "k_": 1.0,
        "layer_type": inputs.get("layer_type", "full_attention"), "base": 10000.0, "rotary_dim": 8,
        "input_ids": {"array": {"shape": [2, 3], "dtype": "int64", "fill": "ones"}},
        "mask": {"array": {"shape": [1, 2, 3], "dtype": "bool", "fill": "ones"}},
        "logits": numbers(1, 2, 3, 3), "q_at": side, "k_at": side, "r": places(3),
        "q_segments": side, "k_segments": side, "num_bands": 2, "include_input": True,
        "resolution": {"tuple": [4, 4]}, "weight": numbers(2, dim), "bias": numbers(2),
    }  # fmt: skip


def _with(function, known, rng_options=("dtype", "seq_len")):
    """Return the forms of the arguments of a function."""
    return {
        name: copy.deepcopy(known[name])
        for name, p in inspect.signature(function).parameters.items()
        if name in known and (p.default is p.empty or name in rng_options)
    }


@functools.cache
def constructors():
    """Return the construction of every example."""
    return [{"make": arguments.form(e)} for e, _ in instances()]


@functools.cache
def methods():
    """Return a call of every public method of every example."""
    found = []
    for e, inputs in instances():
        known = defaults(e, inputs)
        for name in dir(e):
            method = getattr(type(e), name, None)
            if name.startswith("_") or name in NOT_CALLED or not callable(method):
                continue
            own = {**known, "k": 2.0} if name == "shift_matrix" else known
            found.append({"make": arguments.form(e), "call": name,
                          "with": _with(getattr(e, name), own)})  # fmt: skip
    return found


@functools.cache
def fused():
    """Return calls of ``backends.fused``, with and without ``out``, and of ``score_mod``."""
    found = []
    for e, inputs in instances():
        made, known = arguments.form(e), defaults(e, inputs)
        at = known["positions"]
        if isinstance(e, pr.XPos | pr.ModelEncoding):
            continue
        if isinstance(e, pr.Rotary):
            x = known["x"]
            for layout, out in (("bhsd", None), ("bhsd", x), ("bshd", None), ("thd", None)):
                given = {"x": x, "positions": at, "tensor_layout": layout, "out": out}
                found.append({"make": made, "call": "__call__", "with": given})
            found.append({"make": made, "call": "inverse", "with": {"x": x, "positions": at}})
            found.append({"make": made, "call": "prepare",
                          "with": {"positions": at, "like": x, "x": x, "start": 0}})  # fmt: skip
            found.append({"make": made, "call": "qk",
                          "with": {"q": x, "k": x, "positions": at, "seq_len": 40}})  # fmt: skip
            found.append({"make": made, "call": "cos_sin",
                          "with": {"positions": at, "dtype": {"dtype": "float32"}}})  # fmt: skip
        elif isinstance(e, pr.Sinusoidal):
            out = numbers(len(at), e.dim)
            for more in ({}, {"out": out}, {"dtype": {"dtype": "float32"}}):
                found.append({"make": made, "call": "__call__",
                              "with": {"positions": at, **more}})  # fmt: skip
        elif isinstance(e, pr.Bias):
            heads = np.asarray(e.bias(range(2), range(2))).shape[0]
            for more in ({}, {"out": numbers(heads, 2, 5)}, {"dtype": {"dtype": "float32"}}):
                found.append({"make": made, "call": "__call__",
                              "with": {"q_len": 2, "k_len": 5, **more}})  # fmt: skip
    return copy.deepcopy(found)


@functools.cache
def functions():
    """Return calls of the public functions that are no readers of files."""
    rope, window = arguments.form(pr.RoPE(8, layout="half")), {"tuple": [2, 3]}
    alibi = arguments.form(pr.ALiBi(2))
    learned = arguments.form(pr.Learned(np.ones((8, 4))))
    x, q = numbers(1, 2, 3, 8), numbers(1, 2, 3, 4)
    heads = {"n_heads": 2, "source": "half", "target": "interleaved", "head_dim": 8}
    part = {"source": "half", "target": "interleaved", "rotary_dim": 4, "rotary_start": 2}
    grid, model = {"height": 4, "width": 6}, arguments.form(pr.preset("llama-3.1-8b"))
    table = {"weight": numbers(8, 4), "grid": [2, 4], "new_grid": [3, 5], "mode": "bilinear"}
    found = [
        ("permute_weights", {"w": numbers(16, 4), **heads}),
        ("permute_weights", {"w": numbers(16), **heads, "rotary_dim": 4}),
        ("permute_fused_weights", {"w": numbers(32, 4), "sizes": [16, 8, 8], "head_dim": 8}),
        ("convert_layout", {"x": x, **part}),
        ("layout_permutation", {"head_dim": 8, **part}),
        ("decode_positions", {"prompt_len": [3, 0], "n_steps": 4}),
        ("packed", {"lengths": [3, 0, 2]}),
        ("position_ids", {"attention_mask": [[0, 1, 1], [1, 1, 0]], "padding": 1}),
        ("position_ids", {"attention_mask": {"array": {
            "shape": [2, 4], "dtype": "int64", "fill": "sparse", "as": "numpy"}}}),
        ("shard_indices", {"cu_seqlens": [0, 4, 12], "cp_size": 2, "cp_rank": 1}),
        ("shard_positions", {"cu_seqlens": [0, 4, 12], "cp_size": 2, "cp_rank": 1}),
        ("grid_positions", {**grid, "merge_size": 2, "frames": 2, "origin": 1}),
        ("grid_positions", {**grid, "origin": "centre"}),
        ("linspace_positions", {**grid, "start": {"tuple": [0.0, 1.0]},
                                "stop": {"tuple": [4.0, 3.0]}, "frames": 2}),
        ("patch_centres", grid),
        ("with_unplaced", {"positions": [[1, 2], [3, 4]], "before": 1, "after": 2}),
        ("relative_index", {"window": window}),
        ("relative_shift", {"x": numbers(2, 3, 5)}),
        ("relative_scores", {"q": q, "rel": numbers(5, 4)}),
        ("resize_matrix", {"size": 4, "new_size": 6, "mode": "bilinear", "scale": 1.5}),
        ("resize_matrix", {"size": 4, "new_size": 2, "mode": "bicubic", "antialias": True}),
        ("resize_table", table),
        ("rope_layers", {"num_layers": 4, "no_rope_layer_interval": 2}),
        ("rope_layers", {"num_layers": 3, "no_rope_layers": [1, 0, 1]}),
        ("rope_layers", {"num_layers": 2, "layer_rope_theta": [1e4, 0.0]}),
        ("mrope_positions", {
            "token_types": [0, 0, 1, 1, 0], "image_grids": [[1, 2, 4]],
            "attention_mask": [1, 1, 1, 1, 1], "spatial_merge_size": 2}),
        ("mrope_positions", {
            "token_types": [[0, 2, 2, 0]], "video_grids": [[2, 2, 2]], "text_after": "extent",
            "seconds_per_grid": [1.0], "tokens_per_second": 2.0}),
        ("scores", {"encoding": rope, "q": x, "k": x, "q_positions": [0, 1, 2],
                    "k_positions": [0, 1, 2], "scale": 0.5}),
        ("scores", {"encoding": alibi, "q": q, "k": q, "q_positions": [0, 1, 2],
                    "k_positions": [0, 1, 2]}),
        ("normed_apply", {"encoding": rope, "x": x, "weight": numbers(8), "positions": [0, 1, 2],
                          "eps": 1e-6}),
        ("rows", {"encoding": learned, "seq_len": 5}),
        ("layers", {"model": model, "n_layers": 32}),
        ("softmax_scale", {"model": model}),
        ("preset", {"name": "llama-3.1-8b", "override": {"rope_theta": 1e4}}),
        ("toeplitz_view", {"row": numbers(2, 7, dtype="float64"), "q_len": 3, "k_len": 5}),
        ("score_mod", {"encoding": alibi}),
        ("backend", {"name": "numpy"}),
    ]  # fmt: skip
    return [{"call": name, "with": given} for name, given in found]


# --- calls ---------------------------------------------------------------------------------------


def _asks_for_much(given):
    """Return whether a call asks for a size that documents say takes long, or much memory."""
    for path in mutate.places(given):
        value = mutate.inside(given, path)[path[-1]]
        large = type(value) in (int, float) and abs(value) > MODEST
        if large and ("shape" in path or (SIZES & {*path} and abs(value) <= 2**41)):
            return True
    return False


def excused(call):
    """Let calls that ask for much take much time or memory."""

    @functools.wraps(call)
    def guarded(given):
        try:
            with np.errstate(all="ignore"):  # extreme numbers overflow, as in NumPy itself
                return call(given)
        except (MemoryError, TooSlow):
            if _asks_for_much(given):
                raise ValueError("the call asks for much memory or time") from None
            raise

    return guarded


@excused
def construct(given):
    """Make an instance, show it and write it as JSON."""
    e = arguments.argument(given["make"])
    repr(e)
    hash(e)
    return e


@excused
def method(given):
    """Call a method of an instance."""
    e = arguments.argument(given["make"])
    values = {k: arguments.argument(v) for k, v in given["with"].items()}
    bound = getattr(e, given["call"], None) if isinstance(e, pr.encoding.Value) else None
    if not callable(bound):
        raise ValueError("no instance")
    return e, values, arguments.called(bound, values)


@excused
def function(given):
    """Call a public function."""
    values = {k: arguments.argument(v) for k, v in given["with"].items()}
    called = getattr(pr, given["call"], None) or getattr(backends, given["call"])
    values = arguments.known(called, values)
    return values, called(**values)


@excused
def fast(given):
    """Call the fast form of an encoding."""
    e = arguments.argument(given["make"])
    values = {k: arguments.argument(v) for k, v in given["with"].items()}
    layout = values.pop("tensor_layout", "bhsd")
    f = backends.fused(e, tensor_layout=layout)
    if given["call"] == "inverse":
        f = f.inverse
    if given["call"] == "prepare":
        prepared = arguments.called(f.prepare, values)
        return e, values, prepared(values.get("x"), values.get("start", 0))
    bound = f if given["call"] in ("__call__", "inverse") else getattr(f, given["call"])
    return e, values, arguments.called(bound, values)
