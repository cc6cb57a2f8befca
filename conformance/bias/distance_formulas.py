"""The formulas of biases of distances, in steps that may be computed differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_ref import FIRE, ALiBi, ForgettingBias, Kerple, Sandwich, T5Bias
from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS, significant
from posenc_ref.conformance.diagnosis.steps import Steps

from .formula_parts import distances, looked_up, of_heads, offset
from .network_formula import network

#: Bases that are used in place of the declared one.
_BASES = (1e2, 1e3, 1e4, 1e5, 5e5, 1e6)


def kerple(e: Kerple, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of KERPLE."""
    distance = distances(s, offset(s, q, k))
    of = "Use r1 and r2 themselves: they are no parameters of another function."
    r1, r2 = s.pick(
        "r1 and r2",
        (np.asarray(e.r1, np.float64), np.asarray(e.r2, np.float64)),
        *(
            ("score-term", f"go through {name}", (f(np.asarray(e.r1)), f(np.asarray(e.r2))))
            for name, f in (
                ("exp", np.exp),
                ("softplus", lambda x: np.logaddexp(0, x)),
                ("a sigmoid", lambda x: 1 / (1 + np.exp(-x))),
                ("a square", np.square),
            )
        ),
        *(
            (
                "score-term",
                f"{words} {low:g} .. {high:g}",
                (
                    np.clip(e.r1, *(low, high) if "r1" in words else (None, None)),
                    np.clip(e.r2, *(low, high) if "r2" in words else (None, None)),
                ),
            )
            for words in (
                "are used with r2 clamped to",
                "are used with r1 clamped to",
                "are used with r1 and r2 clamped to",
            )
            for low in (0.0, 1e-6, 1e-3, 0.01, 0.1)
            for high in (1.0, 2.0, np.inf)
        ),
        right=of,
    )
    r1, r2 = of_heads(s.factor("r1", r1, sign="bias-sign")), of_heads(s.factor("r2", r2))
    if e.form == "power":
        power = s.real("the power distance ** r2", distance**r2)
        return np.asarray(
            s.pick(
                "the bias",
                -r1 * power,
                (
                    "position-scale",
                    "is -(r1 d) ** r2: r1 is raised to r2 too",
                    lambda: -((r1 * distance) ** r2),
                ),
                ("position-scale", "is -r1 (d ** r2 - 1)", lambda: -r1 * (power - 1)),
                ("position-scale", "is -r1 r2 d, without the power", lambda: -r1 * r2 * distance),
                ("position-scale", "is -r1 d ** (1 / r2)", lambda: -r1 * distance ** (1 / r2)),
                right="Compute -r1 * distance ** r2.",
            )
        )
    logged = s.within(
        "r2",
        r2,
        lambda x: s.log("the logarithm", x, 1.0, "e"),
        distance,
        of="the logarithm",
        what="the distance",
    )
    inside = np.log1p(r2 * distance)
    return np.asarray(
        s.pick(
            "the bias",
            -r1 * logged,
            ("position-scale", "is -log(1 + r1 r2 d): r1 is inside the logarithm",
             lambda: -np.log1p(r1 * r2 * distance)),
            ("position-scale", "is -r1 / r2 log(1 + r2 d)", lambda: -r1 / r2 * inside),
            ("position-scale", "is -r1 r2 log(1 + r2 d)", lambda: -r1 * r2 * inside),
            ("position-scale", "is -r2 log(1 + r2 d)", lambda: -r2 * inside),
            ("position-scale", "is -r1 log(1 + r1 d)", lambda: -r1 * np.log1p(r1 * distance)),
            ("position-scale", "is -r1 log(max(r2 d, 1)): 1 bounds r2 d, and is not added",
             lambda: -r1 * np.log(np.maximum(r2 * distance, 1.0))),
            ("position-scale", "is -r1 log(1 + d ** r2)", lambda: -r1 * np.log1p(distance**r2)),
            ("position-scale", "is -(log(1 + r2 d)) ** r1", lambda: -(inside**r1)),
            ("position-scale", "is -r1 r2 d, without the logarithm", lambda: -r1 * r2 * distance),
            ("position-scale", "is -r1 log(1 + r2) d: the distance is outside the logarithm",
             lambda: -r1 * np.log1p(r2) * distance),
            right="Compute -r1 * log(1 + r2 * distance).",
        )
    )  # fmt: skip


def sandwich(e: Sandwich, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of Sandwich."""
    first = int(s.number("the first index of a frequency", 1, "exponent"))
    n = e.dim // 2
    base = s.pick(
        "the base",
        e.base,
        *(("base", f"is {b:g}", b) for b in _BASES if b not in (e.base, e.base**0.5)),
        (
            "base",
            f"is {e.base**0.5:g}; or the exponent is k/{e.dim}, not 2k/{e.dim}: the same numbers",
            e.base**0.5,
        ),
        right=f"Use the base {e.base:g}, and the exponent 2k/{e.dim}.",
    )
    count = s.pick(
        "the number of frequencies",
        n,
        *(("exponent", f"is {c}, not dim/2 = {n}", c) for c in (n // 2, e.dim, n - 1, n + 1)),
        right=f"Sum dim/2 = {n} cosines.",
    )
    index = np.arange(first, first + count)
    waves = base ** -(2 * index / s.factor("the divisor of the exponent", e.dim, "denominator"))
    r = offset(s, q, k)
    angle = s.real("the angle", r[..., None] * waves)
    total = s.pick(
        "the sum of cosines",
        np.cos(angle).sum(axis=-1),
        ("phase-order", "is one of sines", lambda: np.sin(angle).sum(axis=-1)),
        ("phase-order", "contains the sines too",
         lambda: (np.cos(angle) + np.sin(angle)).sum(axis=-1)),
        right="Sum the cosines of all frequencies.",
    )  # fmt: skip
    total = total - s.term("the constant dim/2", e.dim / 2, "amplitude")
    one = np.arange(1, e.num_heads + 1)
    ratios = s.array("the ratio 8h/H", 8.0 * one / e.num_heads, ("head",))
    ratios = s.pick(
        "the ratio of a head",
        ratios,
        ("slopes", "is 8 (h - 1) / H + 1", 8.0 * (one - 1) / e.num_heads + 1),
        ("slopes", "is 8 h // H, at least 1", np.maximum(8 * one // e.num_heads, 1.0)),
        ("slopes", "is 8 for every head", 0 * one + 8.0),
        ("slopes", "is 2 ** (8h / H)", 2.0 ** (8 * one / e.num_heads)),
        ("slopes", "is 8 (H + 1 - h) / H", 8.0 * (e.num_heads + 1 - one) / e.num_heads),
        *(
            (
                "slopes",
                f"is 8h / {n}, not 8h / {e.num_heads}: the number of heads is fixed",
                8 * one / n,
            )
            for n in (4, 8, 12, 16, 20, 24, 32, 40, 48, 64)
            if n != e.num_heads
        ),
        right=f"Divide head h, h = 1 .. {e.num_heads}, by 8h / {e.num_heads}.",
    )
    ratio = s.factor("the ratio 8h/H of a head", ratios, "slopes", "bias-sign")
    return np.asarray(total / of_heads(ratio))


def fire(e: FIRE, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of FIRE."""
    q, k = np.broadcast_arrays(q, k)
    distance = np.maximum(offset(s, q, k), 0)
    place = s.pick(
        "the position in the denominator",
        q,
        ("position-scale", "is that of the key, not of the query", k),
        ("position-scale", "is the last position of the call, not that of the query",
         0 * q + max(q.max(initial=0), k.max(initial=0))),
        ("position-scale", "is the length of the call, not the query's position",
         0 * q + max(q.max(initial=0), k.max(initial=0)) + 1),
        *([("position-scale", "is that of query 0, not of the query", 0 * q)]
          if np.any(np.asarray(e.length) <= 0) else []),
        ("position-scale", "is the query's position plus 1", q + 1),
        ("position-scale", "is the offset of the key, not the query's position", distance),
        right="Use the query's own position in the denominator.")  # fmt: skip
    both = float(s.factor("c", e.c))
    c = float(s.factor("c in the denominator", both))

    def log(name: str) -> Callable[[Any], Any]:
        return lambda x: s.log(name, x, 1.0, "e")

    place = s.pick(
        "the position in the denominator",
        np.maximum(place, s.factor("the threshold on the length", e.length)),
        ("position-scale", "is not raised to the threshold on the length", place),
        ("position-scale", "is the smaller of position and threshold", np.minimum(place, e.length)),
        ("position-scale", "is the sum of position and threshold", place + e.length),
        ("position-scale", "is the threshold for every query", 0.0 * place + e.length),
        right=f"Use max(position of the query, {e.length:g}) in the denominator: the "
        "position is raised to the threshold.",
    )
    eps = float(s.term("eps", e.eps, "position-scale")) if e.eps else 0.0
    logged = log("the logarithm of the denominator")
    own = np.log1p(np.maximum(c * q, 0.0))
    norm = eps + s.pick(
        "the denominator",
        logged(c * place),
        ("position-scale", "has the threshold outside the logarithm: max(psi(position), "
         f"{e.length:g}), not psi(max(position, {e.length:g}))", np.maximum(own, e.length)),
        ("position-scale", "is raised to psi(threshold) after eps is added, not before",
         np.maximum(own + eps, np.log1p(c * e.length)) - eps),
        right=f"Raise the position to {e.length:g}, and then take the logarithm.",
    )  # fmt: skip
    x = s.within(
        "c in the numerator",
        both,
        log("the logarithm of the distance"),
        distance * 1.0,
        of="the logarithm",
        what="the distance",
    )
    x = s.pick(
        "the argument of the network",
        x / norm,
        ("position-scale", "is not divided by psi of the position", x),
        ("position-scale", "is psi of the quotient of plain distances: the logarithm comes last",
         lambda: np.log1p(c * distance / np.maximum(place, 1e-9))),
        ("position-scale", "is a quotient of plain distances, without logarithms",
         distance / np.maximum(place, 1e-9)),
         right="Divide psi of the distance by psi of the position: log(c d + 1) / "
         "(log(c n + 1) + eps).")  # fmt: skip
    x = s.real("the quotient of logarithms", x)
    weights, biases = (e.hidden, e.output), (e.hidden_bias, e.output_bias)
    return network(s, x[..., None], weights, biases, (), (), "relu")


def _summed(gates: np.ndarray, bits: int) -> np.ndarray:
    """Return running sums of gates (H, S), rounded to so many significant bits."""
    return significant(np.cumsum(gates, axis=-1), bits)


def _rounded_often(gates: np.ndarray, bits: int) -> np.ndarray:
    """Return running sums that are rounded after every gate."""
    total, each = np.zeros(len(gates)), []
    for gate in significant(gates, bits).T:
        total = significant(total + gate, bits)
        each.append(total)
    return np.stack(each, axis=-1)


#: Running sums of few significant bits.
_NARROW_SUMS: tuple[tuple[str, Callable[[np.ndarray, int], np.ndarray]], ...] = (
    ("is rounded to", _summed),
    ("is one of rounded gates, and is itself rounded to",
     lambda gates, bits: _summed(significant(gates, bits), bits)),
    ("is rounded after every gate to", _rounded_often),
)  # fmt: skip


def forgetting(e: ForgettingBias, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of the forgetting bias."""
    gates = s.array("the array of log gates", e.log_gates, ("head",), "wrong-row")
    sums = np.cumsum(gates, axis=-1)
    before = sums - gates
    code = "position-origin"
    up_to_q, up_to_k = s.pick(
        "the sum of gates",
        (sums, sums),
        (code, "contains the key's gate, not the query's gate", (before, before)),
        (code, "also contains the key's gate", (sums, before)),
        (code, "contains neither the key's nor the query's gate", (before, sums)),
        ("bias-sign", "has the opposite sign", (-sums, -sums)),
        *(("table-precision", f"{words} {kind}", lambda of=of, n=bits: (of(gates, n),) * 2)
          for kind, bits in SIGNIFICANT_BITS.items() for words, of in _NARROW_SUMS),
        ("wrong-row", "runs from the last token to the first",
         (np.cumsum(gates[:, ::-1], axis=-1)[:, ::-1],) * 2),
        ("wrong-row", "is that of the gates in reverse order",
         (np.cumsum(gates[:, ::-1], axis=-1),) * 2),
        ("head-order", "runs over the heads, not over the tokens", (np.cumsum(gates, axis=0),) * 2),
         right="Sum the log gates from the key after the key's position up to the "
         "query: F[query] - F[key], F being the running sum.")  # fmt: skip
    products = [np.asarray(np.exp(f), np.float32).astype(float) for f in (up_to_q, up_to_k)]
    total = up_to_q[:, q[:, 0], None] - up_to_k[:, k[0]][:, None, :]
    return np.asarray(
        s.pick(
            "the sum of the gates from key to query",
            total,
            ("position-scale", "is divided by their number",
             lambda: total / np.maximum(np.abs(q - k), 1)),
            ("position-scale", "is divided by the query's position + 1", lambda: total / (q + 1)),
            ("position-scale", "is the query's gate times their number",
             lambda: gates[:, q[:, 0], None] * (q - k)),
            ("position-scale", "is the key's gate times their number",
             lambda: gates[:, k[0]][:, None, :] * (q - k)),
            *(("table-precision", f"is rounded to {kind}, as are the running sums, each of which "
               f"{words} {kind}",
               lambda of=of, n=bits: significant(
                   of(gates, n)[:, q[:, 0], None] - of(gates, n)[:, k[0]][:, None, :], n))
              for kind, bits in SIGNIFICANT_BITS.items() for words, of in _NARROW_SUMS),
            *(("table-precision", "is the logarithm of exp(F[query]) / exp(F[key]), of running "
               f"products that are 0 in float32 after many tokens{words}",
               lambda tiny=tiny: np.log(
                   (products[0][:, q[:, 0], None] + tiny)
                   / (products[1][:, k[0]][:, None, :] + tiny)))
              for tiny in (0.0, 1e-38, 1e-30, 1e-20, 1e-12, 1e-10, 1e-8, 1e-6)
              for words in (f", with {tiny:g} added to both" * (tiny > 0),)),
            right="Sum the log gates in float32, from the key after the key's position up to the "
            "query.",
        )
    )  # fmt: skip


def t5(e: T5Bias, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of T5."""
    return looked_up(s, e.table, t5_bucket(e, k - q, s))


def t5_bucket(e: T5Bias, offset: Any, s: Steps) -> Any:
    """Return T5's bucket of offsets key - query."""
    among = ", or to another one of the same bucket"
    r = s.number("the offset key - query", offset, among=among)
    both = e.bidirectional
    size = e.num_buckets // 2 if both else e.num_buckets
    exact = size // 2
    distance = np.abs(r) if both else s.pick(
        "the distance", np.maximum(-r, 0),
        ("bucket-direction", "of later keys is |r|, not 0", np.abs(r)),
        ("bucket-direction", "is that to later keys", np.maximum(r, 0)),
        right="Use max(query - key, 0), the distance to earlier keys; later keys have "
        "distance 0.")  # fmt: skip
    top = s.pick(
        "the range of the logarithm",
        e.max_distance / exact,
        ("bucket-spacing", f"is max_distance / {size}, not max_distance / {exact}",
         e.max_distance / size),
        ("bucket-spacing", "is (max_distance - 1) / max_exact", (e.max_distance - 1) / exact),
        ("bucket-spacing", "is max_distance", float(e.max_distance)),
        ("bucket-spacing", "is max_distance / num_buckets", e.max_distance / e.num_buckets),
        right=f"Divide the logarithm of distance / {exact} by log({e.max_distance} / "
        f"{exact}), with {exact} exact buckets.")  # fmt: skip
    steps = s.number("the number of logarithmic buckets", size - exact, "bucket-spacing")
    inside = s.number("the distance in the logarithm", distance, "bucket-spacing")
    ratio = s.real("the quotient distance / max_exact", np.maximum(inside, 1) / exact)
    with np.errstate(all="ignore"):
        logged = s.pick(
            "the argument of the logarithm",
            np.log(ratio),
            ("bucket-spacing", "is the distance, not distance / max_exact", np.log(ratio * exact)),
            right=f"Take the logarithm of distance / {exact}.",
        )
        logged = s.real("log(distance / max_exact)", logged)
        share = s.pick(
            "the share of the logarithmic buckets",
            logged / np.log(max(top, 1 + 1e-9)),
            ("bucket-spacing", "is log(distance) / log(max_distance), without the division of both "
             f"by max_exact = {exact}", np.log(ratio * exact) / np.log(e.max_distance)),
            right=f"Use log(distance / {exact}) / log({e.max_distance} / {exact}).",
        )  # fmt: skip
        logged = share * steps
    free = exact + s.rounded("the logarithmic bucket", logged, "floor")
    far = s.clip("the bucket of far keys", free, exact, size - 1)
    if both:
        last = e.num_buckets - 1
        words = f"is clamped to {last} before the half is chosen, not to {size - 1}"
        right = f"Clamp {{name}} to {size - 1}, and add {size} for later keys afterwards."
        far = s.pick("the bucket of far distances", far,
                     ("bucket-clamp", words, np.clip(free, exact, last)),
                     *(("bucket-clamp", f"of {keys} keys is {how}",
                        np.where(there, value, far))
                       for keys, there in (("earlier", r <= 0), ("later", r > 0))
                       for how, value in ((f"clamped to {last}, not to {size - 1}",
                                           np.clip(free, exact, last)),
                                          (f"not clamped to {size - 1}", free))),
                     right=right)  # fmt: skip
    start = s.number("the first distance with a logarithmic bucket", exact, "bucket-spacing")
    bucket = np.where(distance < start, np.minimum(distance, size - 1), far)
    last = bucket == size - 1
    code, words = "bucket-clamp", f"is never used: {size - 2} is in its place"
    bucket = s.pick(
        f"the last bucket, {size - 1},",
        bucket,
        (code, f"of earlier keys {words}", bucket - (last & (r < 0))),
        *([(code, f"of later keys {words}", bucket - (last & (r > 0)))] if both else []),
        right=f"Clamp the bucket to {size - 1} on both sides.",
    )
    if both:
        later = s.pick(
            "the half of the buckets",
            r > 0,
            ("bucket-direction", "for later keys begins at the query's own position", r >= 0),
            ("bucket-direction", "for later keys is used for earlier ones", r < 0),
            ("bucket-direction", "for later keys is not used", r > np.inf),
            right=f"Add {size} to the bucket of keys after the query (key - query > 0), "
            "and nothing to others.",
        )
        bucket = bucket + size * later
    return bucket


def alibi(e: ALiBi, q: np.ndarray, k: np.ndarray, s: Steps) -> np.ndarray:
    """Return the bias of ALiBi."""
    slopes = s.array("the slope", e.slopes(), ("head",), "slopes")
    distance = distances(s, offset(s, q, k))
    return np.asarray(-of_heads(slopes) * distance)
