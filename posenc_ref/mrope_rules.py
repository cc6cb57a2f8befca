"""The rules by which models number text, images, videos and audio, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from . import _validate as validate
from ._text import shown
from .canvas_positions import CanvasPositions
from .image_generation_positions import ImageGenerationPositions
from .multimodal_positions import MARKERS, mrope_positions
from .position_rule import PositionRule
from .xdrope_positions import XDRoPEPositions


@dataclass(frozen=True, eq=False, repr=False)
class MRoPEPositions(PositionRule):
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


class Entry(NamedTuple):
    """The rule of a model."""

    settings: dict[str, Any]
    source: str
    kind: type[PositionRule] = MRoPEPositions


_FRAMES = {"split_frames": True}
_OMNI2 = {"tokens_per_second": 25.0, "audio": True, "markers": "shared"}
_OMNI3 = {"tokens_per_second": 13.0, "fractional": True, "audio": True}
#: The rule of each ``model_type``: its settings, and where they come from.
RULES: dict[str, Entry] = {
    "qwen2_vl": Entry({}, "arXiv:2409.12191; transformers 4.57 and vLLM, get_rope_index"),
    "qwen2_5_vl": Entry(
        {"tokens_per_second": 2.0},
        "arXiv:2502.13923; transformers 4.57, Qwen2_5_VLModel.get_rope_index",
    ),
    "paddleocr_vl": Entry({"videos": False}, "transformers 5.23, PaddleOCRVLModel.get_rope_index"),
    "ernie4_5_vl_moe": Entry(
        {"temporal_merge_size": 2},
        "vLLM, ernie45_vl.py, get_mrope_input_positions: st_idx = max + 1",
    ),
    **dict.fromkeys(
        ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen4_exp"),
        Entry(
            _FRAMES,
            "transformers 5.23, Qwen3VLModel.get_rope_index: timestamps separate the frames",
        ),
    ),
    **dict.fromkeys(
        ("glm4v", "glm4v_moe", "glm46v", "glm_ocr"),
        Entry(_FRAMES, "transformers 5.23, Glm4vModel.get_rope_index"),
    ),
    **dict.fromkeys(
        ("cohere_compass", "cosmos3_edge", "cosmos3_omni"),
        Entry(_FRAMES, "transformers 5.23, get_rope_index of the model; like qwen3_vl"),
    ),
    "KeyeVL1_5": Entry(_FRAMES, "vLLM, keye_vl1_5.py, get_mrope_input_positions: split_thw"),
    **dict.fromkeys(
        ("qwen2_5_omni", "qwen2_5_omni_talker"),
        Entry(_OMNI2, "arXiv:2503.20215; transformers 5.23, Qwen2_5OmniThinkerModel"),
    ),
    **dict.fromkeys(
        ("qwen3_omni_moe", "qwen3_omni_moe_talker"),
        Entry(_OMNI3, "arXiv:2509.17765; transformers 5.23, Qwen3OmniMoeThinkerModel"),
    ),
    "glm_image": Entry(
        {}, "transformers 5.23, GlmImageModel.get_rope_index", ImageGenerationPositions
    ),
    "hunyuan_vl": Entry(
        {}, "arXiv:2511.19575; vLLM, hunyuan_vision.py; transformers 5.23", XDRoPEPositions
    ),
    "minicpmv4_7": Entry(
        {}, "transformers 5.23, MiniCPMV4_7Model.get_rope_index and its comments", CanvasPositions
    ),
}
#: The defaults of configuration classes of transformers 5.23 that are not the released settings: a
#: configuration without the entry has them.
_CLASS_DEFAULTS = {
    "qwen2_5_vl": {"tokens_per_second": 4.0},
    "qwen3_omni_moe": {"tokens_per_second": 25.0},
    "qwen3_omni_moe_talker": {"tokens_per_second": 25.0},
}
#: Where a configuration has a setting: its key, in the vision configuration or beside it.
_KEYS = {
    "spatial_merge_size": "spatial_merge_size",
    "temporal_merge_size": "temporal_merge_size",
    "tokens_per_second": "tokens_per_second",
    "position_id_per_seconds": "tokens_per_second",
}
#: The patches per token and axis of MiniCPM-V's ``downsample_mode``.
_DOWNSAMPLED = {"16x": 4, "4x": 2}


def mrope_rule(model: str | Mapping[str, Any]) -> PositionRule:
    """Return the rule by which a model numbers text, images, videos and audio.

    Parameters
    ----------
    model : str or mapping
        A ``model_type``, such as "qwen2_5_vl", or a parsed ``config.json``, whose
        ``spatial_merge_size``, ``temporal_merge_size``, ``tokens_per_second``,
        ``position_id_per_seconds``, ``downsample_mode`` and ``mrope_section`` are used; one that it
        lacks has the default of the configuration class.  A name has the settings of the released
        checkpoints.

    Returns
    -------
    MRoPEPositions, XDRoPEPositions, CanvasPositions or ImageGenerationPositions

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
    entry = RULES[known]
    settings = dict(entry.settings)
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
    if entry.kind is XDRoPEPositions:
        settings |= _axes(config)
    if entry.kind is CanvasPositions and config.get("downsample_mode") is not None:
        mode = validate.choice("downsample_mode", config["downsample_mode"], tuple(_DOWNSAMPLED))
        settings["spatial_merge_size"] = _DOWNSAMPLED[mode]
    return entry.kind(**settings)


def _axes(config: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of axes by the sections of a configuration with XD-RoPE."""
    text = config.get("text_config")
    for place in (config, text if isinstance(text, Mapping) else {}):
        for name in ("rope_parameters", "rope_scaling"):
            rope = place.get(name)
            for key in ("mrope_section", "xdrope_section"):
                if isinstance(rope, Mapping) and rope.get(key) is not None:
                    return {"num_axes": len(rope[key])}
    return {}


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
    return setting == "spatial_merge_size" or setting in RULES[model].settings
