"""Scores with relative terms: attention classes of one head that are given their q and k."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import DeBERTa, DecomposedRelative, Encoding, Shaw, Sinusoidal, TransformerXL

from .implementation import Implementation
from .sweep_other_bias import softmax_inputs
from .sweep_other_build import Unbound, build, fill, takes
from .sweep_other_census import Place

Found = Iterator[tuple[Implementation, Any]]
#: Channels of the one head, and its grid.
DIM, GRID = 8, (3, 3)
ONE_HEAD: dict[str, Any] = {
    "hidden_size": DIM, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": DIM,
    "encoder_attention_heads": 1, "speech_encoder_attention_heads": 1,
}  # fmt: skip


def _given() -> Any:
    """A projection that gives back what it was told to."""
    import torch

    class Given(torch.nn.Module):  # type: ignore[misc]  # torch is not typed here
        value: Any = None

        def forward(self, *_: Any) -> Any:
            return self.value

    return Given()


def _scores(
    place: Place, module: Any, sides: tuple[str, ...], ask: Callable[[int, int], Any]
) -> Implementation:
    """What softmax is given, where the projections called ``sides`` are q and k, or q, k, v."""
    import torch

    stubs = [_given() for _ in sides]
    for name, stub in zip(sides, stubs, strict=True):
        setattr(module, name, stub)

    def logits(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        if q.shape[2] != k.shape[2]:
            raise ValueError("it has as many queries as keys")
        b, h, n, d = q.shape
        flat = [torch.as_tensor(np.asarray(x)).reshape(b * h, n, d) for x in (q, k)]
        if len(stubs) == 1:
            stubs[0].value = torch.cat([*flat, flat[1]], dim=-1)
        else:
            for stub, value in zip(stubs, flat, strict=True):
                stub.value = value
        with softmax_inputs() as seen, torch.no_grad():
            ask(b * h, n)
        if not seen:
            raise Unbound("it calls no softmax")
        return np.asarray(seen[0].float().numpy()).reshape(b, h, n, n)

    return Implementation(call=logits, surface="scores", name=place.name)


def _array(weight: Any) -> np.ndarray:
    return np.asarray(weight.detach().numpy())


def decomposed(place: Place) -> Found:
    """SAM's kin: rows for the difference of heights, and of widths."""
    import torch

    if place.model == "vitdet":
        file = importlib.import_module(place.file)
        config = file.VitDetConfig(use_relative_position_embeddings=True, **_own(file.VitDetConfig))
        module = fill(file.VitDetAttention(config, input_size=GRID).eval())
    else:
        sizes = {"image_size": 4 * GRID[0], "patch_size": 4, "use_rel_pos": True, "window_size": 0}
        module = _windowless(place, {**ONE_HEAD, **sizes, "use_relative_position_embeddings": True})
    heights, widths = _array(module.rel_pos_h), _array(module.rel_pos_w)
    if len(heights) != 2 * GRID[0] - 1:
        raise Unbound(f"its grid has {(len(heights) + 1) // 2} rows, not {GRID[0]}")
    tokens = GRID[0] * GRID[1]
    asked = _scores(place, module, ("qkv",), lambda b, n: module(torch.zeros(b, *GRID, DIM)))

    def logits(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Those of the first tokens of a whole grid."""
        n_q, n_k = q.shape[2], k.shape[2]
        if max(n_q, n_k) > tokens or n_q != n_k:
            raise ValueError(f"a grid of {tokens} tokens asks itself")
        whole = [np.pad(x, ((0, 0), (0, 0), (0, tokens - n_q), (0, 0))) for x in (q, k)]
        found: np.ndarray = asked.call(*whole)[:, :, :n_q, :n_k]
        return found

    made = replace(asked, call=logits)
    yield made, DecomposedRelative(heights, widths, grid=GRID)


def _own(cls: type) -> dict[str, Any]:
    return {"hidden_size": DIM, "num_attention_heads": 1}


def _windowless(place: Place, settings: dict[str, Any]) -> Any:
    import torch

    module, config = build(place, settings)
    cls = type(module)
    if "window_size" in inspect.signature(cls).parameters:
        torch.manual_seed(0)
        module = fill(cls(config, window_size=0).eval())
    return module


def disentangled(place: Place) -> Found:
    """DeBERTa and its second version, whose buckets SEW-D has as well."""
    import torch

    span = 16
    common = {**ONE_HEAD, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
    rel = torch.randn(2 * span, DIM, generator=torch.Generator().manual_seed(2))
    if place.model == "deberta":
        module, _ = build(place, {**common, "max_relative_positions": span})
        with torch.no_grad():
            module.q_bias.zero_()
        keys, queries = (_array(p(rel))[None] for p in (module.pos_proj, module.pos_q_proj))

        def ask(b: int, n: int) -> Any:
            at = torch.arange(n)
            far = (at[:, None] - at)[None]
            mask = torch.ones(1, 1, n, n)
            return module(torch.zeros(b, n, DIM), mask, relative_pos=far, rel_embeddings=rel)

        yield _scores(place, module, ("in_proj",), ask), DeBERTa(keys, queries)
        return
    buckets = {"max_relative_positions": 40, "position_buckets": span, "share_att_key": False}
    module, config = build(place, {**common, **buckets})
    for name, value in buckets.items():  # not all are fields of the configuration
        setattr(config, name, value)
    module = fill(type(module)(config).eval())
    keys, queries = (_array(p(rel))[None] for p in (module.pos_key_proj, module.pos_query_proj))

    def ask_buckets(b: int, n: int) -> Any:
        mask = torch.ones(1, 1, n, n)
        return module(torch.zeros(b, n, DIM), mask, rel_embeddings=rel)

    made = _scores(place, module, ("query_proj", "key_proj"), ask_buckets)
    yield made, DeBERTa(keys, queries, buckets=span, max_position=40)


def relative(place: Place) -> Found:
    """Shaw's rows and Transformer-XL's sines, where the attention class is known."""
    drivers = {
        "distance_embedding": _shaw,
        "pos_bias_u": _conformer,
        "relative_k_proj": _parakeet,
        "": _speecht5 if place.model == "speecht5" else _table,
    }
    if place.attribute not in drivers:
        raise Unbound(REASONS.get(place.model, "its terms are those of no encoding here"))
    yield from drivers[place.attribute](place)


#: Why the attention of a model is not driven.
REASONS = {
    "inkling": "logits of learned projections of the query, by distance: no encoding here",
    "inkling2": "logits of learned projections of the query, by distance: no encoding here",
    "granite_speech": "its attention is computed in blocks of one context",
    "granite_speech5": "its attention is computed in blocks of one context",
    "granite_speech_plus": "its attention is computed in blocks of one context",
    "xlnet": "two streams and segments: compared in tests/posenc_ref/test_transformer_xl.py",
    "funnel": "pooled positions: compared in tests/posenc_ref/test_transformer_xl.py",
    "esm": "distances in a protein's structure model are clipped and one-hot",
    "esmfold2": "distances in a protein's structure model are clipped and one-hot",
    "gemma3n": "its attention is computed in chunks, with a soft cap",
    "gemma4": "its attention is computed in chunks, with a soft cap",
    "vits": "its rows are padded to the length of the sequence",
    "prophetnet": "its biases are a projection of the query, by bucket: no encoding here",
}


def _shaw(place: Place) -> Found:
    import torch

    kind = {"position_embeddings_type": "relative_key"}
    ends = {"left_max_position_embeddings": 6, "right_max_position_embeddings": 2}
    module, _ = build(place, {**ONE_HEAD, **kind, **ends})
    table = module.distance_embedding.weight
    made = _scores(
        place, module, ("linear_q", "linear_k"), lambda b, n: module(torch.zeros(b, n, DIM))
    )
    yield made, Shaw(_array(table), before=6)


def _speecht5(place: Place) -> Found:
    import torch

    file = importlib.import_module(place.file)
    module = fill(file.SpeechT5Attention(DIM, 1).eval())
    rows = fill(file.SpeechT5RelativePositionalEncoding(DIM, 4).eval())
    made = _scores(
        place, module, ("q_proj", "k_proj"),
        lambda b, n: module(torch.zeros(b, n, DIM), position_bias=rows(torch.zeros(b, n, DIM))),
    )  # fmt: skip
    yield made, Shaw(_array(rows.pe_k.weight), before=4, counted="query-key")


def _table(place: Place) -> Found:
    raise Unbound(REASONS.get(place.model, "judged with the attention class that uses it"))


def _xl(projection: Any, u: Any, v: Any) -> Encoding:
    return TransformerXL(
        _array(projection.weight).reshape(1, DIM, DIM), _array(u), _array(v),
        sinusoid=Sinusoidal(DIM),
    )  # fmt: skip


def _conformer(place: Place) -> Found:
    """Sines for every distance, through the file's own class."""
    import torch

    if place.model == "fastspeech2_conformer":
        yield _fastspeech(place)
        return
    settings = {**ONE_HEAD, "position_embeddings_type": "relative"}
    module, config = build(place, settings)
    file = importlib.import_module(place.file)
    cls = next(v for n, v in vars(file).items() if n.endswith("RelPositionalEmbedding"))
    rows = cls(config).eval()

    def ask(b: int, n: int) -> Any:
        x = torch.zeros(b, n, DIM)
        return module(x, relative_position_embeddings=rows(torch.zeros(1, n, DIM)))

    made = _scores(place, module, ("linear_q", "linear_k"), ask)
    yield made, _xl(module.linear_pos, module.pos_bias_u, module.pos_bias_v)


def _fastspeech(place: Place) -> tuple[Implementation, Encoding]:
    import torch

    file = importlib.import_module(place.file)
    config = file.FastSpeech2ConformerConfig(hidden_size=DIM, encoder_num_attention_heads=1)
    parts = {**config.encoder_config, "num_attention_heads": 1}
    module = fill(file.FastSpeech2ConformerAttention(config, parts).eval())
    rows = file.FastSpeech2ConformerRelPositionalEncoding(config, parts).eval()

    def ask(b: int, n: int) -> Any:
        _, at = rows(torch.zeros(1, n, DIM))
        return module(torch.zeros(b, n, DIM), pos_emb=at)

    made = _scores(place, module, ("linear_q", "linear_k"), ask)
    return made, _xl(module.linear_pos, module.pos_bias_u, module.pos_bias_v)


def _parakeet(place: Place) -> Found:
    """NeMo's conformers."""
    import torch

    module, config = build(place, ONE_HEAD)
    if not takes(module.forward, "position_embeddings") or not hasattr(module, "bias_u"):
        raise Unbound("its attention is computed in chunks, with a soft cap")
    file = importlib.import_module(place.file)
    rows = next(v for n, v in vars(file).items() if n.endswith("EncoderRelPositionalEncoding"))
    at = rows(config).eval()

    def ask(b: int, n: int) -> Any:
        x = torch.zeros(b, n, DIM)
        return module(x, position_embeddings=at(x), attention_mask=None)

    made = _scores(place, module, ("q_proj", "k_proj"), ask)
    yield made, _xl(module.relative_k_proj, module.bias_u, module.bias_v)
