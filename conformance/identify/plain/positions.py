"""Identify plain functions: a search over the settings of the specification's function.

Every candidate is the ``posenc_ref`` function of the surface with other settings. A candidate is
found if its results are those of all calls that the judge of the surface makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref.conformance.bias.cases import Ruler
from posenc_ref.conformance.functions.function import NO_CAUSE, Plain
from posenc_ref.conformance.functions.judge import ROWS
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.report import ERROR, Report
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.identify.card import Card, Unidentified, require_same

from .vision_probes import VISION

Function = Callable[..., Any]
#: How the plain function of every surface is called.
EVERY: dict[str, Plain] = {**ROWS, **VISION}
#: Codes of failed calls, not of a function with a mistake.
_NO_CAUSE = ("raises", "shape", "dtype", "state")


@dataclass(frozen=True)
class Call:
    """One accepted call: its name, its arguments and its result."""

    name: str
    arguments: tuple[Any, ...]
    result: np.ndarray


@dataclass(frozen=True)
class Candidate:
    """The function of the specification with its settings, as Python code."""

    code: str
    function: Function

    @classmethod
    def of(cls, name: str, arguments: str, **settings: Any) -> Candidate:
        """Return ``posenc_ref.name(arguments, **settings)``."""
        function = getattr(pr, name)
        more = "".join(f", {key}={value!r}" for key, value in settings.items())
        return cls(
            f"posenc_ref.{name}({arguments}{more})", lambda *given: function(*given, **settings)
        )


def identify(run: Run, card: Card) -> None:
    """Fill in the identity card of a plain function."""
    surface = run.report.surface
    calls = list(_answered(run, card))
    if not any(call.result.size for call in calls):
        raise Unidentified("every call is refused, or gives nothing")
    first = calls[0]
    require_same(first.result, _result(run, first.arguments))
    ruler = Ruler.of(run)
    card.facts["compared"] = plural(len(calls), "call", "calls")
    if surface == "mrope_positions":  # the merge size of the first accepted call with an image
        size = next((c.name[-1] for c in calls if not c.name.startswith("text")), "2")
        calls = [c for c in calls if c.name.endswith(size)]
    for candidate in _candidates(surface, calls):
        if all(_same(candidate, call, surface, ruler) for call in calls):
            card.function = candidate.code
            break
    else:
        if surface in VISION:
            card.unknown.append(f"no settings of posenc_ref.{surface} give the results")
    _facts(surface, calls, card)


def confirm(report: Report, card: Card) -> None:
    """Note the findings of the check as deviations, if its cause is known.

    Other settings than those that the check expects are no deviation: all calls agree with them.
    """
    if card.function and not report.passed:
        return
    if not card.function:
        first = next((f for f in report.findings if f.severity == ERROR), None)
        if first is None or first.code in _NO_CAUSE or NO_CAUSE in first.message:
            card.unknown.append(
                f"the results are not those of posenc_ref.{report.surface}, with any settings"
            )
            return
        card.function = next(_candidates(report.surface, [])).code
    card.report = report
    card.deviations = list(report.findings)


def _answered(run: Run, card: Card) -> Iterator[Call]:
    """Yield the accepted calls among those of the judge."""
    row = EVERY[run.report.surface]
    for probe in row.probes(None, run.settings.seed, run.driver.dtype):
        arguments = tuple(
            run.driver.rounded(a) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a
            for a in probe.arguments
        )
        try:
            yield Call(probe.name, arguments, _result(run, arguments))
        except (Refused, Malformed) as error:
            text = f"{probe.name}: refused ({error})"
            if text not in card.limits:
                card.limits.append(text)


def _result(run: Run, arguments: tuple[Any, ...]) -> np.ndarray:
    result = run.driver.call(*arguments)
    values = run.driver.array(list(result) if isinstance(result, tuple) else result)
    return np.array(values, dtype=np.float64)


def _same(candidate: Candidate, call: Call, surface: str, ruler: Ruler) -> bool:
    """Return whether a candidate gives the judged elements of a call."""
    row = EVERY[surface]
    try:
        expected = np.asarray(candidate.function(*call.arguments), np.float64)
    except (ValueError, IndexError, ArithmeticError):
        return False
    if expected.shape != call.result.shape:
        return False
    a, b = row.meaning(call.result), row.meaning(expected)
    judged = row.judged(call.arguments)
    if judged is None:
        judged = np.ones(a.shape, bool)
    if row.integers:
        return bool(np.array_equal(a[judged], b[judged]))
    truth = row.truth(None, call.arguments, b)
    terms = np.where(truth.terms > 0, truth.terms, np.abs(b))
    return not ruler.differ(a, b, terms)[judged].any()


def _candidates(surface: str, calls: list[Call]) -> Iterator[Candidate]:
    """Yield the specification's function with its default settings, then with others."""
    of = Candidate.of
    match surface:
        case "position_ids":
            yield of("position_ids", "attention_mask", **_padding(calls))
            yield Candidate(  # the rows of OPT's table, whose row 1 is that of padding
                "posenc_ref.position_ids(attention_mask, padding=-1) + 2",
                lambda mask: pr.position_ids(mask, padding=-1) + 2,
            )
        case "permute_weights":
            yield of("permute_weights", "w, n_heads")
            yield of("permute_weights", "w, n_heads", source="interleaved", target="half")
            yield from _part_permuted(calls)
        case "mrope_positions":
            yield from _mrope()
        case "grid_positions":
            yield Candidate(
                "posenc_ref.grid_positions(height, width, merge_size=merge_size)",
                lambda h, w, m: pr.grid_positions(h, w, merge_size=m),
            )
            yield Candidate(
                "posenc_ref.grid_positions(height, width)",
                lambda h, w, m: pr.grid_positions(h, w),
            )
            yield Candidate(
                "posenc_ref.grid_positions(height, width, merge_size=merge_size, origin=1)",
                lambda h, w, m: pr.grid_positions(h, w, merge_size=m, origin=1),
            )
        case "shard_positions":
            yield of("shard_positions", "cu_seqlens, cp_size, cp_rank")
            yield of("shard_indices", "cu_seqlens, cp_size, cp_rank")
        case "relative_index":
            yield of("relative_index", "window")
            yield of("relative_index", "window", cls_token=True)
        case _:
            yield of(surface, ", ".join(_ARGUMENTS[surface]))


_ARGUMENTS = {
    "packed": ("lengths",),
    "decode_positions": ("prompt_len", "n_steps"),
    "relative_shift": ("x",),
    "relative_scores": ("q", "rel"),
}


def _padding(calls: list[Call]) -> dict[str, Any]:
    """Return the position of padding as a setting, if it is one number."""
    found = np.concatenate([np.zeros(0), *(_of_padding(c) for c in calls)])
    values = np.unique(found)
    one = values.size == 1 and values[0] >= -1 and values[0] == np.trunc(values[0])
    return {"padding": int(values[0])} if one and values[0] else {}


def _of_padding(call: Call) -> np.ndarray:
    mask = np.asarray(call.arguments[0])
    return call.result[mask == 0] if call.result.shape == mask.shape else np.zeros(0)


def _part_permuted(calls: list[Call]) -> Iterator[Candidate]:
    """Yield permutations of a part of every head's channels."""
    sizes = {len(c.arguments[0]) // c.arguments[1] for c in calls}
    for part, source in product((4, 6), ("half", "interleaved")):
        if part < min(sizes):
            target = "half" if source == "interleaved" else "interleaved"
            yield Candidate.of(
                "permute_weights", "w, n_heads", rotary_dim=part, source=source, target=target
            )


def _mrope() -> Iterator[Candidate]:
    def of(**settings: Any) -> Candidate:
        more = "".join(f", {key}={value!r}" for key, value in settings.items())
        return Candidate(
            "posenc_ref.mrope_positions(token_types, image_grids=image_grids, "
            f"video_grids=video_grids{more})",
            lambda types, images, videos: pr.mrope_positions(
                types, image_grids=images, video_grids=videos, **settings
            ),
        )

    yield of()
    yield of(split_frames=True)
    for space, time, split in product((2, 1, 3, 4), (1, 2), (False, True)):
        yield of(spatial_merge_size=space, temporal_merge_size=time, split_frames=split)


def _facts(surface: str, calls: list[Call], card: Card) -> None:
    """Note what the comparison leaves out."""
    if surface == "relative_index":
        card.facts["numbers"] = _numbering(calls)
    values = np.unique(np.concatenate([_of_padding(c) for c in calls])).tolist()
    if surface == "position_ids" and values:
        shown = ", ".join(f"{v:g}" for v in values[:8])
        card.facts["padding"] = (
            f"padding has position {shown}" if len(values) == 1
            else f"padding has positions {shown}{', ...' if len(values) > 8 else ''}"
        )  # fmt: skip


def _numbering(calls: list[Call]) -> str:
    """Say how indices are numbered, which does not matter to the specification."""

    def usual(window: tuple[int, int], result: np.ndarray) -> bool:
        cls_token = len(result) != math.prod(window)
        return np.array_equal(result, pr.relative_index(window, cls_token=cls_token))

    same = all(usual(c.arguments[0], c.result) for c in calls)
    return (
        "(dy + h - 1) (2w - 1) + dx + w - 1, query minus key" if same
        else "other numbers than (dy + h - 1) (2w - 1) + dx + w - 1; biases belong to other rows"
    )  # fmt: skip
