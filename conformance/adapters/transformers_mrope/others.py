"""Models of transformers whose inputs differ from those of Qwen2-VL: how they are called."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from posenc_ref.conformance.functions.mrope_layouts import Batch

from .model import Model


class Talker(Model):
    """The talker of Qwen-Omni: embeddings, with the token ids of the thinker beside them."""

    def __init__(self, model_type: str) -> None:
        super().__init__(model_type)
        if model_type.startswith("qwen3"):
            self.model.prepare_inputs_for_generation = self._prepared
            self.model.code_predictor.generation_config = SimpleNamespace()

    def _prepared(
        self, input_ids: Any, inputs_embeds: Any = None, is_first_iteration: bool = False,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Return what Qwen3-Omni's own method does, without the codes that need weights."""
        from transformers import GenerationMixin

        kwargs.pop("hidden_states", None)
        made = GenerationMixin.prepare_inputs_for_generation(
            self.model, input_ids, inputs_embeds=inputs_embeds,
            is_first_iteration=is_first_iteration, **kwargs,
        )  # fmt: skip
        if not is_first_iteration:
            made["inputs_embeds"] = self.torch.zeros(input_ids.shape[0], 1, 4)
        return made

    def inputs(self, batch: Batch) -> dict[str, Any]:
        """Return the arguments of the first call."""
        torch, found = self.torch, super().inputs(batch)
        mask = found.pop("feature_attention_mask", None)
        if mask is not None:
            found["audio_feature_lengths"] = mask.sum(dim=-1)
        ids = found.pop("input_ids")
        found["inputs_embeds"] = torch.zeros(*ids.shape, 4)
        if self.type.startswith("qwen3"):
            found |= {
                "talker_input_ids": ids,
                "trailing_text_hidden": torch.zeros(ids.shape[0], 1, 4),
                "tts_pad_embed": torch.zeros(ids.shape[0], 1, 4),
            }
        else:
            found["input_text_ids"] = ids
        return found

    def next_inputs(self, rows: int) -> dict[str, Any]:
        """Return the token of a later call: codes or, in Qwen3-Omni, their embeddings."""
        torch = self.torch
        if self.type.startswith("qwen3"):
            return {"inputs_embeds": torch.zeros(rows, 1, 4), "generation_step": 0}
        return super().next_inputs(rows) | {"thinker_reply_part": torch.zeros(rows, 1, 4)}

    def prompt_to_generate(self, batch: Batch) -> dict[str, Any]:
        """Return the arguments of ``generate``."""
        torch, found = self.torch, self.inputs(batch)
        rows, size = batch.token_types.shape
        if not self.type.startswith("qwen3"):
            found["input_ids"] = torch.full((rows, size), 1)
            found["thinker_reply_part"] = torch.zeros(rows, 1, 4)
        return found


class XDModel(Model):
    """HunYuan-VL."""

    def inputs(self, batch: Batch) -> dict[str, Any]:
        """Return the arguments of the first call."""
        found = super().inputs(batch)
        found.pop("video_grid_thw", None)
        return found


class CanvasModel(Model):
    """MiniCPM-V: sizes of crops in place of grids, and markers in the token ids."""

    def inputs(self, batch: Batch) -> dict[str, Any]:
        """Return the arguments of the first call."""
        torch, found = self.torch, super().inputs(batch)
        types = np.asarray(batch.token_types)
        found["mm_token_type_ids"] = torch.tensor(np.where(types > 2, 0, types))
        for grids, sizes in (
            ("image_grid_thw", "target_sizes"), ("video_grid_thw", "target_sizes_videos")
        ):  # fmt: skip
            if grids in found:
                found[sizes] = found.pop(grids)[:, 1:]
        return found


class DrawingModel(Model):
    """GLM-Image: the grids of images to come, and how many images each row has."""

    def inputs(self, batch: Batch) -> dict[str, Any]:
        """Return the arguments of the first call."""
        found = super().inputs(batch)
        found.pop("mm_token_type_ids")
        types, mask = np.asarray(batch.token_types), np.asarray(batch.attention_mask) == 1
        seen = np.array([
            (np.diff(np.r_[0, row[real]]) == 1).sum() for row, real in zip(types, mask, strict=True)
        ])  # fmt: skip
        for b, row in enumerate(types):  # each image stands between two tokens of its own
            edges = np.flatnonzero(np.diff(np.r_[0, row, 0]))
            found["input_ids"][b, edges[::2] - 1] = self.config.image_start_token_id
            found["input_ids"][b, edges[1::2]] = self.config.image_end_token_id
        if "image_grid_thw" in found:
            each = (len(batch.image_grids) - seen.sum()) // len(types)
            found["images_per_sample"] = self.torch.tensor(seen + each)
        return found
