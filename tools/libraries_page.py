"""Write the page of libraries over their releases: python tools/libraries_page.py.

It reads `docs/generated/libraries.ndjson`, which `python tools/libraries.py` writes.
"""

import argparse
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from textwrap import shorten

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from posenc_ref._text import markdown as escaped  # noqa: E402
from posenc_ref.conformance.harness.plural import plural  # noqa: E402
from posenc_ref.conformance.surveys.ndjson import Recorded, read_ndjson  # noqa: E402
from posenc_ref.conformance.surveys.record import Outcome  # noqa: E402
from posenc_ref.conformance.surveys.tables import WORDS, markdown_table  # noqa: E402
from tools.claims import GENERATED, REPORT, Claim, claim_of, claims, seen  # noqa: E402

PAGE = GENERATED / "libraries.md"
#: The verdicts of functions, each with the heading of its column.
COLUMNS = {
    "conforms": "conforming", "deviates": "deviating", "undrivable": "not drivable",
    "gap": "no encoding", "error": "errors", "inconclusive": "inconclusive",
}  # fmt: skip
HEAD = """
`ok` means that the function equals the declaration that was read in the library's own source. It is
no certificate of a model that calls the function. A deviation is a difference from this
declaration; [claims.md](claims.md) says which ones are faults, who meets them and where they were
reported. `not drivable` means that the function could not be judged in this release: it is missing,
it takes other arguments than the adapter passes, a call that every such function must take raises,
or it needs a GPU. Nothing is known of its numbers there. If the call raises because of a claimed
fault, the claim is named. `our gap` means that no encoding of posenc_ref describes the function.
Seconds were measured on a machine that had other work; they are no benchmark.
""".strip()


def page(recorded: Recorded, known: list[Claim]) -> str:
    """Return the page of a report; ``known`` are all claims."""
    every = [o for o in recorded.result.outcomes if o.kind == "library"]
    judged = {o.group for o in every}
    environments = [one for one in recorded.header["environments"] if one["library"] in judged]
    others = [one for one in recorded.header["environments"] if one["library"] not in judged]
    libraries = list(dict.fromkeys(one["library"] for one in environments))
    newest = {one["library"]: one["release"] for one in environments}
    latest = [o for o in every if o.version == newest[o.group]]
    counts = _counts([o for o in latest if o.dtype != "bfloat16"])
    seconds = sum(one["seconds"] for one in environments)
    dates = "{posenc_ref}, specification {specification}".format(**recorded.header["versions"])
    failed = _not_judged(every)
    unjudged = f" ({len(failed)} of them not judged)" if failed else ""
    parts = [
        "# Libraries over their releases",
        "Written by `python tools/libraries_page.py` from [libraries.ndjson](libraries.ndjson): "
        f"posenc_ref {dates}, {recorded.header['platform']}. Each release has an environment of "
        "its own, made by tools/libraries.py from .ci/libraries.toml.",
        f"**{plural(len(libraries), 'library', 'libraries')}, "
        f"{plural(len(environments), 'release', 'releases')}{unjudged}, {len(every)} outcomes** in "
        f"{seconds / 60:.0f} minutes. Of the {sum(counts.values())} functions in the newest "
        f"releases, in float32: {_said(counts)}.",
        HEAD,
        _summary(libraries, environments, latest),
    ]
    if failed:
        lines = [f"- {o.group} {o.version}: {escaped(o.reason)}" for o in failed]
        parts.append("Releases that could not be judged:\n\n" + "\n".join(lines))
    if others:
        named = ", ".join("{library} {release}".format(**one) for one in others)
        parts.append(f"Of these only the scripts of [claims.md](claims.md) were run: {named}.")
    for library in libraries:
        own = [one for one in environments if one["library"] == library]
        judgements = [o for o in every if o.group == library and o.label]
        scripts = [o for o in recorded.result.outcomes if (o.kind, o.group) == ("script", library)]
        parts += _section(library, own, judgements, known, scripts)
    return "\n\n".join(parts) + "\n"


def _not_judged(outcomes: list[Outcome]) -> list[Outcome]:
    """Return one outcome for each release of which no function could be judged."""
    found: dict[tuple[str, str], list[Outcome]] = {}
    for one in outcomes:
        found.setdefault((one.group, one.version), []).append(one)
    return [
        each[0]
        for each in found.values()
        if all(o.verdict == "undrivable" or not o.label for o in each)
    ]


def _counts(outcomes: list[Outcome]) -> dict[str, int]:
    return {v: sum(o.verdict == v for o in outcomes if o.label) for v in COLUMNS}


def _said(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {COLUMNS[v]}" for v, n in counts.items() if n)


def _summary(libraries: list[str], environments: list[dict], latest: list[Outcome]) -> str:
    """Return a table with a row for each library, about its newest release in float32."""
    columns = [v for v in COLUMNS if any(o.verdict == v for o in latest)]
    rows = []
    for library in libraries:
        own = [one for one in environments if one["library"] == library]
        counts = _counts([o for o in latest if o.group == library and o.dtype != "bfloat16"])
        rows.append(
            [
                f"[{library}](#{library})",
                f"{len(own)}: {own[0]['release']} to {own[-1]['release']}"
                if len(own) > 1
                else own[0]["release"],
                str(sum(counts.values())),
                *(str(counts[v]) for v in columns),
                f"{own[-1]['seconds']:.0f}",
                f"{sum(one['install_seconds'] for one in own):.0f}",
            ]
        )
    head = ["library", "releases", "functions", *(COLUMNS[v] for v in columns)]
    head += ["seconds", "to install all"]
    return markdown_table(head, rows, head[2:])


def _section(
    library: str,
    environments: list[dict],
    outcomes: list[Outcome],
    known: list[Claim],
    scripts: list[Outcome],
) -> list[str]:
    """Return the parts about one library: a row for each function, a column for each release."""
    releases = [one["release"] for one in environments]
    versions = environments[-1]["versions"]
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    parts = [f"## {library}", f"The newest release was judged with {named}."]
    half = [o for o in outcomes if o.dtype == "bfloat16"]
    functions = list(dict.fromkeys(o.label for o in outcomes if o not in half))
    at = {(o.label, o.version, o.dtype): o for o in outcomes}
    rows = []
    for label in functions:
        cells = (at.get((label, release, "float32")) for release in releases)
        rows.append([escaped(label), *(_cell(o, known, scripts) for o in cells)])
    parts.append(markdown_table(["function", *releases], rows))
    if half:
        parts.append(f"In bfloat16, {releases[-1]}: {_said(_counts(half))}.")
        right = "; ".join(escaped(o.label) for o in half if o.verdict == "conforms")
        lines = [f"- {_found(o)}; {_claimed(o, known, scripts)}." for o in half if o.codes]
        parts.append("\n".join([f"- Conforming: {right}."] * bool(right) + lines))
    found = [
        line
        for label in functions
        for line in _deviation(label, outcomes, releases, known, scripts)
    ]
    if found:
        parts.append("Deviations:\n\n" + "\n".join(found))
    reasons: dict[str, list[str]] = {}
    for o in outcomes:
        if o.verdict in ("undrivable", "gap", "error", "inconclusive") and o.dtype != "bfloat16":
            reason = escaped(shorten(o.reason, 200)) + _raised(o, known, scripts)
            reasons.setdefault(f"{escaped(o.label)}: {reason}", []).append(o.version)
    if reasons:
        lines = [f"- {why} ({spanned(own, releases)})" for why, own in reasons.items()]
        parts.append("Not judged:\n\n" + "\n".join(lines))
    text = "\n\n".join(parts)
    if more := [
        f"{_linked(n)} ({escaped(claim.entry.title)})"
        for n, claim in enumerate(known, 1)
        if claim.library == library and _linked(n) not in text
    ]:
        listed = ", ".join(more)
        parts.append(f"No function above shows these claims, but their scripts do: {listed}.")
    return parts


def _found(outcome: Outcome, when: str = "") -> str:
    """Return how a function deviates, in which releases and where it is in the source."""
    text = f"{escaped(outcome.label)}: {'; '.join(map(escaped, outcome.messages))}"
    return f"{text}{when} (`{outcome.source}`)"


def _claimed(outcome: Outcome, known: list[Claim], scripts: list[Outcome]) -> str:
    n = claim_of(outcome, known, scripts)
    return "no claim is made of it" if n is None else _linked(n)


def _cell(outcome: Outcome | None, known: list[Claim], scripts: list[Outcome]) -> str:
    if outcome is None:
        return ""
    words = " ".join((WORDS[outcome.verdict], *outcome.codes))
    return words + _raised(outcome, known, scripts)


def _raised(outcome: Outcome, known: list[Claim], scripts: list[Outcome]) -> str:
    """Return the claim about a function whose required call raises, or an empty text."""
    return "".join(f", the fault of {_linked(n)}" for n in fault_of(outcome, known, scripts))


def _linked(n: int) -> str:
    return f"[claim {n}](claims.md#claim-{n})"


def fault_of(outcome: Outcome, known: list[Claim], scripts: list[Outcome]) -> list[int]:
    """Return the claims for whose fault a required call of a function raises.

    They name the function, and their scripts show the fault in the same release.
    """
    if outcome.verdict != "undrivable" or not outcome.reason.startswith("a required call raises"):
        return []
    name = f"{outcome.group} {outcome.label}"
    return [
        n
        for n, claim in enumerate(known, 1)
        if claim.library == outcome.group
        and any(fnmatchcase(name, pattern) for pattern in claim.entry.patterns)
        and outcome.version in _shown(claim, scripts)
    ]


def _shown(claim: Claim, scripts: list[Outcome]) -> list[str]:
    """Return the releases in which the script of a claim shows it."""
    return [o.version for o in scripts if (o.label, o.verdict) == (claim.script, "deviates")]


def _deviation(
    label: str,
    outcomes: list[Outcome],
    releases: list[str],
    known: list[Claim],
    scripts: list[Outcome],
) -> list[str]:
    """Return a line for each deviation of the function in float32: its codes and its claim."""
    own = [o for o in outcomes if o.label == label and o.dtype == "float32"]
    own.sort(key=lambda o: releases.index(o.version))
    kinds = {o.version: (o.codes, claim_of(o, known, scripts)) for o in own if o.codes}
    lines = []
    for kind in dict.fromkeys(kinds.values()):
        shown, hidden = ([v for v in kinds if (kinds[v] == kind) == same] for same in (True, False))
        last = next(o for o in reversed(own) if kinds.get(o.version) == kind)
        n = kind[1]
        claim = _claimed(last, known, scripts)
        if n is not None:
            claim += _elsewhere(_shown(known[n - 1], scripts), own, releases)
        when = seen(own)
        if hidden:
            others = spanned(hidden, releases)
            when = f"seen in {spanned(shown, releases)}; in {others} it has another deviation"
        lines.append(f"- {_found(last, f'. {_sentence(when)}')}; {claim}.")
    return lines


def _elsewhere(shown: list[str], runs: list[Outcome], releases: list[str]) -> str:
    """Return in which other releases the script of a claim shows it, and what was judged there."""
    text = ""
    for verdict, why in (
        ("conforms", "where the judged calls are right"),
        ("undrivable", "where the function could not be judged"),
    ):
        if found := [o.version for o in runs if o.verdict == verdict and o.version in shown]:
            text += f"; its script shows it in {spanned(found, releases)} too, {why}"
    return text


def _sentence(text: str) -> str:
    """Return a text with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}"


def spanned(versions: list[str], releases: list[str]) -> str:
    """Return releases as one range if they are without gaps, else as a list."""
    first, last = releases.index(versions[0]), releases.index(versions[-1])
    if last - first + 1 == len(versions) > 2:
        return f"{versions[0]} to {versions[-1]}"
    return ", ".join(versions)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    PAGE.write_text(page(read_ndjson(REPORT), claims()), encoding="utf-8")
