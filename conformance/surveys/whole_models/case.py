"""One case of the sweep of whole models: a model type."""

from __future__ import annotations

from dataclasses import dataclass

from posenc_ref.conformance.surveys.record import Outcome

#: What is judged: the output of the attention function.
ATTENTION = "attention"
#: The attention functions and dtypes in which each model runs.
PARTS = (("eager", "float32"), ("sdpa", "float32"), ("sdpa", "bfloat16"))


@dataclass(frozen=True)
class ModelCase:
    """A ``model_type`` of transformers with a causal language model."""

    model_type: str

    @property
    def name(self) -> str:
        """Return the model type."""
        return self.model_type

    def blank(self) -> Outcome:
        """Return an outcome for this case, to be completed."""
        return Outcome(
            kind=ATTENTION,
            group=self.model_type,
            surface=ATTENTION,
            case=self.model_type,
            target=self.model_type,
        )
