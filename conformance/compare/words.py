"""The differences between two measured functions, in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posenc_ref import Encoding
from posenc_ref.conformance.identify.card import Card

#: Facts that follow from the others, or say how far the measurement went.
_DERIVED = ("accuracy", "judged", "frequencies", "called")
_LONGEST = 120
#: Measured frequencies differ if they are this many standard errors apart.
_SIGMAS = 8


def differences(a: Card, b: Card) -> list[str]:
    """Return the properties that differ: A's value, and B's."""
    one, other = a.encoding, b.encoding
    if one is None or other is None or type(one) is not type(other):
        found = [] if one is None or other is None else [_pair("encoding", one, other)]
        return [*found, *_facts(a, b), *_frequencies(a, b)]
    mine, its = one.to_dict(), other.to_dict()
    fields = [name for name in mine if mine[name] != its[name]]
    if "layout" in fields and _blind(a, b):
        fields.remove("layout")
    found = [_pair(name, getattr(one, name), getattr(other, name)) for name in fields]
    if a.softmax_scale != b.softmax_scale:
        found.append(_pair("softmax scale", a.softmax_scale, b.softmax_scale))
    if not (a.exact and b.exact):
        found += [text for text in _facts(a, b) if text not in found]
    elif "angles" in a.facts and a.facts["angles"] != b.facts.get("angles", a.facts["angles"]):
        found.append(_pair("angles", a.facts["angles"], b.facts["angles"]))
    return found if a.rule and b.rule else [*found, *_frequencies(a, b)]


def building(one: Encoding | None, other: Encoding) -> list[str]:
    """Return the step that builds a function with the values of ``other``."""
    if type(one) is not type(other):
        return [f"build the function as {_short(other)}"]
    mine, its = one.to_dict(), other.to_dict()
    fields = (f"{name}={_short(getattr(other, name))}" for name in mine if mine[name] != its[name])
    return [f"build the function with {', '.join(fields)}"]


def _blind(a: Card, b: Card) -> bool:
    """Return whether one of the functions does not show which channels form a pair."""
    return any("does not show which channels" in text for card in (a, b) for text in card.unknown)


def _facts(a: Card, b: Card) -> Iterator[str]:
    for name in (name for name in a.facts if name in b.facts and name not in _DERIVED):
        mixed = name == "sign" and any("of" in card.facts[name].split() for card in (a, b))
        if a.facts[name] != b.facts[name] and not mixed:  # signs of single pairs depend on layout
            yield _pair(name, a.facts[name], b.facts[name])


def differ(w: np.ndarray, v: np.ndarray, sigma: np.ndarray | float) -> np.ndarray:
    """Return which measured frequencies differ by more than their standard errors allow."""
    return np.asarray(np.abs(w - v) > _SIGMAS * sigma)


def _frequencies(a: Card, b: Card) -> Iterator[str]:
    w, v = a.frequencies, b.frequencies
    if w.size != v.size:
        yield f"number of frequencies: {w.size} in A, {v.size} in B"
        return
    if not w.size or a.uncertainty.size != w.size or b.uncertainty.size != w.size:
        return
    one, other = a.uncertainty, b.uncertainty
    counted = ""
    if getattr(a.encoding, "sign", 1) != getattr(b.encoding, "sign", 1):
        w, v = np.abs(w), np.abs(v)
    if a.encoding is None or b.encoding is None:  # pairs may be in any order
        order, its = np.argsort(-np.abs(w)), np.argsort(-np.abs(v))
        w, v, one, other = np.abs(w)[order], np.abs(v)[its], one[order], other[its]
        counted = " (counted from the fastest)"
    off = differ(w, v, one + other)
    if off.any():
        k = int(np.argmax(off))
        yield (
            f"frequencies: {int(off.sum())} of {off.size} differ; pair {k}{counted} turns by "
            f"{w[k]:.9g} rad per position, in B by {v[k]:.9g}"
        )


def _pair(name: str, mine: object, its: object) -> str:
    one, other = (_short(value) for value in (mine, its))
    return f"{name}: the values differ" if one == other else f"{name}: {one}, declared {other}"


def _short(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"<{value.dtype} {value.shape}>"
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
