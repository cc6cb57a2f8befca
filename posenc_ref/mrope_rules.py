"""The rules by which models number text, images, videos and audio, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._text import shown
from .encoding import Value
from .multimodal_positions import MARKERS, mrope_positions
from .position_ids import _integers, decode_positions


@dataclass(frozen=True, eq=False, repr=False)
class MRoPEPositions(Value):
    """How a model numbers the tokens of text, images, videos and audio for M-RoPE.

    Formula
        Text and audio at c have (c, c, c), (c + 1, c + 1, c + 1), ...; the token in frame t, row h
        and column w of an image or video has ``(c + time(t), c + h, c + w)``.  What follows starts
        at one more than the largest position so far, on any axis, and so does decoding.
        :func:`mrope_positions` has the details.
    Source
        Wang et al. 2024, *Qwen2-VL*, arXiv:2409.12191, section 2.1; Xu et al. 2025,
        *Qwen2.5-Omni*, arXiv:2503.20215 (TMRoPE).  :func:`mrope_rule` names the source of each
        model's rule.

    Parameters
    ----------
    spatial_merge_size, temporal_merge_size : int
        Patches per token along height and width; frames per token in videos.
    split_frames : bool
        Every frame of a video is numbered like an image, with timestamps as text in between.
    tokens_per_second : float, optional
        Positions per second of video; None: one position per frame of the grid.
    fractional : bool
        Keep fractions of times instead of truncating them; positions are floats.
    videos, audio : bool
        Whether the model takes videos, and audio.
    markers : {"separate", "shared"}
        Whether the two start tokens, and the two end tokens, of a video with its sound share one
        position.
    """

    kind = "positions"

    spatial_merge_size: int = 2
    temporal_merge_size: int = 1
    split_frames: bool = False
    tokens_per_second: float | None = None
    fractional: bool = False
    videos: bool = True
    audio: bool = False
    markers: str = "separate"

    def __post_init__(self) -> None:
        for name in ("spatial_merge_size", "temporal_merge_size"):
            self._set(**{name: validate.integer(name, getattr(self, name), minimum=1)})
        for name in ("split_frames", "fractional", "videos", "audio"):
            validate.boolean(name, getattr(self, name))
        validate.choice("markers", self.markers, MARKERS)
        if self.tokens_per_second is not None:
            rate = validate.real("tokens_per_second", self.tokens_per_second, above=0)
            self._set(tokens_per_second=rate)

    def positions(
        self,
        token_types: Any,
        *,
        image_grids: Any = (),
        video_grids: Any = (),
        seconds_per_grid: Any = None,
        attention_mask: Any = None,
    ) -> np.ndarray:
        """Return the positions of a batch, as :func:`mrope_positions` does.

        Parameters
        ----------
        token_types, image_grids, video_grids, attention_mask
            As for :func:`mrope_positions`.
        seconds_per_grid : floats, one per video, optional
            Seconds between frames of the grid; ignored without ``tokens_per_second``.  1 by
            default.

        Returns
        -------
        int64 array (float64 if fractional), shape (3, S) or (3, B, S)
        """
        timed = self.tokens_per_second is not None
        seconds = np.ones(len(video_grids)) if seconds_per_grid is None else seconds_per_grid
        return mrope_positions(
            token_types,
            image_grids=image_grids,
            video_grids=video_grids,
            attention_mask=attention_mask,
            spatial_merge_size=self.spatial_merge_size,
            temporal_merge_size=self.temporal_merge_size,
            split_frames=self.split_frames,
            seconds_per_grid=seconds if timed else None,
            tokens_per_second=self.tokens_per_second,
            fractional=self.fractional,
            markers=self.markers,
        )

    def packed(
        self,
        token_types: Any,
        image_grids: Any,
        video_grids: Any,
        seconds_per_grid: Any,
        lengths: Any,
    ) -> np.ndarray:
        """Return the positions of packed documents; each document starts at 0.

        Parameters
        ----------
        token_types : integers, shape (S,)
            As for :func:`mrope_positions`, one document after another.
        image_grids, video_grids, seconds_per_grid
            As for :meth:`positions`, in order of occurrence.
        lengths : integers, shape (documents,)
            The number of tokens of each document.

        Returns
        -------
        int64 array (float64 if fractional), shape (3, S)
        """
        types, sizes = _integers("token_types", token_types), _integers("lengths", lengths)
        if types.ndim != 1 or sizes.ndim != 1 or (sizes < 0).any() or sizes.sum() != types.size:
            raise ValueError(
                f"lengths must add up to the {types.size} tokens of token_types (S,), got {sizes}"
            )
        real = np.arange(sizes.max(initial=0)) < sizes[:, None]
        rows = np.zeros(real.shape, dtype=np.int64)
        rows[real] = types
        return self.positions(
            rows,
            image_grids=image_grids,
            video_grids=video_grids,
            seconds_per_grid=seconds_per_grid,
            attention_mask=real,
        )[:, real]

    def decoded(self, positions: Any, attention_mask: Any, n_steps: int) -> np.ndarray:
        """Return the positions of the tokens generated after a batch of prompts.

        Formula
            ``max + 1, max + 2, ...`` on all axes, where max is the largest position of the row's
            real tokens.  Libraries store ``rope_deltas = max + 1 - length`` of each row.

        Parameters
        ----------
        positions : integers or floats, shape (3, B, S)
            The positions of the prompts.
        attention_mask : integers or booleans, shape (B, S)
            0 marks padding.
        n_steps : int
            Number of generated tokens.

        Returns
        -------
        array of the dtype of the positions, shape (3, B, n_steps)
        """
        held = np.asarray(positions)
        real = _integers("attention_mask", attention_mask, booleans=True) == 1
        start = np.where(real, held, -1).max(axis=(0, 2)) + 1
        steps = start[:, None] + decode_positions(0, n_steps)
        return np.asarray(np.broadcast_to(steps, (held.shape[0], *steps.shape)))

    def with_decoding(
        self,
        token_types: Any,
        image_grids: Any,
        video_grids: Any,
        seconds_per_grid: Any,
        attention_mask: Any,
        n_steps: int,
    ) -> np.ndarray:
        """Return the positions of prompts and of the tokens generated after them.

        Parameters
        ----------
        token_types, image_grids, video_grids, seconds_per_grid, attention_mask
            As for :meth:`positions`; token_types have shape (B, S).
        n_steps : int
            Number of generated tokens.

        Returns
        -------
        int64 array (float64 if fractional), shape (3, B, S + n_steps)
        """
        held = self.positions(
            token_types,
            image_grids=image_grids,
            video_grids=video_grids,
            seconds_per_grid=seconds_per_grid,
            attention_mask=attention_mask,
        )
        return np.concatenate([held, self.decoded(held, attention_mask, n_steps)], axis=2)


_FRAMES = {"split_frames": True}
#: The rule of each ``model_type``: its settings, and where they come from.  In [] are the names of
#: the configuration's keys that change a setting.
RULES: dict[str, tuple[dict[str, Any], str]] = {
    "qwen2_vl": ({}, "arXiv:2409.12191; transformers 4.57 and vLLM, get_rope_index"),
    "qwen2_5_vl": (
        {"tokens_per_second": 2.0},
        "arXiv:2502.13923; transformers 4.57, Qwen2_5_VLModel.get_rope_index",
    ),
    "paddleocr_vl": ({"videos": False}, "transformers 5.23, PaddleOCRVLModel.get_rope_index"),
    "ernie4_5_vl_moe": (
        {"temporal_merge_size": 2},
        "vLLM, ernie45_vl.py, get_mrope_input_positions: st_idx = max + 1",
    ),
    **dict.fromkeys(
        ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen4_exp"),
        (_FRAMES, "transformers 5.23, Qwen3VLModel.get_rope_index: timestamps separate the frames"),
    ),
    **dict.fromkeys(
        ("glm4v", "glm4v_moe", "glm46v", "glm_ocr"),
        (_FRAMES, "transformers 5.23, Glm4vModel.get_rope_index"),
    ),
    **dict.fromkeys(
        ("cohere_compass", "cosmos3_edge", "cosmos3_omni"),
        (_FRAMES, "transformers 5.23, get_rope_index of the model; like qwen3_vl"),
    ),
    **dict.fromkeys(
        ("KeyeVL1_5",),
        (_FRAMES, "vLLM, keye_vl1_5.py, get_mrope_input_positions: split_thw"),
    ),
    "qwen2_5_omni": (
        {"tokens_per_second": 25.0, "audio": True, "markers": "shared"},
        "arXiv:2503.20215; transformers 5.23, Qwen2_5OmniThinkerModel",
    ),
    "qwen3_omni_moe": (
        {"tokens_per_second": 13.0, "fractional": True, "audio": True},
        "arXiv:2509.17765; transformers 5.23, Qwen3OmniMoeThinkerModel",
    ),
}
#: The defaults of configuration classes of transformers 5.23 that are not the released settings: a
#: configuration without the entry has them.
_CLASS_DEFAULTS = {
    "qwen2_5_vl": {"tokens_per_second": 4.0},
    "qwen3_omni_moe": {"tokens_per_second": 25.0},
}
#: Where a configuration has a setting: its key, in the vision configuration or beside it.
_KEYS = {
    "spatial_merge_size": "spatial_merge_size",
    "temporal_merge_size": "temporal_merge_size",
    "tokens_per_second": "tokens_per_second",
    "position_id_per_seconds": "tokens_per_second",
}


def mrope_rule(model: str | Mapping[str, Any]) -> MRoPEPositions:
    """Return the rule by which a model numbers text, images, videos and audio.

    Parameters
    ----------
    model : str or mapping
        A ``model_type``, such as "qwen2_5_vl", or a parsed ``config.json``, whose
        ``spatial_merge_size``, ``temporal_merge_size``, ``tokens_per_second`` and
        ``position_id_per_seconds`` are used; one that it lacks has the default of the configuration
        class.  A name has the settings of the released checkpoints.

    Returns
    -------
    MRoPEPositions

    Traps
        The class defaults of transformers are not the released settings: ``tokens_per_second`` is 4
        in the configuration class of Qwen2.5-VL and 2 in its checkpoints,
        ``position_id_per_seconds`` is 25 for Qwen3-Omni and 13 in its checkpoints.  A configuration
        that lacks the entry means the class default.

    Raises
    ------
    TypeError, ValueError
        The model type has no rule here; the message lists those that have.  Or an entry is
        misspelt, such as ``spatial_merge_sise``.
    """
    config: Mapping[str, Any] = {"model_type": model} if isinstance(model, str) else model
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        raise TypeError(f"model must be a model_type or a configuration, got {shown(model)}")
    name = config.get("model_type")
    known = str(name).removesuffix("_thinker")
    if known not in RULES:
        raise ValueError(
            f"model_type must be one whose multimodal positions are known: {', '.join(RULES)}; "
            f"got {shown(name)}"
        )
    settings = dict(RULES[known][0])
    if not isinstance(model, str):
        settings |= _CLASS_DEFAULTS.get(known, {})
    inner = config.get("thinker_config")
    places = [config, inner] if isinstance(inner, Mapping) else [config]
    for place in places:
        vision = place.get("vision_config")
        for source in (place, vision if isinstance(vision, Mapping) else {}):
            _refuse_misspelt(source)
            for key, setting in _KEYS.items():
                if source.get(key) is not None and _has(setting, known):
                    settings[setting] = source[key]
    return MRoPEPositions(**settings)


def _refuse_misspelt(source: Mapping[str, Any]) -> None:
    """Raise ValueError for an entry whose name is nearly that of a setting."""
    from .models.config_keys import misspelt

    for key in source:
        meant = misspelt(key, _KEYS)
        if meant is not None and source[key] is not None:
            raise ValueError(
                f"the entry {shown(key)} of the configuration is not known; did you mean "
                f"{meant!r}? If not, remove it or set it to null"
            )


def _has(setting: str, model: str) -> bool:
    """Return whether a model's rule reads the setting; all read the spatial merge size."""
    return setting == "spatial_merge_size" or setting in RULES[model][0]
