"""A model of transformers that runs without weights, and the position ids that it rotates by.

The model is built without weights, and runs: its own ``forward``, and its own ``generate``.  Only
the parts that compute are replaced: the embedding, the layers and the head return zeros, and the
rotary embedding notes the position ids that reach it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_ref import mrope_rule
from posenc_ref.conformance.functions.mrope_layouts import AUDIO, VIDEO, Batch
from posenc_ref.conformance.harness.rope_index import PADDING, TOKEN_IDS, WORD, token_ids

#: The size of the vocabulary of generated tokens.
_VOCABULARY = WORD + 1
#: Models that rotate the keys of all tokens again in every call, by the ids from the start.
_FROM_THE_START = ("qwen4_exp",)
#: The start and end of an image or video, which no configuration class of Omni has by default.
_VISION = {"vision_start_token_id": 151652, "vision_end_token_id": 151653}
_INDEXER = {"n_heads": 8, "kv_heads": 1, "head_dim": 256, "budget": 8, "compress_ratio": 8}
#: Settings of configurations: those of released checkpoints, and some without which the defaults
#: build no model.
_SETTINGS: dict[str, dict[str, Any]] = {
    "cohere_compass": {
        "text_config": {
            "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}
        }
    },
    "qwen2_5_vl": {"vision_config": {"tokens_per_second": 2}},
    "qwen2_5_omni": _VISION,
    "qwen3_omni_moe": {**_VISION, "position_id_per_seconds": 13},
    "hunyuan_vl": {
        "text_config": {
            "num_hidden_layers": 1,
            "head_dim": 128,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [16] * 4,
            },
        }
    },
    "minicpmv4_7": {
        name: TOKEN_IDS[name]
        for name in (
            "image_token_id",
            "video_token_id",
            "image_start_id",
            "image_end_id",
            "slice_start_id",
            "slice_end_id",
            "newline_id",
        )
    },
    "qwen3_omni_moe_talker": {
        "position_id_per_seconds": 13,
        "spatial_merge_size": 2,
        "text_config": {"shared_expert_intermediate_size": 768},
    },
    "qwen4_exp": {"text_config": {f"indexer_{name}": n for name, n in _INDEXER.items()}},
}


class Model:
    """A model without weights, and the position ids that reach its rotary embedding."""

    def __init__(self, model_type: str) -> None:
        mrope_rule(model_type)  # raises for an unknown model
        import torch

        self.torch, self.type = torch, model_type
        owner = _owner(model_type)
        config = _config(owner.config_class, model_type)
        with torch.device("meta"):
            self.model: Any = owner(config).eval()
        self.config = self.model.config
        self.rule: Any = mrope_rule({**config.to_dict(), "model_type": model_type})
        #: The number of tokens and the position ids of each call of the text model.
        self.noted: list[tuple[int, np.ndarray]] = []
        self.problems: set[tuple[str, str]] = set()
        self._hollow()

    def _hollow(self) -> None:
        """Replace all parts that need weights."""
        torch = self.torch
        inner = self.model.model
        text = self._text()
        for owner in (self.model, inner) if inner is not text else (self.model,):
            for name, part in owner.named_children():
                if part is not inner and part is not text:
                    setattr(owner, name, torch.nn.Identity())
        kinds = getattr(text.config, "layer_types", None) or ["full_attention"]
        full = next(i for i, kind in enumerate(kinds) if not kind.startswith("linear"))
        layer = _stand_in(torch, self._layer(full))
        for name in ("attention_type", "layer_type"):
            if hasattr(text.layers[full], name):
                setattr(layer, name, getattr(text.layers[full], name))
        for name, part in text.named_children():
            if name not in ("layers", "rotary_emb") and any(True for _ in part.parameters()):
                setattr(text, name, _stand_in(torch, lambda x, *args, **more: x))
        embed = _stand_in(torch, lambda ids: torch.zeros(*ids.shape, 4))
        text.embed_tokens = text.codec_embedding = embed
        text.layers = torch.nn.ModuleList([layer])
        rotary = _stand_in(torch, self._note)
        rotary.mrope_section = getattr(text.rotary_emb, "mrope_section", None)
        text.rotary_emb = rotary
        text.register_forward_pre_hook(lambda *_: self.noted.append((0, np.zeros(0))))
        head = "lm_head" if hasattr(self.model, "lm_head") else "codec_head"
        setattr(self.model, head, _stand_in(torch, self._logits))
        getattr(self.model, head).weight = torch.nn.Parameter(torch.zeros(1))

    def _text(self) -> Any:
        """Return the part with the layers: a talker has no other."""
        return getattr(self.model.model, "language_model", self.model.model)

    def _note(self, x: Any, position_ids: Any, *layer_type: Any) -> Any:
        before = sum(size for size, _ in self.noted[:-1]) if self.type in _FROM_THE_START else 0
        self.noted[-1] = (x.shape[1], position_ids.numpy().copy())
        if position_ids.shape[-1] > before + x.shape[1]:
            self.problems.add((
                "a call with a cache and an attention mask of the whole length rotates by the "
                "position ids of all tokens, not of the new one",
                f"the shape of the position ids is {tuple(position_ids.shape)} for {x.shape[1]} "
                f"tokens after {before}",
            ))  # fmt: skip
        return x, x

    def _layer(self, index: int) -> Callable[..., Any]:
        def layer(hidden: Any, *args: Any, past_key_values: Any = None, **more: Any) -> Any:
            if past_key_values is not None:
                kv = self.torch.zeros(hidden.shape[0], 1, hidden.shape[1], 1)
                past_key_values.update(kv, kv, index)
            return hidden

        return layer

    def _logits(self, hidden: Any) -> Any:
        logits = self.torch.zeros(*hidden.shape[:2], _VOCABULARY)
        logits[..., WORD] = 1.0
        return logits

    # -- calls ---------------------------------------------------------------------------------

    def forward(self, batch: Batch) -> np.ndarray:
        """Return the position ids of ``forward``: the prompt, then token by token with a cache."""
        from transformers import DynamicCache

        torch, given = self.torch, self.inputs(batch)
        cache = DynamicCache(config=self._text().config)
        self.model.model.rope_deltas = self.model.rope_deltas = None
        self.noted.clear()
        mask = given["attention_mask"]
        with torch.no_grad():
            self.model(**given, past_key_values=cache)
            for _ in range(batch.n_steps):
                mask = torch.nn.functional.pad(mask, (0, 1), value=1)
                self.model(
                    **self.next_inputs(len(mask)), attention_mask=mask, past_key_values=cache,
                    use_cache=True,
                )  # fmt: skip
        return self._found(batch)

    def generate(self, batch: Batch) -> np.ndarray:
        """Return the position ids of ``generate``."""
        if (np.asarray(batch.attention_mask)[:, -1] == 0).any():
            raise ValueError("generate() takes prompts that are padded on the left")
        self.noted.clear()
        with self.torch.no_grad():
            self.model.generate(
                **self.prompt_to_generate(batch), max_new_tokens=batch.n_steps + 1, do_sample=False,
                pad_token_id=PADDING, eos_token_id=None,
            )  # fmt: skip
        return self._found(batch)

    def _found(self, batch: Batch) -> np.ndarray:
        """Return the noted position ids (A, B, S + n_steps)."""
        rows, size = np.asarray(batch.token_types).shape
        parts = [
            np.broadcast_to(ids[..., -tokens:], (self.rule.num_axes, rows, tokens))
            for (_, ids), tokens in zip(self.noted, [size, *[1] * batch.n_steps], strict=True)
        ]
        found = np.concatenate(parts, axis=2)
        # The dtype is without effect: the rotary embedding converts the ids to float32.
        return found.astype(np.float64) if getattr(self.rule, "fractional", False) else found

    # -- inputs --------------------------------------------------------------------------------

    def next_inputs(self, rows: int) -> dict[str, Any]:
        """Return the token of a later call."""
        return {"input_ids": self.torch.full((rows, 1), WORD)}

    def prompt_to_generate(self, batch: Batch) -> dict[str, Any]:
        """Return the arguments of ``generate``."""
        return self.inputs(batch)

    def inputs(self, batch: Batch) -> dict[str, Any]:
        """Return the arguments of the model for a batch."""
        torch = self.torch
        types, mask = (np.asarray(a) for a in (batch.token_types, batch.attention_mask))
        known = {name: getattr(self.config, name, None) for name in TOKEN_IDS}
        ids = token_ids(types, mask, {n: v or TOKEN_IDS[n] for n, v in known.items()})
        found: dict[str, Any] = {
            "attention_mask": torch.tensor(mask), "use_cache": True
        }  # fmt: skip
        for name, grids in (
            ("image_grid_thw", batch.image_grids), ("video_grid_thw", batch.video_grids)
        ):  # fmt: skip
            if len(grids):
                found[name] = torch.tensor(np.asarray(grids))
        seconds = torch.tensor(np.asarray(batch.seconds_per_grid), dtype=torch.float32)
        if getattr(self.rule, "audio", False):
            found |= self._audio(types, seconds)
        else:
            found["mm_token_type_ids"] = torch.tensor(types)
            if getattr(self.rule, "tokens_per_second", None) is not None and len(seconds):
                found["second_per_grid_ts"] = seconds
        found["input_ids"] = torch.tensor(ids)
        return found

    def _audio(self, types: np.ndarray, seconds: Any) -> dict[str, Any]:
        """Return the arguments about audio, and the seconds of videos."""
        torch = self.torch
        lengths, sounding = [], False
        for row in types:
            kinds = np.where(row == AUDIO, VIDEO, row)
            for run in np.split(row, np.flatnonzero(np.diff(kinds)) + 1):
                count = int((run == AUDIO).sum())
                if count:
                    lengths.append(self._features(count))
                    sounding = sounding or VIDEO in run
        found: dict[str, Any] = {"use_audio_in_video": sounding}
        if lengths:
            found["feature_attention_mask"] = (
                torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
            ).long()
        if len(seconds):
            found["video_second_per_grid"] = seconds
        return found

    def _features(self, tokens: int) -> int:
        """Return a number of audio features that the model turns into this many tokens."""
        module = importlib.import_module(type(self.model).__module__)
        lengths = self.torch.arange(1, 200 * tokens)
        size = getattr(module, "_get_feat_extract_output_lengths", None)
        if size is None:  # Qwen2.5-Omni: two halvings
            counts = ((lengths - 1) // 2 + 1 - 2) // 2 + 1
        else:
            counts = size(lengths)
        return int(lengths[counts == tokens][0])


def _stand_in(torch: Any, call: Callable[..., Any]) -> Any:
    """Return a module that calls a function."""

    class StandIn(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *args: Any, **more: Any) -> Any:
            return call(*args, **more)

    return StandIn()


def _owner(model_type: str) -> Any:
    """Return the class that generates text with a model of this type."""
    talks, name = model_type.endswith("_talker"), model_type.removesuffix("_talker")
    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    named = [
        cls
        for name, cls in vars(module).items()
        if name.endswith("ForConditionalGeneration")
        and isinstance(cls, type)
        and cls.__module__ == module.__name__
    ]
    part = "TalkerForConditionalGeneration" if talks else "Thinker"
    return next((cls for cls in named if part in cls.__name__), named[0])


def _config(config_class: Any, model_type: str) -> Any:
    settings = _SETTINGS.get(model_type, {})
    return config_class(**settings)
