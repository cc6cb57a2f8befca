"""``check_recorded``: judge recorded tensors against a declared rotary encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from posenc_ref import Rotary
from posenc_ref._documents import naming
from posenc_ref.accuracy import ANGLES, ROUNDOFF
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.harness.run import Settings, describe
from posenc_ref.conformance.surfaces import Declared

from . import limits, same_order, steps
from .call import Recorded
from .files import Tensor, read
from .judge_part import judge_placed
from .layer_encoding import of_layer
from .layout import chosen, run_of
from .merge import add_stray, merged
from .roles import Layer, layers, strays
from .shapes import readings
from .steps import Entry
from .tables import judge_tables


def check_recorded(
    before: Any,
    after: Any,
    positions: Any = None,
    encoding: Declared = None,
    *,
    tensor_layout: str | None = None,
    angles: str | None = None,
    precision: str | None = None,
    strict: bool = False,
    name: str = "recorded tensors",
) -> Report:
    """Judge recorded tensors: ``after`` must be the rotation of ``before`` by ``encoding``.

    Parameters
    ----------
    before, after : array, or mapping of str to array
        q (or k) before and after the rotation, of any library; or both q and k as
        ``{"q": ..., "k": ...}``. (B, H, S, D) or another tensor layout.
    positions : array, or mapping of str to array, optional
        The positions of the tokens: (S,), (B, S), (A, B, S) for A axes, (B,) for one token a row,
        or one number, the position of the first token; or those of q and k apart, as ``{"q": ...,
        "k": ...}``. If they are those of all keys of a cache, q stands at their end. None: they are
        taken to be 0, 1, 2, ..., and the report says so.
    encoding : Rotary or ModelEncoding
        The declared encoding; a model must have only one.
    tensor_layout : str, optional
        "bhsd", "bshd", "sbhd", "thd", "hsd", "bs(hd)" or "t(hd)", where T counts the tokens of all
        sequences. By default the layout that fits the shapes, and the rotation if several fit.
    angles, precision
        As in :func:`check`.
    strict : bool
        Whether q and k with the same wrong order of channels deviate, although every logit agrees.
    name : str
        The name of the tensors in the report.

    Returns
    -------
    Report
        The verdict is ``inconclusive`` if the tensors show no rotation at all, for example at
        position 0.

    Raises
    ------
    TypeError, ValueError
        The encoding is no rotation, or the tensors do not fit it or each other.
    """
    given = [t if isinstance(t, Mapping) else {"q": t} for t in (before, after)]
    if set(given[0]) != set(given[1]) or not set(given[0]) <= {"q", "k", "x"} or not given[0]:
        raise ValueError(
            "before and after must be arrays, or mappings with the same keys among q, k and x; got "
            f"{' and '.join(str(sorted(map(str, g))) for g in given)}"
        )
    tensors = {
        f"{key}_{when}": array
        for when, arrays in zip(("before", "after"), given, strict=True)
        for key, array in arrays.items()
    }
    if isinstance(positions, Mapping):
        if not set(positions) <= {"q", "k"}:
            raise ValueError(f"positions must have keys among q and k, got {sorted(positions)}")
        tensors |= {f"{key}_positions": array for key, array in positions.items()}
    elif positions is not None:
        tensors["positions"] = positions
    layer = Layer("", {r: Tensor.of(r, t) for r, t in tensors.items()}, {r: r for r in tensors})
    settings = _settings(angles, precision, strict)
    return _check([layer], encoding, None, tensor_layout, settings, name)


def check_recorded_file(
    path: str | Path,
    encoding: Declared,
    *,
    roles: Mapping[str, str] | None = None,
    layer_type: str | None = None,
    tensor_layout: str | None = None,
    angles: str | None = None,
    precision: str | None = None,
    strict: bool = False,
) -> Report:
    """Judge the tensors of a file as :func:`check_recorded` does, layer by layer.

    Parameters
    ----------
    path : str or Path
        A .npz file, a .safetensors file, or a folder of such files or of .npy files.
    encoding : Rotary or ModelEncoding
        The declared encoding. A model gives each layer its own if the names have layer numbers.
    roles : mapping of str to str, optional
        The names of the tensors by role, such as ``{"q_before": "attn.q"}``; a ``*`` stands for
        the layer. Other tensors are recognised by their names.
    layer_type : str, optional
        The layer type of all layers, if ``encoding`` is a model.
    tensor_layout, angles, precision, strict
        As in :func:`check_recorded`.

    Returns
    -------
    Report
        Findings that several layers share are listed once, with the layers as evidence.

    Raises
    ------
    TypeError, ValueError
        The file cannot be read, tensors are missing or do not fit, or the encoding is no rotation.
    """
    path = Path(path)
    arrays, roles = read(path), roles or {}
    found = layers(arrays, roles, str(path))
    settings = _settings(angles, precision, strict)
    with naming(str(path)):
        report = _check(found, encoding, layer_type, tensor_layout, settings, str(path))
    for layer, tensor, text in strays(arrays, roles, str(path)):
        if layer.number is None or of_layer(encoding, layer, layer_type) is not None:
            add_stray(report, tensor, text)
    return report


def _settings(angles: str | None, precision: str | None, strict: bool) -> Settings:
    for argument, value, allowed in (
        ("angles", angles, ANGLES),
        ("precision", precision, tuple(ROUNDOFF)),
    ):
        if value is not None and value not in allowed:
            raise ValueError(f"{argument} must be one of {', '.join(allowed)}, got {value!r}")
    return Settings(angles=angles, precision=precision, strict=strict)


def _check(
    recorded: Sequence[Layer],
    encoding: Declared,
    layer_type: str | None,
    tensor_layout: str | None,
    settings: Settings,
    name: str,
) -> Report:
    """Judge every layer, and return one report."""
    judged: list[tuple[str, Report | Entry]] = []
    for layer in recorded:
        own = of_layer(encoding, layer, layer_type)
        if own is not None:
            judged += _judge_layer(layer, own, tensor_layout, settings, name)
    if not judged:
        raise ValueError(f"{name}: none of the recorded layers rotates")
    entries = [one for _, one in judged if isinstance(one, Entry)]
    steps.judge(entries)
    reports = [
        (label, one.run.finish() if isinstance(one, Entry) else one) for label, one in judged
    ]
    return merged(name, describe(encoding), reports)


def _judge_layer(
    layer: Layer, encoding: Rotary, wanted: str | None, settings: Settings, name: str
) -> Iterator[tuple[str, Report | Entry]]:
    """Judge the tables, q and k of one layer; yield a label for each, and what was judged."""
    yield from judge_tables(layer, encoding, settings, name)
    if not layer.rotated:
        return
    found = readings(layer, encoding.head_dim, encoding.num_axes, wanted, name)
    runs = {t: run_of(layer.tensors[f"{t}_after"], encoding, settings, name) for t in layer.rotated}
    layout = chosen(runs, found)
    others = [key for key, parts in found.items() if key != layout and parts[0].x.shape[2] > 1]
    parts = found[layout]
    length = max(p.length for p in parts)
    judged = []
    for part in parts:
        run, call = runs[part.name], Recorded(encoding, part, length)
        limits.add(run, layer, part, layout, others)
        judged.append(same_order.Judged(run, call, judge_placed(run, call)))
    same_order.accept(judged, judge_placed)
    for one in judged:
        part = one.call.part
        alone = len(parts) == 1 and not layer.has_tables
        label = layer.label if alone else f"{layer.label} {part.name}".strip()
        yield label, Entry(layer.label, one.run, one.call)
