"""The result of a comparison: the report of a check, and how the two functions differ."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

from posenc_ref.accuracy import VISIBLE
from posenc_ref.conformance.harness.accuracy import short_length
from posenc_ref.conformance.harness.report import Report

#: The contexts at whose end the logits of both functions are compared.
CONTEXTS = (2**12, 2**15, 2**17)
AGREE, LOGITS_AGREE, DIFFER = "tensors agree", "tensors differ, logits agree", "tensors differ"
_WIDTH = 100


@dataclass
class Difference:
    """How the results of A differ from those of B in the same calls.

    Attributes
    ----------
    identical : bool
        Whether all compared results are equal bit for bit.
    calls : int
        The number of calls made to both functions.
    off : list[str]
        The calls whose results differ by more than rounding.
    logits : bool, optional
        Whether the logits agree; None if the surface has none, or none could be compared.
    constant : bool
        Whether logits agree only up to a constant for each query, which the softmax removes.
    inputs : str
        The inputs for which logits were compared.
    what : str
        What ``first`` counts: "position", "distance", ...; empty if results were not searched.
    first : int, optional
        The smallest tried position at which results differ by more than 2**-9.
    every : bool
        Whether no smaller one differs visibly; else ``first`` is an upper bound.
    errors : dict[int, float]
        The largest difference of a logit at the end of a context, by the length of the context.
    """

    identical: bool = True
    calls: int = 0
    off: list[str] = field(default_factory=list)
    logits: bool | None = None
    constant: bool = False
    inputs: str = ""
    what: str = ""
    first: int | None = None
    every: bool = False
    errors: dict[int, float] = field(default_factory=dict)


@dataclass
class Comparison(Report):
    """The result of :func:`posenc_ref.conformance.compare`; print it to read it.

    A report about the first function, whose declaration is the second one.

    Attributes
    ----------
    subject, surface, backend, dtype, findings, accuracy, limits, executed, required, controls
        As in :class:`Report`.
    failed, expected, error, printed, crossed
        As in :class:`Report`.
    called : str
        How A and B were called, if not exactly as the surface says.
    measured : str
        The first function in one line, if it was checked against an encoding.
    encoding : str
        What the second function is: its encoding, or that its results are the reference.
    differs : list[str]
        The measured properties that differ, in words.
    difference : Difference
        The results of both functions in the same calls.
    conversion, converted : list[str], str
        The steps that convert the first function to the second one, in words; the Python code of
        these steps, which defines ``converted``, a function that calls ``fn``, the first function.
    agreement : str
        "tensors agree", "tensors differ, logits agree" or "tensors differ".
    """

    differs: list[str] = field(default_factory=list)
    difference: Difference = field(default_factory=Difference)
    conversion: list[str] = field(default_factory=list)
    converted: str = ""
    agreement: str = AGREE

    def __str__(self) -> str:
        lines = super().__str__().splitlines()
        start = 2 + bool(self.called) + bool(self.measured)
        lines[start:start] = [line for text in self.differs for line in _wrapped("differs", text)]
        lines += _wrapped("result", self.result)
        for text in self.conversion:
            lines += _wrapped("convert", text)
        lines += [f"{'':<10}{line}" for line in self.converted.splitlines()]
        return "\n".join(lines)

    @property
    def result(self) -> str:
        """Return whether tensors and logits agree or, if not, from where on, and how much."""
        d = self.difference
        if self.agreement == AGREE:
            return self._agreement()
        if self.agreement == LOGITS_AGREE:
            how = "; logits agree up to a constant for each query, which the softmax removes"
            return LOGITS_AGREE + (how if d.constant else "")
        return f"{DIFFER}{self._first()}{self._logits()}"

    def _agreement(self) -> str:
        d = self.difference
        how = "bit for bit" if d.identical else "within the tolerance"
        text = f"{AGREE} ({how}, in {d.calls} calls to both functions)"
        if not self.passed:
            text += "; the findings above come from further calls, made to A alone"
        if d.first is not None:
            text += "; rounding errors alone make results differ by more than 2**-9, first "
            text += f"{'' if d.every else 'no later than '}at {d.what} {d.first}"
        return text

    def _first(self) -> str:
        d = self.difference
        if not d.off:
            return ", or could not be compared: see the findings"
        if not d.what:
            return f" in {len(d.off)} of {d.calls} calls, first in: {d.off[0]}"
        if d.first is None:
            return (
                f" in {len(d.off)} of {d.calls} calls, by less than {VISIBLE:.6f} (2**-9) at every "
                f"tried {d.what}; the first such call is: {d.off[0]}"
            )
        first = "first" if d.every else "first no later than"
        return (
            f", visibly (by more than 2**-9, the rounding of 1.0 to bfloat16) {first} at {d.what} "
            f"{d.first}"
        )

    def _logits(self) -> str:
        d = self.difference
        if not d.errors:
            return ""
        errors = ", ".join(f"{short_length(n)}: {error:.2g}" for n, error in d.errors.items())
        return f"; largest difference of a logit{d.inputs} at the end of a context of {errors}"


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=f"{label:<10}", subsequent_indent=" " * 10)
