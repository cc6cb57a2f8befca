"""An entry of the registry: an encoding with examples and an independent formula."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Encoding, Table

from .digits import DIGITS, mpmath
from .error_numbers import Counted, counted
from .numbers import Real
from .output import Output
from .recipe import Group, Recipe, numbers, rotated, whole
from .rotation import rotate

#: The formula of each family, for numbers of :mod:`.error_numbers` (rotary: for 50-digit numbers):
#: table  ``exact(e, *p) -> row``: p is the position, one number for each axis; a list of ``dim``.
#: bias   ``exact(e, i, j) -> values``: positions of query and key; one number for each head.
#: score  ``exact(e, h, q, keys, i, at) -> logits``: head h, the vector of the query at i, those of
#:        all keys and their positions; one logit for each key.  If logits depend on other
#:        queries (``mixes_queries``), q and i are all query vectors and their positions, and the
#:        result has a row of logits for each query.
#: rotary ``exact(e, seq_len) -> weights``: :data:`.rotation.Formula`.
Exact = Callable[..., Sequence[Any]]

#: The surface on which each family is judged.
SURFACE = {"table": "table", "bias": "bias", "score": "scores", "rotary": "apply"}


@dataclass(frozen=True, eq=False)
class Entry:
    """An encoding with its examples and its formula."""

    encoding: type[Encoding]
    spec: str  #: where the formula is published
    examples: Mapping[str, Encoding]  #: by the ids of their vectors
    exact: Exact
    inputs: Callable[[Any], Iterable[Recipe]] | None = None  #: replaces the inputs of the family

    @property
    def name(self) -> str:
        """Return the name of the class."""
        return self.encoding.__name__

    @property
    def surface(self) -> str:
        """Return the surface on which the encoding is judged."""
        decays = hasattr(self.encoding, "decays")
        return "apply_queries" if decays else SURFACE[self.encoding.family]

    def group(self, name: str) -> Group:
        """Return the inputs of one example: its golden vectors without the expected outputs."""
        e: Any = self.examples[name]
        recipes = self.inputs(e) if self.inputs else _INPUTS[self.encoding.family](e, name)
        return Group(name, self.surface, e, self.spec, tuple(recipes))

    def truth(self, e: Any, inputs: Mapping[str, Any], digits: int = DIGITS) -> Real:
        """Return the exact output for the inputs of a case.

        A bias takes ``q_positions`` and ``k_positions`` or two lengths; a score takes them in
        addition to q and k.
        """
        with mpmath().mp.workdps(digits):
            return _TRUTHS[e.family](self.exact, e, inputs)

    def cases(self, name: str) -> Iterator[tuple[Recipe, Output]]:
        """Yield each case of one example: its inputs and its expected output."""
        for recipe in self.group(name).cases:
            yield recipe, self.truth(self.examples[name], recipe.inputs).output()


# --- inputs --------------------------------------------------------------------------------------


def at(name: str, comment: str, *positions: Any) -> Recipe:
    """Return a case of a table: positions, or a sequence of them for each axis."""
    array = np.array(positions)
    return Recipe(name, comment, {"positions": array.astype(array.dtype.kind + "8")})


def lengths(q_len: int, k_len: int) -> Recipe:
    """Return a case of a bias: the last ``q_len`` of ``k_len`` tokens are queries."""
    says = f"The queries are the last {q_len} of {k_len} tokens."
    return Recipe(f"{q_len}-of-{k_len}", says, {"q_len": q_len, "k_len": k_len})


def tokens(ident: str, heads: int, dim: int, count: int, size: float = 1.0) -> Recipe:
    """Return a case of a score among ``count`` tokens, with q and k scaled by ``size``."""
    q, k = (numbers(f"{ident}-{side}", 1, heads, count, dim) * np.float32(size) for side in "qk")
    return Recipe(f"{count}-tokens", f"{count} queries and keys.", {"q": q, "k": k})


def _tables(e: Table, name: str) -> list[Recipe]:
    """Return cases with the first positions, far ones and fractions, in another order per axis."""
    if e.integers:
        raise ValueError(f"{name} is a table of learned rows: register its positions with inputs=")
    first, far, between = [0, 1, 2, 3], [257, 5003, 8191, 3001], [-1.5, 0.25, 33.75, 0.5]

    def axes(positions: list[Any]) -> list[Any]:
        turned = [positions[a:] + positions[:a] for a in range(e.num_axes)]
        return positions if e.num_axes == 1 else turned

    return [
        at("first", "The first four positions.", *axes(first)),
        at("far", "Positions beyond 256, 2048 and 5000.", *axes(far)),
        at("between", "Negative and fractional positions.", *axes(between)),
    ]


def _biases(e: Any, name: str) -> list[Recipe]:
    """Return cases with all tokens of a window; without a window, with near and far tokens."""
    if hasattr(e, "tokens"):
        return [lengths(e.tokens, e.tokens), lengths(2, e.tokens)]
    return [lengths(4, 4), lengths(2, 9), lengths(1, 40)]


def _scores(e: Any, name: str) -> list[Recipe]:
    """Return a case with a few tokens, or with as many as the table has rows."""
    return [tokens(name, e.heads or 2, e.head_dim, min(e.rows or 7, 12))]


#: Positions of three tokens on each of four axes; no two axes are alike.
PICTURE = [[3, 3, 3], [0, 1, 5], [2, 0, 7], [4, 6, 1]]
FAR = [[65537, 1021], [4095, 37], [2049, 211], [9, 5]]


def rotations(e: Any, ident: str) -> list[Recipe]:
    """Return cases with the first positions and far ones, different on every axis."""
    axes = e.num_axes

    def case(name: str, comment: str, positions: Any) -> Recipe:
        at = whole(*positions)
        return rotated(ident, name, comment, e.head_dim, at[:, None] if axes > 1 else at)

    if axes == 1:
        return [
            case("first", "The first two positions.", [0, 1]),
            case("far", "A far position.", [65537]),
        ]
    return [
        case("text", "Two text tokens: all axes agree.", [[0, 1]] * axes),
        case("picture", "Three tokens in which the axes differ.", PICTURE[:axes]),
        case("far", "Large and different positions.", [at[:1] for at in FAR[:axes]]),
    ]


_INPUTS: dict[str, Callable[[Any, str], list[Recipe]]] = {
    "rotary": rotations,
    "table": _tables,
    "bias": _biases,
    "score": _scores,
}


# --- expected outputs ----------------------------------------------------------------------------


def _table_truth(exact: Exact, e: Table, inputs: Mapping[str, Any]) -> Real:
    positions = inputs["positions"]
    columns = positions.T if e.num_axes > 1 else positions[:, None]
    return _real([exact(e, *map(Counted, p)) for p in columns.tolist()], lookups=True)


def _bias_truth(exact: Exact, e: Any, inputs: Mapping[str, Any]) -> Real:
    q_at, k_at = sides(inputs)
    entries = [[[*map(counted, exact(e, i, j))] for j in k_at] for i in q_at]
    own = None
    if e.up_to_constant:  # rows are judged relative to the key at the query's position
        own = np.array([k_at.index(i) for i in q_at])
        entries = [
            [[v - c for v, c in zip(heads, row[at], strict=True)] for heads in row]
            for row, at in zip(entries, own, strict=True)
        ]
    by_head = np.moveaxis(np.array(entries, dtype=object), -1, 0)
    return _real(by_head, judged=_judged(e, q_at, k_at), relative_to=own)


def _score_truth(exact: Exact, e: Any, inputs: Mapping[str, Any]) -> Real:
    q, k = inputs["q"], inputs["k"]
    q_at, k_at = sides(inputs)

    def head(b: int, h: int) -> list[Any]:
        queries, keys = q[b, h].tolist(), k[b, h].tolist()
        if e.mixes_queries:
            return list(exact(e, h, queries, keys, q_at, k_at))
        return [exact(e, h, q_i, keys, i, k_at) for q_i, i in zip(queries, q_at, strict=True)]

    logits = [[head(b, h) for h in range(q.shape[1])] for b in range(q.shape[0])]
    return _real(logits, judged=_judged(e, q_at, k_at))


_TRUTHS: dict[str, Callable[[Exact, Any, Mapping[str, Any]], Real]] = {
    "rotary": lambda exact, e, inputs: rotate(exact, e, **inputs, decay=int(hasattr(e, "decays"))),
    "table": _table_truth,
    "bias": _bias_truth,
    "score": _score_truth,
}


def sides(inputs: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return positions of queries and keys; by default, Q queries have the last Q positions."""
    if "q_positions" in inputs:
        return inputs["q_positions"].tolist(), inputs["k_positions"].tolist()
    by_length = "q_len" in inputs
    q_len, k_len = (inputs[f"{s}_len"] if by_length else inputs[s].shape[2] for s in "qk")
    return list(range(k_len - q_len, k_len)), list(range(k_len))


def _judged(e: Any, q_at: list[Any], k_at: list[Any]) -> np.ndarray:
    return np.array([[e.sees_future or j <= i for j in k_at] for i in q_at])


def _real(nested: Any, lookups: bool = False, **how: Any) -> Real:
    """Return nested :class:`Counted` numbers as arrays: values, A, B and amplitudes.

    With ``lookups``, values that are only looked up have A = 0: results must be bit-equal.
    """

    def parts(number: Any) -> tuple[Any, ...]:
        n = counted(number)
        return n.value, 0.0 if lookups and n.given else n.terms, n.angle, n.amplitude

    value, terms, angle, amplitude = np.frompyfunc(parts, 1, 4)(np.array(nested, dtype=object))
    return Real(value, terms, angle, amplitude=amplitude, **how)
