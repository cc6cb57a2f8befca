"""Drive ``scores``: call from short to long, judge the logits and their state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol, Self

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.bias.future_mask import MASKED, masked
from posenc_ref.conformance.diagnosis.drive import Probe
from posenc_ref.conformance.diagnosis.drive import drive as judge_probes
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Malformed
from posenc_ref.conformance.harness.probes import dense
from posenc_ref.conformance.harness.run import Run

Size = tuple[int, int, int, int]
#: (B, H, Q, K): as many keys as queries first; fewer queries may be refused.
SIZES: tuple[Size, ...] = ((2, 3, 5, 5), (3, 2, 4, 4), (1, 4, 2, 2), (1, 1, 33, 33))
OPTIONAL: tuple[Size, ...] = (
    (2, 3, 1, 7), (1, 2, 3, 11), (1, 1, 1, 1), (1, 8, 64, 64), (1, 2, 150, 150), (1, 1, 1, 256),
    (1, 1, 1, 2050),
)  # fmt: skip


class Asked(Protocol):
    """One call: queries and keys (B, H, S, d), and the reference."""

    q: np.ndarray
    k: np.ndarray

    @property
    def visible(self) -> np.ndarray:
        """Keys up to the query, (Q, K)."""

    @property
    def causal(self) -> bool:
        """Whether the encoding defines nothing for later keys."""

    @property
    def declares_future(self) -> bool:
        """Whether the encoding declares that later keys are its own."""

    def truth(self) -> Truth:
        """The logits."""

    def judged_as(self, actual: np.ndarray) -> Self:
        """The same call with what the reference needs of the result."""

    def seen(self, actual: np.ndarray) -> np.ndarray:
        """The part of the logits that is compared."""


def drive(
    run: Run,
    ask: Callable[[Run, Size], Any],
    explain: Callable[[Run, list[JudgedCall]], None],
) -> None:
    """Judge every call that ``ask`` makes of a size; it returns None where it has no room."""
    run.report.required = ("logits", "state")
    seen = judge_probes(run, _probes(run, ask), partial(_asked, run))
    if not seen:
        return
    first: Asked = seen[0].facts
    state.replay(run, lambda: first.seen(_called(run, first)), seen[0].actual, seen[0].case)
    state.kept_result(
        run, lambda: run.driver.call(first.q, first.k), lambda: run.driver.call(first.k, first.q)
    )
    if run.failures and not run.report.codes:
        run.explain(explain, seen)


def _probes(run: Run, ask: Callable[[Run, Size], Any]) -> Iterator[Probe]:
    for size in (*SIZES, *OPTIONAL):
        call: Asked | None = ask(run, size)
        if call is not None:
            case = "B, H, Q, K = " + ", ".join(map(str, (*call.q.shape[:3], call.k.shape[2])))
            yield Probe("logits", case, call, size in SIZES)


def _asked(run: Run, probe: Probe) -> list[JudgedCall]:
    actual = _called(run, probe.facts)
    call: Asked = probe.facts.judged_as(actual)
    judged = _judged(run, call, actual, probe.case)
    return [JudgedCall(probe.case, call.seen(actual), call.truth(), call, judged)]


def inputs(run: Run, heads: int, lengths: tuple[int, int], batch: int, d: int) -> Any:
    """Random queries and keys as the function will see them."""
    (n_q, n_k), seed = lengths, run.settings.seed + sum(lengths)
    q = run.driver.rounded(dense((batch, heads, n_q, d), seed))
    return q, run.driver.rounded(dense((batch, heads, n_k, d), seed + 7))


def past_the_end(run: Run, n_k: int) -> bool:
    """Whether so many keys are beyond the largest position to judge."""
    return not run.settings.allows(n_k - 1)


def _called(run: Run, call: Asked) -> np.ndarray:
    y = run.driver.array(run.driver.call(call.q, call.k))
    shape = (*call.q.shape[:3], call.k.shape[2])
    if y.shape != shape:
        raise Malformed(f"expected shape (B, H, Q, K) = {shape}, got {y.shape}")
    run.reached(call.k.shape[2] - 1)
    return y


def _judged(run: Run, call: Asked, actual: np.ndarray, case: str) -> np.ndarray | None:
    """Which logits are compared: all, or those of keys up to the query."""
    visible = np.broadcast_to(call.visible, actual.shape)
    if call.causal:
        return visible
    if not masked(actual, ~call.visible):
        return None
    if call.declares_future:
        run.failed("logits", case, np.inf, MASKED)
        run.add("future-keys", MASKED, case, by=None)
    else:
        run.limit("logits of keys after the query are masked: the others are judged")
    return visible
