"""The result of a check: a verdict, findings and measured numbers."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from posenc_ref import SPEC_VERSION
from posenc_ref._text import one_line, printable, shown
from posenc_ref.limits import LONG_TEXT

from .accuracy import Accuracy
from .codes import CODES
from .conventions import known
from .expected import ExpectedFailure, nothing_left, unexpected, vacuous
from .plural import plural
from .signatures import SURFACES

#: The encodings whose errors by length are those of equal positions on all axes.
_SEVERAL_AXES = ("MultiAxisRoPE(", "MixedRoPE(")
ERROR, NOTE = "error", "note"
#: A limit that names refused inputs and the exception.
_REFUSED = re.compile(r"(?P<what>.*): (?P<reason>(refused|not tried) \(.*\))", re.DOTALL)


@dataclass(frozen=True)
class Finding:
    """One mistake (severity "error"), or one remark (severity "note").

    Attributes
    ----------
    code : str
        A key of :data:`CODES`; ``posenc explain CODE`` says what it means.
    message : str
        What is wrong, in a sentence.
    evidence : str
        The place, and the size of the error.
    severity : str
        "error", or "note" for a remark that does not fail the check.
    remedy : str
        What to do; by default the remedy of the code.
    equivalent : tuple[str, ...]
        Codes of other mistakes that give the same numbers.
    reproduce : str
        Lines of NumPy that reproduce the error; ``fn`` is the judged function.
    values : dict[str, Any]
        The declared and the measured value, for programs.
    known : tuple[str, ...]
        Models and libraries that follow the measured convention.
    """

    code: str
    message: str
    evidence: str = ""
    severity: str = ERROR
    remedy: str = ""
    equivalent: tuple[str, ...] = ()
    reproduce: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    known: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"code must be a key of CODES, got {shown(self.code)}")
        if not self.remedy:
            object.__setattr__(self, "remedy", CODES[self.code].remedy)
        for name in ("message", "evidence", "remedy"):
            object.__setattr__(self, name, one_line(getattr(self, name)))
        object.__setattr__(self, "equivalent", tuple(map(one_line, self.equivalent)))
        object.__setattr__(self, "reproduce", printable(self.reproduce))
        if not self.known:
            object.__setattr__(self, "known", known(self.code, self.message))
        object.__setattr__(self, "known", tuple(map(one_line, self.known)))

    def __str__(self) -> str:
        lines = [f"{self.severity}: {self.code}: {self.message}"]
        if self.evidence:
            lines.append(f"  evidence  {self.evidence}")
        if self.severity == ERROR:
            lines.append(f"  remedy    {self.remedy}")
        if self.equivalent:
            lines.append(f"  same as   {', '.join(self.equivalent)}")
        if self.known:
            lines.append(f"  as in     {', '.join(self.known)}")
        if self.reproduce:
            lines += ["  reproduce", *(f"    {line}" for line in self.reproduce.splitlines())]
        return "\n".join(lines)


@dataclass
class Report:
    """The result of :func:`posenc_ref.conformance.check`; print it to read it.

    Attributes
    ----------
    subject : str
        The name of the judged function.
    surface : str
        The surface on which it was judged.
    encoding : str
        The declared encoding.
    backend : str
        The array library of its inputs.
    dtype : str
        The dtype of x and of the expected result.
    findings : list[Finding]
        Errors and notes, the most fundamental first.
    accuracy : Accuracy, optional
        The measured accuracy, if values were judged.
    limits : list[str]
        Optional inputs that the function refused, in sentences.
    executed : dict[str, int]
        The number of judged cases of each check.
    required : tuple[str, ...]
        Checks that must have judged at least one case.
    controls : dict[str, bool]
        Outputs made wrong on purpose, by name, and whether the comparison rejected each.
    measured : str
        The measured encoding in one line.
    called : str
        How the function was called, in one line; empty if exactly as the surface says.
    failed : dict[str, list[str]]
        The checks that failed, each with the codes of the errors that explain it. Exceptions, wrong
        shapes and dtypes, NaN and overwritten inputs are listed under ``calls``.
    expected : ExpectedFailure, optional
        The deviation that is expected; it changes the exit code, not the verdict.
    error : str
        Why the function could not be judged, such as a crash; the verdict is then ``error``.
    crossed : dict[str, dict[str, str]]
        For each set of crossed calls, described in one line: for every two factors, how many pairs
        of their values met in a judged call, such as "15 of 15".
    printed : str
        How much the function printed to standard output; empty if nothing, or if not known.
    """

    subject: str
    surface: str
    encoding: str
    backend: str
    dtype: str
    findings: list[Finding] = field(default_factory=list)
    accuracy: Accuracy | None = None
    limits: list[str] = field(default_factory=list)
    executed: dict[str, int] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    controls: dict[str, bool] = field(default_factory=dict)
    measured: str = ""
    called: str = ""
    failed: dict[str, list[str]] = field(default_factory=dict)
    expected: ExpectedFailure | None = None
    error: str = ""
    printed: str = ""
    crossed: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.limits = [one_line(limit) for limit in self.limits]
        self.required = tuple(map(one_line, self.required))
        self.executed = {one_line(name): n for name, n in self.executed.items()}
        self.controls = {one_line(name): rejected for name, rejected in self.controls.items()}
        self.failed = {one_line(name): codes for name, codes in self.failed.items()}
        self.crossed = {
            one_line(text): {one_line(a): one_line(b) for a, b in found.items()}
            for text, found in self.crossed.items()
        }

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field; names and sentences, which may be foreign, become one printable line."""
        foreign = isinstance(value, str) and name != "converted"
        super().__setattr__(name, one_line(value, LONG_TEXT) if foreign else value)

    @property
    def missing(self) -> list[str]:
        """Return the required checks that judged no case."""
        return [name for name in self.required if not self.executed.get(name)]

    @property
    def verdict(self) -> str:
        """Return ``conforms``, ``deviates``, ``inconclusive`` or ``error``.

        It is ``error`` if the function could not be judged, or a perturbed output was accepted.
        """
        if self.error or any(not rejected for rejected in self.controls.values()):
            return "error"
        if any(f.severity == ERROR for f in self.findings):
            return "deviates"
        return "inconclusive" if self.missing or not self.controls else "conforms"

    @property
    def passed(self) -> bool:
        """Return whether the verdict is ``conforms``."""
        return self.verdict == "conforms"

    @property
    def problems(self) -> list[str]:
        """Return how the run differs from the expected deviation; empty if none is expected."""
        if self.expected is None:
            return []
        if nothing_left(self.executed, self.controls, self.codes, self.expected):
            return []
        too_little = vacuous(self.executed, self.controls)
        return [*too_little, *unexpected(self.passed, self.codes, self.expected)]

    @property
    def exit_code(self) -> int:
        """Return the exit code of ``posenc check``: 0 conforms, 1 deviates, 3 no such verdict.

        With an expected deviation it is 0 for exactly this deviation, and 1 for another one or a
        pass.
        """
        if self.expected is not None and self.verdict in ("conforms", "deviates"):
            return int(bool(self.problems))
        return {"conforms": 0, "deviates": 1, "error": 3, "inconclusive": 3}[self.verdict]

    @property
    def codes(self) -> list[str]:
        """Return the codes of the errors, the most fundamental first."""
        return [f.code for f in self.findings if f.severity == ERROR]

    def raise_if_failed(self) -> None:
        """Raise an AssertionError with the whole report unless the check passed."""
        if not self.passed:
            raise AssertionError(str(self))

    def to_json(self, **kwargs: Any) -> str:
        """Return the report as JSON; keyword arguments go to ``json.dumps``."""
        return json.dumps(self.to_dict(), **kwargs)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready data; infinite scores become null."""
        body = asdict(self)
        body.update(verdict=self.verdict, passed=self.passed, spec_version=SPEC_VERSION)
        body["problems"] = self.problems
        return _finite(body)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        how = f"{self.surface}, {self.backend}, {self.dtype}"
        head = f"{self.verdict.upper()}  {self.subject}  ({how})"
        lines = [head, f"declared  {self.encoding}"]
        if self.called:
            lines.append(f"called    {self.called}")
        if self.measured:
            lines.append(f"measured  {self.measured}")
        if self.error:
            lines.append(f"error     {self.error}")
        lines += [str(f) for f in self.findings]
        if self.accuracy is not None:
            surface = SURFACES.get(self.surface)  # None: that of a recording, or of tensors
            lines += self.accuracy.lines(
                self.dtype,
                integers=surface is not None and "integers" in surface.call,
                several_axes=self.encoding.startswith(_SEVERAL_AXES),
            )
        lines += [f"limit     {limit}" for limit in _grouped(self.limits)]
        if self.printed:
            lines.append(f"printed   {self.printed}")
        count = ", ".join(f"{name} {n}" for name, n in self.executed.items())
        rejected = sum(self.controls.values())
        cases = plural(sum(self.executed.values()), "case", "cases")
        lines.append(f"executed  {cases}" + (f" ({count})" if count else ""))
        lines += [f"crossed   {text}" for text in self.crossed]
        lines.append(f"controls  {rejected} of {len(self.controls)} perturbed outputs rejected")
        if self.missing:
            lines.append(f"missing   required and not executed: {', '.join(self.missing)}")
        if self.expected is not None:
            lines.append(f"expected  {self.expected}")
            lines += [f"problem   {problem}" for problem in self.problems]
        return "\n".join(lines)


def _grouped(limits: list[str]) -> list[str]:
    """Return limits with those of the same reason on one line, where the first of them was."""
    found: dict[str, list[str]] = {}
    for limit in dict.fromkeys(limits):
        parts = _REFUSED.fullmatch(limit)
        found.setdefault(parts["reason"] if parts else limit, []).append(
            parts["what"] if parts else limit
        )
    return [
        f"{'; '.join(what)}: {reason}" if what != [reason] else reason
        for reason, what in found.items()
    ]


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {printable(str(k)): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if isinstance(value, str):
        return printable(value)
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    return value
