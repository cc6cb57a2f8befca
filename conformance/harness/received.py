"""Read a report that another process sent, or a file holds: nothing in it is taken on trust."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from posenc_ref._text import shown

from .accuracy import Accuracy
from .expected import expectation
from .report import Finding, Report

_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str, "bool": bool, "int": int, "float": (int, float, type(None)),
    "int | None": (int, type(None)), "list[Finding]": list, "list[str]": list,
    "tuple[str, ...]": (list, tuple), "dict[str, int]": dict, "dict[str, bool]": dict,
    "dict[str, list[str]]": dict, "dict[str, Any]": dict, "dict[int, float]": dict,
    "Accuracy | None": (dict, type(None)), "ExpectedFailure | None": (dict, type(None)),
    "str | None": (str, type(None)), "float | None": (int, float, type(None)),
    "dict[str, str]": dict, "dict[str, dict[str, str]]": dict,
}  # fmt: skip
#: The types of the items of the lists and dictionaries above.
_ITEMS: dict[str, type | tuple[type, ...]] = {
    "list[Finding]": dict, "list[str]": str, "tuple[str, ...]": str, "dict[str, int]": int,
    "dict[str, bool]": bool, "dict[str, list[str]]": list, "dict[str, str]": str,
    "dict[int, float]": (int, float, type(None)), "dict[str, dict[str, str]]": dict,
}  # fmt: skip


def report_of(data: Any) -> Report:
    """Return the report that :meth:`Report.to_dict` wrote.

    Raises
    ------
    ValueError
        An entry is missing, has a wrong type, or contradicts the verdict.
    """
    body = _body(Report, data, "report")
    body["findings"] = [made(Finding, finding, "finding") for finding in body["findings"]]
    if body["accuracy"] is not None:
        body["accuracy"] = made(Accuracy, body["accuracy"], "accuracy")
    body["expected"] = expectation(body["expected"])
    report = Report(**body | {"required": tuple(body["required"])})
    if data.get("verdict") != report.verdict:
        raise ValueError(
            f"the verdict of the report must be {report.verdict!r}, got "
            f"{shown(data.get('verdict'))}"
        )
    require_consistent(report)
    return report


def require_consistent(report: Report) -> None:
    """Raise ValueError if the parts of a report contradict each other."""
    for name, count in report.executed.items():
        if count < 0:
            raise ValueError(f"the check {shown(name)} must have executed 0 or more, got {count}")
    for name, codes in report.failed.items():
        lost = [code for code in codes if code not in report.codes]
        if lost:
            raise ValueError(
                f"the check {shown(name)} failed with {shown(lost[0])}, and no finding has this "
                "code"
            )
    if report.passed and not any(report.executed.values()):
        raise ValueError("the report conforms, and no check executed a case")
    if report.passed and report.accuracy is not None:
        require_within(report.accuracy.worst, report.accuracy.budget)


def require_within(worst: float, budget: float | None) -> None:
    """Raise ValueError unless the largest error of a result that conforms is within its budget."""
    if budget is None or not 0 <= worst <= budget:
        raise ValueError(
            f"the result conforms, so its worst error must be at most its budget ({budget}), "
            f"got {worst:g}"
        )


def made(cls: type[Any], data: Any, what: str) -> Any:
    """Return the finding or accuracy that ``data`` describes."""
    body = _body(cls, data, what)
    if "errors" in body:  # infinity is null in JSON, and keys are texts
        body["errors"] = {position(p): number(e) for p, e in body["errors"].items()}
    if "worst" in body:
        body["worst"] = number(body["worst"])
    return cls(**{k: tuple(v) if k in ("equivalent", "known") else v for k, v in body.items()})


def number(value: float | None) -> float:
    """Return a number of a report, in which infinity is null."""
    return float("inf") if value is None else value


def position(key: Any) -> int:
    """Return a position, which JSON writes as a text."""
    if not isinstance(key, int) and not (isinstance(key, str) and key.isdecimal()):
        raise ValueError(f"the keys of errors must be positions, got {shown(key)}")
    return int(key)


def require(what: str, data: Mapping[str, Any], **kinds: str) -> None:
    """Raise ValueError unless an object has entries of these types, such as "dict[str, int]"."""
    for name, kind in kinds.items():
        if name not in data:
            raise ValueError(f"the {what} must have {name!r}")
        value = data[name]
        items = value.values() if isinstance(value, dict) else value
        right = isinstance(value, _TYPES[kind]) and (
            kind not in _ITEMS or all(isinstance(item, _ITEMS[kind]) for item in items)
        )
        if kind.startswith(("int", "float")) and isinstance(value, bool):
            right = False
        if kind == "dict[str, dict[str, str]]" and right:
            right = all(isinstance(text, str) for inner in items for text in inner.values())
        if kind == "dict[str, list[str]]" and right:
            right = all(isinstance(text, str) for texts in items for text in texts)
        if not right:
            raise ValueError(f"{name!r} of the {what} must be {kind}, got {shown(value)}")


def _body(cls: type[Any], data: Any, what: str) -> dict[str, Any]:
    """Return the fields of ``cls`` in ``data``, each of the right type."""
    if not isinstance(data, Mapping):
        raise ValueError(f"a {what} must be an object, got {type(data).__name__}")
    require(what, data, **{field.name: str(field.type) for field in fields(cls)})
    return {field.name: data[field.name] for field in fields(cls)}
