"""Judge recorded cos and sin tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from posenc_ref import Rotary, XPos
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.harness.run import Run, Settings
from posenc_ref.conformance.oracle.apply import cos_sin_truth
from posenc_ref.conformance.phases.declaration import live, nonzero_frequencies
from posenc_ref.conformance.phases.measure import Measured

from . import limits
from .angles import Angles, fit
from .diagnose_angles import diagnose_angles
from .layout import run_of
from .measure import Seen, Tokens
from .roles import Layer

#: How a table with two columns for each pair arranges them.
_ARRANGED: dict[str, Callable[[np.ndarray], Sequence[np.ndarray]]] = {
    "cat(f, f)": lambda t: np.split(t, 2, axis=-1),
    "repeat_interleave(f, 2)": lambda t: (t[..., ::2], t[..., 1::2]),
}


def judge_tables(
    layer: Layer, encoding: Rotary, settings: Settings, name: str
) -> Iterator[tuple[str, Report]]:
    """Judge cos and sin of a layer, if both were recorded; yield a label and a report.

    The tables are (S, n), (B, S, n), or have more axes of size 1; n is the number of pairs, or
    twice that.

    Raises
    ------
    ValueError
        The shapes of the tables do not fit the encoding, the positions, or each other.
    """
    if not layer.has_tables:
        return
    cos, sin = (layer.tensors[role].values for role in ("cos", "sin"))
    run = run_of(layer.tensors["cos"], encoding, settings, name)
    run.report.surface = "cos_sin"
    limits.add_dtype(run, layer.tensors["cos"])
    count = encoding.pairs()[0].size
    if cos.shape != sin.shape or cos.ndim < 2 or cos.shape[-1] not in (count, 2 * count):
        raise ValueError(
            f"{name}: {layer.names['cos']} and {layer.names['sin']} must have the same shape, "
            f"(S, {count}) or (S, {2 * count}) with a batch or not, got {cos.shape} and {sin.shape}"
        )
    both = [_flat(t) for t in (cos, sin)]
    positions = _positions(layer, both[0].shape[:2], encoding.num_axes)
    batch, rows = both[0].shape[:2]
    if isinstance(encoding, XPos):
        run.limit(
            "the scale of xPos may be in its tables or not: cos and sin are not judged; record q "
            "and k without them"
        )
    elif positions is None and rows == 1:
        run.limit(
            "cos has one row, but no position was recorded for it: cos and sin are not judged"
        )
    elif positions is None:
        run.limit("no positions with the shape of cos were recorded: its rows are 0, 1, 2, ...")
        axes = (encoding.num_axes,) if encoding.num_axes > 1 else ()
        assumed = np.broadcast_to(np.arange(rows), (*axes, batch, rows))
        _judge(run, [_columns(t, count) for t in both], assumed)
    else:
        _judge(run, [_columns(t, count) for t in both], positions)
    yield f"{layer.label} cos and sin".strip() if layer.rotated else layer.label, run.finish()


def _flat(table: np.ndarray) -> np.ndarray:
    """Return a table as (B, S, n): axes of size 1 go, a missing batch is added."""
    kept = [n for n in table.shape[:-1] if n != 1]
    if len(kept) > 2:
        raise ValueError(f"cos and sin must have the axes (B, S, n), got {table.shape}")
    shape = (1,) * (2 - len(kept)) + tuple(kept)
    return table.reshape(*shape, table.shape[-1])


def _positions(layer: Layer, shape: tuple[int, ...], axes: int) -> np.ndarray | None:
    """Return the recorded positions (B, S) or (A, B, S) of a table, or None."""
    tensor = layer.tensors.get("positions")
    if tensor is None:
        return None
    p = tensor.values
    if axes > 1 and p.shape[:1] == (axes,) and p.ndim > 1:
        whole: tuple[int, ...] = (axes, *shape)
        p = p[:, None] if p.ndim == 2 else p
    else:
        whole = shape if axes == 1 else (axes, *shape)
    fits = p.ndim > 0 and p.shape[-1] == shape[-1]
    try:
        return np.broadcast_to(p, whole) if fits else None
    except ValueError:
        return None


def _columns(table: np.ndarray, count: int) -> list[np.ndarray]:
    """Return the column of every pair, in the first or the only arrangement that fits the table.

    If none does, both columns of a pair differ; they are returned as of ``cat(f, f)``.
    """
    if table.shape[-1] == count:
        return [table]
    every = [list(arrange(table)) for arrange in _ARRANGED.values()]
    equal = [parts for parts in every if np.array_equal(parts[0], parts[1])]
    return equal[0][:1] if equal else every[0]


def _judge(run: Run, columns: list[list[np.ndarray]], positions: np.ndarray) -> None:
    """Judge cos and sin (B, S, pairs), and diagnose them if they deviate."""
    encoding: Rotary = run.encoding
    truths = cos_sin_truth(encoding, positions)
    for what, parts, truth in zip(("cos", "sin"), columns, truths, strict=True):
        for n, part in enumerate(parts):
            run.judge("values", what if n == 0 else f"{what}, other half", part, truth)
    run.reached(int(np.abs(positions).max(initial=0)))
    cos, sin = (live(encoding, (parts[0].reshape(-1, parts[0].shape[-1]).T,))[0].T
                for parts in columns)  # fmt: skip
    at = positions.reshape(-1, positions.shape[-2] * positions.shape[-1]).astype(np.float64)
    axes = encoding.axes()
    own = at[0][:, None] if axes is None else at[live(encoding, (axes,))[0]].T
    own = np.broadcast_to(own, cos.shape)
    maps = Angles(cos + 1j * encoding.sign * sin, np.ones(cos.shape, bool), own, run.coarse)
    nothing = np.zeros((cos.shape[0], 1, encoding.head_dim))
    seen = Seen(
        Tokens(nothing, nothing, at, run.coarse),
        Measured(at[0][:0], np.zeros((0, 0, 0)), [], [], [], []),
        maps,
        fit(maps, encoding.offset),
    )
    if seen.certain:
        w = seen.fitted.phases.frequencies
        run.report.measured = f"{w.size} pairs, frequencies {w[0]:.6g} .. {w[-1]:.6g}"
    if not positions.any() and not run.failures:
        run.report.executed.pop("values")
        run.limit("every position is 0: cos and sin show no frequency")
        return
    limits.open_questions(run, encoding, seen)
    if run.failures and nonzero_frequencies(encoding).size == cos.shape[1]:
        length = max(int(positions.max()) + 1, 1)
        run.explain(lambda run: diagnose_angles(run, [], seen, length))
