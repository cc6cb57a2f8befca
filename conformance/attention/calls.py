"""The calls of ``attention``: sizes, positions, and the sizes of the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from posenc_ref import Bias, MixedRoPE, Rotary, Score, XPos
from posenc_ref.conformance.functions.function import Arguments
from posenc_ref.conformance.functions.heads import by_head
from posenc_ref.conformance.harness.probes import dense
from posenc_ref.conformance.oracle.attention import attention_of, most_tokens, whole_tokens
from posenc_ref.conformance.score.far import LONGEST, late_frequencies, late_scale
from posenc_ref.rotary_score import RotaryScore

#: The last position that ``apply`` and ``attention`` are judged at.
LAST = 2**20 - 1
#: Channels of a head if the encoding does not define them.
_DIM = 64
#: The farthest position on the second and later axes.
_SIDE = 97
#: The largest angle of pairs that are not made smaller.
_TURN = 30.0
#: A factor on q with which exp() of a logit overflows; 16 bits have too few digits for more.
_LOUD = {"float64": 300.0, "float32": 40.0}
_LOUD_16_BITS = 6.0


@dataclass(frozen=True)
class Call:
    """The sizes of one call, and what is drawn."""

    b: int
    h: int
    group: int  #: query heads of each key head
    n_q: int
    n_k: int
    start: int = 0  #: the first position
    _: KW_ONLY
    last: int | None = None  #: the last position, with gaps before it
    apart: bool = False  #: whether queries have other positions than the last keys
    loud: bool = False  #: whether q is large
    below: bool = False  #: whether the logit of a query's own key is far below 0
    sunk: bool = False  #: whether sinks are large
    wide: bool = False  #: whether values have another number of channels
    slow: bool = False  #: whether pairs that turn far are small: their angles are not exact
    required: bool = False


#: Required calls first, without groups.
CALLS = (
    Call(2, 3, 1, 5, 5, required=True), Call(3, 2, 1, 4, 4, required=True),
    Call(1, 4, 1, 2, 2, required=True),
    Call(1, 3, 1, 1, 7), Call(2, 2, 1, 3, 11), Call(2, 6, 2, 5, 5), Call(1, 8, 4, 1, 9),
    Call(1, 4, 4, 6, 6), Call(1, 2, 1, 6, 6, 1000), Call(2, 4, 2, 3, 8, 4093),
    Call(1, 1, 1, 33, 33), Call(1, 2, 2, 2, 130),
    Call(4, 12, 3, 2, 5), Call(1, 10, 5, 1, 3), Call(1, 12, 6, 2, 4), Call(1, 14, 7, 1, 4),
    Call(6, 16, 8, 2, 3), Call(1, 40, 1, 2, 3), Call(1, 1, 1, 150, 150), Call(1, 1, 1, 1, 256),
    Call(1, 1, 1, 1, 2050), Call(2, 2, 1, 9, 12, loud=True), Call(1, 2, 1, 3, 6, wide=True),
    Call(1, 6, 2, 2, 4, sunk=True), Call(2, 2, 1, 6, 6, below=True),
    Call(2, 2, 1, 4, 9, 3, last=70), Call(1, 2, 2, 2, 20, last=2900),
    Call(2, 2, 1, 4, 9, 5, last=90),  # as many queries and keys, at other positions
    Call(1, 2, 1, 3, 6, last=40, apart=True),
)  # fmt: skip
#: Calls far out, for encodings of which only the difference of two positions is computed exactly.
FAR_CALLS = (
    Call(2, 2, 1, 3, 8, 32765, slow=True), Call(1, 2, 1, 2, 9, 40000, last=40950, slow=True),
    Call(1, 2, 1, 2, 6, 300001, last=302040, slow=True),
    Call(1, 2, 1, 3, 5, 7, last=LAST, slow=True),
    Call(2, 9, 1, 17, 33, 8180, slow=True), Call(3, 12, 3, 1, 40, 131040, slow=True),
    Call(1, 16, 8, 4, 4, 1022, slow=True), Call(1, 2, 1, 129, 129, 16330, slow=True),
)  # fmt: skip


def late_positions(declared: Any) -> dict[int, str]:
    """Return last positions at which something acts that acts at no early one, with its words."""
    of = attention_of(declared)
    found = (
        (late_scale(of.query_scale), f"{type(of.query_scale).__name__} acts"),
        (late_frequencies(of.encoding), "the frequencies of long sequences hold"),
    )
    most = most_tokens(of.encoding)
    return {at: words for at, words in found if at is not None and (most is None or at < most)}


def far_lengths(declared: Any) -> tuple[int, ...]:
    """Return numbers of keys with which queries meet keys under every rule of the encoding."""
    e = attention_of(declared).encoding
    return e.telling_lengths if isinstance(e, RotaryScore) else ()


def _sizes(declared: Any, dtype: str) -> Iterator[Call]:
    of = attention_of(declared)
    e = of.encoding
    unlimited = most_tokens(e) is None
    rotated = isinstance(e, Rotary) and not isinstance(e, XPos)
    spread = unlimited and (rotated or e is None or isinstance(e, Bias))
    for call in CALLS:
        left = call.start and not unlimited
        left = left or (call.last is not None and not spread)
        left = left or (call.apart and (of.causal or isinstance(e, Bias)))
        left = left or (call.below and dtype not in _LOUD)
        left = left or (call.sunk and not of.sinks) or (call.wide and of.values != "plain")
        if not left:
            yield call
    if rotated or e is None:
        yield from FAR_CALLS
    for n in far_lengths(declared):
        if n <= LONGEST:
            yield Call(1, 1, 1, 1, n)
    for last in late_positions(declared):
        if last <= LAST:
            yield Call(1, 2, 1, 2, 8, max(last - 7, 0), slow=True)


def _positions(call: Call, axes: int, seed: int) -> np.ndarray:
    """Return the positions of keys, (K,) or (A, B, K): axes and batch rows differ."""
    rng, n = np.random.default_rng(seed), call.n_k
    at = call.start + np.arange(n)
    if call.last is not None:
        free = np.arange(call.start, call.last)
        at = np.append(np.sort(rng.choice(free, n - 1, replace=False)), call.last)
    if axes == 1:
        return at
    rows = at + 3 * np.arange(call.b)[:, None]
    if call.last is not None:
        rows = rows - 3 * (call.b - 1)
    other = rng.integers(0, _SIDE, (axes - 1, call.b, n))
    return np.concatenate([rows[None], other])


def calls(declared: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    """Yield the calls of an attention; all but the first three may be refused."""
    of = attention_of(declared)
    e: Any = of.encoding
    d = getattr(e, "head_dim", None) or _DIM
    fixed = e.num_heads if isinstance(e, Bias) else e.heads if isinstance(e, Score) else None
    fixed = getattr(e, "heads", None) if isinstance(e, Rotary) and by_head(e) else fixed
    axes = e.num_axes if isinstance(e, Rotary) else 1
    most, whole = most_tokens(e), whole_tokens(e)
    for i, call in enumerate(_sizes(declared, dtype)):
        n_k = whole or min(call.n_k, most or call.n_k)
        n_q = whole or min(call.n_q, n_k)
        h, group = call.h, call.group
        if of.values == "shared":
            group = h  # one tensor is all keys and values
        if fixed is not None:
            group = group if fixed % group == 0 else fixed
            h = fixed
        one = replace(call, h=h, group=group, n_q=n_q, n_k=n_k)
        yield Arguments(_name(one), _drawn(of, one, i, (d, axes, seed, dtype)), call.required)


def _drawn(of: Any, call: Call, i: int, by: tuple[int, int, int, str]) -> tuple[Any, ...]:
    d, axes, seed, dtype = by
    held = call.h // call.group
    channels = d + 3 if call.wide else d
    sizes = ((call.h, call.n_q, d), (held, call.n_k, d), (held, call.n_k, channels))
    q, k, v = (dense((call.b, *size), seed + 90 + 3 * i + j) for j, size in enumerate(sizes))
    if call.loud:
        q = q * _LOUD.get(dtype, _LOUD_16_BITS)
    if call.below:  # a first query that sees its own key alone has no other logit
        q = -_LOUD[dtype] * np.repeat(k, call.group, axis=1)[:, :, call.n_k - call.n_q :]
    k_at = _positions(call, axes, seed + i)
    if call.slow:
        k = k * _slow(of.encoding, d, 1 + int(k_at.max()))
        v = v * _slow(of.encoding, d, 1 + int(k_at.max()))
    q_at = k_at[..., call.n_k - call.n_q :]
    if call.apart:
        q_at = q_at[..., ::-1] // 2 + 1
    arguments = [q, k, k.copy() if of.values == "shared" else v, q_at, k_at]
    if of.sinks:
        arguments.append((6.0 if call.sunk else 1.5) * dense((call.h,), seed + 80 + i))
    return tuple(arguments)


def _slow(e: Any, d: int, length: int) -> np.ndarray:
    """Return factors (d,) that leave pairs their size while they turn less than ``_TURN``.

    Angles of the others have errors in float32 that would hide those of the slow pairs.
    """
    by = np.ones(d)
    if isinstance(e, Rotary):
        heads = [e.head(h) for h in range(e.heads)] if isinstance(e, MixedRoPE) and e.heads else [e]
        n = length if e.depends_on_length else None
        each = [np.abs(one.frequencies(n)) for one in heads]
        angles = length * np.max([t.reshape(-1, t.shape[-1]).max(axis=0) for t in each], axis=0)
        for channels in e.pairs():
            by[channels] = _TURN / np.maximum(angles, _TURN)
    return by


def _name(call: Call) -> str:
    sizes = (call.b, call.h, call.h // call.group, call.n_q, call.n_k)
    name = f"B, H, H_kv, Q, K = {', '.join(map(str, sizes))}"
    if call.last is not None:
        return f"{name}, positions from {call.start} to {call.last} with gaps"
    name += f", positions from {call.start}" * bool(call.start)
    name += ", negative logits" * call.below
    name += ", large logits" * call.loud + ", large sinks" * call.sunk
    return name + ", more channels of values" * call.wide
