"""Recorded surveys as the content of the page."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from posenc_ref.conformance.surveys.expected import explanation
from posenc_ref.conformance.surveys.ndjson import Recorded
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.verify import Verification
from tools.claims import Claim, seen

from .rows import Deviation, Finding, Function, Library, Release, Survey


def survey(
    reports: Sequence[Recorded], claims: Sequence[Claim], text_of: Callable[[str], str]
) -> Survey:
    """Return the content of the page from reports of ``posenc verify``.

    ``text_of`` returns the text of a script of a claim, given its path.

    Raises
    ------
    ValueError
        A report is of another command, two of them judge the same release of a library, or two
        functions get the same link.
    """
    outcomes: list[Outcome] = []
    ours, absent = 0, list[str]()
    libraries: dict[str, Library] = {}
    for one in reports:
        if not isinstance(one.result, Verification):
            raise ValueError(
                f"a report must be of `posenc verify` or tools/libraries.py, got one of `posenc "
                f"{one.header['kind']}`"
            )
        own = [o for o in one.result.outcomes if not o.ours]
        ours += len(one.result.outcomes) - len(own)
        absent += [o.group for o in own if not (o.version or o.label)]
        own = [o for o in own if o.version or o.label]
        for library, release in _releases(one, own):
            known = libraries.setdefault(library, Library(library, []))
            if release.name in known.names:
                raise ValueError(f"{library} {release.name} is in two reports: give one of them")
            known.releases.append(release)
        for o in own:
            if o.group not in libraries or o.version not in libraries[o.group].names:
                raise ValueError(f"the report has no environment of {o.group} {o.version}")
        outcomes += own
    claims = [claim for claim in claims if claim.library in libraries]
    deviations = _deviations(claims, libraries, outcomes, text_of)
    functions = _functions(libraries, [o for o in outcomes if o.kind == "library"])
    for function in functions:
        function.findings = list(_findings(function, deviations))
    _require_links([*functions, *libraries.values(), *deviations])
    scripts = sum(o.kind == "script" for o in outcomes)
    withdrawn = scripts - sum(len(one.outcomes) for one in deviations)
    headers = [dict(one.header) for one in reports]
    return Survey([*libraries.values()], deviations, headers, ours, absent, withdrawn)


def _functions(libraries: dict[str, Library], outcomes: list[Outcome]) -> list[Function]:
    """Give every outcome to its function and every function to its library; return them."""
    found: dict[tuple[str, str], Function] = {}
    for o in outcomes:
        library = libraries[o.group]
        if not o.label:
            library.failed.append(o)
            continue
        if (o.group, o.label) not in found:
            found[o.group, o.label] = function = Function(o.group, o.label, library.names)
            library.functions.append(function)
        found[o.group, o.label].outcomes.append(o)
    return [*found.values()]


def _releases(report: Recorded, outcomes: list[Outcome]) -> Iterator[tuple[str, Release]]:
    """Yield the library and the release of every environment of a report."""
    environments = report.header.get("environments")
    if environments is None:  # one environment, that of the command
        pairs = dict.fromkeys((o.group, o.version) for o in outcomes)
        versions = dict(report.header["versions"])
        environments = [{"library": a, "release": b, "versions": versions} for a, b in pairs]
    for one in environments:
        days = (one.get(key, "") for key in ("released", "judged"))
        yield one["library"], Release(one["release"], dict(one["versions"]), *days)


def _deviations(
    claims: Sequence[Claim],
    libraries: dict[str, Library],
    outcomes: list[Outcome],
    text_of: Callable[[str], str],
) -> list[Deviation]:
    """Return the claims, those that share a script as one."""
    found: dict[tuple[str, str], Deviation] = {}
    for claim in claims:
        key = claim.library, claim.script
        if key not in found:
            names = libraries[claim.library].names
            found[key] = Deviation(*key, names, text=text_of(claim.script))
        found[key].entries.append(claim.entry)
    for o in outcomes:
        if o.kind == "script" and (o.group, o.label) in found:
            found[o.group, o.label].outcomes.append(o)
    return [*found.values()]


def _findings(function: Function, deviations: list[Deviation]) -> Iterator[Finding]:
    """Yield what a function does wrong: for every dtype its different codes."""
    for dtype in function.dtypes:
        own = function.runs(dtype)
        for codes in dict.fromkeys(o.codes for o in own if o.verdict == "deviates"):
            # Another deviation is, for this one, a release without it.
            runs = [o if o.codes in ((), codes) else o.replace(verdict="conforms") for o in own]
            last = next(o for o in reversed(own) if o.codes == codes)
            claim = next(
                (
                    d
                    for d in deviations
                    if d.library == function.library and explanation(last, d.entries)
                ),
                None,
            )
            if claim and function not in claim.shows:
                claim.shows.append(function)
            yield Finding(codes, last.messages, f"{dtype}: {seen(runs)}", claim)


def _require_links(things: Iterable[Any]) -> None:
    """Raise ValueError if two links have the same name."""
    have: dict[str, str] = {}
    for thing in things:
        if thing.anchor in have:
            raise ValueError(
                f"{have[thing.anchor]!r} and {thing.name!r} both have the link #{thing.anchor}: "
                "rename one of them"
            )
        have[thing.anchor] = thing.name
