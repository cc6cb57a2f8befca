"""Expected failures: a known deviation with its reason, and how a report differs from it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posenc_ref._text import shown

from .codes import CODES


@dataclass(frozen=True)
class ExpectedFailure:
    """A known deviation: its code, or several codes if it has independent causes, and the reason.

    The reason tells a later reader why: an issue, a version, or a fix not yet released.

    Attributes
    ----------
    code : str | Sequence[str]
        The code of the expected finding, or several codes.
    reason : str
        Why the failure is expected, such as an issue.
    """

    code: str | Sequence[str]
    reason: str

    def __post_init__(self) -> None:
        for code in self.codes:
            if not isinstance(code, str) or code not in CODES:
                near = difflib.get_close_matches(str(code), CODES, n=3) or sorted(CODES)
                raise ValueError(f"code must be a key of CODES, got {shown(code)}; {_or(near)}")
        if not self.codes:
            raise ValueError("code must name at least one finding that is expected, got none")
        if not isinstance(self.reason, str):
            raise TypeError(f"reason must be a text, got {self.reason!r}")
        if not self.reason.strip():
            raise ValueError(
                "reason must say why the failure is expected, such as an issue, got ''"
            )

    def __str__(self) -> str:
        return f"{', '.join(self.codes)}, because: {self.reason}"

    @property
    def codes(self) -> tuple[str, ...]:
        """Return the expected codes as a tuple."""
        if isinstance(self.code, str):
            return (self.code,)
        return tuple(self.code) if isinstance(self.code, Sequence) else ()


def expectation(value: ExpectedFailure | Mapping[str, Any] | None) -> ExpectedFailure | None:
    """Return the expected failure that ``{"code": ..., "reason": ...}`` declares, or None."""
    if value is None or isinstance(value, ExpectedFailure):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(
            'expected_failure must be an ExpectedFailure or {"code": ..., "reason": ...}, '
            f"got {value!r}"
        )
    if set(value) != {"code", "reason"}:
        given = ", ".join(sorted(map(str, value))) or "nothing"
        raise TypeError(f'expected_failure needs "code" and "reason", and no more; got {given}')
    return ExpectedFailure(value["code"], value["reason"])


def vacuous(
    executed: Mapping[str, int],
    controls: Mapping[str, bool],
    minimum: int = 1,
    required: Sequence[str] = (),
) -> list[str]:
    """Return the reasons why the run judged too little, or an empty list if it judged enough."""
    found = []
    accepted = [name for name, rejected in controls.items() if not rejected]
    if accepted:
        names = ", ".join(accepted)
        found.append(f"the check is vacuous: a perturbed output was accepted ({names})")
    elif not controls:
        found.append("the check is vacuous: no perturbed output was judged")
    count = sum(executed.values())
    if count < minimum:
        found.append(
            f"too little was judged: {count} cases, at least {minimum} must be; if the function "
            "refuses all inputs, skip the test"
        )
    missing = [name for name in required if not executed.get(name)]
    if missing:
        done = ", ".join(name for name, n in executed.items() if n) or "nothing"
        found.append(f"required and not judged: {', '.join(missing)}; judged: {done}")
    return found


def nothing_left(
    executed: Mapping[str, int],
    controls: Mapping[str, bool],
    codes: Sequence[str],
    expected: ExpectedFailure | None,
) -> bool:
    """Return whether exactly the expected errors left no case to judge: it raises in every call."""
    judged = any(executed.values()) or controls
    return expected is not None and not judged and {*codes} == {*expected.codes}


def unexpected(passed: bool, codes: Sequence[str], expected: ExpectedFailure) -> list[str]:
    """Return how a verdict and its codes differ from those expected; empty if they do not."""
    because = f"(expected because: {expected.reason})"
    if passed:
        gone = ", ".join(expected.codes)
        return [f"unexpected pass: {gone} is gone {because}; remove the expectation"]
    other = [code for code in codes if code not in expected.codes]
    lost = [code for code in expected.codes if code not in codes]
    found = []
    if other:
        found.append(f"fails with {', '.join(other)}, which is not expected {because}")
    if lost:
        found.append(f"does not fail with {', '.join(lost)} any more {because}")
    return found


def _or(words: Sequence[str]) -> str:
    if len(words) <= 3:
        return f"did you mean {' or '.join(words)}?"
    return f"use one of {', '.join(words)}"
