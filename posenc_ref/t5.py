"""The relative attention bias of T5: a learned number per head and bucket of distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from math import gcd
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import check_numbers, check_place, lookup
from ._cached import cached_property
from ._namespace import (
    INTEGER,
    Array,
    astype,
    dtype_name,
    is_array,
    namespace,
    wide_integer,
)
from .bias import Bias

#: Digits of the products, and the relative error that 2**16 of them stay far below.
_DIGITS, _SLACK = 90, Decimal("1e-60")


def bucket_starts(nb: int, max_distance: int) -> tuple[int, ...]:
    """Return the smallest distance in each of the buckets 1 .. nb - 1.

    ``nb`` is the number of buckets of one direction; all distances from ``max_distance`` on are in
    the last.  With ``me = nb // 2``, each distance n < me has a bucket of its own, and bucket
    me + t begins at the smallest n with ``log(n/me) / log(max_distance/me) * (nb - me) >= t``.
    """
    me = nb // 2
    return (*range(1, me + 1), *geometric_starts(me, max_distance, nb - me, nb - me - 1))


def geometric_starts(
    first: int, last: int, steps: int, count: int, *, beyond: bool = False
) -> list[int]:
    """Return the smallest integer n >= ``first * (last / first) ** (t / steps)``, t = 1 .. count.

    n is greater than that number if ``beyond``.  ``last`` is greater than ``first``.  Products of
    ``_DIGITS`` digits find n; where such a product is an integer up to its error, n is found by
    comparing powers of integers instead, so every n is exact.
    """
    starts = []
    with localcontext(Context(prec=_DIGITS)):
        ratio = ((Decimal(last).ln() - Decimal(first).ln()) / steps).exp()
        value = Decimal(first)
        for t in range(1, count + 1):
            value *= ratio
            n = int(value.to_integral_value(ROUND_CEILING))
            near = int(value.to_integral_value())
            if abs(value - near) < _SLACK * near:
                # An exact integer is a power p/q of last / first, so p and q are small.
                p, q = t // gcd(t, steps), steps // gcd(t, steps)
                left, right = near**q * first**p, last**p * first**q
                n = near if left > right or (left == right and not beyond) else near + 1
            starts.append(n)
    return starts


def reached(distance: Array, starts: Sequence[int]) -> Array:
    """Return how many of the ascending ``starts`` each distance reaches, in its integer dtype."""
    if isinstance(distance, np.ndarray):  # one search instead of a pass for each start
        return np.searchsorted(starts, distance, side="right").astype(distance.dtype)
    count = namespace(distance).zeros_like(distance)
    for start in starts:
        count = count + astype(distance >= start, distance.dtype)
    return count


@dataclass(frozen=True, eq=False, repr=False)
class T5Bias(Bias):
    """Bucketed relative position bias of T5.

    Formula
        ``b_h(i, j) = table[bucket(j - i), h]``.  Logits are ``q . k + b`` by default,
        ``q . k / sqrt(d) + b`` if ``scaled``, and ``(q . k + b) / sqrt(d)`` if
        ``bias_inside_scale``.
        For r = j - i (key minus query): if ``bidirectional``, ``nb = num_buckets/2``, n = |r|, and
        nb is added to the bucket of keys after the query; otherwise ``nb = num_buckets`` and
        n = max(-r, 0).  With ``me = nb // 2``, the bucket is n for n < me, else
        ``min(me + floor(log(n/me) / log(max_distance/me) * (nb - me)), nb - 1)``.
    Source
        Raffel et al. 2019, arXiv:1910.10683, section 2.1; mesh_tensorflow
        ``_relative_position_bucket``.  MPNet, WavLM and LayoutLMv2 are ``scaled``; LayoutLMv3 is
        ``scaled`` with ``bias_inside_scale``.
    Error unit (see :mod:`posenc_ref.accuracy`)
        A = ``|b|``, B = 0; a wrong bucket is always an error.

    Bucket ``me + t`` starts at the smallest integer n with
    ``n**(nb-me) * me**t >= max_distance**t * me**(nb-me)``, found without rounding.  For some
    n the number inside floor is exactly an integer (n = 16, 32, 64 with the defaults and
    ``bidirectional``), and a rounded logarithm can give the bucket below.  Here these n have the
    formula's bucket on every device.

    Parameters
    ----------
    table : array, shape (num_buckets, num_heads), real floating
        Stored without a copy.  Biases are entries of the table, bit for bit, in the library and
        dtype of the table.
    num_buckets, max_distance : int
    bidirectional : bool
        True in encoders; in decoders (False) all later keys share bucket 0.
    scaled, bias_inside_scale : bool
        ``scaled`` divides ``q . k`` by sqrt(d); ``bias_inside_scale`` also divides the bias, and
        requires ``scaled``.
    """

    table: Array
    _: KW_ONLY
    num_buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = True
    scaled: bool = False
    bias_inside_scale: bool = False

    integers = True

    def __post_init__(self) -> None:
        check_numbers("table", self.table, "num_buckets", "num_heads")
        bidirectional = validate.boolean("bidirectional", self.bidirectional)
        lowest = 4 if bidirectional else 2
        buckets = validate.size("num_buckets", self.num_buckets, minimum=lowest)
        if bidirectional and buckets % 2:
            raise ValueError(f"num_buckets must be even when bidirectional, got {buckets}")
        if self.table.shape[0] != buckets:
            raise ValueError(
                f"table must have shape (num_buckets, num_heads) with num_buckets = {buckets}, "
                f"got {tuple(self.table.shape)}"
            )
        exact = (buckets // 2 if bidirectional else buckets) // 2
        why = f" (more than the {exact} distances that have their own bucket)"
        distance = validate.integer("max_distance", self.max_distance, minimum=exact + 1, why=why)
        inside = validate.boolean("bias_inside_scale", self.bias_inside_scale)
        scaled = validate.boolean("scaled", self.scaled)
        if inside and not scaled:
            raise ValueError("bias_inside_scale=True needs scaled=True: it has no effect otherwise")
        self._set(
            num_buckets=buckets,
            max_distance=distance,
            bidirectional=bidirectional,
            scaled=scaled,
            bias_inside_scale=inside,
        )

    @property
    def num_heads(self) -> int:  # type: ignore[override]
        """Number of heads, the second axis of the table."""
        return int(self.table.shape[1])

    @property
    def sees_future(self) -> bool:
        """Whether queries attend to later keys; False for a causal bias."""
        return self.bidirectional

    @cached_property
    def thresholds(self) -> tuple[int, ...]:
        """The smallest distance in each of the buckets 1, 2, ... of one direction."""
        nb = self.num_buckets // 2 if self.bidirectional else self.num_buckets
        return bucket_starts(nb, self.max_distance)

    def bucket(self, relative_position: Any) -> Array:
        """Return the bucket (int64) of each relative position ``key - query``, integers (...)."""
        r = relative_position
        if not is_array(r):
            r = np.asarray(r)
        if dtype_name(r) not in INTEGER:
            raise TypeError(f"relative_position must be integers, got dtype {dtype_name(r)}")
        xp = namespace(r)
        wide = wide_integer(xp)
        r = astype(r, wide)
        distance = xp.abs(r) if self.bidirectional else -xp.minimum(r, xp.zeros_like(r))
        bucket = reached(distance, self.thresholds)
        if self.bidirectional:
            bucket = bucket + self.num_buckets // 2 * astype(r > 0, wide)
        return bucket

    def own_scale(self, dim: int) -> float:
        """Return the factor of ``q . k``: 1/sqrt(d) if ``scaled``, else 1.

        T5's initial weights include the factor 1/sqrt(d).
        """
        return super().own_scale(dim) if self.scaled else 1.0

    def _of_offset(self, offset: Array) -> Array:
        bucket = self.bucket(offset)
        check_place("positions", bucket, "the table", self.table)
        return namespace(self.table).moveaxis(lookup("bucket", self.table, bucket), -1, -3)
