"""Scores with a learned row for each offset: Shaw's kin, and pair representations of proteins."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import Shaw
from posenc_ref.conformance.harness.implementation import Implementation

from . import xl
from .build import MissingArgument, build, fill, same
from .census import Place
from .scores import DIM, ONE_HEAD, Found, array_of, first_softmax, one_headed, scores_of

#: Tokens of a block where attention is computed in blocks, and offsets that have a row.
BLOCK, REACH = 160, 7
#: Channels of a head whose square root is a power of two: what is divided by it is not rounded.
SQUARE = 16


def relative(place: Place) -> Found:
    """Shaw's rows and Transformer-XL's sines, where the attention class is known."""
    drivers: dict[str, Callable[[Place], Found]] = {
        "distance_embedding": _shaw,
        "rel_pos_emb": _blocks,
        "rel_logits_proj": _inkling,
        "emb_rel_k": _vits,
        "pos_bias_u": xl.conformer,
        "relative_k_proj": xl.gemma4 if place.model == "gemma4" else xl.parakeet,
        "r_w_bias": xl.xlnet if place.model == "xlnet" else xl.funnel,
    }
    whole: dict[str, Callable[[Place], Found]] = {
        "speecht5": _speecht5,
        "esm": _esmfold,
        "esmfold2": _esmfold2,
        "gemma3n": xl.gemma3n,
        "funnel": xl.pooled,
    }
    if place.attribute in drivers:
        yield from drivers[place.attribute](place)
    elif place.attribute:
        raise MissingArgument(REASONS.get(place.model, "its terms are those of no encoding here"))
    else:
        yield from whole.get(place.model, xl.rows_by_offset)(place)


#: Why the attention of a model is not driven.
REASONS = {
    "prophetnet": "logits of a projection of the hidden state, one for each bucket of distances: "
    "posenc_ref has no such encoding",
}


def _shaw(place: Place) -> Found:
    import torch

    kind = {"position_embeddings_type": "relative_key"}
    ends = {"left_max_position_embeddings": 6, "right_max_position_embeddings": 2}
    module, _ = build(place, {**ONE_HEAD, **kind, **ends})
    table = module.distance_embedding.weight
    made = scores_of(
        place, module, ("linear_q", "linear_k"), lambda b, n: module(torch.zeros(b, n, DIM))
    )
    yield made, Shaw(array_of(table), before=6)


def _speecht5(place: Place) -> Found:
    import torch

    file = importlib.import_module(place.file)
    module = fill(file.SpeechT5Attention(DIM, 1).eval())
    rows = fill(file.SpeechT5RelativePositionalEncoding(DIM, 4).eval())
    made = scores_of(
        place, module, ("q_proj", "k_proj"),
        lambda b, n: module(torch.zeros(b, n, DIM), position_bias=rows(torch.zeros(b, n, DIM))),
    )  # fmt: skip
    yield made, Shaw(array_of(rows.pe_k.weight), before=4, counted="query-key")


def _blocks(place: Place) -> Found:
    """Granite Speech: the tokens of one block; its distances are those that the encoder keeps."""
    import torch

    given = {
        **ONE_HEAD, "hidden_dim": DIM, "num_heads": 1, "dim_head": DIM, "context_size": BLOCK,
        "max_pos_emb": BLOCK + 3, "max_position_embeddings": BLOCK + 3,
    }  # fmt: skip
    module, config = build(place, given)
    file = importlib.import_module(place.file)
    encoder = next(
        cls for name, cls in vars(file).items()
        if name.endswith(("CTCEncoder", "Speech5Encoder")) and "PreTrained" not in name
    )  # fmt: skip
    distances = encoder(config).attention_dists
    sides: dict[str, Any] = {}
    for name in ("to_q", "to_kv", "q_proj", "k_proj", "v_proj", "pre_norm"):
        if hasattr(module, name):
            setattr(module, name, same())
            sides[name] = getattr(module, name)

    def asked(q: Any, k: Any) -> Any:
        n = q.shape[1]
        if n > BLOCK:
            raise ValueError(f"blocks of {BLOCK} tokens do not see one another")
        longer = [torch.nn.functional.pad(x, (0, 0, 0, BLOCK - n)) for x in (q, k)]
        answers = {"to_q": longer[0], "to_kv": torch.cat([longer[1]] * 2, dim=-1)}
        answers |= {"q_proj": longer[0], "k_proj": longer[1], "v_proj": longer[1]}
        for name, part in sides.items():
            if name in answers:
                part.forward = lambda *_, value=answers[name]: value
        with fused_inputs() as seen:
            x = torch.zeros(len(q), n, DIM)
            found = first_of(seen, lambda: module(x, distances))
        return found.reshape(len(q), BLOCK, BLOCK)[:, :n, :n]

    rows = array_of(module.rel_pos_emb.weight)
    before = (len(rows) - 1) // 2
    yield one_headed(place, asked), Shaw(rows, before=before, counted="query-key")


def first_of(fused: list[Any], run: Callable[[], Any]) -> Any:
    """The logits of the first attention inside ``run``, of one function or in steps."""
    try:
        return first_softmax(run)
    except MissingArgument:
        if not fused:
            raise
        return fused[0]


@contextlib.contextmanager
def fused_inputs() -> Iterator[list[Any]]:
    """A list that fills with the logits of every fused attention inside the block."""
    import torch

    seen: list[Any] = []
    original = torch.nn.functional.scaled_dot_product_attention

    def caught(q: Any, k: Any, v: Any, attn_mask: Any, scale: float) -> Any:
        seen.append(q @ k.transpose(-1, -2) * scale + attn_mask)
        return original(q, k, v, attn_mask=attn_mask, scale=scale)

    torch.nn.functional.scaled_dot_product_attention = caught
    try:
        yield seen
    finally:
        torch.nn.functional.scaled_dot_product_attention = original


def _around(rows: np.ndarray) -> np.ndarray:
    """Rows of offsets, and rows of zeros for all that are further away on either side."""
    return np.pad(rows, ((1, 1), (0, 0)))


def _inkling(place: Place) -> Found:
    """A row for each of the last few tokens, none for others; queries have a projection for it.

    Both projections of the query are given the same q.  Its logits are divided by d where Shaw's
    are by sqrt(d), and the rows not at all: q is given times a power of two that makes up for it.
    """
    import torch

    given = {
        **ONE_HEAD, "hidden_size": SQUARE, "head_dim": SQUARE, "swa_head_dim": SQUARE,
        "swa_num_attention_heads": 1, "swa_num_key_value_heads": 1, "d_rel": SQUARE,
        "rel_extent": REACH, "sliding_window_size": REACH, "sconv_kernel_size": 2,
        "layer_types": ["hybrid_sliding" if "Sliding" in place.owner else "hybrid"],
    }  # fmt: skip
    module, _ = build(place, given)
    for name in ("q_norm", "k_norm", "q_l2_clip", "k_l2_clip", "rel_l2_clip", "k_sconv"):
        if hasattr(module, name):
            setattr(module, name, same())
    names = ("q_proj", "k_proj", "r_proj")
    for name in names:
        setattr(module, name, same())
    root = SQUARE**0.5

    def asked(q: Any, k: Any) -> Any:
        values = (q / root / module.scaling, k, q / root)
        for name, value in zip(names, values, strict=True):
            getattr(module, name).forward = lambda *_, value=value: value
        n = q.shape[1]
        x, at = torch.zeros(len(q), n, SQUARE), torch.arange(n)[None]
        more = (x, x) if "Full" in place.owner else ()
        found = first_softmax(lambda: module(x, *more, None, position_ids=at))
        return found[..., :n].reshape(len(q), n, n)  # without the sink

    rows = _around(array_of(module.rel_logits_proj.proj).T)
    yield one_headed(place, asked), Shaw(rows, before=1, counted="query-key")


def _vits(place: Place) -> Found:
    """A row for each offset within a window; further keys have none."""
    import torch

    module, _ = build(place, {**ONE_HEAD, "window_size": REACH})
    made = scores_of(
        place, module, ("q_proj", "k_proj"), lambda b, n: module(torch.zeros(b, n, DIM))
    )
    yield made, Shaw(_around(array_of(module.emb_rel_k)[0]), before=REACH + 1)


def _esmfold(place: Place) -> Found:
    """Pairs of residues; the first row is of pairs that are masked."""
    import torch

    module, _ = build(place, {"position_bins": REACH, "pairwise_state_dim": DIM})
    rows = array_of(module.embedding.weight)[1:]
    yield pairs(place, lambda n: module(torch.arange(n)[None])[0]), Shaw(rows, before=REACH)


def _esmfold2(place: Place) -> Found:
    """Residues of one chain, and tokens of one residue: every other feature is made zero."""
    import torch

    bins = {"num_relative_residx_bins": REACH, "pairwise_hidden_size": DIM}
    wide = 2 * REACH + 1
    for part, first in (("residues", 0), ("tokens of a residue", wide + 1)):
        module, _ = build(place, bins)
        rows = array_of(module.embed.weight)[:, first : first + wide].T.copy()
        with torch.no_grad():
            module.embed.weight.zero_()
            module.embed.weight[:, first : first + wide] = torch.as_tensor(rows).T

        def rows_of(n: int, module: Any = module, counts: bool = not first) -> Any:
            at, none = torch.arange(n)[None], torch.zeros(1, n, dtype=torch.int64)
            residue, token = (at, none) if counts else (none, at)
            return module(residue, none, none, none, token)[0]

        made = replace(pairs(place, rows_of), surface=f"scores, {part}")
        yield made, Shaw(rows, before=REACH, counted="query-key")


def pairs(place: Place, rows: Callable[[int], Any]) -> Implementation:
    """Rows (S, S, d) of pairs as what is added to keys: q (k + a) / sqrt(d)."""

    def asked(q: Any, k: Any) -> Any:
        a = rows(q.shape[1])
        wide = (k[:, None] + a[None]).double()
        return (q.double()[:, :, None] * wide).sum(-1) / q.shape[-1] ** 0.5

    return one_headed(place, asked)
