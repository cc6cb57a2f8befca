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
    """A ``model_type`` of transformers with a causal or a masked language model."""

    model_type: str
    causal: bool = True

    @property
    def name(self) -> str:
        """Return the model type, with "masked" if the model is not causal."""
        return self.model_type if self.causal else f"{self.model_type} masked"

    def blank(self) -> Outcome:
        """Return an outcome for this case, to be completed."""
        return Outcome(
            kind=ATTENTION,
            group=self.name,
            surface=ATTENTION,
            case=self.name,
            target=self.name,
        )
