"""Scores with sines of offsets: Transformer-XL's kin, attention classes of one head."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import Encoding, Sinusoidal, TransformerXL, XLNet
from posenc_ref.conformance.harness.implementation import Implementation

from .bias import softmax_inputs
from .build import build, fill
from .census import Place
from .scores import DIM, ONE_HEAD, Found, array_of, first_softmax, one_headed, scores_of

#: Tokens before a block that are seen, and of a block; a cap on logits that changes none.
PAST, BLOCK, NO_CAP = 160, 16, 2.0**60
#: Tokens of the longest sequence whose offsets are asked for: NeMo's own limit.
FURTHEST = 5000
#: Sines as Gemma's audio encoders have them: tensor2tensor's.
TIMING = Sinusoidal(DIM, layout="concat", denominator="half-1")


def _xl(projection: Any, u: Any, v: Any) -> Encoding:
    return TransformerXL(
        array_of(projection.weight).reshape(1, DIM, DIM), array_of(u), array_of(v),
        sinusoid=Sinusoidal(DIM),
    )  # fmt: skip


def conformer(place: Place) -> Found:
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

    made = scores_of(place, module, ("linear_q", "linear_k"), ask)
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

    made = scores_of(place, module, ("linear_q", "linear_k"), ask)
    return made, _xl(module.linear_pos, module.pos_bias_u, module.pos_bias_v)


def parakeet(place: Place) -> Found:
    """NeMo's conformers."""
    import torch

    module, config = build(place, ONE_HEAD)
    file = importlib.import_module(place.file)
    rows = next(v for n, v in vars(file).items() if n.endswith("EncoderRelPositionalEncoding"))
    at = rows(config).eval()

    def ask(b: int, n: int) -> Any:
        x = torch.zeros(b, n, DIM)
        return module(x, position_embeddings=at(x), attention_mask=None)

    made = scores_of(place, module, ("q_proj", "k_proj"), ask)
    yield made, _xl(module.relative_k_proj, module.bias_u, module.bias_v)


def rows_by_offset(place: Place) -> Found:
    """The rows of offsets S - 1 .. 1 - S that such a class makes; of keys after the query as well.

    Those are judged at -p: with the sines' signs changed, which rounds nothing.
    """
    import torch

    file = importlib.import_module(place.file)
    cls = getattr(file, place.owner)
    if place.model == "gemma4":
        yield _timing(place)
        return
    if "module_config" in inspect.signature(cls).parameters:
        config = file.FastSpeech2ConformerConfig(hidden_size=DIM)
        module = cls(config, config.encoder_config).eval()
    else:
        module, config = build(place, {**ONE_HEAD, "position_embeddings_type": "relative"})

    def rows(positions: np.ndarray, sign: int) -> np.ndarray:
        p = sign * np.asarray(positions)
        if p.dtype.kind not in "iu":
            raise TypeError("offsets are integers")
        n = int(np.abs(p).max(initial=0)) + 1
        if n > FURTHEST:
            raise ValueError(f"more than {FURTHEST} tokens")
        out = module(torch.zeros(1, n, DIM))
        table = (out[-1] if isinstance(out, tuple) else out)[0]
        signs = np.tile([float(sign), 1.0], DIM // 2)  # of sines and cosines: those of -p
        return np.asarray(table.numpy()[n - 1 - p] * signs.astype(np.float32))

    for sign, part in ((1, "table"), (-1, "table, keys after the query")):
        made = Implementation(
            call=lambda p, sign=sign: rows(p, sign), surface=part, name=place.name
        )
        yield made, Sinusoidal(DIM)


def _timing(place: Place) -> tuple[Implementation, Encoding]:
    """Rows of the offsets from the furthest to 0."""
    import torch

    module, _ = build(place, _gemma(PAST))

    def rows(positions: np.ndarray) -> np.ndarray:
        if np.min(positions, initial=0) < 0:
            raise ValueError("offsets to keys before the query")
        return np.asarray(module(torch.zeros(1, 1, DIM))[0].numpy()[::-1][positions])

    return Implementation(call=rows, surface="table", name=place.name), TIMING


def _gemma(block: int) -> dict[str, Any]:
    """Blocks of so many tokens, each of which sees the same number before it."""
    left = {"attention_chunk_size": block, "attention_context_left": PAST + 1}
    own = {**left, "attention_context_right": 0, "attention_logit_cap": NO_CAP}
    named = {f"conf_{name}": value for name, value in own.items()}
    return {**ONE_HEAD, **own, **named, "conf_num_attention_heads": 1}


def _assembled(found: Any, block: int, n: int) -> Any:
    """Logits (N, 1, U, W, C) of blocks as those of a whole sequence."""
    import torch

    whole = found.new_full((len(found), n, n), -1e9)
    for i in range(n):
        u, w = divmod(i, block)
        j = torch.arange(i + 1)
        whole[:, i, : i + 1] = found[:, 0, u, w, j - u * block + PAST]
    return whole


def gemma3n(place: Place) -> Found:
    """Blocks that see what was before them; only scores of keys up to the query are used."""
    import torch

    module, _ = build(replace(place, owner="Gemma3nAudioAttention"), _gemma(BLOCK))
    with torch.no_grad():
        module.per_dim_scale.zero_()
    yield (
        _in_blocks(place, module, BLOCK, lambda x: module(x, x[..., 0] > 1)),
        TransformerXL(
            array_of(module.relative_position_embedding.pos_proj.weight)[None], sinusoid=TIMING
        ),
    )


def gemma4(place: Place) -> Found:
    """The same; its rows are made for blocks as long as what is seen before them."""
    import torch

    file = importlib.import_module(place.file)
    for block in (PAST, BLOCK):
        module, config = build(place, _gemma(block))
        with torch.no_grad():
            module.per_dim_scale.zero_()
        rows = file.Gemma4AudioRelPositionalEncoding(config)

        def ask(x: Any, module: Any = module, rows: Any = rows) -> Any:
            return module(x, position_embeddings=rows(x))

        made = _in_blocks(place, module, block, ask, float(module.k_scale))
        part = "" if block == PAST else f", blocks of {block}"
        yield (
            replace(made, surface=f"scores{part}"),
            TransformerXL(array_of(module.relative_k_proj.weight)[None], sinusoid=TIMING),
        )


def _in_blocks(
    place: Place, module: Any, block: int, ask: Callable[[Any], Any], k_scale: float = 1.0
) -> Implementation:
    import torch

    sides = ("q_proj", "k_proj", "v_proj")

    def asked(q: Any, k: Any) -> Any:
        n = q.shape[1]
        if n > PAST:
            raise ValueError(f"no more than {PAST} tokens before are seen")
        for name, value in zip(sides, (q, k / k_scale, k), strict=True):
            getattr(module, name).forward = lambda *_, value=value: value
        return _assembled(first_softmax(lambda: ask(torch.zeros(len(q), n, DIM))), block, n)

    return one_headed(place, asked)


def xlnet(place: Place) -> Found:
    """Both streams: q and k come from halves of what goes in; r from the model's own sines."""
    import torch

    file = importlib.import_module(place.file)
    wide = 2 * DIM
    config = file.XLNetConfig(vocab_size=5, d_model=wide, n_head=1, n_layer=1, d_inner=8)
    config.d_head = DIM
    model = fill(file.XLNetModel(config).eval())
    layer = model.layer[0].rel_attn
    half = torch.eye(wide)
    with torch.no_grad():
        for name, columns in (("q", half[:, :DIM]), ("k", half[:, DIM:])):
            setattr(layer, name, torch.nn.Parameter(columns[:, None].clone()))
    weights = [layer.r, layer.r_w_bias, layer.r_r_bias]
    r, u, v = (array_of(w) for w in weights)
    encoding = XLNet(r.transpose(1, 2, 0), u, v, sinusoid=Sinusoidal(wide, layout="concat"))
    for stream in ("content", "query"):

        def asked(q: Any, k: Any, both: bool = stream == "query") -> Any:
            n = q.shape[1]
            x = torch.cat([q, k], dim=-1).transpose(0, 1)
            g = torch.cat([q, 0 * k], dim=-1).transpose(0, 1) if both else None
            h = torch.cat([0 * q, k], dim=-1).transpose(0, 1) if both else x
            at = model.relative_positional_encoding(n, n, bsz=len(q))
            with softmax_inputs() as seen:
                layer(h, g, None, None, at, None)
            return seen[-1].reshape(len(q), n, n)

        yield replace(one_headed(place, asked), surface=f"scores, {stream} stream"), encoding


def funnel(place: Place) -> Found:
    """The first block, in both of its ways, where the first token is not kept apart."""
    yield from _funnel(place, 0, "scores")


def pooled(place: Place) -> Found:
    """The second block: every second position is left."""
    yield from _funnel(place, 1, "scores, second block")


def _funnel(place: Place, block: int, surface: str) -> Found:
    import torch

    file = importlib.import_module(place.file)
    for kind in ("relative_shift", "factorized"):
        config = file.FunnelConfig(
            d_model=DIM, n_head=1, d_head=DIM, attention_type=kind, separate_cls=False,
            block_sizes=[1, 1],
        )  # fmt: skip
        attention = fill(file.FunnelRelMultiheadAttention(config, block).eval())
        structure = file.FunnelAttentionStructure(config).eval()

        def ask(b: int, n: int, attention: Any = attention, structure: Any = structure) -> Any:
            x, whole = (torch.zeros(b, s, DIM) for s in (n, n * 2**block))
            inputs = structure.init_attention_inputs(whole)
            for _ in range(block):
                _, inputs = structure.pre_attention_pooling(whole, inputs)
                inputs = structure.post_attention_pooling(inputs)
            return attention(x, x, x, inputs)

        made = scores_of(place, attention, ("q_head", "k_head"), ask)
        yield replace(made, surface=f"{surface}, {kind}"), TransformerXL(
            array_of(attention.r_kernel).transpose(1, 2, 0), array_of(attention.r_w_bias),
            array_of(attention.r_r_bias),
            sinusoid=Sinusoidal(DIM, layout="concat", position_scale=float(2**block)),
        )  # fmt: skip
