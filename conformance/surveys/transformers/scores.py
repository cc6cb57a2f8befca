"""Compare the logits of attention classes with those of the declared encoding.

Libraries apply factors to cos and sin, to queries, or to the softmax scale.  The arguments of the
attention function show the product of all factors, the rotated channels, and whether the layer
rotates at all.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import Encoding, ModelEncoding, Rotary
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance.surveys.record import Outcome, one_line

from .case import Unjudged
from .declared import model_of

#: The positions of the tokens.
POSITIONS = np.array([0, 1, 5, 37, 100, 211, 1021])
#: A pattern for names of classes that are not self-attention over text.
_OTHER = re.compile("Vision|Cross|Audio|Layer|Merged|Flash|Sdpa|Indexer")
_PROBE = "posenc_probe"
#: A pattern for arguments to pass as None.
_NOTHING = re.compile("mask|past|cache|encoder|alibi|shared|value_embeds|topk")


def judge_scores(blank: Outcome, container: Any, config: Any) -> Iterator[Outcome]:
    """Yield one outcome for each layer type of the model that the module belongs to."""
    try:
        model = model_of(config)
    except Exception as error:
        yield blank.replace(verdict="gap", reason=f"from_config: {type(error).__name__}: {error}")
        return
    if "scaled=False" in blank.target:
        reason = "the attention class has two tables; logits are judged with the scaled one"
        yield blank.replace(verdict="undrivable", reason=reason)
        return
    for layer_type in model.encodings:
        line = blank.replace(layer_type=layer_type if len(model.encodings) > 1 else "")
        encoding = model.encodings[layer_type]
        line = line.replace(encoding="no rotation" if encoding is None else repr(encoding))
        try:
            yield _judge(line, container, config, model, layer_type)
        except Unjudged as error:
            yield error.about(line)


def _judge(
    line: Outcome, container: Any, config: Any, model: ModelEncoding, layer_type: str
) -> Outcome:
    encoding = model.encodings[layer_type]
    axes = encoding.num_axes if isinstance(encoding, Rotary) else 1
    positions = np.stack([(a + 1) * POSITIONS for a in range(axes)]) if axes > 1 else POSITIONS
    attention = _Attention(container, config, model, layer_type)
    q0, k0, _ = attention(np.zeros_like(positions))
    q, k, scale = attention(positions)
    actual = np.einsum("bhqc,bhkc->bhqk", q, k) * scale
    truth = _truth(model, layer_type, q0, k0, positions)
    score = float(truth.score(actual, dtype="float32").max())
    line = line.replace(
        worst=score, budget=budget("float32"), executed=actual.size, highest=int(positions.max())
    )
    if score <= budget("float32"):
        return line.replace(verdict="conforms")
    declared = _scale(model, q0)
    if scale == 1.0 and truth.score(actual * declared, dtype="float32").max() <= line.budget:
        note = f"the softmax scale is 1; q seems to be multiplied by {declared:.6g} already"
        return line.replace(verdict="conforms", notes=(note,), worst=None)
    if encoding is None and attention.given:
        reason = "the caller of the attention class decides whether this layer rotates"
        raise Unjudged("undrivable", reason)
    message = "the logits differ from those of the declared encoding"
    return line.replace(verdict="deviates", codes=("inaccurate",), messages=(message,))


def _truth(model: ModelEncoding, layer_type: str, q0: Any, k0: Any, positions: np.ndarray) -> Truth:
    """Return the expected logits and their units of error, from q and k at position 0."""
    encoding = model.encodings[layer_type]
    if encoding is None:
        value = model.scores(layer_type, q0, k0, POSITIONS, POSITIONS)
        return Truth(value, _sums(abs(q0), abs(k0)) * abs(_scale(model, q0)), np.zeros_like(value))
    assert isinstance(encoding, Rotary)
    if encoding.head_dim != q0.shape[-1]:
        reason = f"recorded heads have {q0.shape[-1]} channels, not head_dim={encoding.head_dim}"
        raise Unjudged("undrivable", reason)
    at = positions[:, None] if positions.ndim > 1 else positions
    q, k = (encoding.inverse(x, np.zeros_like(at)) for x in (q0, k0))
    value = model.scores(layer_type, q, k, at, at)
    m = abs(encoding.attention_factor()) ** 2 * abs(_scale(model, q0))
    first, second = encoding.pairs()
    passed = np.setdiff1d(np.arange(encoding.head_dim), np.concatenate([first, second]))
    pairs = [np.hypot(x[..., first], x[..., second]) for x in (q, k)]
    axes = encoding.axes()
    rows = positions[axes].T if axes is not None else positions[:, None]
    turned = [abs(rows * encoding.frequencies()) * pair for pair in pairs]
    terms = m * _sums(*pairs) + _sums(*(abs(x[..., passed]) for x in (q, k)))
    moved = m * (_sums(turned[0], pairs[1]) + _sums(pairs[0], turned[1]))
    return Truth(value, terms, moved)


def _sums(q: Any, k: Any) -> Any:
    return np.einsum("bhqc,bhkc->bhqk", q, k)


def _scale(model: ModelEncoding, q: Any) -> float:
    return q.shape[-1] ** -0.5 if model.softmax_scale is None else model.softmax_scale


class _Attention:
    """An attention class with random weights that records the arguments of attention."""

    def __init__(self, container: Any, config: Any, model: ModelEncoding, layer_type: str) -> None:
        from posenc_ref.conformance.adapters.transformers import layer_types, rotary_modules

        self.rotary = rotary_modules(container)[0]
        self.encoding: Encoding | None = model.encodings[layer_type]
        kinds = layer_types(self.rotary, config)
        self.kind = layer_type if layer_type in kinds else kinds[0]
        layers = model.layers(layer_type)
        self.module, self.width = _build(self.rotary, config, layers[0] if layers else 0)
        self.given = False  #: whether the last call got the rotary table

    def __call__(self, positions: np.ndarray) -> tuple[Any, Any, float]:
        import torch

        at = torch.from_numpy(positions)[..., None, :]
        x = torch.randn(1, POSITIONS.size, self.width, generator=torch.Generator().manual_seed(0))
        kind = {"layer_type": self.kind} if self.kind else {}
        try:
            table = self.rotary(x, at, **kind)
        except Exception as error:
            reason = f"{type(self.rotary).__name__} takes no positions: {one_line(error, 120)}"
            raise Unjudged("undrivable", reason) from error
        tries = [table] if self.encoding is not None else [None, table]
        reasons = []
        for embeddings in tries:
            _seen.clear()
            given = _arguments(self.module, x, embeddings, at)
            try:
                with torch.no_grad():
                    self.module(**given)
            except Exception as error:
                reasons.append(one_line(error, 120))
                continue
            if _seen:
                self.given = embeddings is not None
                return _seen[-1]
            reasons.append("it calls no attention function")
        name = type(self.module).__name__
        raise Unjudged("undrivable", f"{name} could not be called: {'; '.join(reasons)}")


_seen: list[tuple[Any, Any, float]] = []


def _probe(
    module: Any, query: Any, key: Any, value: Any, *_: Any, scaling: Any = None, **__: Any
) -> tuple[Any, None]:
    """Record q, the first head of k, and the scale, instead of computing attention."""
    q, k = (x.detach().double().numpy() for x in (query, key[:, :1]))
    k = np.broadcast_to(k, (*q.shape[:2], *k.shape[2:]))
    _seen.append((q, k, q.shape[-1] ** -0.5 if scaling is None else float(scaling)))
    batch, heads, length, _ = query.shape
    return value.new_zeros((batch, length, heads, value.shape[-1])), None


def _build(rotary: Any, config: Any, layer: int) -> tuple[Any, int]:
    """Return a small attention module of the rotary module's file, and its hidden size."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(_PROBE, _probe)
    file = importlib.import_module(type(rotary).__module__)
    reasons = []
    for cls in _classes(file, config):
        small = _small(config)
        try:
            return _filled(cls(small, layer_idx=layer).eval()), int(small.hidden_size)
        except Exception as error:
            reasons.append(f"{cls.__name__}: {type(error).__name__}: {str(error)[:100]}")
    reason = "; ".join(reasons) or "no attention class takes position embeddings"
    raise Unjudged("undrivable", reason)


def _filled(module: Any) -> Any:
    """Return ``module`` with random weights, because some are not initialized."""
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        for weight in module.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
            else:
                weight.fill_(1.0)
    return module


def _classes(file: Any, config: Any) -> list[type]:
    """Return the attention classes that take position embeddings, those for ``config`` first."""
    found = []
    for name, value in vars(file).items():
        if not inspect.isclass(value) or "Attention" not in name or _OTHER.search(name):
            continue
        asked = inspect.signature(getattr(value, "forward", lambda: None)).parameters
        built = inspect.signature(value).parameters
        if {"hidden_states", "position_embeddings"} <= set(asked) and "layer_idx" in built:
            hint = getattr(built.get("config"), "annotation", None)
            own = getattr(hint, "__name__", str(hint)) == type(config).__name__
            found.append((not own, name, value))
    return [value for _, _, value in sorted(found, key=lambda entry: entry[:2])]


def _small(config: Any) -> Any:
    """Return the configuration with four heads of unchanged size, and the hidden size to match."""
    from posenc_ref.conformance.adapters.transformers_config import attribute, head_dim_of

    small = copy.deepcopy(config)
    heads, keys = attribute(config, "num_attention_heads"), attribute(config, "num_key_value_heads")
    latent = attribute(config, "qk_rope_head_dim")
    width = 512 if latent else 4 * (head_dim_of(config) or 0)
    small.num_attention_heads = 4
    if keys:
        small.num_key_value_heads = 4 if latent or keys == heads else 2
    small.hidden_size = width
    small._attn_implementation_internal = _PROBE
    return small


def _arguments(module: Any, x: Any, embeddings: Any, positions: Any) -> dict[str, Any]:
    given = {
        "hidden_states": x,
        "position_embeddings": embeddings,
        "position_ids": positions[0] if positions.ndim > 2 else positions,
    }
    found = {}
    for name, parameter in inspect.signature(module.forward).parameters.items():
        if name in given:
            found[name] = given[name]
        elif _NOTHING.search(name):
            found[name] = None
        elif parameter.default is parameter.empty and parameter.kind < parameter.VAR_POSITIONAL:
            raise Unjudged("undrivable", f"{type(module).__name__} requires {name}")
        elif "scaling" in name:  # a scale of the logits, computed by the caller
            raise Unjudged("undrivable", f"{type(module).__name__} gets {name} from its caller")
    return found
