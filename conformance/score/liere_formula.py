"""The formula of LieRE, in steps that may be computed differently."""

from __future__ import annotations

import math

import numpy as np

from posenc_ref import LieRE
from posenc_ref.conformance.diagnosis.steps import Steps
from posenc_ref.conformance.oracle.scores import Scored

from .formula_parts import Terms
from .registered import formula

_CODE = "matrix-exponential"


@formula(LieRE)
def liere(call: Scored, s: Steps) -> Terms:
    """Return the terms of rotations by matrix exponentials."""
    e: LieRE = call.encoding
    raw, skew, at = np.asarray(e.generators), e.skew(), np.asarray(e.coordinates)
    upper = np.triu(raw, 1)
    g = s.pick(
        "the generator",
        skew,
        (_CODE, "is the part above the diagonal alone, not a skew-symmetric matrix", upper),
        (_CODE, "is the whole matrix, not its part above the diagonal minus the transpose", raw),
        (_CODE, "is the whole matrix minus its transpose", raw - np.swapaxes(raw, -1, -2)),
        ("sign", "has the opposite sign", -skew),
        right="Take the part of the parameters above the diagonal, and subtract its transpose.",
    )
    g = s.pick(
        "the order of the generators",
        g,
        ("axis-order", "is that of reversed axes", g[::-1]),
        ("head-order", "is that of reversed heads", g[:, ::-1]),
        ("wrong-row", "is that of reversed blocks", g[:, :, ::-1]),
        right="Use generators[a, h, b] for coordinate a, head h and block b.",
    )
    at = s.pick(
        "the coordinates",
        at,
        ("position-scale", "are doubled", 2 * at),
        ("position-scale", "are halved", at / 2),
        ("position-scale", "are divided by the largest", at / max(np.abs(at).max(), 1e-300)),
        ("token-order", "are in reverse order of the tokens", at[::-1]),
        right="Use the declared coordinates of each token.",
    )
    parts = at.reshape(*at.shape, 1, 1, 1, 1) * g  # (S, A, H, B, n, n)
    x = parts.sum(axis=1)
    each = [_exp(parts[:, a]) for a in range(at.shape[1])]
    eye = np.eye(x.shape[-1])
    matrices = s.pick(
        "the rotation",
        _exp(x),
        (_CODE, "is the product of the exponentials of the axes, the first axis first",
         _product(each)),
        (_CODE, "is the product of the exponentials of the axes, the last axis first",
         _product(each[::-1])),
        (_CODE, "is the exponential of each entry, not of the matrix", np.exp(x)),
        *((_CODE, f"is a series of {n} terms", _exp(x, n)) for n in (2, 3, 4, 6, 8)),
        (_CODE, "is the Cayley map (I - X/2)^-1 (I + X/2)",
         np.linalg.pinv(eye - x / 2) @ (eye + x / 2)),
        right="Take one matrix exponential of the sum over axes.",
    )  # fmt: skip

    def rotated(x: np.ndarray, rows: np.ndarray, how: str) -> np.ndarray:
        r = np.moveaxis(matrices[rows], 0, 1)  # (H, N, B, n, n)
        b, n = e.blocks
        y = x.copy()
        part = x[..., : b * n]
        if how == "strided":
            part = np.swapaxes(part.reshape(*x.shape[:-1], n, b), -1, -2)
        part = part.reshape(*x.shape[:-1], b, n, 1)
        turned = ((np.swapaxes(r, -1, -2) if how == "back" else r) @ part)[..., 0]
        if how == "strided":
            turned = np.swapaxes(turned, -1, -2)
        y[..., : b * n] = turned.reshape(*x.shape[:-1], b * n)
        return x if how == "none" else y

    def logits(of_q: str = "", of_k: str = "") -> np.ndarray:
        q_at, k_at = call.positions
        k = rotated(call.k, k_at, of_k)
        return np.asarray(rotated(call.q, q_at, of_q) @ np.swapaxes(k, -1, -2) * call.scale)

    value = s.pick(
        "the product of q and k",
        logits(),
        ("sign", "has both multiplied by the transposed matrices", logits("back", "back")),
        ("sign", "has keys multiplied by the transposed matrices", logits("", "back")),
        ("score-term", "has keys that are not rotated", logits("", "none")),
        ("score-term", "has queries that are not rotated", logits("none", "")),
        ("layout", "has blocks of every B-th channel, not of neighbours",
         logits("strided", "strided")),
        right="Multiply the channels b n .. b n + n - 1 of q and of k by R(p) of their own token.",
    )  # fmt: skip
    return {"content-content": value}


def _product(matrices: list[np.ndarray]) -> np.ndarray:
    found = matrices[0]
    for matrix in matrices[1:]:
        found = found @ matrix
    return found


def _exp(x: np.ndarray, terms: int | None = None) -> np.ndarray:
    """Return the matrix exponential, or the first ``terms`` terms of its series."""
    size = float(np.abs(x).sum(axis=-1).max(initial=0.0))
    halved = 0 if terms or not 0 < size < math.inf else max(0, math.ceil(math.log2(size)) + 1)
    x = x / 2.0**halved
    term = total = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    for n in range(1, terms or 20):
        term = term @ x / n
        total = total + term
    for _ in range(halved):
        total = total @ total
    return np.asarray(total)
