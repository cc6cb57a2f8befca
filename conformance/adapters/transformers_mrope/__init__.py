"""Models of transformers as functions of surface ``mrope_position_ids``."""

from __future__ import annotations

from posenc_ref import mrope_rule
from posenc_ref.conformance.functions.mrope_layouts import Batch
from posenc_ref.conformance.harness.implementation import Implementation

from .model import Model
from .others import CanvasModel, DrawingModel, Talker, XDModel

__all__ = ["MODES", "mrope_model"]

#: The ways in which a model makes position ids.
MODES = ("forward", "generate")
#: The models that are called in ways of their own.
_OTHERS: dict[str, type[Model]] = {
    "qwen2_5_omni_talker": Talker,
    "qwen3_omni_moe_talker": Talker,
    "hunyuan_vl": XDModel,
    "minicpmv4_7": CanvasModel,
    "glm_image": DrawingModel,
}


def mrope_model(model_type: str, mode: str = "forward") -> Implementation:
    """Return a model of the installed transformers as a function of surface ``mrope_position_ids``.

    Parameters
    ----------
    model_type : str
        A model whose rule :func:`posenc_ref.mrope_rule` knows, such as "qwen2_5_vl".
    mode : {"forward", "generate"}
        "forward" calls the model with the prompt, then with each token and the cache.  "generate"
        calls its ``generate``, which takes no prompts padded on the right.

    Returns
    -------
    Implementation

    Raises
    ------
    ValueError
        The model type or the mode is unknown.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    mrope_rule(model_type)  # raises for an unknown model
    model = _OTHERS.get(model_type, Model)(model_type)
    call = model.forward if mode == "forward" else model.generate
    return Implementation(
        call=lambda *arguments: call(Batch(*arguments)),
        surface="mrope_position_ids",
        name=f"{type(model.model).__name__}.{mode}",
        encoding=model.rule,
        problems=lambda: sorted(model.problems),
    )
