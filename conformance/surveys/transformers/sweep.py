"""``sweep``: judge every rotary module of the installed ``transformers``.

The time limit ends modules that hang, and a crash does not stop the sweep.  Every outcome is
written immediately, so that an interrupted sweep can be resumed.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc_ref.conformance.surveys.expected import Expected, expected, explanation, stale
from posenc_ref.conformance.surveys.ndjson import recorded_outcomes
from posenc_ref.conformance.surveys.ndjson_writer import recording
from posenc_ref.conformance.surveys.record import Outcome, Survey
from posenc_ref.conformance.surveys.runner import Progress, run
from posenc_ref.conformance.surveys.worker import Judge

from .case import APPLY, AS_CONFIGURED, FLOAT32, RotaryCase
from .census import census
from .judge import judge_case

EXPECTED = Path(__file__).with_name("sweep_expected.json")
TIME_LIMIT = 300.0
VERDICTS = ("conforms", "deviates", "gap", "undrivable", "refused")
#: The verdicts that need no entry in the file of expected deviations.
GOOD = ("conforms", "refused")
#: The verdicts of modules that were run and compared.
JUDGED = ("conforms", "deviates")
#: The keys in the JSON of a sweep, each with the field of :class:`Outcome`.
RENAMED = {"model": "group", "outcome": "verdict", "score": "worst"}
KEYS = {
    name: RENAMED.get(name, name)
    for name in (
        "name", "case", "target", "model", "module", "rope_type", "dtype", "surface", "layer_type",
        "part", "kind", "source", "outcome", "reason", "settings", "encoding", "measured", "score",
        "budget", "precision", "codes", "messages", "evidence", "notes", "limits", "highest",
        "degrades_at", "degrades_first", "executed", "tensor_layout", "seconds",
    )
}  # fmt: skip


@dataclass
class Sweep(Survey):
    """The outcomes of a sweep, and the entries that explain expected deviations."""

    known: tuple[Expected, ...] = ()

    verdicts = VERDICTS

    @property
    def unexplained(self) -> list[Outcome]:
        """Return the outcomes that do not conform and that no entry explains.

        Logits that cannot be judged are not included.
        """
        return [line for line in self.outcomes if self.is_open(line)]

    def is_open(self, line: Outcome) -> bool:
        """Return whether an outcome should conform but does not, without an explanation."""
        wanted = line.surface == APPLY or line.verdict == "deviates"
        return line.verdict not in GOOD and wanted and explanation(line, self.known) is None

    @property
    def stale(self) -> list[str]:
        """Return the patterns in ``known`` that match judged outcomes but explain none."""
        return stale(self.outcomes, self.known)

    @property
    def exit_code(self) -> int:
        """Return 0 if every outcome conforms or is explained, and no pattern is stale.

        It is 3 if nothing was judged, else 1.
        """
        if self.unexplained or self.stale:
            return 1
        return 0 if any(line.verdict in JUDGED for line in self.outcomes) else 3


def libraries() -> dict[str, str]:
    """Return the versions of the libraries that the outcomes depend on."""
    return {name: importlib.metadata.version(name) for name in ("transformers", "torch")}


def sweep(
    only: Sequence[str] = (),
    *,
    rope_types: Sequence[str] = (AS_CONFIGURED,),
    dtypes: Sequence[str] = (FLOAT32,),
    surfaces: Sequence[str] = (APPLY,),
    **settings: Any,
) -> Sweep:
    """Judge every target that matches ``only``, or all targets.

    The configured rope type is judged in all ``dtypes``; other rope types, and logits, only in the
    first.  ``settings`` are those of :func:`sweep_cases`.
    """
    targets = census(only)
    cases = [
        RotaryCase(target, rope_type, dtype, surface)
        for surface in surfaces
        for rope_type in rope_types
        for dtype in dtypes
        if dtype == dtypes[0] or (rope_type == AS_CONFIGURED and surface == APPLY)
        for target in targets
    ]
    return sweep_cases(cases, judge_case, expected(EXPECTED), **settings)


def sweep_cases(
    cases: Sequence[Any],
    judge: Judge,
    known: tuple[Expected, ...],
    *,
    file: Path | None = None,
    resume: bool = False,
    time_limit: float = TIME_LIMIT,
    processes: int = 2,
    progress: Progress | None = None,
) -> Sweep:
    """Return the sweep of ``cases``, each of which has a name and a blank outcome.

    The sweep writes each outcome to ``file`` as a line of JSON, then a footer with the counts.
    ``resume`` keeps the outcomes in ``file`` and does not judge them again.
    """
    begin = time.perf_counter()
    old = recorded_outcomes(file, "sweep", KEYS, libraries()) if resume and file else []
    names = {case.name for case in cases}
    lines = [line for line in old if line.case in names]
    done = {line.case for line in lines}
    with recording(file, "sweep", libraries=libraries()) as record:

        def keep(new: list[Outcome]) -> None:
            if record is not None:
                record.outcomes(new, KEYS)

        keep(old)
        lines += run(
            [case for case in cases if case.name not in done],
            judge,
            lambda case, reason: case.blank().replace(verdict="gap", reason=reason),
            processes=processes,
            time_limit=time_limit,
            keep=keep,
            progress=progress,
        )
        lines.sort(key=lambda line: (line.surface, line.rope_type != AS_CONFIGURED, line.name))
        result = Sweep(lines, time.perf_counter() - begin, known)
        if record is not None:
            record.footer(
                models=len({line.group for line in lines}),
                modules=len({(line.group, line.module) for line in lines}),
                verdicts=result.counts,
                unexplained=[line.name for line in result.unexplained],
                stale=result.stale,
                exit_code=result.exit_code,
                executed=sum(line.executed for line in lines),
                seconds=round(result.seconds, 1),
                cpu_seconds=round(result.cpu_seconds, 1),
            )
    return result
