"""``check_recorded``: judge recorded tensors against a declared rotary encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from posenc_ref import Encoding, ModelEncoding, Rotary
from posenc_ref.accuracy import ANGLES, ROUNDOFF
from posenc_ref.conformance.harness.driver import Driver
from posenc_ref.conformance.harness.ledger import Ledger
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.harness.run import Run, Settings, describe
from posenc_ref.conformance.harness.to_host import on_host
from posenc_ref.conformance.phases.declaration import declare
from posenc_ref.conformance.surfaces import Declared

from . import axes, limits
from .angles import fit
from .call import Recorded
from .diagnose import Seen, diagnose, fits_declared
from .files import Tensor, read
from .measure import MISFIT, declared_channels, rotation, structure, tokens
from .merge import merged
from .roles import Layer, layers
from .shapes import Part, blocks, readings

#: The most elements of x that are judged at once.
_BLOCK = 2**20


def check_recorded(
    before: Any,
    after: Any,
    positions: Any = None,
    encoding: Declared = None,
    *,
    tensor_layout: str | None = None,
    angles: str | None = None,
    precision: str | None = None,
    name: str = "recorded tensors",
) -> Report:
    """Judge recorded tensors: ``after`` must be the rotation of ``before`` by ``encoding``.

    Parameters
    ----------
    before, after : array, or mapping of str to array
        q (or k) before and after the rotation, of any library; or both q and k as
        ``{{"q": ..., "k": ...}}``. (B, H, S, D) or another tensor layout.
    positions : array, optional
        The positions of the tokens: (S,), (B, S), (A, B, S) for A axes, or one number, the position
        of the first token. None: they are taken to be 0, 1, 2, ..., and the report says so.
    encoding : Rotary or ModelEncoding
        The declared encoding; a model must have only one.
    tensor_layout : str, optional
        {layouts}. By default the layout that fits the shapes, and the rotation if several fit.
    angles, precision
        As in :func:`check`.
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
            "before and after must be arrays, or mappings with the same keys out of q, k and x; got "
            f"{' and '.join(str(sorted(map(str, g))) for g in given)}"
        )
    tensors = {
        f"{key}_{when}": array
        for when, arrays in zip(("before", "after"), given, strict=True)
        for key, array in arrays.items()
    }
    if positions is not None:
        tensors["positions"] = positions
    layer = Layer("", {r: Tensor.of(r, t) for r, t in tensors.items()}, {r: r for r in tensors})
    return _check([layer], encoding, None, tensor_layout, angles, precision, name)


def check_recorded_file(
    path: str | Path,
    encoding: Declared,
    *,
    roles: Mapping[str, str] | None = None,
    layer_type: str | None = None,
    tensor_layout: str | None = None,
    angles: str | None = None,
    precision: str | None = None,
) -> Report:
    """Judge the tensors of a file as :func:`check_recorded` does, layer by layer.

    Parameters
    ----------
    path : str or Path
        A .npz file, a .safetensors file, or a folder of .npy files.
    encoding : Rotary or ModelEncoding
        The declared encoding. A model gives each layer its own if the names have layer numbers.
    roles : mapping of str to str, optional
        The names of the tensors by role, such as ``{"q_before": "attn.q"}``; a ``*`` stands for
        the layer. Other tensors are recognised by their names.
    layer_type : str, optional
        The layer type of all layers, if ``encoding`` is a model.

    Raises
    ------
    TypeError, ValueError
        The file cannot be read, tensors are missing or do not fit, or the encoding is no rotation.
    """
    path = Path(path)
    found = layers(read(path), roles or {}, str(path))
    return _check(found, encoding, layer_type, tensor_layout, angles, precision, str(path))


def _check(
    recorded: Sequence[Layer],
    encoding: Declared,
    layer_type: str | None,
    tensor_layout: str | None,
    angles: str | None,
    precision: str | None,
    name: str,
) -> Report:
    """Judge every layer, and return one report."""
    for argument, value, allowed in (
        ("angles", angles, ANGLES),
        ("precision", precision, tuple(ROUNDOFF)),
    ):
        if value is not None and value not in allowed:
            raise ValueError(f"{argument} must be one of {', '.join(allowed)}, got {value!r}")
    settings = Settings(angles=angles, precision=precision)
    reports = []
    for layer in recorded:
        own = of_layer(encoding, layer, layer_type)
        if own is None:
            continue
        reports.append((layer.label, _judge_layer(layer, own, tensor_layout, settings, name)))
    if not reports:
        raise ValueError(f"{name}: the model rotates nothing in the recorded layers")
    return merged(name, describe(encoding), reports)


def of_layer(encoding: Declared, layer: Layer, layer_type: str | None) -> Rotary | None:
    """Return the rotary encoding of a layer, or None if the model's layer has no encoding."""
    own: Encoding | None
    if isinstance(encoding, ModelEncoding):
        own = _of_model(encoding, layer, layer_type)
        if own is None:
            return None
    else:
        own = encoding
    own = on_host(own)
    if not isinstance(own, Rotary):
        raise ValueError(
            "encoding must be a rotary encoding, because tensors are recorded before and after a "
            f"rotation; got {type(own).__name__}"
        )
    return own


def _of_model(model: ModelEncoding, layer: Layer, layer_type: str | None) -> Encoding | None:
    kinds = {k: e for k, e in model.encodings.items() if e is not None}
    if layer_type is not None:
        if layer_type not in model.encodings:
            listed = ", ".join(model.encodings)
            raise ValueError(f"layer_type must be one of {listed}, got {layer_type!r}")
        return model.encodings[layer_type]
    n = layer.number
    if n is not None and model.layer_types:
        if n >= len(model.layer_types):
            raise ValueError(
                f"layer {n} is past the last layer of {model.name}, which has "
                f"{len(model.layer_types)} layers counted from 0"
            )
        return model.encodings.get(model.layer_types[n])
    if len(set(kinds.values())) == 1:
        return next(iter(kinds.values()))
    raise ValueError(
        f"{model.name} has several encodings, and the names of the tensors give no layer number: "
        f"say the layer type, one of {', '.join(kinds)} (--layer-type)"
    )


def _judge_layer(
    layer: Layer, encoding: Rotary, wanted: str | None, settings: Settings, name: str
) -> Report:
    """Judge one layer; return its report."""
    stored = max((layer.tensors[f"{t}_after"].dtype for t in layer.rotated), key=ROUNDOFF.get)  # type: ignore[arg-type]
    found = readings(layer, encoding.head_dim, encoding.num_axes, wanted)
    after = [layer.tensors[f"{t}_after"].values for t in layer.rotated]
    dtype = limits.effective_dtype(after, stored)
    driver = Driver(_refuse, "numpy", dtype=dtype)
    report = Report(name, "apply", describe(encoding), "recorded", dtype, required=("values",))
    run = Run(driver, encoding, settings, Ledger(report))
    layout, parts = _choose(run, found)
    limits.add(run, layer, layout, [key for key in found if key != layout], stored)
    if not any(p.telling.any() for p in parts):
        run.limit("every input is 0 or not finite: nothing can be judged")
        return run.finish()
    calls = [Recorded(encoding, p, max(p.length for p in parts)) for p in parts]
    if not _finite(run, parts):
        return run.finish()
    visible = sum([_values(run, call) for call in calls])
    of = tokens(parts, run.coarse)
    measured, maps = structure(
        of, declared_channels(encoding), encoding.frequencies(calls[0].length)
    )
    maps = axes.follow(maps, of, encoding)
    seen = Seen(of, measured, maps, fit(maps, encoding.offset))
    measured.phases = seen.fitted.phases
    report.measured = measured.describe()
    if not visible and not run.failures:
        report.executed.pop("values", None)
        run.limit(
            "the declared rotation changes no element by more than the tolerance at these "
            "positions: record later positions"
        )
        return run.finish()
    if seen.coarse and encoding.num_axes == 1 and not run.failures:
        run.count("fitted parameters")
        wrong = fits_declared(declare(encoding), seen) if not encoding.depends_on_length else ""
        if wrong:
            run.failed("fitted parameters", "least squares", np.inf, wrong)
    limits.open_questions(run, encoding, seen)
    if run.failures:
        run.explain(lambda run: diagnose(run, calls, seen))
    return run.finish()


def _refuse(*_: Any) -> Any:
    raise RuntimeError("recorded tensors have no function to call")


def _choose(run: Run, found: Mapping[str, list[Part]]) -> tuple[str, list[Part]]:
    """Return the tensor layout in which the tensors conform, or else are rotated by any encoding.

    If several do, the first one of the list of layouts is taken.
    """
    if len(found) == 1:
        return next(iter(found.items()))

    def misfit(parts: list[Part]) -> tuple[float, float]:
        if not any(p.telling.any() for p in parts):
            return 0.0, 0.0
        wrong = np.mean([_wrong(run, p) for p in parts])
        of = tokens(parts, run.coarse)
        measured, maps = structure(
            of, declared_channels(run.encoding), run.encoding.frequencies(parts[0].length)
        )
        unpaired = len(measured.odd) if maps.map.size or not of.moved.any() else len(of.moved)
        own = rotation(of, declared_channels(run.encoding))[2].max(initial=0.0)
        return (0.0, 0.0) if wrong == 0 else (1.0 + unpaired, float(max(own, MISFIT) + wrong))

    layout = min(found, key=lambda name: misfit(found[name]))
    return layout, found[layout]


def _wrong(run: Run, part: Part) -> float:
    """Return the share of wrong elements among the first tokens."""
    first = next(blocks(part, _BLOCK // 8))
    few = replace(
        part,
        x=part.x[:, :, first],
        y=part.y[:, :, first],
        positions=part.positions[..., first],
    )
    truth = Recorded(run.encoding, few, part.length).truth()
    mask = few.finite[:, None, :, None]
    return float(np.mean((run.scores(few.y, truth) > run.budget) & mask))


def _finite(run: Run, parts: Sequence[Part]) -> bool:
    """Report results that are not finite although the inputs are; return whether there are none."""
    for p in parts:
        bad = ~np.isfinite(p.y) & p.finite[:, None, :, None]
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            run.add(
                "nonfinite",
                f"{p.y[at]} in {p.name} after the rotation, for a finite {p.name} before it",
                f"index {at} of (B, H, S, D), {int(bad.sum())} elements",
            )
            return False
        if not p.finite.all():
            run.limit(
                f"{int((~p.finite).sum())} of {p.finite.size} tokens of {p.name} are not finite "
                "before the rotation: they are not judged"
            )
    return True


def _values(run: Run, call: Recorded) -> int:
    """Judge all elements of one tensor; return how many the declared rotation visibly changes."""
    part, visible = call.part, 0
    for some in blocks(part, _BLOCK):
        truth = call.truth(some)
        mask = np.broadcast_to(part.finite[:, some][:, None, :, None], truth.value.shape)
        last = min(some.stop, part.x.shape[2]) - 1
        run.judge("values", f"{part.name}, tokens {some.start}..{last}", part.y[:, :, some], truth,
                  mask)  # fmt: skip
        x = np.where(mask, part.x[:, :, some], 0.0)
        visible += int((run.scores(x, truth) > run.budget).sum())
    judged = np.abs(part.positions[..., part.telling])
    run.reached(int(judged.max(initial=0)))
    return visible
