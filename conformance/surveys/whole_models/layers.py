"""Read from a configuration what each attention layer does with positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.surveys.transformers.case import Unjudged
from posenc_ref.models.config import described_config
from posenc_ref.models.context import Described

from .reference import Layer

#: Model types whose positions are not in the logits: tables added to the embeddings, or nothing.
NOT_IN_LOGITS = frozenset({
    "bart", "bert", "bert-generation", "bigbird_pegasus", "biogpt", "blenderbot",
    "blenderbot-small", "camembert", "ctrl", "data2vec-text", "electra", "ernie", "gpt-sw3", "gpt2",
    "gpt_bigcode", "jamba", "marian", "mbart", "megatron-bert", "nemotron_h", "opt", "pegasus",
    "plbart", "roberta", "roberta-prelayernorm", "roc_bert", "whisper", "xlm-roberta",
    "xlm-roberta-xl", "xmod", "zamba",
})  # fmt: skip


class Layers:
    """The layers of a model: ``layers.of(module, index)`` is the one of an attention module."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.found: Described | None = None
        if config.model_type not in NOT_IN_LOGITS:
            try:
                self.found = described_config(config.to_dict(), learned=True)
            except Exception as error:
                raise Unjudged("gap", f"from_config: {type(error).__name__}: {error}") from error

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
            softcap=getattr(self.config, "attn_logit_softcapping", None),
            sinks=None if sinks is None else sinks.detach().double().numpy(),
        )
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
        if encoding is not None and not isinstance(encoding, Rotary):
            raise Unjudged("gap", f"{type(encoding).__name__} is no rotation")
        chunked = "chunked" in name
        return name, layer.replace(
            encoding=encoding,
            scale=model.softmax_scale,
            query_scale=model.query_scale.get(name),
            window=None if chunked else size,
            chunk=size if chunked else None,
        )


def at_zero(tensor: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return (B, H, T, d) of tensors (B * T, H, 1, d) as float64."""
    rows = tensor.detach().double().numpy()[:, :, 0]
    return np.asarray(rows.reshape(*shape, *rows.shape[1:]).transpose(0, 2, 1, 3))
