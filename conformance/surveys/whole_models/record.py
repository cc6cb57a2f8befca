"""Record what the attention of a model receives and returns, and run it at position 0.

Most models of transformers call their attention function through one interface. A *site* is a call
of the interface in one forward pass of the model; a pass makes the same calls in the same order.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass
class Site:
    """One call of the attention function: the module, its input, and the call's tensors."""

    module: Any
    hidden: Any  #: (B, S, D): the input of the attention module
    query: Any  #: (B, H, S, d): queries after rotation
    key: Any  #: (B, G, L, d): keys after rotation, those of the cache included
    value: Any  #: (B, G, L, e)
    output: Any  #: (B, S, H, e): the result, before the output projection


#: A pattern for the names of learned tables of positions.
_TABLES = re.compile(r"(^|\.)(position_embeddings|wpe|embed_positions|positions_embed)\.weight$")


#: A pattern for the class names of modules that return cos and sin.
_ROTARY = re.compile("Rotary|RoPE|Rope")


class Recorder:
    """Records the attention calls of a model, pass by pass.

    With ``hidden``, a list with a tensor for each site, these are the inputs of the attention
    modules instead of those that the model computes, and all tokens are at position 0: tables of
    cos and sin are replaced by 1 and 0. ``factors`` then has the numbers that were replaced by 1.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.passes: list[list[Site]] = []
        #: For each pass the rows that are looked up in tables of positions, by the table's name.
        self.rows: list[dict[str, Any]] = []
        self._tables = {
            id(weight): name for name, weight in model.named_parameters() if _TABLES.search(name)
        }
        self.factors: set[float] = set()
        self._modules: list[Any] = []
        self._inputs: dict[int, Any] = {}
        self._replace: list[Any] | None = None

    def find(self, **call: Any) -> list[Any]:
        """Return the modules that use the interface in this call of the model."""
        with self.recording():
            self.model(**call)
        self._modules = list({id(s.module): s.module for s in self.passes[-1]}.values())
        return self._modules

    @contextlib.contextmanager
    def recording(self, hidden: list[Any] | None = None) -> Iterator[list[list[Site]]]:
        """Record the passes inside this context, and yield the list that they are put into."""
        import torch
        from transformers.modeling_utils import AttentionInterface

        look_up = torch.nn.functional.embedding

        def embedding(rows: Any, weight: Any, *args: Any, **kwargs: Any) -> Any:
            if (name := self._tables.get(id(weight))) is not None and self.rows:
                self.rows[-1][name] = rows.detach().clone()
            return look_up(rows, weight, *args, **kwargs)

        self.passes, self.rows, self._inputs, self._replace = [], [], {}, hidden
        usual = AttentionInterface.get_interface

        def get_interface(interface: Any, name: str, default: Any) -> Any:
            return self._recorded(usual(interface, name, default))

        hooks = [self.model.register_forward_pre_hook(self._begin)]
        hooks += [m.register_forward_pre_hook(self._enter, with_kwargs=True) for m in self._modules]
        if hidden is not None:
            self.factors = set()
            named = (m for m in self.model.modules() if _ROTARY.search(type(m).__name__))
            hooks += [m.register_forward_hook(self._unturned) for m in named]
        AttentionInterface.get_interface = get_interface
        torch.nn.functional.embedding = embedding
        try:
            yield self.passes
        finally:
            AttentionInterface.get_interface = usual
            torch.nn.functional.embedding = look_up
            for hook in hooks:
                hook.remove()

    def _begin(self, *_: Any) -> None:
        self.passes.append([])
        self.rows.append({})

    def _enter(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Keep the hidden states that a module receives, after their replacement if asked."""
        name = next((n for n in ("hidden_states", "query_states") if n in kwargs), None)
        given = found = kwargs[name] if name else (args[0] if args else None)
        if found is None or not hasattr(found, "ndim") or found.ndim != 3:
            return None
        if self._replace is not None:
            site = len(self.passes[-1])
            if site < len(self._replace):
                found = self._replace[site]
        self._inputs[id(module)] = found.detach().clone()

        def changed(value: Any) -> Any:  # CTRL passes the same tensor as q, k and v
            return found if value is given else value

        return tuple(map(changed, args)), {key: changed(value) for key, value in kwargs.items()}

    def _unturned(self, _: Any, args: Any, result: Any) -> Any:
        """Return the table of cos and sin, or of cos + i sin, of a rotation by 0 without a factor.

        Any other result stays as it is: at position 0 all cos are the factor, and all sin are 0.
        """
        tensors = result if isinstance(result, tuple) else (result,)
        if len(tensors) == 2:
            cos, sin = tensors
        elif len(tensors) == 1 and tensors[0].is_complex():
            cos, sin = tensors[0].real, tensors[0].imag
        else:
            return None
        factor = float(cos.flatten()[0])
        if not (cos == factor).all() or sin.any():
            return None
        self.factors.add(factor)
        if isinstance(result, tuple):
            return cos.new_ones(cos.shape), sin.new_zeros(sin.shape)
        return result.new_ones(result.shape)

    def _recorded(self, function: Any) -> Any:
        def attention(module: Any, query: Any, key: Any, value: Any, *a: Any, **kw: Any) -> Any:
            result = function(module, query, key, value, *a, **kw)
            hidden = self._inputs.get(id(module))
            q, k, v, out = (x.detach().clone() for x in (query, key, value, result[0]))
            self.passes[-1].append(Site(module, hidden, q, k, v, out))
            return result

        return attention
