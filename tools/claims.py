"""Write the list of all claims about libraries: python tools/claims.py.

A claim is an entry with a deviation in one of the ``*_expected.json`` of the surveys.  The
releases are those in which `python tools/libraries.py` ran its script.
"""

import argparse
import fnmatch
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from posenc_ref._text import markdown as escaped  # noqa: E402
from posenc_ref.conformance.adapters.library import LIBRARIES  # noqa: E402
from posenc_ref.conformance.surveys.document import claims as kinds  # noqa: E402
from posenc_ref.conformance.surveys.expected import CLAIMS, Expected, expected  # noqa: E402
from posenc_ref.conformance.surveys.ndjson import read_ndjson  # noqa: E402
from posenc_ref.conformance.surveys.record import Outcome  # noqa: E402
from posenc_ref.conformance.surveys.tables import markdown_table  # noqa: E402

GENERATED = ROOT / "docs" / "generated"
REPORT = GENERATED / "libraries.ndjson"
PAGE = GENERATED / "claims.md"
#: The files of claims, each with the folder of its scripts.  Those outside library-deviations are
#: about transformers.
FILES = {
    "transformers/sweep_expected.json": "sweep-deviations",
    "transformers_other/sweep_other_expected.json": "sweep-other-deviations",
    "whole_models/whole_models_expected.json": "whole-model-deviations",
    "libraries_expected.json": "library-deviations",
    "mrope_models_expected.json": "mrope-deviations",
}


@dataclass(frozen=True)
class Claim:
    """A deviation of a library, and the script that shows it without posenc_ref."""

    library: str
    script: str  #: the path of the script, from docs/generated on
    entry: Expected


def claims() -> list[Claim]:
    """Return all claims, in the order of the files: entries with one script are one claim."""
    found: dict[str, Claim] = {}
    for name, folder in FILES.items():
        file = ROOT / "conformance" / "surveys" / name
        for entry in expected(file) if file.exists() else ():
            if entry.outcome == "deviates":
                sweep = folder != "library-deviations"
                library = entry.library or ("transformers" if sweep else _library(entry))
                script = f"{folder}/{entry.script}"
                found.setdefault(script, Claim(library, script, entry))
    return list(found.values())


def claim_of(outcome: Outcome, every: list[Claim], scripts: Iterable[Outcome] = ()) -> int | None:
    """Return the number of the claim that explains the deviation of a function, or None.

    Of several, that one is taken whose script shows the deviation in the same release.
    """
    name = f"{outcome.group} {outcome.label}"
    found = [
        n
        for n, claim in enumerate(every, 1)
        if claim.library == outcome.group
        and any(fnmatch.fnmatchcase(name, pattern) for pattern in claim.entry.patterns)
        and claim.entry.codes == outcome.codes
    ]
    if len(found) > 1:
        shown = {(o.label, o.version) for o in scripts if o.verdict == "deviates"}
        own = [n for n in found if (every[n - 1].script, outcome.version) in shown]
        found = own or found
    return found[0] if found else None


def _library(entry: Expected) -> str:
    """Return the library of an entry: its patterns begin with it, as the names of functions do."""
    words = entry.patterns[0].split()[0]
    if words not in LIBRARIES:
        raise ValueError(
            f"{entry.title}: the first pattern must begin with a library, got {words!r}; "
            f"the libraries are {', '.join(LIBRARIES)}"
        )
    return words


def seen(runs: list[Outcome]) -> str:
    """Return in which releases a deviation was seen, in one sentence.

    ``runs`` are the outcomes of one script or function, in the order of the releases.
    """
    shown = [o.version for o in runs if o.verdict == "deviates"]
    ran = [o.version for o in runs if o.verdict in ("deviates", "conforms")]
    if not ran:
        return "no release judged gives an answer" if runs else "not run over releases"
    if shown and len(ran) == 1:
        only = "judged" if len(runs) == 1 else "that could be judged"
        return f"seen in {shown[0]}, the only release {only}"
    if not shown:
        return f"in none of {len(ran)} releases, {ran[0]} to {ran[-1]}"
    first, last = ran.index(shown[0]), ran.index(shown[-1])
    if first:
        begin = f"not in {ran[first - 1]}"
    elif ran[0] == runs[0].version:
        begin = "the first of the releases judged"
    else:
        begin = "the first that could be judged"
    if last + 1 < len(ran):
        end = f"not in {ran[last + 1]}"
    else:
        end = "the newest" + (" that could be judged" if ran[-1] != runs[-1].version else "")
    gaps = [version for version in ran[first:last] if version not in shown]
    text = f"first seen in {shown[0]}, {begin}; last seen in {shown[-1]}, {end}"
    return text + (f"; not in {', '.join(gaps)}" if gaps else "")


def page(every: list[Claim], outcomes: list[Outcome]) -> str:
    """Return the page."""
    runs: dict[tuple[str, str], list[Outcome]] = {}
    for o in outcomes:
        if o.kind == "script":
            runs.setdefault((o.group, o.label), []).append(o)
    counts = {kind: sum(c.entry.claim == kind for c in every) for kind in CLAIMS}
    head = ["library", "claim", "kind", "releases"]
    rows = [
        [
            claim.library,
            f"[{escaped(claim.entry.title)}](#claim-{n})",
            claim.entry.claim,
            escaped(seen(runs.get((claim.library, claim.script), []))),
        ]
        for n, claim in enumerate(every, 1)
    ]
    said = ", ".join(f"{n} {kind}" for kind, n in counts.items())
    parts = [
        "# Claims about libraries",
        "Written by `python tools/claims.py` from the claims of the surveys and from "
        "[libraries.ndjson](libraries.ndjson).",
        f"{len(every)} claims: {said}. A library's releases are those in "
        "[libraries.md](libraries.md); a deviation that the first of them shows may be older.",
        kinds(),
        "A setting is documented if the library's documentation or a docstring names it. A fault "
        "that the project itself labels a bug is a bug, even where weights were trained with it. "
        "Rounding is a matter of precision also where code beside it rounds less. Tables of "
        "positions that count padding on the left are a convention: the documentation of such "
        "models, as of BERT, BART, BioGPT and ProphetNet, advises to pad on the right.",
        "Each claim is verified twice: the judge, or a reader of the source, found it, "
        "and a script shows it with the library alone. The script shares no code with posenc_ref "
        "and ends in an assertion; it was run with the releases that are named.",
        markdown_table(head, rows),
        *(_section(n, claim, runs) for n, claim in enumerate(every, 1)),
    ]
    return "\n\n".join(parts) + "\n"


def _titled(claim: Claim) -> str:
    """Return the title, with the name of the library before it if it does not begin with it."""
    first = claim.entry.title.split(":")[0].lower().replace(" ", "-").replace("-", "")
    named = claim.library.replace("-", "") in first
    return claim.entry.title if named else f"{claim.library}: {claim.entry.title}"


def _section(n: int, claim: Claim, runs: dict[tuple[str, str], list[Outcome]]) -> str:
    entry, own = claim.entry, runs.get((claim.library, claim.script), [])
    silent = [o for o in own if o.verdict not in ("deviates", "conforms")]
    lines = [
        f"## Claim {n}",
        f"**{escaped(_titled(claim))}** ({entry.claim}).",
        entry.reason,
        f"- Reach: {entry.reach}",
        f"- Effect: {entry.effect}",
        f"- Evidence: {entry.evidence}",
        f"- Upstream: {entry.upstream}.",
        f"- Releases: {escaped(seen(own))}.",
    ]
    if silent:
        reasons: dict[str, list[str]] = {}
        for o in silent:
            reasons.setdefault(shorten(o.reason, 160), []).append(o.version)
        why = "; ".join(f"{', '.join(own)} ({escaped(text)})" for text, own in reasons.items())
        lines.append(f"- The script gives no answer in {why}.")
    lines.append(f"- Script: [{claim.script}]({claim.script})")
    top, bullets = lines[:3], lines[3:]
    return "\n\n".join([*top, "\n".join(bullets)])


def outcomes() -> list[Outcome]:
    """Return the outcomes of the report."""
    return list(read_ndjson(REPORT).result.outcomes) if REPORT.exists() else []


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    PAGE.write_text(page(claims(), outcomes()), encoding="utf-8")
