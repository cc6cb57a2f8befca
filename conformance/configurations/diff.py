"""Compare the encodings of two models, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from posenc_ref import Encoding, ModelEncoding
from posenc_ref.conformance.harness.accuracy import short_length
from posenc_ref.conformance.harness.plural import ranges
from posenc_ref.models.context import Described
from posenc_ref.rotary import Rotary

from .effect import Effect, Scored, effect
from .words import differences, learned

#: The length of the context of two models that do not state theirs.
_UNKNOWN = 2**17


@dataclass(frozen=True)
class Rows:
    """Layers of two models whose encodings are compared once.

    Attributes
    ----------
    layers : str
        The layers, in words.
    a, b : str
        The encodings.
    differences : list[str]
        What differs, in words.
    notes : list[str]
        What differs without effect on the logits, and what was not compared.
    effect : Effect, optional
        The effect of the differences, if it was computed.
    """

    layers: str
    a: str
    b: str
    differences: list[str]
    notes: list[str]
    effect: Effect | None = None

    def __str__(self) -> str:
        lines = [f"{self.layers}:"]
        if self.differences or self.notes:
            lines += [f"  A  {self.a}", f"  B  {self.b}"]
            lines += [f"  differs   {said}" for said in self.differences]
            lines += [f"  note      {said}" for said in self.notes]
        else:
            lines.append(f"  same      {self.a}")
        lines += _effect_lines(self.effect)
        return "\n".join(lines)


@dataclass(frozen=True)
class Difference:
    """The result of comparing the encodings of two models; print it to read it."""

    a: str
    b: str
    rows: list[Rows]
    others: list[str]
    length: str

    @property
    def verdict(self) -> str:
        """Return "same" or "differ"."""
        return "differ" if self.others or any(r.differences for r in self.rows) else "same"

    @property
    def exit_code(self) -> int:
        """Return 0 if all layers have the same encoding, else 1."""
        return int(self.verdict == "differ")

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data."""
        return {**asdict(self), "verdict": self.verdict}

    def __str__(self) -> str:
        lines = [f"{self.verdict.upper()}  A = {self.a}, B = {self.b}"]
        lines += [f"differs     {said}" for said in self.others]
        lines += [str(row) for row in self.rows]
        return "\n".join([*lines, f"context     {self.length}"])


def diff(
    a: Described, b: Described, *, names: tuple[str, str], converted: str, rules: bool
) -> Difference:
    """Compare the encodings of two models.

    Parameters
    ----------
    a, b : Described
        The models.
    names : tuple of str
        What to call them.
    converted : {"A", "B", ""}
        Which of them is read from a GGUF file, if exactly one is.
    rules : bool
        Whether only the rules are compared, as for a draft model: heads may have different sizes,
        and the models different numbers of layers.
    """
    counts = [len(m.model.layer_types) for m in (a, b)]
    others = []
    if 0 not in counts and counts[0] != counts[1] and not rules:
        others.append(f"layers: {counts[0]} against {counts[1]}")
    known = [m.length for m in (a, b) if m.length]
    length = min(known, default=_UNKNOWN)
    rows = []
    for types, where in _aligned(a.model, b.model):
        if None in types:
            others.append(f"{where} has no counterpart")
            continue
        both = (str(types[0]), str(types[1]))
        rows.append(_compared((a, b), both, where, length, converted, rules))
    return Difference(*names, rows, others, _context(a, b, known))


def _context(a: Described, b: Described, known: Sequence[int]) -> str:
    if not known:
        return f"neither model states its length; {short_length(_UNKNOWN)} was assumed"
    said = [f"{name} {m.length or 'unknown'}" for name, m in (("A", a), ("B", b))]
    return f"{', '.join(said)}; compared up to {min(known)}"


def _aligned(a: ModelEncoding, b: ModelEncoding) -> list[tuple[tuple[str | None, str | None], str]]:
    """Return pairs of layer types to compare, each with the layers in words."""
    if a.layer_types and len(a.layer_types) == len(b.layer_types):
        groups: dict[tuple[str, str], list[int]] = {}
        for i, pair in enumerate(zip(a.layer_types, b.layer_types, strict=True)):
            groups.setdefault(pair, []).append(i)
        whole = len(a.layer_types)
        return [(pair, _layers(numbers, whole, pair)) for pair, numbers in groups.items()]
    one, other = list(a.encodings), list(b.encodings)
    if len(one) == len(other) == 1:
        return [((one[0], other[0]), "every layer")]
    found: list[tuple[tuple[str | None, str | None], str]] = []
    for name in dict.fromkeys([*one, *other]):
        held = (name if name in one else None, name if name in other else None)
        owner = "" if None not in held else f" of {'A' if held[1] is None else 'B'}"
        found.append((held, f"layers of type {name}{owner}"))
    return found


def _layers(numbers: list[int], whole: int, types: tuple[str, str]) -> str:
    said = ranges(numbers)
    named = types[0] if types[0] == types[1] else f"{types[0]} against {types[1]}"
    if len(numbers) == whole:
        return f"every layer ({whole}, {named})"
    return f"{'layer' if len(numbers) == 1 else 'layers'} {said} ({named})"


def _compared(
    models: tuple[Described, Described],
    types: tuple[str, str],
    where: str,
    length: int,
    converted: str,
    rules: bool,
) -> Rows:
    found: list[str] = []
    attention = [t in m.model.encodings for m, t in zip(models, types, strict=True)]
    encodings = [m.model.encodings.get(t) for m, t in zip(models, types, strict=True)]
    said = [
        (repr(e) if e is not None else "no positional encoding") if has else "no softmax attention"
        for e, has in zip(encodings, attention, strict=True)
    ]
    if attention[0] != attention[1]:
        return Rows(where, said[0], said[1], [f"layer: {said[0]} against {said[1]}"], [])
    changed, notes = differences(*encodings, converted=converted, rules=rules)
    found += changed
    sizes = {e.head_dim for e in encodings if isinstance(e, Rotary)}
    scored = [_scored(m.model, t, sizes) for m, t in zip(models, types, strict=True)]
    scales = [_relative_scale(m.model, e) for m, e in zip(models, encodings, strict=True)]
    if scales[0] != scales[1]:
        found.append(f"softmax scale times sqrt(head_dim): {scales[0]:.6g} against {scales[1]:.6g}")
    if scored[0].query_scale != scored[1].query_scale:
        one, other = (s.query_scale or "none" for s in scored)
        found.append(f"query scale: {one} against {other}")
    values = [m.model.values for m in models]
    if values[0] != values[1]:
        found.append(f"values: {values[0]} against {values[1]}")
    found += _windows(models, types)
    if len(sizes) > 1 and found and not rules:
        notes.append("heads differ in size, so no effect is computed; --rules compares the rules")
    shown = None
    if len(sizes) < 2 and (found or notes) and not any(map(learned, encodings)):
        shown = _effect(scored, length, converted, sizes.pop() if sizes else 1)
    return Rows(where, said[0], said[1], found, notes, shown)


def _windows(models: tuple[Described, Described], types: tuple[str, str]) -> list[str]:
    """Return the difference of the windows, if the layers have other types or both are known."""
    kinds = [next((k for k in ("sliding", "chunked") if k in t), "") for t in types]
    if kinds[0] != kinds[1]:
        return [f"layer type: {types[0]} against {types[1]}"]
    known = [m.windows for m in models]
    if types[0] not in known[0] or types[1] not in known[1]:
        return []
    said = [w[t] or "all" for w, t in zip(known, types, strict=True)]
    return [] if said[0] == said[1] else [f"window: {said[0]} against {said[1]} keys"]


def _scored(model: ModelEncoding, layer_type: str, sizes: set[int]) -> Scored:
    """Return the encoding of a layer type with its factors; ``sizes`` are those of both heads."""
    encoding = model.encodings.get(layer_type)
    dim = encoding.head_dim if isinstance(encoding, Rotary) else min(sizes, default=1)
    scale = dim**-0.5 if model.softmax_scale is None else model.softmax_scale
    return Scored(encoding, scale, model.query_scale.get(layer_type))


def _relative_scale(model: ModelEncoding, encoding: Encoding | None) -> float:
    """Return the factor on q . k, in units of the usual ``1 / sqrt(head_dim)``."""
    if model.softmax_scale is None:
        return 1.0
    if not isinstance(encoding, Rotary):
        return model.softmax_scale
    return float(model.softmax_scale / encoding.head_dim**-0.5)


def _effect(scored: Sequence[Scored], length: int, converted: str, dim: int) -> Effect | None:
    a, b = scored
    if converted and isinstance(a.encoding, Rotary) and isinstance(b.encoding, Rotary):
        # The converter permutes the weights: compare pairs, whatever their channels.
        layout = getattr(a.encoding, "layout", None)
        b = Scored(b.encoding.replace(layout=layout), b.scale, b.query_scale)
    return effect(a, b, dim, (length,))


def _effect_lines(of: Effect | None) -> list[str]:
    if of is None:
        return []
    place = "distance" if of.of == "biases" else "position"
    seen = f"first visible difference (above 2**-9) at {place} {of.first}"
    if of.first is None:
        seen = "no visible difference (above 2**-9)"
    lines = [f"  effect    {of.of}: {seen}; tried: {of.tried}"]
    what = {"biases": "a bias", "rows": "a row"}.get(of.of, "a logit")
    part = ", as a part of |q| |k| / sqrt(head_dim)," if what == "a logit" else ""
    errors = ", ".join(f"{short_length(n)}: {error:.1e}" for n, error in of.errors.items())
    return [*lines, f"            largest error of {what}{part} at the end of {errors}"]
