"""Write posenc_ref/models/data/timm_models.json: the architectures of timm and their encodings.

``tools/configurations/timm_families.json`` says by hand what the positions of each family of timm
(a module of ``timm.models``) are. This program adds the names of its architectures, and builds
those of the families that rotate, on the meta device, to read off their rotations. It needs
``timm``, which needs ``torchvision``::

    python tools/configurations/timm_models.py          # write; takes about 2 minutes
    python tools/configurations/timm_models.py --check  # exit with 1 if the file would change
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "posenc_ref" / "models" / "data"
TARGET = DATA / "timm_models.json"
FAMILIES = json.loads((Path(__file__).parent / "timm_families.json").read_text(encoding="utf-8"))
TYPES = {
    "RotaryEmbeddingCat": "cat", "RotaryEmbeddingDinoV3": "dinov3", "RotaryEmbeddingMixed": "mixed",
}  # fmt: skip


def rotation(name: str) -> dict[str, Any] | None:
    """Return the rotation of an architecture, or None."""
    import timm
    import torch

    with torch.device("meta"):
        model = timm.create_model(name)
    model = getattr(model, "encoder", model)
    rope = getattr(model, "rope", None)
    if rope is None:
        return None
    made = TYPES[type(rope).__name__]
    assert not getattr(rope, "in_pixels", False), name
    assert getattr(rope, "normalize_coords", "separate") == "separate", name
    assert getattr(rope, "min_period", None) is None, name
    feat, ref = (getattr(rope, key, None) for key in ("feat_shape", "ref_feat_shape"))
    for shape in (feat, ref):
        assert shape is None or len(set(shape)) == 1, name
    return {
        "type": made,
        "dim": rope.dim if made != "mixed" else rope.dim // rope.num_heads,
        "base": rope.temperature,
        "half": bool(getattr(rope, "rotate_half", False)),
        "offset": float(getattr(rope, "grid_offset", 0.0)),
        "indexing": rope.grid_indexing,
        "feat": feat and feat[0],
        "ref": ref and ref[0],
        "table": getattr(model, "pos_embed", None) is not None,
    }


def text() -> str:
    """Return the file: a line for each family, and for each architecture that rotates."""
    import timm

    assert set(timm.list_modules()) == set(FAMILIES), set(timm.list_modules()) ^ set(FAMILIES)
    families, ropes = [], []
    for module, facts in sorted(FAMILIES.items()):
        names = timm.list_models(module=module)
        found = {name: rotation(name) for name in names if facts["kind"] == "encoding"}
        ropes += [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in found.items() if v is not None]
        families.append(f"  {json.dumps(module)}: {json.dumps({**facts, 'models': names})}")
    return "\n".join([
        "{", f' "timm": {json.dumps(timm.__version__)},',
        ' "families": {', ",\n".join(families), " },",
        ' "rope": {', ",\n".join(ropes), " }", "}", "",
    ])  # fmt: skip


if __name__ == "__main__":
    new = text()
    if "--check" in sys.argv[1:]:
        old = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
        sys.exit(0 if new == old else f"{TARGET} is not what the installed timm says")
    TARGET.write_text(new, encoding="utf-8")
