"""Judge ``apply_vjp``: the gradient of x, which is the adjoint of ``apply``, not its inverse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.drive import Probe, drive, one_result
from posenc_ref.conformance.diagnosis.match import match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake, each_part, mistakes
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Malformed
from posenc_ref.conformance.harness.probes import SIZES, dense
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth, identical
from posenc_ref.conformance.oracle.transforms import adjoint
from posenc_ref.conformance.rotary.as_apply import judge_as_apply


@dataclass(frozen=True)
class Backward:
    """One call: the gradient ``dy`` of the result of ``apply`` at ``positions``."""

    encoding: Rotary  #: the declared encoding of the forward pass
    x: np.ndarray
    positions: np.ndarray
    dy: np.ndarray

    def truth(self) -> Truth:
        """Return ``m R(-p) dy``."""
        return apply_truth(adjoint(self.encoding), self.dy, self.positions)

    def scaled(self, power: int) -> Truth:
        """Return the result with the rotated channels multiplied by a power of m."""
        truth = self.truth()
        m = self.encoding.attention_factor(int(self.positions.max()) + 1)
        size = np.where(truth.terms > 0, m**power, 1.0)
        return each_part(truth, lambda part: part * size)

    def passed(self, value: np.ndarray) -> Truth:
        """Return the result with ``value`` in the channels that are not rotated."""
        truth = self.truth()
        return Truth(np.where(truth.terms > 0, truth.value, value), truth.terms, truth.angle)


def judge(run: Run) -> None:
    """Judge ``fn(x, positions, dy) -> dx``; then judge dx as a function of dy, as ``apply``."""
    run.report.required = ("gradient", "state")
    encoding: Rotary = run.encoding
    calls = drive(run, _probes(run, encoding), one_result(lambda call: _called(run, call)))
    if calls is None:
        return
    _whatever_x(run, calls[0])
    if not (match(run, calls, _mistakes(encoding)) and run.report.codes):
        recipe = "lambda x, p: fn(x, p, x)  # dy = x; the adjoint is an encoding too"
        judge_as_apply(run, _view(run), adjoint(encoding), recipe)
    else:
        first = calls[0]
        state.replay(run, lambda: _called(run, first.facts), first.actual, first.case)


def _probes(run: Run, encoding: Rotary) -> Iterator[Probe]:
    for size in SIZES:
        shape, at = (*size, encoding.head_dim), np.arange(size[2])
        x, dy = (run.random(shape, i + sum(size)) for i in (1, 2))
        words = f"x and dy of shape {shape} at 0..{at[-1]}"
        call = Backward(encoding, x, at, dy)
        yield Probe("gradient", f"B, H, S = {size} at 0..{at[-1]}", call, words=words)


def _called(run: Run, call: Backward) -> np.ndarray:
    driver = run.driver
    x, at = driver.arguments(call.x, call.positions)
    dy, _ = driver.arguments(call.dy, call.positions)
    dx = driver.array(driver.call(x, at, dy))
    if dx.shape != x.shape:
        raise Malformed(f"expected shape {x.shape}, as x has, got {dx.shape}")
    run.reached(int(call.positions.max(initial=0)))
    return driver.restored(dx, call.x.shape)


def _whatever_x(run: Run, one: JudgedCall) -> None:
    """Judge that dx does not depend on x: the map is linear."""
    call: Backward = one.facts
    other = Backward(call.encoding, call.x[::-1] * 3, call.positions, call.dy)
    run.count("gradient")
    if not np.array_equal(_called(run, other), one.actual, equal_nan=True):
        run.failed("gradient", "another x", np.inf, one.case)
        run.add("not-linear", "dx depends on x, not on dy alone", f"{one.case}, two different x")


def _view(run: Run) -> Any:
    fn, driver, seed = run.driver.fn, run.driver, run.settings.seed

    def view(dy: Any, positions: Any) -> Any:
        shape = tuple(int(n) for n in dy.shape)
        x = driver.backend.asarray(dense(shape, seed + 41), driver.dtype, driver.device)
        return fn(x, positions, dy)

    return view


def _mistakes(encoding: Rotary) -> Iterator[Mistake]:
    if (m := encoding.attention_factor()) != 1.0:
        yield from mistakes(
            "attention-factor",
            lambda power: lambda call: call.scaled(power),
            (
                f"dx is divided by m = {m:.6g}: the inverse, where the adjoint m R(-p) is wanted",
                -2,
                "Multiply by m going back as going forth: the transpose of m R is m R(-p).",
            ),
            (f"m = {m:.6g} is missing going back", -1),
            (f"m = {m:.6g} is applied twice going back", 1),
        )
    yield Mistake(
        "sign",
        "dy is rotated forwards, as x was",
        lambda call: apply_truth(call.encoding, call.dy, call.positions),
        "Going back, the rotation turns the other way: by -angle.",
    )
    if (output_layout := getattr(encoding, "output_layout", None)) is not None:
        yield from mistakes(
            "output-layout",
            lambda written: lambda call: _back(call, written),
            ("dy is read where x was read, not where y was written", None),
            ("dy is read where x was read, and dx written where y was", output_layout),
        )
    text = "dy comes back as it is: nothing is rotated"
    yield Mistake("frequency-spacing", text, lambda call: identical(call.dy))
    text = "the gradient of channels that are not rotated is lost"
    yield Mistake("rotary-dim", text, lambda call: call.passed(np.zeros_like(call.dy)))


def _back(call: Backward, output_layout: str | None) -> Truth:
    """Return the adjoint for pairs written in ``output_layout``."""
    declared: Any = call.encoding
    other = adjoint(declared).replace(layout=declared.layout, output_layout=output_layout)
    return apply_truth(other, call.dy, call.positions)
