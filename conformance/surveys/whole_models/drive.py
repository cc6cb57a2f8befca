"""Run a model on every call, and put together what each attention site received and returned."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .calls import GENERATED, PARTS, Batch, batch, packed
from .record import Recorder, Site


@dataclass
class Run:
    """One call of a model, or several with a cache: its tokens and the sites' joined tensors."""

    name: str
    batch: Batch
    modules: list[Any]
    hidden: list[Any]  #: for each site (B, T, D)
    outputs: list[Any]  #: for each site (B, T, H, e)
    #: For each site (T,): which tokens reach it. Gemma 4 skips the prompt but its last token in
    #: layers that use the keys of others.
    reached: list[np.ndarray]
    #: The rows (B, T) that are looked up in each table of positions.
    rows: dict[str, np.ndarray]


#: The first token id that is no special token.
_FIRST = 5


class Unlike(Exception):
    """The attention calls of a model cannot be put together."""


class Driver:
    """A causal or masked language model with its token ids."""

    def __init__(self, model: Any, causal: bool = True) -> None:
        import torch

        self.model = model
        self._parameters = inspect.signature(model.forward).parameters
        self._plain = {"use_cache": False} if causal else {}
        self.first_rows: dict[str, int] = {}
        self.recorder = Recorder(model)
        self.size, self.first = model.config.get_text_config().vocab_size, _FIRST
        ids = torch.full((1, 2), self.first)
        with torch.no_grad():
            self.modules = self.recorder.find(input_ids=ids, **self._plain)

    def ways(self) -> dict[str, Callable[[str], Run]]:
        """Return the calls by name: packed sequences only if the model takes position ids.

        Masked models have no cache.
        """
        every = {
            "one call": lambda name: self._joined(name, batch("none", self.size, self.first)),
            "padding right": lambda name: self._joined(name, batch("right", self.size, self.first)),
            "padding left": lambda name: self._joined(name, batch("left", self.size, self.first)),
            "cache": lambda name: self._cached(name, batch("none", self.size, self.first)),
            "cache, padding left": lambda n: self._cached(n, batch("left", self.size, self.first)),
            "generate, padding left": self._generated,
            "packed": self._packed,
            "second call": lambda name: self._joined(name, batch("none", self.size, self.first)),
        }
        left_out = set() if "position_ids" in self._parameters else {"packed"}
        if not self._plain:
            left_out = {"packed", "cache", "cache, padding left", "generate, padding left"}
        return {name: way for name, way in every.items() if name not in left_out}

    def zero(self, hidden: list[Any]) -> list[Site]:
        """Return the sites for tokens (B, T, D) taken one by one, each at position 0.

        ``first_rows`` then has the rows of tables for position 0.
        """
        import torch

        rows = [x.reshape(-1, 1, x.shape[-1]) for x in hidden]
        count = rows[0].shape[0]
        ids = torch.full((count, 1), self.first)
        with self.recorder.recording(rows), torch.no_grad():
            self.model(input_ids=ids, attention_mask=torch.ones_like(ids), **self._plain)
        (sites,) = self.recorder.passes
        (first,) = self.recorder.rows
        self.first_rows = {name: int(found.flatten()[0]) for name, found in first.items()}
        return sites

    def _joined(self, name: str, given: Batch) -> Run:
        import torch

        mask = torch.from_numpy(given.real.astype(int))
        where = dict(self._plain)
        if self._plain and not given.real.all():
            where["position_ids"] = _positions(given)
        with self.recorder.recording(), torch.no_grad():
            self._call(input_ids=torch.from_numpy(given.ids), attention_mask=mask, **where)
        return self._run(name, given)

    def _packed(self, name: str) -> Run:
        import torch

        given = packed(self.size, self.first)
        with self.recorder.recording(), torch.no_grad():
            self.model(
                input_ids=torch.from_numpy(given.ids),
                position_ids=_positions(given),
                use_cache=False,
            )
        return self._run(name, given)

    def _cached(self, name: str, given: Batch, own: Any = None) -> Run:
        """Run a batch in parts, with the cache that the model returns, or with ``own``."""
        import torch
        from transformers import DynamicCache

        mask = torch.from_numpy(given.real.astype(int))
        ids, at = torch.from_numpy(given.ids), _positions(given)
        cache, begin = own, 0
        with self.recorder.recording(), torch.no_grad():
            for size in PARTS:
                end = begin + size
                out = self._call(
                    input_ids=ids[:, begin:end],
                    attention_mask=mask[:, :end],
                    position_ids=at[:, begin:end],
                    past_key_values=cache,
                    use_cache=True,
                )
                cache, begin = out.get("past_key_values", own), end
                if cache is None:  # RecurrentGemma: as in generate, the caller makes it
                    return self._cached(name, given, DynamicCache(config=self.model.config))
        return self._run(name, given)

    def _generated(self, name: str) -> Run:
        import torch

        given = batch("left", self.size, self.first)
        with self.recorder.recording(), torch.no_grad():
            self.model.generate(
                input_ids=torch.from_numpy(given.ids),
                attention_mask=torch.from_numpy(given.real.astype(int)),
                max_new_tokens=GENERATED + 1,
                min_new_tokens=GENERATED + 1,
                do_sample=False,
                eos_token_id=None,
            )
        return self._run(name, given.grown(GENERATED))

    def _call(self, **given: Any) -> Any:
        """Call the model, without position ids if it takes none."""
        if not {"position_ids", "kwargs"}.intersection(self._parameters):
            given.pop("position_ids", None)
        return self.model(**given)

    def _run(self, name: str, given: Batch) -> Run:
        import torch

        passes = [sites for sites in self.recorder.passes if sites]
        if len({len(sites) for sites in passes}) > 1:
            raise Unlike("its passes have different numbers of attention calls")
        across = list(zip(*passes, strict=True))
        sizes = [max(site.hidden.shape[1] for site in sites) for sites in passes]
        if sum(sizes) != given.ids.shape[1]:
            raise Unlike(f"{sum(sizes)} tokens reached attention, not {given.ids.shape[1]}")

        def joined(name: str, sites: Sequence[Site]) -> Any:
            parts = (getattr(site, name) for site in sites)
            return torch.cat([_filled(x, n) for x, n in zip(parts, sizes, strict=True)], dim=1)

        reached = []
        for sites in across:
            lengths = (site.hidden.shape[1] for site in sites)
            late = [np.arange(n) >= n - own for n, own in zip(sizes, lengths, strict=True)]
            reached.append(np.concatenate(late))
        return Run(
            name,
            given,
            [sites[0].module for sites in across],
            [joined("hidden", sites) for sites in across],
            [joined("output", sites) for sites in across],
            reached,
            {name: self._rows(name, given, sizes) for name in self.recorder.rows[0]},
        )

    def _rows(self, name: str, given: Batch, sizes: list[int]) -> np.ndarray:
        """Return the rows of a table (B, T) that the passes look up; -1 where they do not."""
        parts = [found.get(name) for found in self.recorder.rows]
        shapes = [(len(given.ids), size) for size in sizes]
        whole = [
            np.full(shape, -1) if part is None else np.broadcast_to(part.numpy(), shape)
            for part, shape in zip(parts, shapes, strict=True)
        ]
        return np.concatenate(whole, axis=1)


def _filled(x: Any, size: int) -> Any:
    """Return x (B, S, ...) with zeros in front, for ``size`` tokens."""
    import torch

    return torch.cat([x.new_zeros((x.shape[0], size - x.shape[1], *x.shape[2:])), x], dim=1)


def _positions(given: Batch) -> Any:
    """Return position ids as ``generate`` makes them: padding counts from 0 too."""
    import torch

    return torch.from_numpy(np.maximum(given.positions, 0))


def host(tensor: Any) -> np.ndarray:
    """Return a tensor as float64."""
    return np.asarray(tensor.detach().double().numpy())
