"""Make the objects of classes whose calls are tried, and say how they were made."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref.conformance.calling.facts import Facts, facts_of
from posenc_ref.conformance.calling.grids import PAIRS
from posenc_ref.conformance.calling.instances import make
from posenc_ref.conformance.calling.known.own_configuration import head_sizes
from posenc_ref.conformance.calling.roles import Unbound, role_of
from posenc_ref.conformance.calling.signatures import signature_of
from posenc_ref.conformance.calling.subject import name_of

#: The values of parameters that only the user knows, if a class needs one: a window that is no
#: square, so that its sides are told apart.
WINDOW = (4, 6)
#: The row of padding in most models; its table begins after it.
_PADDING = 1


@dataclass(frozen=True)
class Owner:
    """What to call: a target itself, or an object of a class."""

    value: Any
    facts: Facts
    words: str = ""  #: how the object was made


def owners(target: Any, head_dim: int) -> Iterator[Owner]:
    """Yield what to call for a target: itself, or the objects of a class."""
    init: Mapping[str, Any] = {}
    cls = target
    if isinstance(target, functools.partial) and inspect.isclass(target.func):
        cls, init = target.func, target.keywords
    if not inspect.isclass(cls):
        yield Owner(target, facts_of(None, {}, None, head_dim))
        return
    dim = next(head_sizes(cls, init), head_dim)
    for given in _arguments(cls, init):
        facts = facts_of(None, given, None, dim)
        try:
            made = make(cls, facts)
        except Unbound:
            continue
        words = f"{name_of(cls)}({facts.described(cls)})"
        yield Owner(made, facts, words)
        filled = _filled(made)
        if filled is not None:
            added = ", its learned tables, which are 0, filled with random numbers"
            yield Owner(filled, facts, words + added)


def _arguments(cls: type, init: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the arguments to try: those given, with a window if one is needed, and with padding."""
    every = signature_of(cls).parameters
    needed = [n for n, p in every.items() if p.default is p.empty and n not in init]
    given = {**init, **{n: WINDOW for n in needed if role_of(n) in PAIRS}}
    if "padding_idx" not in needed:
        yield given
    if "padding_idx" in every and "padding_idx" not in init:
        yield {**given, "padding_idx": _PADDING}


def _filled(made: Any) -> Any:
    """Return a copy of a new torch module with numbers in the learned tables that are 0, or None.

    A table of zeros hides which row is used.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(made, torch.nn.Module):
        return None
    random = np.random.default_rng(0)
    try:
        filled = copy.deepcopy(made)
    except Exception:  # it cannot be copied, and this one must stay as it is
        return None
    empty = [p for p in filled.parameters() if p.ndim > 1 and p.numel() and not bool(p.any())]
    for array in empty:
        array.data.copy_(array.data.new_tensor(random.standard_normal(tuple(array.shape))))
    return filled if empty else None
