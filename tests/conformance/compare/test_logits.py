"""compare: tensors that differ where logits agree, and where the first difference shows."""

import numpy as np
import pytest

from tests.conformance.compare.rotations import DIM, GEOMETRIC, SPREAD, learned, moved, result
from tests.conformance.handwritten import rope
from tests.night import by_day

OUTPUT = {
    "known": (rope(after=lambda y, p: y[..., SPREAD]), rope()),
    "irregular": (lambda x, p: moved(learned())(x, p)[..., SPREAD], moved(learned())),
    "origin": (rope(positions=lambda p: p + 3), rope()),
}


@pytest.mark.parametrize("name", by_day(OUTPUT, ("known",)))
def test_equal_logits_of_other_tensors(name):
    a, b = OUTPUT[name]
    found = result(a, b)
    assert found.verdict == "conforms", str(found)
    assert found.result.startswith("tensors differ, logits agree")
    assert "harmless-convention" in [f.code for f in found.findings]
    assert not found.conversion or found.conversion[0].startswith("logits")


def test_logits_that_differ_in_one_slow_pair_do_not_agree():
    w = GEOMETRIC.copy()
    w[-1] *= 2  # 0.0003 rad per position
    found = result(learned(frequencies=w), learned(frequencies=GEOMETRIC))
    assert found.difference.logits is False
    assert found.verdict == "deviates"


def test_the_first_visible_position_and_the_logits_are_those_of_the_formula():
    """Compared with complex arithmetic on the inputs that the result line describes."""
    w = GEOMETRIC.astype(np.float64)
    slow = w * np.where(np.arange(DIM // 2) == 7, 1.01, 1.0)
    found = result(learned(frequencies=slow), learned(frequencies=w)).difference
    x = np.random.default_rng(0).uniform(-1, 1, (2, DIM)).astype(np.float32)
    z = x[:, : DIM // 2] + 1j * x[:, DIM // 2 :]
    at = np.arange(2**14)[:, None, None]
    off = z * (np.exp(1j * at * slow) - np.exp(1j * at * w))
    visible = np.maximum(np.abs(off.real), np.abs(off.imag)).max(axis=(1, 2)) > 2**-9
    assert found.first == int(np.argmax(visible))
    assert found.every
    # A logit differs by |q_7| |k_7| |exp(i r slow) - exp(i r w)| / sqrt(d) at most, at distance r.
    bound = [np.abs(np.exp(1j * n * slow[7]) - np.exp(1j * n * w[7])) for n in found.errors]
    assert list(found.errors) == [2**12]
    assert all(
        0 < e <= 16 / DIM**0.5 * b for e, b in zip(found.errors.values(), bound, strict=True)
    )


@pytest.mark.parametrize("name", by_day(OUTPUT, ("known",)))
def test_a_strict_comparison_fails_where_tensors_differ(name):
    a, b = OUTPUT[name]
    found = result(a, b, strict=True)
    assert found.exit_code == 1
    assert found.codes
    assert found.result.startswith("tensors differ, logits agree")
    assert result(a, a, strict=True).exit_code == 0
