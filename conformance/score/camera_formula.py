"""The formula of PRoPE, in steps that may be computed differently."""

from __future__ import annotations

import numpy as np

from posenc_ref import PRoPE
from posenc_ref.conformance.diagnosis.steps import Steps
from posenc_ref.conformance.oracle.scores import Scored
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES

from .formula_parts import Terms
from .registered import formula

_CODE = "camera-matrix"


@formula(PRoPE)
def prope(call: Scored, s: Steps) -> Terms:
    """Return the terms of PRoPE."""
    e: PRoPE = call.encoding
    eye = np.broadcast_to(np.eye(4), e.projections.shape)
    lens, view = _parts(np.asarray(e.projections))
    centred = lens.copy()
    centred[:, :2, 2] += 0.5
    p = s.pick(
        "the matrix P",
        np.asarray(e.projections),
        (_CODE, "is that from image to world, the inverse", np.linalg.inv(e.projections)),
        (_CODE, "is made from poses camera to world: K times the inverse of [R t]",
         lens @ np.linalg.pinv(view)),
        (_CODE, "is [R t], without K", view),
        (_CODE, "has a centre of K from which 0.5 is not subtracted", centred @ view),
        (_CODE, "is transposed", np.swapaxes(e.projections, -1, -2)),
        (_CODE, "has no translation", _without(e.projections, np.s_[:, :3, 3])),
        ("wrong-row", "is that of the cameras in reverse order", e.projections[::-1]),
        (_CODE, "is that of camera 0 for every camera", e.projections[:1] + 0 * e.projections),
        right="Use P of the token's own camera, from world to image.",
    )  # fmt: skip
    inverse, across = np.linalg.pinv(p), np.swapaxes(p, -1, -2)
    of_q = s.pick(
        "the matrix on queries",
        across,
        (_CODE, "is P, not its transpose", p),
        (_CODE, "is the inverse of P, not its transpose", inverse),
        (_CODE, "is left out", eye),
        right="Multiply four channels of q by the transpose of P.",
    )
    of_k = s.pick(
        "the matrix on keys",
        inverse,
        (_CODE, "is P, not its inverse", p),
        (_CODE, "is the transpose of P, not its inverse", across),
        (_CODE, "is the transposed inverse of P", np.swapaxes(inverse, -1, -2)),
        (_CODE, "is left out", eye),
        right="Multiply four channels of k, and of v, by the inverse of P.",
    )
    (height, width), tokens = e.grid, np.arange(e.rows or 0)
    camera = tokens // (height * width)
    places = tokens // width % height, tokens % width
    row, column = s.pick(
        "the places of tokens",
        places,
        ("token-order", "run down the columns, not along the rows",
         (tokens % height, tokens // height % width)),
        ("axis-order", "are exchanged: rows for columns", places[::-1]),
        right="Take column t % w and row t // w % h of token t, w columns to a row; the first "
        "rotation is by the column.",
    )  # fmt: skip
    pairs = e.head_dim // 8
    k = np.arange(pairs)
    theta = s.pick(
        "the frequency",
        e.base ** (-k / pairs),
        *(("base", f"has the base {b:g}, declared {e.base:g}", b ** (-k / pairs))
          for b in PUBLISHED_BASES if b != e.base),
        ("denominator", "has half the exponent", e.base ** (-k / (2 * pairs))),
        right=f"Use {e.base:g} ** (-k / {pairs}) for pair k = 0 .. {pairs - 1}.",
    )  # fmt: skip
    angles = [at[:, None] * theta for at in (column, row)]

    def moved(x: np.ndarray, at: np.ndarray, matrix: np.ndarray, how: str, sign: int) -> np.ndarray:
        half = e.head_dim // 2
        part = x[..., :half].reshape(*x.shape[:-1], half // 4, 4, 1)
        parts = [(matrix[camera[at], None] @ part)[..., 0].reshape(*x.shape[:-1], half)]
        for n, angle in enumerate(angles):
            start = half + n * 2 * pairs
            y = x[..., start : start + 2 * pairs].copy()
            one, two = (np.s_[..., :pairs], np.s_[..., pairs:]) if how == "half" else (
                np.s_[..., ::2], np.s_[..., 1::2])  # fmt: skip
            a, b = y[one].copy(), y[two].copy()
            c, w = np.cos(angle[at]), sign * np.sin(angle[at])
            y[one], y[two] = a * c + b * w, b * c - a * w
            parts.append(y)
        return np.concatenate(parts, axis=-1)

    def logits(how: str = "half", sign_q: int = 1, sign_k: int = 1) -> np.ndarray:
        q_at, k_at = call.positions
        q = moved(call.q, q_at, of_q, how, sign_q)
        k = moved(call.k, k_at, of_k, how, sign_k)
        return np.asarray(q @ np.swapaxes(k, -1, -2) * call.scale)

    value = s.pick(
        "the rotation by places",
        logits(),
        ("layout", "pairs neighbouring channels, not halves", logits("interleaved")),
        ("sign", "turns the other way", logits("half", -1, -1)),
        ("sign", "turns keys the other way than queries", logits("half", 1, -1)),
        ("score-term", "is left out", logits("half", 0, 0)),
        right="Turn half-split pairs of q and k by minus the angle, before their product.",
    )
    return {"content-content": value}


def _parts(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return K, upper triangular with a positive diagonal, and [R t] of every ``P = K [R t]``."""
    lens = np.tile(np.eye(4), (len(matrices), 1, 1))
    _, r = np.linalg.qr(np.swapaxes(matrices[:, 2::-1, :3], -1, -2))
    lens[:, :3, :3] = np.swapaxes(r, -1, -2)[:, ::-1, ::-1]
    lens[:, :3, :3] *= np.where(np.diagonal(lens[:, :3, :3], axis1=1, axis2=2) < 0, -1, 1)[:, None]
    return lens, np.linalg.pinv(lens) @ matrices


def _without(matrices: np.ndarray, index: tuple[slice | int, ...]) -> np.ndarray:
    changed = np.array(matrices)
    changed[index] = 0.0
    return changed
