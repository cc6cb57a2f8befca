"""Which rows of a learned table a model looks up for given tokens, masks and caches."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from posenc_ref import Learned
from posenc_ref.conformance.harness.implementation import Implementation

from .build import MissingArgument, build, call, takes, text_of, text_of_file
from .census import Place

#: Room for the longest prompt that is judged.
ROWS = 33_500
LENGTHS = (
    "max_position_embeddings", "block_size", "max_source_positions", "max_target_positions",
    "max_encoder_position_embeddings", "max_decoder_position_embeddings", "max_text_tokens",
)  # fmt: skip
#: Where every call has all the tokens before, and masks are as long as the table, squared.
FEW = 1200
#: Without a padding token RoBERTa's rule means nothing.
FITTING = {"pad_token_id": 1, "position_embedding_type": "absolute"}
#: A token that is neither padding nor anything else that is special.
TOKEN = 77


class Looked(Exception):
    """Thrown out of a model's code as soon as it looks positions up."""


@dataclass(frozen=True)
class Rule:
    """How a model numbers its tokens, as its source says."""

    ids: str  #: "arange", padding counted; "mask", over the attention mask; "tokens", RoBERTa's
    offset: int = 0
    built_in: bool = False  #: the offset is in the positions that the class makes by itself
    after_padding: bool = False  #: real tokens come after the row of padding
    before: int = 0  #: tokens that the class puts before those it is given


def rule_of(place: Place) -> Rule:
    """Read off the code of the class, and of the class of its table."""
    table = place.made.partition("(")[0]
    text = text_of(place, table)
    buffered = re.search(r"expand\(\(1, -1\)\) \+ (\d+)", text)
    offset = re.search(r"self\.offset = (\d+)", text) or buffered
    shift = int(offset.group(1)) if offset else 0
    if re.search(r"create_position_ids_from_input_ids|\.ne\(.*padding_idx", text):
        return Rule("tokens")
    if "_pad_extra_bos_eos_tokens" in text:
        return Rule("mask", 1, before=1)
    if re.search(r"cumsum\(.*attention_mask|attention_mask.*cumsum", text):
        return Rule("mask", shift, after_padding="+ self.padding_idx" in text)
    return Rule("arange", shift, buffered is not None)


class Lookup:
    """A class with a table of so many rows, asked which of them it looks up."""

    def __init__(self, place: Place, rows: int) -> None:
        rows = FEW if "torch.tril" in text_of_file(place) else rows
        self.module, self.config = build(place, {**dict.fromkeys(LENGTHS, rows), **FITTING})
        self.table: Any = getattr(self.module, place.attribute, None)
        self.forward = _forward(place, self.module)
        if self.table is None:
            raise MissingArgument("by default it has no such table")
        if not hasattr(self.table, "weight"):
            raise MissingArgument(f"{type(self.table).__name__} has no weight to look up in")
        self.rule = rule_of(place)
        padding = getattr(self.config, "pad_token_id", None)
        padding = getattr(self.module, "padding_idx", padding)
        self.padding = padding if isinstance(padding, int) else None
        if self.rule.after_padding:
            self.rule = Rule("mask", (self.padding or 0) + 1)
        self.weight = self.table.weight.detach().numpy()
        self.encoding = (
            Learned(self.weight, padding_idx=self.padding)
            if self.rule.ids == "tokens"
            else Learned(self.weight, offset=self.rule.offset)
        )

    def takes(self, *names: str) -> bool:
        """Whether the class's forward has these parameters."""
        return takes(self.forward, *names)

    def _beside(self, tokens: Any, width: int) -> dict[str, Any]:
        """The tokens under every name, and what else a forward may want with them."""
        import torch

        encoder = getattr(self.config, "encoder_config", None)
        other = getattr(encoder, "hidden_size", getattr(self.config, "encoder_hidden_size", None))
        types = len(getattr(self.config, "type_vocab_sizes", None) or ())
        decoder = getattr(self.config, "decoder_config", None)
        mel = torch.zeros(len(tokens), getattr(decoder, "feature_size", 1), 4)
        none = torch.zeros_like(tokens)
        given = dict.fromkeys(("input_ids", "input", "inputs", "text", "entity_ids"), tokens)
        if self.takes("codebook_idx"):  # a column for each codebook
            given["input_ids"] = tokens[..., None].expand(*tokens.shape, self.config.n_codes_total)
        return {
            **given,
            "bbox": none[..., None].expand(*tokens.shape, 4),
            "token_type_ids": none[..., None].expand(*tokens.shape, types) if types else none,
            "codebook_idx": 1,
            "encoder_hidden_states": torch.zeros(len(tokens), 3, int(other or width)),
            "input_features": mel,
        }

    def rows(
        self, tokens: Any, *, mask: Any = None, positions: Any = None, past: int = 0
    ) -> np.ndarray:
        """The numbers of the rows that are looked up for ``tokens`` (B, S)."""
        import torch

        tokens = torch.as_tensor(np.asarray(tokens))
        width = int(getattr(self.config, "hidden_size", 0) or self.table.weight.shape[1])
        embeds = torch.zeros(*tokens.shape, width)
        given = self._beside(tokens, width)
        if not self.takes("input_ids"):
            given |= {"inputs_embeds": embeds, "input_embeddings": embeds}
        if mask is not None or "mask" in self.rule.ids:
            whole = np.ones((tokens.shape[0], tokens.shape[1] + past), np.int64)
            given["attention_mask"] = torch.as_tensor(whole if mask is None else np.array(mask))
        if positions is not None:
            given["position_ids"] = torch.as_tensor(positions)
            if self.takes("entity_ids"):  # the mean of the rows of its words: it has one
                given["position_ids"] = given["position_ids"][..., None]
        if past:
            given |= {"past_key_values_length": past, "past_key_values": _cache(past)}
            given["use_cache"] = True
        with looked_up(self.table) as seen, torch.no_grad(), contextlib.suppress(Looked):
            call(self.forward, given)
        if not seen:
            raise MissingArgument("its forward looks nothing up in the table")
        rows = seen[0]
        rows = rows[None] if rows.ndim == 1 else rows
        rows = rows[..., 0] if rows.ndim > tokens.ndim else rows
        if rows.shape[1] > tokens.shape[1]:  # padded to a window of attention
            rows = rows[:, self.rule.before :][:, : tokens.shape[1]]
        return np.array(np.broadcast_to(rows, tokens.shape))


def _forward(place: Place, module: Any) -> Any:
    """What embeds tokens: LayoutLMv2's class leaves it to the model, whose backbone is missing."""
    if place.model != "layoutlmv2":
        return module.forward
    model = importlib.import_module(place.file).LayoutLMv2Model
    return functools.partial(model._calc_text_embeddings, SimpleNamespace(embeddings=module))


def _cache(past: int) -> Any:
    """A cache of so many tokens in one layer."""
    import torch
    from transformers import DynamicCache

    cache = DynamicCache()
    cache.update(torch.zeros(1, 1, past, 1), torch.zeros(1, 1, past, 1), 0)
    return cache


@contextlib.contextmanager
def looked_up(table: Any) -> Iterator[list[np.ndarray]]:
    """A list that fills with the rows of ``table`` that are looked up; the first ones end it.

    A table that takes slices of its weight is asked what comes out: its rows are random.
    """
    import torch

    seen: list[np.ndarray] = []
    original = torch.nn.functional.embedding

    def caught(ids: Any, weight: Any, *args: Any, **more: Any) -> Any:
        if weight is table.weight:
            seen.append(ids.detach().numpy())
            raise Looked
        return original(ids, weight, *args, **more)

    def came_out(_: Any, args: Any, out: Any) -> None:
        rows = out.detach().numpy().reshape(-1, out.shape[-1])
        weight = table.weight.detach().numpy()
        keys, wanted = (np.ascontiguousarray(a[:, :2]).view(np.int64)[:, 0] for a in (weight, rows))
        order = np.argsort(keys)
        near = order[np.searchsorted(keys[order], wanted).clip(max=len(order) - 1)]
        if not np.array_equal(weight[near], rows):
            raise MissingArgument("what its table gives are no rows of its weight")
        seen.append(near.reshape(out.shape[:-1]))
        raise Looked

    hook = table.register_forward_hook(came_out)
    torch.nn.functional.embedding = caught
    try:
        yield seen
    finally:
        torch.nn.functional.embedding = original
        hook.remove()


def subjects(place: Place) -> Iterator[tuple[Implementation, Any]]:
    """What is judged about a learned table: functions of each surface, and what they should be."""
    found = Lookup(place, ROWS)
    rule = found.rule

    def one(surface: str, fn: Any, encoding: Any = None) -> tuple[Implementation, Any]:
        return Implementation(call=fn, surface=surface, name=place.name), encoding

    if rule.ids == "tokens":
        if not found.takes("input_ids"):
            raise MissingArgument("its positions come from outside")
        yield one("ids_from_tokens", lambda ids: found.rows(ids), found.encoding)
    elif rule.ids == "mask":
        yield one("position_ids", lambda m: found.rows(_tokens(m.shape), mask=m) - rule.offset)
    else:
        few = Lookup(place, FEW)
        if found.takes("position_ids") and not rule.built_in:
            yield one("table", lambda p: _anywhere(found, p), found.encoding)
        else:
            yield one("table", lambda p: _from_the_start(few, p), few.encoding)
        if found.takes("input_ids", "attention_mask"):
            yield one("table, padded", lambda p: _from_the_start(few, p, 3), few.encoding)
    # ProphetNet's decoder asserts that a single token follows a cache: several are never looked up.
    single = "only supported for `decoder_input_ids` of length 1" in text_of_file(place)
    cached = found.takes("past_key_values_length") or found.takes("past_key_values")
    if cached and not single:
        first = rule.offset if rule.ids != "tokens" else (found.padding or 0) + 1
        yield one("decode_positions", lambda prompt, n: _decode(found, prompt, n) - first)


def _tokens(shape: Any) -> np.ndarray:
    return np.full(shape, TOKEN)


def _anywhere(found: Lookup, positions: np.ndarray) -> np.ndarray:
    p = np.asarray(positions)
    rows = found.rows(_tokens((1, p.size)), positions=p[None])[0]
    return np.asarray(found.weight[rows])


def _from_the_start(found: Lookup, positions: np.ndarray, pad: int = 0) -> np.ndarray:
    """A whole sequence, with so many tokens of padding before it that the mask hides."""
    p = np.asarray(positions)
    if not np.array_equal(p, np.arange(p.size)):
        raise ValueError("positions are those of a sequence from its start")
    mask, ids = np.ones((1, p.size), np.int64), _tokens((1, p.size))
    mask[:, :pad] = 0
    ids[:, :pad] = TOKEN if found.padding is None else found.padding
    return np.asarray(found.weight[found.rows(ids, mask=mask if pad else None)[0]])


def _decode(found: Lookup, prompt: Any, steps: int) -> np.ndarray:
    if np.ndim(prompt):
        raise ValueError("one length for all rows")
    return np.asarray(found.rows(_tokens((1, steps)), past=int(prompt))[0])
