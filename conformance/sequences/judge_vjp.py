"""Judge ``apply_vjp``: the gradient of x, which is the adjoint of ``apply``, not its inverse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.drive import Probe, drive, one_result
from posenc_ref.conformance.diagnosis.match import match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake, mistakes, with_value
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Malformed
from posenc_ref.conformance.harness.probes import SIZES, dense
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth, identical
from posenc_ref.conformance.oracle.transforms import adjoint
from posenc_ref.conformance.rotary.as_apply import judge_as_apply

from .call import scaled


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

    def times_m(self, power: int) -> Truth:
        """Return the result with the rotated channels multiplied by a power of m."""
        m = self.encoding.attention_factor(int(self.positions.max()) + 1)
        return scaled(self.truth(), m**power)

    def rotated_only(self) -> Truth:
        """Return the result with 0 in the channels that are not rotated."""
        truth = self.truth()
        return Truth(np.where(truth.terms > 0, truth.value, 0.0), truth.terms, truth.angle)


def judge(run: Run) -> None:
    """Judge ``fn(x, positions, dy) -> dx``.

    Then judge the map from dy to dx as ``apply`` of an encoding that rotates by -angle.
    """
    run.report.required = ("gradient", "state")
    encoding: Rotary = run.encoding
    calls = drive(run, _probes(run, encoding), one_result(partial(_called, run)))
    if calls is None:
        return
    if match(run, calls, _of_saved_x(), parts=False, whole=True) and run.report.codes:
        return
    of_x = _whatever_x(run, calls[0])
    if match(run, calls, _mistakes(encoding)) and run.report.codes:
        state.replay(
            run,
            lambda: _called(run, calls[0].facts),
            calls[0].actual,
            calls[0].case,
            calls[0].truth.value,
        )
        return
    recipe = "lambda x, p: fn(x, p, x)  # x as dy; expected: x rotated by -angle"
    judge_as_apply(run, partial(_view, run), adjoint(encoding), recipe)
    if of_x:  # the lines pass other x than the judge did, which changes dx
        findings = run.report.findings
        findings[:] = [replace(finding, reproduce="") for finding in findings]


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


def _whatever_x(run: Run, one: JudgedCall) -> bool:
    """Judge that dx does not depend on x: the map is linear. Return whether it depends on x."""
    call: Backward = one.facts
    other = Backward(call.encoding, call.x[::-1] * 3, call.positions, call.dy)
    run.count("gradient")
    if not np.array_equal(_called(run, other), one.actual, equal_nan=True):
        run.failed("gradient", "another x", np.inf, one.case)
        run.add("not-linear", "dx depends on x, not on dy alone", f"{one.case}, two different x")
        return True
    return False


def _view(run: Run, dy: Any, positions: Any) -> Any:
    driver, shape = run.driver, tuple(int(n) for n in dy.shape)
    x = dense(shape, run.settings.seed + 41)
    return driver.fn(driver.backend.asarray(x, driver.dtype, driver.device), positions, dy)


def _of_saved_x() -> Iterator[Mistake]:
    """Yield gradients that are made from x, not from dy."""
    right = "Rotate dy by -angle: the gradient does not depend on x."
    for text, of in (
        ("x is rotated by -angle, in place of dy", lambda call: adjoint(call.encoding)),
        ("x is rotated by +angle, as in the forward pass: dy is not used",
         lambda call: call.encoding),
    ):  # fmt: skip
        yield Mistake(
            "not-linear",
            text,
            lambda call, of=of: apply_truth(of(call), call.x, call.positions),  # type: ignore[misc]
            right,
        )


#: Tokens whose gradient is 0, in words, and the tokens of n.
_UNWRITTEN: tuple[tuple[str, Callable[[int], Any]], ...] = (
    ("the last token of a call is 0", lambda n: np.arange(n) == n - 1),
    ("the last token of a call of several is 0", lambda n: (np.arange(n) == n - 1) & (n > 1)),
    ("the first token of a call is 0", lambda n: np.arange(n) == 0),
    ("the first token of a call of several is 0", lambda n: (np.arange(n) == 0) & (n > 1)),
    *((f"tokens after the last whole tile of {size} is 0",
       lambda n, size=size: np.arange(n) >= n // size * size) for size in (2, 4, 8, 16)),
)  # fmt: skip


def _without(call: Backward, tokens: Callable[[int], Any]) -> Truth:
    truth = call.truth()
    left = tokens(call.dy.shape[-2])[:, None]
    return with_value(truth, np.where(left, 0.0, truth.value))


def _mistakes(encoding: Rotary) -> Iterator[Mistake]:
    if (m := encoding.attention_factor()) != 1.0:
        yield from mistakes(
            "attention-factor",
            lambda power: lambda call: call.times_m(power),
            (
                f"dx is divided by the attention factor m = {m:.6g}: the inverse, not the adjoint",
                -2,
                "Multiply by m in the backward pass too: the transpose of m R(p) is m R(-p).",
            ),
            (f"the attention factor m = {m:.6g} is missing in the backward pass", -1),
            (f"the attention factor m = {m:.6g} is applied twice in the backward pass", 1),
        )
    yield Mistake(
        "sign",
        "dy is rotated by +angle, as x is in the forward pass",
        lambda call: apply_truth(call.encoding, call.dy, call.positions),
        "Rotate dy by -angle.",
    )
    if (output_layout := getattr(encoding, "output_layout", None)) is not None:
        yield from mistakes(
            "output-layout",
            lambda written: lambda call: _back(call, written),
            ("dy is read in the layout of x, not in the output layout", None),
            ("the layouts of dy and dx are exchanged", output_layout),
        )
    yield from mistakes(
        "wrong-row",
        lambda tokens: lambda call: _without(call, tokens),
        *((f"the gradient of {words}", tokens, "Write the gradient of every token of the call.")
          for words, tokens in _UNWRITTEN),
    )  # fmt: skip
    text = "dx equals dy: nothing is rotated"
    yield Mistake("frequency-spacing", text, lambda call: identical(call.dy))
    text = "the gradient of the channels that are not rotated is 0"
    yield Mistake("rotary-dim", text, lambda call: call.rotated_only())


def _back(call: Backward, output_layout: str | None) -> Truth:
    """Return dx if dy is read in the layout of x, and dx is written in ``output_layout``."""
    declared: Any = call.encoding
    other = adjoint(declared).replace(layout=declared.layout, output_layout=output_layout)
    return apply_truth(other, call.dy, call.positions)
