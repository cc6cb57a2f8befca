"""Tables of sines over one axis: what each class and function is declared to be, and how to ask."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import Learned, StandardizedSinusoidal, Table, preset
from posenc_ref.conformance.adapters.transformers_table import position_table
from posenc_ref.conformance.harness.implementation import Implementation

from .build import MissingArgument, build, call, same, takes, text_of
from .census import Place

#: Rows, and their width, where a class or function is asked for so many.
ROWS, DIM, PADDING = 3000, 32, 1
#: The preset of each, by its name: as docs/tables.md and the catalogue of presets have them.
PRESETS = (
    (r"(Marian|Pegasus|Informer|Autoformer|TimeSeries)Sinusoidal", "sinusoidal-marian"),
    (r"Bros|videoprism", "sinusoidal-marian"),
    (r"PegasusXSinus", "sinusoidal-pegasus-x"),
    (r"(M2M100|NllbMoe|SeamlessM4T|SeamlessM4Tv2|TrOCR|SpeechT5)Sinusoidal", "sinusoidal-fairseq"),
    (r"(Kosmos2Text|Kosmos2_5Text|Speech2Text|XGLM)Sinusoidal", "sinusoidal-fairseq"),
    (r"fsmt", "sinusoidal-fsmt"),
    (r"Musicgen", "sinusoidal-musicgen"),
    (r"FunAsrNano", "sinusoidal-fun-asr-nano"),
    (r"Canary", "sinusoidal-canary"),
    (r"SinusoidsPosition", "sinusoidal-qwen-omni-audio"),
    (r"SpeechT5Scaled", "sinusoidal-speecht5"),
    (r"TimesFm", "sinusoidal-timesfm"),
    (r"Tipsv2|whisper", "sinusoidal-whisper"),
    (r"Florence2|Nemotron3_5|videomae", "sinusoidal-videomae"),
    (r"xlm\.|flaubert|distilbert", "sinusoidal-xlm"),
    (r"ctrl", "sinusoidal-ctrl"),
    (r"SinusPositionEmbedding$", "timesteps-qwen-omni"),
    (r"PI0", "timesteps-pi0"),
    (r"VibeVoice", "timesteps-vibevoice"),
    (r"TTSTimestep|VoxtralRealtime", "timesteps-stable-diffusion"),
)
#: What constructors and functions ask for.
ARGUMENTS: dict[str, Any] = {
    **dict.fromkeys(("num_positions", "length", "n_pos", "num_pos", "n_position"), ROWS),
    **dict.fromkeys(("max_len", "num_embeddings", "position", "max_source_positions"), ROWS),
    **dict.fromkeys(("embedding_dim", "channels", "dim", "d_model_size", "d_hid"), DIM),
    **dict.fromkeys(("embed_dim", "num_pos_feats"), DIM),
    "padding_idx": PADDING,
    "dropout": 0.0,
}
SETTINGS = {
    "max_position_embeddings": ROWS,
    "pad_token_id": PADDING,
    "max_temporal_embeddings": 99,
    "num_speakers": 300,
}


def declared(place: Place, dim: int, config: Any = None) -> Table:
    """What a class or function is declared to be."""
    for pattern, name in PRESETS:
        if re.search(pattern, place.name):
            found: Any = preset(name, dim=dim).only
            if "TTSTimestep" in place.owner:
                return found.replace(base=float(config.max_period))  # type: ignore[no-any-return]
            return found  # type: ignore[no-any-return]
    raise MissingArgument("a table of sines that is no setting of Sinusoidal")


def subjects(place: Place) -> Iterator[tuple[Implementation, Any]]:
    """The rows of a table of sines; for fairseq's kin, which of them tokens get."""
    thing = getattr(importlib.import_module(place.file), place.owner)
    if not inspect.isclass(thing):
        yield _function(place, thing)
        return
    if place.model in ("patchtst", "patchtsmixer"):
        yield _standardized(place, thing)
        return
    module, config = _module(place, thing)
    clocks = ("TimestepEmbedding", "TimeEmbedding", "SinusPosition", "SinusoidalEmbedding")
    if any(word in place.owner for word in clocks):
        yield _times(place, module, config)
        return
    if place.model == "bros":
        yield _bros(place, module)
        return
    if place.model == "nemotron3_5_transcribe":
        table = module.weight.numpy()
        yield _of_rows(place, table)
        return
    import torch

    if takes(module.forward, "input_ids", "past_key_values_length", "position_ids"):
        yield _windows(place, module)
    elif (name := _only(module)) is not None:
        yield _added(place, module, name, config)
    else:
        box = torch.nn.Module()
        box.inside = module
        found = position_table(box, None, None, None)
        if found is None:
            raise MissingArgument("it is not asked like a table")
        assert found.head_dim is not None
        yield replace(found, call=_whole(found.call)), declared(place, found.head_dim, config)
    if "create_position_ids_from_input_ids" in text_of(place):
        yield _ids(place, _module(place, thing)[0])


def _standardized(place: Place, cls: Any) -> tuple[Implementation, Table]:
    """A table of so many patches, less its mean, divided by its deviation."""
    file = importlib.import_module(place.file)
    made = getattr(file, cls.__name__.removesuffix("PositionalEncoding") + "Config")
    kinds = {"positional_encoding_type": "sincos", "use_positional_encoding": True}
    config = made(d_model=DIM, context_length=512, **kinds)
    given = (
        (config, 64) if "num_patches" in inspect.signature(cls._init_pe).parameters else (config,)
    )
    table = cls._init_pe(*given).detach().numpy()
    encoding = StandardizedSinusoidal(DIM, len(table))
    return _table(place, lambda p: np.asarray(table[p])), encoding


def _only(module: Any) -> str | None:
    """The parameter of a forward that takes embeddings alone."""
    names = list(inspect.signature(module.forward).parameters)
    return names[0] if names in (["emb"], ["seq_embeds"]) else None


def _whole(rows: Any) -> Any:
    """Rows that are sliced off a table which is too short are a refusal: adding them would be."""

    def checked(positions: Any) -> Any:
        found = rows(positions)
        if len(found) < len(positions):
            raise ValueError(f"{len(found)} rows are all there are")
        return found

    return checked


def _windows(place: Place, module: Any) -> tuple[Implementation, Table]:
    """Tokens after a cache: positions that are given outright would be numbers of rows."""
    import torch

    def rows(positions: np.ndarray) -> np.ndarray:
        p = np.asarray(positions)
        if p.size and not np.array_equal(p, p[0] + np.arange(p.size)):
            raise ValueError("positions follow one another")
        past = int(p[0]) if p.size else 0
        ids = torch.full((1, p.size), PADDING + 1)
        return np.asarray(module(input_ids=ids, past_key_values_length=past)[0].numpy())

    return _table(place, rows), declared(place, module.weights.shape[1])


def _added(place: Place, module: Any, name: str, config: Any) -> tuple[Implementation, Table]:
    """What is added to nothing."""
    import torch

    dim = next(b.shape[-1] for b in module.buffers() if b.is_floating_point())

    def rows(positions: np.ndarray) -> np.ndarray:
        p = np.asarray(positions)
        if not np.array_equal(p, np.arange(p.size)):
            raise ValueError("every sequence starts at 0")
        with torch.no_grad():
            found = module(**{name: torch.zeros(1, p.size, dim)})
        return np.asarray(found.reshape(-1, dim).numpy())

    return _table(place, _whole(rows)), declared(place, dim, config)


def _module(place: Place, cls: type) -> tuple[Any, Any]:
    names = inspect.signature(cls).parameters
    if any("config" in name for name in names):
        wide = {"hidden_size": 768, "num_attention_heads": 12} if place.model == "bros" else {}
        return build(place, {**SETTINGS, **wide}, random=False)
    module = call(cls, ARGUMENTS).eval()
    if hasattr(module, "create_weight"):  # where a model is initialised
        module.weight.data = module.create_weight()
    elif hasattr(module, "get_embedding") and hasattr(module, "weight"):
        module.weight.data = module.get_embedding(*module.weight.shape, PADDING)
    return module, None


def _function(place: Place, function: Any) -> tuple[Implementation, Table]:
    import torch

    out = torch.empty(ROWS, DIM)
    made = call(function, {**ARGUMENTS, "out": out, "dtype": torch.float32})
    table = np.asarray((out if made is None else made).detach(), np.float32)
    return _of_rows(place, table.reshape(-1, table.shape[-1]))


def _of_rows(place: Place, table: np.ndarray) -> tuple[Implementation, Table]:
    def rows(positions: np.ndarray) -> np.ndarray:
        if np.min(positions, initial=0) < 0:
            raise IndexError("rows are counted from 0")
        return np.asarray(table[positions])

    return _table(place, rows), declared(place, table.shape[1])


def _table(place: Place, rows: Any) -> Implementation:
    return Implementation(call=rows, surface="table", name=place.name)


def _times(place: Place, module: Any, config: Any) -> tuple[Implementation, Table]:
    """Diffusion times: whatever follows the sines is taken out."""
    import torch

    for name, part in list(module.named_children()):
        if name not in ("freqs",) and sum(1 for _ in part.buffers()) == 0:
            setattr(module, name, same())
    (time, *_) = inspect.signature(module.forward).parameters

    def rows(positions: np.ndarray) -> np.ndarray:
        at = torch.as_tensor(np.asarray(positions), dtype=torch.float32)
        with torch.no_grad():
            if "dim=-1" not in inspect.getsource(type(module).forward) and place.kind == "sines":
                found = torch.stack([module.forward(**{time: t}) for t in at])  # one at a time
            elif "(batch_size, 1)" in inspect.getsource(type(module).forward):
                found = module.forward(**{time: at[:, None]})
            else:
                found = module.forward(**{time: at})
        return np.asarray(found.numpy())

    return _table(place, rows), declared(place, rows(np.arange(2)).shape[1], config)


def _bros(place: Place, module: Any) -> tuple[Implementation, Table]:
    import torch

    def rows(positions: np.ndarray) -> np.ndarray:
        at = torch.as_tensor(np.asarray(positions), dtype=torch.float32)
        return np.asarray(module(at.reshape(1, 1, -1))[0, 0].numpy())

    return _table(place, rows), declared(place, rows(np.arange(2)).shape[1])


def _ids(place: Place, module: Any) -> tuple[Implementation, Table]:
    """Which row each token gets: rows are told apart by all of their columns."""
    import torch

    weight = getattr(module, "weights", getattr(module, "weight", None))
    if weight is None or not takes(module.forward, "input_ids"):
        raise MissingArgument("its positions come from outside")
    table = weight.detach().numpy()
    declared_as = Learned(table, padding_idx=PADDING)

    def ids(tokens: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            rows = module.forward(input_ids=torch.as_tensor(tokens)).numpy()
        flat = rows.reshape(-1, rows.shape[-1])
        keys, wanted = (_whole_rows(a) for a in (table, flat))
        order = np.argsort(keys)
        near = order[np.searchsorted(keys[order], wanted).clip(max=len(order) - 1)]
        if not np.array_equal(table[near], flat):
            raise MissingArgument("what comes out are no rows of its table")
        return np.asarray(near.reshape(tokens.shape))

    made = Implementation(call=ids, surface="ids_from_tokens", name=place.name)
    return made, declared_as


def _whole_rows(a: np.ndarray) -> np.ndarray:
    """Every row as one value that can be sorted."""
    a = np.ascontiguousarray(a)
    return a.view(np.dtype((np.bytes_, a.dtype.itemsize * a.shape[1])))[:, 0]
