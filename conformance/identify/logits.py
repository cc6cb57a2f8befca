"""Measure the terms of logits with inputs of one nonzero channel, or of zeros."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run

from .images.windows import TOKENS

#: The number of queries and the number of keys in the calls that measure terms.
_SQUARE = 6
#: Numbers of heads to try: a bias may require a certain number.
_HEADS = tuple(dict.fromkeys((1, 8, 12, 16, 32, 4, 2, *range(3, 65))))
#: Those with more slopes than one: 12 is no power of two.
_TELLING = (12, 8)
#: Those to try with every number of tokens of a grid.
_FEW_HEADS = (1, 8, 12, 16, 4, 2, 3, 6)
#: Logits of zero inputs below this count as masked.
_MASK = -1e4
#: The largest distance of a key from the query.
_FARTHEST = 2**11
#: The largest distance if every call must have as many queries as keys.
_LARGEST_SQUARE = 2**6
#: About how many elements of k to pass in one call.
_CHUNK = 2**23


@dataclass
class Logits:
    """Access to the logits of ``fn(q, k)`` for inputs of chosen channels."""

    grids: ClassVar[tuple[int, ...]] = TOKENS  #: numbers of tokens of a whole grid to try

    run: Run
    dim: int
    heads: int = 1
    short: bool = True  #: whether fewer queries than keys are accepted
    tokens: int = _SQUARE  #: queries and keys of a square call; others than usual are a whole grid

    @property
    def farthest(self) -> int:
        """The largest distance of a key from the query."""
        # Every call may have to have as many queries as keys.
        return _FARTHEST if self.short else _LARGEST_SQUARE

    @property
    def size(self) -> float:
        """The value of the nonzero channels of the test inputs q and k: much larger than biases."""
        return 2.0**4 if self.run.coarse == "float16" else 2.0**10

    def of(self, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Return logits (B, H, Q, K), with the same q (B, Q, d) and k (B, K, d) in every head."""
        b, n_q, n_k = q.shape[0], q.shape[1], k.shape[1]
        q, k = (np.repeat(x[:, None], self.heads, axis=1) for x in (q, k))
        y = self.run.driver.array(self.run.driver.call(q, k))
        if y.ndim != 4 or (y.shape[0], *y.shape[2:]) != (b, n_q, n_k):
            raise Malformed(f"expected (B, H, Q, K) = {(b, self.heads, n_q, n_k)}, got {y.shape}")
        self.run.reached(n_k - 1)
        return y

    def learn(self) -> None:
        """Find the number of heads and of tokens, and whether there may be fewer queries."""
        grids = [(n, tokens) for n in _FEW_HEADS for tokens in self.grids]
        errors: list[Exception] = []
        for self.heads, self.tokens in [*((n, _SQUARE) for n in _HEADS), *grids]:
            # Results of another shape are no logits: they may have this shape by chance.
            if self.whole and not isinstance(errors[0], Refused):
                raise errors[0]
            try:
                self.heads = self._zeros().shape[1]
                break
            except (Refused, Malformed) as error:
                errors.append(error)
        else:
            raise errors[0]
        self._zeros()
        if self.whole:
            self.short = False
            self.run.limit(f"other calls than those of {self.tokens} tokens are refused")
            return
        try:
            zeros = np.zeros((1, _SQUARE, self.dim))
            self.of(zeros[:, :1], zeros)
        except (Refused, Malformed) as error:
            self.short = False
            self.run.limit(f"fewer queries than keys are refused ({error})")

    @property
    def whole(self) -> bool:
        """Whether only the tokens of a whole grid are accepted."""
        return self.tokens != _SQUARE

    def _zeros(self) -> np.ndarray:
        zeros = np.zeros((1, self.tokens, self.dim))
        return self.of(zeros, zeros)

    def more_heads(self) -> None:
        """Ask for more heads if any number is accepted and each has a bias of its own."""
        for heads in _TELLING if self.heads == 1 else ():
            other = replace(self, heads=heads)
            with suppress(Refused, Malformed):
                last = other.last_bias(self.tokens)
                if (last != last[:1]).any():
                    self.heads = heads
                    return

    def at_end(self) -> bool:
        """Return whether a single query has the position of the last key."""
        if not self.short:
            return True
        x = self.run.random((1, _SQUARE, self.dim))
        off = np.abs(self.of(x[:, -1:], x)[:, :, 0] - self.of(x, x)[:, :, -1])
        size = np.abs(x[:, -1:] * x).sum(axis=-1)  # (1, K)
        return bool((off <= 64 * ROUNDOFF[self.run.coarse] * (size + 1)).all())

    def hot(self, channels: np.ndarray, length: int) -> np.ndarray:
        """Return x (n, length, d): only channel ``channels[i]`` of item i is nonzero (-1: none)."""
        x = np.zeros((channels.size, length, self.dim))
        at = np.flatnonzero(channels >= 0)
        x[at, :, channels[at]] = self.size
        return x

    def last(self, a: np.ndarray, b: np.ndarray, length: int) -> np.ndarray:
        """Return logits (n, H, length) of the last query, with channel a[i] of q and b[i] of k."""
        step = max(1, _CHUNK // (length * self.dim * self.heads))
        n_q = 1 if self.short else length
        parts = [
            self.of(self.hot(a[i : i + step], n_q), self.hot(b[i : i + step], length))[:, :, -1]
            for i in range(0, a.size, step)
        ]
        return np.concatenate(parts)

    def at(self, a: np.ndarray, b: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Return logits (n, H, D) of the last query and keys that are ``distances`` before it."""
        return self.last(a, b, int(distances.max()) + 1)[..., ::-1][..., distances]

    def edges(self, a: np.ndarray, b: np.ndarray, length: int) -> np.ndarray:
        """Return the same logits of the last and the first query of a square call, (n, H, 2, K)."""
        step = max(1, _CHUNK // (length * max(self.dim, length) * self.heads))
        parts = [
            self.of(self.hot(a[i : i + step], length), self.hot(b[i : i + step], length))
            [:, :, [-1, 0]]
            for i in range(0, a.size, step)
        ]  # fmt: skip
        return np.concatenate(parts)

    def bias_at(self, distances: np.ndarray) -> np.ndarray:
        """Return the last query's logits (H, D) for zero inputs, by the distance of the key."""
        return self.last_bias(int(distances.max()) + 1)[:, ::-1][:, distances]

    def last_bias(self, length: int) -> np.ndarray:
        """Return the last query's logits (H, length) for zero inputs."""
        return self.bias(1 if self.short else length, length)[:, -1]

    def bias(self, q_len: int, k_len: int) -> np.ndarray:
        """Return the logits (H, Q, K) for zero inputs."""
        none = np.array([-1])
        y = self.of(self.hot(none, q_len), self.hot(none, k_len))[0]
        return np.asarray(np.where(y < _MASK, -np.inf, y))


@dataclass(frozen=True)
class Terms:
    """The terms of ``q' M k + a' q + b' k + c`` for every head, query and key of one call."""

    content: np.ndarray  #: M, (H, Q, K, d, d): channels of q, channels of k
    query: np.ndarray  #: a, (H, Q, K, d)
    key: np.ndarray  #: b, (H, Q, K, d)
    bias: np.ndarray  #: c, (H, Q, K)
    visible: np.ndarray  #: (Q, K)
    bilinear: bool
    noise: dict[str, float]  #: the rounding error of each term

    def same(self, name: str, along: str) -> bool:
        """Return whether a term is the same for all (query, key) of each group by ``along``."""
        i, j = np.nonzero(self.visible)
        # A group holds all queries of a key, all keys of a query, all pairs of an offset, or all.
        group = {"queries": j, "keys": i, "offsets": j - i, "all": 0 * i}[along]
        values = getattr(self, name)[:, i, j]
        slack = 2 * self.noise[name]
        return all(
            np.ptp(values[:, group == g], axis=1).max(initial=0.0) <= slack
            for g in np.unique(group)
        )


def take_apart(logits: Logits) -> Terms:
    """Return the terms of a call, measured one channel of q and k at a time."""
    n, d, size = logits.tokens, logits.dim, logits.size
    every, none = np.arange(d), np.full(d, -1)
    bias = logits.bias(n, n)
    visible = np.isfinite(bias).all(axis=0)
    bias = np.where(visible, bias, 0.0)

    def of(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        return np.where(visible, logits.of(logits.hot(q, n), logits.hot(k, n)), 0.0)

    query, key = of(every, none) - bias, of(none, every) - bias
    content = np.stack([of(every, np.full(d, c)) for c in range(d)], axis=-1)  # (q, H, Q, K, k)
    content = content - query[..., None] - key.transpose(1, 2, 3, 0) - bias[..., None]
    rough = ROUNDOFF[logits.run.coarse]
    parts = {
        "content": content.transpose(1, 2, 3, 0, 4) / size**2,
        "query": query.transpose(1, 2, 3, 0) / size,
        "key": key.transpose(1, 2, 3, 0) / size,
        "bias": bias,
    }
    sizes = {name: float(np.abs(part).max(initial=0.0)) for name, part in parts.items()}
    noise = dict.fromkeys(parts, 0.0)
    noise["query"] = noise["key"] = sizes["bias"] / size
    noise["content"] = (sizes["query"] + sizes["key"]) / size + sizes["bias"] / size**2
    for name, part in parts.items():
        part[np.abs(part) <= 8 * rough * noise[name]] = 0.0
    noise = {name: 8 * rough * (noise[name] + sizes[name]) for name in parts}
    return Terms(**parts, visible=visible, bilinear=_bilinear(logits, bias, visible), noise=noise)


@dataclass(frozen=True)
class Whole:
    """The terms of ``s q . k + a' q + c`` for every query and key of a whole grid."""

    scale: float  #: s
    query: np.ndarray  #: a, (d, H, N, N)
    bias: np.ndarray  #: c, (H, N, N)

    @classmethod
    def of(cls, logits: Logits) -> Whole | None:
        """Return the terms of the only accepted call, or None if there are others."""
        n, d, size = logits.tokens, logits.dim, logits.size
        zeros, run = np.zeros((1, n, d)), logits.run
        bias = logits.bias(n, n)
        if not np.isfinite(bias).all():
            return None
        query = np.stack([logits.of(logits.hot(np.array([c]), n), zeros)[0] for c in range(d)])
        query = (query - bias) / size
        rough = ROUNDOFF[run.coarse]
        query[np.abs(query) <= 8 * rough * np.abs(bias).max() / size] = 0.0
        first = logits.hot(np.array([0]), n)
        scale = float(np.median(logits.of(first, first)[0] - bias - size * query[0]) / size**2)
        q, k = run.random((2, 1, n, d))
        for queries, keys in ((q, k), (q, 0 * k), (0 * q, k)):
            own = scale * queries[0] @ keys[0].T
            asked = np.einsum("ic,chij->hij", queries[0], query)
            expected = own + asked + bias
            sizes = np.abs(own).max() + np.abs(asked).max() + np.abs(bias).max() + d**-0.5
            if (np.abs(logits.of(queries, keys)[0] - expected) > 64 * rough * sizes).any():
                return None
        return cls(scale, query, bias)


def _bilinear(logits: Logits, bias: np.ndarray, visible: np.ndarray) -> bool:
    """Return whether logits are linear in q and in k, apart from constant terms."""
    random = np.random.default_rng(logits.run.settings.seed)
    q, k = logits.run.driver.rounded(random.normal(size=(2, 1, logits.tokens, logits.dim)))
    zero = np.zeros_like(q)

    def at(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(np.where(visible, logits.of(a, b)[0], 0.0))

    y = at(q, k)
    slack = 64 * ROUNDOFF[logits.run.coarse] * (np.abs(y).max() + logits.dim**0.5)
    return all(
        bool((np.abs(double - 2 * y + rest) <= slack + np.abs(bias) * slack).all())
        for double, rest in ((at(2 * q, k), at(zero, k)), (at(q, 2 * k), at(q, zero)))
    )
