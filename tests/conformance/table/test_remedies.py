"""Remedies of tables say what is declared, for every field and step that may be wrong."""

import numpy as np
import pytest

from posenc_ref import Sinusoidal, StandardizedSinusoidal, Table, Time2Vec
from posenc_ref.conformance import check
from posenc_ref.conformance.registry import entries
from posenc_ref.conformance.table.formulas import changed_steps
from posenc_ref.conformance.table.mistakes import changed_tables, changed_twice
from posenc_ref.conformance.table.remedies import of_step, restored

EXAMPLES = {
    f"{entry.encoding.__name__}-{name}": example
    for entry in entries()
    for name, example in entry.examples.items()
    if issubclass(entry.encoding, Table)
}


class Declared:
    """As much of a run as the steps of a formula need."""

    def __init__(self, encoding):
        self.encoding = encoding


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_changed_field_has_a_remedy(name):
    declared = EXAMPLES[name]
    for changes in (changed_tables, changed_twice):
        for _, message, changed in changes(declared):
            assert restored(declared, changed).endswith("."), message


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_remedy_of_any_changed_step_can_be_written(name):
    declared = EXAMPLES[name]
    first = np.ones((declared.num_axes, 3), int) if declared.num_axes > 1 else np.arange(3)
    if getattr(declared, "flat", False):
        first = np.arange(3)
    for mistake in changed_steps(Declared(declared), first):
        assert isinstance(of_step(declared, mistake.message), str)


def remedy(fn, encoding, surface="table"):
    report = check(fn, encoding, surface)
    return report.findings[0].remedy


def test_a_factor_on_the_sines_only_is_put_on_both_not_removed():
    declared = Sinusoidal(16, scale=0.25)
    factor = np.where(np.arange(16) % 2, 4.0, 1.0)
    found = remedy(lambda p: (declared.table(p) * factor).astype(np.float32), declared)
    assert found == "Multiply sines and cosines alike by 0.25, once."


def test_a_standard_deviation_names_its_divisor():
    declared = StandardizedSinusoidal(8, 12)
    found = remedy(lambda p: (declared.table(p) * (96 / 95) ** 0.5).astype(np.float32), declared)
    assert "divides by 95 (ddof=1" in found


def test_a_phase_beside_the_sine_belongs_to_the_argument():
    w, b = np.linspace(0.2, 1.0, 5), np.linspace(0.1, 0.7, 5)

    def beside(t):
        t = np.asarray(t, np.float64)[:, None]
        return np.concatenate([w[:1] * t + b[:1], np.sin(w[1:] * t) + b[1:]], 1).astype(np.float32)

    assert remedy(beside, Time2Vec(w, b)) == "Add the phases to the arguments: sin(w t + b)."
