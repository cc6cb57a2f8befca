"""Judge or identify the parts of an ONNX model, for ``posenc check`` and ``posenc identify``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from posenc_ref import Encoding, RoPE
from posenc_ref.conformance.check import check
from posenc_ref.conformance.graphs.feeds import LAYER
from posenc_ref.conformance.graphs.load import load_onnx
from posenc_ref.conformance.graphs.sites import Found, Site
from posenc_ref.conformance.harness.expected import ExpectedFailure
from posenc_ref.conformance.harness.report import Finding, Report
from posenc_ref.conformance.harness.run import describe
from posenc_ref.conformance.identify.function import identify

from .apart import Printed, Started
from .loading import UsageError

#: Options of ``check`` and ``identify`` that an ONNX model fixes itself.
_FIXED = (
    "surface", "backend", "tensor_layout", "device", "inplace", "table", "init", "signature",
)  # fmt: skip


def load(target: str, node: str | None, head_dim: int | None, options: Mapping[str, Any]) -> Found:
    """Return the parts of the model that TARGET names, for options that apply to it."""
    for name in _FIXED:
        if options.get(name):
            raise UsageError(
                f"--{name.replace('_', '-')} does not apply to an ONNX model, which fixes it: "
                "leave it out"
            )
    try:
        return load_onnx(Path(target), node, head_dim)
    except (ImportError, ValueError) as error:
        raise UsageError(str(error)) from None


def check_model(
    target: str,
    declared: Mapping[str, Any],
    *,
    node: str | None,
    as_json: bool,
    head_dim: int | None,
    known: ExpectedFailure | None,
    layers: Sequence[str] = (),
    **options: Any,
) -> Iterator[Started | Report | Printed]:
    """Judge the only part of a model, or the part of ``node``; or else print all parts.

    ``declared`` are the encodings of the layer types; each part must have one of them, and each
    encoding must occur. ``layers`` are the layer types of all layers, if the names of the nodes
    have the numbers of their layers.
    """
    sizes = {e.head_dim for e in declared.values() if isinstance(e, RoPE)}
    said = head_dim or (sizes.pop() if len(sizes) == 1 else None)
    found = load(target, node, said, options)
    if len(found.sites) > 1 or found.problems or (len(declared) > 1 and node is None):
        names = ", ".join([site.name for site in found.sites] + found.problems)
        several = (
            f"{target} has no single part with one report: choose a part with --node, of {names}"
        )
        whole = node is None
        text, code = _show(target, found, declared, layers, whole, head_dim, options, as_json)
        yield Printed(text, code, several)
        return
    _, encoding, report = _judged(target, found.sites[0], declared, head_dim, options)
    report.expected = known
    facts = {
        "subject": report.subject, "surface": report.surface, "declared": report.encoding,
        "backend": "numpy", "backend_version": "", "dtype": report.dtype,
    }  # fmt: skip
    yield Started(facts, None if encoding is None else encoding.to_dict())
    yield report


def _show(
    target: str,
    found: Found,
    declared: Mapping[str, Any],
    layers: Sequence[str],
    whole: bool,
    head_dim: int | None,
    options: Mapping[str, Any],
    as_json: bool,
) -> tuple[str, int]:
    """Judge every distinct part of a model; return the reports as text, and the exit code."""
    judged = [(site, *_judged(target, site, declared, head_dim, options)) for site in found.sites]
    lacking = [t for t in declared if t not in {layer_type for _, layer_type, _, _ in judged}]
    codes = {report.exit_code for *_, report in judged}
    problems = list(found.problems)
    if len(declared) > 1 and whole:
        problems += [f"no part has the encoding of the layer type {t!r}" for t in lacking]
    others = [
        text for site, name, *_ in judged for text in _misplaced(site, name, declared, layers)
    ]
    codes |= {1} if others else set()
    code = next((c for c in (1, 2) if c in codes), 3 if problems or 3 in codes else 0)
    if as_json:
        parts = [
            _described(site) | {"layer_type": layer_type, "report": report.to_dict()}
            for site, layer_type, _, report in judged
        ]
        body = {"model": target, "parts": parts, "problems": others + problems, "exit_code": code}
        return json.dumps(body, indent=1), code
    lines = [_headline(target, found)]
    for _, layer_type, _, report in judged:
        lines.append("")
        if len(declared) > 1:
            text = f"as layer type {layer_type!r}" if layer_type else "as no layer type"
            lines.append(f"judged    {text}, of {', '.join(declared)}")
        lines.append(str(report))
    lines += [f"\nDEVIATES  {problem}" for problem in others]
    lines += [f"\nnot judged: {problem}" for problem in problems]
    return "\n".join(lines), code


def _misplaced(
    site: Site, layer_type: str | None, declared: Mapping[str, Any], layers: Sequence[str]
) -> Iterator[str]:
    """Yield a sentence for each node with the encoding of another layer type than its layer has."""
    if layer_type is None:
        return
    for name in site.names:
        numbers = set(LAYER.findall(name))
        number = int(numbers.pop()) if len(numbers) == 1 else len(layers)
        own = layers[number] if number < len(layers) else layer_type
        if declared.get(own) != declared[layer_type]:
            yield (
                f"{name}: it has the encoding of layer type {layer_type!r}, and layer {number} is "
                f"declared {own!r}"
            )


def _judged(
    target: str,
    site: Site,
    declared: Mapping[str, Any],
    head_dim: int | None,
    options: Mapping[str, Any],
) -> tuple[str | None, Encoding | None, Report]:
    """Return the first layer type that a part conforms to, else the first report and None."""
    first: tuple[str | None, Encoding | None, Report] | None = None
    settings = {k: v for k, v in options.items() if k not in (*_FIXED, "dtype")}
    for layer_type, whole in declared.items():
        encoding = rotated_slice(whole, site.bound.head_dim)
        own = site.implementation(f"{target}:{site.title}")
        expected = getattr(encoding, "head_dim", None)
        if expected is not None and own.head_dim not in (None, expected):
            raise UsageError(
                f"{site.name} rotates heads of {own.head_dim} channels, and {describe(encoding)} "
                f"has {expected}"
            )
        report = check(
            own, encoding, dtype=site.bound.dtype, head_dim=head_dim, name=own.name, **settings
        )
        report.findings = [_reproducible(f, target, site.name) for f in report.findings]
        report.findings += site.findings()
        report.limits += (*site.remarks, *site.bound.remarks)
        if report.passed:
            return layer_type, encoding, report
        if first is None:
            alone = layer_type if len(declared) == 1 else None
            first = (alone, encoding, report)
    assert first is not None
    return first


def _reproducible(finding: Finding, target: str, node: str) -> Finding:
    """Return a finding with lines that load ``fn``, before those that call it."""
    if not finding.reproduce:
        return finding
    lines = (
        "from posenc_ref.conformance import from_onnx",
        f"fn = from_onnx({target!r}, {node!r})",
        finding.reproduce,
    )
    return replace(finding, reproduce="\n".join(lines))


def rotated_slice(encoding: Encoding | None, head_dim: int) -> Encoding | None:
    """Return the encoding for the rotated channels alone, where a part gets only these."""
    if isinstance(encoding, RoPE) and head_dim == encoding.rotary_dim != encoding.head_dim:
        return replace(encoding, head_dim=head_dim, rotary_dim=None, rotary_start=0)
    return encoding


def identify_model(
    target: str,
    *,
    node: str | None,
    as_json: bool,
    head_dim: int | None,
    to: Encoding | None,
    exit_code: Callable[[Any], int],
    **options: Any,
) -> Printed:
    """Identify every distinct part of a model; return the cards as text, with the exit code."""
    found = load(target, node, head_dim, options)
    cards = []
    for site in found.sites:
        own = site.implementation(f"{target}:{site.title}")
        settings = {k: v for k, v in options.items() if k not in (*_FIXED, "dtype", "axes")}
        card = identify(
            own, to=to, axes=own.axes, dtype=site.bound.dtype, name=own.name, **settings
        )
        card.limits += (*site.remarks, *site.bound.remarks)
        cards.append((site, card))
    if len(cards) == 1 and not found.problems:
        ((_, card),) = cards
        text = card.to_json() if as_json else str(card)
    elif as_json:
        parts = [_described(site) | {"card": json.loads(c.to_json())} for site, c in cards]
        body = {"model": target, "parts": parts, "problems": found.problems}
        text = json.dumps(body, indent=1)
    else:
        lines = [_headline(target, found), *(f"\n{card}" for _, card in cards)]
        lines += [f"\nnot identified: {problem}" for problem in found.problems]
        text = "\n".join(lines)
    return Printed(text, max(exit_code(card) for _, card in cards))


def _headline(target: str, found: Found) -> str:
    nodes = sum(len(site.names) for site in found.sites)
    counted = f"{nodes} parts, {len(found.sites)} distinct" if nodes > 1 else "one part"
    return f"model     {target}: {counted}"


def _described(site: Site) -> dict[str, Any]:
    return {"operator": site.operator, "nodes": site.names}
