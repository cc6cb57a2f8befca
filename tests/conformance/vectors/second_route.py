"""A second route to the truth of every surface: the specification's own decimal arithmetic.

Surfaces that only move or count take the specification's function.  Where the specification has
float64 alone, the formula of the registry is computed with 30 more digits: this shows that 50 are
enough, and the specification's float64 function shows that the formula is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from posenc_ref import ALiBi, Learned, Sinusoidal, T5Bias
from posenc_ref.angles import decimal_context
from posenc_ref.conformance.exact import schedules
from posenc_ref.conformance.exact.digits import DIGITS, mpmath
from posenc_ref.conformance.vectors.make import exact
from posenc_ref.conformance.vectors.surfaces import own_function
from tests.conformance.exact.fixed_point import slope_exponents
from tests.conformance.vectors import second_route_rotary as rotary

Array = Any
Inputs = Mapping[str, Any]


def values(surface: str, encoding: Any, inputs: Inputs) -> list[Array]:
    """The value of every output of a case: object arrays of decimals, or integers."""
    if surface in ROUTES:
        found = ROUTES[surface](encoding, inputs)
    else:
        found = own_function(surface, encoding, "float64")(*inputs.values())
    return list(found) if isinstance(found, tuple) else [found]


def magnitude(e: Any, seq_len: int | None) -> Decimal:
    """m with all its digits.

    The specification has it in float64, correctly rounded: that must be what 50 digits round to.
    """
    mp = mpmath().mp
    with mp.workdps(DIGITS):
        scaling = getattr(e, "scaling", None)
        m = schedules.magnitude(scaling, seq_len)
        if float(m) != e.attention_factor(seq_len):
            raise ValueError(f"{e!r} has m = {e.attention_factor(seq_len)!r}, 50 digits {m}")
        return Decimal(mp.nstr(m, DIGITS))


def _rotated(e: Any, x: np.ndarray, positions: np.ndarray, **how: Any) -> Array:
    m = magnitude(e, rotary.call_length(e, positions))
    return rotary.rotate(e, x, positions, m, **how)


def _cos_sin(e: Any, i: Inputs) -> tuple[Array, Array]:
    m = magnitude(e, rotary.call_length(e, i["positions"]))
    return rotary.cos_sin(e, i["positions"], m)


def _frequencies(e: Any, i: Inputs) -> tuple[Array, Array]:
    seq_len = i.get("seq_len")
    each = np.array(e.decimal_frequencies(seq_len), dtype=object)
    return each, np.array(magnitude(e, seq_len), dtype=object)


def _table(e: Any, positions: np.ndarray) -> Array:
    if isinstance(e, Learned):
        return np.asarray(e.table(positions)).astype(object)
    if not isinstance(e, Sinusoidal):
        return _again(e, {"positions": positions})
    made = np.full((positions.size, e.dim), Decimal(0), dtype=object)
    sin_at, cos_at = e.columns()
    with decimal_context():
        offset, scale = Decimal(e.offset), Decimal(e.scale)
        for s, p in enumerate(positions.tolist()):
            for k, w in enumerate(e.decimal_frequencies()):
                cos, sin = rotary.decimal_cos_sin((Decimal(p) + offset) * w)
                made[s, sin_at[k]] = scale * sin
                if k < cos_at.size:
                    made[s, cos_at[k]] = scale * cos
    return made


def _again(e: Any, inputs: Inputs) -> Array:
    """The formula of the registry with more digits.

    That 50 are enough, where the specification itself has float64, which is judged as well.
    """
    return exact.registered(e, inputs, digits=DIGITS + 30).value


def _add(e: Any, x: np.ndarray) -> Array:
    with decimal_context():
        return rotary.decimals(x) + np.frompyfunc(Decimal, 1, 1)(_table(e, np.arange(x.shape[-2])))


def _slopes(e: Any, num_heads: int) -> Array:
    """Two to minus the authors' recursive exponents; they round to our slopes."""
    with decimal_context():
        each = [_power(x) for x in slope_exponents(num_heads, e.max_bias)]
    if [float(x) for x in each] != e.replace(num_heads=num_heads).slopes().tolist():
        raise ValueError(f"{e!r} has other slopes than 2 ** -exponent, rounded")
    return np.array(each, dtype=object)


def _power(exponent: Fraction) -> Decimal:
    return Decimal(2) ** (-Decimal(exponent.numerator) / exponent.denominator)


def _bias(e: Any, i: Inputs) -> Array:
    at, keys = np.arange(i["k_len"] - i["q_len"], i["k_len"]), np.arange(i["k_len"])
    if isinstance(e, T5Bias):
        return np.asarray(e.bias(at, keys)).astype(object)
    if not isinstance(e, ALiBi):
        return _again(e, i)
    distance = np.frompyfunc(Decimal, 1, 1)(np.abs(keys - at[:, None]).astype(object))
    with decimal_context():
        return -_slopes(e, e.num_heads)[:, None, None] * distance


def _scores(e: Any, i: Inputs) -> Array:
    q, k = i["q"], i["k"]
    if e.family == "score":
        return _again(e, i)
    at = [np.arange(x.shape[-2]) for x in (q, k)]
    scale, added = Decimal(q.shape[-1]), Decimal(0)
    if e.family == "rotary":
        decay = 1 if hasattr(e, "decays") else 0
        q, k = _rotated(e, q, at[0], decay=decay), _rotated(e, k, at[1], decay=-decay)
    else:
        q, k = rotary.decimals(q), rotary.decimals(k)
        bias = _bias(e, {"q_len": len(at[0]), "k_len": len(at[1])})
        added = np.frompyfunc(Decimal, 1, 1)(bias)
        scale = scale if e.own_scale(q.shape[-1]) != 1 else Decimal(1)
    with decimal_context():
        products = (q[..., :, None, :] * k[..., None, :, :]).sum(axis=-1)
        if getattr(e, "bias_inside_scale", False):
            return (products + added) / scale.sqrt()
        return products / scale.sqrt() + added


def _relative_scores(q: np.ndarray, rel: np.ndarray) -> Array:
    by_offset = rotary.decimals(q) @ rotary.decimals(rel).T
    at = np.arange(len(q))
    return by_offset[at[:, None], len(q) - 1 - at[:, None] + at]


ROUTES: dict[str, Callable[[Any, Inputs], Any]] = {
    "apply": lambda e, i: _rotated(e, i["x"], i["positions"]),
    "apply_offset": lambda e, i: _rotated(
        e, i["x"], i["offset"][:, None] + np.arange(i["x"].shape[2])
    ),
    "decode": lambda e, i: _rotated(e, i["x"], np.arange(i["x"].shape[2])),
    "key_cache": lambda e, i: _rotated(e, i["k"], np.arange(i["k"].shape[2])),
    "apply_vjp": lambda e, i: _rotated(e, i["dy"], i["positions"], back=True),
    "shift_keys": lambda e, i: rotary.rotate(
        e, i["k"], np.full(i["k"].shape[2], i["delta"]), Decimal(1), again=True
    ),
    "evict_keys": lambda e, i: np.concatenate(
        [
            rotary.decimals(i["k"][:, :, : i["kept"]]),
            rotary.rotate(
                e,
                i["k"][:, :, i["kept"] + i["dropped"] :],
                np.full(i["k"].shape[2] - i["kept"] - i["dropped"], -i["dropped"]),
                Decimal(1),
                again=True,
            ),
        ],
        axis=2,
    ),
    "normed_apply": lambda e, i: _rotated(e, rotary.normed(i["x"], i["weight"]), i["positions"]),
    "relative_scores": lambda e, i: _relative_scores(i["q"], i["rel"]),
    "apply_queries": lambda e, i: _rotated(e, i["x"], i["positions"], decay=1),
    "apply_keys": lambda e, i: _rotated(e, i["x"], i["positions"], decay=-1),
    "cos_sin": _cos_sin,
    "frequencies": _frequencies,
    "table": lambda e, i: _table(e, i["positions"]),
    "grid": lambda e, i: exact.grid(e, i, digits=DIGITS + 30).value,
    "add": lambda e, i: _add(e, i["x"]),
    "slopes": lambda e, i: _slopes(e, i["num_heads"]),
    "bias": _bias,
    "scores": _scores,
}
