"""``check_recorded``: judge recorded tensors against a declared rotary encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posenc_ref import Rotary, XPos
from posenc_ref.accuracy import ANGLES, ROUNDOFF
from posenc_ref.conformance.harness.report import NOTHING, Report
from posenc_ref.conformance.harness.run import Run, Settings, describe
from posenc_ref.conformance.surfaces import Declared

from . import axes, limits
from .angles import fit
from .call import Recorded
from .diagnose import RECORD_BOTH, diagnose
from .diagnose_angles import wrong_factor
from .files import Tensor, read
from .layer_encoding import of_layer
from .layout import chosen, run_of
from .measure import Seen, declared_channels, structure, tokens
from .merge import add_stray, merged
from .roles import Layer, layers, strays
from .shapes import Part, blocks, readings
from .tables import judge_tables

#: The most elements of x that are judged at once.
_BLOCK = 2**20
#: Errors of a token that do not depend on its position.
AT_ANY_POSITION = (
    "nonfinite", "not-a-rotation", "layout", "output-layout", "mixed-layout", "rotary-dim",
    "amplitude", "attention-factor",
)  # fmt: skip


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
        ``{"q": ..., "k": ...}``. (B, H, S, D) or another tensor layout.
    positions : array, optional
        The positions of the tokens: (S,), (B, S), (A, B, S) for A axes, or one number, the position
        of the first token. None: they are taken to be 0, 1, 2, ..., and the report says so.
    encoding : Rotary or ModelEncoding
        The declared encoding; a model must have only one.
    tensor_layout : str, optional
        "bhsd", "bshd", "sbhd", "thd", "hsd", "bs(hd)" or "t(hd)", where T counts the tokens of all
        sequences. By default the layout that fits the shapes, and the rotation if several fit.
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
            "before and after must be arrays, or mappings with the same keys among q, k and x; got "
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
    tensor_layout, angles, precision
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
    report = _check(found, encoding, layer_type, tensor_layout, angles, precision, str(path))
    for layer, tensor, text in strays(arrays, roles, str(path)):
        if layer.number is None or of_layer(encoding, layer, layer_type) is not None:
            add_stray(report, tensor, text)
    return report


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
    reports: list[tuple[str, Report]] = []
    for layer in recorded:
        own = of_layer(encoding, layer, layer_type)
        if own is None:
            continue
        reports += _judge_layer(layer, own, tensor_layout, settings, name)
    if not reports:
        raise ValueError(f"{name}: none of the recorded layers rotates")
    return merged(name, describe(encoding), reports)


def _judge_layer(
    layer: Layer, encoding: Rotary, wanted: str | None, settings: Settings, name: str
) -> Iterator[tuple[str, Report]]:
    """Judge the tables, q and k of one layer; yield a label and a report for each."""
    yield from judge_tables(layer, encoding, settings, name)
    if not layer.rotated:
        return
    found = readings(layer, encoding.head_dim, encoding.num_axes, wanted, name)
    runs = {t: run_of(layer.tensors[f"{t}_after"], encoding, settings, name) for t in layer.rotated}
    layout = chosen(runs, found)
    others = [key for key, parts in found.items() if key != layout and parts[0].x.shape[2] > 1]
    parts = found[layout]
    length = max(p.length for p in parts)
    for part in parts:
        run = runs[part.name]
        limits.add(run, layer, part, layout, others)
        known = len(run.report.limits)
        judge_part(run, Recorded(encoding, part, length))
        if part.unplaced:
            _leave_open(run, known)
        alone = len(parts) == 1 and not layer.has_tables
        label = layer.label if alone else f"{layer.label} {part.name}".strip()
        yield label, run.finish()


def judge_part(run: Run, call: Recorded) -> None:
    """Judge one tensor, and diagnose it if it deviates."""
    encoding, part = call.encoding, call.part
    if not _finite(run, part):
        return
    visible = _values(run, call)
    if not part.telling.any():
        _nothing_to_rotate(run, part)
        return
    of = tokens(part, run.coarse)
    measured, maps = structure(of, declared_channels(encoding), encoding.frequencies(call.length))
    maps = axes.follow(maps, of, encoding)
    seen = Seen(of, measured, maps, fit(maps, encoding.offset))
    if seen.certain and (encoding.num_axes == 1 or encoding.axes() is not None):
        measured.phases = seen.fitted.phases
    run.report.measured = measured.describe()
    if not visible and not run.failures:
        run.report.executed.pop("values")
        run.limit(
            "the declared rotation changes no element by more than the tolerance at these "
            "positions: record later positions"
        )
        return
    if seen.coarse and maps.valid.any() and not isinstance(encoding, XPos):
        run.count("fitted parameters")
        wrong = wrong_factor(encoding.attention_factor(call.length), seen)
        if wrong and not run.failures:
            run.failed("fitted parameters", "least squares", np.inf, wrong)
    limits.open_questions(run, encoding, seen)
    if run.failures:
        run.explain(diagnose, [call], seen)


def _leave_open(run: Run, known: int) -> None:
    """Keep the errors that any position shows; without one, the tensor is not judged.

    Only the first ``known`` limits remain: the others concern the assumed position.
    """
    report = run.report
    del report.limits[known:]
    report.findings[:] = [f for f in report.findings if f.code in AT_ANY_POSITION]
    text = "no positions recorded, and one token has no position that could be assumed"
    if report.codes:
        run.limit(f"{text}: frequencies are not judged")
        return
    run.failures.clear()
    run.ledger.worst, run.ledger.where = 0.0, NOTHING
    report.executed.pop("values", None)
    run.limit(f"{text}: nothing can be judged; record positions")


def _nothing_to_rotate(run: Run, part: Part) -> None:
    """Report a result that is not 0 for inputs that are; without one, nothing was judged."""
    if run.failures:
        run.add(
            "not-a-rotation",
            f"{part.name} is 0 before the rotation and not 0 after it",
            run.failures[0].place,
            remedy=RECORD_BOTH,
        )
        return
    run.report.executed.pop("values")
    run.limit("every input is 0 or not finite: nothing can be judged")


def _finite(run: Run, part: Part) -> bool:
    """Report results that are not finite although the inputs are; return whether there are none."""
    bad = ~np.isfinite(part.y) & part.finite[:, None, :, None]
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        run.add(
            "nonfinite",
            f"{part.y[at]} in {part.name} after the rotation, for a finite {part.name} before it",
            f"index {at} of (B, H, S, D), {int(bad.sum())} elements",
        )
        return False
    if part.finite.any() and not part.finite.all():
        run.limit(
            f"{int((~part.finite).sum())} of {part.finite.size} tokens of {part.name} are not "
            "finite before the rotation: they are not judged"
        )
    return True


def _values(run: Run, call: Recorded) -> int:
    """Judge all elements of one tensor; return how many the declared rotation visibly changes."""
    part, visible = call.part, 0
    for some in blocks(part, _BLOCK):
        truth = call.truth(some)
        mask = np.broadcast_to(part.finite[:, some][:, None, :, None], truth.value.shape)
        last = min(some.stop, part.x.shape[2]) - 1
        case = f"{part.name}, tokens {some.start}..{last}"
        case += f" counted from {some.start}" if some.start else ""
        run.judge("values", case, part.y[:, :, some], truth, mask)
        x = np.where(mask, part.x[:, :, some], 0.0)
        visible += int((run.scores(x, truth) > run.budget).sum())
    judged = np.abs(part.positions[..., part.telling])
    run.reached(int(judged.max(initial=0)))
    return visible
