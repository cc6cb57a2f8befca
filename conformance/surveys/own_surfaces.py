"""The functions of our own encodings that `posenc verify` judges on every array library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import ALiBi, Encoding, Learned, MultiAxisRoPE, RoPE, Sinusoidal, T5Bias, YaRN
from posenc_ref._namespace import device_of, has_float64, namespace
from posenc_ref.backends import Backend
from posenc_ref.backends import backend as backend_named

#: Heads of the biases: not a power of two, where recipes for slopes differ.
HEADS = 12


@dataclass(frozen=True)
class Own:
    """One surface of one of our encodings, with the arguments of ``check``."""

    label: str
    surface: str
    encoding: Encoding
    fn: Callable[..., Any]
    once: bool = False  #: does not depend on the dtype, so judged in one of them


def own_surfaces(backend: Backend, dtype: str, device: str | None, dim: int = 64) -> list[Own]:
    """Return the surfaces of our encodings on a ``device``, for heads of size ``dim``."""
    half, pairs = RoPE(dim, layout="half"), RoPE(dim, layout="interleaved", base=500000.0)
    # As gpt-oss has it, and M-RoPE as Qwen3-VL has it, where heads are whole ones.
    yarn = RoPE(dim, layout="half", base=150000.0, scaling=YaRN(32, 4096, truncate=False))
    sections = (12, 10, 10) if dim == 64 else (dim // 4, dim // 8, dim // 8)
    mrope = MultiAxisRoPE(
        dim, sections=sections, layout="half", arrangement="interleaved", base=5e6
    )
    sines, alibi = Sinusoidal(dim), ALiBi(HEADS)
    table = _table()
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
        *([slopes] if backend.name == "numpy" else []),  # NumPy's whatever the library
        Own("T5Bias", "bias", T5Bias(table), bias(t5)),
        Own("T5 bucket", "bucket", T5Bias(table), t5.bucket, once=True),
    ]


def wide(backend: Backend, device: str | None) -> bool:
    """Return whether ``device`` has float64, so that angles are exact there."""
    probe = backend.asarray(np.zeros(1), "float32", device)
    return has_float64(namespace(probe), device_of(probe))


def _table() -> np.ndarray:
    """Return a learned table (32, HEADS) of different rows, exact in every dtype."""
    return np.random.default_rng(0).integers(-127, 128, (32, HEADS)) / 8


_ON_NUMPY = own_surfaces(backend_named("numpy"), "float32", None)
LABELS = tuple(own.label for own in _ON_NUMPY)
#: Judged in one dtype only.
ONCE = tuple(own.label for own in _ON_NUMPY if own.once)
