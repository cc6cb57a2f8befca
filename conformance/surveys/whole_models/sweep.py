"""``sweep_models``: judge the attention of every language model of transformers.

A model is built small with random weights and runs as users run it: padded batches, a cache,
``generate``.  The output of its attention function is compared with a plain softmax attention in
float64, whose rotation, scale, mask and factors are read from the configuration.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posenc_ref.conformance.surveys.expected import expected
from posenc_ref.conformance.surveys.transformers.census import models_folder
from posenc_ref.conformance.surveys.transformers.sweep import Sweep, sweep_cases

from .case import ModelCase
from .judge import judge_model

EXPECTED = Path(__file__).with_name("whole_models_expected.json")


def model_cases(only: Sequence[str] = ()) -> list[ModelCase]:
    """Return the cases whose names match one of the patterns ``only``, or all if it is empty."""
    models_folder()  # says what to install
    from transformers.models.auto import modeling_auto

    causal = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    masked = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    every = [*(ModelCase(name) for name in causal), *(ModelCase(name, False) for name in masked)]
    patterns = [pattern.lower() for pattern in only or "*"]
    return sorted(
        (case for case in every if any(fnmatch.fnmatchcase(case.name, p) for p in patterns)),
        key=lambda case: case.name,
    )


def sweep_models(only: Sequence[str] = (), **settings: Any) -> Sweep:
    """Judge every model that matches ``only``; ``settings`` are those of ``sweep_cases``."""
    return sweep_cases(model_cases(only), judge_model, expected(EXPECTED), **settings)
