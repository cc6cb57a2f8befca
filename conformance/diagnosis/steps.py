"""Change one step of a formula, to find which one a function computes differently.

A formula is written once, as a function that passes its intermediate values through the methods of
:class:`Steps`. Each method knows the changes that make sense for its kind of value: another sign,
another rounding, another bound, a factor left out, an exchanged operand. Every change is one
:class:`~.mistake.Mistake`; as for other mistakes, it is reported only if it predicts all results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from .offset_sizes import Sizes
from .rounding import SIGNIFICANT_BITS, significant
from .step_options import (
    Option,
    Value,
    along,
    of_learned,
    of_numbers,
    of_offsets,
    to_integers,
    unlikely,
)
from .step_remedies import remedy_for, remedy_for_exchange

#: The name of a step and the words of a change, or two names of steps and EXCHANGED or REPLACED
#: (the second is in place of the first), or the name of a constant, "is", and its digits.
Change = tuple[str, ...]
_EXCHANGED = "are exchanged"
_REPLACED = "is used for both"
#: Kinds of steps that a wrong implementation may round to integers, where they are real numbers.
_REAL = ("number", "factor", "log", "real")


class Steps:
    """The steps of one computation of a formula, of which some are changed.

    Parameters
    ----------
    made : sequence of tuples of str
        The changes to make, each one of :func:`changes`.
    plain : Steps, optional
        The steps of the unchanged computation, for a change that exchanges two values.
    sizes : Sizes
        Measured sizes of the bounds and tiles that offsets may have.
    """

    def __init__(
        self,
        made: Sequence[Change] = (),
        plain: Steps | None = None,
        sizes: Sizes = Sizes(),  # noqa: B008 (immutable)
    ) -> None:
        self.made = tuple(made)
        self._tried = frozenset(name for change in self.made for name in _names_of(change))
        self.plain = plain
        self.sizes = sizes
        self.codes: dict[Change, str] = {}  #: the code of every possible change
        self.remedies: dict[Change, str] = {}  #: what to do about it
        self.kinds: dict[str, tuple[str, Any]] = {}  #: the kind and the value of every step

    def _step(
        self, kind: str, name: str, value: Any, options: Iterable[Option], right: str = ""
    ) -> Any:
        self._unchanged(kind, name, value)
        if not self.tries(name):
            return value
        if kind in _REAL:
            options = (*options, *to_integers(value, name))
        for change in self.made:
            if change[2:] == (_EXCHANGED,) and name in change[:2]:
                other = change[1] if name == change[0] else change[0]
                return self._plain_value(other)
            if change[::2] == (name, _REPLACED):
                return self._plain_value(change[1])
            if change[:2] == (name, "is"):  # a measured constant
                return np.float64(change[2])
            for _, words, changed, *_ in options if change[0] == name else ():
                if change == (name, words):
                    return changed()
        for code, words, of, *remedy in () if self.made else options:
            if kind != "factor" or value.ndim or of() != value:  # the square of 1 is 1
                self.codes[name, words] = code
                text = remedy_for(kind, name, words, value, *(remedy or [right]))
                self.remedies[name, words] = text
        return value

    def tries(self, name: str) -> bool:
        """Return whether a step may be changed here."""
        return not self.made or name in self._tried

    def _unchanged(self, kind: str, name: str, value: Any) -> Any:
        """Return the value of a step that is not changed; its options, which cost, are not made."""
        self.kinds[name] = kind, value
        return value

    def _plain_value(self, name: str) -> Any:
        """Return the value of a step in the unchanged computation."""
        assert self.plain is not None
        return self.plain.kinds[name][1]

    def code_of(self, name: str) -> str:
        """Return the code of the changes of one step."""
        return next(code for (one, *_), code in self.codes.items() if one == name)

    def number(self, name: str, v: Any, code: str = "position-origin", among: str = "") -> Any:
        """Return a position, an offset or an index; its sign, size or origin may be changed.

        ``among`` says which other bounds of an offset give the same results.
        """
        v = np.asarray(v)
        if not self.tries(name):
            return self._unchanged("number", name, v)
        options = of_numbers(v, name, code)
        if v.ndim == 2:  # of queries and keys
            text = "counts queries from 0, not from the number of earlier keys"
            options += (("bias-alignment", text, lambda: v - v.flat[0]),)
        if v.ndim and (v.ndim == 2 or self.sizes.bounds):
            options += tuple(of_offsets(v, self.sizes, among))
        return self._step("number", name, v, options)

    def factor(
        self, name: str, v: Any, code: str = "position-scale", sign: str | None = None
    ) -> Any:
        """Return a factor, a divisor or an exponent, which may be left out or inverted.

        ``sign`` is the code of the opposite sign, by default ``code``.
        """
        v = np.asarray(v, np.float64)
        if not self.tries(name):
            return self._unchanged("factor", name, v)
        return self._step(
            "factor",
            name,
            v,
            (
                (code, "is left out", lambda: np.ones_like(v)),
                (code, "is inverted", lambda: 1 / v),
                (code, "is squared", lambda: v * v),
                (code, "is replaced by its square root", lambda: np.sqrt(np.abs(v))),
                (code, "is doubled", lambda: 2 * v),
                (code, "is halved", lambda: v / 2),
                (code, "is 1 too large", lambda: v + 1),
                (code, "is 1 too small", lambda: v - 1),
                (sign or code, "has the opposite sign", lambda: -v),
                (code, "is at most 1", lambda: np.minimum(v, 1)),
                (code, "is at least 1", lambda: np.maximum(v, 1)),
                *along(v, ("head",) * (v.ndim > 0)),
                *(of_learned(v, code) if v.ndim else ()),
            ),
        )

    def term(self, name: str, v: Any, code: str = "score-term") -> Any:
        """Return a term of a sum, which may be left out or subtracted."""
        v = np.asarray(v)
        return self._step(
            "term",
            name,
            v,
            (
                (code, "is left out", lambda: np.zeros_like(v)),
                (code, "is subtracted", lambda: -v),
                (code, "is added twice", lambda: 2 * v),
            ),
        )

    def array(self, name: str, a: Any, axes: tuple[str, ...], code: str = "wrong-row") -> Any:
        """Return learned numbers, whose entries may be in another order.

        ``axes`` name the axes in words; a name that starts with "head" gets the code
        "head-order".
        """
        a = np.asarray(a, np.float64)
        options: list[Option] = [
            ("bias-sign", "has the opposite sign", lambda: -a),
            ("score-term", "is left out", lambda: np.zeros_like(a)),
            *along(a, axes, code),
            *of_learned(a, "score-term"),
        ]
        for kind, bits in SIGNIFICANT_BITS.items():
            right = f"Keep {{name}} in float32, not in {kind}."
            value = lambda n=bits: significant(a, n)  # noqa: E731
            options.append(("table-precision", f"is rounded to {kind}", value, right))
        for i, j in combinations(range(len(axes)), 2):
            turned = np.swapaxes(a, i, j)
            words = f"is transposed: {axes[i]} and {axes[j]} are exchanged"
            here, there = f"({axes[i]}, {axes[j]})", f"({axes[j]}, {axes[i]})"
            if a.shape[i] == a.shape[j]:
                right = f"Use {{name}} as {here}: {axes[i]} comes before {axes[j]}."
                options.append((code, words, lambda t=turned: t, right))  # type: ignore[misc]
            else:
                mixed = "a reshape mixes the entries."
                text = f"is reshaped, not transposed, from {there}"
                right = f"Transpose {{name}} from {there} to {here}: {mixed}"
                options.append((code, text, lambda t=turned: t.reshape(a.shape), right))  # type: ignore[misc]
                text = f"is reshaped, not transposed, to {there}"
                back = np.swapaxes(a.reshape(turned.shape), i, j)
                right = f"Transpose {{name}} from {here} to {there}: {mixed}"
                options.append((code, text, lambda t=back: t, right))  # type: ignore[misc]
        return self._step("array", name, a, options)

    def clip(self, name: str, v: Any, low: Any, high: Any, code: str = "bucket-clamp") -> Any:
        """Return ``v`` clamped to low .. high; one of the bounds may be missing or moved."""
        v = np.asarray(v)
        size = high - low + 1

        def to(a: Any, b: Any) -> Value:
            return lambda: np.clip(v, a, b)

        return self._step(
            "clip",
            name,
            np.clip(v, low, high),
            (
                (code, f"is not clamped to {low} .. {high}", lambda: v),
                (code, f"is clamped to at most {high}, not to at least {low}",
                 lambda: np.minimum(v, high)),
                (code, f"is clamped to at least {low}, not to at most {high}",
                 lambda: np.maximum(v, low)),
                *((code, f"is clamped to {a} .. {b}, not to {low} .. {high}", to(a, b))
                  for a, b in ((low + 1, high), (low, high - 1), (low, high + 1), (low - 1, high),
                               (low + 1, high - 1), (low - 1, high + 1))),
                *((code, f"is clamped to at most {b}, not to {low} .. {high}", to(-np.inf, b))
                  for b in (high - 1, high + 1)),
                *((code, f"is clamped to at least {a}, not to {low} .. {high}", to(a, np.inf))
                  for a in (low - 1, low + 1)),
                (code, f"wraps round modulo {size}, in place of being clamped",
                 lambda: (v - low) % size + low),
                *((code, f"is clamped to {a} .. {b}, not to {low} .. {high}", to(a, b))
                  for n in self.sizes.bounds
                  for a, b in ((-n, high), (low, n), (-n, n))
                  if low <= a <= b <= high and (a, b) != (low, high)),
            ),
            f"Clamp {{name}} to {low} .. {high}, at both ends.",
        )  # fmt: skip

    def rounded(self, name: str, v: Any, how: str) -> Any:
        """Return ``v`` rounded as ``how`` says: floor, ceil, rint or trunc."""
        v = np.asarray(v, np.float64)
        ways: dict[str, Value] = {
            # A quotient of logarithms that is a whole number may be computed as slightly less.
            "floor": lambda: np.floor(v + 1e-9),
            "ceil": lambda: np.ceil(v - 1e-9),
            "rint": lambda: np.rint(v),
        }
        words = {"floor": "down", "ceil": "up", "rint": "to the nearest integer"}
        code = "bucket-spacing"
        others = [
            (code, f"is rounded {words[other]}, not {words[how]}", of)
            for other, of in ways.items()
            if other != how
        ]
        others += [
            (code, "is rounded down, and 1 less if it is whole", lambda: np.ceil(v - 1e-9) - 1),
            (code, "is rounded up, and 1 more if it is whole", lambda: np.floor(v + 1e-9) + 1),
        ]
        return self._step(
            "rounded", name, ways[how](), others, f"Round {{name}} {words[how]} ({how})."
        )

    def log(self, name: str, v: Any, plus: float, base: str) -> Any:
        """Return the logarithm of ``v + plus`` to the base "e", "2" or "10"."""
        v = np.asarray(v, np.float64)
        bases = {"e": 1.0, "2": np.log(2.0), "10": np.log(10.0)}

        def of(more: float, divisor: float) -> Value:
            def value() -> Any:
                with np.errstate(divide="ignore", invalid="ignore"):
                    return np.log(v + more) / divisor

            return value

        said = {"e": "natural", "2": "to base 2", "10": "to base 10"}
        options: list[Option] = [
            ("position-scale", f"is {said[b]}, not {said[base]}", of(plus, divisor))
            for b, divisor in bases.items()
            if b != base
        ]
        options.append(("position-scale", "is left out", lambda: v))
        for small in {0.0, 1.0, 1e-6, 1e-5, 1e-8, 1e-12} - {plus}:
            text = f"is that of x + {small:g}, not of x + {plus:g}"
            options.append(("position-scale", text, of(small, bases[base])))
        right = f"Compute {{name}} as log{'' if base == 'e' else base}(x + {plus:g})"
        right += f", {said[base]}, x being its argument."
        return self._step("log", name, of(plus, bases[base])(), options, right)

    def real(self, name: str, v: Any) -> Any:
        """Return real numbers, which may be rounded to integers."""
        return self._step("real", name, np.asarray(v, np.float64), ())

    def within(
        self, name: str, factor: Any, function: Callable[[Any], Any], v: Any, *, of: str, what: str
    ) -> Any:
        """Return ``function(factor * v)``; the factor may stand elsewhere.

        ``of`` names the function in words, ``what`` its argument v.
        """
        code = "position-scale"
        return self._step(
            "within",
            name,
            function(factor * v),
            (
                (code, f"multiplies {of}, not {what}", lambda: factor * function(v)),
                (code, "is left out", lambda: function(v)),
                (code, f"divides {what}", lambda: function(v / factor)),
                (code, f"is added to {what}", lambda: function(v + factor)),
                (code, "is squared", lambda: function(factor * factor * v)),
                (code, f"times {what} is squared inside {of}", lambda: function((factor * v) ** 2)),
                (code, f"multiplies the square of {what}", lambda: function(factor * v**2)),
            ),
            f"Multiply {what} by {{name}} inside {of}.",
        )

    def pick(self, name: str, value: Any, *others: tuple[str, str, Any], right: str = "") -> Any:
        """Return ``value``; ``others`` are (code, words, value) of values mistaken for it.

        A value that takes long is given as a function that returns it.
        ``right`` says what to do about all of them; without it, a number is given as its value.
        """
        options = ((code, words, v if callable(v) else lambda v=v: v) for code, words, v in others)
        return self._step("pick", name, value, options, right)


def changes(plain: Steps) -> Iterator[tuple[str, str, str, Change]]:
    """Yield the code, the message and the remedy of every possible change, single ones first."""
    for change, code in sorted(plain.codes.items(), key=unlikely):
        name, words = change
        yield code, f"{name} {words}", plain.remedies[change], change
    for (one, (kind, a)), (two, (other, b)) in combinations(plain.kinds.items(), 2):
        same = (
            kind == other and kind in ("number", "factor", "array") and np.shape(a) == np.shape(b)
        )
        if not same or (kind != "number" and np.array_equal(a, b)):
            continue
        code = "axis-order" if kind == "number" else "wrong-row"
        right = remedy_for_exchange(one, two)
        yield code, f"{one} and {two} {_EXCHANGED}", right, (one, two, _EXCHANGED)
        for lost, used in ((one, two), (two, one)) if kind != "number" and np.ndim(a) else ():
            text = f"{lost} is replaced by {used}, which {_REPLACED}"
            right = f"Use {lost} where it is declared, not {used}."
            yield "wrong-row", text, right, (lost, used, _REPLACED)


def _names_of(change: Change) -> tuple[str, ...]:
    """Return the names of the steps that a change changes."""
    return change[:2] if change[2:] == (_EXCHANGED,) else change[:1]


def computed(
    formula: Callable[[Steps], Any],
    *made: Change,
    sizes: Sizes = Sizes(),  # noqa: B008 (immutable)
) -> Any:
    """Return the result of the formula with the changes, which are those for these ``sizes``."""
    plain = None
    if any(change[2:] in ((_EXCHANGED,), (_REPLACED,)) for change in made):
        plain = Steps()
        formula(plain)
    with np.errstate(all="ignore"):
        return formula(Steps(made, plain, sizes))


def plain_steps(
    formula: Callable[[Steps], Any],
    sizes: Sizes = Sizes(),  # noqa: B008 (immutable)
) -> Steps:
    """Return the steps of the unchanged formula."""
    steps = Steps(sizes=sizes)
    with np.errstate(all="ignore"):
        formula(steps)
    return steps
