"""Judge the encodings of ``posenc_ref`` on every array library, for `posenc verify`.

Dask makes a graph for each call, JAX compiles for each shape, and array_api_strict examines the
arguments of every operation: they get fewer and smaller checks by default. ``--full`` judges
everything on every library.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

import posenc_ref
from posenc_ref import ALiBi, Encoding, Learned, MultiAxisRoPE, RoPE, Sinusoidal, T5Bias, YaRN
from posenc_ref._namespace import device_of, dtype_name, has_float64, is_array, namespace
from posenc_ref.accuracy import budget
from posenc_ref.backends import Backend
from posenc_ref.backends import backend as backend_named
from posenc_ref.conformance.exact import kept
from posenc_ref.conformance.exact.reference import Entry, sides
from posenc_ref.conformance.registry import entries

from .record import Outcome

#: Libraries with a reduced workload by default, and the dtypes in which they are judged.
QUICK = {
    "array_api_strict": ("float32", "float64"),
    "dask": ("float32",),
    "jax": ("float32", "bfloat16"),
}
#: Surfaces that the reduced workload leaves out: other tables for the code of "RoPE half".
LEFT_OUT = ("RoPE interleaved", "RoPE YaRN")


def scheduled(backend: Backend) -> AbstractContextManager[Any]:
    """Let Dask compute in this thread, because the arrays are too small for parallel work."""
    if backend.name != "dask" or backend.missing() is not None:
        return nullcontext()
    import dask

    return dask.config.set(scheduler="synchronous")  # type: ignore[no-any-return]


#: The number of heads: not a power of two, for which slopes are defined differently.
HEADS = 12


@dataclass(frozen=True)
class Own:
    """One surface of a ``posenc_ref`` encoding, with the arguments of ``check``."""

    label: str
    surface: str
    encoding: Encoding
    fn: Callable[..., Any]
    once: bool = False  #: whether to judge it in one dtype only


def own_surfaces(backend: Backend, dtype: str, device: str | None, dim: int = 64) -> list[Own]:
    """Return the surfaces to judge on a ``device``, for heads of size ``dim``."""
    half, pairs = RoPE(dim, layout="half"), RoPE(dim, layout="interleaved", base=500000.0)
    # YaRN as in gpt-oss; M-RoPE as in Qwen3-VL, if heads have full size.
    yarn = RoPE(dim, layout="half", base=150000.0, scaling=YaRN(32, 4096, truncate=False))
    sections = (12, 10, 10) if dim == 64 else (dim // 4, dim // 8, dim // 8)
    mrope = MultiAxisRoPE(
        dim, sections=sections, layout="half", arrangement="interleaved", base=5e6
    )
    sines, alibi = Sinusoidal(dim), ALiBi(HEADS)
    # A learned table with distinct rows, exact in every dtype.
    table = np.random.default_rng(0).integers(-127, 128, (32, HEADS)) / 8
    there = backend.asarray(table, dtype, device)
    t5, learned = T5Bias(there), Learned(there, offset=2)

    def positions(start: int, stop: int) -> Any:
        return backend.asarray(np.arange(start, stop), "int64", device)

    def bias(encoding: Any) -> Callable[[int, int], Any]:
        return lambda q_len, k_len: encoding.bias(
            positions(k_len - q_len, k_len), positions(0, k_len), dtype=dtype
        )

    slopes = Own("ALiBi slopes", "slopes", alibi, lambda n: ALiBi(n).slopes(), once=True)
    return [
        Own("RoPE half", "apply", half, half.apply),
        Own("RoPE interleaved", "apply", pairs, pairs.apply),
        Own("RoPE YaRN", "apply", yarn, yarn.apply, once=True),
        Own("M-RoPE", "apply", mrope, mrope.apply, once=True),
        Own("RoPE cos_sin", "cos_sin", half, lambda p: half.cos_sin(p, dtype=dtype)),
        Own("Sinusoidal", "table", sines, lambda p: sines.table(p, dtype=dtype)),
        Own("Learned", "table", Learned(table, offset=2), learned.table),
        Own("ALiBi", "bias", alibi, bias(alibi)),
        *([slopes] if backend.name == "numpy" else []),  # always NumPy arrays
        Own("T5Bias", "bias", T5Bias(table), bias(t5)),
        Own("T5 bucket", "bucket", T5Bias(table), t5.bucket, once=True),
    ]


def wide(backend: Backend, device: str | None) -> bool:
    """Return whether ``device`` has float64, in which posenc_ref computes exact angles."""
    probe = backend.asarray(np.zeros(1), "float32", device)
    return has_float64(namespace(probe), device_of(probe))


_ON_NUMPY = own_surfaces(backend_named("numpy"), "float32", None)
LABELS = tuple(own.label for own in _ON_NUMPY)
#: The labels of surfaces that are judged in one dtype only.
ONCE = tuple(own.label for own in _ON_NUMPY if own.once)


def labels() -> dict[str, Entry]:
    """Return, by label, the entries of posenc_ref's registry."""
    return {f"{e.name} vectors": e for e in entries()}


def judge_entry(
    entry: Entry,
    backend: Backend,
    dtype: str,
    device: str | None,
    blank: Outcome,
    angles: Any,
    most: int | None = None,
) -> Outcome:
    """Judge the cases of the first ``most`` examples; results made wrong on purpose must fail."""
    worst, executed, wrong, vacuous = 0.0, 0, [], []
    for name, example in itertools.islice(entry.examples.items(), most):
        e = on_library(example, backend, dtype, device)
        for recipe, truth in kept.cases(entry, name):
            result = call(e, recipe.inputs, backend, dtype, device)
            host, case = backend.asnumpy(result), f"{name}-{recipe.name}"
            if dtype_name(result) != dtype:
                wrong.append(("dtype", f"{case} comes out in {dtype_name(result)}"))
            score = truth.score(host, dtype, angles=angles)
            if score > budget(dtype):
                wrong.append(("inaccurate", f"{case} is off by {score:.3g} units of rounding"))
            moved = truth.perturbed(host, dtype, angles)
            if truth.score(moved, dtype, angles=angles) <= budget(dtype):
                vacuous.append(case)
            worst, executed = max(worst, score), executed + 1
    reason = "the check accepted outputs that were made wrong on purpose: " + ", ".join(vacuous)
    return blank.replace(
        surface=entry.surface,
        verdict="error" if vacuous else "deviates" if wrong else "conforms",
        reason=reason if vacuous else "",
        codes=tuple(code for code, _ in wrong),
        messages=tuple(text for _, text in wrong),
        encoding=entry.name,
        worst=worst,
        budget=budget(dtype),
        executed=executed,
    )


def on_library(e: Any, backend: Backend, dtype: str, device: str | None) -> Any:
    """Return the encoding with its learned arrays, float32, moved to an array library."""

    def there(value: Any) -> Any:
        if isinstance(value, Encoding):
            return on_library(value, backend, dtype, device)
        if isinstance(value, tuple):
            return tuple(map(there, value))
        if is_array(value) and value.dtype == np.float32:
            return backend.asarray(value, dtype, device)
        return value

    fields = {f.name: getattr(e, f.name) for f in dataclasses.fields(e)}
    changed = {name: there(value) for name, value in fields.items()}
    return e.replace(**{n: v for n, v in changed.items() if v is not fields[n]})


def call(e: Any, inputs: Any, backend: Backend, dtype: str, device: str | None) -> Any:
    """Return the output of the encoding for the inputs, moved to ``device``."""

    def there(x: np.ndarray, kind: str) -> Any:
        return backend.asarray(x, kind, device)

    if e.family == "rotary":
        rotate = e.apply_queries if hasattr(e, "decays") else e.apply
        return rotate(there(inputs["x"], dtype), there(inputs["positions"], "int64"))
    if e.family == "table":
        p = inputs["positions"]  # fractional positions are exact in float32
        return e.table(there(p, "int64" if p.dtype.kind == "i" else "float32"), dtype=dtype)
    if e.family == "bias":
        q_at, k_at = map(np.array, sides(inputs))
        return e.bias(there(q_at, "int64"), there(k_at, "int64"), dtype=dtype)
    q, k = (there(inputs[name], dtype) for name in "qk")
    return posenc_ref.scores(e, q, k, *sides(inputs))
