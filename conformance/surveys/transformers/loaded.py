"""Bring a module into the state after loading a checkpoint, which recomputes its tables.

Models are built without memory and their tables filled in by ``_init_weights``, a second place
where frequencies are written down.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any


def load(module: Any, config: Any) -> None:
    """Let the model's own code fill the buffers of ``module`` again; keep the other buffers.

    Buffers that it does not fill come with the checkpoint.
    """
    import torch

    kept = {name: buffer.clone() for name, buffer in module.named_buffers()}
    for buffer in module.buffers():
        if buffer.is_floating_point() or buffer.is_complex():
            buffer.fill_(float("nan"))
    model = _model(sys.modules[type(module).__module__], config)
    with torch.no_grad():
        model._init_weights(module)
    for name, buffer in module.named_buffers():
        if torch.isnan(buffer).all():
            buffer.copy_(kept[name])


def _model(file: Any, config: Any) -> Any:
    """Return an empty model of the file, whose class fills modules."""
    import torch
    from transformers import PreTrainedModel

    classes = [
        value
        for value in vars(file).values()
        if inspect.isclass(value) and issubclass(value, PreTrainedModel)
    ]
    own = [cls for cls in classes if "_init_weights" in vars(cls)]
    base = next((cls for cls in own if cls.__module__ == file.__name__), PreTrainedModel)
    model = base.__new__(base)
    torch.nn.Module.__init__(model)
    model.config = config
    return model
