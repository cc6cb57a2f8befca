"""The formulas of other scores, in steps that may be computed differently."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from posenc_ref import TUPE, CoPE, DecomposedRelative, GatedBias, PoPE, XPos
from posenc_ref.conformance.bias.distance_formulas import t5
from posenc_ref.conformance.diagnosis.steps import Steps
from posenc_ref.conformance.oracle.scores import Scored
from posenc_ref.conformance.sequences.xpos_formula import xpos_rows
from posenc_ref.conformance.table.resized import WAYS, resized_otherwise

from .formula_parts import Terms, at_rows, content, offsets
from .registered import formula


@formula(GatedBias)
def gated(call: Scored, s: Steps) -> Terms:
    """Return the terms of the gated bias."""
    e: GatedBias = call.encoding
    weight = s.array("the weight of the gates", e.weight, ("gate", "channel"))
    c = s.array("linear_bias", e.linear_bias, ("gate",))
    inside = [(call.q * weight[n]).sum(axis=-1) + c[n] for n in (0, 1)]
    functions: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
        ("tanh", np.tanh),
        ("max(x, 0)", lambda x: np.maximum(x, 0)),
        ("clip(x / 6 + 1/2, 0, 1)", lambda x: np.clip(x / 6 + 0.5, 0, 1)),
        ("sigmoid(-x)", lambda x: 1 / (1 + np.exp(x))),
        ("exp", np.exp),
        ("nothing: they are linear", lambda x: x),
    )
    a, r = s.pick(
        "the function of the gates",
        [1 / (1 + np.exp(-x)) for x in inside],
        *(
            ("score-term", f"is {name}, not the sigmoid", [f(x) for x in inside])
            for name, f in functions
        ),
        right="Use the sigmoid of w . x + c for both gates.",
    )
    scale = s.array("the factor on the second gate", e.scale, ("head",))[:, None]
    code = "score-term"
    gate = s.pick(
        "the gate 2 + a (s r - 1)",
        2 + a * (scale * r - 1),
        (code, "is 2 + a s (r - 1)", 2 + a * scale * (r - 1)),
        (code, "is 1 + a (s r - 1)", 1 + a * (scale * r - 1)),
        (code, "is a (s r - 1)", a * (scale * r - 1)),
        (code, "is 2 + s a (r - 1 / s)", 2 + scale * a * r - a / scale),
        (code, "is 2 + a (s r + 1)", 2 + a * (scale * r + 1)),
        (code, "is 2 + (1 - a) (s r - 1)", 2 + (1 - a) * (scale * r - 1)),
        (code, "is 2 + r (s a - 1)", 2 + r * (scale * a - 1)),
        (code, "is 1 + a s r", 1 + a * scale * r),
        (code, "is 1 + a r", 1 + a * r),
        (code, "is 2 + a (s - 1), without r", 2 + a * (scale - 1) + 0 * r),
        (code, "is 2 + s r - 1, without a", 1 + scale * r),
        (code, "is a s r", a * scale * r),
        right="Compute the gate as 2 + a (s r - 1): s multiplies r only.",
    )
    bias = t5(e.bias, *call.grid, s)
    return {"content-content": content(call), "content-position": gate[..., None] * bias}


@formula(TUPE)
def tupe(call: Scored, s: Steps) -> Terms:
    """Return the terms of TUPE."""
    e: TUPE = call.encoding
    found = {name: np.asarray(t.value) for name, t in call.terms().items()}
    n_q, n_k = call.q.shape[2], call.k.shape[2]
    term = "position-position"
    if e.cls_to_others is None and n_k <= e.rows:
        right = "Use position_queries of the queries' own positions: K - Q .. K - 1."

        def rows_of(q_at: np.ndarray) -> np.ndarray:
            return np.asarray(call.replace(q_at=q_at).terms()[term].value)

        found[term] = s.pick(
            "the rows of the queries in the position term",
            found[term],
            ("bias-alignment", "are 0 .. Q - 1, not those of the last keys",
             lambda: rows_of(np.arange(n_q))),
            ("bias-alignment", "are that of the last key, for all queries",
             lambda: rows_of(np.full(n_q, n_k - 1))),
            right=right,
        )  # fmt: skip
    if e.cls_to_others is None or "cls" not in found:
        return found
    q_at, k_at = call.grid
    row, column = (np.asarray(x, np.float64)[:, None, None]
                   for x in (e.cls_to_others, e.others_to_cls))  # fmt: skip
    corner = (q_at == 0) & (k_at == 0)
    cls = found["cls"]
    found["cls"] = s.pick(
        "the number of position 0 with itself",
        cls,
        ("wrong-row", "is others_to_cls, not cls_to_others", np.where(corner, column, cls)),
        ("wrong-row", "is 0", np.where(corner, 0.0, cls)),
        ("wrong-row", "is the sum of both", np.where(corner, row + column, cls)),
        right="Use cls_to_others for position 0 with itself: fill the row of position "
        "0 after its column.",
    )
    return found


@formula(CoPE)
def cope(call: Scored, s: Steps) -> Terms:
    """Return the terms of CoPE."""
    e: CoPE = call.encoding
    logits = content(call)
    q_at, k_at = call.grid
    seen = (k_at <= q_at).astype(np.float64)
    scale = s.factor("the scale of the gates' logits", call.scale, "softmax-scale")
    inside = scale * (logits / call.scale)
    gates = 1 / (1 + np.exp(-inside))
    soft = np.exp(inside - inside.max(axis=-1, keepdims=True)) * seen
    gates = s.pick(
        "the gates",
        gates * seen,
        ("future-keys", "of keys after the query are counted", gates),
        ("score-term", "are 1: positions count keys", seen + 0 * gates),
        (
            "score-term",
            "are hard sigmoids, clip(x / 6 + 1/2, 0, 1)",
            np.clip(inside / 6 + 0.5, 0, 1) * seen,
        ),
        (
            "score-term",
            "are hard sigmoids, clip(x / 4 + 1/2, 0, 1)",
            np.clip(inside / 4 + 0.5, 0, 1) * seen,
        ),
        ("score-term", "are tanh(x), not sigmoid(x)", np.tanh(inside) * seen),
        ("score-term", "are max(x, 0), not sigmoid(x)", np.maximum(inside, 0) * seen),
        ("score-term", "are softplus(x), not sigmoid(x)", np.logaddexp(0, inside) * seen),
        ("score-term", "are exp(x), not sigmoid(x)", np.exp(np.minimum(inside, 50)) * seen),
        (
            "score-term",
            "are a softmax over the keys, not sigmoids",
            soft / soft.sum(-1, keepdims=True),
        ),
        ("score-term", "are rounded to 0 or 1", (gates > 0.5) * seen),
        right="Use sigmoid(q . k * scale) of the keys up to the query, and 0 for keys after it.",
    )
    back = np.cumsum(gates[..., ::-1], axis=-1)[..., ::-1]
    front = np.cumsum(gates, axis=-1)
    code = "relative-absolute"
    p = s.pick(
        "the sum of gates",
        back,
        (code, "runs from the first key to the key, not from the key to the query", front),
        ("position-origin", "leaves out the key's own gate", back - gates),
        ("position-origin", "leaves out the query's own gate",
         back - np.take_along_axis(gates, np.broadcast_to(np.minimum(q_at, gates.shape[-1] - 1),
                                                         (*gates.shape[:-1], 1)), -1)),
        right="Sum the gates from the key to the query, both included, and none after it.",
    )  # fmt: skip
    table = s.array("the embedding", e.embedding, ("row", "channel"))
    top = len(table) - 1
    p = s.pick("the position", np.minimum(p, top),
               ("bucket-clamp", f"is clamped to {top - 1}, not to {top}", np.minimum(p, top - 1)),
               ("bucket-clamp", f"wraps round modulo {top + 1}", p % (top + 1)),
               right=f"Limit the sum of gates to {top}, the last row of the table.")  # fmt: skip
    low = np.floor(p).astype(int)
    high = np.minimum(low + 1, top)
    by_row = call.q @ table.T
    one, two = (np.take_along_axis(by_row, np.clip(m, 0, top), axis=-1) for m in (low, high))
    part = p - low
    code = "score-term"
    value = s.pick(
        "the interpolation",
        one * (1 - part) + two * part,
        (code, "has its weights exchanged", one * part + two * (1 - part)),
        (code, "is left out: the position is rounded down", one),
        (code, "is left out: the position is rounded up", np.where(part > 0, two, one)),
        (code, "is left out: the position is rounded to the nearest row",
         np.where(part >= 0.5, two, one)),
         right="Give row floor(p) the weight 1 - (p - floor(p)) and the row above it p "
         "- floor(p).")  # fmt: skip
    value = s.pick(
        "the position term",
        value,
        (code, "is scaled like q.k", value * call.scale),
        right="Use q . e(p) itself: the position term is not multiplied by the scale.",
    )
    return {"content-content": logits, "content-position": value}


def _resized_tables(e: DecomposedRelative) -> list[tuple[str, str, dict[str, np.ndarray]]]:
    """Return tables that were resized in another way, each axis by itself."""
    own = {"height": np.asarray(e.height_table), "width": np.asarray(e.width_table)}
    ways = [
        {one.way: one for one in resized_otherwise(table, (0,), (len(table), 1)) if one.way}
        for table in own.values()
    ]
    return [
        ("wrong-row", f"are resized with {way}, not with {named[0].declared}",
         {n: of[way].rows if way in of else own[n] for n, of in zip(own, ways, strict=True)})
        for way in WAYS if (named := [of[way] for of in ways if way in of])
    ]  # fmt: skip


@formula(DecomposedRelative)
def decomposed(call: Scored, s: Steps) -> Terms:
    """Return the terms of decomposed relative positions."""
    e: DecomposedRelative = call.encoding
    h, w = e.grid
    q_at, k_at = np.broadcast_arrays(*call.grid)
    dy, dx = s.pick(
        "the tokens of the grid",
        (q_at // w - k_at // w, q_at % w - k_at % w),
        ("token-order", "are counted column by column, not row by row",
         (q_at % h - k_at % h, q_at // h - k_at // h)),
        ("token-order", f"are split by the height {h}, not by the width {w}",
         (q_at // h - k_at // h, q_at % h - k_at % h)),
         right=f"Split a token's index by the width {w}: row = index // {w}, column = "
         f"index % {w}.")  # fmt: skip
    dy, dx = s.number("the row offset", dy), s.number("the column offset", dx)
    tables = s.pick(
        "the tables",
        {"height": np.asarray(e.height_table), "width": np.asarray(e.width_table)},
        *_resized_tables(e),
        right="Resize both tables as the model does.",
    )
    up, across = (
        s.array(f"the table of the {n}", t, ("row", "channel")) for n, t in tables.items()
    )
    return {
        "content-content": content(call),
        "content-height": at_rows(call.q @ up.T, dy + h - 1),
        "content-width": at_rows(call.q @ across.T, dx + w - 1),
    }


@formula(PoPE)
def pope(call: Scored, s: Steps) -> Terms:
    """Return the terms of PoPE."""
    e: PoPE = call.encoding
    d = call.q.shape[-1]
    waves = s.array("the frequency", e.frequencies(), ("channel",), "frequency-spacing")
    index = np.arange(d)
    code = "frequency-spacing"
    waves = s.pick(
        "the frequency of channel c",
        waves,
        (code, f"is base ** (-2 (c // 2) / {d}): two channels share one",
         e.base ** -(2 * (index // 2) / d)),
        (code, f"is that of c modulo {d // 2}, base ** (-2c/{d})",
         e.base ** -(2 * (index % (d // 2)) / d)),
        ("exponent", f"is base ** (-(c + 1) / {d})", e.base ** -((index + 1) / d)),
        ("denominator", f"is base ** (-c / {d - 1})", e.base ** -(index / max(d - 1, 1))),
        right=f"Use base ** (-c / {d}) for channel c: every channel has a frequency of "
        "its own.")  # fmt: skip
    r = -offsets(call, s)
    angle = r[..., None] * waves
    if e.phases is not None:
        phases = s.array("the phase", e.phases, ("head", "channel"))
        angle = angle + phases[:, None, None, :]
    sizes = [np.logaddexp(0, x) for x in (call.q, call.k)]
    value = (
        np.einsum("bhqd,bhkd,...qkd->bhqk", *sizes, np.cos(angle), optimize=True)
        if (angle.ndim == 3)
        else np.einsum("bhqd,bhkd,hqkd->bhqk", *sizes, np.cos(angle), optimize=True)
    )
    return {"content-content": value * call.scale}


@formula(XPos)
def xpos(call: Scored, s: Steps) -> Terms:
    """Return the terms of xPos."""
    e: XPos = call.encoding
    at = call.positions
    ends = [float(f(p)) for p in at for f in (np.min, np.max)]
    middle = (min(ends) + max(ends)) / 2
    q, k = (
        xpos_rows(e.replace(centre=middle), x, p, keys, middle, s)
        for x, p, keys in zip((call.q, call.k), at, (False, True), strict=True)
    )
    return {"q.k": q @ np.swapaxes(k, -1, -2) * call.scale}
