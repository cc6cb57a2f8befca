"""The formulas of biases of windows, in steps that may be computed differently."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import BEiTBias, ConViTBias, DynamicWindowBias, LeViTBias, LogCPB, SwinBias
from posenc_ref.conformance.diagnosis.steps import Steps

from .formula_parts import looked_up, of_heads
from .network_formula import network


def _grid(q: np.ndarray, k: np.ndarray, w: int, h: int, s: Steps) -> tuple[Any, Any]:
    """Return the offsets (dy, dx), query - key, of tokens in an h x w window."""
    q, k = np.broadcast_arrays(q, k)
    by_rows = q // w - k // w, q % w - k % w
    columns = q % h - k % h, q // h - k // h
    dy, dx = s.pick(
        "the tokens of the window",
        by_rows,
        ("token-order", "are counted column by column, not row by row", columns),
        ("token-order", f"are split by the height {h}, not by the width {w}",
         (q // h - k // h, q % h - k % h)),
         right=f"Split a token's index by the width {w}: row = index // {w}, column = "
         f"index % {w}.")  # fmt: skip
    return s.number("the row offset", dy), s.number("the column offset", dx)


def _both(s: Steps, dy: Any, dx: Any) -> tuple[Any, Any]:
    return tuple(
        s.pick(
            "the offset query - key",
            (dy, dx),
            ("bucket-sign", "has the opposite sign in both rows and columns", (-dy, -dx)),
            ("relative-symmetric", "is replaced by its absolute value, in both rows and columns",
             (np.abs(dy), np.abs(dx))),
             right="Count both offsets as query - key, with their signs.")
    )  # fmt: skip


def dynamic_window(e: DynamicWindowBias, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of CrossFormer."""
    h, w = e.window
    dy, dx = _both(s, *_grid(q, k, w, h, s))
    one = np.maximum(np.array([h - 1, w - 1]), 1)
    x = np.stack([dy, dx], axis=-1).astype(np.float64)
    x = s.pick(
        "the offset",
        x,
        ("position-scale", "is divided by the largest offset", x / one),
        ("position-scale", "is divided by the size of the window", x / np.array([h, w])),
        (
            "position-scale",
            "is replaced by sign times log(1 + size)",
            np.sign(x) * np.log1p(abs(x)),
        ),
        right="Pass the plain offsets (dy, dx) to the network.",
    )
    return network(s, x, e.weights, e.biases, e.gains, e.shifts, e.activation)


def log_cpb(e: LogCPB, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of Swin v2."""
    h, w = e.window
    dy, dx = _both(s, *_grid(q, k, w, h, s))
    sides = np.array(e.pretrained_window or e.window, np.float64)
    largest = np.maximum(sides - 1, 1)
    code = "position-scale"
    largest = s.pick(
        "the divisor of the offsets",
        largest,
        (code, "is that of the window, not of the pretrained window",
         np.maximum(np.array([h, w]) - 1.0, 1)),
        (code, "is the size n of the window, not n - 1", sides),
        (code, "is half of n - 1", largest / 2),
        (code, "is that of the height for both", largest[[0, 0]]),
        (code, "is that of the width for both", largest[[1, 1]]),
        (code, "is the larger one for both", 0 * largest + largest.max()),
        (code, "is 2n - 2, the number of offsets less 1", 2 * largest),
        (code, "is left out", np.ones(2)),
        ("axis-order", "has height and width exchanged", largest[::-1]),
        right="Divide the offsets by the size of the pretrained window (of the window "
        "if none is declared) minus 1.")  # fmt: skip
    x = s.real("the normalised offset d / (n - 1)", np.stack([dy, dx], axis=-1) / largest)
    x = s.pick(
        "the normalised offset",
        x,
        (code, "is clamped to -1 .. 1", np.clip(x, -1, 1)),
        right="Divide by the pretrained window's size minus 1: larger offsets are past 1.",
    )
    x = s.real("8 d / (n - 1), the argument of the logarithm,", 8 * x) / 8
    size = 8 * np.abs(x)
    size = s.pick(
        "the factor 8",
        size,
        (code, "is left out", np.abs(x)),
        right="Multiply the normalised offsets by 8 before the logarithm.",
    )
    logged = s.log("the logarithm", size, 1.0, "2")
    unit = s.pick(
        "the divisor log2(8) = 3",
        3.0,
        (code, "is left out", 1.0),
        (code, "is the natural logarithm of 8", np.log(8.0)),
        right="Divide log2(1 + 8 |x|) by log2(8) = 3.",
    )
    both = s.pick(
        "the network's inputs",
        np.sign(x) * logged / unit,
        (code, "are natural logarithms, divided by the natural logarithm of 8, without the 1 +",
         np.sign(x) * np.log(np.maximum(size, 1)) / np.log(8.0)),
        (code, "have lost their sign", logged / unit),
        ("axis-order", "come in the order (dx, dy)", (np.sign(x) * logged / unit)[..., ::-1]),
        (code, "are natural logarithms, not divided by log2(8) = 3", np.sign(x) * np.log1p(size)),
        right="Pass sign(x) log2(1 + 8 |x|) / 3 to the network, for (dy, dx).")  # fmt: skip
    weights, biases = (e.hidden, e.output), (e.hidden_bias, None)
    both = s.real("sign(x) log2(1 + 8 |x|) / 3, the network's input,", both)
    y = network(s, both, weights, biases, (), (), "relu")
    sixteen = s.factor("the factor 16", 16.0, "bias-scale", "bias-sign")
    return np.asarray(
        s.pick(
            "the sigmoid",
            sixteen / (1 + np.exp(-y)),
            ("bias-scale", "and the factor 16 are left out", y),
            ("bias-scale", "is left out: the network's output is multiplied by 16", 16 * y),
            ("bias-scale", "is replaced by tanh", 16 * np.tanh(y)),
            ("bias-scale", "is a hard sigmoid, clip(x / 6 + 1/2, 0, 1)",
             16 * np.clip(y / 6 + 0.5, 0, 1)),
            ("bias-scale", "is replaced by clip(x, 0, 1)", 16 * np.clip(y, 0, 1)),
            ("bias-scale", "has the opposite sign inside", 16 / (1 + np.exp(y))),
            right="Return 16 times the sigmoid of the network's output.",
        )
    )  # fmt: skip


def convit(e: ConViTBias, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of ConViT."""
    h, w = e.window
    dy, dx = _both(s, *_grid(q, k, w, h, s))
    weight = s.array("the weight", e.weight, ("head", "input"))
    of_x, of_y, of_d = (of_heads(weight[:, i]) for i in range(3))
    square = (dx * dx + dy * dy).astype(np.float64)
    far = s.pick(
        "the squared distance",
        square,
        ("position-scale", "is the distance, without the square", np.sqrt(square)),
        ("position-scale", "is |dx| + |dy|", np.abs(dx) + np.abs(dy)),
        ("position-scale", "is the square of |dx| + |dy|", (np.abs(dx) + np.abs(dy)) ** 2),
        right="Use dx ** 2 + dy ** 2.",
    )
    return np.asarray(-of_x * dx - of_y * dy + of_d * far + of_heads(e.proj_bias))


def _swin_row(dy: Any, dx: Any, h: int, w: int, s: Steps) -> Any:
    code = "index-collision"
    rows = s.pick(
        "the shift of the row offset",
        h - 1,
        (code, f"is width - 1 = {w - 1}, not height - 1 = {h - 1}", w - 1),
        (code, f"is height = {h}, not height - 1", h),
        (code, "is left out", 0),
        right=f"Add height - 1 = {h - 1} to the row offset.",
    )
    columns = s.pick(
        "the shift of the column offset",
        w - 1,
        (code, f"is height - 1 = {h - 1}, not width - 1 = {w - 1}", h - 1),
        (code, f"is width = {w}, not width - 1", w),
        (code, "is left out", 0),
        right=f"Add width - 1 = {w - 1} to the column offset.",
    )
    sizes = {"2h - 1": 2 * h - 1, "w": w, "h": h, "2w": 2 * w, "2w - 2": 2 * w - 2, "1": 1}
    by = s.pick(
        "the factor of the row offset",
        2 * w - 1,
        *((code, f"is {name} = {n}, not 2w - 1 = {2 * w - 1}", n) for name, n in sizes.items()),
        right=f"Multiply the row offset by 2 * width - 1 = {2 * w - 1}.",
    )
    return (dy + rows) * by + dx + columns


def swin(e: SwinBias, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of Swin."""
    h, w = e.window
    dy, dx = _both(s, *_grid(q, k, w, h, s))
    row = _swin_row(dy, dx, h, w, s)
    n = len(np.asarray(e.table))
    row = s.pick(
        "the row of the table",
        row,
        ("index-collision", "is stored in 8 bits and wraps round at 256", row % 256),
        ("relative-absolute", "is the key's own number", k + 0 * q),
        ("relative-absolute", "is the query's own number", q + 0 * k),
        ("wrong-row", "is counted from the end", n - 1 - row),
        right=f"Take row (dy + {h - 1}) * {2 * w - 1} + dx + {w - 1} of the table, in "
        "integers of at least 16 bits.",
    )
    return looked_up(s, e.table, row)


def beit(e: BEiTBias, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of BEiT."""
    h, w = e.window
    n = len(np.asarray(e.table))
    q, k = np.broadcast_arrays(q, k)
    i, j = np.maximum(q - 1, 0), np.maximum(k - 1, 0)
    dy, dx = _both(s, *_grid(i, j, w, h, s))
    row = _swin_row(dy, dx, h, w, s) % n
    code = "wrong-row"
    corner = s.pick(
        "the row of [CLS] to itself", n - 1,
        (code, "is that of patches to [CLS]", n - 2), (code, "is that of [CLS] to patches", n - 3),
        (code, "is row 0", 0),
        right=f"Use the last row of the table, {n - 1}, for [CLS] to itself; assign it "
        "last.")  # fmt: skip
    to_patch, to_cls, corner = s.pick(
        "the rows of [CLS]",
        (n - 3, n - 2, corner),
        (code, "are one too early", (n - 4, n - 3, n - 2)),
        (code, "come in reverse order", (n - 1, n - 2, n - 3)),
        (code, "to patches and of patches to [CLS] are exchanged", (n - 2, n - 3, corner)),
        (code, "to patches and of [CLS] to itself are exchanged", (n - 1, n - 2, n - 3)),
        (code, "are the first three rows of the table", (0, 1, 2)),
        right=f"Use row {n - 3} for [CLS] to patches, {n - 2} for patches to [CLS] and "
        f"{n - 1} for [CLS] to itself.",
    )
    row = np.where(k == 0, to_cls, row)
    row = np.where(q == 0, np.where(k == 0, corner, to_patch), row)
    value = looked_up(s, e.table, row)
    return np.asarray(s.pick(
        "the bias of [CLS]",
        value,
        *(("score-term", f"is 0 {words}", np.where(of, 0.0, value)) for words, of in (
            ("in both directions: its rows of the table are not used", (q == 0) | (k == 0)),
            ("to itself and to patches", q == 0),
            ("to itself and of patches to it", k == 0),
            ("to patches", (q == 0) & (k > 0)), ("of patches to it", (k == 0) & (q > 0)),
            ("to itself", (q == 0) & (k == 0)),
        )),
        right=f"Add rows {n - 3}, {n - 2} and {n - 1} of the table where the query or the key is "
        "[CLS].",
    ))  # fmt: skip


def levit(e: LeViTBias, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of LeViT."""
    h, w = e.window
    dy, dx = _grid(q, k, w, h, s)
    code = "index-collision"
    by = s.pick(
        "the factor of the row offset",
        w,
        (code, f"is the height {h}, not the width {w}", h),
        (code, f"is {w + 1}, not the width {w}", w + 1),
        (code, f"is {w - 1}, not the width {w}", w - 1),
        (code, f"is 2w - 1 = {2 * w - 1}, not the width {w}", 2 * w - 1),
        (code, "is 1", 1),
        right=f"Multiply |dy| by the width {w}.",
    )
    row = np.abs(dy) * by + np.abs(dx)
    row = s.pick(
        "the row of the table",
        row,
        ("axis-order", f"is |dx| h + |dy|, not |dy| w + |dx|: the table is read transposed, "
         f"with h = {h}", np.abs(dx) * h + np.abs(dy)),
        ("axis-order", "is |dx| w + |dy|, not |dy| w + |dx|", np.abs(dx) * w + np.abs(dy)),
        (code, f"is |dy| h + |dx| with the height h = {h}, not |dy| w + |dx|, and is clamped to "
         f"the last row {h * w - 1}", np.minimum(np.abs(dy) * h + np.abs(dx), h * w - 1)),
        (code, f"is |dy| h + |dx| with the height h = {h}, not |dy| w + |dx|, modulo the {h * w} "
         "rows", (np.abs(dy) * h + np.abs(dx)) % (h * w)),
        ("relative-symmetric", "is dy w + dx, without absolute values", dy * by + dx),
        ("relative-symmetric", "is |dy| w + dx, without the absolute value of dx",
         np.abs(dy) * by + dx),
        ("relative-symmetric", "is dy w + |dx|, without the absolute value of dy",
         dy * by + np.abs(dx)),
        right=f"Take row |dy| * {w} + |dx| of the table.")  # fmt: skip
    return looked_up(s, e.table, row)
