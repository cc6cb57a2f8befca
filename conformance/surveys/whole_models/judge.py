"""Judge one model: its attention on every call, against the reference of its configuration."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref.accuracy import budget
from posenc_ref.conformance.surveys.record import Outcome, one_line
from posenc_ref.conformance.surveys.transformers.case import Unjudged

from .calls import Batch
from .case import PARTS, ModelCase
from .drive import Driver, Run, Unlike, host
from .layers import Layers, at_zero
from .mistakes import causes, controls
from .reference import Layer, attention
from .small import small_config, small_model

#: The calls in which controls must be rejected: the first one of these that a model runs.
CONTROLLED = ("cache, padding left", "generate, padding left", "padding left")
_MOST = 200  # characters of an error


def judge_model(case: ModelCase) -> Iterator[Outcome]:
    """Yield one outcome for each attention function and dtype, or a single one with a reason."""
    import torch

    begin, blank = time.process_time(), case.blank()
    try:
        config = small_config(case.model_type, case.causal)
        model = small_model(config, case.causal)
        if not Driver(model, case.causal).modules:
            raise Unjudged("undrivable", "it does not call the attention interface")
        layers = Layers(config, case.causal)
    except Unjudged as error:
        yield error.about(blank)
        return
    except Exception as error:
        yield blank.replace(verdict="undrivable", reason=f"cannot be built: {one_line(error)}")
        return
    for name, dtype in PARTS:
        line = blank.replace(part=name, dtype=dtype, encoding=layers.encodings)
        line = line.replace(part=f"{name} {dtype}")
        try:
            model.set_attn_implementation(name)
        except ValueError as error:
            line = line.replace(verdict="refused", reason=one_line(error, _MOST))
        else:
            model.to(getattr(torch, dtype))
            try:
                line = _judge(line, model, layers)
            except Unjudged as error:
                line = error.about(line)
        now = time.process_time()
        yield line.replace(seconds=round(now - begin, 3))
        begin = now


def _judge(line: Outcome, model: Any, layers: Layers) -> Outcome:
    driver = Driver(model, layers.causal)
    done: dict[str, float] = {}
    failed: dict[str, str] = {}
    missing: list[str] = []
    messages: dict[str, str] = {}
    controlled: dict[str, list[_Site]] = {}
    modules: set[str] = set()
    executed, highest = 0, 0
    for name, way in driver.ways().items():
        try:
            run = way(name)
        except Unlike as error:
            failed[name] = str(error)
            missing.append(f"{name}: {error}")
            continue
        except Exception as error:
            failed[name] = one_line(error, _MOST)
            messages.setdefault("raises", f"{name}: {failed[name]}")
            continue
        sites = list(_sites(driver, layers, run))
        done[name] = 0.0
        for text in _wrong_rows(run, driver.first_rows):
            messages.setdefault("positions", f"{name}: {text}")
            done[name] = float("inf")
        for site in sites:
            score = site.score(line.dtype)
            executed += site.output.size
            highest = max(highest, int(run.batch.positions.max()))
            modules.add(site.module)
            done[name] = max(done[name], score)
            if not score <= budget(line.dtype):
                code, cause = site.cause(line.dtype)
                messages.setdefault(code, f"{name}: {site.name}, {score:.3g} units: {cause}")
        if name in CONTROLLED and line.dtype == "float32":
            controlled[name] = sites
    if not done:
        raise Unjudged("undrivable", next(iter(failed.values())))
    line = line.replace(
        module=", ".join(sorted(modules)),
        worst=max(done.values()),
        budget=budget(line.dtype),
        executed=executed,
        highest=highest,
        limits=tuple(f"{name}: {why}" for name, why in failed.items()),
        notes=(f"calls judged: {', '.join(done)}",),
    )
    if messages:
        return line.replace(
            verdict="deviates", codes=tuple(messages), messages=tuple(messages.values())
        )
    if missing:
        return line.replace(verdict="gap", reason=f"not driven: {'; '.join(missing)}")
    if line.dtype != "float32":  # a coarser dtype hides small mistakes
        return line.replace(verdict="conforms")
    name = next((name for name in CONTROLLED if name in controlled), "")
    if not name:
        return line.replace(verdict="gap", reason="no call has controls")
    for text in (text for site in controlled[name] for text in site.accepted(line.dtype)):
        return line.replace(verdict="gap", reason=f"a control was accepted: {name}: {text}")
    return line.replace(verdict="conforms")


class _Site:
    """One attention call of a run, with its inputs at position 0."""

    def __init__(
        self, number: int, run: Run, zero: Any, layers: Layers, factors: set[float]
    ) -> None:
        module = run.modules[number]
        self.kind, self.layer = layers.of(module, number)
        self.name = f"layer {number}" + (f" ({self.kind})" if self.kind else "")
        self.module = type(module).__name__
        self.batch = run.batch
        shape = run.batch.ids.shape
        self.q, self.k, self.v = (at_zero(x, shape) for x in (zero.query, zero.key, zero.value))
        encoding, width = self.layer.encoding, self.q.shape[-1]
        if encoding is not None and encoding.head_dim != width:
            reason = f"queries have {width} channels, from_config gives {encoding.head_dim}"
            raise Unjudged("gap", reason)
        if encoding is not None and not factors:
            raise Unjudged("gap", "no module returns cos and sin: its attention factor is unknown")
        self.factors = sorted(factors)
        self.output = host(run.outputs[number])
        self.judged = run.batch.real & run.reached[number]

    def score(self, dtype: str, layer: Layer | None = None, batch: Batch | None = None) -> float:
        """Return the largest score of the tokens, against a changed reference if given."""
        truth = attention(layer or self.layer, self.q, self.k, self.v, batch or self.batch)
        return float(np.max(truth.score(self.output, dtype=dtype)[self.judged]))

    def cause(self, dtype: str) -> tuple[str, str]:
        """Return the code and sentence of the mistake whose reference agrees."""
        for code, text, changed in causes(self.layer, self.batch, self.factors):
            if self.score(dtype, *changed) <= budget(dtype):
                return code, text
        return "inaccurate", "no single known mistake explains it"

    def accepted(self, dtype: str) -> Iterator[str]:
        """Yield the controls that agree with the model."""
        for name, changed in controls(self.layer, self.batch):
            if self.score(dtype, *changed) <= budget(dtype):
                yield f"{self.name}: {name}"


def _wrong_rows(run: Run, first: dict[str, int]) -> Iterator[str]:
    """Yield a sentence for each table of positions whose rows are not those of the tokens.

    Position p has the row p + r, where r is the row of a single token.
    """
    for table, rows in run.rows.items():
        right = run.batch.positions + first[table]
        wrong = np.argwhere((rows != right) & run.batch.real)
        if len(wrong):
            at = tuple(wrong[0])
            place = f"position {run.batch.positions[at]} of row {at[0]}"
            yield f"{place} has row {rows[at]} of {table}, not {right[at]}"


def _sites(driver: Driver, layers: Layers, run: Run) -> Iterator[_Site]:
    for number, zero in enumerate(driver.zero(run.hidden)):
        yield _Site(number, run, zero, layers, driver.recorder.factors)
