"""The registry: an entry for every encoding, with examples and an independent formula.

To add an entry, add a module to this folder; all modules here are imported.  The formula uses
only the fields of the class, and the functions of
:mod:`posenc_ref.conformance.exact.error_numbers`, which also compute the error unit::

    @register(
        Kerple,
        spec="Chi et al. 2022, KERPLE, arXiv:2205.09921, equations (4) and (5)",
        examples={"kerple": Kerple((0.5, 0.25), (1.5, 0.5))},
    )
    def kerple(e, i, j):
        return [-r1 * log(1 + r2 * abs(i - j)) for r1, r2 in zip(e.r1, e.r2, strict=True)]

:mod:`posenc_ref.conformance.exact.reference` lists the arguments of the function for each family.
The keys of ``examples`` are the ids of their golden vectors. Give two or three small examples with
different options, and take learned numbers from :func:`numbers`: every dtype holds them exactly.
From the entry follow lines in the output of ``posenc verify`` and ``posenc accuracy``, golden
vectors (``posenc vectors --generate``), a section of ``docs/generated/encodings.md``
(``python tools/encodings_page.py``) and tests in ``tests/conformance/registry``. Rotary encodings
differ: ``posenc verify`` prints a line for each surface, and the golden vectors are listed in
:mod:`posenc_ref.conformance.vectors.make`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from posenc_ref import Encoding
from posenc_ref.conformance.exact.recipe import Recipe, numbers
from posenc_ref.conformance.exact.reference import Entry, Exact

__all__ = ["REGISTRY", "each_key", "entries", "entry_of", "numbers", "register"]

#: The entries by class, in the order of registration.
REGISTRY: dict[type[Encoding], Entry] = {}


def register(
    encoding: type[Encoding],
    *,
    spec: str,
    examples: Mapping[str, Encoding],
    inputs: Callable[[Any], Iterable[Recipe]] | None = None,
) -> Callable[[Exact], Exact]:
    """Return a decorator that registers a formula with examples of ``encoding``."""

    def decorated(exact: Exact) -> Exact:
        if encoding in REGISTRY:
            raise ValueError(f"{encoding.__name__} has an entry already")
        if not examples or any(type(e) is not encoding for e in examples.values()):
            given = ", ".join(f"{key}: {type(e).__name__}" for key, e in examples.items())
            raise ValueError(f"examples must be {encoding.__name__} objects, got {given or 'none'}")
        REGISTRY[encoding] = Entry(encoding, spec, dict(examples), exact, inputs)
        return exact

    return decorated


def each_key(formula: Callable[..., Any]) -> Exact:
    """Return a score's formula for all keys, from ``formula(e, h, q, k, i, j)`` for one key."""

    def logits(e: Any, h: int, q: Any, keys: Any, i: int, at: Any) -> list[Any]:
        return [formula(e, h, q, k, i, j) for k, j in zip(keys, at, strict=True)]

    return logits


def entries() -> tuple[Entry, ...]:
    """Return all entries, sorted by the name of the class."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return tuple(sorted(REGISTRY.values(), key=lambda entry: entry.name))


def entry_of(encoding: Encoding | None) -> Entry | None:
    """Return the entry of an encoding, or None if it has none."""
    return next((entry for entry in entries() if entry.encoding is type(encoding)), None)
