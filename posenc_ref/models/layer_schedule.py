"""Layer schedules: the layers that rotate, and the layers with full attention.

Every function returns one entry for each layer: a bool, or the name of the layer type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc_ref import _validate as validate
from posenc_ref._text import shown
from posenc_ref.limits import LAYERS

PHASES = ("last", "first", "from-end")


def every_nth(
    num_layers: int, n: int, *, phase: str | int = "last", also: Sequence[int] = ()
) -> tuple[bool, ...]:
    """Return a bool for each layer: True at every n-th one.

    Formula
        ``(i - start) % n == 0``.  ``start`` is n - 1 for ``"last"`` (layers n-1, 2n-1, ...), 0 for
        ``"first"`` (0, n, 2n, ...), num_layers - 1 for ``"from-end"`` (the last layer, and every
        n-th before it), or ``phase`` if it is a number.
    Source
        transformers 5.23, the configuration classes.  ``"last"``: full attention in Gemma 2 (n = 2)
        and 3 (6), Cohere 2 (4), OLMo 3 (4), gpt-oss (2); no RoPE in Llama 4 and SmolLM3 (4).
        ``"first"``: full attention in ModernBERT (3), CWM and Granite SWA (4).  ``"from-end"``:
        Muse Spark (4).  Jamba's configuration states both numbers: phase is ``attn_layer_offset``,
        n is ``attn_layer_period``.

    Parameters
    ----------
    num_layers : int
        At least 0.
    n : int
        The period, at least 1; with 1 every layer is True.
    phase : {"last", "first", "from-end"} or int
    also : sequence of int
        Further layers that are True: (0,) for MiMo-V2, (-1,) for NeoMME and Beam.  Negative numbers
        count from the end.  Layers that the model does not have are ignored.

    Notes
    -----
    ``"from-end"`` is the same as ``"last"`` if n divides num_layers, and the same as ``"first"`` if
    n divides num_layers - 1. A test with such a number of layers cannot tell them apart.

    Raises
    ------
    TypeError, ValueError
        A number is not an integer, ``n`` is below 1, or ``phase`` is unknown.
    """
    num_layers = _layers(num_layers)
    n = validate.integer("n", n, minimum=1)
    if isinstance(phase, str):
        validate.choice("phase", phase, PHASES)
        start = {"last": n - 1, "first": 0, "from-end": num_layers - 1}[phase]
    else:
        start = validate.integer("phase", phase)
    extra = {i if i >= 0 else num_layers + i for i in (validate.integer("also", i) for i in also)}
    return tuple((i - start) % n == 0 or i in extra for i in range(num_layers))


def layer_types(
    chosen: Sequence[bool], *, full: str = "full_attention", other: str = "sliding_attention"
) -> tuple[str, ...]:
    """Return the type of each layer: ``full`` where ``chosen`` is True, else ``other``."""
    return tuple(full if validate.boolean("chosen", c) else other for c in chosen)


def window_letters(num_layers: int, pattern: str) -> tuple[str, ...]:
    """Return layer types from letters such as ``"LLLG"``: L is sliding, G is full attention.

    The pattern repeats from layer 0. The last layer always has full attention.

    Source
        The documentation of ``sliding_window_pattern`` in EXAONE 4.0's configuration class
        (transformers 5.23, ``configuration_exaone4.py``).  The class itself accepts numbers only
        and raises TypeError for letters.
    """
    num_layers = _layers(num_layers)
    if not isinstance(pattern, str) or not pattern or set(pattern) - {"L", "G"}:
        raise ValueError(
            f"pattern must consist of the letters L and G, such as 'LLLG', got {shown(pattern)}"
        )
    letters = [pattern[i % len(pattern)] for i in range(num_layers)]
    return layer_types([letter == "G" for letter in [*letters[:-1], "G"][:num_layers]])


def window_from(num_layers: int, first: int) -> tuple[str, ...]:
    """Return layer types: full attention in layers below ``first``, sliding attention elsewhere.

    Source
        ``max_window_layers`` of Qwen2, Qwen2-VL, Qwen3 (transformers 5.23).  Despite its name it
        counts the layers *without* a window. It applies only if ``use_sliding_window`` is true;
        Qwen2-MoE gives it the opposite meaning.
    """
    num_layers = _layers(num_layers)
    first = validate.integer("first", first, minimum=0)
    return layer_types([i < first for i in range(num_layers)])


def rope_layers(
    num_layers: int,
    *,
    no_rope_layers: Sequence[int] | None = None,
    no_rope_layer_interval: int | None = None,
    layer_rope_theta: Sequence[float] | None = None,
) -> tuple[bool, ...]:
    """Return for each layer whether it uses RoPE, from exactly one of three configuration entries.

    Parameters
    ----------
    num_layers : int
    no_rope_layers : sequence of 0 and 1, one per layer (further entries are ignored)
        **1 means that the layer uses RoPE**, 0 that it does not, despite the name
        (huggingface/transformers#43756).  It is not a list of layer numbers.
    no_rope_layer_interval : int
        Every layer i with ``(i + 1) % interval == 0`` is *without* RoPE: 4 means three with RoPE
        and one without, not the reverse; 1 means no RoPE anywhere.
    layer_rope_theta : sequence of float, one per layer
        The base of each layer, 0 for a layer without RoPE.

    Source
        transformers 5.23: ``configuration_llama4.py``, ``configuration_smollm3.py``,
        ``configuration_granite_swa.py``, ``configuration_muse_spark.py``.

    Returns
    -------
    tuple of bool, one for each layer

    Raises
    ------
    ValueError
        Not exactly one entry is given, a list is too short, ``no_rope_layers`` holds a value other
        than 0 and 1, or a base is negative.
    """
    num_layers = _layers(num_layers)
    given = {
        "no_rope_layers": no_rope_layers,
        "no_rope_layer_interval": no_rope_layer_interval,
        "layer_rope_theta": layer_rope_theta,
    }
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise ValueError(
            f"give exactly one of {', '.join(given)}; got {', '.join(names) or 'none of them'}"
        )
    if no_rope_layer_interval is not None:
        interval = validate.integer("no_rope_layer_interval", no_rope_layer_interval, minimum=1)
        return tuple(not without for without in every_nth(num_layers, interval))
    if layer_rope_theta is not None:
        bases = _one_per_layer("layer_rope_theta", layer_rope_theta, num_layers)
        return tuple(
            validate.real(f"layer_rope_theta[{i}]", base, minimum=0.0) != 0
            for i, base in enumerate(bases)
        )
    flags = _one_per_layer("no_rope_layers", no_rope_layers, num_layers)
    for i, flag in enumerate(flags):
        if not isinstance(flag, int | float | np.number) or flag not in (0, 1):
            raise ValueError(
                "no_rope_layers must hold one 0 or 1 for each layer, 1 where the layer uses RoPE "
                f"(it is not a list of layer numbers), got {shown(flag)} for layer {i}"
            )
    return tuple(bool(flag) for flag in flags)


def _layers(num_layers: Any) -> int:
    return validate.integer("num_layers", num_layers, minimum=0, maximum=LAYERS)


def _one_per_layer(name: str, values: Any, num_layers: int) -> list[Any]:
    flat = hasattr(values, "__len__") and getattr(values, "ndim", 1) == 1
    if isinstance(values, str) or not flat:
        raise TypeError(f"{name} must be a sequence with one entry per layer, got {shown(values)}")
    if len(values) < num_layers:
        raise ValueError(
            f"{name} must have an entry for each of the {num_layers} layers, got {len(values)}"
        )
    return list(values)[:num_layers]
