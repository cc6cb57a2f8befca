"""Positional encodings from the ``config.json`` of a model of timm.

Such a configuration names its ``architecture``, and may have ``model_args``, the arguments that
differ from those of the architecture. ``data/timm_models.json``, which
``tools/configurations/timm_models.py`` writes, has the architectures of each family (a module of
``timm.models``), the kind of the family's encoding (see :mod:`posenc_ref.models.other.kinds`), and
the rotations of each architecture that has some, with these keys:

============  ==================================================================================
type          "cat" (positions are numbers of patches), "dinov3" (positions in [-1, 1]) or "mixed"
              (learned frequencies).
dim           The size of a head.
base          ``temperature``.
half          Whether pairs are half-split instead of interleaved.
offset        ``grid_offset``, which is added to the number of a patch.
indexing      ``grid_indexing``: "ij" puts rows first, "xy" columns.
feat, ref     The patches in a row of the model's image, and of the image of the first training, to
              which positions are scaled.
table         Whether the model also adds a learned table, ``pos_embed``.
============  ==================================================================================
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from posenc_ref import _validate as validate
from posenc_ref._text import near, shown
from posenc_ref.models.config_facts import table
from posenc_ref.models.model_encoding import ModelEncoding
from posenc_ref.multi_axis import MultiAxisRoPE

#: Arguments whose names concern positions.
_POSITIONAL = re.compile(r"rope|rotary|pos_emb|rel_pos|temperature|img_size|ref_feat|indexing")
#: Arguments that this reader uses, and the keys of a rotation that they change.
_USED = {
    "rope_temperature": "base", "rope_rotate_half": "half", "rope_grid_offset": "offset",
    "rope_grid_indexing": "indexing",
}  # fmt: skip
#: Arguments with such a name that change no rotation: the learned table, training, the image.
_HARMLESS = frozenset({
    "img_size", "use_abs_pos_emb", "dynamic_img_size",
    "rope_shift_coords", "rope_jitter_coords", "rope_rescale_coords", "no_embed_class",
})  # fmt: skip


def is_timm(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration names an architecture of timm, and no model type."""
    named = isinstance(config.get("architecture"), str)
    return named and config.get("model_type") in (None, "timm_wrapper")


def timm_model(config: Mapping[str, Any]) -> ModelEncoding:
    """Return the encoding of a model of timm from its configuration.

    ``provenance["axes"]`` names the axes of the positions, in order.

    Raises
    ------
    ValueError
        The architecture is unknown, or its configuration states no encoding; the message says why.
        Or an entry of ``model_args`` is wrong, or changes positions and is not read.
    """
    name = config["architecture"].partition(".")[0]
    data = table("timm_models")
    family = next((k for k, v in data["families"].items() if name in v["models"]), None)
    if family is None:
        similar = near(name, [n for v in data["families"].values() for n in v["models"]])
        hint = f"; did you mean {similar[0]!r}?" if similar else ""
        raise ValueError(f"architecture {shown(name)} is not in timm {data['timm']}{hint}")
    entries = config.get("model_args")
    if entries is not None and not isinstance(entries, Mapping):
        raise ValueError(f"model_args must be a mapping, got {shown(entries)}")
    facts = data["rope"].get(name)
    if facts is None or facts["type"] == "mixed":
        why = data["families"][family]["why"] if facts is None else _MIXED
        raise _wrong(name, why)
    source = f"timm {data['timm']}, models/{family}.py"
    try:
        encoding, axes = _rotation(facts, entries or {}, name)
    except (TypeError, ValueError) as error:
        raise _wrong(name, str(error)) from None
    provenance = dict.fromkeys(sorted(set(encoding.to_dict()) - {"encoding"}), source)
    if "rope_temperature" in (entries or {}):
        provenance["base"] = "config: model_args.rope_temperature"
    provenance["axes"] = f"positions are ({axes}): {source}"
    if facts["table"]:
        provenance["table"] = f"a learned table, pos_embed, is added to the patches: {source}"
    return ModelEncoding(name, encodings={"attention": encoding}, provenance=provenance)


_MIXED = (
    "its frequencies are learned, for each layer, head and pair: rope.freqs of the checkpoint; "
    "give those of a head to MixedRoPE"
)


def _wrong(name: str, message: str) -> ValueError:
    return ValueError(f"configuration of timm's {name}: {message}")


def _rotation(
    facts: Mapping[str, Any], entries: Mapping[str, Any], name: str
) -> tuple[MultiAxisRoPE, str]:
    facts = dict(facts)
    for key, value in entries.items():
        if not _POSITIONAL.search(key) or key in _HARMLESS:
            continue
        if key not in _USED:
            raise ValueError(
                f"the entry {key} (= {shown(value)}) of model_args may change positions, and "
                "posenc-ref does not read it. If your implementation ignores it, remove it"
            )
        facts[_USED[key]] = value
    validate.choice("rope_grid_indexing", facts["indexing"], ("ij", "xy"))
    order = "row, column" if facts["indexing"] == "ij" else "column, row"
    scale: float | tuple[float, ...] = 1.0
    offset = validate.real("rope_grid_offset", facts["offset"])
    if facts["type"] == "dinov3":
        scale, axes = 2 * math.pi, f"{order}, in [-1, 1]"
        if offset:
            raise ValueError(f"rope_grid_offset must be 0 for positions in [-1, 1], got {offset:g}")
    else:
        axes = order
        if facts["feat"] is not None and facts["ref"] is not None:
            scale = facts["ref"] / _patches(facts, entries, name)
    pairs = facts["dim"] // 4
    encoding = MultiAxisRoPE(
        facts["dim"],
        sections=(pairs, pairs),
        layout="half" if validate.boolean("rope_rotate_half", facts["half"]) else "interleaved",
        spacing="restart",
        base=validate.real("rope_temperature", facts["base"], above=1.0),
        offset=offset,
        position_scale=scale,
    )
    return encoding, axes


def _patches(facts: Mapping[str, Any], entries: Mapping[str, Any], name: str) -> int:
    """Return the patches in a row of the image, for which positions are scaled."""
    size = entries.get("img_size")
    if size is None:
        return int(facts["feat"])
    if isinstance(size, list | tuple):
        if not size or any(side != size[0] for side in size):
            raise ValueError(f"img_size must be square, got {shown(size)}")
        size = size[0]
    found = re.search(r"patch(\d+)", name)
    assert found is not None
    patch = int(found[1])
    return validate.integer("img_size", size, minimum=patch) // patch
