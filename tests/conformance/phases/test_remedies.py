"""Wrong frequencies and factors: what is right is said with the declared numbers."""

from types import SimpleNamespace

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.phases import factor_mistakes
from posenc_ref.conformance.phases.angle_step import interpolated
from posenc_ref.conformance.phases.declaration import declare, formula, schedule_of
from posenc_ref.conformance.phases.explain import explain
from posenc_ref.conformance.phases.nonlinear import growing_errors
from posenc_ref.conformance.phases.position_map import far_positions, report_quadrants

HALF = pr.RoPE(64, layout="half")
K = np.arange(32)


def rope(scaling):
    return HALF.replace(scaling=scaling)


def explained(measured, encoding):
    (found,) = explain(np.asarray(measured), np.zeros(32), schedule_of(encoding))
    return found


@pytest.mark.parametrize(
    ("used", "words"),
    [
        (np.where(K >= 28, K + 1, K), "pair k + 1, where k is at least 28"),
        (K // 2 * 2, "pair k rounded down to a multiple of 2"),
        (np.where(K % 4 == 3, K - 1, K), "pair k - 1, where k modulo 4 is 3"),
        (np.where(K == 5, K - 1, K), "pair 5 has the frequency of pair 4"),
    ],
)
def test_frequencies_of_other_pairs(used, words):
    found = explained(10000.0 ** (-2 * used / 64), HALF)
    assert words in found.message
    assert found.remedy.startswith("Use k in the exponent")
    assert "has the frequency of pair" not in explained(10000.0 ** (-1.7 * used / 64), HALF).message


@pytest.mark.parametrize(
    ("encoding", "measured", "words"),
    [
        (rope(pr.DynamicNTK(3.0, 2048, policy="static")),
         (10000.0 * 25.0 ** (64 / 62)) ** (-2 * K / 64), "the factor squared times max_position"),
        (rope(pr.GivenFrequencies(tuple(0.8 * 0.7**K))),
         10000.0 ** (-4 * K / 64) / (0.8 * 0.7**K), "divide the plain frequencies"),
        (pr.MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="restart",
                          base=(10000.0, 100.0)),
         np.r_[10000.0 ** (-np.arange(16) / 16), 10000.0 ** (-np.arange(16) / 16)],
         "the base of axis 1 is 10000, declared 100"),
        (pr.MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="restart"),
         np.r_[10000.0 ** (-np.arange(16) / 16), 10000.0 ** (-np.arange(16, 32) / 32)],
         "spacing='global', declared 'restart', for the pairs of axis 1 only"),
        (HALF, 3.14 / np.pi * 10000.0 ** (-2 * K / 64), "pi is written as 3.14"),
    ],
)  # fmt: skip
def test_formulas_with_another_number(encoding, measured, words):
    assert words in explained(measured, encoding).message


@pytest.mark.parametrize(
    ("scaling", "factor", "words"),
    [
        (pr.YaRN(16.0, 4096), 0.1 * np.log10(16) + 1, "decimal"),
        (pr.YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=0.707),
         (0.0707 * np.log(40) + 1) / (0.1 * np.log(40) + 1), "not the reverse"),
        (pr.YaRN(16.0, 4096), 1.0, "missing"),
        (pr.YaRN(16.0, 4096), 0.1 * np.log(16) + 1, ""),
    ],
)  # fmt: skip
def test_wrong_attention_factors(scaling, factor, words):
    found = factor_mistakes.named(rope(scaling), factor)
    assert words in found
    assert bool(found) == bool(words)


def test_the_remedy_holds_the_declared_factor():
    assert factor_mistakes.remedy(rope(pr.YaRN(16.0, 4096))) == (
        f"Multiply both cos and sin by {0.1 * np.log(16) + 1:.9g}, once: 0.1 * 1 * ln(16) + 1."
    )


@pytest.mark.parametrize(
    ("scaling", "words"),
    [
        (None, "10000 ** (-2k/64), k = 0 .. 31"),
        (pr.LinearScaling(4.0), "f_k / 4"),
        (pr.NTKScaling(4.0), "B = 10000 * 4 ** (64/62)"),
        (pr.Proportional(0.25), "for the first 8 pairs, and 0 for the others"),
        (pr.DynamicNTK(2.0, 512, policy="static"), "a = 2 L / 512 - 1, L = 2 * 512"),
    ],
)
def test_the_declared_formula(scaling, words):
    assert words in formula(rope(scaling))


def test_alpha_of_dynamic_ntk():
    def frequencies(length):
        alpha = 4.0 * length / 512 - 4 if length > 512 else 1.0
        return (10000.0 * alpha ** (64 / 62)) ** (-2 * K / 64)

    (found,) = check(frequencies, rope(pr.DynamicNTK(4.0, 512)), "frequencies").findings
    assert "multiplied by (factor * L / 512 - factor) ** d/(d-2)" in found.message
    assert "alpha = factor * L / 512 - (factor - 1)" in found.remedy


def test_a_table_of_every_second_position():
    def exact(at):
        return np.stack([np.cos(at[:, None] * 0.3), np.sin(at[:, None] * 0.3)])

    at = np.arange(9)
    mean = (exact(at // 2 * 2) + exact((at + 1) // 2 * 2)) / 2
    text, _ = interpolated(at, mean, exact)
    assert "tabulated at multiples of 2" in text
    assert interpolated(at, exact(at), exact) is None


def test_pairs_that_must_not_turn():
    w = 10000.0 ** (-2 * K / 64)

    def tables(positions):
        angle = np.asarray(positions, np.float64)[:, None] * w
        return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    report = check(tables, rope(pr.Proportional(0.25)), "cos_sin")
    assert report.codes == ["proportional"]
    assert "pairs 8-31 to 0" in report.findings[0].remedy


def reported(diagnose, tables):
    """Return the messages that a diagnosis of ``tables`` adds, with their remedies."""
    said = []
    run = SimpleNamespace(
        ledger=SimpleNamespace(highest=2**20 - 1),
        add=lambda code, message, evidence, remedy: said.append(f"{message} {remedy}"),
    )
    diagnose(run, tables, declare(HALF))
    return said


def turned(used):
    def tables(at):
        angle = used(at)[:, None] * 10000.0 ** (-2 * K / 64)
        return np.cos(angle), np.sin(angle)

    return tables


@pytest.mark.parametrize(
    ("used", "words"),
    [
        (lambda p: (p + 2**19) % 2**20 - 2**19, "positions wrap round at 524288, to negative ones"),
        (lambda p: p % 2**18, "positions wrap round modulo 262144"),
        (lambda p: np.minimum(p, 2**19 - 1), "positions are clamped to 524287"),
    ],
)
def test_positions_that_wrap_far_out(used, words):
    (found,) = reported(far_positions, turned(used))
    assert words in found
    assert not reported(far_positions, turned(lambda p: p))
    assert not reported(far_positions, turned(lambda p: np.where(p > 2**19, 7, p)))


def test_errors_that_grow_with_the_position():
    def drifting(at):
        return turned(lambda p: p * (1 + 1e-7 * np.sqrt(p)))(at)

    def noisy(at):
        rng = np.random.default_rng(1)
        return tuple(t + 1e-3 * rng.standard_normal(t.shape) for t in turned(lambda p: p)(at))

    (found,) = reported(growing_errors, drifting)
    assert "grow with the position" in found
    assert not reported(growing_errors, noisy)


def test_the_name_of_the_table_with_a_wrong_sign():
    said = []
    run = SimpleNamespace(add=lambda code, message, where, remedy: said.append(message))
    zero, off = np.zeros(3), np.array([0.0, 0.5, 0.0])
    for errors in ((zero, off), (off, zero), (off, off)):
        report_quadrants(run, errors, np.full(3, 0.1), "")
    assert [text.split(" has")[0] for text in said] == ["sin", "cos", "cos or sin"]
