"""Read from a configuration what each attention layer does with positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.surveys.record import one_line
from posenc_ref.conformance.surveys.transformers.case import Unjudged
from posenc_ref.models.config import described_config
from posenc_ref.models.config_facts import table
from posenc_ref.models.context import Described
from posenc_ref.models.other.kinds import canonical

from .reference import Layer

#: Model types whose attention this reference does not describe, with the reason.
UNDESCRIBED = {
    "deepseek_v4": "compressed keys are made of several tokens, and values are rotated",
    "mobilebert": "queries, keys and values have inputs of their own",
    "neomme": "each layer has a window of its own",
    "zaya": "queries and keys are convolutions over several tokens",
}
#: Model types that multiply queries by the softmax scale before they call the interface.
SCALED_QUERIES = frozenset({"esm", "opt", "whisper"})
#: Model types with a scale of ``(head_dim / 2) ** -0.5``, because heads are made of two inputs.
_HALF_HEADS = frozenset({"zamba"})
#: Layer types with a window that ``from_config`` does not state, and the entry that does.
_WINDOWS = {
    "modernbert-decoder": ("sliding_attention", "sliding_window"),
    "recurrent_gemma": ("full_attention", "attention_window_size"),
}


class Layers:
    """The layers of a model: ``layers.of(module, index)`` is the one of an attention module."""

    def __init__(self, config: Any, causal: bool = True) -> None:
        self.config, self.causal = config, causal
        #: None if nothing positional is in the logits: a table is added to the embeddings.
        self.found: Described | None = None
        if config.model_type in UNDESCRIBED:
            raise Unjudged("gap", UNDESCRIBED[config.model_type])
        if _nothing_in_logits(config.model_type):
            return
        try:
            found = described_config(config.to_dict(), learned=True)
        except Exception as error:
            raise Unjudged("gap", f"from_config: {one_line(error)}") from error
        self.found = None if "embeddings" in found.model.encodings else found

    @property
    def encodings(self) -> str:
        """Return the encodings of the model in words."""
        if self.found is None:
            return "none in the logits"
        encodings = self.found.model.encodings
        if len(encodings) == 1:
            return repr(next(iter(encodings.values())))
        return ", ".join(f"{name}: {value!r}" for name, value in encodings.items())

    def of(self, module: Any, index: int) -> tuple[str, Layer]:
        """Return the layer type and the layer of the attention module of this index."""
        sinks = getattr(module, "sinks", None)
        layer = Layer(
            causal=self.causal,
            softcap=getattr(self.config, "attn_logit_softcapping", None),
            sinks=None if sinks is None else sinks.detach().double().numpy(),
        )
        if self.config.model_type in SCALED_QUERIES:
            layer = layer.replace(scale=1.0)
        if self.config.model_type in _HALF_HEADS:
            layer = layer.replace(scale=(module.head_dim / 2) ** -0.5)
        if self.found is None:
            return "", layer
        model = self.found.model
        number = getattr(module, "layer_idx", None)
        number = index if number is None else number
        types = model.layer_types
        name = types[number] if number < len(types) else next(iter(model.encodings))
        if name not in model.encodings:
            raise Unjudged("gap", f"from_config: layer {number} ({name}) has no attention")
        encoding, size = model.encodings[name], self.found.windows.get(name)
        kind, key = _WINDOWS.get(self.config.model_type, ("sliding_attention", "sliding_window"))
        if name == kind and (self.config.model_type in _WINDOWS or not self.causal):
            size = getattr(self.config, key)
            size = size if self.causal else size + 1  # each side, without the query itself
        if encoding is not None and not isinstance(encoding, Rotary):
            raise Unjudged("gap", f"{type(encoding).__name__} is no rotation")
        chunked = "chunked" in name
        return name, layer.replace(
            encoding=encoding,
            scale=layer.scale if model.softmax_scale is None else model.softmax_scale,
            query_scale=model.query_scale.get(name),
            window=None if chunked else size,
            chunk=size if chunked else None,
        )


def _nothing_in_logits(model_type: str) -> bool:
    """Return whether a model encodes no positions, or only adds learned rows to embeddings."""
    found = table("model_types")["models"].get(canonical(model_type), {})
    return found.get("kind") == "none" or set(found.get("needs", {}).values()) == {"Learned"}


def at_zero(tensor: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return (B, H, T, d) of tensors (B * T, H, 1, d) as float64."""
    rows = tensor.detach().double().numpy()[:, :, 0]
    return np.asarray(rows.reshape(*shape, *rows.shape[1:]).transpose(0, 2, 1, 3))
