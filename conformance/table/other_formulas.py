"""The formulas of other tables, in steps that may be computed differently."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import (
    AxialLearned,
    FourierFeatures,
    Hybrid,
    Learned,
    StandardizedSinusoidal,
    Time2Vec,
)
from posenc_ref.conformance.diagnosis.steps import Steps

#: Pi with few digits, rounded or cut off.
_PI = (
    "3.1416", "3.14", "3.141593", "3.14159", "3.1415926", "3.142", "3.1415", "3.141", "3.141592",
    "3.1", "3",
)  # fmt: skip


def time2vec(e: Time2Vec, at: Any, s: Steps) -> np.ndarray:
    """Return the rows of Time2Vec."""
    t = np.asarray(s.number("the position", at), np.float64)[..., None]
    weight = s.array("weight", e.weight, ("column",))
    bias = s.array("bias", e.bias, ("column",))
    wave = np.sin if e.function == "sin" else np.cos
    both = np.stack([weight, bias])
    weight, bias = s.pick(
        "the entries of weight and bias",
        both,
        *(
            ("wrong-row", words, moved)
            for words, moved in (
                ("of the line are the last ones, not the first, and the waves have those before "
                 "them: each column has the entries of its own place", np.roll(both, 1, axis=1)),
                ("of the line are the second ones, and the last wave has the first",
                 np.roll(both, -1, axis=1)),
                ("of the line and of the last wave are exchanged",
                 both[:, np.r_[-1, 1 : both.shape[1] - 1, 0]]),
            )
        ),
        right="The line has weight[0] and bias[0], the waves the others, wherever the columns "
        "stand.",
    )  # fmt: skip
    bias = s.pick(
        "the phases of all columns",
        bias,
        ("position-origin", "are multiplied by the weights: w (t + b), not w t + b", weight * bias),
        right="Add the phases to w t: they are not multiplied by the weights.",
    )
    line = weight[:1] * t + bias[:1]
    of_waves = s.array("the weight of the waves", weight[1:], ("column",))
    weight = np.r_[weight[:1], of_waves]
    bias = np.r_[bias[:1], s.array("the bias of the waves", bias[1:], ("column",))]
    angle = weight[1:] * t + bias[1:]
    code = "position-origin"
    waves = s.pick(
        "the phase",
        wave(angle),
        (
            code,
            f"is added to the {e.function}, not to its argument",
            wave(weight[1:] * t) + bias[1:],
        ),
        (code, "is subtracted", wave(weight[1:] * t - bias[1:])),
        (code, "is multiplied by the frequency", wave(weight[1:] * (t + bias[1:]))),
        ("position-scale", "and the frequency are multiplied by 2 pi", wave(2 * np.pi * angle)),
        ("position-scale", "goes through log(1 + size) first", wave(np.log1p(np.abs(angle)))),
        ("phase-order", "goes through tanh, not through the wave", np.tanh(angle)),
        ("phase-order", "goes through no wave: the columns are linear", angle),
        ("phase-order", "goes through max(x, 0), not through the wave", np.maximum(angle, 0)),
        ("phase-order", "goes through a sigmoid, not through the wave", 1 / (1 + np.exp(-angle))),
    )
    line = s.pick(
        "the linear component",
        line,
        ("not-linear", "has the same function as the others", wave(line)),
        ("amplitude", "is 0", 0 * line),
        ("not-linear", "is replaced by 0 where it is negative", np.maximum(line, 0)),
        ("not-linear", "is replaced by its absolute value", np.abs(line)),
        ("not-linear", "goes through tanh", np.tanh(line)),
        (code, "has no phase", weight[:1] * t),
        (code, "has its phase multiplied by the weight: w (t + b)", weight[:1] * (t + bias[:1])),
        (code, "has its phase subtracted", weight[:1] * t - bias[:1]),
    )
    columns = [line, waves]
    return np.concatenate(columns if e.linear == "first" else columns[::-1], axis=-1)


def learned(e: Learned, at: Any, s: Steps) -> np.ndarray:
    """Return the rows of a learned table."""
    places = np.asarray(at) + e.offset
    table = s.array("the table", e.weight, ("row", "channel"), "wrong-row")
    size = s.factor("the factor 1 on the table", 1.0, "amplitude")
    root = float(table.shape[-1]) ** 0.5
    size = s.pick(
        "the factor on the table",
        size,
        ("amplitude", f"is sqrt({table.shape[-1]}), not 1", root),
        ("amplitude", f"is 1 / sqrt({table.shape[-1]}), not 1", 1 / root),
        right="Return the rows themselves, without a factor.",
    )
    rows = size * table[places]
    after = table[np.minimum(places + 1, len(table) - 1)]
    return np.asarray(
        s.pick(
            "a row",
            rows,
            ("wrong-row", "is 0 at position 0", rows * (places > e.offset)[..., None]),
            ("wrong-row", "is the mean of its own and the next row", (rows + after) / 2),
            ("wrong-row", "is the sum of its own and the next row", rows + after),
            (
                "wrong-row",
                "has its last column 0",
                rows * (np.arange(rows.shape[-1]) < rows.shape[-1] - 1),
            ),
            right="Return the row of the position, unchanged.",
        )
    )


def fourier(e: FourierFeatures, at: Any, s: Steps) -> np.ndarray:
    """Return the rows of Fourier features."""
    v = plain = np.asarray(at, np.float64).reshape(e.num_axes, -1)
    scale, code = e.position_scale, "position-scale"
    moved = scale * (v + e.offset)
    each = [
        (
            code,
            f"are mapped on axis {a} only",
            np.where(np.arange(e.num_axes)[:, None] == a, moved, v),
        )
        for a in range(e.num_axes)
    ]
    v = s.pick(
        "the coordinates",
        moved,
        ("position-origin", "are used as they are passed, without offset and factor", v),
        ("position-origin", "are moved by the offset after the factor, not before it",
         scale * v + e.offset),
        (code, "are not multiplied by the factor", v + e.offset),
        (code, "are mapped from [0, 1] to [-1, 1]: 2 v - 1", 2 * moved - 1),
        (code, "are mapped from [-1, 1] to [0, 1]: (v + 1) / 2", (moved + 1) / 2),
        ("position-range", "are clamped to 0 .. 1", np.clip(moved, 0, 1)),
        ("position-range", "are clamped to -1 .. 1", np.clip(moved, -1, 1)),
        ("position-range", "are reduced modulo 1", moved % 1),
        (code, "are rounded down", np.floor(moved)),
        ("position-origin", "are not moved by the offset", scale * v),
        *each,
    )  # fmt: skip
    v = np.stack([s.number(f"the coordinate {a}", row, code) for a, row in enumerate(v)])
    matrix = s.array("the matrix", e.matrix, ("row", "coordinate"), "axis-order")
    exact = {"radian": 1.0, "half-turn": np.pi, "turn": 2 * np.pi}[e.unit]
    unit = exact if e.unit == "radian" else s.pick(
        "pi",
        exact,
        *(("range-reduction", f"is written as {digits}", exact / np.pi * float(digits))
          for digits in _PI),
    )  # fmt: skip
    levels = s.factor("the frequency", 1.0, "exponent")
    angle = (v.T @ matrix.T) * unit * levels
    value = np.zeros((angle.shape[0], e.dim))
    sines, cosines = e.columns()
    value[:, sines], value[:, cosines] = e.scale * np.sin(angle), e.scale * np.cos(angle)
    if e.include_input:
        own = v.T
        value[:, : e.num_axes] = s.pick(
            "the columns of the input",
            own,
            ("position-origin", "hold the coordinates as they are passed, without factor and "
             "offset", plain.T),
            (code, "hold the coordinates with the offset, without the factor", plain.T + e.offset),
            (code, "hold the coordinates with the factor, without the offset", scale * plain.T),
            (code, f"are multiplied by {exact:.6g}, as angles are", own * exact),
            ("axis-order", "are in reverse order", own[:, ::-1]),
            ("amplitude", "are multiplied by the factor on the waves", own * e.scale),
            right="Put the coordinates there that the angles are made of, factor and offset "
            "included.",
        )  # fmt: skip
    return value


def axial(e: AxialLearned, at: Any, s: Steps) -> np.ndarray:
    """Return the rows of an axial table."""
    tables = [np.asarray(t, np.float64) for t in e.tables]
    sizes = [len(t) for t in tables]
    if isinstance(at, tuple):
        h, w = at
        token, at = np.arange(h * w), np.asarray(e.grid_positions(*at))
        at = at if e.flat else s.pick(
            "the patches", at,
            ("token-order", "are listed column by column", (token % h, token // h)),
            ("token-order", "are split by the height, not by the width", (token // h, token % h)),
            ("token-order", "run as fast over the rows as over the columns: both tables are tiled",
             (token % h, token % w)),
            ("token-order", "run as slowly over the columns as over the rows: both tables are "
             "repeated", (token // w, token // h)),
            right="Number the patches row by row: row = token // width, column = token % width.",
        )  # fmt: skip
    if e.flat:
        at = np.asarray(at)
        code = "axis-order"
        if len(sizes) != 2:
            return _joined(e, tables, _digits(sizes, at, s), s)
        first, last = sizes
        index = s.pick(
            "the split of flat positions",
            (at // last, at % last),
            ("index-collision", f"divides by the rows of the first table, {first}, not of the "
             f"last, {last}", (at // first, at % first)),
            (code, f"takes the remainder by {first} for the first table and the quotient for the "
             "second: the first axis runs fastest", (at % first, at // first)),
            (code, f"exchanges quotient and remainder: p % {last} selects the row of the first "
             f"table, p // {last} that of the second", (at % last, at // last)),
            ("index-collision", "divides by the number of columns, not of rows",
             (at // tables[-1].shape[1], at % tables[-1].shape[1])),
            ("wrong-row", f"takes the remainder by {first}, but the quotient by {last}",
             (at // last, at % first)),
        )  # fmt: skip
    else:
        index = [s.number(f"the position on axis {a}", p).astype(int) for a, p in enumerate(at)]
    return _joined(e, tables, index, s)


def _digits(sizes: list[int], at: np.ndarray, s: Steps) -> list[np.ndarray]:
    """Return the rows of a flat position in each table: digits, the last fastest."""
    n = len(sizes)

    def split(divisors: list[int], sides: list[int]) -> list[np.ndarray]:
        return [at // d % m for d, m in zip(divisors, sides, strict=True)]

    steps = [int(np.prod(sizes[a + 1 :])) for a in range(n)]
    reverse = [int(np.prod(sizes[:a])) for a in range(n)]
    others: list[tuple[str, str, Any]] = [
        ("axis-order", "has the first table's digit fastest", split(reverse, sizes)),
    ]
    for a in range(n):
        for b in range(n):
            if sizes[b] != sizes[a]:
                sides = [sizes[b] if i == a else m for i, m in enumerate(sizes)]
                text = f"takes digit {a} modulo the rows of table {b}, {sizes[b]}, not {sizes[a]}"
                wrapped = split(steps, sides)
                cut = [np.minimum(i, m - 1) for i, m in zip(wrapped, sizes, strict=True)]
                others.append(("index-collision", text, wrapped))
                others.append(("index-collision", f"{text}; larger ones become the last", cut))
        for b in range(a):
            text = f"divides by {sizes[b]} where it divides by the rows of table {a}, {sizes[a]}"
            changed = [sizes[b] if i == a else m for i, m in enumerate(sizes)]
            by = [int(np.prod(changed[i + 1 :])) for i in range(n)]
            others.append(("index-collision", text, split(by, sizes)))
    return list(s.pick(
        "the split of flat positions", split(steps, sizes), *others,
        right="Divide by the rows of all later tables, then take the remainder by the own rows.",
    ))  # fmt: skip


def _joined(e: AxialLearned, tables: list[np.ndarray], index: Any, s: Steps) -> np.ndarray:
    assert e.order is not None
    parts = []
    for a in e.order:
        rows = s.array(f"table {a}", tables[a], ("row", "column"))
        rows = s.pick(
            f"the table of axis {a}",
            rows,
            *(("wrong-row", f"is tables[{b}], that of axis {b}, not tables[{a}]", other)
              for b, other in enumerate(tables)
              if b != a and other.shape[1] == rows.shape[1]),
            right=f"Read the rows of axis {a} in tables[{a}].",
        )  # fmt: skip
        parts.append(rows[index[a].astype(int) % len(rows)])
    return np.concatenate(parts, axis=-1) if e.combine == "concat" else np.sum(parts, axis=0)


def hybrid(e: Hybrid, at: Any, s: Steps) -> np.ndarray:
    """Return the rows of a hybrid table."""
    values = []
    offsets = [float(getattr(part, "offset", 0)) for part in e.parts]
    for i, part in enumerate(e.parts):
        places = s.number(f"the position in parts[{i}]", at)
        places = s.pick(
            f"the offset of parts[{i}]",
            places,
            *(("position-origin", f"is {offset:g} more, that of parts[{j}]", places + offset)
              for j, offset in enumerate(offsets) if j != i and offset),
            *([("position-origin", "is left out", places - offsets[i])] if offsets[i] else []),
            right="Give each part its own offset only.",
        )  # fmt: skip
        if isinstance(part, Learned):  # rows past an end of the table wrap round
            rows = np.arange(part.rows - max(part.offset, 0))
            places = np.asarray(places).astype(np.int64) % rows.size
        value = np.asarray(part.truth(np.asarray(places)).value, np.float64)
        root = float(part.dim) ** 0.5
        values.append(
            s.pick(
                f"the encoding parts[{i}]",
                value,
                ("amplitude", f"is multiplied by sqrt({part.dim})", value * root),
                ("amplitude", f"is divided by sqrt({part.dim})", value / root),
                ("amplitude", "is subtracted", -value),
                ("amplitude", "is left out", 0 * value),
                ("amplitude", "is doubled", 2 * value),
                ("amplitude", "is halved", value / 2),
                ("wrong-row", "is 0 at position 0", value * (np.asarray(at) != 0)[..., None]),
            )
        )
    if e.combine == "concat":
        return np.concatenate(values, axis=-1)
    total = np.sum(values, axis=0)
    return np.asarray(
        s.pick(
            "the sum",
            total,
            ("amplitude", "is halved: it is a mean", total / len(values)),
            ("amplitude", "is a product", np.prod(values, axis=0)),
        )
    )


def standardized(e: StandardizedSinusoidal, at: Any, s: Steps) -> np.ndarray:
    """Return the rows of the standardized sinusoid."""
    t = np.asarray(s.number("the position", at), np.float64)[..., None]
    k = np.arange(e.dim // 2)

    def sinusoid(p: np.ndarray) -> np.ndarray:
        angle = p * e.base ** (-2 * k / e.dim)
        return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(*angle.shape[:-1], e.dim)

    every, rows = sinusoid(np.arange(e.length)[:, None]), sinusoid(t)
    code = "amplitude"
    of_all = "Take {name} over all rows and columns of the table."
    mean = s.pick(
        "the mean",
        every.mean(),
        (code, "is that of each column", every.mean(axis=0)),
        (code, "is that of each row", rows.mean(axis=-1, keepdims=True)),
        (code, "is not subtracted", 0.0),
        right=of_all,
    )
    spread = s.pick(
        "the standard deviation",
        every.std(ddof=1),
        (code, "is that of each column", every.std(axis=0, ddof=1)),
        (code, "is that of each column, and divides by n, not by n - 1", every.std(axis=0)),
        (code, "is that of each row", rows.std(axis=-1, ddof=1, keepdims=True)),
        (code, "divides by n, not by n - 1", every.std()),
        (code, "is replaced by the variance", every.var(ddof=1)),
        (code, "is left out", 1.0),
        right=of_all + " It divides by n - 1, n being their number.",
    )
    columns = every.mean(axis=0)
    mean, spread = s.pick(
        "the mean and the standard deviation",
        (mean, spread),
        (code, "are those of each column", (columns, every.std(axis=0, ddof=1))),
        (code, "are those of each column, and the deviation divides by n, not by n - 1",
         (columns, every.std(axis=0))),
        *((code, "are the mean of each column, and the deviation of the table without these means"
           f"{words}", (columns, (every - columns).std(ddof=less)))
          for less, words in ((1, ""), (0, ", which divides by n, not by n - 1"))),
        (code, "are those of each row", (rows.mean(axis=-1, keepdims=True),
                                         rows.std(axis=-1, ddof=1, keepdims=True))),
        (code, "are those of the rows of the call, not of the whole table",
         (rows.mean(), rows.std(ddof=1))),
        (code, "are those of the rows of the call, not of the whole table, and the deviation "
         "divides by n, not by n - 1", (rows.mean(), rows.std())),
        right=of_all + " The deviation divides by n - 1, n being their number.",
    )  # fmt: skip
    divisor = s.factor("the multiple of the deviation", e.divisor, code)
    with np.errstate(all="ignore"):
        return np.asarray((rows - mean) / (divisor * spread))
