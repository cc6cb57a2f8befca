"""The formulas of scores that depend on the tokens between key and query."""

from __future__ import annotations

import numpy as np

from posenc_ref import PaTH, SelectiveRoPE
from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS, significant
from posenc_ref.conformance.diagnosis.steps import Steps
from posenc_ref.conformance.oracle.scores import Parts, Scored

from .changed import Change
from .formula_parts import Terms, content
from .registered import formula, mistakes

_RANGE = "token-range"
#: Chunk lengths of kernels, at whose edges a sum may start again.
_CHUNKS = (16, 32, 64, 128, 256)


@formula(SelectiveRoPE)
def selective(call: Scored, s: Steps) -> Terms:
    """Return the terms of rotations whose angles are sums over the tokens."""
    e: SelectiveRoPE = call.encoding
    phi = np.asarray(e.increments, np.float64)
    phi = s.pick(
        "the increments",
        phi,
        ("head-order", "have their heads in reverse order", phi[::-1]),
        ("head-order", "are those of head 0 for every head", phi[:1] + 0 * phi),
        ("wrong-row", "have their pairs in reverse order", phi[..., ::-1]),
        ("position-scale", "are doubled", 2 * phi),
        ("position-scale", "are halved", phi / 2),
        right="Turn pair k of head h by the sum of its own increments, as declared.",
    )
    sums = np.cumsum(phi, axis=1)
    angle = s.pick(
        "the angle",
        sums,
        (_RANGE, "leaves out the token's own increment", sums - phi),
        (_RANGE, "leaves out the first token's increment", sums - phi[:, :1]),
        (_RANGE, "is the token's own increment, not a sum", phi),
        (_RANGE, "is summed from the last token to the token", sums[:, -1:] - sums + phi),
        *((_RANGE, f"starts again at 0 every {n} tokens", _restarted(sums, n)) for n in _CHUNKS),
        (_RANGE, "is the mean of the increments, not their sum",
         sums / np.arange(1, sums.shape[1] + 1)[:, None]),
        ("range-reduction", "is taken modulo pi, not 2 pi", np.mod(sums, np.pi)),
        right="Sum the increments from the first token of the sequence to the token itself, both "
        "included; keep the sum between chunks and calls.",
    )  # fmt: skip
    angle = s.pick(
        "the sum",
        angle,
        *(("angle-precision", f"is rounded to {kind}", significant(angle, n))
          for kind, n in SIGNIFICANT_BITS.items()),
        right="Sum the increments in float32 or float64, and take cos and sin of that sum.",
    )  # fmt: skip

    def product(layout: str, turn_q: int = 1, turn_k: int = 1, start: int = 0) -> np.ndarray:
        q, k = (
            _rotated(x, sign * angle[:, at], layout, start)
            for x, sign, at in zip((call.q, call.k), (turn_q, turn_k), call.positions, strict=True)
        )
        return np.asarray(q @ np.swapaxes(k, -1, -2) * call.scale)

    other = "half" if e.layout == "interleaved" else "interleaved"
    rest = e.head_dim - 2 * e.pairs
    value = s.pick(
        "the rotation",
        product(e.layout),
        ("layout", f"pairs channels as {other} does", product(other)),
        ("sign", "turns keys the other way than queries", product(e.layout, 1, -1)),
        ("sign", "turns the other way", product(e.layout, -1, -1)),
        ("score-term", "is not applied to keys", product(e.layout, 1, 0)),
        ("score-term", "is not applied to queries", product(e.layout, 0, 1)),
        *([("rotary-dim", "turns the last channels, not the first", product(e.layout, start=rest))]
          if rest else []),
        right=f"Turn the pairs of q and k by +angle, in the layout {e.layout!r}, and pass channels "
        f"from {2 * e.pairs} on through.",
    )  # fmt: skip
    return {"content-content": value}


def _restarted(sums: np.ndarray, size: int) -> np.ndarray:
    """Return sums (H, S, P) that start again at every multiple of ``size`` tokens."""
    at = np.arange(sums.shape[1]) // size * size
    before = np.concatenate([np.zeros_like(sums[:, :1]), sums], axis=1)
    return np.asarray(sums - before[:, at])


def _rotated(x: np.ndarray, angle: np.ndarray, layout: str, start: int) -> np.ndarray:
    """Return x (B, H, N, d) with the pairs from channel ``start`` on turned by angle (H, N, P)."""
    n = angle.shape[-1]
    pair = np.arange(n)
    one, two = (pair, pair + n) if layout == "half" else (2 * pair, 2 * pair + 1)
    c, s, y = np.cos(angle), np.sin(angle), x.copy()
    a, b = x[..., start + one], x[..., start + two]
    y[..., start + one], y[..., start + two] = a * c - b * s, a * s + b * c
    return y


@formula(PaTH)
def path(call: Scored, s: Steps) -> Terms:
    """Return the terms of PaTH."""
    e: PaTH = call.encoding
    v = s.array("the direction", e.directions, ("head", "token", "channel"))
    size = np.sqrt((v * v).sum(axis=-1, keepdims=True))
    code = "score-term"
    w = s.pick(
        "the vector w",
        v / size,
        (code, "is the direction itself, not of unit length", v),
        (code, "is divided by the square of its length", v / size**2),
        (code, "is divided by its largest channel", v / np.abs(v).max(axis=-1, keepdims=True)),
        (code, "is divided by the mean length of the head's directions, not by its own length",
         v / size.mean(axis=1, keepdims=True)),
        (code, "is divided by the mean length of all directions, not by its own length",
         v / size.mean()),
        (code, "is divided by the longest of the head's directions, not by its own length",
         v / size.max(axis=1, keepdims=True)),
        (code, "has unit length over all heads, not in each head",
         v / np.sqrt((size * size).sum(axis=0, keepdims=True))),
        right="Divide the direction of each head by its Euclidean length.",
    )  # fmt: skip
    beta = s.factor("beta", e.beta, code)
    own, key = "the query's own matrix", "the key's own matrix"
    value = s.pick(
        "the product over tokens",
        _carried(call, w, beta),
        (_RANGE, f"includes {key}", _carried(call, w, beta, key=True)),
        (_RANGE, f"leaves out {own}", _carried(call, w, beta, own=False)),
        (_RANGE, f"includes {key} and leaves out {own}",
         _carried(call, w, beta, own=False, key=True)),
        right="Multiply the matrices of the tokens after the key, up to and with the query.",
    )  # fmt: skip
    found = {"content-content": value}
    if e.forget is not None:
        gates = np.asarray(e.forget.log_gates, np.float64)
        sums = np.cumsum(gates, axis=1)
        q_at, k_at = call.positions
        bias = sums[:, q_at, None] - sums[:, None, k_at]
        other = sums - gates
        shifted = other[:, q_at, None] - other[:, None, k_at]
        scale = call.scale if e.gates_scaled else 1.0
        words = "is not multiplied by the scale" if e.gates_scaled else "is multiplied by the scale"
        rescaled = bias * (1.0 if e.gates_scaled else call.scale)
        after = "before" if e.gates_scaled else "after"
        found["forget"] = s.pick(
            "the sum of log gates",
            bias * scale,
            ("softmax-scale", words, rescaled),
            (_RANGE, "includes the key's own gate and leaves out the query's", shifted * scale),
            (_RANGE, "includes the key's own gate", (bias + gates[:, None, k_at]) * scale),
            ("head-order", "has its heads in reverse order", bias[::-1] * scale),
            (code, "is left out", 0 * bias),
            (code, "is subtracted", -bias * scale),
            right="Sum the log gates of the tokens after the key, up to and with the query, and "
            f"add them {after} the logits are multiplied by the scale.",
        )
    return found


def _carried(
    call: Scored, w: np.ndarray, beta: np.ndarray, *, own: bool = True, key: bool = False
) -> np.ndarray:
    """Return ``k_j^T H ... H q_i * scale``; ``own`` and ``key`` include these tokens' matrices."""
    q_at, k_at = call.grid
    q, found = call.q, content(call)
    for t in range(int(np.max(q_at)), -1, -1):
        row = w[:, t, None, :]
        turned = q - beta[:, t, None, None] * row * (q * row).sum(axis=-1, keepdims=True)
        q, before = np.where(q_at >= t if own else q_at > t, turned, q), q
        column = np.flatnonzero(k_at[0] == t)
        at = np.swapaxes(call.k[..., column, :], -1, -2)
        seen = q_at > t if not (key and own) else q_at >= t
        found[..., column] = np.where(
            seen, (q if key else before) @ at * call.scale, found[..., column]
        )
    return found


#: The most keys of a call for which the product in the opposite order is computed.
_MOST = 300


@mistakes(PaTH)
def path_changes(declared: PaTH) -> list[Change]:
    """Return the mistakes of PaTH that are no step of its formula."""
    remedy = "Multiply q by the matrix of its own token first, and by that after the key last."
    return [(_RANGE, "the matrices are multiplied in the opposite order", _opposite, remedy)]


def _opposite(call: Scored) -> Parts:
    """Return the terms with ``k_j^T H_i ... H_{j+1} q_i``: the key's end comes first."""
    e: PaTH = call.encoding
    terms = call.terms()
    if call.k.shape[2] > _MOST:
        return terms
    v = np.asarray(e.directions, np.float64)
    w = v / np.sqrt((v * v).sum(axis=-1, keepdims=True))
    beta = np.asarray(e.beta, np.float64)
    q_at, k_at = call.grid
    value = terms["content-content"].value.copy()
    for column, j in enumerate(k_at[0]):
        q = call.q
        for t in range(int(j) + 1, int(np.max(q_at)) + 1):
            row = w[:, t, None, :]
            turned = q - beta[:, t, None, None] * row * (q * row).sum(axis=-1, keepdims=True)
            q = np.where(q_at >= t, turned, q)
        value[..., column] = (q * call.k[..., column, None, :]).sum(axis=-1) * call.scale
    part = terms["content-content"]
    return terms | {"content-content": type(part)(value, part.terms, part.angle)}
