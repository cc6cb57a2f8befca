"""Call a part of an ONNX model as ``fn(x, positions)``.

The inputs are bound by name, element type and rank. The axes of x are found by trying: a change of
one position must change one token, on the axis of the tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref.conformance.calling.rotations import window_start

from .axes import LAYOUTS, SPELLED, from_native, to_native
from .model import Part
from .roles import rank_of, role_of, roles_of, sizes_of, value_of
from .session import FLOATS, Unbound, first_line, numpy_dtype, run, session_of

#: The most elements of x in one call, with tokens in front that only fill up the positions.
_MOST = 2**27
#: Sizes of the first trials: rows of a batch, heads and tokens, all different.
_SIZES = {"b": 2, "h": 3, "s": 5}


@dataclass(frozen=True)
class Bound:
    """A part of a model as a function of a surface; "apply" takes x (B, H, S, D) and positions."""

    call: Callable[..., Any]
    dtype: str
    head_dim: int  #: 0 if there is no x
    how: str  #: one line: the axes of x, and how the positions are passed
    axes: int = 1
    surface: str = "apply"
    remarks: tuple[str, ...] = ()  #: limits of the operator that the calls do not show


class Caller:
    """Runs a part with x in the axes of ``layout``; sizes in ``fixed`` are those of the model."""

    def __init__(
        self, part: Part, session: Any, dtype: Any, layout: str, fixed: Mapping[str, int]
    ) -> None:
        self.part, self.session, self.dtype, self.layout = part, session, dtype, layout
        self.fixed = dict(fixed)
        self.roles = roles_of(part)
        self.kept = True  #: whether all results so far had the element type of x

    @property
    def how_positions(self) -> str:
        """One line: the inputs that hold the positions."""
        named = [name for name, role in self.roles.items() if role == "positions"]
        if named:
            return f"positions in {', '.join(named)}"
        starts = [n for n, r in self.roles.items() if r in ("start", "last", "past")]
        if starts:
            return f"contiguous positions, from the length in {', '.join(starts)}"
        return "positions counted from 0"

    def __call__(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Return y like x (B, H, S, D), run in blocks where the model fixes the sizes."""
        at = np.asarray(positions)
        if at.dtype.kind == "f" and not self._takes_fractions():
            if (at != np.round(at)).any():
                raise ValueError("positions must be whole numbers: the model's input is integer")
            at = at.astype(np.int64)
        if not set(self.roles.values()) & {"positions"}:
            return self._counted(x, at)
        out = np.empty_like(x)
        step = [self.fixed.get(axis) or max(1, n) for axis, n in zip("bhs", x.shape, strict=False)]
        for b in range(0, x.shape[0], step[0]):
            for s in range(0, x.shape[2], step[2]):
                rows, tokens = slice(b, b + step[0]), slice(s, s + step[2])
                block = at[..., tokens] if at.ndim == 1 else at[..., rows, tokens]
                out[rows, :, tokens] = self._heads(x[rows, :, tokens], block, None)
        return out

    def _takes_fractions(self) -> bool:
        return any(
            role == "positions" and self.part.free[name].type.tensor_type.elem_type in FLOATS
            for name, role in self.roles.items()
        )

    def _counted(self, x: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return y where the model counts the positions, from a start or from 0."""
        start = window_start(at)
        roles = set(self.roles.values())
        if roles & {"start", "last", "past"} and not self.fixed.get("s"):
            return self._heads(x, at, start)
        length = self.fixed.get("s") or start + x.shape[2]
        if start + x.shape[2] > length:
            raise ValueError(f"the model has a fixed length of {length} tokens")
        if x.shape[0] * x.shape[1] * length * x.shape[3] > _MOST:
            raise ValueError(
                f"position {length - 1} needs {length} tokens in one call, because the model "
                "counts positions from 0"
            )
        longer = np.zeros((*x.shape[:2], length, x.shape[3]), x.dtype)
        longer[:, :, start : start + x.shape[2]] = x
        y = self._heads(longer, np.arange(length), 0)
        return y[:, :, start : start + x.shape[2]]

    def _heads(self, x: np.ndarray, at: np.ndarray, start: int | None) -> np.ndarray:
        """Run blocks of the model's number of heads; pad batch, heads and tokens with zeros."""
        sizes = dict(zip("bhs", x.shape, strict=False)) | {k: v for k, v in self.fixed.items() if v}
        if sizes["b"] < x.shape[0]:
            parts = [self._heads(row[None], at[..., [i], :] if at.ndim > 1 else at, start)
                     for i, row in enumerate(x)]  # fmt: skip
            return np.concatenate(parts)
        out = np.empty_like(x)
        for h in range(0, max(1, x.shape[1]), max(1, sizes["h"])):
            block = x[:, h : h + sizes["h"]]
            full = np.zeros((sizes["b"], sizes["h"], sizes["s"], x.shape[3]), x.dtype)
            full[tuple(slice(n) for n in block.shape)] = block
            y = self._run(full, _padded(at, sizes), start)
            out[:, h : h + sizes["h"]] = y[tuple(slice(n) for n in block.shape)]
        return out

    def _run(self, x: np.ndarray, at: np.ndarray, start: int | None) -> np.ndarray:
        native = to_native(x, self.layout)
        batch, _, length, _ = x.shape
        if self.layout in ("shd", "s(hd)"):  # the rows of a batch are joined
            at = np.broadcast_to(at, (batch, length)).reshape(-1)
            batch, length = 1, batch * length
        feeds = dict.fromkeys(self.part.given, native)
        for name, value in self.part.free.items():
            feeds[name] = value_of(self.roles[name], value, batch, length, at, start or 0)
        y = np.asarray(run(self.session, feeds)[0])
        if y.shape != native.shape:
            raise ValueError(f"x has the shape {native.shape}, and the result {y.shape}")
        self.kept &= y.dtype == native.dtype
        return from_native(y, self.layout, x.shape)


def _padded(at: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    """Return positions with zeros for the rows and tokens that fill up the model's sizes."""
    lacking = [(0, 0)] * (at.ndim - 1) + [(0, sizes["s"] - at.shape[-1])]
    if at.ndim > 1:
        lacking[-2] = (0, sizes["b"] - at.shape[-2])
    return np.pad(at, lacking) if any(n for _, n in lacking) else at


def bind(part: Part, head_dims: Sequence[int], sizes: Sequence[int] | None, heads: int) -> Bound:
    """Return the part as a function of x and positions.

    ``head_dims`` are the sizes of the head to try if the model does not state the size of x's last
    axis. ``sizes`` are the sizes of x's axes, 0 where the model leaves one open; None: unknown.
    ``heads`` is the number of heads that the operator states, or 0.

    Raises
    ------
    Unbound
        If no element type, axes and size make the part a map of x that depends on the positions.
    """
    problem, first = "", None
    for code, dtype in FLOATS.items():
        try:
            session, evaluator = session_of(part.proto(dict.fromkeys(part.given, code)))
        except Exception as error:  # another element type may fit
            problem = problem or first_line(error)
            continue
        for layout, fixed, dim in _trials(head_dims, sizes, heads):
            known = dict(zip(layout, sizes or (), strict=False))
            caller = Caller(part, session, dtype, layout, fixed)
            try:
                _require_rotation(caller, dim, dtype, known)
            except Exception as error:  # other axes may fit
                problem = first_line(error)
                continue
            how = f"x as {SPELLED[layout]}, {caller.how_positions}{evaluator}"
            bound = Bound(caller, dtype, dim, how, _axes(part))
            if caller.kept:
                return bound
            first = first or bound  # a part that casts takes several types, and returns its own
            break
    if first is not None:
        return first
    raise Unbound(problem or "it cannot be run")


def _trials(
    head_dims: Sequence[int], sizes: Sequence[int] | None, heads: int
) -> Iterator[tuple[str, Mapping[str, int], int]]:
    """Yield axes, fixed sizes and the size of the head, in the order in which they are tried."""
    layouts = [x for rank, every in LAYOUTS.items() for x in every]
    if sizes is not None:
        layouts = list(LAYOUTS.get(len(sizes), ()))
    for layout in layouts:
        axes = layout.replace("(hd)", "c")
        known = dict(zip(axes, sizes or (), strict=False))
        dims = [known["d"]] if known.get("d") else list(head_dims)
        for dim in dims:
            fixed = {axis: known.get(axis, 0) for axis in "bhs"}
            if layout == "hsd":  # one call for each row of a batch
                fixed["b"] = 1
            fixed["h"] = 0 if layout == "hsd" else fixed["h"] or heads or known.get("c", 0) // dim
            stated = {axis: n for axis, n in fixed.items() if n}
            some = {axis: n for axis, n in stated.items() if axis == "h"}
            # With merged heads, the operator's own number of heads sets the size of a head.
            set_by_model = layout == "hsd" or (heads and "c" in axes)
            for choice in (*([] if set_by_model else [{}]), some, stated):
                if choice is not some or some not in ({}, stated):
                    yield layout, choice, dim


def _require_rotation(caller: Caller, dim: int, dtype: str, known: Mapping[str, int]) -> None:
    """Raise unless every head of every token is mapped by itself, according to its place.

    The sizes of the trial are none of the ``known`` ones, unless the caller fixes them.
    """
    size = {a: caller.fixed.get(a) or n + 4 * (known.get(a) == n) for a, n in _SIZES.items()}
    x = np.random.default_rng(0).standard_normal((size["b"], size["h"], size["s"], dim))
    x = x.astype(numpy_dtype(dtype))
    at = np.arange(size["s"])
    y = np.asarray(caller(x, at), np.float64)
    one = (slice(None), 0, -1)
    flipped, expected = x.copy(), y.copy()
    flipped[one], expected[one] = -x[one], -y[one]
    if not np.array_equal(np.asarray(caller(flipped, at), np.float64), expected):
        raise ValueError(
            "a changed head of one token changes other results, or its own not linearly"
        )
    same = np.broadcast_to(x[:, :, :1], x.shape).copy()
    turned = np.asarray(caller(same, at), np.float64)
    if size["s"] > 1 and (turned[:, :, :1] == turned[:, :, 1:]).all():
        raise ValueError("the result does not depend on the position of the token")


def _axes(part: Part) -> int:
    """Return the number of position axes: 3 for an input of positions (3, B, S), else 1."""
    for name, value in part.free.items():
        if role_of(name, value) == "positions" and rank_of(value) == 3:
            return sizes_of(value)[0] or 3
    return 1
