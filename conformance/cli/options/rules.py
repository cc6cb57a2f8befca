"""Load the rule by which a model numbers text, images, videos and audio."""

from __future__ import annotations

import os
from pathlib import Path

from posenc_ref import PositionRule, mrope_rule
from posenc_ref._documents import read_json
from posenc_ref.conformance.harness.signatures import SURFACES

from .loading import UsageError

#: The surfaces that are judged against a rule, not against an encoding.
OF_RULES = {name for name, row in SURFACES.items() if row.families == ("positions",)}


def load_rule(preset: str | None, config: str | None) -> PositionRule:
    """Return the rule of the model that --config names; raise UsageError for --preset."""
    if config is None:
        raise UsageError(
            f"--preset {preset} has no rule of position ids: give --config config.json, or "
            "--encoding 'MRoPEPositions(tokens_per_second=2.0)'"
        )
    path = Path(config) / "config.json" if os.path.isdir(config) else Path(config)
    if not os.path.isfile(path):
        raise UsageError(f"--config must be a config.json or its folder; there is no {path}")
    try:
        return mrope_rule(read_json(path))
    except (TypeError, ValueError) as error:
        raise UsageError(f"--config: {error}") from error
