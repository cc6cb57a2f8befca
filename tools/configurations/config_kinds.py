"""Write posenc_ref/models/data/model_types.json: why model types have no encoding to read.

``from_config`` reads the rotary, sinusoidal and ALiBi encodings of the model types in
``text_models.json``, ``vision_models.json`` and ``other_models.json``.  For every other
``model_type`` of the installed transformers this program builds the model on the meta device, from
its default configuration, and notes which position encodings its modules make::

    python tools/configurations/config_kinds.py          # write; takes about 30 seconds
    python tools/configurations/config_kinds.py --check  # exit with 1 if the file would change

Models that cannot be built, and models without a module that makes an encoding, are described by
hand in ``tools/configurations/config_kinds.json``; a model type that is in neither is an error.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posenc_ref.conformance.surveys.transformers_other.census import places
from posenc_ref.models.config_facts import table

DATA = Path(__file__).resolve().parents[2] / "posenc_ref" / "models" / "data"
TARGET = DATA / "model_types.json"
BY_HAND = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
#: The classes of posenc_ref that take the numbers of a place, by its kind and attribute.
CLASSES = (
    ("Learned", r"(learned|coordinates) "),
    ("T5Bias", r"t5 |other "),
    ("LogCPB", r"window continuous"),
    ("LeViTBias", r"window attention_biases"),
    ("SwinBias", r"window "),
    ("DecomposedRelative", r"decomposed "),
    ("DeBERTa", r"disentangled "),
    ("XLNet", r"relative r_w_bias"),
    ("TransformerXL", r"relative (pos_bias|relative_k_proj|relative_position_emb)"),
    ("Shaw", r"relative "),
    ("FourierFeatures", r"fourier "),
    ("a convolution", r"convolution "),
)
#: What is computed: it needs no numbers.
COMPUTED = ("sines", "image sines", "timesteps")
#: Smaller numbers of layers, where a configuration has these entries.
FEW = dict.fromkeys(("num_hidden_layers", "encoder_layers", "decoder_layers", "num_layers"), 2)


def is_read(model_type: str) -> bool:
    """Return whether ``from_config`` reads this model type, or a part of it by default."""
    tables = ("text_models", "vision_models", "other_models")
    read = any(model_type in table(name)["models"] for name in tables)
    return read or model_type in table("config_defaults")["parts"]


def collect() -> dict[str, Any]:
    """Return the model types without an encoding to read, and the other names of model types."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

    classes: dict[str, Any] = {}
    aliases: dict[str, str] = {}
    for name in CONFIG_MAPPING_NAMES:
        cls = CONFIG_MAPPING[name]
        if cls.model_type in ("", name):
            classes[name] = cls
        else:
            aliases[name] = cls.model_type
            classes.setdefault(cls.model_type, cls)
    queue, models = sorted(classes), {}
    while queue:
        model_type = queue.pop()
        if model_type in models or is_read(model_type):
            continue
        if model_type in table("text_models")["refused"]:
            continue
        found = BY_HAND["models"].get(model_type) or _one(classes.get(model_type))
        if "kind" not in found:
            raise SystemExit(f"{model_type}: built, but nobody has read how it encodes positions")
        models[model_type] = found
        for inner, cls in _part_classes(classes.get(model_type)).values():
            classes.setdefault(inner, cls)
            queue.append(inner)
    return {
        "transformers": transformers.__version__,
        "aliases": {k: v for k, v in sorted(aliases.items()) if k != v},
        "models": dict(sorted(models.items())),
    }


def _one(cls: Any) -> dict[str, Any]:
    """Return the kind of one model type, its parts, and the parameters that it needs."""
    parts = {key: inner for key, (inner, _) in _part_classes(cls).items()}
    if parts:
        return {"kind": "parts", "parts": parts}
    needs = dict(_needs(cls))
    if set(needs.values()) == {"a convolution"}:
        return {"kind": "convolution", "needs": needs}
    return {"kind": "learned", "needs": needs} if needs else {}


def _part_classes(cls: Any) -> dict[str, tuple[str, Any]]:
    """Return the model type and class of each part of a composite configuration."""
    if cls is None or not getattr(cls, "sub_configs", None):
        return {}
    found = {}
    try:
        default: Any = cls()
    except Exception:  # a composite that must be given its parts
        return {}
    for key in sorted(cls.sub_configs):
        own = type(getattr(default, key, None))
        if getattr(own, "model_type", ""):
            found[key] = (own.model_type, own)
    return found


def _needs(cls: Any) -> Iterator[tuple[str, str]]:
    """Yield the path of each parameter or module with learned positions, and its class here."""
    import torch

    makers: dict[tuple[str, str], list[Any]] = {}
    for place in places():
        makers.setdefault((place.file, place.owner), []).append(place)
    model = _built(cls)
    if model is None:
        return
    for path, module in model.named_modules():
        for place in makers.get((type(module).__module__, type(module).__name__), ()):
            made = getattr(module, place.attribute, None) if place.attribute else module
            if made is None or place.kind in COMPUTED:
                continue
            tail = [place.attribute] if place.attribute else []
            if place.attribute and isinstance(getattr(made, "weight", None), torch.Tensor):
                tail.append("weight")
            if not re.search(r"\.[1-9]\d*\.", f".{path}."):  # of the layers, the first
                what = f"{place.kind} {place.attribute}"
                name = next(name for name, pattern in CLASSES if re.match(pattern, what))
                yield ".".join([*filter(None, [path]), *tail]), name


def _built(cls: Any) -> Any:
    """Return a model of a configuration class on the meta device, or None."""
    import torch

    for model in _models(cls)[:4]:
        for few in (FEW, {}):
            try:
                config = cls()
                for key, value in few.items():
                    if isinstance(getattr(config, key, None), int):
                        setattr(config, key, value)
                config._attn_implementation = "eager"
                with torch.device("meta"):
                    return model(config)
            except Exception:  # the next class, or the whole depth
                continue
    return None


def _models(cls: Any) -> list[Any]:
    """Return the model classes of a configuration class, base models first."""
    import transformers

    if cls is None or ".models." not in cls.__module__:
        return []
    package = importlib.import_module(cls.__module__.rpartition(".")[0])
    found = []
    for info in pkgutil.iter_modules(package.__path__):
        if not info.name.startswith("modeling_"):
            continue
        try:
            module = importlib.import_module(f"{package.__name__}.{info.name}")
        except ImportError:  # its code needs another library
            continue
        for value in vars(module).values():
            if (
                inspect.isclass(value)
                and issubclass(value, transformers.PreTrainedModel)
                and value.config_class is cls
                and value.__module__ == module.__name__
                and "PreTrained" not in value.__name__
            ):
                found.append(value)
    return sorted(found, key=lambda c: (not c.__name__.endswith("Model"), len(c.__name__)))


def text() -> str:
    """Return the file, one line per model type."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect()
    rows = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in found["models"].items()]
    return "\n".join([
        "{", f' "transformers": {json.dumps(found["transformers"])},',
        f' "aliases": {json.dumps(found["aliases"])},',
        ' "models": {', ",\n".join(rows), " }", "}", "",
    ])  # fmt: skip


if __name__ == "__main__":
    new = text()
    if "--check" in sys.argv[1:]:
        old = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
        sys.exit(0 if new == old else f"{TARGET} is not what the installed transformers say")
    TARGET.write_text(new, encoding="utf-8")
