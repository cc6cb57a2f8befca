"""One case of the sweep: a rotary module and the settings of its judgement."""

from __future__ import annotations

from dataclasses import dataclass

from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.surveys.record import Outcome, judged

from .census import Target

#: The default rope type, dtype and surface of a sweep.
AS_CONFIGURED, FLOAT32, APPLY = "default", "float32", "apply"
#: ``apply`` judges the rotary function, ``scores`` the logits of the attention class.
SURFACES = (APPLY, "scores")
#: The values of ``--family``, each with the kinds of places that are judged.
FAMILIES: dict[str, tuple[str, ...]] = {
    "table": (
        "learned", "coordinates", "sines", "image sines", "timesteps", "fourier", "convolution",
        "other",
    ),
    "bias": ("alibi", "t5", "window"),
    "score": ("decomposed", "relative", "disentangled"),
}  # fmt: skip


class Unjudged(Exception):
    """A case cannot be judged; ``verdict`` is its verdict in the sweep, the message says why."""

    def __init__(self, verdict: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict

    def about(self, blank: Outcome) -> Outcome:
        """Return the outcome ``blank`` with this exception's verdict and reason."""
        return blank.replace(verdict=self.verdict, reason=str(self))


@dataclass(frozen=True)
class RotaryCase:
    """One target with a rope type, a dtype and a surface."""

    target: Target
    rope_type: str = AS_CONFIGURED
    dtype: str = FLOAT32
    surface: str = APPLY

    @property
    def name(self) -> str:
        """Return the target and the settings that are not the defaults."""
        settings = ((self.rope_type, AS_CONFIGURED), (self.dtype, FLOAT32), (self.surface, APPLY))
        return " ".join([self.target.name, *(value for value, usual in settings if value != usual)])

    def blank(self) -> Outcome:
        """Return an outcome for this case, to be completed."""
        return Outcome(
            group=self.target.model,
            surface=self.surface,
            dtype=self.dtype,
            case=self.name,
            target=self.target.name,
            module=self.target.module,
            rope_type=self.rope_type,
        )


def judged_or_gap(blank: Outcome, report: Report) -> Outcome:
    """Return ``blank`` with the result of a report; inconclusive and error become ``gap``."""
    found = judged(blank, report)
    if found.verdict == "inconclusive":
        return found.replace(verdict="gap", reason=f"inconclusive: {found.reason}")
    return found.replace(verdict="gap") if found.verdict == "error" else found
