"""One case of the sweep: a rotary module, and how it is judged."""

from __future__ import annotations

from dataclasses import dataclass

from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.surveys.record import Outcome, judged

from .census import Target

#: What a sweep judges unless asked otherwise.
AS_CONFIGURED, FLOAT32, APPLY = "default", "float32", "apply"
#: The function that rotates, or the logits of the attention class that calls it.
SURFACES = (APPLY, "scores")
#: Kinds of places of other encodings, by the family of what they hold: ``--family``.
FAMILIES: dict[str, tuple[str, ...]] = {
    "table": (
        "learned", "coordinates", "sines", "image sines", "timesteps", "fourier", "convolution",
        "other",
    ),
    "bias": ("alibi", "t5", "window"),
    "score": ("decomposed", "relative", "disentangled"),
}  # fmt: skip


class Unjudged(Exception):
    """There is nothing to judge: a verdict of a sweep, and the reason for it."""

    def __init__(self, verdict: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict

    def about(self, blank: Outcome) -> Outcome:
        """Return ``blank`` with this verdict."""
        return blank.replace(verdict=self.verdict, reason=str(self))


@dataclass(frozen=True)
class RotaryCase:
    """One target, in one dtype, with one rope type, at one surface."""

    target: Target
    rope_type: str = AS_CONFIGURED
    dtype: str = FLOAT32
    surface: str = APPLY

    @property
    def name(self) -> str:
        """The target, and every setting that is not the usual one."""
        settings = ((self.rope_type, AS_CONFIGURED), (self.dtype, FLOAT32), (self.surface, APPLY))
        return " ".join([self.target.name, *(value for value, usual in settings if value != usual)])

    def blank(self) -> Outcome:
        """Return an outcome about it, to be filled in."""
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
    """Return ``blank`` with what a report says: without a verdict, the limit is ours."""
    found = judged(blank, report)
    if found.verdict == "inconclusive":
        return found.replace(verdict="gap", reason=f"inconclusive: {found.reason}")
    return found.replace(verdict="gap") if found.verdict == "error" else found
