"""The words of the page: what verdicts mean, and foreign text with its links."""

import itertools
import re
import tomllib
from pathlib import Path

from markupsafe import Markup, escape

from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.show import NONE, visible
from posenc_ref.conformance.surveys.tables import WORDS, short_score

from .rows import Deviation, Function

ROOT = Path(__file__).resolve().parents[2]
#: The form for corrections, from the root of the repository on.
FORM = ".github/ISSUE_TEMPLATE/library.yml"
#: What each verdict says, and what it does not say.
MEANINGS = {
    "conforms": "The function equals the declaration that was read in the library's own source, "
    "within the tolerance of its dtype. It is no certificate of a model that calls the function.",
    "deviates": "The function differs from this declaration. If somebody has examined the "
    "difference, the row links to a claim, which says whether it is a fault and who meets it.",
    "undrivable": "The adapter, which was written for the newest release, cannot build or call the "
    "function in this release. The row gives the reason. Nothing is known of its numbers there.",
    "gap": "No encoding of posenc_ref describes the function, so it was not judged.",
    "inconclusive": "A required check could not be executed. The row says which one.",
    "error": "The process or the check failed. Nothing is known of the function's numbers.",
    "skipped": "Not judged, for the reason in the row.",
}
#: The word for each verdict of a function; "" is a release without the function.
OF_FUNCTIONS = {**WORDS, "": "no outcome"}
#: The word for each verdict of a script that shows a deviation.
OF_SCRIPTS = dict.fromkeys(MEANINGS, "does not run") | {
    "deviates": "shows it", "conforms": "does not show it", "": "was not run",
}  # fmt: skip
#: The marks, in the order of the page.
MARKS = ("conforms", "deviates", "shown", "undrivable", "gap", "inconclusive", "error", "skipped",
         "none")  # fmt: skip
#: The most characters of a reason or limit, of which there are hundreds; the report has the rest.
MOST = 120
_LINK = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|(?P<address>https://[^\s<>\"'`)\]]*[^\s<>\"'`)\].,;:])"
    r"|(?<![\w./-])(?P<issue>(?P<repository>[\w.-]+/[\w.-]+)#(?P<number>\d+))\b"
)


def prose(text: str) -> Markup:
    """Return foreign text as HTML: `code`, addresses and ``owner/repository#1`` become elements."""
    found, at = Markup(), 0
    for match in _LINK.finditer(text):
        found += escape(text[at : match.start()])
        at = match.end()
        if match["code"]:
            found += Markup("<code>{}</code>").format(match["code"])
        elif match["address"]:
            found += Markup('<a href="{0}">{0}</a>').format(match["address"])
        else:
            address = f"https://github.com/{match['repository']}/issues/{match['number']}"
            found += Markup('<a href="{}">{}</a>').format(address, match["issue"])
    return found + escape(text[at:])


def short(text: str) -> str:
    """Return text with at most :data:`MOST` characters."""
    return text if len(text) <= MOST else f"{text[: MOST - 2].rstrip()} …"


def limit(text: str) -> str:
    """Return a limit of a judgement without the message of the error that it quotes."""
    return short(re.sub(r" \(\w+(?:Error|Exception)\b.*\)(?=;|$)", "", text))


def summed(counts: dict[str, int]) -> str:
    """Return how many have each verdict, in one line."""
    return ", ".join(f"{n} {WORDS[verdict]}" for verdict, n in counts.items())


def mark(said: dict[str, str], verdict: str) -> str:
    """Return the id of the mark of a verdict.

    That a script shows a convention is no accusation, and that it does not is no praise: the marks
    of scripts are neither red nor green.
    """
    if said is OF_SCRIPTS:
        return {"deviates": "s-shown", "conforms": "s-skipped", "": "s-none"}.get(
            verdict, "s-undrivable"
        )
    return f"s-{verdict or 'none'}"


def score(outcome: Outcome) -> str:
    """Return the largest error in units, and how many units pass."""
    if outcome.worst is None:
        return NONE
    most = "" if outcome.budget is None else f" / {outcome.budget:g}"
    return f"{short_score(outcome.worst)}{most}"


def first_visible(outcome: Outcome) -> str:
    """Return the first position with a visible error, as `posenc verify` prints it."""
    return visible(outcome).replace("<=", "≤")


def lines(subject: Function | Deviation) -> list[tuple[list[str], Outcome]]:
    """Return the outcomes with their releases, the newest first.

    Outcomes that look the same, in releases one after the other, are one line.
    """

    def shown(o: Outcome) -> tuple[object, ...]:
        reason = "" if isinstance(subject, Function) else o.reason  # a function lists its reasons
        numbers = score(o), first_visible(o), o.precision, o.executed
        return o.verdict, o.codes, reason, *numbers

    found = []
    for n, dtype in enumerate(subject.dtypes):
        for _, run in itertools.groupby(subject.runs(dtype), shown):
            own = list(run)
            newest = subject.releases.index(own[-1].version)
            found.append((-newest, n, [o.version for o in own], own[-1]))
    found.sort(key=lambda line: line[:2])
    return [(own, outcome) for _, _, own, outcome in found]


def has_angles(found: list[tuple[list[str], Outcome]]) -> bool:
    """Return whether any of the lines of a function has what is measured of angles alone."""
    return any(o.precision or first_visible(o) != NONE for _, o in found)


def addresses() -> dict[str, str]:
    """Return the project's addresses; none as long as it has no public one.

    Until then they end in ``.example``, which exists nowhere (docs/releasing.md).
    """
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    urls = tomllib.loads(text)["project"]["urls"]
    return {} if ".example" in urls["Source"] else urls
