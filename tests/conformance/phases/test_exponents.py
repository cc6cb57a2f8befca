"""A base and a denominator that are both undeclared are named together."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import identify
from posenc_ref.conformance.phases.declaration import declare
from posenc_ref.conformance.phases.explain import explain
from posenc_ref.conformance.phases.fitted_parameters import is_rounded, other_exponents

K = np.arange(32)
DECLARED = declare(RoPE(64, layout="half")).schedule


def explained(base, n):
    """The message about frequencies of another base and other exponents."""
    w = float(base) ** (-K / n)
    (found,) = explain(w, 2.0**-24 * w, DECLARED)
    return found.code, found.message


@pytest.mark.parametrize(
    ("base", "n", "fitted"), [(500000, 31, "763498"), (150000, 31.5, "181239")]
)
def test_both_are_named(base, n, fitted):
    code, text = explained(base, n)
    assert code == "base"
    assert text == (
        f"the base is {fitted}, declared 10000; or it is {base:.7g}, and the exponent of pair k is "
        f"k/{n:g}, not k/32: the same frequencies"
    )


def test_a_base_with_the_declared_exponents_is_named_alone():
    assert explained(500000, 32) == ("base", "the base is 500000, declared 10000")
    assert explained(763500, 32) == ("base", "the base is 763500, declared 10000")


@pytest.mark.parametrize("base", [500000, 1000042, 30000, 1.02e6])
def test_chosen_bases_have_no_other_exponents(base):
    assert not list(other_exponents(base, 32))
    assert not is_rounded(base, 32)


def test_a_fitted_base_is_rounded_unless_a_rule_gives_it():
    assert is_rounded(763498.0, 32)
    assert not is_rounded(500000 ** (32 / 31), 32)


def rotated(x, positions, base):
    w = base ** (-np.arange(4) / 4)
    angle = np.asarray(positions, np.float64)[..., None] * w
    c, s = np.cos(angle), np.sin(angle)
    one, two = np.split(x, 2, axis=-1)
    return np.concatenate([one * c - two * s, two * c + one * s], axis=-1).astype(x.dtype)


@pytest.mark.nightly
def test_the_card_has_no_accuracy_of_a_rounded_base():
    """The base has more digits than can be measured: nothing is said of its angles."""
    base = 763412.3456789
    card = identify(lambda x, positions: rotated(x, positions, base), "apply", head_dim=8)
    assert is_rounded(card.encoding.base, 4)
    assert "angles" not in card.facts
    assert "accuracy" not in card.facts


@pytest.mark.nightly
def test_the_card_has_the_base_of_the_rule():
    base = 500000 ** (4 / 3)
    card = identify(lambda x, positions: rotated(x, positions, base), "apply", head_dim=8)
    assert card.encoding.base == base
    assert "the same frequencies as base=500000 with the exponents k/3 of pair k" in card.relations
    assert card.facts["angles"] == "float64 angles"
