"""Wrong kernels of ONNX's RotaryEmbedding, most of them right where its node tests look.

Every one takes (x, cos, sin, position_ids) and the attributes, as the operator does.
"""

from dataclasses import dataclass
from functools import partial

import ml_dtypes
import numpy as np

from .onnx_nodes import merge, rotate, split, turn


@dataclass(frozen=True)
class Kernel:
    """A wrong kernel, the form of the operator that shows what is wrong, and what it is called."""

    name: str
    make: object  #: a fresh kernel
    code: str  #: our name for it
    passes: bool  #: whether all eight node tests let it through
    interleaved: bool = False
    rotary_dim: int = 0
    merged: bool = False  #: whether x is (B, S, H * D)


WRONG = []


def wrong(code, *, passes, **form):
    """File the decorated kernel, or class of stateful ones."""

    def decorate(thing):
        made = thing if isinstance(thing, type) else lambda: thing
        name = thing.__doc__.strip().splitlines()[0].rstrip(".")
        WRONG.append(Kernel(name, made, code, passes, **form))
        return thing

    return decorate


def changed(what, code, *, passes, **form):
    """File a kernel that does ``what`` to its arrays, and is right otherwise."""

    def decorate(change):
        def kernel(x, cos, sin, ids=None, **attributes):
            return rotate(*change(x, cos, sin, ids), **attributes)

        WRONG.append(Kernel(what, lambda: kernel, code, passes, **form))
        return change

    return decorate


# --- tables and positions ------------------------------------------------------------------------


@changed("cos loses its sign", "not-a-rotation", passes=True)
def _(x, cos, sin, ids):
    return x, np.abs(cos), sin, ids


@changed("sin loses its sign", "not-a-rotation", passes=True)
def _(x, cos, sin, ids):
    return x, cos, np.abs(sin), ids


@changed("tables are clipped to [0, 1]", "not-a-rotation", passes=True)
def _(x, cos, sin, ids):
    return x, np.clip(cos, 0, 1), np.clip(sin, 0, 1), ids


@changed("positions wrap at 50, the rows of a small table", "position-range", passes=True)
def _(x, cos, sin, ids):
    return x, cos, sin, None if ids is None else ids % 50


@changed("positions are clamped to 63", "position-range", passes=True)
def _(x, cos, sin, ids):
    return x, cos, sin, None if ids is None else np.minimum(ids, 63)


@changed("positions are held in int8", "wrong-row", passes=True)
def _(x, cos, sin, ids):
    return x, cos, sin, None if ids is None else ids.astype(np.int8)


@changed("positions are held in int16", "position-range", passes=True)
def _(x, cos, sin, ids):
    return x, cos, sin, None if ids is None else ids.astype(np.int16)


@changed("positions are held in bfloat16", "position-precision", passes=True)
def _(x, cos, sin, ids):
    return x, cos, sin, None if ids is None else ids.astype(ml_dtypes.bfloat16).astype(np.int64)


@changed("positions are ignored: rows are counted from 0", "decode-offset", passes=False)
def _(x, cos, sin, ids):
    tokens = None if ids is None else np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    return x, cos, sin, tokens


@changed("every row of a batch gets the positions of the first", "row-offset", passes=False)
def _(x, cos, sin, ids):
    return x, cos, sin, None if ids is None else np.broadcast_to(ids[:1], ids.shape)


@changed("rows past the second get the positions of the second", "row-offset", passes=True)
def _(x, cos, sin, ids):
    return x, cos, sin, None if ids is None else ids[np.minimum(np.arange(len(ids)), 1)]


@changed("tables are rounded to bfloat16", "table-precision", passes=False)
def _(x, cos, sin, ids):
    return x, *(t.astype(ml_dtypes.bfloat16).astype(np.float32) for t in (cos, sin)), ids


@changed("sin and cos are exchanged", "phase-order", passes=False)
def _(x, cos, sin, ids):
    return x, sin, cos, ids


@changed("the rotation turns the other way", "sign", passes=False)
def _(x, cos, sin, ids):
    return x, cos, -sin, ids


@wrong("state", passes=True)
class FirstPositions:
    """Positions of the first call of a shape are used again."""

    def __init__(self):
        self.seen = {}

    def __call__(self, x, cos, sin, ids=None, **attributes):
        if ids is not None:
            ids = self.seen.setdefault(ids.shape, ids)
        return rotate(x, cos, sin, ids, **attributes)


# --- what x may hold, and how large it may be ----------------------------------------------------


@changed("negative elements of x are set to 0", "not-linear", passes=True)
def _(x, cos, sin, ids):
    return np.maximum(x, 0), cos, sin, ids


@changed("x saturates at 1", "not-linear", passes=True)
def _(x, cos, sin, ids):
    return np.clip(x, -1, 1), cos, sin, ids


@changed("NaN in x becomes 0", "nonfinite", passes=True)
def _(x, cos, sin, ids):
    return np.nan_to_num(x), cos, sin, ids


@wrong("mutates-input", passes=True)
def _(x, cos, sin, ids=None, **attributes):
    """x is written over with the result."""
    x[...] = rotate(x, cos, sin, ids, **attributes)
    return x


def _block(first, axis, x, cos, sin, ids=None, *, num_heads=0, **attributes):
    heads = split(x, num_heads)
    y = np.array(heads)
    chosen = [slice(None)] * 4
    chosen[axis] = slice(first)
    y[tuple(chosen)] = rotate(heads, cos, sin, ids, **attributes)[tuple(chosen)]
    return merge(y, x)


def _blocks():
    for what, axis, first, code in (
        ("only the first 4 heads are rotated", 1, 4, "position-axis"),
        ("only the first 4 tokens are rotated", 2, 4, "wrong-row"),
        ("only the first 2 rows of a batch are rotated", 0, 2, "row-offset"),
    ):
        kernel = partial(_block, first, axis)
        WRONG.append(Kernel(what, lambda kernel=kernel: kernel, code, True))


_blocks()


@wrong("rotary-dim", passes=True)
def _(x, cos, sin, ids=None, *, num_heads=0, rotary_dim=0, **attributes):
    """Channels past the first 8 pass through."""
    heads = split(x, num_heads)
    d = min(rotary_dim or heads.shape[-1], 8)
    rows = (cos, sin) if ids is None else (cos[ids], sin[ids])
    turned = turn(heads, *(t[:, None, :, : d // 2] for t in rows), rotary_dim=d, **attributes)
    return merge(turned, x)


# --- attributes ----------------------------------------------------------------------------------


def _changing(**other):
    """Return a maker of a kernel that changes attributes where ``when`` is true."""
    when, change = other.pop("when"), other

    def kernel(x, cos, sin, ids=None, **attributes):
        if when(x, ids, attributes):
            attributes = attributes | change
        return rotate(x, cos, sin, ids, **attributes)

    return lambda: kernel


WRONG += [
    Kernel(
        "interleaved is ignored where x has three axes",
        _changing(interleaved=False, when=lambda x, ids, attributes: x.ndim == 3),
        "layout",
        True,
        interleaved=True,
        merged=True,
    ),
    Kernel(
        "interleaved is ignored where only a part is rotated",
        _changing(interleaved=False, when=lambda x, ids, attributes: attributes["rotary_dim"]),
        "layout",
        False,
        interleaved=True,
        rotary_dim=16,
    ),
    Kernel(
        "interleaved is ignored",
        _changing(interleaved=False, when=lambda x, ids, attributes: True),
        "layout",
        False,
        interleaved=True,
    ),
]


@wrong("layout", passes=True, interleaved=True, rotary_dim=16, merged=True)
def _(x, cos, sin, ids=None, *, interleaved=False, rotary_dim=0, num_heads=0):
    """Pairs are half-split where x has three axes and only a part is rotated."""
    interleaved = interleaved and not (x.ndim == 3 and rotary_dim)
    attributes = {"interleaved": interleaved, "rotary_dim": rotary_dim, "num_heads": num_heads}
    return rotate(x, cos, sin, ids, **attributes)


@wrong("rotary-dim", passes=False, rotary_dim=16)
def _(x, cos, sin, ids=None, *, rotary_dim=0, num_heads=0, **attributes):
    """The last channels are rotated, not the first."""
    heads = split(x, num_heads)[..., ::-1] if rotary_dim else split(x, num_heads)
    y = rotate(np.roll(heads[..., ::-1], rotary_dim, -1) if rotary_dim else heads, cos, sin, ids,
               rotary_dim=rotary_dim, **attributes)  # fmt: skip
    return merge(np.roll(y, -rotary_dim, -1) if rotary_dim else y, x)


@wrong("position-axis", passes=True, rotary_dim=16, merged=True)
def _(x, cos, sin, ids=None, *, rotary_dim=0, num_heads=0, **attributes):
    """rotary_dim is applied once per token, not once per head, where x has three axes."""
    if x.ndim == 4 or not rotary_dim:
        return rotate(x, cos, sin, ids, rotary_dim=rotary_dim, num_heads=num_heads, **attributes)
    return rotate(x, cos, sin, ids, rotary_dim=rotary_dim, num_heads=1, **attributes)


# --- as an application calls them ----------------------------------------------------------------

HEAD_DIM = 32
#: Rows of the tables; positions past them are refused.
LENGTH = 100_000


def encoding(kernel):
    """Return the declared encoding of a kernel."""
    fields = {"layout": "interleaved" if kernel.interleaved else "half"}
    if kernel.rotary_dim:
        fields["rotary_dim"] = kernel.rotary_dim
    return {"encoding": "RoPE", "head_dim": HEAD_DIM, **fields}


def applied(kernel, made):
    """``fn(x, positions)`` of a kernel, with the tables that a model would give it."""
    d = kernel.rotary_dim or HEAD_DIM
    angles = np.arange(LENGTH)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def fn(x, positions):
        rows, tokens = len(x), x.shape[1 if kernel.merged else 2]
        ids = np.array(np.broadcast_to(positions, (rows, tokens)))
        if ids.dtype.kind not in "iu" or (ids.size and not 0 <= ids.min() <= ids.max() < LENGTH):
            raise ValueError(f"positions must be whole numbers from 0 to {LENGTH - 1}")
        return made(
            x,
            cos,
            sin,
            ids,
            interleaved=kernel.interleaved,
            rotary_dim=kernel.rotary_dim,
            num_heads=x.shape[-1] // HEAD_DIM if kernel.merged else 0,
        )

    return fn
