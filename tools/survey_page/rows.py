"""What the page shows: libraries with their functions, and the claims about them."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from posenc_ref.conformance.surveys.expected import Expected
from posenc_ref.conformance.surveys.record import Outcome
from tools.claims import seen

#: The verdicts in the order of the page.
ORDER = ("conforms", "deviates", "error", "inconclusive", "undrivable", "gap", "skipped")
#: The verdict of several dtypes is the first of these: what was not judged in one of them hides
#: nothing.
WORST = ("deviates", "error", "inconclusive", "conforms", "undrivable", "gap", "skipped")


def slug(name: str) -> str:
    """Return a name as a part of a link: its letters and digits, in lower case."""
    found = re.sub(r"[\W_]+", "-", name.casefold()).strip("-")
    if not found:
        raise ValueError(f"{name!r} must have a letter or a digit: a link is made of the name")
    return found


def counted(verdicts: Iterable[str]) -> dict[str, int]:
    """Return how often each verdict occurs, in the order of the page."""
    found = Counter(verdicts)
    return {verdict: found[verdict] for verdict in ORDER if found[verdict]}


@dataclass(frozen=True)
class Release:
    """A release of a library, and the environment in which it was judged."""

    name: str
    versions: dict[str, str]
    released: str = ""  #: the day of its publication, if known
    judged: str = ""  #: the day on which it was judged, if known


@dataclass
class Subject:
    """A function, or a script that shows a deviation, in every release."""

    library: str
    name: str
    releases: list[str]  #: all releases of the library, in their order
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def strip(self) -> list[tuple[str, str]]:
        """Return every release with its verdict in the first dtype, or "" if it has none."""
        return [(name, self.verdict(name, self.dtypes[0])) for name in self.releases]

    @property
    def bars(self) -> list[tuple[str, int, int]]:
        """Return the verdicts of :attr:`strip`: for each run its first release and its length."""
        found = []
        for verdict, run in itertools.groupby(enumerate(self.strip), lambda one: one[1][1]):
            places = [n for n, _ in run]
            found.append((verdict, places[0], len(places)))
        return found

    @property
    def dtypes(self) -> list[str]:
        """Return the dtypes, with the device if it is named, in the order of the report."""
        return list(dict.fromkeys(map(dtype_of, self.outcomes)))

    def verdict(self, release: str, dtype: str | None = None) -> str:
        """Return the verdict in a release, in one or all dtypes, or "" if there is none."""
        own = {
            o.verdict
            for o in self.outcomes
            if o.version == release and dtype in (None, dtype_of(o))
        }
        return next((verdict for verdict in WORST if verdict in own), "")

    def runs(self, dtype: str) -> list[Outcome]:
        """Return the outcomes in one dtype, in the order of the releases."""
        own = [o for o in self.outcomes if dtype_of(o) == dtype]
        return sorted(own, key=lambda o: self.releases.index(o.version))


def dtype_of(outcome: Outcome) -> str:
    """Return the dtype of an outcome, with its device if that is named."""
    return f"{outcome.dtype} {outcome.device}" if outcome.device else outcome.dtype


@dataclass(frozen=True)
class Finding:
    """What a function does wrong, and in which releases."""

    codes: tuple[str, ...]
    messages: tuple[str, ...]
    where: str  #: the dtype and the releases
    claim: "Deviation | None"


@dataclass
class Function(Subject):
    """A function of a library."""

    findings: list[Finding] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        """Return the name of its link, which depends on the names of library and function only."""
        return f"{slug(self.library)}/{slug(self.name)}"

    @property
    def encoding(self) -> str:
        """Return the declared encoding, or "" if the function was never built."""
        return next((o.encoding for o in reversed(self.outcomes) if o.encoding), "")

    @property
    def family(self) -> str:
        """Return the name of the declared encoding without its settings."""
        return self.encoding.partition("(")[0] or "none known"

    @property
    def gap(self) -> bool:
        """Return whether no encoding describes it."""
        return any(o.verdict == "gap" for o in self.outcomes)

    @property
    def surfaces(self) -> list[str]:
        """Return the surfaces on which it was judged."""
        return list(dict.fromkeys(o.surface for o in self.outcomes if o.surface))

    @property
    def source(self) -> str:
        """Return its file and name in the library, in the newest release that has it."""
        return next((o.source for o in reversed(self.outcomes) if o.source), "")

    @property
    def reasons(self) -> dict[str, list[str]]:
        """Return why there is no verdict, with the releases and dtypes of every reason."""
        return grouped((o.reason, o) for o in self.outcomes if o.reason)

    @property
    def newest(self) -> str:
        """Return the newest release with an outcome."""
        return max((o.version for o in self.outcomes), key=self.releases.index)

    @property
    def limits(self) -> tuple[str, ...]:
        """Return the limits of the judgement in that release."""
        own = (o.limits for o in self.outcomes if o.version == self.newest)
        return tuple(dict.fromkeys(itertools.chain.from_iterable(own)))


def grouped(pairs: Iterable[tuple[str, Outcome]]) -> dict[str, list[str]]:
    """Return for every text the releases that it is about; the dtypes do not matter."""
    found: dict[str, list[str]] = {}
    for text, outcome in pairs:
        own = found.setdefault(text, [])
        if outcome.version not in own:
            own.append(outcome.version)
    return found


@dataclass
class Deviation(Subject):
    """The claims that share a script, which shows the deviation without posenc_ref."""

    entries: list[Expected] = field(default_factory=list)
    text: str = ""  #: of the script
    shows: list[Function] = field(default_factory=list)  #: the functions on the page that have it

    @property
    def anchor(self) -> str:
        """Return the name of its link, which depends on the library and the path of the script."""
        parts = (self.library, *self.name.removesuffix(".py").split("/"))
        return "/".join(["claims", *map(slug, parts)])

    @property
    def where(self) -> str:
        """Return the releases in which the script shows the deviation."""
        return seen(self.runs("") if self.outcomes else [])

    @property
    def silent(self) -> dict[str, list[str]]:
        """Return why the script does not run or does not show it, with the releases."""
        return grouped((o.reason, o) for o in self.outcomes if o.reason)


@dataclass
class Library:
    """A library, its releases and its functions."""

    name: str
    releases: list[Release]
    functions: list[Function] = field(default_factory=list)
    failed: list[Outcome] = field(default_factory=list)  #: releases that could not be judged

    @property
    def anchor(self) -> str:
        """Return the name of its link."""
        return slug(self.name)

    @property
    def names(self) -> list[str]:
        """Return the names of its releases, in their order."""
        return [release.name for release in self.releases]

    @property
    def environments(self) -> dict[str, list[str]]:
        """Return the versions of other packages, each with the releases judged with them."""
        found: dict[str, list[str]] = {}
        for release in self.releases:
            said = ", ".join(f"{name} {version}" for name, version in release.versions.items())
            if said:
                found.setdefault(said, []).append(release.name)
        return found

    @cached_property
    def newest(self) -> Release:
        """Return the last release with a judged function, or the last one if there is none."""
        have = {o.version for f in self.functions for o in f.outcomes}
        return next((r for r in reversed(self.releases) if r.name in have), self.releases[-1])

    @cached_property
    def dtypes(self) -> list[str]:
        """Return the dtypes in which the newest release was judged."""
        every = (o for f in self.functions for o in f.outcomes if o.version == self.newest.name)
        return list(dict.fromkeys(map(dtype_of, every)))

    @property
    def latest(self) -> dict[str, int]:
        """Return the number of functions with each verdict in the newest release."""
        return counted(f.verdict(self.newest.name) for f in self.functions)

    def cell(self, family: str, dtype: str) -> dict[str, int]:
        """Return the numbers of an encoding in the newest release and one dtype."""
        own = (f for f in self.functions if f.family == family)
        return counted(f.verdict(self.newest.name, dtype) for f in own)

    def in_release(self, release: str) -> dict[str, int]:
        """Return the numbers in a release, of every function in the first of its dtypes."""
        return counted(f.verdict(release, f.dtypes[0]) for f in self.functions)

    @property
    def changed(self) -> list[Function]:
        """Return the functions that deviate in a release."""
        return [f for f in self.functions if any(o.verdict == "deviates" for o in f.outcomes)]


@dataclass
class Survey:
    """Everything that the page shows."""

    libraries: list[Library]
    deviations: list[Deviation]
    headers: list[dict[str, Any]]
    ours: int  #: outcomes about posenc_ref itself, which the page leaves out
    absent: list[str]  #: libraries that were not installed
    withdrawn: int  #: outcomes of scripts that no claim names any more, left out as well

    @property
    def families(self) -> list[str]:
        """Return the names of all encodings, the most frequent first."""
        found = Counter(f.family for one in self.libraries for f in one.functions)
        return [name for name, _ in found.most_common()]

    @property
    def outcomes(self) -> list[Outcome]:
        """Return the outcomes of all functions, with those of releases that failed."""
        own = [o for one in self.libraries for f in one.functions for o in f.outcomes]
        return own + [o for one in self.libraries for o in one.failed]

    @property
    def verdicts(self) -> list[str]:
        """Return the verdicts that occur; ok and deviations always."""
        every = {o.verdict for o in self.outcomes} | {"conforms", "deviates"}
        return [verdict for verdict in ORDER if verdict in every]

    @property
    def latest(self) -> dict[str, int]:
        """Return the number of functions with each verdict in the newest release of its library."""
        found: Counter[str] = sum((Counter(one.latest) for one in self.libraries), Counter())
        return {verdict: found[verdict] for verdict in ORDER if found[verdict]}
