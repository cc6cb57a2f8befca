"""``compare_recorded``: two recordings against each other, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import ROUNDOFF, Truth
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.harness.run import Run, Settings
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.oracle.apply import exactly
from posenc_ref.conformance.surfaces import Declared

from .call import Recorded
from .files import read
from .identify import common, encodings, explaining, head_dim_of, hint, identify_part, parts_of
from .judge_part import judge_part
from .labels import key_of
from .layer_encoding import of_layer
from .layout import run_of
from .limits import effective_dtype
from .merge import add_stray, merged
from .roles import Layer, layers, strays
from .shapes import Part


@dataclass(frozen=True)
class _Both:
    """A tensor of one layer in both recordings."""

    label: str
    mine: Part
    other: Part
    layers: tuple[Layer, Layer]
    encoding: Rotary | None  #: the declared encoding


def compare_recorded(
    path: str | Path,
    other: str | Path,
    encoding: Declared = None,
    *,
    head_dim: int | None = None,
    roles: Mapping[str, str] | None = None,
    layer_type: str | None = None,
    tensor_layout: str | None = None,
) -> Report:
    """Compare two recordings: whether the first is rotated like the other, and if not, why.

    Where the inputs agree, the results are compared with each other. Each layer is also judged
    against the encoding of the other recording, which names the differences. Inputs that differ do
    not count as a difference of the rotation.

    Parameters
    ----------
    path, other : str or Path
        Two recordings, as in :func:`check_recorded_file`. Layers are matched by their numbers.
    encoding : Rotary or ModelEncoding, optional
        The encoding of ``other``. None: it is identified from the tensors.
    head_dim : int, optional
        The size of a head, needed for tensors (..., heads * head_dim) without ``encoding``.
    roles, layer_type, tensor_layout
        As in :func:`check_recorded_file`, for both recordings.

    Returns
    -------
    Report
        Its ``encoding`` is that of ``other``; ``limits`` say which layers have other inputs.

    Raises
    ------
    TypeError, ValueError
        A file cannot be read, tensors do not fit, or the recordings have no layer in common.
    """
    path, other = Path(path), Path(other)
    arrays = [(read(p), roles or {}, str(p)) for p in (path, other)]
    mine, others = (layers(*recording) for recording in arrays)
    both, alone = _matched(mine, others, path, other)
    pairs: list[_Both] = []
    for one, two in both:
        if not (one.rotated and two.rotated):  # tables only
            continue
        declared = None if encoding is None else of_layer(encoding, two, layer_type)
        dim = declared.head_dim if declared else head_dim or head_dim_of(two)
        axes = declared.num_axes if declared else 1
        own, theirs = (
            parts_of(layer, dim, axes, tensor_layout, declared, str(p))
            for layer, p in ((one, path), (two, other))
        )
        pairs += [
            _Both(f"{one.label} {name}".strip(), own[name], theirs[name], (one, two), declared)
            for name in own
            if name in theirs
        ]
    if not pairs:
        raise ValueError(
            f"{path} and {other} must both hold q, or both k, before and after the rotation"
        )
    cards = {} if encoding is not None else {b.label: _card(b) for b in pairs}
    for b in pairs if cards else ():
        if b.encoding is None and cards[b.label].encoding is None:
            cards[b.label].encoding = explaining(
                encodings(list(cards.values())), b.other, b.layers[1]
            )
    same = common(list(cards.values()))
    reports = [(b.label, _compare(b, cards.get(b.label), str(path))) for b in pairs]
    source = "declared" if encoding is not None else "identified"
    text = f"{other}: " + (
        repr(encoding) + f" ({source})"
        if encoding is not None
        else f"{same!r} ({source})"
        if same
        else "see each tensor"
    )
    report = merged(f"{path} against {other}", text, reports)
    report = replace(report, subject=f"{path} against {other}", encoding=text)
    wrong = [(label, r.measured) for label, r in reports if r.codes]
    count = f"{len(reports)} tensors in {len(both)} layer{'s' * (len(both) > 1)}"
    report.measured = f"{count} compared, {len(wrong)} rotated differently"
    if wrong:
        report.measured += ": the first is " + ": ".join(text for text in wrong[0] if text)
    report.limits += [f"{p}: layer {label} is not in the other recording" for p, label in alone]
    for recording in arrays:
        for _, name, words in strays(*recording):
            add_stray(report, f"{recording[2]}: {name}", f"{recording[2]}: {words}")
    return report


def _matched(
    mine: Sequence[Layer], others: Sequence[Layer], path: Path, other: Path
) -> tuple[list[tuple[Layer, Layer]], list[tuple[Path, str]]]:
    """Return the layers of both recordings in pairs, and those of one recording only."""
    if len(mine) == len(others) == 1:
        return [(mine[0], others[0])], []
    keys: list[list[object]] = [[key_of(layer.label) for layer in p] for p in (mine, others)]
    if any(len(set(k)) < len(k) for k in keys):
        keys = [[layer.label for layer in p] for p in (mine, others)]
    both = [
        (one, others[keys[1].index(key)])
        for key, one in zip(keys[0], mine, strict=True)
        if key in keys[1]
    ]
    if not both:
        raise ValueError(
            f"{path} and {other} have no layer in common: {', '.join(map(str, keys[0]))} and "
            f"{', '.join(map(str, keys[1]))}"
        )
    alone = [(path, one.label) for k, one in zip(keys[0], mine, strict=True) if k not in keys[1]]
    alone += [
        (other, two.label) for k, two in zip(keys[1], others, strict=True) if k not in keys[0]
    ]
    return both, alone


def _card(both: _Both) -> Card:
    dtype = effective_dtype(both.layers[1].tensors[f"{both.other.name}_after"])
    return identify_part(both.other, dtype, both.label)


def _compare(both: _Both, card: Card | None, name: str) -> Report:
    """Compare one tensor; return its report."""
    mine, other = both.mine, both.other
    known = both.encoding or (card.encoding if card is not None else None)
    encoding = known if isinstance(known, Rotary) else None
    dim = mine.x.shape[-1]
    own, theirs = (layer.tensors[f"{mine.name}_after"] for layer in both.layers)
    run = run_of(own, encoding or hint(dim), Settings(), name)
    run.report.encoding = repr(encoding) if encoding else "not identified"
    run.driver.out_dtypes.add(effective_dtype(theirs))  # the tolerance is that of the coarser one
    if other.x.shape[-1] != dim:
        run.add("shape", f"the head size is {dim}, in the other recording {other.x.shape[-1]}")
        return run.finish()
    shared = mine.x.shape == other.x.shape and _same_input(run, both)
    if shared and np.array_equal(mine.positions, other.positions):
        truth = _truth(other, encoding)
        mask = np.broadcast_to(other.finite[:, None, :, None], other.y.shape)
        case, theirs_y = f"{mine.name} after", replace(truth, value=other.y)
        run.judge("values", case, mine.y, theirs_y, mask, mine.positions)
        if not run.failures:
            return run.finish()
    elif encoding is None:
        run.limit(
            "the inputs or the positions differ, and no encoding was identified: not compared"
        )
        return run.finish()
    else:
        run.limit("the inputs or positions differ: judged by the encoding of the other recording")
    if encoding is None:
        reason = card.unknown[0] if card is not None and card.unknown else ""
        run.limit(f"the encoding of the other recording is not identified: {reason}")
        return run.finish()
    length = max(mine.length, other.length)
    judge_part(run, Recorded(encoding, mine, length))
    if run.failures and not run.report.codes:  # the other one may deviate from its own encoding
        again = run_of(theirs, encoding, Settings(), name)
        judge_part(again, Recorded(encoding, other, length))
        for found in again.report.findings:
            run.add(found.code, f"in the other recording: {found.message}", found.evidence)
    return run.finish()


def _same_input(run: Run, both: _Both) -> bool:
    """Return whether the inputs agree within the rounding of the coarser one."""
    stored = [layer.tensors[f"{both.mine.name}_before"] for layer in both.layers]
    coarse = max((effective_dtype(t) for t in stored), key=ROUNDOFF.__getitem__)
    x, y = both.mine.x, both.other.x
    same = np.isfinite(x) == np.isfinite(y)
    finite = np.isfinite(x) & np.isfinite(y)
    score = exactly(y[finite]).score(x[finite], dtype=coarse)
    return bool(same.all() and (score <= 1.0).all())


def _truth(part: Part, encoding: Rotary | None) -> Truth:
    """Return the error unit of the rotation of a tensor; without an encoding, an upper bound."""
    if encoding is not None:
        return Recorded(encoding, part, part.length).truth()
    x = np.where(np.isfinite(part.x), part.x, 0.0)
    size = np.broadcast_to(np.abs(x).max(axis=-1, keepdims=True), x.shape)
    at = np.abs(part.positions) if part.positions.ndim == 2 else np.abs(part.positions).max(axis=0)
    return Truth(part.y, size, size * at[:, None, :, None], size)
