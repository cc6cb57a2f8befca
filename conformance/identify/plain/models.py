"""Identify what a model's code states: layers with an encoding, softmax scale, padding."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import Learned
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.bias.cases import ask
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.plural import ordinal
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.identify.card import Card, Unidentified, require_finite, require_same
from posenc_ref.conformance.identify.fit.measurement import nice
from posenc_ref.models.layer_schedule import every_nth
from posenc_ref.schedules.yarn import mscale

#: Numbers of layers to try; 24, 32, 36 and 48 are those of usual models.
_DEPTHS = (48, 36, 32, 30, 28, 24, 16, 12, 8, 7, 5, *range(1, 129))
#: The most accepted numbers of layers to compare.
_ENOUGH = 8
_PERIODS = range(2, 13)
#: Weights of YaRN's factor in published configurations.
_WEIGHTS = (1.0, 0.707, 0.8)
_HEAD_DIMS = (*range(8, 513, 8), 576, 4, 2)
#: The names of a parameter that says which token id is padding.
_PADDING_NAME = re.compile(r"pad(ding)?(_token)?_(idx|index|id)")
#: Token ids to try as padding: those of usual vocabularies, and small ones.
_PADDING = (0, 1, 2, 3, 4, 5, 100, 50256, 50257, 128001, 151643)


def layers(run: Run, card: Card) -> None:
    """Fill in the identity card of ``fn(n_layers)``: a flag for each layer."""
    got: dict[int, np.ndarray] = {}
    problem = ""
    for n in dict.fromkeys(_DEPTHS):
        if len(got) == _ENOUGH:
            break
        answer = ask(run.driver, n)
        if answer.values is None or answer.values.shape != (n,):
            problem = answer.problem or f"fn({n}) has another shape than ({n},)"
        else:
            got[n] = answer.values.astype(bool)
    if not got:
        raise Unidentified(f"no number of layers is accepted ({problem})")
    n = max(got)
    require_same(got[n], ask(run.driver, n).values)
    flags = got[n]
    card.facts["layers"] = f"{_counted(n, flags)}; numbers of layers tried: {sorted(got)}"
    card.used_by = tuple(_with_layers(got))
    for words, rule in _schedules():
        if all(np.array_equal(flags, rule(size)) for size, flags in got.items()):
            card.function = f"an encoding in {words}"
            break
    else:
        if len(got) > 1:
            raise Unidentified("no known schedule gives the flags for all numbers of layers")
        card.function = f"the flags of {n} layers: {_counted(n, flags)}"
    if len(got) == 1:
        card.limits.append(f"{n} layers are the only number that is accepted ({problem})")


def _counted(n: int, flags: np.ndarray) -> str:
    without = np.flatnonzero(~flags).tolist()
    if not without:
        return f"all {n} layers have an encoding"
    shown = ", ".join(map(str, without[:12])) + (", ..." if len(without) > 12 else "")
    return f"{len(without)} of {n} layers have no encoding: {shown}"


def _schedules() -> Iterator[tuple[str, Callable[[int], np.ndarray]]]:
    """Yield the schedule of each rule in words, and a function that returns its flags."""
    yield "every layer", lambda n: np.ones(n, bool)
    yield "no layer", lambda n: np.zeros(n, bool)
    for period, phase, kept in product(_PERIODS, ("last", "first", "from-end"), (False, True)):
        start = {
            "last": f"from layer {period - 1} on",
            "first": "from layer 0 on",
            "from-end": "counted from the last layer",
        }
        each = f"every {ordinal(period)} layer, {start[phase]}"

        def flags(n: int, period: int = period, phase: str = phase, kept: bool = kept) -> Any:
            return np.array(every_nth(n, period, phase=phase)) == kept

        yield each if kept else f"all layers, except {each}", flags


def _with_layers(got: dict[int, np.ndarray]) -> Iterator[str]:
    """Yield the presets whose layers have the same flags."""
    for name in pr.presets():
        with suppress(ValueError):  # a preset that needs arguments, or has no layer types
            model = pr.preset(name)
            n = len(model.layer_types)
            if n in got and np.array_equal(got[n], pr.layers(model, n)):
                yield name


def softmax_scale(run: Run, card: Card) -> None:
    """Fill in the identity card of ``fn()``, one number."""
    value = _number(run)
    require_same(np.array(value), np.array(_number(run)))
    error = BUDGET["float32"] * ROUNDOFF[run.coarse]

    def near(other: float) -> bool:
        return abs(value - other) <= error * abs(other)

    found = [f"1/sqrt({d})" for d in _HEAD_DIMS if near(d**-0.5)]
    found += [f"1/{d}" for d in _HEAD_DIMS if near(1 / d)]
    found += ["1: the logits are not scaled"] if near(1.0) else []
    found += list(_with_factor(value, near)) if not found else []
    card.facts["value"] = f"{nice(value, error):.8g}"
    card.used_by = tuple(_with_scale(near))
    card.function = found[0] if found else ""
    card.relations += tuple(found[1:])
    if not found:
        raise Unidentified("the scale is not 1/sqrt(d) or 1/d, with or without YaRN's factor")


def _number(run: Run) -> float:
    try:
        values = run.driver.array(run.driver.call())
    except (Refused, Malformed) as error:
        raise Unidentified(f"the call fails: {error}") from None
    if values.size != 1:
        raise Unidentified(f"expected one number, got shape {values.shape}")
    require_finite(values)
    return float(values.ravel()[0])


def _with_factor(value: float, near: Callable[[float], bool]) -> Iterator[str]:
    """Yield ``1/sqrt(d)`` times YaRN's factor or its square, known weights of the factor first."""
    found = []
    for d, factor, power in product(
        (64, 128, 192, 256, 96, 80), (2, 4, 8, 16, 32, 40, 64, 160), (2, 1)
    ):
        g = (value * d**0.5) ** (1 / power)
        weight = (g - 1) / (float(mscale(float(factor), 1.0)) - 1)
        weight = min((*_WEIGHTS, round(weight, 2)), key=lambda one: abs(one - weight))
        if 0 < weight <= 2 and near(d**-0.5 * float(mscale(float(factor), weight)) ** power):
            known = _WEIGHTS.index(weight) if weight in _WEIGHTS else len(_WEIGHTS)
            squared = "the square of " * (power == 2)
            words = (
                f"1/sqrt({d}) times {squared}YaRN's factor {g:.6g} "
                f"(factor={factor}, mscale_all_dim={weight:g})"
            )
            found.append((known, words))
    yield from (words for _, words in sorted(found, key=lambda one: one[0]))


def _with_scale(near: Callable[[float], bool]) -> Iterator[str]:
    """Yield the presets with the same scale."""
    for name in pr.presets():
        with suppress(ValueError):
            if near(pr.softmax_scale(pr.preset(name))):
                yield name


def ids_from_tokens(run: Run, card: Card) -> None:
    """Fill in the identity card of ``fn(input_ids)``, by the token id that counts as padding."""
    every = np.array([[7, *_PADDING, 7, 9]])
    ids = _ids(run, every)
    require_same(ids, _ids(run, every))
    stopped = [t for t in _PADDING if _stops(run, t)] or _named_padding(run.driver.fn)
    if not stopped:
        raise Unidentified(
            f"none of the token ids {', '.join(map(str, _PADDING))} counts as padding"
        )
    padding = stopped[0]
    plain = _ids(run, np.array([[7, 9, 8, 7]]))[0]
    one = _ids(run, np.array([[7, padding, 8, padding, 9]]))[0]
    card.facts["padding"] = f"token {padding} has position {one[1]:g}"
    card.facts["origin"] = f"the first real token has position {plain[0]:g}"
    weight = np.zeros((padding + 2**17, 1), np.float32)
    # Another offset is the rule only if it numbers padding too: else the usual rule has a defect.
    usual = Learned(weight, padding_idx=padding)
    moved = usual.replace(offset=int(padding + 1 - plain[0]))
    card.encoding = moved if np.array_equal(moved.ids_from_tokens(every), ids) else usual
    card.unknown.append("the function returns no rows: the table of the encoding is set to zeros")


def _named_padding(fn: Callable[..., Any]) -> list[int]:
    """Return the default of a parameter that is named as the id of padding, as a list."""
    try:
        every = inspect.signature(fn).parameters.items()
    except (TypeError, ValueError):
        return []
    return [p.default for n, p in every if _PADDING_NAME.fullmatch(n) and type(p.default) is int]


def _ids(run: Run, tokens: np.ndarray) -> np.ndarray:
    answer = ask(run.driver, tokens)
    if answer.values is None:
        raise Unidentified(f"a call with tokens {tokens[0].tolist()} fails: {answer.problem}")
    if answer.values.shape != tokens.shape:
        raise Unidentified(f"expected positions of shape {tokens.shape}, got {answer.values.shape}")
    return answer.values


def _stops(run: Run, token: int) -> bool:
    """Return whether a token is not counted: the token after it has the next position."""
    with suppress(Unidentified):
        first, _, after = _ids(run, np.array([[7, token, 9]]))[0]
        return bool(after == first + 1)
    return False
