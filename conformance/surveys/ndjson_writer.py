"""Write reports as NDJSON: a header, a line for each event, and a footer.

The header is written before anything is judged, and replaces an older file as a whole: after an
interrupted run there is a file without a footer, never an older verdict.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from posenc_ref.conformance.harness.report import Report, _finite
from posenc_ref.conformance.harness.whole import write_whole
from posenc_ref.encoding import Value

from .batch import Batch, Checked
from .files import require_own
from .ndjson import EVENTS, FORMAT, HEADER
from .record import VERIFY_KEYS, Outcome, versions

if TYPE_CHECKING:
    from .verify import Verification


class NdjsonWriter:
    """A file that is being written, event by event; :func:`recording` opens it."""

    def __init__(self, file: BinaryIO, kind: str) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._ids: set[str] = set()
        self._counts = dict.fromkeys(EVENTS.get(kind, ("outcome",)), 0)

    def write(self, event: str, identity: str, **body: Any) -> None:
        """Write one event with the id ``identity``; a repeated id gets the suffix " #2", ..."""
        self._counts[event] = self._counts.get(event, 0) + 1
        numbered = (f"{identity} #{n}" for n in itertools.count(2))
        every = itertools.chain([identity], numbered)
        unique = next(name for name in every if name not in self._ids)
        self._ids.add(unique)
        self._line({"event": event, "id": unique, **body})

    def continue_in(self, file: BinaryIO) -> None:
        """Write the following events to another file."""
        self._file = file

    def report(self, report: Report, seconds: float) -> None:
        """Write the report of ``check`` as events, then the footer."""
        for name in dict.fromkeys((*report.executed, *report.required, *report.failed)):
            self.write(
                "check",
                f"check: {name}",
                name=name,
                executed=report.executed.get(name, 0),
                required=name in report.required,
                codes=report.failed.get(name, []),
            )
        for name, rejected in report.controls.items():
            self.write("control", f"control: {name}", name=name, rejected=rejected)
        for finding in report.findings:
            self.write("finding", f"finding: {finding.code}", **asdict(finding))
        if report.accuracy is not None:
            self.write("accuracy", "accuracy", **asdict(report.accuracy))
        for text in report.limits:
            self.write("limit", f"limit: {text}", text=text)
        self.footer(
            verdict=report.verdict,
            exit_code=report.exit_code,
            executed=sum(report.executed.values()),
            seconds=round(seconds, 3),
            measured=report.measured,
            called=report.called,
            error=report.error,
            printed=report.printed,
            crossed=report.crossed,
            expected=None if report.expected is None else asdict(report.expected),
        )

    def verification(self, found: Verification) -> None:
        """Write the result of ``posenc verify`` as events, then the footer."""
        self.outcomes(found.outcomes)
        self.footer(
            verdicts=found.counts,
            exit_code=found.exit_code,
            executed=sum(o.executed for o in found.outcomes),
            seconds=round(found.seconds, 3),
        )

    def case(self, one: Checked) -> None:
        """Write the outcome of one function of many, with its whole report."""
        self.write("case", one.name, **one.to_json())

    def batch(self, found: Batch) -> None:
        """Write the footer of a file of cases."""
        self.footer(
            verdicts=found.counts,
            exit_code=found.exit_code,
            executed=sum(o.executed for o in found.outcomes),
            seconds=round(found.seconds, 3),
        )

    def outcomes(self, outcomes: Iterable[Outcome], keys: Mapping[str, str] = VERIFY_KEYS) -> None:
        """Write one event for each outcome."""
        for o in outcomes:
            self.write("outcome", f"{o.name} {o.surface}".strip(), **o.to_dict(keys))

    @property
    def empty(self) -> bool:
        """Return whether there is nothing but the header."""
        return not any(n for event, n in self._counts.items() if event != "header")

    def footer(self, **body: Any) -> None:
        """Write the last line: ``body``, the number of events of each kind, and a digest."""
        counts = {event: n for event, n in self._counts.items() if event != "header"}
        digest = f"sha256:{self._digest.hexdigest()}"
        self._line({"event": "footer", "id": "footer", **body, "counts": counts, "digest": digest})

    def _line(self, body: Mapping[str, Any]) -> None:
        text = json.dumps(_finite(body), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        self._digest.update(text)
        self._file.write(text)
        self._file.flush()


@contextmanager
def recording(
    path: Path | None,
    kind: str,
    encoding: Value | Mapping[str, Any] | None = None,
    libraries: Mapping[str, str] | None = None,
    **facts: Any,
) -> Iterator[NdjsonWriter | None]:
    """Open a file, write the header and yield the writer; without ``path`` yield None.

    ``encoding`` is the declared one, or what its ``to_dict`` gives. ``libraries`` and ``facts`` are
    added to the header: the versions of libraries, and the subject, surface, dtype and options of
    the run.  An existing file that is no report is not overwritten (FileExistsError).  After an
    exception a file without events is removed: nothing was judged.
    """
    if path is None:
        yield None
        return
    if kind == "check":
        if isinstance(encoding, Value):
            encoding = encoding.to_dict()
        facts["encoding"] = encoding
    require_own(path, HEADER, "recorded report")
    head = {"format": FORMAT, "kind": kind, "versions": versions() | dict(libraries or {})}
    head["platform"] = f"{platform.system()} {platform.machine()}"
    first = io.BytesIO()
    writer = NdjsonWriter(first, kind)
    writer.write("header", "header", **head, **facts)
    write_whole(path, first.getvalue())
    try:
        with path.open("ab") as file:
            writer.continue_in(file)
            yield writer
    except Exception:
        if writer.empty:
            path.unlink(missing_ok=True)
        raise
