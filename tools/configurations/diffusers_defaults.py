"""Write posenc_ref/models/data/diffusers_defaults.json, the defaults of the classes of diffusers.

A ``config.json`` may omit arguments.  This program copies the defaults that positional encodings
depend on from the installed diffusers::

    python tools/configurations/diffusers_defaults.py          # write
    python tools/configurations/diffusers_defaults.py --check  # exit with 1 if it would change
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

from posenc_ref.models.config_facts import table
from posenc_ref.models.other.diffusers_entries import POSITIONAL

DATA = Path(__file__).resolve().parents[2] / "posenc_ref" / "models" / "data"
TARGET = DATA / "diffusers_defaults.json"
#: Further arguments that the lines of diffusers_models.json name.
SIZES = {
    "attention_head_dim", "num_attention_heads", "head_dim", "hidden_size", "num_heads", "dim",
    "n_heads", "embed_dim", "dit_dim", "dit_heads", "sample_size", "patch_size", "in_audio_dim",
    "original_max_position_embeddings",
}  # fmt: skip


def classes() -> dict[str, Any]:
    """Return every transformer class of diffusers, by name."""
    import diffusers.models.transformers as found
    from diffusers import ModelMixin

    return {
        name: value
        for name, value in sorted(vars(found).items())
        if inspect.isclass(value) and issubclass(value, ModelMixin)
    }


def text() -> str:
    """Return the file, one line per class."""
    import diffusers

    rows = []
    for name, cls in classes().items():
        found = {
            key: p.default
            for key, p in inspect.signature(cls.__init__).parameters.items()
            if (key in SIZES or POSITIONAL.search(key) or key == "rope_scale")
            and p.default is not p.empty
        }
        rows.append(f"  {json.dumps(name)}: {json.dumps(found, sort_keys=True)}")
    assert table("diffusers_models")["diffusers"] == diffusers.__version__
    return '{\n "models": {\n' + ",\n".join(rows) + "\n }\n}\n"


if __name__ == "__main__":
    new = text()
    if "--check" in sys.argv[1:]:
        old = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
        sys.exit(0 if new == old else f"{TARGET} is not what the installed diffusers says")
    TARGET.write_text(new, encoding="utf-8")
