"""Read reports as NDJSON: a header, a line for each event, and a footer.

:mod:`ndjson_writer` writes them.  ``schemas/report.json`` defines their lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc_ref._documents import naming, parse_json, read_bytes
from posenc_ref._text import one_line
from posenc_ref.conformance.harness.received import require_consistent
from posenc_ref.conformance.harness.report import Report
from posenc_ref.limits import FILE, LINE

from .batch import Batch
from .record import Outcome, versions
from .recorded_result import recorded_result

if TYPE_CHECKING:
    from .verify import Verification

FORMAT = "posenc-report-0"
#: How every file begins.
HEADER = b'{"event": "header"'
#: The kinds of reports, each with the events that it may contain.
EVENTS = {
    "check": ("check", "control", "finding", "accuracy", "limit"),
    "verify": ("outcome",),
    "ci": ("case",),
}


class NdjsonError(ValueError):
    """A file is not a complete, consistent report; the message says why."""

    def __init__(self, message: object) -> None:
        super().__init__(one_line(message))


def recorded_outcomes(
    path: Path, kind: str, keys: Mapping[str, str], libraries: Mapping[str, str]
) -> list[Outcome]:
    """Return the outcomes in a file, even without its footer, if all versions are the same now.

    Raises
    ------
    NdjsonError
        If the file is of another kind or was written with other versions.
    """
    if not path.exists():
        return []
    lines = read_bytes(path, FILE).splitlines()
    try:
        events = [_event(text, n) for n, text in enumerate(lines, 1)]
    except NdjsonError as error:
        raise NdjsonError(f"{path} is no {kind}: {error}") from None
    if not events or events[0].get("kind") != kind:
        raise NdjsonError(f"{path} is no {kind}: its first line must be the header of a {kind}")
    before, now = events[0]["versions"], versions() | dict(libraries)
    changed = [f"{name} {before.get(name)}" for name in now if before.get(name) != now[name]]
    if changed:
        raise NdjsonError(
            f"{path} was written with other versions ({', '.join(changed)}): choose a new file"
        )
    return [Outcome.from_dict(event, keys) for event in events if event["event"] == "outcome"]


@dataclass(frozen=True)
class Recorded:
    """The content of a complete and consistent report file."""

    header: Mapping[str, Any]
    footer: Mapping[str, Any]
    result: Report | Verification | Batch  #: of ``check``, ``verify`` or ``ci``, by ``kind``

    def report(self) -> Report:
        """Return the result of ``check``."""
        if not isinstance(self.result, Report):
            kind = self.header["kind"]
            raise NdjsonError(f"the file must be of `posenc check`, got one of `posenc {kind}`")
        return self.result


def read_ndjson(source: Path | str) -> Recorded:
    """Read a file that ``--ndjson`` wrote.

    Raises
    ------
    NdjsonError
        If there is no header, no footer (the run was interrupted), or a line after the footer; an
        id occurs twice; or the footer does not match the lines.
    """
    try:
        with naming(str(source)):
            return _read(read_bytes(Path(source), FILE))
    except ValueError as error:
        raise NdjsonError(error) from None


def _read(raw: bytes) -> Recorded:
    if not raw.strip():
        raise NdjsonError("is empty: the run was interrupted before it wrote the header")
    lines = raw.splitlines(keepends=True)
    events = [_event(text, n) for n, text in enumerate(lines, 1)]
    header, *between = events
    if header["event"] != "header":
        raise NdjsonError(f"begins with {header['event']!r}, not with a header")
    if header.get("format") != FORMAT:
        raise NdjsonError(f"has the format {header.get('format')!r}; this version reads {FORMAT!r}")
    if header.get("kind") not in [*EVENTS]:
        raise NdjsonError(f"has the kind {header.get('kind')!r}, not {' or '.join(EVENTS)}")
    ends = [n for n, e in enumerate(events, 1) if e["event"] == "footer"]
    if not ends:
        reason = "the run was interrupted and has no verdict"
        raise NdjsonError(f"has no footer after {len(lines)} lines: {reason}")
    if ends[0] != len(lines):
        raise NdjsonError(f"goes on after its footer, in line {ends[0] + 1}")
    *between, footer = between
    _unique(events)
    _counted(header["kind"], between, footer)
    digest = f"sha256:{hashlib.sha256(b''.join(lines[:-1])).hexdigest()}"
    if footer.get("digest") != digest:
        raise NdjsonError("was changed after it was written: the digest in the footer disagrees")
    return Recorded(header, footer, _result(header, between, footer))


def _event(text: bytes, n: int) -> dict[str, Any]:
    if len(text) > LINE:
        raise NdjsonError(f"line {n} must have at most {LINE} bytes, it has {len(text)}")
    try:
        body = parse_json(text, f"line {n}")
    except ValueError as error:
        raise NdjsonError(error) from None
    if not isinstance(body, dict) or not all(isinstance(body.get(k), str) for k in ("event", "id")):
        raise NdjsonError(f'line {n} must be an object with "event" and "id", both texts')
    return body


def _unique(events: Iterable[Mapping[str, Any]]) -> None:
    seen: dict[str, int] = {}
    for n, event in enumerate(events, 1):
        if event["id"] in seen:
            raise NdjsonError(f"has {event['id']!r} twice, in lines {seen[event['id']]} and {n}")
        seen[event["id"]] = n


def _counted(kind: str, between: list[dict[str, Any]], footer: Mapping[str, Any]) -> None:
    """Raise NdjsonError unless the counts in the footer match the lines."""
    for event in between:
        if event["event"] not in EVENTS[kind]:
            names = ", ".join(EVENTS[kind])
            raise NdjsonError(f"has an event {event['event']!r}; events of {kind} are {names}")
        if type(event.get("executed", 0)) is not int:
            raise NdjsonError(f"has no number of executed cases: {event['executed']!r}")
    found = {name: sum(e["event"] == name for e in between) for name in EVENTS[kind]}
    if footer.get("counts") != found:
        raise NdjsonError(f"holds {found}, but its footer counts {footer.get('counts')}")
    executed = sum(e.get("executed", 0) for e in between)
    if footer.get("executed") != executed:
        stated = footer.get("executed")
        raise NdjsonError(f"holds {executed} executed cases, but its footer {stated}")


def _result(
    header: Mapping[str, Any], between: Iterable[Mapping[str, Any]], footer: Mapping[str, Any]
) -> Report | Verification | Batch:
    """Return the result that the lines describe; it must agree with the footer."""
    of: dict[str, list[Any]] = {event: [] for event in EVENTS[header["kind"]]}
    for e in between:
        of[e["event"]].append(e)
    try:
        found, computed = recorded_result(header, of, footer)
    except (TypeError, ValueError) as error:
        raise NdjsonError(f"has a missing or wrong entry: {error}") from None
    verdict = "verdict" if header["kind"] == "check" else "verdicts"
    stated = (footer.get(verdict), footer.get("exit_code"))
    if computed != stated:
        raise NdjsonError(
            f"must have the verdict and exit code {computed} in its footer, got {stated}"
        )
    if isinstance(found, Report):
        with naming("the report contradicts itself"):
            require_consistent(found)
    return found
