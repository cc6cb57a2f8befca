"""The examples see every field: another value of it is rejected by one of their cases."""

import dataclasses

import numpy as np
import pytest

from posenc_ref import Encoding
from posenc_ref._namespace import is_array
from posenc_ref.accuracy import budget
from posenc_ref.conformance.registry import entries
from tests.conformance.registry.entry_checks import cases, own

ENTRIES = entries()
#: Settings that the surface of the entry cannot see, and what sees them.
ELSEWHERE = {
    "the caller masks, or only where rows count changes": {
        "ALiBi": {"causal"},
        "Kerple": {"causal"},
        "Sandwich": {"causal"},
    },
    "logits: bias-logits.json, and its own tests": {
        "ALiBi": {"bias_inside_scale"},
        "ForgettingBias": {"scaled"},
        "T5Bias": {"scaled", "bias_inside_scale"},
    },
    "the grid: grids.json": {
        "DETRSine": {"normalize", "scale", "shift", "eps"},
        "Sinusoidal2D": {"extent", "flatten"},
    },
    "a constant for each row, which softmax does not see": {"ConViTBias": {"proj_bias"}},
    "other golden vectors, and its own tests": {
        "MultiAxisRoPE": {"output_layout", "rotary_start", "scaling"},
    },
    "None in this form": {"ESPnetLegacy": {"clamp"}},
    "methods of their own": {
        "ConViTBias": {"gate"},
        "Learned": {"padding_idx"},
        "Shaw": {"values"},
        "XLNet": {"segment_bias", "segments"},
    },
}


def exempt(entry):
    return {name for fields in ELSEWHERE.values() for name in fields.get(entry.name, ())}


def words():
    """Every word that some example has as a setting."""
    found = {"sin", "cos", "zero-pad", "columns"}
    for entry in ENTRIES:
        for e in entry.examples.values():
            found |= {v for v in vars(e).values() if isinstance(v, str)}
    return sorted(found)


WORDS = words()


def others(value):
    """Values near this one, of its kind."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, str):
        return [word for word in WORDS if word != value] + [2.5]
    if isinstance(value, int | float):
        return [value + 1, value * 2, value * 1.5, value - 1]
    if isinstance(value, Encoding):
        return [
            changed
            for f in dataclasses.fields(value)
            for changed in changes(value, f.name)
        ]  # fmt: skip
    if isinstance(value, tuple):
        swapped = [value[::-1]]
        for n, part in enumerate(value):
            swapped += [(*value[:n], other, *value[n + 1 :]) for other in others(part)]
        return swapped
    if is_array(value):
        return [value + np.asarray(0.125, value.dtype), value[::-1].copy()]
    return [1, 2, 5.0] if value is None else []


def changes(e, name):
    """Copies of ``e`` with another value of one field, as far as the class allows them."""
    for other in others(getattr(e, name)):
        try:
            yield e.replace(**{name: other})
        except (TypeError, ValueError):
            continue


def wide(inputs):
    """Inputs of the dtype of the output in float64, so that it is too."""
    return {k: v.astype(np.float64) if k in "qkx" else v for k, v in inputs.items()}


def sees(entry, name, changed):
    """Whether a case of the example rejects the changed encoding."""
    for recipe, truth in cases(entry, name):
        try:
            result = own(changed, wide(recipe.inputs))
        except (TypeError, ValueError, IndexError):
            return True
        if truth.score(np.asarray(result, np.float64), "float64") > budget("float64"):
            return True
    return False


def seen(entry, field):
    """Whether a change is rejected; None where other settings imply this one."""
    changed = [(name, other) for name, e in entry.examples.items() for other in changes(e, field)]
    values = [getattr(e, field) for e in entry.examples.values()]
    given = any(v is not None and not (isinstance(v, tuple) and not v) for v in values)
    if given and not changed:
        return None
    return any(sees(entry, name, other) for name, other in changed)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_field_is_seen(entry):
    fields = {f.name for f in dataclasses.fields(entry.encoding)}
    assert exempt(entry) <= fields
    assert [f for f in sorted(fields - exempt(entry)) if seen(entry, f) is False] == []


def test_what_is_exempt_is_not_seen():
    """An exemption that is not needed any more goes."""
    needless = [
        f"{entry.name}.{field}"
        for entry in ENTRIES
        for field in sorted(exempt(entry))
        if seen(entry, field)
    ]
    assert needless == []


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_examples_tell_each_other_apart(entry):
    for name in entry.examples:
        for other, e in entry.examples.items():
            assert sees(entry, name, e) == (name != other), f"{name} accepts {other}"
